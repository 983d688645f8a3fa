"""WebGLM at its smallest: all stages on data that are made up, stopped and gone on with."""

import json
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from recipes.measures import score_system_citations
from recipes.oracle_policies import OracleErrorRates
from recipes.stages import ROOT, Result, load_or_make, run_recipe
from recipes.webglm import reproduce_paper
from recipes.webglm_data import (
    Bootstrapper,
    read_summaries,
    split_article_lines,
    split_questions,
    write_tiny_data,
)
from recipes.webglm_found import MethodScores, RecipeData, list_citation_variants, score_pairs
from recipes.webglm_stages import (
    BootstrappedPart,
    Settings,
    bootstrap_answers,
    read_data,
    train_scorer,
)
from rookery.answers.webglm import WebglmSettings
from rookery.errors import Failed
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.retrieval_training import RetrievalTrainingResult
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import RewardTrainingResult
from rookery.library.question_files import SquadData, read_squad
from rookery.measure.figures import read_figures
from rookery.records import Comparison
from rookery.typed_files import parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("webglm")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")


def run(out: Path) -> Result:
    return run_recipe("webglm", Settings, reproduce_paper, SIZES / "webglm.tiny.toml", NO_DATA, out)


def tiny() -> Settings:
    place = SIZES / "webglm.tiny.toml"
    return parse_settings(read_toml_table(place), Settings, place)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webglm") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def squad(out: Path) -> SquadData:
    return read_squad(out / "little" / "squad.json")


def read_finished(out: Path) -> RecipeData:
    """What the finished run saw, without the rankings."""
    world = read_data(tiny(), NO_DATA, out / "little")
    policy = Bootstrapper(world.squad, tiny().faults, tiny().webglm, tiny().seed)
    taught, asked = (
        bootstrap_answers(tiny(), policy, questions, out / f"{name}.jsonl")
        for name, questions in (("taught", world.taught), ("asked", world.asked))
    )
    scored = load_or_make(out / "scored.json", MethodScores, lambda: MethodScores({}))
    return RecipeData(world, policy, (taught, asked), [], MethodScores({}), scored, tiny())


@pytest.mark.slow
def test_a_run_that_was_stopped_while_it_preferred_finds_the_same(
    out: Path, tmp_path: Path
) -> None:
    (tmp_path / "scorer").mkdir()
    (tmp_path / "scorer" / "cord").write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(tmp_path)
    (tmp_path / "scorer" / "cord").unlink()
    again = run(tmp_path)
    first = Result.from_json((out / "result.json").read_bytes())
    assert (again.findings, again.notes) == (first.findings, first.notes)


def test_the_tiny_models_learn_what_was_made_up(out: Path) -> None:
    """Which word tells where the answer stands, and which people like."""
    retrieved = msgspec.json.decode(
        (out / "retrieved.json").read_bytes(), type=RetrievalTrainingResult
    )
    assert retrieved.after["mse"] < 0.8 * retrieved.before["mse"]
    preferred = msgspec.json.decode(
        (out / "preferred.json").read_bytes(), type=RewardTrainingResult
    )
    assert preferred.before
    assert preferred.after
    assert preferred.after.credit > max(0.65, preferred.before.credit)


@pytest.mark.slow
def test_it_writes_a_figure_for_each_thing_that_it_shows(out: Path) -> None:
    found = {place.stem for place in read_figures(out / "figures")}
    assert found == {
        "ranking", "filters", "citations", "scorer", "best-of-n", "generator-citations",
    }  # fmt: skip


def test_where_neither_time_nor_length_tells_both_are_right_half_of_the_time(out: Path) -> None:
    right, groups = score_pairs(read_finished(out), balanced=True)
    assert len(groups) == len(right["scorer"]) > 20
    for name in ("longest", "earliest"):
        assert sum(right[name]) == len(groups) / 2
    held = {thread.id for thread in read_finished(out).world.held}
    assert set(groups) <= held


@pytest.mark.slow
def test_no_thread_that_is_measured_on_was_learnt_from(out: Path) -> None:
    learnt = {each.question.id for each in read_json_lines(out / "pairs.jsonl", Comparison)}
    assert learnt
    assert learnt.isdisjoint(thread.id for thread in read_finished(out).world.held)


def test_no_article_is_in_two_parts(squad: SquadData) -> None:
    taught, asked = split_questions(squad, (10, 5), (3, 2), 1)
    articles = [{question.source for question in part} for part in (taught, asked)]
    assert [len(each) for each in articles] == [10, 5]
    assert articles[0].isdisjoint(articles[1])
    assert (len(taught), len(asked)) == (30, 10)


def test_a_scorer_that_began_as_an_encoder_does_not_see_what_pads(out: Path) -> None:
    scorer = RewardModel(out / "scorer" / "model")
    some = list(read_json_lines(out / "pairs.jsonl", Comparison))[:12]
    pairs = [(each.question, answer) for each in some for answer in each.answers]
    assert len({len(answer.text) for _, answer in pairs}) > 3
    together = scorer.score_answers(pairs)
    assert together == pytest.approx([scorer(*pair) for pair in pairs], abs=1e-4)
    assert max(together) - min(together) > 0.1


@pytest.mark.parametrize(
    ("faults", "precision"),
    [
        (OracleErrorRates(adoption=0, memory=0, wrong=0, invented=0, dropped=0), 1.0),
        (OracleErrorRates(adoption=0, memory=0, wrong=1, invented=0, dropped=0), 0.0),
        (OracleErrorRates(adoption=0, memory=0, wrong=0, invented=1, dropped=0), 0.0),
    ],
)
def test_citations_are_as_right_as_the_stand_in_makes_them(
    squad: SquadData, faults: OracleErrorRates, precision: float
) -> None:
    policy = Bootstrapper(squad, faults, WebglmSettings(), 0)
    episodes = [policy(question) for question in squad.questions[:10]]
    answers = [policy.rebuild_written_answer(each) for each in episodes]
    assert (
        score_system_citations(answers, policy.make_entailment(episodes)).precision.value
        == precision
    )


def test_what_survives_is_cited_better_as_it_was_written(out: Path) -> None:
    """The stand-in's own numbers, in answers that filters left and in all."""
    here = read_finished(out)
    entails = here.policy.make_entailment(here.written)
    by = {
        name: score_system_citations(answers, entails)
        for name, answers in list_citation_variants(here).items()
    }
    left, every = by["as written, of those that survive"], by["as written"]
    assert left.precision.count < every.precision.count
    assert left.precision.value > every.precision.value


def test_a_scorer_can_start_from_a_model_that_sums_up(tmp_path: Path) -> None:
    """Its layers that are frozen are still those that learnt to sum up."""
    made = tiny()
    taught = ImitationSettings(
        TrainedModelSettings(""), (), epochs=1, rows=32, asked=0, validation=0.1
    )
    frozen = msgspec.structs.replace(made.prefer.trained, frozen=0.5, dropout=0.1)
    prefer = msgspec.structs.replace(made.prefer, trained=frozen, epochs=1)
    settings = msgspec.structs.replace(made, summaries=taught, prefer=prefer)
    world = read_data(settings, NO_DATA, tmp_path / "little")
    assert len(world.summaries) == 120
    assert all(text.startswith(short) and short in text for text, short in world.summaries)
    done, _ = train_scorer(settings, world, tmp_path)
    assert done.after
    summed = msgspec.json.decode((tmp_path / "summarized.json").read_bytes(), type=ImitationResult)
    assert summed.measured["validation_loss"] < summed.before["validation_loss"]
    lower = "model.layers.0.mlp.up_proj.weight"
    upper = lower.replace("0", "1", 1)
    blank, before, after = (
        load_file(folder / "model.safetensors")
        for folder in (tmp_path / "blank", Path(summed.model), Path(done.model))
    )
    assert torch.equal(before[lower], after[lower])
    assert not torch.equal(blank[lower], before[lower])
    assert not torch.equal(before[upper], after[upper])


def test_summaries_are_read_in_each_published_form(tmp_path: Path) -> None:
    place = tmp_path / "tldr.jsonl"
    rows = [
        {"id": "t3_1", "subreddit": "tifu", "title": "t", "post": "I fell.\n", "summary": " fell"},
        {"author": "a", "body": "b", "content": "Too long.", "summary": "long", "id": "c1"},
        {"source": ["One.", "Two."], "target": ["both", "two"], "paper_id": "S"},
    ]
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wanted = [("I fell.", "fell"), ("Too long.", "long"), ("One. Two.", "both")]
    assert read_summaries(place) == wanted
    place.write_text(json.dumps({"text": "one", "summary": "two"}))
    with pytest.raises(ValueError, match=r"tldr\.jsonl, line 1: no text with its summary"):
        read_summaries(place)


def test_references_are_lines_of_the_question_s_article(out: Path, squad: SquadData) -> None:
    by = {article.name: set(split_article_lines(article)) for article in squad.articles}
    part: BootstrappedPart = read_finished(out).parts[0]
    for episode in part.written:
        assert (
            episode.answer is None
            or {quote.text for quote in episode.answer.quotes} <= by[episode.question.source]
        )


def test_all_data_that_are_made_up_are_made_again_the_same(tmp_path: Path) -> None:
    one, other = (write_tiny_data(tmp_path / name, 3) for name in ("one", "other"))
    for mine, theirs in zip(one[:2], other[:2], strict=True):
        assert mine.read_bytes() == theirs.read_bytes()
    weights = [(each[2] / "model.safetensors").read_bytes() for each in (one, other)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_each_size_can_be_read(size: str) -> None:
    place = SIZES / f"webglm.{size}.toml"
    settings = parse_settings(read_toml_table(place), Settings, place)
    assert (settings.squad == "") == (size == "tiny")
    assert settings.webglm.references == 5


def test_the_recipe_is_short() -> None:
    assert len((ROOT / "recipes" / "webglm.py").read_text("utf-8").splitlines()) <= 120
