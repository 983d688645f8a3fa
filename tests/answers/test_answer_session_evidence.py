"""What the evidence model does for each method of a session. It is a function here that looks for
words."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from rookery.answers.answer_session import AnswerSession, EvidenceSources
from rookery.answers.methods import AnswerCallbacks
from rookery.errors import USER_ERROR_OUTCOMES, Failed
from rookery.evidence.calibration import ScoreSource
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.evidence.passage_ranking import RankedPassage
from rookery.records import Episode, Question
from rookery.settings import WORDS, ModelSettings, Settings

PAGES = {
    "food": "Crows bring gifts, gifts and gifts to people, a title of books about gifts says.",
    "fed": "Whoever puts out peanuts each morning may find a button where the birds ate them.",
    "nests": "Crows build nests of twigs and line them with moss to keep gifts of rain out.",
}
WHY = Question("1", "Why do crows bring gifts to people who put out peanuts?")
CLAIM = Question("2", "Do crows bring gifts to people who put out peanuts?")


def judge_peanuts(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
    judged = []
    for passage in passages:
        odds = 3.0 if "peanuts" in passage.text else -3.0
        supports = 0.9 if odds > 0 and "books" not in query else 0.05
        judged.append(EvidenceJudgement(odds, (0, 1), 0.0, supports, 0.0, 1 - supports))
    return judged


EVIDENCE = "evidence 0123456789ab"


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, ...]:
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return (str(folder),)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(sources: EvidenceSources) -> object:
        return None if sources.settings.ranker == WORDS else judge_peanuts

    monkeypatch.setattr(EvidenceSources, "load_evidence_judge", load)
    monkeypatch.setattr(EvidenceSources, "digest_evidence_model", lambda sources: "0123456789ab")


def scripted(tmp_path: Path, *replies: str, samples: int | None = None) -> ModelSettings:
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(each) + "\n" for each in replies), encoding="utf-8")
    return ModelSettings(f"script:{script}", samples=samples)


def answered(settings: Settings, question: Question = WHY) -> tuple[Episode, list[RankedPassage]]:
    ranked: list[RankedPassage] = []
    callbacks = AnswerCallbacks(observe_ranking=ranked.extend)
    with AnswerSession(settings) as session:
        return session.answer(question, callbacks), ranked


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("method", ["extract", "sides", "gophercite", "webglm"])
def test_every_method_that_ranks_does_so_by_the_evidence_model(
    method: str, places: tuple[str, ...], tmp_path: Path
) -> None:
    by_model = scripted(tmp_path, "x") if method in ("gophercite", "webglm") else ModelSettings()
    named = "model" if method == "sides" else ""  # which the bundled model does not judge unasked
    settings = Settings(places, method=method, models=by_model, ranker=named)
    _, ranked = answered(settings, CLAIM if method == "sides" else WHY)
    assert "peanuts" in ranked[0].page.text
    assert all(each.sentences == () for each in ranked)


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("method", ["extract", "gophercite", "webglm"])
def test_words_rank_where_they_are_asked_for(
    method: str, places: tuple[str, ...], tmp_path: Path
) -> None:
    by_model = scripted(tmp_path, "x") if method in ("gophercite", "webglm") else ModelSettings()
    _, ranked = answered(Settings(places, method=method, models=by_model, ranker=WORDS))
    assert any(each.sentences for each in ranked) or method == "extract"
    assert all(each.sentences or each.score == each.hit.score for each in ranked)


BOOKS, FED = (
    "Crows bring gifts as the books say [1][2].",
    "Whoever puts out peanuts each morning may find a button [1][2].",
)


@pytest.mark.usefixtures("judged")
def test_of_several_samples_the_best_supported_is_taken(
    places: tuple[str, ...], tmp_path: Path
) -> None:
    settings = Settings(places, method="webglm", models=scripted(tmp_path, BOOKS, FED, samples=2))
    episode, _ = answered(settings)
    assert episode.answer is not None
    assert episode.answer.text.startswith("Whoever puts out peanuts")
    assert episode.answer.score == pytest.approx(0.9 * 0.9526, abs=1e-4)


def test_only_a_chat_model_chooses_by_itself(places: tuple[str, ...], tmp_path: Path) -> None:
    models = msgspec.structs.replace(scripted(tmp_path, FED), choose_by="model")
    with pytest.raises(Failed) as failed:
        answered(Settings(places, method="webglm", models=models))
    assert "only a chat model on a server" in failed.value.failure.detail
    assert failed.value.failure.outcome in USER_ERROR_OUTCOMES


@pytest.mark.usefixtures("judged")
def test_of_one_sample_nothing_is_judged(places: tuple[str, ...], tmp_path: Path) -> None:
    settings = Settings(places, method="webglm", models=scripted(tmp_path, FED))
    episode, _ = answered(settings)
    assert episode.answer is not None
    assert episode.answer.score is None


@pytest.mark.usefixtures("judged")
def test_scores_of_the_evidence_model_are_calibrated_by_themselves(
    places: tuple[str, ...], tmp_path: Path
) -> None:
    def source(
        method: str,
        ranker: str = "",
        samples: int | None = None,
        chooser: str = "",
        chat: bool = False,
    ) -> ScoreSource:
        server = "http://localhost:8000/v1"
        models = ModelSettings("tiny", server, samples=samples, chat=chat, choose_by=chooser)
        with AnswerSession(Settings(places, method=method, models=models, ranker=ranker)) as open_:
            return open_.identify_score_source()

    assert source("webglm").score == source("gophercite", WORDS).score == "likelihood"
    assert source("gophercite").score == source("webglm", samples=2).score == EVIDENCE
    chat = source("gophercite", chat=True)
    assert chat.score == f"{EVIDENCE};--choose-by;model"
    assert chat.options.endswith("--base-url http://localhost:8000/v1 --choose-by model")
    assert source("webglm", chat=True).score == "likelihood"
    by_evidence = source("webglm", samples=2, chat=True, chooser="evidence")
    assert by_evidence.options.endswith("-n 2 --choose-by evidence")
