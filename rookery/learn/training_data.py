"""Encode episodes and comparisons as the tokens that models learn from.

What is left out is counted, by its reason.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

from rookery.answers.training_rows import (
    describe_rows,
    read_demonstration_rows,
    read_preference_rows,
    read_rows,
)
from rookery.browser.browser import replace_surrogates
from rookery.browser.page_view import PageViewCache
from rookery.browser.rollout import replay_episode
from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import ActionRow, TokenIds, list_allowed_ids
from rookery.learn.pretrained_models import LoadedModel, choose_end_token, tokenize_prompt
from rookery.learn.reward_model import RewardInputEncoder
from rookery.library.call_recording import CallRecording
from rookery.models.remote_model import AllowedTokens
from rookery.records import (
    Answer,
    Comparison,
    Completion,
    Episode,
    Failure,
    Question,
    Quote,
    Rating,
)
from rookery.typed_files import read_json_lines

GOOD_RATING = 0.5
"""of a rating from 0 to 1; half of the raters, where they said yes or no"""


class EpisodeFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions for the episodes that are imitated."""

    answered: bool = True
    """only those that ended with an answer, which was not declined"""
    score: float | None = None
    """only those whose answer scores as much, or more"""
    by: tuple[str, ...] = ()
    """only theirs; empty: everybody's"""
    rated: tuple[str, ...] = ()
    """only those whose answer raters found good on each of these scales: 0.5 or more on average
    (GopherCite, section 2.7: plausible and supported)"""


class ImitationExample(NamedTuple):
    """One step as token ids: the prompt, and the target that is to be generated."""

    question: str
    """in words: what was asked twice is one question"""
    said: str
    row: ActionRow


PromptConstraint = Callable[[str], AllowedTokens]
"""from a prompt to the function that says, after the tokens so far, which ids may follow; or to
None, where any may"""


class ImitationExamples(NamedTuple):
    """The examples to imitate, and counts of those left out, by reason."""

    found: list[ImitationExample]
    left_out: Counter[str]


def read_episodes(
    paths: Sequence[Path], recording: CallRecording | None = None
) -> Iterator[Episode]:
    """Yield the episodes of these files, or of the rows of another library, in their order.

    Prompts that are not stored are built again from the recording. Raises Failed: not_found,
    bad_line, no_prompts where no recording is given, and what `replay_episode` raises.
    """
    views = PageViewCache()
    for path in paths:
        rows = describe_rows(path)
        for episode in read_demonstration_rows(path, "rows") if rows else read_rows(path, Episode):
            if all(step.prompt for step in episode.steps):
                yield episode
            elif recording is None:
                detail = "its prompts are not stored: name the recording of its run"
                raise Failed(Failure(f"{path}: {episode.question.id}", Outcome.NO_PROMPTS, detail))
            else:
                yield replay_episode(episode, recording, views)


class AnswerRatings:
    """Ratings of answers, found by an answer's text and quotes."""

    def __init__(self, ratings: Iterable[Rating] = ()) -> None:
        self._values: defaultdict[tuple[_AnswerKey, str], list[float]] = defaultdict(list)
        for rating in ratings:
            key = _make_answer_key(rating.question.text, rating.answer)
            self._values[key, rating.scale].append(rating.value)

    def is_good(self, episode: Episode, scales: Sequence[str]) -> bool:
        """Return whether the answer's ratings are 0.5 or more on average on each of these scales.

        An answer without a rating on one of them, or no answer, is not good.
        """
        if episode.answer is None:
            return False
        key = _make_answer_key(episode.question.text, episode.answer)
        values = [self._values.get((key, scale), []) for scale in scales]
        return all(each and sum(each) / len(each) >= GOOD_RATING for each in values)


_AnswerKey = tuple[str, str, tuple[Quote, ...]]


def _make_answer_key(question: str, answer: Answer) -> _AnswerKey:
    """Return an answer as raters saw it: its score is none of theirs."""
    return question, answer.text, answer.quotes


def find_exclusion_reason(episode: Episode, chosen: EpisodeFilter, judged: AnswerRatings) -> str:
    """Return why an episode is not to be imitated; empty if it is."""
    answer = episode.answer
    if chosen.by and episode.by not in chosen.by:
        return "episodes by others"
    if chosen.answered and (answer is None or answer.declined):
        return "episodes without an answer"
    score = None if answer is None else answer.score
    if chosen.score is not None and (score is None or not score >= chosen.score):
        return f"episodes whose answer does not score {chosen.score:g}"
    if chosen.rated and not judged.is_good(episode, chosen.rated):
        return f"episodes not rated {' and '.join(chosen.rated)}"
    return ""


def build_imitation_examples(
    episodes: Iterable[Episode],
    loaded: LoadedModel,
    chosen: EpisodeFilter = EpisodeFilter(),
    judged: AnswerRatings | None = None,
    chat: bool | None = None,
    constrain: PromptConstraint | None = None,
) -> ImitationExamples:
    """Return every step of the chosen episodes as tokens, and counts of what was left out.

    A step whose prompt and target together do not fit into the model's context is left out: a
    prompt that is cut shows a state that nobody acted on. With `constrain` each row has the ids
    that its tokens could be sampled from, and a step whose target the constraint forbids is left
    out.
    """
    examples: list[ImitationExample] = []
    left_out: Counter[str] = Counter()
    for episode in episodes:
        if reason := find_exclusion_reason(episode, chosen, judged or AnswerRatings()):
            left_out[reason] += 1
            continue
        for step in episode.steps:
            row = ActionRow(
                array("i", tokenize_prompt(loaded.tokenizer, step.prompt, chat)),
                array("i", encode_target(step.said, loaded)),
            )
            reason = _describe_overlength(row, loaded.context)
            allow = constrain(step.prompt) if constrain and not reason else None
            if allow is not None:
                row = row._replace(allowed=list_allowed_ids(row.action, allow))
                if row.allowed is None:
                    reason = "steps whose target the constraint forbids"
            if reason:
                left_out[reason] += 1
            else:
                examples.append(ImitationExample(episode.question.text, step.said.text, row))
    return ImitationExamples(examples, left_out)


def _describe_overlength(row: ActionRow, context: int) -> str:
    if len(row.action) >= context:
        return f"steps whose target is longer than the {context} tokens of the context"
    if len(row.context) + len(row.action) > context:
        return f"steps whose prompt and target are longer than the {context} tokens of the context"
    return ""


def encode_target(completion: Completion, loaded: LoadedModel) -> list[int]:
    """Return the token ids of a target text, with an end token last unless the text was cut off.

    They are those recorded with it where these spell the text in the model's vocabulary; else the
    text is tokenized anew.
    """
    tokens, end = list(completion.tokens), choose_end_token(loaded.tokenizer, loaded.ends)
    if tokens and tokens[-1] in loaded.ends:
        end = tokens.pop()
    if not tokens or _decode_tokens(tokens, loaded) != completion.text:
        tokens = _tokenize_text(completion.text, loaded)
    return tokens if completion.stop == "length" and tokens else [*tokens, end]


def _decode_tokens(tokens: Sequence[int], loaded: LoadedModel) -> str | None:
    """Return the text of these tokens; None where one of them is no text of this vocabulary."""
    known = loaded.vocabulary.tokens
    if any(not 0 <= token < len(known) or known[token] is None for token in tokens):
        return None
    return loaded.vocabulary.decode(tokens).decode("utf-8", "replace")


def _tokenize_text(text: str, loaded: LoadedModel) -> list[int]:
    """Return the tokens of a text; a text that looks like a special token stays text."""
    encoded = loaded.tokenizer(
        replace_surrogates(text), add_special_tokens=False, split_special_tokens=True, verbose=False
    )
    return list(encoded["input_ids"])


def choose_validation_questions(questions: Iterable[str], share: float, seed: int) -> set[str]:
    """Draw this share of the question texts for validation, at least one and never all.

    Empty for a share of 0; otherwise there must be a question. Raises Failed (one_question) where
    there is but one.
    """
    if not share:
        return set()
    texts = sorted(set(questions))
    if len(texts) < 2:
        detail = "one question cannot be shared out: add others, or let validation be 0"
        raise Failed(Failure(texts[0][:80], Outcome.ONE_QUESTION, detail))
    size = min(max(round(share * len(texts)), 1), len(texts) - 1)
    return set(Random(f"{seed} validation").sample(texts, size))


def describe_left_out(left_out: Counter[str]) -> str:
    """Return the counts and reasons of what was left out, as one line; empty if nothing was."""
    return ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())


QuestionAnswer = tuple[Question, Answer]


class ComparisonItem(NamedTuple):
    """Answers to one question that are judged together."""

    question: str
    rows: tuple[TokenIds, ...]
    """what is shown of each answer; only one where it was rated and never compared"""
    weights: tuple[float, ...]
    """of each in the comparison; sum to 1, or all 0: it does not count"""
    good: tuple[float, ...]
    """of each, whether raters found it good, 1 or 0; not a number where nobody rated it"""
    by: str = ""

    @property
    def is_comparison(self) -> bool:
        """True if the item says which answer is better."""
        return len(self.rows) > 1 and any(self.weights)

    @property
    def rated_count(self) -> int:
        """The number of its answers that have ratings."""
        return sum(not math.isnan(good) for good in self.good)

    @property
    def longest_length(self) -> int:
        """Number of tokens of the longest row."""
        return max(map(len, self.rows))


class ComparisonSplit(NamedTuple):
    """Comparisons for training and for validation, and counts of those that were cut or left
    out."""

    training: list[ComparisonItem]
    validation: list[ComparisonItem]
    too_long: int
    """comparisons and ratings left out, since a question and an answer of theirs alone have more
    tokens than the model reads"""
    cut: int
    """answers that were shown without some tokens of their quotes or pages"""


def load_comparisons(path: Path) -> list[Comparison]:
    """Load the comparisons of a file, or of the rows of another library or a dataset.

    Raises Failed: not_found, bad_line, no_data where it has none, one_sided where each is a tie of
    all its answers.
    """
    rows = describe_rows(path)
    comparisons = list(read_preference_rows(path, "rows") if rows else read_rows(path, Comparison))
    if not comparisons:
        detail = "there are no comparisons in it: write one Comparison as JSON a line"
        raise Failed(Failure(str(path), Outcome.NO_DATA, detail))
    for number, each in enumerate(comparisons, 1):
        if len(each.answers) < 2 or not all(0 <= weight <= 1 for weight in each.weights):
            detail = (
                f"comparison {number} is to have two answers at least, and weights from 0 to 1: "
                "mend it or take it out"
            )
            raise Failed(Failure(str(path), Outcome.BAD_LINE, detail))
    if all(max(each.weights) == min(each.weights) for each in comparisons):
        detail = "every comparison is a tie of all its answers, which teaches nothing: add others"
        raise Failed(Failure(str(path), Outcome.ONE_SIDED, detail))
    return comparisons


def load_answer_pairs(path: Path) -> list[QuestionAnswer]:
    """Load pairs of question and answer from a file of Episodes or of Comparisons.

    Episodes without an answer are left out. Raises Failed: not_found, bad_line, no_data where no
    answer is left.
    """
    try:
        episodes = list(read_json_lines(path, Episode))
        pairs = [(each.question, each.answer) for each in episodes if each.answer is not None]
    except Failed as failed:
        if failed.failure.outcome != Outcome.BAD_LINE:
            raise
        several = read_json_lines(path, Comparison)
        pairs = [(each.question, answer) for each in several for answer in each.answers]
    if not pairs:
        detail = "there are no answers in it: write one Episode or Comparison as JSON a line"
        raise Failed(Failure(str(path), Outcome.NO_DATA, detail))
    return pairs


def load_good_answers(path: Path, scales: Sequence[str]) -> dict[QuestionAnswer, float]:
    """Load ratings as 1 for each answer that raters found good on all of these scales, else 0.

    Good is 0.5 or more on average (GopherCite, section 2.7: both supported and plausible). Answers
    that were not rated on all of the scales are left out. Raises Failed: not_found, bad_line,
    no_data where none is left, and one_sided where all are good or none is.
    """
    values: dict[QuestionAnswer, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rating in read_json_lines(path, Rating):
        if not 0 <= rating.value <= 1:
            detail = f"a rating has the value {rating.value:g}: write 0 for no and 1 for yes"
            raise Failed(Failure(str(path), Outcome.BAD_LINE, detail))
        values[normalize_pair(rating.question, rating.answer)][rating.scale].append(rating.value)
    good_answers = {
        pair: float(all(sum(by[scale]) >= GOOD_RATING * len(by[scale]) for scale in scales))
        for pair, by in values.items()
        if all(scale in by for scale in scales)
    }
    named = " and ".join(scales)
    if not good_answers:
        detail = f"nobody rated an answer on {named}: name other scales, or leave ratings empty"
        raise Failed(Failure(str(path), Outcome.NO_DATA, detail))
    if len(set(good_answers.values())) == 1:
        detail = f"all answers are rated alike ({named}), which teaches nothing: add others"
        raise Failed(Failure(str(path), Outcome.ONE_SIDED, detail))
    return good_answers


def normalize_pair(question: Question, answer: Answer) -> QuestionAnswer:
    """Return a question with its text and pages alone, and an answer without its score.

    So pairs that people saw alike compare equal.
    """
    plain = Question("", question.text, question.pages)
    return plain, msgspec.structs.replace(answer, score=None)


def build_comparison_items(
    compared: Sequence[Comparison],
    good: Mapping[QuestionAnswer, float],
    showing: RewardInputEncoder,
    validation: float,
    seed: int,
) -> ComparisonSplit:
    """Encode comparisons and rated answers as tokens, and hold out a share of the questions.

    Evidence is cut to fit the context. `good` has 1 or 0 for each rated answer; those that were
    never compared are items of one answer. Raises Failed: too_long where no comparison is left,
    few_questions where none would be left to learn from.
    """
    groups = [
        (tuple((each.question, answer) for answer in each.answers), each.weights, each.by)
        for each in compared
    ]
    compared_pairs = {normalize_pair(*pair) for answer_pairs, *_ in groups for pair in answer_pairs}
    groups += [((pair,), (0.0,), "") for pair in good if pair not in compared_pairs]
    items, left_out, cut = [], 0, 0
    for answer_pairs, weights, by in groups:
        try:
            rows = [showing.encode_answer(*pair) for pair in answer_pairs]
        except Failed:
            left_out += 1
            continue
        cut += sum(row.cut_tokens > 0 for row in rows)
        tokens = tuple(np.asarray(row.tokens, np.int32) for row in rows)
        rated = tuple(good.get(normalize_pair(*pair), math.nan) for pair in answer_pairs)
        items.append(ComparisonItem(answer_pairs[0][0].text, tokens, weights, rated, by))
    if not any(item.is_comparison for item in items):
        detail = f"no comparison fits into {showing.context} tokens: use a longer context"
        raise Failed(Failure("comparisons", Outcome.TOO_LONG, detail))
    return ComparisonSplit(*_split_by_question(items, validation, seed), left_out, cut)


def _split_by_question(
    items: Sequence[ComparisonItem], share: float, seed: int
) -> tuple[list[ComparisonItem], list[ComparisonItem]]:
    """Split the items so that no question is on both sides."""
    questions = sorted({item.question for item in items if item.is_comparison})
    Random(f"{seed} validation").shuffle(questions)
    count = math.ceil(share * len(questions))
    if count == len(questions):
        detail = f"there are {count} questions: add more, or let validation be 0"
        raise Failed(Failure("comparisons", Outcome.FEW_QUESTIONS, detail))
    validation_questions = set(questions[:count])
    trained = [item for item in items if item.question not in validation_questions]
    return trained, [item for item in items if item.question in validation_questions]


def make_epoch_batches(number: int, size: int, epochs: int, seed: int) -> list[list[int]]:
    """Return the indices of the items of each step of all epochs; every epoch has a new order."""
    found = []
    for epoch in range(epochs):
        order = list(range(number))
        Random(f"{seed} order {epoch}").shuffle(order)
        found += [order[at : at + size] for at in range(0, number, size)]
    return found
