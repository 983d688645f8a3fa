"""GopherCite at its smallest: all stages on a little web, stopped and gone on with."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from recipes.findings import list_findings
from recipes.gophercite import DEFAULTS, reproduce_paper
from recipes.gophercite_data import (
    Data,
    holds_gold_answer,
    list_sentence_quotes,
    make_answer,
    rate_by_gold,
    split_articles,
)
from recipes.gophercite_floors import (
    BY_LOT,
    EVIDENCE,
    FIRST,
    TF_IDF,
    TOLD,
    FloorScores,
    QuoteScores,
    draw_windows,
    find_page,
)
from recipes.gophercite_found import (
    Sample,
    Samples,
    choose_by_reward,
    list_effects,
    list_notes,
    make_tables,
    score_samples,
)
from recipes.gophercite_stages import Settings
from recipes.policy_samples import QuotedSample
from recipes.stages import ROOT, Result, load_or_make, run_recipe
from rookery.errors import Failed
from rookery.learn.imitation_learning import ImitationResult
from rookery.library.question_files import is_correct_answer, read_squad
from rookery.measure.figures import read_figures
from rookery.records import Answer, Comparison, Episode, Page, Question, Rating
from rookery.typed_files import parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("gophercite")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")


def run(out: Path) -> Result:
    return run_recipe(
        "gophercite",
        Settings,
        reproduce_paper,
        SIZES / "gophercite.tiny.toml",
        NO_DATA,
        out,
        DEFAULTS,
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gophercite") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def world(out: Path) -> Data:
    return split_articles(read_squad(out / "little/squad.json"), (8, 4, 4), (24, 10, 10), 90, 0)


def answers(place: Path) -> list[Answer]:
    drawn = msgspec.json.decode(place.read_bytes(), type=list[list[QuotedSample]])
    return [one.answer for some in drawn for one in some if one.answer]


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
    assert (again.findings, again.notes) == (first.findings, first.notes)


def test_it_writes_a_figure_for_each_thing_that_it_shows(out: Path) -> None:
    found = {place.stem for place in read_figures(out / "figures")}
    assert found == {"supported", "best-of-n", "coverage"}


@pytest.mark.slow
def test_only_sentences_that_were_rated_good_are_imitated(out: Path) -> None:
    episodes = list(read_json_lines(out / "episodes.jsonl", Episode))
    ratings = list(read_json_lines(out / "ratings.jsonl", Rating))
    done = msgspec.json.decode((out / "imitated.json").read_bytes(), type=ImitationResult)
    assert len(episodes) == 4 * 24
    assert all(each.answer and each.answer.text in each.question.gold for each in episodes)
    # every claim is plausible, one sentence of four supports it
    assert sum(rating.value for rating in ratings) == (4 + 1) * 24
    assert done.rows + done.validation_rows == 24


@pytest.mark.slow
def test_of_two_answers_that_are_compared_one_holds_an_accepted_answer(out: Path) -> None:
    made = list(read_json_lines(out / "comparisons.jsonl", Comparison))
    asked = [each for each in made if each.by == "known answers"]
    # one of each question with another about its page; more where samples differ in it
    assert 24 <= len(asked) <= 24 + 20
    assert len(made) == len(asked) + 8
    for each in asked:
        good = [float(is_correct_answer(each.question, one)) for one in each.answers]
        assert tuple(good) == each.weights
    assert 0 < sum(each.weights[0] for each in asked) < len(asked)


@pytest.mark.parametrize("policy", ["SFT", "RL"])
def test_every_answer_is_a_slice_of_a_page_of_the_library(
    out: Path, world: Data, policy: str
) -> None:
    given = answers(out / f"{policy}.json")
    assert len(given) == 80
    for each in given:
        [quote] = each.quotes
        assert world.holdings.fetch(quote.url).quote(quote.start, quote.end) == quote


def test_a_claim_is_plausible_and_a_quote_supports_only_where_each_holds_the_answer(
    world: Data,
) -> None:
    question, page = world.asked[0]
    right = next(one for one in list_sentence_quotes(page) if holds_gold_answer(question, one))
    wrong = next(one for one in list_sentence_quotes(page) if not holds_gold_answer(question, one))
    for claim, quote, values in (
        (question.gold[0], right, [1, 1]),
        (question.gold[0], wrong, [0, 1]),
        ("The page says so.", right, [1, 0]),
    ):
        given = make_answer(claim, quote)
        assert [each.value for each in rate_by_gold(question, given)] == values
        assert is_correct_answer(question, given) == all(values)


def test_articles_that_are_left_out_are_in_no_library_and_no_lesson(world: Data) -> None:
    taught, asked, absent = (
        {page.url for _, page in each} for each in (world.taught, world.asked, world.absent)
    )
    assert [len(taught), len(asked), len(absent)] == [8, 4, 4]
    assert len(taught | asked | absent) == 16
    for url in absent:
        with pytest.raises(Failed):
            world.holdings.fetch(url)


def test_each_question_has_a_sentence_that_answers_it(world: Data) -> None:
    for question, page in world.asked:
        assert [holds_gold_answer(question, quote) for quote in list_sentence_quotes(page)].count(
            True
        ) == 1


def test_a_question_that_no_page_is_found_for_has_the_lowest_scores(out: Path, world: Data) -> None:
    drawn = msgspec.json.decode((out / "SFT.json").read_bytes(), type=list[list[QuotedSample]])
    asked = [*world.asked, *world.absent]
    found = score_samples(out / "reward/model", asked, 10, [[], *drawn[1:]], 160)
    kept = msgspec.json.decode((out / "SFT-judged.json").read_bytes(), type=Samples)
    assert len(found[0]) == 4
    assert not any(one.good for one in found[0])
    assert max(one.reward for one in found[0]) < min(one.reward for row in kept for one in row)
    for row, known in zip(found[1:], kept[1:], strict=True):
        assert [one.good for one in row] == [one.good for one in known]
        assert [one.reward for one in row] == pytest.approx([one.reward for one in known], abs=1e-5)


def made_up(of: int, knows: bool, seed: int = 0) -> Samples:
    """Four samples a question, of which one in two is good where it can be answered; a reward that
    knows it, or that is drawn by lot."""
    chance = Random(seed)
    samples: Samples = []
    for number in range(2 * of):
        samples.append([])
        for _ in range(4):
            good = float(number < of and chance.random() < 0.5)
            reward = good + 0.1 * chance.random() if knows else chance.random()
            samples[-1].append(Sample(good, reward, reward, chance.random(), 40))
    return samples


def judge(sft: Samples, rl: Samples, script: float = 0.0) -> list[str]:
    """Verdicts on 100 questions that can be answered and as many that cannot, where the first
    sentence is good so often."""
    page = Page("u", "", "Nothing.")
    asked = [(Question(f"{at}", "Why?"), page) for at in range(200)]
    names = (*BY_LOT, FIRST, TF_IDF, EVIDENCE, TOLD)
    floors = FloorScores({name: [script * (name == FIRST)] * 100 for name in names})
    quoted = QuoteScores([0.0] * 200, [0.0] * 200)
    tables = list(make_tables({"SFT": sft, "RL": rl}, asked, 100, floors, quoted))
    return [each.verdict for each in list_findings(list_effects(4), [tables])]


def test_a_reward_that_knows_what_is_good_shows_in_choosing_and_in_declining() -> None:
    best, learnt, same, area, likelihood, head = judge(made_up(100, True), made_up(100, True, 1))
    assert (best, area, likelihood) == ("yes", "yes", "yes")
    assert learnt != "yes"
    assert (same, head) == ("undecided", "undecided")


def test_a_reward_that_knows_nothing_shows_nothing() -> None:
    best, _, same, area, likelihood, _ = judge(made_up(100, False), made_up(100, True))
    assert "yes" not in (best, area, likelihood)
    assert same == "no"  # the other reward knows


def test_a_first_sentence_that_does_better_is_a_fact_beside_the_claim() -> None:
    best, *_ = judge(made_up(100, True), made_up(100, True, 1), script=1.0)
    assert best == "yes"


def test_windows_by_lot_are_slices_of_their_length(world: Data) -> None:
    _, page = world.asked[0]
    for quote in draw_windows(page, 20, "a"):
        assert 20 <= len(quote.text) < 60
        assert page.quote(quote.start, quote.end) == quote
    assert {quote.text for quote in draw_windows(page, 10_000, "a")} == {page.text}


def test_floors_are_measured_on_the_page_that_is_found(out: Path, world: Data) -> None:
    found = load_or_make(out / "floors.json", FloorScores, lambda: FloorScores({})).by
    assert all(len(each) == len(world.asked) for each in found.values())
    # one of the four sentences of a town's page answers: which page is found decides the rest
    right = [find_page(world, question, 1) == page for question, page in world.asked]
    assert found[BY_LOT[-1]] == [0.25 * one for one in right]
    assert sum(found[TOLD]) == sum(right)


def test_the_chosen_sample_is_the_one_with_the_highest_reward() -> None:
    found = made_up(20, True)
    for chosen, row in zip(choose_by_reward(found), found, strict=True):
        assert chosen.reward == max(one.reward for one in row)
    assert "40 (n=160)" in " ".join(list_notes({"SFT": found, "RL": found}, 20))


@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_each_size_is_valid(size: str) -> None:
    place = SIZES / f"gophercite.{size}.toml"
    settings = parse_settings(read_toml_table(place), Settings, place)
    assert settings.reinforce.sampling.max_tokens >= settings.shape.free + 32


def test_the_papers_size_has_the_papers_numbers() -> None:
    place = SIZES / "gophercite.paper.toml"
    paper = parse_settings(read_toml_table(place), Settings, place)
    assert (paper.samples, paper.imitate.rows, paper.facts) == (64, 128, 5817)
    assert (paper.reinforce.steps, paper.reinforce.policy.frozen) == (520, 0.6)


def test_the_recipe_only_composes() -> None:
    assert len((ROOT / "recipes" / "gophercite.py").read_text().splitlines()) <= 120
