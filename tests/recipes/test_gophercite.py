"""GopherCite at its smallest: all stages on a little web, stopped and gone on with."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from recipes.baselines import choose_lexical_quote, find_majority
from recipes.findings import Verdict, list_findings
from recipes.gold_answers import holds_gold_answer, rate_by_gold
from recipes.gophercite import DEFAULTS, list_notes, reproduce_paper
from recipes.gophercite_data import (
    Data,
    demonstrate_claim,
    make_comparisons,
    split_articles,
)
from recipes.gophercite_found import (
    GREEDY,
    LIKELIEST,
    LONGEST,
    LOT,
    MAJORITY,
    TOLD,
    JudgedClaim,
    Samples,
    choose_samples,
    list_effects,
    make_answer_tables,
    make_pointer_table,
)
from recipes.gophercite_stages import Settings, score_by_gold
from recipes.pointed_claims import (
    ClaimSample,
    QuotedQuestion,
    list_sentence_quotes,
    make_claim_answer,
)
from recipes.stages import ROOT, Result, run_recipe
from rookery.errors import Failed
from rookery.library.question_files import is_correct_answer, read_squad
from rookery.measure.figures import read_figures
from rookery.records import Comparison, Question, Quote, Rating
from rookery.typed_files import merge_tables, parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("gophercite")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")
COUNT = 60
"""Questions of made-up samples that can be answered."""
WAYS = ("by reward", LIKELIEST, LONGEST, TOLD, MAJORITY)


def run(out: Path) -> Result:
    place = SIZES / "gophercite.tiny.toml"
    return run_recipe("gophercite", Settings, reproduce_paper, place, NO_DATA, out, DEFAULTS)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gophercite") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def world(out: Path) -> Data:
    squad = read_squad(out / "little" / "squad.json")
    return split_articles(squad, (10, 4, 4), (30, 10, 10), 90, 0)


def read_samples(place: Path) -> list[list[ClaimSample]]:
    return msgspec.json.decode(place.read_bytes(), type=list[list[ClaimSample]])


@pytest.mark.slow
def test_a_run_that_was_stopped_while_it_reinforced_finds_the_same(
    out: Path, tmp_path: Path
) -> None:
    (tmp_path / "rl").mkdir()
    (tmp_path / "rl" / "cord").write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(tmp_path)
    (tmp_path / "rl" / "cord").unlink()
    again = run(tmp_path)
    first = Result.from_json((out / "result.json").read_bytes())
    assert again.to_json() == first.to_json().replace(
        f'"minutes":{first.minutes}', f'"minutes":{again.minutes}'
    )


@pytest.mark.slow
def test_it_writes_a_figure_for_each_thing_that_it_shows(out: Path) -> None:
    figures = {place.stem: figure for place, figure in read_figures(out / "figures").items()}
    assert figures.keys() == {"best-of-n", "coverage", "rewards"}
    assert len(figures["rewards"].rows) == 2 * 2  # two runs of two batches


@pytest.mark.slow
def test_every_answer_quotes_a_sentence_of_the_page_that_was_found(out: Path, world: Data) -> None:
    samples = read_samples(out / "SFT.json")
    questions = [question for question, _ in (*world.held, *world.absent)]
    assert [len(row) for row in samples] == [4] * 20
    for question, row in zip(questions, samples, strict=True):
        sentences = list_sentence_quotes(world.find_page(question))
        assert all(one.answer.quotes[0] in sentences for one in row if one.answer)
        assert len({one.answer.quotes for one in row if one.answer}) == 1


@pytest.mark.slow
def test_of_two_answers_that_are_compared_one_holds_an_accepted_answer(out: Path) -> None:
    comparisons = list(read_json_lines(out / "comparisons.jsonl", Comparison))
    ratings = list(read_json_lines(out / "ratings.jsonl", Rating))
    assert len(comparisons) >= 2 * 8
    for each in comparisons:
        good = [float(is_correct_answer(each.question, one)) for one in each.answers]
        assert tuple(good) == each.weights
    assert 0 < sum(each.weights[0] for each in comparisons) < len(comparisons)
    answers = {(each.question.id, one) for each in comparisons for one in each.answers}
    assert len(ratings) == 2 * len(answers)


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Data:
    from recipes.gophercite_data import write_tiny_data

    squad = read_squad(write_tiny_data(tmp_path_factory.mktemp("little")))
    return split_articles(squad, (8, 4, 4), (24, 10, 10), 90, 0)


def test_a_claim_is_plausible_and_a_quote_supports_only_where_each_holds_the_answer(
    little: Data,
) -> None:
    question, page = little.held[0]
    _, right, claim = demonstrate_claim(question, page)
    wrong = next(one for one in list_sentence_quotes(page) if not holds_gold_answer(question, one))
    assert claim == question.gold[0]
    for text, quote, values in (
        (claim, right, [1, 1]),
        (claim, wrong, [0, 1]),
        ("The page says so.", right, [1, 0]),
    ):
        answer = make_claim_answer(text, quote)
        assert [each.value for each in rate_by_gold(question, answer)] == values
        assert score_by_gold([(question, answer)]) == [float(all(values))]


def test_articles_that_are_left_out_are_in_no_library_and_no_lesson(little: Data) -> None:
    taught, held, absent = (
        {page.url for _, page in each} for each in (little.taught, little.held, little.absent)
    )
    assert [len(taught), len(held), len(absent)] == [8, 4, 4]
    assert len(taught | held | absent) == 16
    for url in absent:
        with pytest.raises(Failed):
            little.holdings.fetch(url)
    for question, page in little.absent:
        assert little.find_page(question) != page


def test_each_question_has_one_sentence_that_answers_it(little: Data) -> None:
    for question, page in little.held:
        good = [holds_gold_answer(question, quote) for quote in list_sentence_quotes(page)]
        assert good.count(True) == 1
        assert little.find_page(question) == page


def test_the_lexical_quote_shares_the_questions_words(little: Data) -> None:
    _, page = little.held[0]
    assert choose_lexical_quote(Question("k", "Who is the keeper?"), page).text.startswith("Its")


def test_comparisons_are_of_samples_demonstrations_and_other_sentences(little: Data) -> None:
    question, page = little.taught[0]
    _, quote, claim = demonstrate_claim(question, page)
    row = [
        ClaimSample(make_claim_answer(text, quote), -1.0)
        for text in (f"in fact {claim}", "nothing", "nothing", "nobody")
    ]
    pairs = [
        tuple(one.text for one in (each.answers if each.weights[0] else each.answers[::-1]))
        for each in make_comparisons([little.taught[0]], [row], 0)
    ]
    assert sorted(pairs[:2]) == [(f"in fact {claim}", "nobody"), (f"in fact {claim}", "nothing")]
    assert sorted(pairs[2:4]) == [(claim, "nobody"), (claim, "nothing")]
    assert pairs[4:] == [(claim, claim)] * 2


def make_samples(count: int, knows: bool, share: float = 0.5, seed: int = 0) -> Samples:
    """Make up four samples of each of `count` questions that can be answered, of which this share
    is good, and of as many that cannot; with a reward that knows it, or is random."""
    chance = Random(seed)
    samples: Samples = []
    for number in range(2 * count):
        samples.append([])
        for _ in range(4):
            good = float(number < count and chance.random() < share)
            reward = good + 0.1 * chance.random() if knows else chance.random()
            claim = str(chance.randrange(3))
            samples[-1].append(JudgedClaim(claim, good, reward, reward, chance.random()))
    return samples


def judge(sft: Samples, rl: Samples) -> list[Verdict]:
    """Return the verdicts on COUNT questions that can be answered and as many that cannot."""
    quote = Quote("u", "", "", 0, 8, "Nothing.")
    quoted: list[QuotedQuestion] = [
        (Question(f"{at}", "Why?", gold=("x",)), quote) for at in range(2 * COUNT)
    ]
    samples = {
        "SFT": sft,
        f"SFT, {GREEDY}": [row[:1] for row in sft[:COUNT]],
        f"few-shot, {GREEDY}": [row[:1] for row in sft[COUNT:]],
        "RL": rl[:COUNT],
        f"RL, {GREEDY}": [row[:1] for row in rl[:COUNT]],
        "RL on the known reward": rl[:COUNT],
    }
    tables = list(make_answer_tables(samples, quoted, COUNT))
    return [each.verdict for each in list_findings(list_effects(4)[1:], [tables])]


def test_a_reward_that_knows_what_is_good_shows_in_choosing_and_in_declining() -> None:
    imitation, best, rl, greedy, known, area = judge(
        make_samples(COUNT, True), make_samples(COUNT, True, 0.9, 1)
    )
    assert (imitation, best, rl, greedy, known, area) == ("yes",) * 6


def test_a_reward_that_knows_nothing_shows_nothing() -> None:
    _, best, rl, greedy, _, area = judge(
        make_samples(COUNT, False), make_samples(COUNT, False, 0.5, 1)
    )
    assert "yes" not in (best, rl, greedy, area)


def test_samples_are_chosen_in_every_way() -> None:
    row = [
        JudgedClaim("The Lune", 0.0, 0.3, 0.0, -1.0),
        JudgedClaim("the Tarn", 1.0, 0.1, 0.0, -2.0),
        JudgedClaim("The Tarn", 1.0, 0.2, 0.0, -3.0),
        JudgedClaim("the river of the town", 0.0, 0.0, 0.0, -9.0),
    ]
    chosen = {way: choose_samples([row], way)[0] for way in WAYS}
    assert chosen == {
        "by reward": row[0],
        LIKELIEST: row[0],
        LONGEST: row[3],
        TOLD: row[1],
        MAJORITY: row[1],
    }
    assert find_majority(["Lune"]) == 0


def test_quotes_are_judged_on_the_page_that_was_found(little: Data) -> None:
    pages = little.held
    first, last = ([[float(at == place) for at in range(4)] for _ in pages] for place in (0, 3))
    table = make_pointer_table(pages, {"first": first, "last": last})
    assert table.scores["first"] == (0.0,) * len(pages)  # "Ashby has a mill" answers nothing
    keepers = [float(question.text.startswith("Who")) for question, _ in pages]
    assert table.scores["last"] == tuple(keepers)
    assert table.scores[TOLD] == (1.0,) * len(pages)
    assert table.scores[LOT] == (0.25,) * len(pages)


def test_notes_say_how_long_claims_are() -> None:
    notes = list_notes({"SFT": [[JudgedClaim("Tarn", 1.0, 0.0, 0.0, 0.0)] * 2] * 5})
    assert "SFT 4 (n=10)" in notes[0]


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "paper"])
def test_each_size_is_valid_and_short(size: str) -> None:
    place = SIZES / f"gophercite.{size}.toml"
    settings = parse_settings(merge_tables(DEFAULTS, read_toml_table(place)), Settings, place)
    assert settings.demonstrations + settings.compared < settings.questions[0]
    assert len(place.read_text().splitlines()) <= 60


def test_the_papers_size_has_the_papers_numbers() -> None:
    place = SIZES / "gophercite.paper.toml"
    paper = parse_settings(merge_tables(DEFAULTS, read_toml_table(place)), Settings, place)
    assert (paper.samples, paper.imitate.rows) == (64, 128)
    assert (paper.reinforce.steps, paper.reinforce.policy.frozen) == (520, 0.6)
    assert (paper.reinforce.advantage, paper.reinforce.kl) == ("gae", "loss")


def test_the_recipe_only_composes() -> None:
    assert len((ROOT / "recipes" / "gophercite.py").read_text().splitlines()) <= 120
    parts = (ROOT / "recipes").glob("gophercite_*.py")
    assert sum(len(part.read_text().splitlines()) for part in parts) <= 600
