"""Ziegler's recipe at its smallest: all stages on made-up data, stopped and gone on with."""

import lzma
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from recipes.findings import list_findings
from recipes.stages import ROOT, Result, run_recipe
from recipes.text_environment import PolicyCompletion
from recipes.ziegler import reproduce_paper
from recipes.ziegler_data import (
    CANNED_WORDS,
    PHYSICAL_WORDS,
    Task,
    Tasks,
    choose_canned_sentence,
    list_physical_words,
    read_tasks,
    read_texts,
    score_against_reference,
    select_descriptions,
)
from recipes.ziegler_found import (
    TaskReport,
    choose_by_labeller,
    find_kl_control,
    make_kl_table,
    report_descriptive,
)
from recipes.ziegler_stages import REFERENCE, PolicyComparison, RewardTarget, Settings
from rookery.errors import Failed
from rookery.learn.online_labelling import RequestRound
from rookery.measure.figures import read_figures
from rookery.measure.intervals import estimate_mean
from rookery.measure.pairwise import PairwiseMatch
from rookery.measure.reward_frontiers import ReachedPoint, tilt_policy
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Comparison, Question
from rookery.typed_files import parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("ziegler")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")


def run(out: Path) -> Result:
    return run_recipe(
        "ziegler", Settings, reproduce_paper, SIZES / "ziegler.tiny.toml", NO_DATA, out
    )


def sized(size: str) -> Settings:
    place = SIZES / f"ziegler.{size}.toml"
    return parse_settings(read_toml_table(place), Settings, place)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ziegler") / "out"
    (folder / "online").mkdir(parents=True)
    (folder / "online" / "cord").write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(folder)
    (folder / "online" / "cord").unlink()
    run(folder)
    return folder


@pytest.fixture(scope="module")
def tasks(out: Path) -> Tasks:
    made = sized("tiny")
    sizes = made.passage, made.excerpt, made.abstract
    held, encoder = (made.held, made.held_abstracts), str(out / "data" / "encoder")
    return read_tasks(out / "data", *sizes, held, made.split, encoder)


def spoken(out: Path, name: str) -> list[PolicyCompletion]:
    return msgspec.json.decode(
        (out / "said" / f"{name}.json").read_bytes(), type=list[PolicyCompletion]
    )


@pytest.mark.slow
def test_a_run_that_was_stopped_finds_what_one_that_was_not_stopped_finds(
    out: Path, tmp_path: Path
) -> None:
    whole = run(tmp_path / "whole")
    stopped = Result.from_json((out / "result.json").read_bytes())
    assert (stopped.findings, stopped.notes) == (whole.findings, whole.notes)


def test_it_writes_a_figure_for_each_thing_that_it_shows(out: Path) -> None:
    found = {place.stem for place in read_figures(out / "figures")}
    assert found == {
        "frontier",
        "frontier-judged",
        "preferred",
        "kl-control",
        "rouge",
        "novel",
        "repeated",
        "places",
    }


@pytest.mark.slow
def test_offline_all_labels_come_first_and_online_some_come_later(out: Path) -> None:
    offline, online = (
        list(read_json_lines(out / name / "labels" / "requests.jsonl", RequestRound))
        for name in ("offline", "online")
    )
    assert [len(each.requests) for each in offline] == [9]
    assert next(len(each.requests) for each in online) == 6
    assert sum(len(each.requests) for each in online) == 9
    assert len(list((out / "online/labels/rewards").iterdir())) == 2


@pytest.mark.slow
def test_answers_of_the_reference_are_drawn_once_and_labelled_for_each_task(out: Path) -> None:
    """Another run would draw the same: what is shared changes nothing but the time."""
    offline, online, described = (
        [
            request
            for each in read_json_lines(out / name / "labels" / "requests.jsonl", RequestRound)
            for request in each.requests
        ]
        for name in ("offline", "online", "described")
    )
    assert offline == described
    assert offline[:6] == online[:6]
    kind, words = (
        [one.weights for one in read_json_lines(out / name / "labels" / "labels.jsonl", Comparison)]
        for name in ("offline", "described")
    )
    assert kind != words


def test_results_are_judged_by_another_than_the_labeller(out: Path, tasks: Tasks) -> None:
    """In the scores that effects are judged by, and not in the rewards that were learnt from."""
    said = spoken(out, "sentiment-offline")
    asked = [one for one in tasks.sentiment.held for _ in range(2)]
    pairs = [(one, Answer(each.text)) for one, each in zip(asked, said, strict=True)]
    result = Result.from_json((out / "result.json").read_bytes())
    [scores] = [each.scores for each in result.tables if each.name == "sentiment"]
    assert scores["offline"] == pytest.approx(tasks.sentiment.judged(pairs))
    assert scores["offline"] != pytest.approx(tasks.sentiment.worth(pairs))
    for judges in tasks.judges:
        assert any(f"{judges.agreement:.1%} the same" in note for note in result.notes)


def test_passages_with_a_physical_word_are_learnt_from_beside_as_many_without_one() -> None:
    passages = ["The red sky.", "an idea", "no thing", "A thought of blue", "nothing"]
    assert select_descriptions(passages) == [
        ("The red sky.", True),
        ("A thought of blue", True),
        ("an idea", False),
        ("no thing", False),
    ]


@pytest.mark.slow
def test_the_reference_is_nowhere_from_itself_and_a_policy_is_somewhere_else(out: Path) -> None:
    same, other = (
        [abs(one.kl) for one in spoken(out, f"sentiment-{name}")] for name in (REFERENCE, "offline")
    )
    assert max(same) < 1e-4 < max(other)


def test_what_is_measured_on_was_not_learnt_from(out: Path, tasks: Tasks) -> None:
    texts = read_texts(out / "data", (10, 32), (5, 24), 0)
    asked, held = ({one.text for one in each} for each in (texts.asked, texts.held))
    assert asked
    assert held
    assert not asked & held
    with lzma.open(out / "data" / "prose" / "corvids_all.txt.xz", "rt", encoding="utf-8") as file:
        whole = file.read()
    once = {text for text in asked | held if whole.count(text) == 1}  # pages have lines in common
    assert len(once) > 10
    assert not any(text in passage for passage in texts.language for text in once)
    assert {one.text for one in tasks.sentiment.held} <= held
    learnt, kept = (
        {one.text for one in each} for each in (tasks.summary.asked, tasks.summary.held)
    )
    assert not learnt & kept


def test_excerpts_have_the_words_that_they_are_to_have(tasks: Tasks) -> None:
    low, high = sized("tiny").excerpt
    counts = [len(one.text.split()) for one in tasks.sentiment.asked]
    assert low <= min(counts) <= max(counts) <= high


def test_the_mock_likes_summaries_like_those_of_people() -> None:
    nothing = Question("1", "", gold=("a bird sings", "the jay"))
    said = [Answer("The red sky, red light."), Answer("an idea"), Answer("A bird sings!")]
    pairs = [(nothing, one) for one in said]
    assert score_against_reference(pairs)[2] == 10.0
    # of "the red sky red light" and "the jay" one word is shared: R-1 and R-L 2/7, R-2 0
    assert score_against_reference(pairs)[0] == pytest.approx(10 * (2 / 7 + 0 + 2 / 7) / 3)


def test_where_rewards_are_normal_the_first_price_gives_about_the_wanted_kl() -> None:
    chance = Random(0)
    rewards = [chance.gauss(0, 2) for _ in range(200_000)]
    for kl in (0.5, 2.0):
        assert tilt_policy(rewards, RewardTarget(kl, 2.0).beta).kl == pytest.approx(kl, rel=0.1)


def seen_of(rewards: list[float], others: list[float], kl: float = 1.0) -> PolicyComparison:
    groups = [str(at) for at in range(len(rewards))]
    matches = [
        PairwiseMatch("ours", REFERENCE, (one > other) + (one == other) / 2, group)
        for one, other, group in zip(rewards, others, groups, strict=True)
    ]
    reached = ReachedPoint(kl, estimate_mean(rewards))
    whole = [1.0] * len(rewards)
    return PolicyComparison(
        rewards, others, groups, matches, reached, reached, whole, whole, others, rewards
    )


def judge(report: TaskReport) -> list[str]:
    return [each.verdict for each in list_findings(report.effects, [report.tables])]


def test_a_policy_beats_the_reference_only_beyond_the_interval() -> None:
    chance = Random(0)
    others = [chance.gauss(0, 1) for _ in range(200)]
    as_good = [chance.gauss(0, 1) for _ in range(200)]
    good = seen_of([one + chance.gauss(1, 0.1) for one in others], others)
    assert judge(report_descriptive(good, -5.0)) == ["yes"]
    assert judge(report_descriptive(good, 5.0)) == ["yes"]  # the list is a note on hacking
    assert judge(report_descriptive(seen_of(as_good, others), -5.0)) == ["undecided"]


@pytest.mark.parametrize(
    ("kls", "verdict"),
    [
        ([0.0] * 40 + [1.9, 2.1] * 10, "yes"),
        ([2.0] * 40 + [1.4, 1.6] * 10, "no"),
        ([2.0] * 40 + [0.5, 3.5] * 10, "too small to tell"),
        ([2.0] * 57, "undecided"),
    ],
)
def test_a_target_is_held_by_the_last_third_alone(kls: list[float], verdict: str) -> None:
    report = TaskReport([find_kl_control("it", 2.0)], [make_kl_table("it", 2.0, kls)], [])
    assert judge(report) == [verdict]


def test_the_canned_sentence_is_the_beginning_that_the_labeller_likes_best() -> None:
    texts = ["an idea of nothing", "the red sky and the red light", "a word " * 12 + "red sky"]

    def count(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [float(len(PHYSICAL_WORDS & {*split_words(answer.text)})) for _, answer in pairs]

    nothing = Task("", [], [], lambda question: "", count, count, False)
    assert choose_canned_sentence(nothing, texts) == texts[1]
    listed = list_physical_words()
    assert count([(Question("1", ""), Answer(listed))]) == [float(CANNED_WORDS)]


def test_the_best_by_the_labeller_is_the_judges_reward_of_the_one_that_the_labeller_likes() -> None:
    seen = seen_of([0.0] * 4, [1.0, 2.0, 3.0, 4.0])._replace(
        groups=["a", "a", "b", "b"], reference_hidden=[0.5, -0.5, 0.1, 0.2]
    )
    assert choose_by_labeller(seen) == (1.0, 1.0, 4.0, 4.0)


@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_each_size_is_valid(size: str) -> None:
    made = sized(size)
    assert made.labels.initial < made.labels.labels
    assert made.labels.answers == made.summaries.answers == 4


def test_the_papers_size_has_the_papers_numbers() -> None:
    paper = sized("paper")
    assert (paper.full_stop, paper.labels.reinforce.sampling.max_tokens) == (16, 24)
    assert round(paper.labels.episodes, -4) == 2_000_000
    assert round(paper.summaries.episodes, -4) == 2_000_000
    assert (paper.labels.labels, paper.summaries.labels) == (5_000, 60_000)
    assert paper.summaries.reinforce.target is None


def test_the_recipe_only_composes() -> None:
    assert len((ROOT / "recipes" / "ziegler.py").read_text("utf-8").splitlines()) <= 120
