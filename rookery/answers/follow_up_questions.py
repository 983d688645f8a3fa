"""Follow-up questions, rewritten so that they stand alone (Elgohary and others 2019, section 3)."""

import re
from collections.abc import Callable, Sequence

MOST_CONTEXT_CHARACTERS = 600
"""characters of the questions before; longer ones are not added"""
MOST_FRAGMENT_WORDS = 3
"""words of a question that is too short to stand alone, such as `Why not?`"""
MOST_POINTING_WORDS = 9
"""words of a question in which "they" points back; in a longer one it points to its own subject"""
FOLLOW_UP_PROMPT = """Rewrite the last question of a conversation so that it can be understood \
without the others: put the names of things in place of words such as "it", "they" or "there", and \
add what was left out. Change nothing else, and do not answer. If it can be understood already, \
repeat it as it is.

Question: Who wrote Middlemarch?
Question: When was she born?
Rewritten: When was the writer of Middlemarch born?

Question: How do I list the tables of a database in psql?
Question: How tall is the Eiffel Tower?
Rewritten: How tall is the Eiffel Tower?

{earlier}
Question: {question}
Rewritten:"""
"""prompt of `rewrite_by_model`"""
_BEGINS_AGAIN = re.compile(r"(?:and|but|so|what about|how about)\b", re.IGNORECASE)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those|same|instead"
    r"|else|there)\b",
    re.IGNORECASE,
)


def join_questions(questions: Sequence[str]) -> str:
    """Return the last question of a conversation, and after it those on which it leans.

    It leans on the one before if it is short or begins with "and", or is not long and has a word
    that points back, such as "they". Any other stays to the letter.
    """
    joined = ""
    for question in questions:
        before = joined.strip() if len(joined) <= MOST_CONTEXT_CHARACTERS else ""
        joined = (
            f"{question.strip()} {before}" if before and _leans_on_earlier(question) else question
        )
    return joined


def _leans_on_earlier(question: str) -> bool:
    words = len(question.split())
    if words <= MOST_FRAGMENT_WORDS or _BEGINS_AGAIN.match(question.strip()):
        return True
    return words <= MOST_POINTING_WORDS and _POINTS_BACK.search(question) is not None


def rewrite_by_model(
    question: str, earlier: Sequence[str], complete: Callable[[str], str]
) -> str | None:
    """Have a model rewrite a question so that it stands alone without the `earlier` ones.

    `complete` returns what the model writes after a prompt. Returns None where that is no single
    question of a plausible length.
    """
    listed = "\n".join(f"Question: {' '.join(each.split())}" for each in earlier)
    reply = complete(FOLLOW_UP_PROMPT.format(earlier=listed, question=" ".join(question.split())))
    lines = reply.strip().splitlines()
    rewritten = lines[0].removeprefix("Rewritten:").strip().strip('"') if lines else ""
    longest = 2 * (len(question) + max(map(len, earlier), default=0))
    return rewritten if rewritten and len(rewritten) <= longest else None
