"""Rewards and policies of one's own: both forms of a reward, and mistakes with file and line."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import rookery
from rookery import Answer, Question
from rookery.answers.best_of_n import BestOfNSettings, answer_with_best_draft, sample_drafts
from rookery.python_objects import OwnCodeError, OwnPolicy, OwnReward
from rookery.records import Claim, Completion, Page
from rookery.settings import ModelSettings

ASKED = Question("1", "Where do rooks nest?")
PAIRS = [(ASKED, Answer(text)) for text in ("In elms.", "In tall elms.")]
PAGE = Page("note:1", "Rooks", "Rooks nest in elms.")


def short(question: Question, answer: Answer) -> float:
    return -len(answer.text)


def short_of_pairs(pairs: list[tuple[Question, Answer]]) -> list[float]:
    return [-len(answer.text) for _, answer in pairs]


class Short:
    def __call__(self, question: Question, answer: Answer) -> float:
        return -len(answer.text)

    def score_pairs(
        self, pairs: Sequence[tuple[Question, Answer]], scale: float = 1
    ) -> list[float]:
        return [-scale * len(answer.text) for _, answer in pairs]


class Model(Short):
    def score_answers(self, pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [-len(answer.text) for _, answer in pairs]


def scaled(scale: float, question: Question, answer: Answer) -> float:
    return -scale * len(answer.text)


@pytest.mark.parametrize(
    "function",
    [
        short,
        short_of_pairs,
        Short(),
        Short().score_pairs,
        Model(),
        OwnReward(short),
        OwnReward(short).score_answers,
        functools.partial(scaled, 1),
        lambda question, answer, scale=1: -scale * len(answer.text),
        lambda *pair: -len(pair[1].text),
        lambda question, answer: np.float32(-len(answer.text)),
        lambda pairs: np.array([-len(answer.text) for _, answer in pairs]),
        lambda pairs: (-len(answer.text) for _, answer in pairs),
    ],
)
def test_each_form_of_a_reward_gives_the_same_numbers(function: Any) -> None:
    reward = OwnReward(function)
    assert reward.score_answers(PAIRS) == [-8.0, -13.0]
    assert reward(*PAIRS[1]) == -13.0
    assert reward.score_answers([]) == []
    assert reward.score_example(ASKED) is reward


def test_nan_is_no_score_and_no_example() -> None:
    reward = OwnReward(lambda question, answer: math.nan)
    assert math.isnan(reward(*PAIRS[0]))
    with pytest.raises(OwnCodeError, match="gave nan for an example: return a finite number"):
        reward.score_example(ASKED)


def fail(question: Question, answer: Answer) -> float:
    raise KeyError("weight")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fail, "fail: KeyError: 'weight' ({file}, line {next})"),
        (lambda question, answer: None, "it gave None: return a number ({file}, line {line})"),
        (lambda question, answer: "1", "it gave '1': return a number ({file}, line {line})"),
        (lambda pairs: [1.0], "it gave [1.0]: return a list of 2 numbers ({file}, line {line})"),
        (lambda pairs: 1.0, "it gave 1.0: return a list of 2 numbers ({file}, line {line})"),
        (lambda pairs: None, "it gave None: return a list of 2 numbers ({file}, line {line})"),
    ],
)
def test_a_mistake_in_use_names_file_and_line(function: Callable[..., Any], words: str) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises(OwnCodeError) as raised:
        OwnReward(function).score_answers(PAIRS)
    assert words.format(file=__file__, line=line, next=line + 1) in str(raised.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: 1.0, "let it take (question, answer), or a list of such pairs"),
        (scaled, "it takes (scale: float, question: "),
        (Short, "Short: it is no function of a question and an answer"),
        ({"weight": 1}, "dict: it is no function of a question and an answer"),
    ],
)
def test_what_is_no_reward_is_refused_before_it_is_used(value: Any, words: str) -> None:
    with pytest.raises(OwnCodeError) as raised:
        OwnReward(value)
    assert words in str(raised.value)


def test_samples_are_scored_with_one_call_of_a_batch_form() -> None:
    calls = []

    def score(pairs: list[tuple[Question, Answer]]) -> list[float]:
        calls.append([answer.text for _, answer in pairs])
        return [float(len(answer.text)) for _, answer in pairs]

    def read(text: str) -> Answer:
        return Answer(text, (PAGE.quote(0, 19),), (Claim(0, len(text), (0,)),))

    texts = ["In elms.", "", "In tall elms.", "In an elm."]
    policy = OwnPolicy(Saying(*texts))
    episode = answer_with_best_draft(
        ASKED,
        "webglm",
        lambda n: sample_drafts(policy, "prompt", n, read),
        BestOfNSettings(4, OwnReward(score)),
    )
    assert calls == [["In elms.", "In tall elms.", "In an elm."]]
    assert episode.answer is not None
    assert (episode.answer.text, episode.answer.score) == ("In tall elms.", 13.0)


class Saying:
    """A policy that says these texts."""

    name = "saying"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def complete(self, prompt: str, n: int = 1, allow: object = None) -> list[Completion]:
        return [Completion(text) for text in self.texts][:n]


def test_the_front_door_takes_a_policy_and_a_reward(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "rooks.txt").write_text(PAGE.text)
    settings = rookery.Settings(models=ModelSettings(samples=2), ranker="words")
    policy = Saying("Rooks nest in elms near farms.[1]", "Rooks nest in elms.[1]")
    answer = rookery.ask(ASKED, tmp_path / "notes", settings=settings, policy=policy, reward=short)
    assert (answer.text, answer.score) == ("Rooks nest in elms.", -19.0)
    places = (tmp_path / "notes",)
    [episode] = rookery.ask_many(
        [ASKED], *places, settings=settings, policy=policy, reward=lambda q, a: len(a.text)
    )
    assert episode.answer is not None
    assert episode.answer.score == 30.0
    with pytest.raises(ValueError, match=r"fail: KeyError: 'weight' \(.*python_objects.py, line"):
        rookery.ask(ASKED, *places, settings=settings, policy=policy, reward=fail)
    with pytest.raises(ValueError, match=r"complete gave .*: return 2 rookery\.Completion"):
        rookery.ask(ASKED, *places, settings=settings, policy=Saying("Rooks."))


def test_choosing_by_two_is_refused_and_a_reward_leaves_recordings_as_they_are() -> None:
    with pytest.raises(ValueError, match="leave one of them out"):
        ModelSettings(choose_by="evidence", reward="python:own.short")
    named = ModelSettings(model="m", reward="python:own.short")
    assert named.to_cache_key() == ModelSettings(model="m").to_cache_key()
