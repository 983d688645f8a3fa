"""WebGPT at its smallest: all stages on a little web, stopped and gone on with."""

from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from recipes.findings import list_findings
from recipes.gold_answers import AnswerLocation
from recipes.stages import ROOT, Result, load_or_make, run_recipe
from recipes.webgpt import DEFAULTS, reproduce_paper
from recipes.webgpt_actors import RANDOM, SCRIPT, answer_by_offers, point_at_sentence
from recipes.webgpt_data import AnswerSample, Samples, Settings, is_right, prepare_site
from recipes.webgpt_found import (
    FRESH,
    GIVEN,
    GIVEN_REINFORCED,
    GREEDY,
    KNOWN,
    NO_ANSWER_REWARD,
    REINFORCED,
    count_votes,
    list_effects,
    make_table,
    name_clone,
    rate_best,
    rate_samples,
    reward_samples,
)
from recipes.webgpt_stages import PAIRS, make_comparisons
from rookery.errors import Failed
from rookery.library.search_index import InMemoryLibrary
from rookery.measure.figures import read_figures
from rookery.pages.page_reader import read_page
from rookery.records import Answer, Comparison, Episode, Page, Question
from rookery.typed_files import merge_tables, parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("webgpt")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")
ASKED = Question("1", "When was the mill built?", gold=("1707",))
PAGE = Page("u", "Mill", "It was built in 1707. It burnt in 1811.")
BUILT, BURNT = PAGE.quote(0, 21), PAGE.quote(22, 39)
RIGHT, WRONG, UNSHOWN = (
    Answer("1707", (BUILT,)),
    Answer("1811", (BURNT,)),
    Answer("1707", (BURNT,)),
)


def settings(size: str) -> Settings:
    path = SIZES / f"webgpt.{size}.toml"
    return parse_settings(merge_tables(DEFAULTS, read_toml_table(path)), Settings, path)


def run(out: Path) -> Result:
    return run_recipe(
        "webgpt", Settings, reproduce_paper, SIZES / "webgpt.tiny.toml", NO_DATA, out, DEFAULTS
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webgpt") / "out"
    run(folder)
    return folder


@pytest.mark.slow
def test_a_run_that_was_stopped_while_it_learnt_finds_the_same(out: Path, tmp_path: Path) -> None:
    (tmp_path / "reinforced").mkdir()
    (tmp_path / "reinforced" / "cord").write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(tmp_path)
    (tmp_path / "reinforced" / "cord").unlink()
    again = run(tmp_path)
    first = Result.from_json((out / "result.json").read_bytes())
    assert (again.findings, again.notes) == (first.findings, first.notes)


@pytest.mark.slow
def test_it_writes_its_curves_and_samples(out: Path) -> None:
    found = {place.stem for place in read_figures(out / "figures")}
    assert found == {"demonstrations", "best-of-n", "rewards"}
    samples = load_or_make(out / "samples-known" / "0.json", Samples, list)
    assert [len(some) for some in samples] == [4] * 6
    made = list(read_json_lines(out / "reward" / "comparisons.jsonl", Comparison))
    assert made
    assert all(is_right(each.question, each.answers[0]) for each in made)


@pytest.mark.slow
def test_demonstrations_search_open_point_and_answer(out: Path) -> None:
    episodes = list(read_json_lines(out / "cloned-8" / "demonstrations.jsonl", Episode))
    assert episodes
    for episode in episodes:
        verbs = [step.said.text.split()[0] for step in episode.steps[:-1]]
        assert verbs == ["Search", "Clicked", "Quote:"]
        assert is_right(episode.question, episode.answer)


def test_no_two_uses_share_a_question(tmp_path: Path) -> None:
    _, uses = prepare_site(settings("tiny"), NO_DATA, tmp_path)
    assert [len(use) for use in uses] == [8, 8, 4, 6]
    for one, other in combinations(uses, 2):
        assert not {each.id for each in one} & {each.id for each in other}


def test_an_answer_is_right_where_it_is_short_and_its_quote_holds_it_too() -> None:
    copied = Answer("It was built in 1707, they say.", (BUILT,))
    assert is_right(ASKED, RIGHT)
    assert not any(is_right(ASKED, answer) for answer in (WRONG, UNSHOWN, copied, None))


def test_a_sentence_is_pointed_at_by_words_that_name_it_alone() -> None:
    sentence = "The old mill stands by the river Lune that floods in every winter."
    page = Page("u", "Mill", f"It is old. {sentence}")
    target = AnswerLocation(page, 11, len(page.text), "Lune")
    # "The old" has fewer than eight letters; elsewhere "The old mill" names two places
    assert point_at_sentence(target, page.text) == "The old mill━in every winter."
    assert point_at_sentence(target, f"The old mill burnt. {page.text}") == sentence


def test_the_script_answers_from_the_offers() -> None:
    text = b"<title>Ashby</title><p>Nobody lives in Ashby. The mill of Ashby was built in 1707.</p>"
    library = InMemoryLibrary([read_page(text, "https://a.org/ashby", "text/html")])
    question = Question("1", "When was the mill of Ashby built?", gold=("1707",))
    samples = answer_by_offers(settings("tiny"), [question], library, SCRIPT)
    answer = samples[0][0].answer
    assert answer is not None
    assert (answer.text, answer.quotes[0].text) == (
        "1707.",
        "The mill of Ashby was built in 1707.",
    )


def test_right_answers_are_compared_with_wrong_ones_once_and_few_times() -> None:
    found = make_comparisons(ASKED, [WRONG, None, UNSHOWN, WRONG, RIGHT])
    assert [each.weights for each in found] == [(1.0, 0.0)] * 2
    assert {each.answers for each in found} == {(RIGHT, WRONG), (RIGHT, UNSHOWN)}
    many = [RIGHT, *(Answer(f"{year}", (BURNT,)) for year in range(9))]
    assert len(make_comparisons(ASKED, many)) == PAIRS


def test_the_best_is_chosen_and_what_is_no_answer_never() -> None:
    samples = [[AnswerSample(each, -1.0) for each in (None, WRONG, RIGHT)]]
    rewards = reward_samples([ASKED], samples, lambda pairs: [-5.0, -7.0])
    right = rate_samples([ASKED], samples)
    assert (rewards, right) == ([[NO_ANSWER_REWARD, -5.0, -7.0]], [[0.0, 0.0, 1.0]])
    assert rate_best(rewards, right) == [0.0]
    assert rate_best([[1.0, 2.0, 2.0]], right) == [0.5]  # a tie is shared


def test_votes_count_answers_in_any_case_and_nothing_has_none() -> None:
    some = [AnswerSample(each, 0.0) for each in (Answer("Lune"), Answer("lune"), None, Answer("a"))]
    assert count_votes(some) == [2.0, 2.0, -1.0, 1.0]


def draw_samples(share: float, n: int, seed: int) -> Samples:
    """Samples for 200 questions that are right so often."""
    chance = Random(seed)
    kinds = [[RIGHT if chance.random() < share else WRONG for _ in range(n)] for _ in range(200)]
    return [[AnswerSample(each, chance.random()) for each in some] for some in kinds]


@pytest.mark.parametrize(("skill", "best"), [(3.0, "yes"), (0.0, "not seen")])
def test_what_helps_is_found_to_help(skill: float, best: str) -> None:
    sizes = replace(settings("small"), samples=8)
    shares = dict.fromkeys(map(name_clone, sizes.demonstrations), 0.1)
    shares |= {KNOWN: 0.3, FRESH: 0.3, GREEDY: 0.3, REINFORCED: 0.5, GIVEN: 0.5}
    shares |= {GIVEN_REINFORCED: 0.7, RANDOM: 0.02, SCRIPT: 0.6}
    pools = {name: draw_samples(each, 8, seed) for seed, (name, each) in enumerate(shares.items())}
    chance = Random(0)
    rewards = [
        [skill * (one.answer == RIGHT) + chance.gauss(0, 1) for one in some]
        for some in pools[FRESH]
    ]
    questions = [replace(ASKED, id=f"{at}") for at in range(200)]
    tables = [make_table(questions, pools, rewards)]
    found = [each.verdict for each in list_findings(list_effects(sizes), [tables])]
    assert found == ["yes", best, "yes", "yes"]


def test_expectations_were_set_for_each_effect() -> None:
    expected = [each.expected for each in list_effects(settings("small"))]
    assert expected == pytest.approx([0.24, 0.10, 0.05, 0.07])  # three doublings


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "paper"])
def test_every_size_can_be_read(size: str) -> None:
    numbers = settings(size).demonstrations
    assert sorted(numbers) == list(numbers)


def test_the_papers_size_has_the_papers_numbers() -> None:
    paper = settings("paper")
    assert (paper.samples, paper.browsing.extra_answers) == (64, 15)
    assert (paper.reinforce.minibatches, paper.reinforce.beta) == (128, 0.02)
