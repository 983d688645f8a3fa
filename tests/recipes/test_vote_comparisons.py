"""Comparisons made of votes: the rules by hand, and that neither time nor length tells."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.vote_comparisons import ForumPost, ForumThread, ThumbsSettings, make_vote_comparisons
from rookery.errors import Failed
from rookery.records import Comparison
from rookery.typed_files import read_json_lines

PLAIN = ThumbsSettings(balanced=False)
LOOSE = ThumbsSettings(votes=0, answers=2, gap=0, balanced=False)


def thread(votes: list[int], texts: list[str] | None = None, name: str = "1") -> ForumThread:
    texts = texts or [f"answer {number:03}" for number in range(len(votes))]
    pairs = zip(texts, votes, strict=True)
    return ForumThread(
        name, "Why?", tuple(ForumPost(text, count) for text, count in pairs), "forum"
    )


def preferred(comparison: Comparison) -> tuple[str, str]:
    """The better text, then the worse."""
    better = comparison.weights.index(1.0)
    return comparison.answers[better].text, comparison.answers[1 - better].text


def test_eight_answers_with_more_than_three_votes_give_three_pairs() -> None:
    made = make_vote_comparisons([thread([11, 10, 9, 8, 7, 6, 5, 4])], PLAIN)
    found = {preferred(each) for each in made.comparisons}
    ranks = ((0, 6), (0, 7), (1, 7))  # more than five apart
    assert found == {(f"answer {a:03}", f"answer {b:03}") for a, b in ranks}
    [one, *_] = made.comparisons
    assert (one.question.text, one.question.source, one.by) == ("Why?", "forum", "thumbs-up")
    assert sorted(one.weights) == [0.0, 1.0]


@pytest.mark.parametrize(
    "votes", [[11, 10, 9, 8, 7, 6, 5, 3], [11, 10, 9, 8, 7, 6, 5], [], [9] * 8]
)
def test_too_few_votes_too_few_answers_and_equal_votes_give_none(votes: list[int]) -> None:
    assert make_vote_comparisons([thread(votes)], PLAIN).comparisons == []


def test_long_answers_are_cut_to_the_median_and_short_ones_left_out() -> None:
    texts = ["a " * 30, "b " * 10, "c " * 10, "d " * 4]  # 60, 20, 20 and 8 characters
    made = make_vote_comparisons([thread([4, 3, 2, 1], texts)], LOOSE)
    seen = {text for each in made.comparisons for text in preferred(each)}
    assert seen == {("a " * 10).rstrip(), "b " * 10, "c " * 10}
    assert made.left_out["answers of less than half the usual length"] == 1


def test_a_word_is_not_cut_unless_words_are_not_set_apart() -> None:
    texts = ["crows remember faces", "fourteen chars", "fourteen chars"]
    cut = {
        t
        for e in make_vote_comparisons([thread([3, 2, 1], texts)], LOOSE).comparisons
        for t in preferred(e)
    }
    assert "crows remember" in cut
    texts = ["crows rememberfaces", "fourteen chars", "fourteen chars"]
    cut = {
        t
        for e in make_vote_comparisons([thread([3, 2, 1], texts)], LOOSE).comparisons
        for t in preferred(e)
    }
    assert "crows remember" in cut  # half of it would be too little
    texts = ["乌鸦记得人的脸并且告诉其他乌鸦", "一二三四五六七", "七六五四三二一"]
    cut = {
        t
        for e in make_vote_comparisons([thread([3, 2, 1], texts)], LOOSE).comparisons
        for t in preferred(e)
    }
    assert "乌鸦记得人的脸" in cut


def test_only_answers_of_one_time_are_compared_where_that_is_wanted() -> None:
    posts = (
        ForumPost("first", 9, "2014-01-21T10:00:00Z"),
        ForumPost("later", 5, "2014-01-22T09:00:00+00:00"),
        ForumPost("after", 4, "2014-01-25"),
        ForumPost("never", 3),
    )
    within = ThumbsSettings(votes=0, answers=2, gap=0, days=1, balanced=False)
    made = make_vote_comparisons([ForumThread("1", "Why?", posts)], within)
    assert [preferred(each) for each in made.comparisons] == [("first", "later")]
    assert made.left_out["pairs too far apart in time"] == 5
    anytime = make_vote_comparisons([ForumThread("1", "Why?", posts)], LOOSE)
    assert anytime.after.pairs == 6
    assert anytime.after.earlier == 1.0  # of the three whose times are known


def forum(questions: int, seed: int = 0) -> list[ForumThread]:
    """Votes come to who is early and who writes much."""
    chance = Random(seed)
    threads = []
    for number in range(questions):
        posts = []
        for _ in range(chance.randint(2, 9)):
            hour, words = chance.randrange(24), chance.randint(8, 14)
            votes = max(int(20 - hour + 5 * words + chance.gauss(0, 8)), 1)
            text = " ".join(chance.choices(["crow", "nest", "sky"], k=words))
            posts.append(ForumPost(text, votes, f"2014-01-21T{hour:02}:00:00Z"))
        threads.append(ForumThread(str(number), f"Why {number}?", tuple(posts)))
    return threads


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_in_balance_neither_the_time_nor_the_length_tells_which_is_preferred(seed: int) -> None:
    loose = ThumbsSettings(votes=0, answers=2, gap=0, seed=seed)
    made = make_vote_comparisons(forum(150, seed), loose)
    assert made.before.earlier is not None
    assert made.before.earlier > 0.6
    assert made.before.longer is not None
    assert made.before.longer > 0.6
    assert (made.after.earlier, made.after.longer) == (0.5, 0.5)
    assert 20 < made.after.pairs == len(made.comparisons)
    assert made.before.pairs - made.after.pairs == made.left_out["pairs out of balance"]


def test_the_same_seed_makes_the_same_and_a_question_gives_no_more_than_the_most() -> None:
    few = ThumbsSettings(votes=0, answers=2, gap=0, most=3, balanced=False)
    one, other = make_vote_comparisons(forum(50), few), make_vote_comparisons(forum(50), few)
    assert one == other
    counts = [sum(each.question.id == str(n) for each in one.comparisons) for n in range(50)]
    assert max(counts) == 3
    assert (
        sum(counts) + one.left_out["pairs beyond the most of a question"]
        == sum(1 for _ in make_vote_comparisons(forum(50), LOOSE).comparisons)
        + make_vote_comparisons(forum(50), LOOSE).left_out["pairs beyond the most of a question"]
    )


def test_which_answer_comes_first_says_nothing() -> None:
    made = make_vote_comparisons(forum(200), LOOSE)
    first = sum(each.weights[0] for each in made.comparisons) / len(made.comparisons)
    assert len(made.comparisons) > 1500
    assert 0.45 < first < 0.55


def test_threads_are_read_line_by_line_and_a_bad_line_is_named(tmp_path: Path) -> None:
    threads = forum(3)
    file = tmp_path / "forum.jsonl"
    file.write_text("\n\n".join(each.to_json() for each in threads))
    assert list(read_json_lines(file, ForumThread)) == threads
    for line in ("nonsense", '{"id": "1"}', threads[0].to_json().replace("2014-", "MMXIV-")):
        file.write_text(threads[0].to_json() + "\n" + line)
        with pytest.raises(Failed, match="line 2") as failed:
            list(read_json_lines(file, ForumThread))
        assert failed.value.failure.outcome == "bad_line"
        assert "Thread" in failed.value.failure.detail
    with pytest.raises(Failed, match="not_found"):
        list(read_json_lines(tmp_path / "nowhere", ForumThread))


def test_settings_that_allow_nothing_are_refused() -> None:
    for wrong in ({"answers": 1}, {"gap": -1}, {"most": 0}, {"days": -1.0}):
        with pytest.raises(ValueError):
            ThumbsSettings(**wrong)
