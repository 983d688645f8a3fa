"""Steps of episodes to be imitated: which are chosen, and as which tokens. Nothing is learnt here.

It knows nothing of how episodes came about. What is left out is counted, by its reason.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from rookery.browse.browser import Views
from rookery.browse.recording import Recording
from rookery.draft.rollout import replayed, writable
from rookery.judge.lines import read_lines
from rookery.learn.loading import Loaded
from rookery.learn.prompt import prompt_tokens
from rookery.learn.rows import Row
from rookery.records import Answer, Completion, Episode, Failed, Failure, Quote, Rating

GOOD = 0.5
"""of a rating from 0 to 1; half of the raters, where they said yes or no"""


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which episodes are imitated."""

    answered: bool = True
    """only those that ended with an answer, which was not declined"""
    score: float | None = None
    """only those whose answer scores as much, or more"""
    by: tuple[str, ...] = ()
    """only theirs; empty: everybody's"""
    rated: tuple[str, ...] = ()
    """only those whose answer raters found good on each of these scales: 0.5 or more on average
    (GopherCite, section 2.7: plausible and supported)"""


class Example(NamedTuple):
    """One step: what was shown, and what was said."""

    question: str
    """in words: what was asked twice is one question"""
    said: str
    row: Row


class Examples(NamedTuple):
    """What is imitated, and how much is not, by the reason."""

    found: list[Example]
    left_out: Counter[str]


def read_episodes(paths: Sequence[Path], recording: Recording | None = None) -> Iterator[Episode]:
    """The episodes of these files, in their order.

    Prompts that are not stored are built again from the recording. Raises Failed: not_found,
    bad_line, no_prompts where no recording is given, and what `replayed` raises.
    """
    views = Views()
    for path in paths:
        for episode in read_lines(path, Episode):
            if all(step.prompt for step in episode.steps):
                yield episode
            elif recording is None:
                detail = "its prompts are not stored: name the recording of its run"
                raise Failed(Failure(f"{path}: {episode.question.id}", "no_prompts", detail))
            else:
                yield replayed(episode, recording, views)


class Judged:
    """What raters said of answers, by the answer's own words and quotes."""

    def __init__(self, ratings: Iterable[Rating] = ()) -> None:
        self._values: defaultdict[tuple[_Key, str], list[float]] = defaultdict(list)
        for rating in ratings:
            key = _key(rating.question.text, rating.answer)
            self._values[key, rating.scale].append(rating.value)

    def is_good(self, episode: Episode, scales: Sequence[str]) -> bool:
        """Whether each scale was used, and its ratings are good on average."""
        if episode.answer is None:
            return False
        key = _key(episode.question.text, episode.answer)
        values = [self._values.get((key, scale), []) for scale in scales]
        return all(each and sum(each) / len(each) >= GOOD for each in values)


_Key = tuple[str, str, tuple[Quote, ...]]


def _key(question: str, answer: Answer) -> _Key:
    """An answer as raters saw it: its score is none of theirs."""
    return question, answer.text, answer.quotes


def why_not(episode: Episode, chosen: Chosen, judged: Judged) -> str:
    """Why an episode is not to be imitated; empty where it is."""
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


def examples(
    episodes: Iterable[Episode],
    loaded: Loaded,
    chosen: Chosen = Chosen(),
    judged: Judged | None = None,
    chat: bool | None = None,
) -> Examples:
    """Every step of the chosen episodes, as tokens of this model.

    A step whose prompt and target together do not fit into the model's context is left out: a
    prompt that is cut shows a state that nobody acted on.
    """
    found: list[Example] = []
    left_out: Counter[str] = Counter()
    for episode in episodes:
        if reason := why_not(episode, chosen, judged or Judged()):
            left_out[reason] += 1
            continue
        for step in episode.steps:
            row = Row(
                array("i", prompt_tokens(loaded.tokenizer, step.prompt, chat)),
                array("i", target(step.said, loaded)),
            )
            if reason := _too_long(row, loaded.context):
                left_out[reason] += 1
            else:
                found.append(Example(episode.question.text, step.said.text, row))
    return Examples(found, left_out)


def _too_long(row: Row, context: int) -> str:
    if len(row.action) >= context:
        return f"steps whose target is longer than the {context} tokens of the context"
    if len(row.context) + len(row.action) > context:
        return f"steps whose prompt and target are longer than the {context} tokens of the context"
    return ""


def target(said: Completion, loaded: Loaded) -> list[int]:
    """The tokens that the model is to say: those that were said, where they are its own.

    They are where they spell the text in its vocabulary; else the text is cut into tokens. An end
    token stands last, unless the text was cut off, where saying no more would be wrong.
    """
    tokens, end = list(said.tokens), _end(loaded)
    if tokens and tokens[-1] in loaded.ends:
        end = tokens.pop()
    if not tokens or _spelt(tokens, loaded) != said.text:
        tokens = _cut(said.text, loaded)
    return tokens if said.stop == "length" and tokens else [*tokens, end]


def _end(loaded: Loaded) -> int:
    usual = loaded.tokenizer.eos_token_id
    return int(usual) if usual in loaded.ends else min(loaded.ends)


def _spelt(tokens: Sequence[int], loaded: Loaded) -> str | None:
    """The text of these tokens; None where one of them is no text of this vocabulary."""
    known = loaded.vocabulary.tokens
    if any(not 0 <= token < len(known) or known[token] is None for token in tokens):
        return None
    return loaded.vocabulary.spelt(tokens).decode("utf-8", "replace")


def _cut(text: str, loaded: Loaded) -> list[int]:
    """What a text spells out that looks like a special token is text."""
    encoded = loaded.tokenizer(
        writable(text), add_special_tokens=False, split_special_tokens=True, verbose=False
    )
    return list(encoded["input_ids"])


def held_out(found: Sequence[Example], share: float, seed: int) -> set[str]:
    """This share of the questions, one at least: the steps of one tell too much of each other.

    Raises Failed (one_question).
    """
    questions = sorted({example.question for example in found})
    if share and len(questions) < 2:
        detail = "one question cannot be shared out: add others, or let validation be 0"
        raise Failed(Failure(questions[0][:80], "one_question", detail))
    size = min(max(round(share * len(questions)), 1), len(questions) - 1) if share else 0
    return set(Random(f"{seed} validation").sample(questions, size))


def worded(left_out: Counter[str]) -> str:
    """What was left out, as a person reads it; empty where nothing was."""
    return ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
