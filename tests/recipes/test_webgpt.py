"""WebGPT at its smallest: all stages on a little web, stopped and gone on with."""

from itertools import combinations
from pathlib import Path
from random import Random

import msgspec
import pytest

from recipes.findings import list_findings
from recipes.oracle_policies import list_candidate_actions
from recipes.stages import ROOT, Result, load_or_make, run_recipe
from recipes.webgpt import DEFAULTS, reproduce_paper
from recipes.webgpt_data import Settings, prepare_site
from recipes.webgpt_floors import EXTRACT, RANDOM, SCRIPT
from recipes.webgpt_found import (
    ComputeCosts,
    choose_by_compute,
    list_effects,
    make_tables,
    rate_floors,
)
from recipes.webgpt_pools import (
    CLONED_POLICY,
    NO_ANSWER_REWARD,
    PPO_POLICY,
    JudgedSamples,
    convert_to_preference,
    judge_samples,
    rate_best_of_n,
)
from recipes.webgpt_rewards import make_comparisons
from recipes.webgpt_stages import Samples
from rookery.errors import Failed
from rookery.library.question_files import is_correct_answer
from rookery.measure.figures import read_figures
from rookery.measure.intervals import Estimate
from rookery.records import Answer, Comparison, Episode, Page, Question
from rookery.typed_files import parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("webgpt")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")
ASKED = Question("1", "When was it built?", gold=("1707",))
PAGE = Page("u", "Mill", "It was built in 1707. It burnt in 1811.")
BUILT, BURNT = PAGE.quote(0, 21), PAGE.quote(22, 39)
RIGHT, WRONG, UNSHOWN = (
    Answer("1707", (BUILT,)),
    Answer("1811", (BURNT,)),
    Answer("1707", (BURNT,)),
)


def settings(size: str) -> Settings:
    path = SIZES / f"webgpt.{size}.toml"
    return parse_settings(read_toml_table(path), Settings, path)


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
    (tmp_path / "ppo").mkdir()
    (tmp_path / "ppo" / "cord").write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(tmp_path)
    (tmp_path / "ppo" / "cord").unlink()
    again = run(tmp_path)
    first = Result.from_json((out / "result.json").read_bytes())
    assert (again.findings, again.notes) == (first.findings, first.notes)


def test_it_writes_a_figure_for_each_thing_that_it_shows(out: Path) -> None:
    found = {place.stem for place in read_figures(out / "figures")}
    assert found == {"right", "best-of-n", "preferred-best-of-n", "compute", "preferred"}


@pytest.mark.slow
def test_demonstrations_are_right_and_say_only_what_models_are_offered(out: Path) -> None:
    episodes = list(read_json_lines(out / "cloned-16-1" / "demonstrations.jsonl", Episode))
    assert episodes
    for episode in episodes:
        assert is_correct_answer(episode.question, episode.answer)
        assert all(step.said.text in list_candidate_actions(step.prompt) for step in episode.steps)


def test_no_two_uses_share_a_question(tmp_path: Path) -> None:
    _, uses = prepare_site(settings("tiny"), NO_DATA, tmp_path)
    assert [len(use) for use in uses] == list(settings("tiny").asked)
    for one, other in combinations(uses, 2):
        assert not {each.id for each in one} & {each.id for each in other}


@pytest.mark.slow
def test_comparisons_prefer_who_is_right(out: Path) -> None:
    made = list(read_json_lines(out / "reward" / "comparisons.jsonl", Comparison))
    assert any(max(each.weights) == 1 for each in made)
    for each in made:
        good = [is_correct_answer(each.question, answer) for answer in each.answers]
        assert each.weights[0] - each.weights[1] == good[0] - good[1]


def test_an_answer_is_right_where_its_quote_holds_it_too() -> None:
    assert is_correct_answer(ASKED, RIGHT)
    assert not any(is_correct_answer(ASKED, answer) for answer in (WRONG, UNSHOWN, None))


def test_equal_answers_are_compared_once_and_two_wrong_ones_tie() -> None:
    found = list(make_comparisons(ASKED, [WRONG, None, UNSHOWN, WRONG, RIGHT]))
    assert [each.weights for each in found] == [(0.5, 0.5), (0.0, 1.0), (0.0, 1.0)]


def test_what_is_no_answer_is_never_chosen_and_to_the_check_it_is_the_worst() -> None:
    samples: Samples = [[None, WRONG, RIGHT]]
    found = judge_samples([ASKED], samples, lambda pairs: [-5.0, -7.0], lambda pairs: [2.0, 1.0])
    assert found == JudgedSamples(
        [[0.0, 0.0, 1.0]], [[NO_ANSWER_REWARD, -5.0, -7.0]], [[1.0, 2.0, 1.0]]
    )


def test_the_best_of_fresh_samples_is_taken_group_by_group_and_ties_are_shared() -> None:
    some = JudgedSamples([[1, 0, 0, 1]], [[2.0, 1.0, 3.0, 3.0]], [[0.0] * 4])
    assert (rate_best_of_n(some, 1), rate_best_of_n(some, 2), rate_best_of_n(some, 4)) == (
        [0.5],
        [0.75],
        [0.5],
    )


def test_log_odds_of_nothing_are_even_and_those_of_one_are_73_in_100() -> None:
    found = convert_to_preference(Estimate(1.0, 0.0, 1.0, 9))
    assert (round(found.value, 2), found.low, found.count) == (0.73, 0.5, 9)


def draw_samples(share: float, skill: float, seed: int) -> JudgedSamples:
    """Samples that are right so often, and a reward that knows so much of it."""
    random = Random(seed)
    right = [[float(random.random() < share) for _ in range(8)] for _ in range(300)]
    seen = [[skill * one + random.gauss(0, 1) for one in row] for row in right]
    return JudgedSamples(right, seen, [[one - 0.5 for one in row] for row in right])


def judge(
    judged: dict[str, JudgedSamples], fresh: dict[str, JudgedSamples], script: float = 0.0
) -> list[str]:
    """Verdicts, where the script is right so often."""
    asked = [Question(f"{at}", "When?") for at in range(300)]
    floors = {RANDOM: [0.0] * 300, SCRIPT: [script] * 300, EXTRACT: [1.0] * 300}
    costs = ComputeCosts({CLONED_POLICY: 1.0}, 0.5)
    tables = list(make_tables(asked, floors, judged, fresh, costs, 8))
    return [each.verdict for each in list_findings(list_effects(8), [tables])]


def test_a_reward_that_knows_is_found_to_help_and_one_that_does_not_is_not() -> None:
    for skill, helps in ((2.0, "yes"), (0.0, "undecided")):
        known, fresh = (
            {
                CLONED_POLICY: draw_samples(0.3, skill, seed),
                PPO_POLICY: draw_samples(0.5, skill, seed + 1),
            }
            for seed in (1, 3)
        )
        best, learnt, same, _, compute = judge(known, fresh)
        assert (best, learnt, compute) == (helps, "yes", helps)
        assert same == "no"  # PPO's samples are right more often, also the best of them


def test_a_script_that_does_better_is_a_fact_beside_the_claim() -> None:
    known, fresh = (
        {CLONED_POLICY: draw_samples(0.3, 2.0, seed), PPO_POLICY: draw_samples(0.3, 2.0, seed + 1)}
        for seed in (1, 3)
    )
    best, learnt, same, _, compute = judge(known, fresh, script=0.95)
    assert (best, learnt, same, compute) == ("yes", "undecided", "undecided", "yes")


def test_policy_and_number_are_chosen_where_they_are_not_measured() -> None:
    known = {CLONED_POLICY: draw_samples(0.3, 2.0, 1), "smaller-1": draw_samples(0.3, 2.0, 2)}
    costs = ComputeCosts({CLONED_POLICY: 1.0, "smaller-1": 0.5}, 2.0)
    # one sample buys one of the dearer; eight with judging (24) eight of it, or nine of the other
    chosen = choose_by_compute(known, costs, 8)
    assert chosen[1].n == 1
    assert all(point.cost <= k * (1 + 2 * (k > 1)) for k, point in chosen.items())


def test_the_script_answers_from_the_offers_and_beats_the_lot(out: Path) -> None:
    _, (*_, asked) = prepare_site(settings("tiny"), NO_DATA, out)
    shares = {}
    for name in ("script", "offers-by-lot", "extract"):
        samples = load_or_make(out / f"floor-{name}.json", Samples, list)
        assert len(samples) == len(asked)
        shares[name] = rate_floors(asked, {name: samples})[name]
    assert sum(shares["script"]) > sum(shares["offers-by-lot"])


def test_every_size_can_be_read_and_the_paper_s_is_the_paper_s() -> None:
    paper, small = settings("paper"), settings("small")
    assert (paper.samples, paper.browsing.extra_answers, paper.actions) == (64, 15, "free")
    assert (paper.reinforce.minibatches, paper.reinforce.beta) == (128, 0.02)
    assert sum(small.asked) < 4379
    assert small.actions == "commands"


def test_what_was_drawn_is_kept_as_answers_of_each_question(out: Path) -> None:
    samples = load_or_make(out / "cloned-known.json", Samples, list)
    assert [len(some) for some in samples] == [4] * 4
    judged = msgspec.json.decode(
        (out / "judged-cloned-known.json").read_bytes(), type=JudgedSamples
    )
    nothing = [[one is None for one in some] for some in samples]
    assert nothing == [[one == NO_ANSWER_REWARD for one in row] for row in judged.reward]
