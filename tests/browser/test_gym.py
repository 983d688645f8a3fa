"""The text browser as Gymnasium sees it, checked by Gymnasium's own checker."""

import subprocess
import sys
from copy import deepcopy
from itertools import pairwise
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.gym import ENVIRONMENT_ID, MAX_PROMPT_CHARACTERS, BrowserEnv, UnicodeText
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.records import Answer, Episode, Question

GIFTS = b"<title>Crows</title><p>Crows bring gifts to people they know.</p>"
FOOD = b"<title>Ravens</title><p>Ravens cache their food.</p>"
CROWS = read_page(GIFTS, "https://a.org/crows", "text/html")
RAVENS = read_page(FOOD, "https://b.net/ravens", "text/html")
LIBRARY = InMemoryLibrary([CROWS, RAVENS])
TASKS = [
    BrowserTask(Question(str(n), f"Question {n}?"), BrowserRules(actions=20)) for n in range(9)
]
QUOTING = ("Search crows", "Clicked on link 0", "Quote: Crows bring gifts")
SCRIPT = (*QUOTING, "End: Answer", "They do [1].")


def quotes(question: Question, answer: Answer) -> float:
    return len(answer.quotes) + len(answer.claims) / 2


def play(env: BrowserEnv, *commands: str) -> Episode | None:
    """The episode, if these commands end it; before its end there are prompts and no reward."""
    episode: Episode | None = None
    for command in commands:
        assert episode is None
        prompt, reward, terminated, truncated, info = env.step(command)
        episode = info["trajectory"]
        assert (terminated, truncated) == (episode is not None, False)
        assert info["stop"] == (episode.stop if episode else "")
        if episode is None:
            assert (prompt, reward) == (info["observation"].prompt, 0.0)
    return episode


def make(**_: object) -> BrowserEnv:
    return BrowserEnv(LIBRARY, TASKS)


def test_gymnasium_finds_nothing_to_complain_of() -> None:
    check_env(gymnasium.make(ENVIRONMENT_ID, library=lambda: LIBRARY, tasks=TASKS).unwrapped)


def test_the_id_is_found_by_the_name_of_its_module_and_costs_nothing_before() -> None:
    code = f"""
import sys, rookery, rookery.browser
assert "gymnasium" not in sys.modules
from typing import Any

import gymnasium
assert "rookery.browser.gym" not in sys.modules
env = gymnasium.make("rookery.browser.gym:{ENVIRONMENT_ID}", library=None)
assert type(env.unwrapped).__name__ == "BrowserEnv"
assert env.spec.id == "{ENVIRONMENT_ID}"
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_library_that_the_environment_opened_is_closed_with_it() -> None:
    class Opened(InMemoryLibrary):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    library = Opened([CROWS])
    env = gymnasium.make(ENVIRONMENT_ID, library=lambda: library, tasks=TASKS)
    env.reset(seed=1)
    assert "Crows†a.org" in env.step("Search crows")[0]
    env.close()
    assert library.closed == 1
    BrowserEnv(library, TASKS).close()
    assert library.closed == 1


def test_an_episode_ends_with_the_reward_of_its_answer() -> None:
    env = BrowserEnv(LIBRARY, reward=quotes)
    prompt, info = env.reset(options={"question": "Do crows bring gifts?"})
    assert "♦Question\nDo crows bring gifts?\n" in prompt == info["observation"].prompt
    assert play(env, *SCRIPT[:-1]) is None
    prompt, reward, terminated, truncated, info = env.step(SCRIPT[-1])
    assert (prompt, reward, terminated, truncated) == ("", 1.5, True, False)
    assert info["stop"] == info["trajectory"].stop == "end"
    assert info["quotes"] == info["trajectory"].answer.quotes == (CROWS.quote(0, 17),)


def test_the_episode_is_that_of_a_rollout() -> None:
    env = BrowserEnv(LIBRARY, by="me")
    env.reset(options={"task": TASKS[3]})
    words = iter(SCRIPT)
    rolled = next(
        run_rollouts([TASKS[3]], LIBRARY, make_scripted_policy([lambda _: next(words)]), "me")
    )
    assert play(env, *SCRIPT) == rolled


@pytest.mark.parametrize(
    ("commands", "stop"),
    [
        (("End: Nonsense",), "nonsense"),
        (("End: Answer",), "no_quotes"),
        ((*SCRIPT[:-1], "Not quoted [4]."), "bad_syntax"),
        (("Top",) * 20, "max_actions"),
    ],
)
def test_an_episode_without_an_answer_terminates_and_is_worth_nothing(
    commands: tuple[str, ...], stop: str
) -> None:
    env = BrowserEnv(LIBRARY, TASKS, quotes)
    env.reset(seed=1)
    assert play(env, *commands[:-1]) is None
    _, reward, terminated, truncated, info = env.step(commands[-1])
    assert (reward, terminated, truncated, info["stop"]) == (0.0, True, False, stop)


def test_the_last_action_leads_to_the_answer_and_is_no_truncation() -> None:
    env = BrowserEnv(LIBRARY, reward=quotes)
    env.reset(options={"task": BrowserTask(Question("1", "Why?"), BrowserRules(actions=3))})
    for command in QUOTING:
        _, _, terminated, truncated, info = env.step(command)
        assert (terminated, truncated) == (False, False)
    assert info["observation"].answering
    assert env.step("They do [1].")[1:4] == (1.5, True, False)


def test_two_environments_never_mix() -> None:
    one, other = BrowserEnv(LIBRARY, TASKS), BrowserEnv(LIBRARY, TASKS)
    one.reset(options={"task": TASKS[0]})
    other.reset(options={"task": TASKS[1]})
    ends = []
    for mine, theirs in zip(SCRIPT, ("Search ravens", *("Top",) * 3, "End: Nonsense"), strict=True):
        ends = [play(one, mine), play(other, theirs)]
    again = BrowserEnv(LIBRARY)
    again.reset(options={"task": TASKS[0]})
    assert ends[0] == play(again, *SCRIPT)
    assert ends[1] is not None
    assert (ends[1].question, ends[1].stop) == (TASKS[1].question, "nonsense")
    assert not ends[1].failures


def test_an_environment_begins_anew_in_the_middle_of_an_episode() -> None:
    env = BrowserEnv(LIBRARY, TASKS)
    first, _ = env.reset(seed=5)
    play(env, *QUOTING)
    assert env.reset(seed=5)[0] == first
    episode = play(env, *SCRIPT)
    assert episode is not None
    assert len(episode.steps) == len(SCRIPT)


def test_a_seed_decides_which_tasks_are_drawn() -> None:
    def draw_questions(seed: int) -> list[str]:
        env = BrowserEnv(LIBRARY, TASKS)
        first = env.reset(seed=seed)[1]["observation"].question
        return [first, *(env.reset()[1]["observation"].question for _ in range(20))]

    assert draw_questions(1) == draw_questions(1) != draw_questions(2)
    assert len(set(draw_questions(1))) > 4


def test_a_step_without_an_episode_and_a_reset_without_a_task_say_what_to_do() -> None:
    env = BrowserEnv(LIBRARY)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\)"):
        env.step("Top")
    with pytest.raises(ValueError, match="give BrowserEnv tasks"):
        env.reset()
    with pytest.raises(ValueError, match="the question is empty"):
        env.reset(options={"question": " "})
    env.reset(options={"task": TASKS[0]})
    play(env, "End: Nonsense")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("Top")


def test_what_is_no_unicode_makes_an_episode_that_can_be_stored() -> None:
    env = BrowserEnv(LIBRARY, TASKS)
    env.reset(seed=1)
    assert "Search \ufffd\n" in env.step("Search \ud800")[0]
    episode = play(env, *QUOTING, "End: Answer", "They \udfff do [1].")
    assert episode is not None
    assert Episode.from_json(episode.to_json()) == episode


def test_statistics_of_episodes_can_be_recorded() -> None:
    """Under `episode` in the info of the last step, a key that Gymnasium keeps for itself."""
    env = gymnasium.wrappers.RecordEpisodeStatistics(
        gymnasium.make(ENVIRONMENT_ID, library=LIBRARY, reward=quotes)
    )
    env.reset(options={"task": TASKS[0]})
    for command in SCRIPT[:-1]:
        assert "episode" not in env.step(command)[4]
    info = env.step(SCRIPT[-1])[4]
    assert (info["episode"]["r"], info["episode"]["l"]) == (1.5, len(SCRIPT))
    assert info["trajectory"].stop == "end"


def test_steps_can_be_limited() -> None:
    """Which truncates, as an episode that ends by itself never is."""
    env = gymnasium.make(ENVIRONMENT_ID, library=LIBRARY, tasks=TASKS, max_episode_steps=2)
    env.reset(seed=1)
    assert env.step("Search crows")[2:4] == (False, False)
    assert env.step("Top")[2:4] == (False, True)


ABROAD = read_page(
    "<title>鴉</title><p>鴉は贈り物を持ってくる 𝔸😀.</p>".encode(), "https://c.jp/鴉", "text/html"
)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_several_environments_can_be_stepped_as_one(mode: str) -> None:
    """In this process, or each in one of its own, with what they share by default."""
    library = InMemoryLibrary([CROWS, RAVENS, ABROAD])
    tasks = [BrowserTask(Question("1", "Question?"), BrowserRules(actions=20))]
    both = gymnasium.make_vec(
        ENVIRONMENT_ID,
        num_envs=2,
        vectorization_mode=mode,
        library=library,
        tasks=tasks,
        reward=quotes,
    )
    commands = (
        "Top",
        "Search 鴉",
        "Clicked on link 0",
        "Quote: 鴉は贈り物を",
        "End: Answer",
        "Ja [1].",
    )
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(both)
    alone = [BrowserEnv(library, tasks, quotes) for _ in range(2)]
    assert env.reset(seed=1)[0] == tuple(each.reset(seed=1)[0] for each in alone)
    for pair in pairwise(commands):
        expected = [each.step(said) for each, said in zip(alone, pair, strict=True)]
        shown, rewards, terminated, _, info = env.step(pair)
        assert shown == tuple(each[0] for each in expected)
        assert rewards.tolist() == [each[1] for each in expected]
        assert terminated.tolist() == [each[2] for each in expected]
        assert info["trajectory"].tolist() == [each[4]["trajectory"] for each in expected]
        assert ("😀" in shown[1]) == (pair[1] in commands[1:4])
    env.close()
    assert (terminated.tolist(), rewards.tolist()) == ([False, True], [0.0, 1.5])
    assert info["episode"]["l"].tolist() == [0, 5]
    assert info["trajectory"][1].answer.quotes[0].text == "鴉は贈り物を"


def test_a_prompt_that_is_too_long_loses_the_end_of_its_window() -> None:
    tasks = [BrowserTask(Question("1", "Why?"))]
    whole, cut = BrowserEnv(LIBRARY, tasks), BrowserEnv(LIBRARY, tasks, longest=150)
    for env in (whole, cut):
        env.reset(seed=1)
    for command in QUOTING:
        full, short = whole.step(command)[0], cut.step(command)
        head, foot = full[: 150 - len("\n♦Actions left: 99\n♦Next action\n")], full[-20:]
        assert len(full) > 150 == len(short[0])
        assert short[0].startswith(head)
        assert short[0].endswith(foot)
        assert short[0] in cut.observation_space
        assert short[4]["observation"].prompt == full


@given(st.text(st.characters()), st.integers(0, 10**6))
def test_every_text_is_in_the_space_and_samples_follow_the_seed(text: str, seed: int) -> None:
    one, other = UnicodeText(seed=seed), UnicodeText(seed=seed)
    sample = one.sample()
    assert text in one
    assert sample in one
    assert sample == other.sample()
    assert 3 not in one
    assert one == other != UnicodeText(5)
    assert one != gymnasium.spaces.Text(5)
    assert "x" * (MAX_PROMPT_CHARACTERS + 1) not in one


@given(st.text(st.characters(), max_size=9))
def test_a_text_becomes_numbers_and_a_text_again(text: str) -> None:
    space = UnicodeText(9)
    numbers: Any = gymnasium.spaces.flatten(space, text)
    assert numbers.tolist() == [ord(letter) for letter in text] + [0x110000] * (9 - len(text))
    assert gymnasium.spaces.unflatten(space, numbers) == text
    write: Any = gymnasium.vector.utils.write_to_shared_memory
    memory = gymnasium.vector.utils.create_shared_memory(space, 2)
    shared = gymnasium.vector.utils.read_from_shared_memory(space, memory, 2)
    for other in ("before all", "x"):
        write(space, 0, other[:9], memory)
        write(space, 1, text, memory)
        assert deepcopy(shared) == (other[:9], text)


def test_samples_are_of_all_of_unicode_and_can_be_written() -> None:
    space = UnicodeText(seed=1)
    samples = "".join(space.sample() for _ in range(1000))
    assert samples.encode().decode() == samples
    assert max(samples) > "\U00100000"
    assert {"\ud7ff" < letter < "\ue800" for letter in samples} == {True, False}
