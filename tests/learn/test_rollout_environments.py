"""Worlds of real parts: the text browser, one page held to its words, references set right."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scoring import score_one_by_one
from small import CROWS, MAGPIES, TEXTS

from rookery.answers.gophercite import GopherCiteSettings, answer_with_gophercite
from rookery.answers.webglm import WebglmSettings, answer_with_webglm
from rookery.browser.browser_commands import TRAINING_ACTIONS, BrowserRules, BrowserTask
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.errors import Failed
from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SampledAction, SamplingSettings, sample_actions
from rookery.learn.episodes import PolicySampler, Trajectory
from rookery.learn.pretrained_models import (
    PolicyTokenizer,
    TrainedModelSettings,
    load_policy_tokenizer,
    load_trainable_model,
)
from rookery.learn.random_models import write_tiny_model
from rookery.learn.rollout_environments import (
    BatchRewardFunction,
    BrowserEnvironment,
    BrowserEnvironmentSettings,
    assign_questions,
    make_quote_environment,
    make_reference_environment,
)
from rookery.library.call_recording import CallRecording, RecordingLibrary, ReplayLibrary
from rookery.library.search_index import InMemoryLibrary
from rookery.models.remote_model import AllowedTokens
from rookery.pages.page_reader import read_page
from rookery.quotes.citation_syntax import parse_inline
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Completion, Failure, Hit, Library, Page, Question

TOKENS = 48
PAGES = [
    read_page(
        f"<title>{title}</title><p>{words}</p>".encode(), f"https://a.org/{title}", "text/html"
    )
    for title, words in (("Crow", CROWS), ("Magpie", MAGPIES))
]
LIBRARY = InMemoryLibrary(PAGES)
QUESTIONS = [
    Question("crows", "Do crows or magpies remember a face?"),
    Question("mirrors", "Which know themselves in a mirror, crows or magpies?"),
    Question("thorns", "Have nests of crows or magpies a roof of thorns?"),
]
RULES = BrowserRules(actions=8, overlap=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny")
    write_tiny_model(made, TEXTS, vocabulary=400)
    return made


@pytest.fixture(scope="module")
def speech(folder: Path) -> PolicyTokenizer:
    return load_policy_tokenizer(folder, TOKENS)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_trainable_model(TrainedModelSettings(str(folder)))


@pytest.fixture(scope="module")
def sampler(model: Any, speech: PolicyTokenizer) -> PolicySampler:
    def sample(
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[str],
        allow: Sequence[AllowedTokens] | None = None,
    ) -> list[SampledAction]:
        return sample_actions(model, contexts, seeds, speech.ends, SamplingSettings(TOKENS), allow)

    return sample


class Says:
    """A sampler that says what a script has for a prompt, by its seed, cut into tokens."""

    def __init__(self, speech: PolicyTokenizer, script: Callable[[str, str], str]) -> None:
        self._speech = speech
        self._script = script
        self._end = min(speech.ends)
        self.seeds: list[str] = []

    def __call__(
        self,
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[str],
        allow: Sequence[AllowedTokens] | None = None,
    ) -> list[SampledAction]:
        self.seeds += seeds
        tokenizer = self._speech.tokenizer
        actions = []
        for context, seed in zip(contexts, seeds, strict=True):
            text = self._script(str(tokenizer.decode(list(context))), seed)
            action = [*tokenizer(text, add_special_tokens=False)["input_ids"], self._end]
            actions.append(SampledAction(ActionRow(context, action), [-1.0] * len(action), True))
        return actions


def knows(prompt: str, seed: str) -> str:
    """The right commands to whoever asks, and an answer that the seed is a part of."""
    if "♦" not in prompt:
        return f"They do, I heard ({seed.split()[-1]}) [1]."
    if "♦Past actions\n♦" in prompt:
        return "Search face"
    if "Search face\n♦" in prompt:
        return "Clicked on link 0"
    return "End: Answer" if "\nQuote\n" in prompt else "Quote: A crow can remember the face"


def length(question: Question, answer: Answer) -> float:
    return float(len(answer.text))


def browsing(
    speech: PolicyTokenizer, scores: BatchRewardFunction = score_one_by_one(length), **more: Any
) -> BrowserEnvironment:
    settings = msgspec.structs.replace(BrowserEnvironmentSettings(rules=RULES), **more)
    return BrowserEnvironment(QUESTIONS, LIBRARY, scores, speech, settings)


def test_a_policy_that_knows_the_commands_gets_the_reward_of_its_answer(
    speech: PolicyTokenizer,
) -> None:
    scored: list[tuple[Question, Answer]] = []

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        scored.extend(pairs)
        return [float(number) for number in range(len(pairs))]

    played = browsing(speech, scores).play_episodes(Says(speech, knows), range(3), seed=5)
    assert [one.reward for one in played] == [0.0, 1.0, 2.0]
    assert sorted(question.id for question, _ in scored) == ["crows", "mirrors", "thorns"]
    for _, answer in scored:
        assert [quote.text for quote in answer.quotes] == ["A crow can remember the face"]
        assert all(
            one.verified for one in verify_quotes(answer, lambda quote: LIBRARY.fetch(quote.url))
        )
    for one in played:
        assert [speech.decode_action(row.row.action) for row in one.rows] == [
            "Search face",
            "Clicked on link 0",
            "Quote: A crow can remember the face",
            "End: Answer",
            "They do, I heard (4) [1].",
        ]


def test_rows_are_the_prompts_and_words_of_the_episodes_that_rollouts_plays(
    speech: PolicyTokenizer, sampler: PolicySampler
) -> None:
    """Half of the sessions know what to say; the others say what a random model says."""
    wise = Says(speech, knows)

    def half(contexts: Sequence[Sequence[int]], seeds: Sequence[str]) -> list[SampledAction]:
        drawn, known = sampler(contexts, seeds), wise(contexts, seeds)
        pairs = zip(seeds, drawn, known, strict=True)
        return [known if int(seed.split()[1]) % 2 else drawn for seed, drawn, known in pairs]

    episodes = range(4)
    world = browsing(speech, rules=BrowserRules(actions=5, overlap=0))
    played = world.play_episodes(half, episodes, seed=1)  # type: ignore[arg-type]
    words = [iter([speech.decode_action(said.row.action) for said in one.rows]) for one in played]
    turns = assign_questions(len(QUESTIONS), 1, episodes, 1)
    tasks = [
        BrowserTask(QUESTIONS[number], BrowserRules(actions=5, overlap=0)) for number, _ in turns
    ]
    act = make_scripted_policy([lambda _, said=said: next(said) for said in words])  # type: ignore[misc]
    told = list(run_rollouts(tasks, LIBRARY, act, "policy"))
    assert [one.reward is None for one in played] == [True, False, True, False]
    for one, episode in zip(played, told, strict=True):
        contexts = [said.row.context for said in one.rows]
        assert contexts == [speech.encode_prompt(step.prompt) for step in episode.steps]
        answered = episode.answer and length(episode.question, episode.answer)
        assert one.reward == answered


def actions(played: Sequence[Trajectory]) -> list[list[Sequence[int]]]:
    return [[said.row.action for said in one.rows] for one in played]


@pytest.mark.slow
def test_an_episode_is_the_same_alone_and_among_others(
    speech: PolicyTokenizer, sampler: PolicySampler
) -> None:
    world = browsing(speech, rules=BrowserRules(actions=3, overlap=0))
    together = world.play_episodes(sampler, range(4), seed=3)
    alone = [
        one for episode in (2, 0, 3, 1) for one in world.play_episodes(sampler, [episode], seed=3)
    ]
    assert actions(together) == actions(sorted(alone, key=lambda one: one.episode))
    assert [one.episode for one in together] == [0, 1, 2, 3]
    assert actions(world.play_episodes(sampler, range(4), seed=4)) != actions(together)


def test_a_run_repeats_its_log_probabilities_to_the_last_bit(
    speech: PolicyTokenizer, sampler: PolicySampler
) -> None:
    rules = BrowserRules(actions=3, overlap=0)
    worlds = [browsing(speech, rules=rules) for _ in range(2)]
    first, again = (world.play_episodes(sampler, range(4), seed=3) for world in worlds)
    assert first == again


def test_extra_answers_come_from_the_same_quotes_and_differ_by_seed(
    speech: PolicyTokenizer,
) -> None:
    says = Says(speech, knows)
    world = browsing(speech, extra_answers=15, draw_actions=True)
    played = world.play_episodes(says, [7, 8], seed=0)
    assert [one.episode for one in played] == [7] * 16 + [8] * 16
    assert [one.extra for one in played] == ([False] + [True] * 15) * 2
    for at in (0, 16):
        whole, extras = played[at], played[at + 1 : at + 16]
        contexts = {tuple(one.rows[0].row.context) for one in extras}
        assert contexts == {tuple(whole.rows[-1].row.context)}
        said = {speech.decode_action(one.rows[0].row.action) for one in extras}
        assert said == {f"They do, I heard ({number}) [1]." for number in range(15)}
        assert {len(one.rows) for one in extras} == {1}
        assert {one.group for one in extras} == {("answers", whole.episode)}
        assert all(one.reward for one in extras)
    assert len(set(says.seeds)) == len(says.seeds) == 2 * 5 + 2 * 15


@pytest.mark.parametrize(
    "last",
    ["End: Nonsense", "End: Answer", "They do [2]."],
)
def test_an_episode_without_an_answer_has_no_reward(speech: PolicyTokenizer, last: str) -> None:
    """Given up, ended without a quote, or with an answer that cites what was not quoted."""

    def says(prompt: str, seed: str) -> str:
        if last.startswith("End"):
            return last
        return knows(prompt, seed) if "♦" in prompt else last

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        raise AssertionError("there is nothing to score")

    [played] = browsing(speech, scores).play_episodes(Says(speech, says), [0], seed=0)
    assert played.reward is None
    assert len(played.rows) == (1 if last.startswith("End") else 5)


def test_extra_answers_are_judged_each_for_itself(speech: PolicyTokenizer) -> None:
    def says(prompt: str, seed: str) -> str:
        odd = "extra" in seed and int(seed.split()[-1]) % 2
        return "They do [2]." if odd else knows(prompt, seed)

    played = browsing(speech, extra_answers=4).play_episodes(Says(speech, says), [0], seed=0)
    assert [one.reward is None for one in played] == [False, False, True, False, True]


def test_what_no_reward_model_can_score_has_no_reward(speech: PolicyTokenizer) -> None:
    world = browsing(speech, score_one_by_one(lambda question, answer: float("nan")))
    assert [one.reward for one in world.play_episodes(Says(speech, knows), [0], seed=0)] == [None]


def test_a_prompt_that_is_too_long_ends_one_episode(speech: PolicyTokenizer) -> None:
    says = Says(speech, knows)
    sizes = [len(said.row.context) for said in browsing(speech).play_episodes(says, [0], 0)[0].rows]
    cramped = speech._replace(max_prompt_tokens=max(sizes) - 1)
    ended, other = browsing(cramped).play_episodes(
        says, range(2), seed=0
    )  # the other question is shorter
    assert (len(ended.rows), ended.reward) == (sizes.index(max(sizes)), None)
    assert (len(other.rows), other.reward is None) == (len(sizes), False)
    assert (
        browsing(speech._replace(max_prompt_tokens=max(sizes)))
        .play_episodes(says, [0], seed=0)[0]
        .reward
    )


def test_each_episode_of_webgpt_has_a_number_of_actions_of_its_own(speech: PolicyTokenizer) -> None:
    says = Says(speech, lambda prompt, seed: "Top")
    played = browsing(speech, draw_actions=True).play_episodes(says, range(12), seed=0)
    counts = {len(one.rows) for one in played}
    least, most = TRAINING_ACTIONS
    assert least <= min(counts) < max(counts) <= most
    assert len(counts) > 5


def test_each_question_comes_once_before_any_comes_again_and_groups_share_one() -> None:
    found = assign_questions(5, 3, range(30), seed=2)
    numbers = [number for number, _ in found]
    assert all(len(set(numbers[at : at + 3])) == 1 for at in range(0, 30, 3))
    assert [set(numbers[:15]), set(numbers[15:])] == [set(range(5))] * 2
    assert [turn for _, turn in found] == [0] * 15 + [1] * 15
    assert numbers[:15] != numbers[15:]
    assert found[17:20] == assign_questions(5, 3, range(17, 20), seed=2)
    assert found != assign_questions(5, 3, range(30), seed=3)


def test_a_recording_can_be_browsed_without_the_library(
    tmp_path: Path, speech: PolicyTokenizer
) -> None:
    with CallRecording(tmp_path / "recorded") as recording:
        recording.begin_session("one", b"")
        live = RecordingLibrary(recording, LIBRARY, "one")
        worlds = [
            BrowserEnvironment(
                QUESTIONS[:1],
                library,
                score_one_by_one(length),
                speech,
                BrowserEnvironmentSettings(RULES),
            )
            for library in (live, lambda episode: ReplayLibrary(recording, "one"))
        ]
        first, again = (
            world.play_episodes(Says(speech, knows), [0, 1], seed=0) for world in worlds
        )
    assert first == again
    assert all(one.reward for one in first)


def test_a_library_that_fails_costs_a_page_and_not_the_batch(speech: PolicyTokenizer) -> None:
    class Broken(Library):
        def search(self, query: str, k: int) -> Sequence[Hit]:
            return LIBRARY.search(query, k)

        def fetch(self, url: str) -> Page:
            raise Failed(Failure(url, "timed_out", "wait"))

    def library(episode: int) -> Any:
        return Broken() if episode % 2 else LIBRARY

    world = BrowserEnvironment(
        QUESTIONS, library, score_one_by_one(length), speech, BrowserEnvironmentSettings(RULES)
    )
    played = world.play_episodes(Says(speech, knows), range(4), seed=0)
    assert [one.reward is None for one in played] == [False, True, False, True]
    assert [len(one.rows) for one in played] == [5, 8, 5, 8]


def test_tokens_are_read_as_they_are_written(speech: PolicyTokenizer) -> None:
    whole = speech.tokenizer("日本 naïve!", add_special_tokens=False)["input_ids"]
    assert speech.decode_action(whole) == "日本 naïve!"
    assert speech.decode_action([*whole[:-1], min(speech.ends), *whole]) == "日本 naïve"
    broken = speech.tokenizer("日", add_special_tokens=False)["input_ids"]
    known = speech.vocabulary.tokens
    part = [token for token in range(len(known)) if known[token] == "日".encode()[:1]]
    assert speech.decode_action([*broken, *part]) == "日"
    assert speech.decode_action([*part, *broken]) == "\ufffd日"
    assert speech.decode_action([len(known) + 5, *broken]) == "日"


class Listens:
    """A policy that remembers what it was asked."""

    name = "listens"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, prompt: str, n: int = 1, allow: Any = None) -> list[Completion]:
        self.asked += [prompt] * n
        return [Completion("")] * n


QUOTING = GopherCiteSettings(pages=2)


@pytest.mark.slow
def test_every_action_under_the_constraint_is_an_answer_with_quotes_of_its_page(
    speech: PolicyTokenizer, sampler: PolicySampler
) -> None:
    scored: list[Answer] = []

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        scored.extend(answer for _, answer in pairs)
        return [1.0] * len(pairs)

    world = make_quote_environment(QUESTIONS, LIBRARY, scores, speech, QUOTING)
    played = world.play_episodes(sampler, range(24), seed=0)
    assert {one.reward for one in played} == {1.0}
    for answer in scored:
        assert [
            one.verbatim for one in verify_quotes(answer, lambda quote: LIBRARY.fetch(quote.url))
        ] == [True]
    said = [speech.decode_action(one.rows[0].row.action) for one in played]
    assert [parse_inline(text.strip(), PAGES) for text in said] == scored
    assert len(set(said)) > 20
    for one in played:
        row = one.rows[0].row
        assert row.allowed is not None
        assert all(token in ids for token, ids in zip(row.action, row.allowed, strict=True))
        assert 0 < min(len(ids) for ids in row.allowed) < 20
        assert all(isinstance(ids, np.ndarray) for ids in row.allowed)


def test_quoting_is_asked_as_gophercite_asks_and_its_pages_take_turns(
    speech: PolicyTokenizer, sampler: PolicySampler
) -> None:
    count = len(QUESTIONS)
    world = make_quote_environment(QUESTIONS, LIBRARY, score_one_by_one(length), speech, QUOTING)
    played = world.play_episodes(sampler, range(2 * count), seed=0)
    contexts: dict[int, list[Sequence[int]]] = {}
    for (number, _), one in zip(
        assign_questions(count, 1, range(2 * count), 0), played, strict=True
    ):
        contexts.setdefault(number, []).append(one.rows[0].row.context)
    for number, question in enumerate(QUESTIONS):
        listens = Listens()
        answer_with_gophercite(question, LIBRARY, listens, settings=QUOTING)
        asked = list(dict.fromkeys(listens.asked))
        expected = [speech.encode_prompt(prompt) for prompt in asked]
        assert len(expected) == 2
        assert contexts[number] == [expected[turn % len(asked)] for turn in range(2)]


BAD = {
    "no syntax": "Crows do.",
    "wrong title": "%<Crows do.>%(Raven)%[Crows are clever birds.]%",
    "wrong words": "%<Crows do.>%(Crow)%[Crows are stupid fish of the deep blue sea.]%",
    "nothing": "",
    "no claim cites": "No",
    "empty claim": "%<>%(Crow)%[Crows are clever birds.]%",
    "empty quote": "%<Crows do.>%(Crow)%[]%",
    "short quote": "%<Crows do.>%(Crow)%[are]%",
}


@pytest.mark.parametrize("fault", BAD)
def test_a_text_of_bad_syntax_is_scored_as_it_stands(speech: PolicyTokenizer, fault: str) -> None:
    """Each error of GopherCite's appendix F.1; what is empty has no score either."""
    good = "%<They do.>%(Crow)%[Crows are clever birds.]%"
    settings = msgspec.structs.replace(QUOTING, pages=1)
    world = make_quote_environment(
        QUESTIONS[:1], LIBRARY, score_one_by_one(length), speech, settings
    )
    says = Says(speech, lambda _, seed: good if seed == "0 0" else BAD[fault])
    fine, bad = world.play_episodes(says, range(2), seed=0)
    assert (fine.reward, fine.malformed, fine.is_answered) == (8.0, False, True)
    assert (bad.reward, bad.malformed) == (len(BAD[fault]) or None, True)
    assert not bad.is_answered
    assert fine.compute_score(-7.0, 2.0) == 8.0
    assert bad.compute_score(-7.0, 2.0) == (len(BAD[fault]) - 2.0 if BAD[fault] else -7.0)
    assert bad.compute_score(-7.0, None) == -7.0


class Counted(Library):
    """A library that counts its searches, and finds nothing for some."""

    def __init__(self) -> None:
        self.searches: list[str] = []

    def search(self, query: str, k: int) -> Sequence[Hit]:
        self.searches.append(query)
        return [] if "thorns" in query else LIBRARY.search(query, k)

    def fetch(self, url: str) -> Page:
        return LIBRARY.fetch(url)


def test_a_question_is_searched_for_once_in_a_run(speech: PolicyTokenizer) -> None:
    library = Counted()
    world = make_quote_environment(
        QUESTIONS[:2], library, score_one_by_one(length), speech, QUOTING
    )
    says = Says(speech, lambda *_: "No")
    for start in (0, 4, 8):
        world.play_episodes(says, range(start, start + 4), seed=0)
    assert sorted(library.searches) == sorted(question.text for question in QUESTIONS[:2])


def test_a_question_without_a_page_has_neither_action_nor_reward(speech: PolicyTokenizer) -> None:
    for made in (make_quote_environment, make_reference_environment):
        world = made(QUESTIONS[2:], Counted(), score_one_by_one(length), speech)
        [played] = world.play_episodes(Says(speech, knows), [3], seed=0)
        assert played._replace(record=None) == Trajectory(3, [], None, 3)
        assert played.record is not None
        assert played.record.stop == "no_evidence"


def test_references_are_asked_for_as_webglm_asks_and_citations_are_set_right(
    speech: PolicyTokenizer,
) -> None:
    scored: list[Answer] = []

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        scored.extend(answer for _, answer in pairs)
        return [2.0] * len(pairs)

    says = Says(speech, lambda *_: "A crow can remember the face of a person [7]. It is so.")
    settings = WebglmSettings(references=2)
    world = make_reference_environment(QUESTIONS[:1], LIBRARY, scores, speech, settings)
    [played] = world.play_episodes(says, [0], seed=0)
    listens = Listens()
    answer_with_webglm(QUESTIONS[0], LIBRARY, listens, settings=settings)
    assert [speech.encode_prompt(prompt) for prompt in listens.asked] == [
        played.rows[0].row.context
    ]
    assert (played.reward, played.rows[0].row.allowed) == (2.0, None)
    [answer] = scored
    assert [quote.title for quote in answer.quotes] == ["Crow"]
    assert all(
        one.verified for one in verify_quotes(answer, lambda quote: LIBRARY.fetch(quote.url))
    )
    uncited = Says(speech, lambda *_: "I know nothing about that [1].")
    assert not world.play_episodes(uncited, [0], seed=0)[0].is_answered


def test_a_page_prompt_that_is_too_long_says_what_to_do(speech: PolicyTokenizer) -> None:
    world = make_quote_environment(
        QUESTIONS, LIBRARY, score_one_by_one(length), speech._replace(max_prompt_tokens=50)
    )
    with pytest.raises(Failed, match="show less of a page"):
        world.play_episodes(Says(speech, knows), [0], seed=0)


def test_a_world_needs_a_question(speech: PolicyTokenizer) -> None:
    for made in (BrowserEnvironment, make_quote_environment, make_reference_environment):
        with pytest.raises(ValueError, match="there must be a question"):
            made([], LIBRARY, score_one_by_one(length), speech)


def test_actions_that_leave_no_room_for_a_prompt_are_refused(folder: Path) -> None:
    with pytest.raises(Failed, match="let them be shorter"):
        load_policy_tokenizer(folder, 8192)
