"""Match gold answers in texts."""

import re

from rookery.pages.text_folding import fold_text
from rookery.records import Answer, Question


def contains_gold_answer(text: str, gold: str) -> bool:
    """Return True if a text contains a gold answer as whole words, typography and case ignored."""
    wanted = fold_text(gold).text.strip(" .,;:!?\"'")
    pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)"
    return bool(wanted) and re.search(pattern, fold_text(text).text) is not None


def is_correct_answer(question: Question, answer: Answer | None) -> bool:
    """Return True if the answer's text and one of its quotes contain the same gold answer."""
    return answer is not None and any(
        contains_gold_answer(answer.text, gold)
        and any(contains_gold_answer(each.text, gold) for each in answer.quotes)
        for gold in question.gold
    )
