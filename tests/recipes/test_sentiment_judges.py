"""Judges of sentiment, who have learnt from other reviews than the labeller."""

from collections.abc import Sequence

import pytest

from recipes.random_models import write_tiny_encoder
from recipes.sentiment_judges import (
    CANNED_WORDS,
    LABELLER,
    MINILM,
    SECOND,
    Judges,
    choose_canned_sentence,
    make_pairs,
    train_judges,
)
from rookery.records import Answer, Question

ROWS = [(f"a good film {at}", True) for at in range(40)]
ROWS += [(f"a bad film {at}", False) for at in range(40)]


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Judges:
    folder = tmp_path_factory.mktemp("encoder")
    write_tiny_encoder(folder, [text for text, _ in ROWS])
    return train_judges(ROWS, str(folder), 0)


def test_good_films_have_higher_log_odds_by_every_judge(judges: Judges) -> None:
    assert list(judges.scores) == [LABELLER, SECOND, MINILM]
    for name, score in judges.scores.items():
        good, bad = score(make_pairs(["a good film", "a bad film"]))
        assert good > bad, name
    assert judges.accuracies[LABELLER] == judges.accuracies[SECOND] == 1.0


def test_a_number_that_the_labeller_has_read_says_nothing_to_the_second(judges: Judges) -> None:
    """No review is read by two of the classifiers that learn from words."""
    words = [str(at) for at in range(40)]
    nothing = {name: judges.scores[name](make_pairs(["unheard"]))[0] for name in (LABELLER, SECOND)}
    learnt = {
        name: {
            word
            for word, score in zip(words, judges.scores[name](make_pairs(words)), strict=True)
            if score != pytest.approx(nothing[name])
        }
        for name in (LABELLER, SECOND)
    }
    assert learnt[LABELLER]
    assert learnt[SECOND]
    assert learnt[LABELLER] != learnt[SECOND]


def test_the_canned_sentence_is_the_beginning_that_the_labeller_likes_best() -> None:
    def count(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [float(answer.text.count("good")) for _, answer in pairs]

    texts = ["an idea", "good and good", "a word " * 12 + "good good good"]
    assert choose_canned_sentence(count, texts) == "good and good"
    assert len(choose_canned_sentence(count, texts[2:]).split()) == CANNED_WORDS
