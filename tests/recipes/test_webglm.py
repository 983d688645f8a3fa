"""WebGLM at its smallest: all stages on data that are made up, stopped and gone on with."""

from pathlib import Path

import msgspec
import pytest

from recipes.findings import ScoreTable
from recipes.pointed_claims import make_claim_answer
from recipes.stages import ROOT, Result, run_recipe
from recipes.tiny_data import write_tiny_data
from recipes.webglm import reproduce_paper
from recipes.webglm_data import (
    PAGE_WORDS,
    CitedFolder,
    read_cited_folder,
    sample_paged_questions,
)
from recipes.webglm_found import DISTILLED, RANDOM_ORDER, START
from recipes.webglm_generator import SURVIVES, ClaimFilters, filter_claim
from recipes.webglm_stages import RankedQuestion, Settings
from rookery.errors import Failed
from rookery.learn.retrieval_data import RetrievalTriple
from rookery.library.question_files import SquadArticle, SquadData, read_squad
from rookery.records import Episode, Page, Question
from rookery.typed_files import parse_settings, read_json_lines, read_toml_table

pytestmark = pytest.mark.xdist_group("webglm")  # its models are made once
SIZES = ROOT / "recipes" / "sizes"
NO_DATA = Path("no-such-folder")


def run(out: Path) -> Result:
    return run_recipe("webglm", Settings, reproduce_paper, SIZES / "webglm.tiny.toml", NO_DATA, out)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webglm") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def result(out: Path) -> Result:
    return Result.from_json((out / "result.json").read_bytes())


@pytest.mark.slow
def test_a_run_that_was_stopped_while_it_distilled_finds_the_same(
    out: Path, tmp_path: Path
) -> None:
    cord = tmp_path / "retriever" / "1" / "8" / "run" / "cord"
    cord.parent.mkdir(parents=True)
    cord.write_text("lunch")
    with pytest.raises(Failed, match="lunch"):
        run(tmp_path)
    cord.unlink()
    again = run(tmp_path)
    first = Result.from_json((out / "result.json").read_bytes())
    assert (again.findings, again.notes) == (first.findings, first.notes)


@pytest.mark.slow
def test_the_tiny_retriever_learns_which_word_tells_the_answer(result: Result) -> None:
    table = next(each for each in result.tables if each.name == "among the first")

    def count_hits(table: ScoreTable, system: str) -> float:
        return sum(table.scores[system])

    assert len(table.questions) == 16  # each question of four folders, once
    assert len(set(table.questions)) == 16
    assert count_hits(table, DISTILLED) > count_hits(table, START) + 2
    assert count_hits(table, RANDOM_ORDER) == pytest.approx(16 * 5 / 12)
    assert {each.name for each in result.figures} == {"labels"}


@pytest.mark.slow
def test_no_retriever_learnt_from_a_folder_that_it_is_measured_on(out: Path) -> None:
    folders = msgspec.json.decode((out / "folders.json").read_bytes(), type=list[CitedFolder])
    places = {each.text: folder.name for folder in folders for each in folder.questions}
    names = {each.id: folder.name for folder in folders for each in folder.questions}
    for number in range(2):
        held = msgspec.json.decode(
            (out / "retriever" / f"ranked-{number}.json").read_bytes(), type=list[RankedQuestion]
        )
        learnt = [
            *read_json_lines(
                out / "retriever" / f"{number}" / "8" / "triples.jsonl", RetrievalTriple
            )
        ]
        assert len(learnt) == 8
        assert {names[each.id] for each in held}.isdisjoint(
            places[each.question] for each in learnt
        )


@pytest.mark.slow
def test_the_generator_learns_only_from_claims_that_survive(out: Path, result: Result) -> None:
    learnt = list(read_json_lines(out / "generator" / "demonstrations.jsonl", Episode))
    assert 0 < len(learnt) <= 16
    assert any(f"{len(learnt)} survive the filters" in note for note in result.notes)


@pytest.mark.slow
def test_a_folder_is_cut_into_references_and_its_questions_cite_those_that_answer(
    tmp_path: Path,
) -> None:
    _, root, _ = write_tiny_data(tmp_path / "data")
    folder = read_cited_folder(root / "valley0")
    assert len(folder.references) == 12
    assert len(folder.questions) == 4
    for question in folder.questions:
        [cited] = question.cited
        bird = question.id.rpartition("-")[2]
        assert f"The {bird} of the hill eats" in folder.references[cited]


def make_squad() -> SquadData:
    """Three articles: one page is too long, one has too few sentences."""
    short = "Owls eat mice. Wrens eat flies. Cranes eat frogs."
    texts = (short, f"{short} {'Herons fish. ' * PAGE_WORDS}", "Owls eat mice. Wrens eat flies.")
    articles = [SquadArticle(f"a{n}.html", f"A{n}", texts) for n in range(3)]
    questions, places = [], {}
    for article in range(3):
        for paragraph in range(3):
            identity = f"{article}-{paragraph}"
            questions.append(Question(identity, f"What do owls eat, {identity}?", gold=("mice",)))
            places[identity] = (article, paragraph)
    return SquadData(tuple(articles), tuple(questions), places)


def test_pages_are_short_and_no_article_is_in_two_parts() -> None:
    taught, held = sample_paged_questions(make_squad(), (9, 9), 0)
    assert (len(taught), len(held)) == (2, 1)
    assert {page.url[-1] for _, page in (*taught, *held)} == {"0"}
    assert {page.title for _, page in taught}.isdisjoint(page.title for _, page in held)


PAGE = Page(
    "",
    "The bridge",
    "The mill was painted red in 1901. The bridge of Belmont was built in 1874 by masons.",
)
QUESTION = Question("1", "When was the bridge of Belmont built?")
BRIDGE = PAGE.quote(34, len(PAGE.text))


@pytest.mark.parametrize(
    ("claim", "fate"),
    [
        ("1874", SURVIVES),
        ("in 1874 by masons", SURVIVES),
        ("the", "says nothing"),
        ("The bridge of Belmont was built in 1874 by masons.", "copies too much"),
        ("Belmont bridge", "repeats the question"),
        ("1874 by seven kings", "hallucination"),  # one content word of three is there
        ("Belmont bridge, painted red 1901", "hallucination"),
    ],
)
def test_claims_that_must_not_be_learnt_from_are_rejected(claim: str, fate: str) -> None:
    answer = make_claim_answer(claim, BRIDGE)
    assert filter_claim(QUESTION, answer, PAGE, ClaimFilters()) == fate


def test_a_claim_that_another_reference_holds_is_cited_wrongly() -> None:
    answer = make_claim_answer("painted Belmont bridge red", BRIDGE)
    lenient = ClaimFilters(overlap=0.5)
    assert filter_claim(QUESTION, answer, PAGE, lenient) == SURVIVES  # half of it in either
    answer = make_claim_answer("painted red", BRIDGE)
    assert filter_claim(QUESTION, answer, PAGE, ClaimFilters(overlap=0)) == "wrong citation"
    assert filter_claim(QUESTION, None, PAGE, ClaimFilters()) == "says nothing"


def test_all_data_that_are_made_up_are_made_again_the_same(tmp_path: Path) -> None:
    one, other = (write_tiny_data(tmp_path / name, 3) for name in ("one", "other"))
    assert one[0].read_bytes() == other[0].read_bytes()
    assert len(read_squad(one[0]).questions) == 120
    for name in ("model.safetensors", "tokenizer.json"):
        assert (one[2] / name).read_bytes() == (other[2] / name).read_bytes()


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "paper"])
def test_each_size_can_be_read(size: str) -> None:
    place = SIZES / f"webglm.{size}.toml"
    settings = parse_settings(read_toml_table(place), Settings, place)
    assert (settings.squad == "") == (size == "tiny")
    assert list(settings.counts) == sorted(settings.counts)
    assert len(place.read_text("utf-8").splitlines()) <= 60


def test_the_recipe_is_short() -> None:
    recipes = ROOT / "recipes"
    assert len((recipes / "webglm.py").read_text("utf-8").splitlines()) <= 120
    stages = [each.read_text("utf-8").splitlines() for each in recipes.glob("webglm_*.py")]
    assert sum(map(len, stages)) <= 600
