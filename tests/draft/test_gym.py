"""The text browser as Gymnasium sees it, checked by Gymnasium's own checker."""

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.browse.read import read
from rookery.browse.rules import Rules, Task
from rookery.browse.shelf import Shelf
from rookery.draft.gym import BrowserEnv, Text
from rookery.draft.rollout import rollouts, scripted
from rookery.records import Answer, Episode, Question

GIFTS = b"<title>Crows</title><p>Crows bring gifts to people they know.</p>"
FOOD = b"<title>Ravens</title><p>Ravens cache their food.</p>"
CROWS = read(GIFTS, "https://a.org/crows", "text/html")
LIBRARY = Shelf([CROWS, read(FOOD, "https://b.net/ravens", "text/html")])
TASKS = [Task(Question(str(n), f"Question {n}?"), Rules(actions=20)) for n in range(9)]
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
        episode = info["episode"]
        assert (terminated, truncated) == (episode is not None, False)
        assert info["stop"] == (episode.stop if episode else "")
        if episode is None:
            assert (prompt, reward) == (info["observation"].prompt, 0.0)
    return episode


def make(**_: object) -> BrowserEnv:
    return BrowserEnv(LIBRARY, TASKS)


def test_gymnasium_finds_nothing_to_complain_of() -> None:
    name = "RookeryBrowser-v0"
    gymnasium.register(name, make)
    try:
        check_env(gymnasium.make(name).unwrapped)
    finally:
        del gymnasium.registry[name]


def test_an_episode_ends_with_the_reward_of_its_answer() -> None:
    env = BrowserEnv(LIBRARY, reward=quotes)
    prompt, info = env.reset(options={"question": "Do crows bring gifts?"})
    assert "♦Question\nDo crows bring gifts?\n" in prompt == info["observation"].prompt
    assert play(env, *SCRIPT[:-1]) is None
    prompt, reward, terminated, truncated, info = env.step(SCRIPT[-1])
    assert (prompt, reward, terminated, truncated) == ("", 1.5, True, False)
    assert info["stop"] == info["episode"].stop == "end"
    assert info["quotes"] == info["episode"].answer.quotes == (CROWS.quote(0, 17),)


def test_the_episode_is_that_of_a_rollout() -> None:
    env = BrowserEnv(LIBRARY, by="me")
    env.reset(options={"task": TASKS[3]})
    words = iter(SCRIPT)
    rolled = next(rollouts([TASKS[3]], LIBRARY, scripted([lambda _: next(words)]), "me"))
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
    env.reset(options={"task": Task(Question("1", "Why?"), Rules(actions=3))})
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
    def drawn(seed: int) -> list[str]:
        env = BrowserEnv(LIBRARY, TASKS)
        first = env.reset(seed=seed)[1]["observation"].question
        return [first, *(env.reset()[1]["observation"].question for _ in range(20))]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) > 4


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


def test_several_environments_can_be_stepped_as_one() -> None:
    both = gymnasium.vector.SyncVectorEnv([make] * 2)
    both.reset(seed=1)
    prompts, _, terminated, _, _ = both.step(("Search crows", "End: Nonsense"))
    assert "Crows†a.org" in prompts[0]
    assert terminated.tolist() == [False, True]
    both.close()


@settings(max_examples=30)
@given(st.text(st.characters()), st.integers(0, 10**6))
def test_every_text_is_in_the_space_and_samples_follow_the_seed(text: str, seed: int) -> None:
    one, other = Text(seed=seed), Text(seed=seed)
    sample = one.sample()
    assert text in one
    assert sample in one
    assert sample == other.sample()
    assert 3 not in one
    assert one == other != gymnasium.spaces.Text(5)


def test_samples_are_of_all_of_unicode_and_can_be_written() -> None:
    space = Text(seed=1)
    samples = "".join(space.sample() for _ in range(1000))
    assert samples.encode().decode() == samples
    assert max(samples) > "\U00100000"
    assert {"\ud7ff" < letter < "\ue800" for letter in samples} == {True, False}
