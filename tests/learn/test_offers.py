"""A policy that chooses: nothing is said but what is offered, and learning knows what was."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from small import CROWS, MAGPIES, logprobs

from rookery.browse.observation import summary
from rookery.browse.read import read
from rookery.browse.rules import Rules
from rookery.browse.shelf import Shelf
from rookery.draft.offered import offered
from rookery.learn.models import Trained, read_model
from rookery.learn.offers import Offering, browsed
from rookery.learn.played import Played, Sampler
from rookery.learn.rows import Ids
from rookery.learn.sample import Sampled, Sampling, sample
from rookery.learn.scratch import write_blank
from rookery.learn.worlds import BrowserWorld, Browsing
from rookery.learn.worlds_speech import Speech, speech_of
from rookery.records import Answer, Question

TOKENS = 60
LIBRARY = Shelf(
    read(f"<title>{title}</title><p>{words}</p>".encode(), f"https://a.org/{title}", "text/html")
    for title, words in (("Crow", CROWS), ("Magpie", MAGPIES))
)
QUESTIONS = [
    Question("crows", "What do crows remember?"),
    Question("mirrors", "Who knows itself in a mirror?"),
]
BROWSING = Browsing(rules=Rules(actions=8, overlap=0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("blank")
    write_blank(made, [CROWS, MAGPIES, summary("", "", "", "", (0, 0))], 400, 2048, 16, 1)
    return made


@pytest.fixture(scope="module")
def speech(folder: Path) -> Speech:
    return speech_of(folder, TOKENS, chat=False)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return read_model(Trained(str(folder)))


@pytest.fixture(scope="module")
def played(model: Any, speech: Speech) -> list[Played]:
    def drawn(contexts: Any, seeds: Any, allow: Any = None) -> list[Sampled]:
        return sample(model, contexts, seeds, speech.ends, Sampling(TOKENS), allow)

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [1.0] * len(pairs)

    world = BrowserWorld(QUESTIONS, LIBRARY, scores, speech, BROWSING)
    return Offering(world, speech, offered).play(drawn, range(8), seed=1)


class Asks:
    """A world that asks once, and gives nothing back."""

    def __init__(self, speech: Speech) -> None:
        self._speech = speech

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        sample([self._speech.context("?")], ["0"])
        return []


def test_a_policy_that_knows_nothing_says_only_what_is_offered(
    played: list[Played], speech: Speech
) -> None:
    for one in (one for each in played for one in each.rows):
        assert one.ended
        assert speech.text(one.row.action) in offered(speech.text(one.row.context))


def test_so_it_comes_to_answers(played: list[Played]) -> None:
    assert any(one.reward == 1.0 for one in played)


def within(allowed: Sequence[Ids]) -> Callable[[Sequence[int]], Ids]:
    return lambda said: allowed[len(said)]


def test_what_was_drawn_is_as_likely_as_the_offered_tokens_make_it(
    played: list[Played], model: Any
) -> None:
    for one in played[0].rows:
        context, action, allowed = one.row
        assert allowed is not None
        found = logprobs(model, context, action, allow=within(allowed))
        assert one.logprobs == pytest.approx(found, abs=1e-4)


def test_offers_that_are_too_long_are_left_out_while_others_are_not(speech: Speech) -> None:
    long = "x" * (TOKENS + 1)

    def allowed(*texts: str) -> set[int]:
        found: list[set[int]] = []

        def sampler(contexts: Any, seeds: Any, allow: Any = None) -> list[Sampled]:
            found.extend(set(each([])) for each in allow)
            return []

        def offer(_: str) -> Sequence[str]:
            return texts

        Offering(Asks(speech), speech, offer).play(sampler, [0], 0)
        return found[0]

    assert allowed("End: Answer", long) == allowed("End: Answer") != allowed(long) != set()


def test_answers_stand_with_their_questions_and_are_the_same_for_a_seed(folder: Path) -> None:
    parts = (folder, QUESTIONS, LIBRARY, 3, Sampling(TOKENS), BROWSING, offered)
    found = browsed(*parts, seed=2)
    assert found == browsed(*parts, seed=2) != browsed(*parts, seed=3)
    assert [len(answers) for answers in found] == [3, 3]
    given = [answer for answers in found for answer in answers if answer is not None]
    assert given
    assert all(answer.quotes for answer in given)


def test_without_offers_a_policy_that_knows_nothing_comes_to_no_answer(folder: Path) -> None:
    found = browsed(folder, QUESTIONS, LIBRARY, 1, Sampling(8), BROWSING, None, seed=2)
    assert found == [[None], [None]]
