"""Actions of episodes, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.measure.actions import INVALID, WRITE, count_actions, make_actions_figure
from rookery.measure.intervals import estimate_mean
from rookery.records import Answer, Completion, Episode, Question, Step

QUESTION = Question("1", "Why?")


def episode(*answer_text: str, answer: Answer | None = Answer("So."), stop: str = "end") -> Episode:
    steps = (Step("", Completion(each, tuple(range(len(each.split()))))) for each in answer_text)
    return Episode(QUESTION, "model", tuple(steps), answer, stop)


BROWSED = episode(
    "Search crows", "Clicked on link 1", "Quote: They fly.", "End: Answer", "They fly."
)
LOST = episode("Search crows", "Search crows again", "hm", answer=None, stop="no_quotes")


def test_actions_are_counted_an_episode_and_all_together() -> None:
    found = {each.name: each for each in count_actions([BROWSED, LOST])}
    assert list(found) == ["search", "click_link", "quote", "end", INVALID, WRITE]
    search = found["search"]
    assert (search.count, search.share) == (3, 3 / 7)
    assert search.per_episode == estimate_mean([1.0, 2.0])
    assert search.tokens == pytest.approx((2 + 2 + 3) / 3)
    assert search.tokens_per_episode == estimate_mean([2.0, 5.0])
    assert (found[INVALID].count, found[WRITE].count) == (1, 1)
    assert found[WRITE].share is None


def test_the_answer_is_no_command_whatever_ended_the_browsing() -> None:
    # Broken off by the rules: the last thing said is the answer, though nothing was ended.
    written = episode("Search a", "Back", stop="max_actions")
    assert [(each.name, each.count) for each in count_actions([written])] == [
        ("search", 1),
        (WRITE, 1),
    ]
    bad = episode("Search a", "Quote: b", "It is [9].", answer=None, stop="bad_syntax")
    assert count_actions([bad])[-1].name == WRITE
    # What no policy could finish is no invalid command either, once browsing was over.
    failed = episode("End: Answer", "It is", answer=None, stop="policy_failed")
    assert [each.name for each in count_actions([failed])] == ["end", WRITE]


def test_tokens_that_are_not_known_are_not_counted() -> None:
    person = Episode(QUESTION, "ada", (Step("", Completion("Search crows")),), None, "no_quotes")
    (search,) = count_actions([person])
    assert (search.tokens, search.tokens_per_episode) == (None, None)


def test_tokens_known_of_some_are_no_sum() -> None:
    person = Episode(QUESTION, "ada", (Step("", Completion("Back")),), None, "no_quotes")
    (back,) = count_actions([person, episode("Back", answer=None)])
    assert (back.count, back.tokens, back.tokens_per_episode) == (2, 1, None)


SAID = st.sampled_from(["Search x", "Back", "Top", "Scrolled up 2", "End: Answer", "?", "Top 3"])


@given(st.lists(st.lists(SAID, max_size=6), min_size=1, max_size=4), st.booleans())
def test_every_step_is_counted_once(said: list[list[str]], wrote: bool) -> None:
    episodes = [episode(*each, answer=Answer("So.") if wrote else None) for each in said]
    found = count_actions(episodes)
    assert sum(each.count for each in found) == sum(map(len, said))
    commands = [each.share for each in found if each.share is not None]
    assert sum(commands) == pytest.approx(1 if commands else 0)


def test_no_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="no episodes"):
        count_actions([])


def test_a_figure_has_every_action_of_every_system() -> None:
    figure = make_actions_figure(
        {"a": count_actions([BROWSED]), "b": count_actions([LOST])}, "says"
    )
    assert [row[:3] for row in figure.rows if row[0] == "b"] == [
        ("b", "search", 2),
        ("b", INVALID, 1),
    ]
    a, b = figure.picture.lines
    assert figure.picture.places == ("search", "click_link", "quote", "end", INVALID, WRITE)
    assert b.points == ((0, 2.0), (4, 1.0))
    assert len(a.points) == 5
