"""A policy that chooses: nothing is said but what is offered, and learning knows what was."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from small import CROWS, MAGPIES, logprobs

from rookery.browse.browser_commands import BrowserRules, format_prompt_head
from rookery.browse.page_reader import read_page
from rookery.browse.search_index import InMemoryLibrary
from rookery.draft.oracle_policies import list_candidate_actions
from rookery.learn.action_batches import TokenIds
from rookery.learn.browser_environment import BrowserEnvironment, BrowserEnvironmentSettings
from rookery.learn.candidate_actions import CandidateActionEnvironment, sample_browser_answers
from rookery.learn.decoding import SampledAction, SamplingSettings, sample_actions
from rookery.learn.episodes import PolicySampler, Trajectory
from rookery.learn.pretrained_models import TrainedModelSettings, load_trainable_model
from rookery.learn.prompt_encoding import PolicyTokenizer, load_policy_tokenizer
from rookery.learn.random_models import write_random_model
from rookery.records import Answer, Question

TOKENS = 60
LIBRARY = InMemoryLibrary(
    read_page(
        f"<title>{title}</title><p>{words}</p>".encode(), f"https://a.org/{title}", "text/html"
    )
    for title, words in (("Crow", CROWS), ("Magpie", MAGPIES))
)
QUESTIONS = [
    Question("crows", "What do crows remember?"),
    Question("mirrors", "Who knows itself in a mirror?"),
]
BROWSING = BrowserEnvironmentSettings(rules=BrowserRules(actions=8, overlap=0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("blank")
    write_random_model(
        made, [CROWS, MAGPIES, format_prompt_head("", "", "", "", (0, 0))], 400, 2048, 16, 1
    )
    return made


@pytest.fixture(scope="module")
def speech(folder: Path) -> PolicyTokenizer:
    return load_policy_tokenizer(folder, TOKENS, chat=False)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_trainable_model(TrainedModelSettings(str(folder)))


@pytest.fixture(scope="module")
def played(model: Any, speech: PolicyTokenizer) -> list[Trajectory]:
    def drawn(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
        return sample_actions(model, contexts, seeds, speech.ends, SamplingSettings(TOKENS), allow)

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [1.0] * len(pairs)

    world = BrowserEnvironment(QUESTIONS, LIBRARY, scores, speech, BROWSING)
    return CandidateActionEnvironment(world, speech, list_candidate_actions).play_episodes(
        drawn, range(8), seed=1
    )


class Asks:
    """A world that asks once, and gives nothing back."""

    def __init__(self, speech: PolicyTokenizer) -> None:
        self._speech = speech

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        sample([self._speech.encode_prompt("?")], ["0"])
        return []


def test_a_policy_that_knows_nothing_says_only_what_is_offered(
    played: list[Trajectory], speech: PolicyTokenizer
) -> None:
    for one in (one for each in played for one in each.rows):
        assert one.ended
        assert speech.decode_action(one.row.action) in list_candidate_actions(
            speech.decode_action(one.row.context)
        )


def test_so_it_comes_to_answers(played: list[Trajectory]) -> None:
    assert any(one.reward == 1.0 for one in played)


def within(allowed: Sequence[TokenIds]) -> Callable[[Sequence[int]], TokenIds]:
    return lambda said: allowed[len(said)]


def test_what_was_drawn_is_as_likely_as_the_offered_tokens_make_it(
    played: list[Trajectory], model: Any
) -> None:
    for one in played[0].rows:
        context, action, allowed = one.row
        assert allowed is not None
        found = logprobs(model, context, action, allow=within(allowed))
        assert one.logprobs == pytest.approx(found, abs=1e-4)


def test_offers_that_are_too_long_are_left_out_while_others_are_not(
    speech: PolicyTokenizer,
) -> None:
    long = "x" * (TOKENS + 1)

    def allowed(*texts: str) -> set[int]:
        found: list[set[int]] = []

        def sampler(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
            found.extend(set(each([])) for each in allow)
            return []

        def offer(_: str) -> Sequence[str]:
            return texts

        CandidateActionEnvironment(Asks(speech), speech, offer).play_episodes(sampler, [0], 0)
        return found[0]

    assert allowed("End: Answer", long) == allowed("End: Answer") != allowed(long) != set()


@pytest.mark.slow
def test_answers_stand_with_their_questions_and_are_the_same_for_a_seed(folder: Path) -> None:
    parts = (
        folder,
        QUESTIONS,
        LIBRARY,
        3,
        SamplingSettings(TOKENS),
        BROWSING,
        list_candidate_actions,
    )
    found = sample_browser_answers(*parts, seed=2)
    assert found == sample_browser_answers(*parts, seed=2) != sample_browser_answers(*parts, seed=3)
    assert [len(answers) for answers in found] == [3, 3]
    given = [answer for answers in found for answer in answers if answer is not None]
    assert given
    assert all(answer.quotes for answer in given)


@pytest.mark.slow
@pytest.mark.parametrize("group", [1, 2, 3])
def test_each_question_gets_its_answers_whatever_the_groups_and_extra_answers(
    folder: Path, group: int
) -> None:
    def draw(extra_answers: int) -> list[list[Answer | None]]:
        browsing = replace(BROWSING, group=group, extra_answers=extra_answers)
        parts = 3, SamplingSettings(TOKENS), browsing, list_candidate_actions
        return sample_browser_answers(folder, QUESTIONS, LIBRARY, *parts, seed=2)

    plain = draw(0)
    assert [len(answers) for answers in plain] == [3, 3]
    assert len({answer for answers in plain for answer in answers}) > 2
    assert draw(2) == plain


def test_without_offers_a_policy_that_knows_nothing_comes_to_no_answer(folder: Path) -> None:
    found = sample_browser_answers(
        folder, QUESTIONS, LIBRARY, 1, SamplingSettings(8), BROWSING, None, seed=2
    )
    assert found == [[None], [None]]
