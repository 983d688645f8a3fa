"""Copying: hand-worked texts and brute force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.measure.text_metrics import (
    make_text_figure,
    measure_novelty,
    measure_repetition,
    split_sentences,
)
from rookery.quotes.word_overlap import split_words

SOURCE = "Crows hide seeds in autumn. A crow remembers where it hid them. Jays do so too."
TEXTS = st.lists(st.sampled_from("crow jay of oak hid".split()), max_size=9).map(" ".join)


def test_sentences_end_with_their_line_too() -> None:
    text = "Crows hide seeds. They come back\n\nJays too: Dr. Smith says so.\n"
    found = [text[slice(*span)] for span in split_sentences(text)]
    assert found == ["Crows hide seeds.", "They come back", "Jays too: Dr. Smith says so."]


def test_what_is_copied_whole_has_nothing_novel() -> None:
    found = measure_novelty(["A crow remembers where it hid them. Jays do so too."], [SOURCE])
    assert {name: each.value for name, each in found.items()} == {
        "1 word": 0,
        "2 words": 0,
        "3 words": 0,
        "4 words": 0,
        "sentence": 0,
    }


def test_novel_runs_worked_by_hand() -> None:
    """ "crows hide" and "seeds in" stand in the source, "hide the" and "the seeds" do not."""
    found = measure_novelty(["Crows hide the seeds, in AUTUMN! Jays do so too."], [SOURCE])
    assert found["1 word"].value == pytest.approx(1 / 10)
    assert found["2 words"].value == pytest.approx(2 / 8)
    assert found["3 words"].value == pytest.approx(3 / 6)
    assert found["4 words"].value == pytest.approx(3 / 4)
    assert found["sentence"].value == pytest.approx(1 / 2)
    assert found["sentence"].count == 2


def test_a_run_stays_within_a_sentence_that_is_said_and_may_cross_those_of_the_source() -> None:
    assert measure_novelty(["Crows. Hide."], ["hide crows"], [2]).keys() == {"sentence"}
    assert measure_novelty(["In autumn a crow"], [SOURCE], [4])["4 words"].value == 0


def test_half_a_word_is_not_copied() -> None:
    assert measure_novelty(["crow"], ["scrowl crows"], [1])["1 word"].value == 1


def test_words_are_counted_together_and_texts_apart() -> None:
    """One of four words of two texts, which are too few for an interval."""
    found = measure_novelty(["crow", "crow hid oak"], ["oak crow", "crow hid"], [1])["1 word"]
    assert (found.value, found.count) == (1 / 4, 4)
    assert (found.low, found.high) == (None, None)


def stands(run: list[str], whole: list[str]) -> bool:
    return any(whole[at : at + len(run)] == run for at in range(len(whole) - len(run) + 1))


@given(TEXTS, TEXTS, st.integers(1, 4))
def test_novel_and_repeated_runs_are_those_of_brute_force(said: str, source: str, n: int) -> None:
    ours, theirs = split_words(said), split_words(source)
    runs = [ours[at : at + n] for at in range(len(ours) - n + 1)]
    name = f"{n} word{'s' * (n > 1)}"
    new, twice = measure_novelty([said], [source], [n]), measure_repetition([said], [n])
    assert (name in new) == (name in twice) == bool(runs)
    if runs:
        expected = sum(not stands(run, theirs) for run in runs) / len(runs)
        assert new[name].value == pytest.approx(expected, abs=1e-12)
        assert twice[name].value == pytest.approx(
            sum(runs.count(run) > 1 for run in runs) / len(runs), abs=1e-12
        )


def test_repeated_runs_worked_by_hand() -> None:
    found = measure_repetition(["The crow hid. The crow hid. The jay saw."])
    assert found["1 word"].value == pytest.approx(7 / 9)
    assert found["2 words"].value == pytest.approx(4 / 6)
    assert found["3 words"].value == pytest.approx(2 / 3)
    assert found["sentence"].value == pytest.approx(2 / 3)
    assert "4 words" not in found


def test_repetition_is_within_one_text() -> None:
    assert measure_repetition(["the crow hid"] * 2, [1])["1 word"].value == 0


def test_a_run_has_a_word() -> None:
    with pytest.raises(ValueError, match="one word"):
        measure_novelty(["a"], ["a"], [0])


def test_texts_without_a_source_are_refused() -> None:
    with pytest.raises(ValueError):
        measure_novelty(["a", "b"], ["a"])


def test_figures_have_a_row_for_each_system_and_measure() -> None:
    said = ["Crows hide seeds. Crows hide seeds."]
    for name, found in (
        ("novel", measure_novelty(said, [SOURCE])),
        ("repeated", measure_repetition(said)),
    ):
        figure = make_text_figure(name, {"copier": found, "same": found}, "one text")
        assert [row[:3] for row in figure.rows] == [
            (system, measure, each.value)
            for system in ("copier", "same")
            for measure, each in found.items()
        ]
        assert figure.picture.places == tuple(found)
        assert figure.source.startswith("Ziegler, ")
