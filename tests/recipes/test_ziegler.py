"""Ziegler's recipe at its smallest: all stages on made-up data, stopped and gone on with."""

import json
import lzma
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
import pytest

from recipes.findings import list_findings
from recipes.sentiment_judges import (
    LABELLER,
    MINILM,
    make_pairs,
    read_reviews,
    train_judges,
)
from recipes.stages import ROOT, Result, run_recipe
from recipes.text_environment import PolicyCompletion
from recipes.ziegler import reproduce_paper
from recipes.ziegler_data import Novels, read_novels
from recipes.ziegler_found import (
    ONLINE,
    Measurements,
    PolicyScores,
    list_effects,
    make_tables,
)
from recipes.ziegler_stages import Settings
from rookery.errors import Failed
from rookery.learn.online_labelling import RequestRound
from rookery.measure.figures import read_figures
from rookery.records import Comparison
from rookery.typed_files import parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("ziegler")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")


def run(out: Path) -> Result:
    return run_recipe(
        "ziegler", Settings, reproduce_paper, SIZES / "ziegler.tiny.toml", NO_DATA, out
    )


def load_size(size: str) -> Settings:
    place = SIZES / f"ziegler.{size}.toml"
    return parse_settings(read_toml_table(place), Settings, place)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run that was stopped once, while a policy learnt with labels."""
    folder = tmp_path_factory.mktemp("ziegler") / "out"
    (folder / ONLINE).mkdir(parents=True)
    (folder / ONLINE / "cord").write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(folder)
    (folder / ONLINE / "cord").unlink()
    run(folder)
    return folder


@pytest.fixture(scope="module")
def novels(out: Path) -> Novels:
    settings = load_size("tiny")
    return read_novels(out / "data", settings.passage, settings.excerpt, settings.split)


def read_samples(out: Path, name: str) -> list[list[PolicyCompletion]]:
    place = out / "samples" / f"{name}.json"
    return msgspec.json.decode(place.read_bytes(), type=list[list[PolicyCompletion]])


@pytest.mark.slow
def test_a_run_that_was_stopped_finds_what_one_that_was_not_stopped_finds(
    out: Path, tmp_path: Path
) -> None:
    whole = run(tmp_path / "whole")
    stopped = Result.from_json((out / "result.json").read_bytes())
    assert (stopped.findings, stopped.notes) == (whole.findings, whole.notes)


@pytest.mark.slow
def test_it_writes_a_figure_for_each_thing_that_it_shows(out: Path) -> None:
    names = {place.stem for place in read_figures(out / "figures")}
    assert names == {"rewards", "labels", "best-of-n", "frontier"}


@pytest.mark.slow
def test_offline_all_labels_come_first_and_online_some_come_later(out: Path) -> None:
    """Those that come first are the same; those of a reward model are the first of a larger one."""
    rounds = list(read_json_lines(out / ONLINE / "labels" / "requests.jsonl", RequestRound))
    initial, total = load_size("tiny").online
    assert len(rounds[0].requests) == initial
    assert sum(len(each.requests) for each in rounds) == total
    online = list(read_json_lines(out / ONLINE / "labels" / "labels.jsonl", Comparison))
    few, more = (
        list(read_json_lines(out / "rewards" / f"{count} labels" / "labels.jsonl", Comparison))
        for count in (initial, total)
    )
    assert (len(few), len(more)) == (initial, total)
    assert online[:initial] == more[:initial] == few
    assert online != more


@pytest.mark.slow
def test_rows_are_means_of_a_question_s_samples_by_each_judge(out: Path) -> None:
    result = Result.from_json((out / "result.json").read_bytes())
    tables = {each.name: each for each in result.tables}
    judges = train_judges(read_reviews(out / "data"), str(out / "data" / "encoder"), 0).scores
    samples = read_samples(out, ONLINE)
    for name in (LABELLER, MINILM):
        rows = [fmean(judges[name](make_pairs([one.text for one in each]))) for each in samples]
        assert tables[name].scores[ONLINE] == pytest.approx(rows)
    assert tables[LABELLER].scores[ONLINE] != pytest.approx(tables[MINILM].scores[ONLINE])
    kls = [fmean(one.kl for one in each) for each in samples]
    assert tables["KL"].scores[ONLINE] == pytest.approx(kls)
    assert max(map(abs, kls)) > 1e-6


@pytest.mark.slow
def test_the_curve_of_rewards_has_the_mean_of_each_batch(out: Path) -> None:
    lines = (out / "known reward, 1 nats" / "metrics.jsonl").read_text("utf-8").splitlines()
    batches = [json.loads(line) for line in lines]
    # An empty text has the reward -1 and is not in the curve.
    rewards = [(each["reward"] + 1) / each["answered"] - 1 for each in batches]
    [figure] = [each for each in read_figures(out / "figures").values() if each.name == "rewards"]
    curve = [row[2] for row in figure.rows if row[0] == "known reward, 1 nats"]
    assert curve == pytest.approx(rewards)


@pytest.mark.slow
def test_what_is_measured_on_was_not_learnt_from(out: Path, novels: Novels) -> None:
    training, measured = ({one.text for one in each} for each in (novels.training, novels.measured))
    assert len(training) > 10
    assert len(measured) >= load_size("tiny").held
    assert not training & measured
    whole = lzma.decompress((out / "data/prose/corvids_all.txt.xz").read_bytes()).decode()
    once = {text for text in training | measured if whole.count(text) == 1}  # pages share lines
    assert len(once) > 10
    assert not any(text in passage for passage in novels.passages for text in once)
    low, high = load_size("tiny").excerpt
    counts = [len(one.text.split()) for one in novels.training]
    assert low <= min(counts) <= max(counts) <= high


def make_measurements(gain: float, kl: float = 8.0) -> Measurements:
    """Return measurements of 40 questions, where a known reward gains this much and two policies
    from labels are the reference."""
    chance = Random(0)
    drawn = [[chance.gauss(0, 0.7) for _ in range(64)] for _ in range(40)]
    few, many = "80 labels", "5,000 labels"

    def score(more: float, reward: str) -> PolicyScores:
        rows = [[fmean(row) + more + chance.gauss(0, 0.1)] for row in drawn]
        kls = [[kl + chance.gauss(0, 1)] for _ in drawn]
        scores = {LABELLER: rows, MINILM: rows, reward: rows}
        return PolicyScores(kls, scores, reward, 8.0, [[0.0] * 5])

    policies = {
        "known reward, 8 nats": score(gain, LABELLER),
        f"from {few}": score(0.0, few),
        f"from {many}": score(0.0, many),
        ONLINE: score(0.0, many),
    }
    names = (LABELLER, MINILM, few, many)
    return Measurements(
        tuple(map(str, range(40))),
        dict.fromkeys(names, drawn),
        policies,
        {LABELLER: 4.0, MINILM: 3.0},
        {few: 80, many: 5000},
    )


def judge(measured: Measurements) -> dict[str, tuple[str, str]]:
    findings = list_findings(list_effects(measured), [list(make_tables(measured))])
    return {each.effect: (each.verdict, each.beyond) for each in findings}


def test_a_policy_beats_the_reference_and_the_best_of_n_only_beyond_the_interval() -> None:
    """The best of 64 of normal values gains 2.4 standard deviations, here 1.7."""
    effect = "PPO, known reward, 8 nats, gives more reward than the reference"
    assert judge(make_measurements(3.0))[effect] == ("yes", "yes")
    assert judge(make_measurements(1.0))[effect] == ("yes", "no")
    assert judge(make_measurements(0.0))[effect][0] == "not seen"
    assert judge(make_measurements(-1.0))[effect] == ("no", "no")


@pytest.mark.parametrize(("kl", "verdict"), [(8.0, "yes"), (9.0, "yes"), (4.0, "no")])
def test_a_target_is_held_within_a_quarter(kl: float, verdict: str) -> None:
    effect = "the controller ends at 8 nats within 25%"
    assert judge(make_measurements(1.0, kl))[effect][0] == verdict


def test_online_and_offline_labels_are_the_same_within_the_margin() -> None:
    measured = make_measurements(1.0)
    effect = "online and offline labels lead to the same reward"
    assert judge(measured)[effect] == ("yes", "none")


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "paper"])
def test_each_size_is_valid(size: str) -> None:
    settings = load_size(size)
    counts = dict(settings.labels)
    assert {*settings.learnt, settings.online[1]} <= counts.keys()
    assert max(counts) <= 6 * settings.labelled
    assert settings.drawn >= 64


def test_the_papers_size_has_the_papers_numbers() -> None:
    paper = load_size("paper")
    assert paper.policy.sampling.max_tokens == 24
    assert round(paper.policy.steps * paper.policy.episodes, -4) == 2_000_000
    assert max(dict(paper.labels)) == 5_000


def test_the_recipe_can_be_read() -> None:
    names = ("ziegler", "ziegler_data", "ziegler_stages", "ziegler_found")
    lines = [len((ROOT / "recipes" / f"{each}.py").read_text().splitlines()) for each in names]
    assert lines[0] <= 120
    assert sum(lines[1:]) <= 600
