"""Documents are calibrated when they are indexed or on demand, and asked with what is stored."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from commands import surroundings

from rookery.answers.answer_session import AnswerSession, EvidenceSources
from rookery.cli.calibrate_command import calibrate_documents
from rookery.cli.index_command import _refresh_index
from rookery.errors import Failed
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.library.sharded_library import ShardedLibrary, build_sharded_index, get_shard_folder
from rookery.records import Answer, Question
from rookery.settings import FileSelection, Settings, get_cache_folder


def judge_surely(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
    """Finds words of the question, and is sure of everything."""
    asked = set(question.lower().replace("?", "").split())
    shares = [len(asked & set(passage.text.lower().split())) for passage in passages]
    return [EvidenceJudgement(5.0, (0, 20), 0.0, 0.0, 0.0, 1.0) for share in shares]


def write_documents(folder: Path, sections: int) -> Path:
    folder.mkdir()
    for number in range(sections // 5):
        parts = [f"# Bird {number}"]
        for part in range(5):
            name = f"nest{number} moss{part} twig{number * part % 7}"
            parts.append(f"## {name}\n\n{f'The {name} are carried by this bird. ' * 5}")
        (folder / f"{number}.md").write_text("\n\n".join(parts))
    return folder


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in surroundings(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(EvidenceSources, "load_evidence_judge", lambda self: judge_surely)
    return Settings((str(write_documents(tmp_path / "docs", 125)),))


def ask(settings: Settings) -> Answer:
    with AnswerSession(settings) as session:
        answer = session.answer(Question("1", "nest3 moss2 twig6")).answer
    assert answer is not None
    return answer


@pytest.mark.slow
def test_refreshing_calibrates_until_documents_change(documents: Settings) -> None:
    before = ask(documents)
    assert not before.calibrated
    # Log-odds of 5 for each of twelve sections, less .3 of the logarithm of their ranks.
    assert before.score == pytest.approx(0.952, abs=0.001)
    report, outcome = _refresh_index(documents)
    assert (report.calibrated, report.problem, outcome) == (True, "", "")
    after = ask(documents)
    assert after.calibrated
    assert after.score is not None
    assert after.score < 0.9
    folder = Path(documents.places[0])
    (folder / "more.md").write_text("# More\n\nOne more bird was seen here in the morning.")
    assert not ask(documents).calibrated
    assert _refresh_index(documents)[0].calibrated
    assert ask(documents).calibrated
    assert len(list(get_cache_folder().glob("folders/*/calibration.json"))) == 1


def judge_by_words(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
    """Likelier, the more words of the question a passage says; never sure."""
    asked = set(question.lower().replace("?", "").split())
    shares = [len(asked & set(passage.text.lower().split())) / len(asked) for passage in passages]
    return [EvidenceJudgement(6 * share - 2, (0, 20), 0.0, 0.0, 0.0, 1.0) for share in shares]


@pytest.mark.slow
def test_a_calibration_is_certain_of_what_was_certain_without_one(
    documents: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a limit that was asked for is one of the calibrated probability."""
    monkeypatch.setattr(EvidenceSources, "load_evidence_judge", lambda self: judge_by_words)
    texts = [
        f"nest{number} moss{part} twig{number * part % 7}{' and other things here' * (part % 3)}"
        for number in range(0, 25, 5)
        for part in range(5)
    ]

    def ask_all(settings: Settings) -> list[Answer]:
        with AnswerSession(settings) as session:
            found = [session.answer(Question(text, text)).answer for text in texts]
        assert None not in found
        return [each for each in found if each]

    before = ask_all(documents)
    assert 3 < sum(each.certain is False for each in before) < len(texts) - 3
    assert _refresh_index(documents)[0].calibrated
    after = ask_all(documents)
    assert all(each.calibrated for each in after)
    assert [each.certain for each in after] == [each.certain for each in before]
    assert [each.declined for each in after] == [each.declined for each in before]
    assert [each.quotes for each in after] == [each.quotes for each in before]
    scores = [
        (mine.score or 0, theirs.score or 0) for mine, theirs in zip(after, before, strict=True)
    ]
    assert all(mine <= theirs + 1e-9 for mine, theirs in scores)
    assert [each for _, each in sorted(scores)] == sorted(each for _, each in scores)
    limit = sorted(mine for mine, _ in scores)[len(scores) // 2]
    asked = ask_all(msgspec.structs.replace(documents, decline=limit + 1e-6))
    assert [each.declined for each in asked] == [mine <= limit for mine, _ in scores]


@pytest.mark.slow
def test_shards_are_calibrated_together_and_only_while_all_of_them_answer(
    documents: Settings, tmp_path: Path
) -> None:
    shards = tmp_path / "shards"
    note = build_sharded_index([Path(documents.places[0])], 3, shards, 1)
    settings = Settings((str(shards),))
    assert not ask(settings).calibrated
    with EvidenceSources(settings) as sources:
        library = sources.open_library()
        assert isinstance(library, ShardedLibrary)
        drawn = library.draw_pages(10)
        assert drawn == library.draw_pages(10)
        assert 10 <= len({page.url for page in drawn}) == len(drawn) <= 12
        assert len(library.draw_pages(1000)) == sum(shard.pages for shard in note.shards) == 25
    index = get_shard_folder(shards, 1) / "index"
    index.rename(tmp_path / "aside")
    with (
        EvidenceSources(settings) as sources,
        pytest.raises(Failed, match="shard_failed: shard 2 of 3 is missing"),
    ):
        sources.calibrate_library(lambda done, total: None)
    (tmp_path / "aside").rename(index)
    with EvidenceSources(settings) as sources:
        assert sources.calibrate_library(lambda done, total: None) is not None
    assert ask(settings).calibrated
    (Path(documents.places[0]) / "more.md").write_text("# More\n\nOne more bird was seen here.")
    build_sharded_index([Path(documents.places[0])], 3, shards, 1)
    assert not ask(settings).calibrated


@pytest.mark.slow
def test_what_is_stored_is_not_made_again(documents: Settings) -> None:
    heard: list[int] = []
    for _ in range(2):
        with EvidenceSources(documents) as sources:
            made = sources.calibrate_library(lambda done, total: heard.append(done))
    assert made is not None
    assert heard.count(0) == 1


@pytest.mark.slow
def test_the_command_prints_what_scores_mean(
    documents: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate_documents(documents, json=True) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["judgements"] <= 400
    assert said["probabilities"]["0.95"] < 0.95
    assert calibrate_documents(documents, json=False) == 0
    assert "a score of 0.95 means" in capsys.readouterr().out


@pytest.mark.slow
def test_too_few_documents_and_no_model_are_said(
    documents: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Settings((str(write_documents(tmp_path / "few", 10)),), selection=FileSelection())
    with pytest.raises(Failed, match="too few questions"):
        calibrate_documents(few, json=False)
    assert not _refresh_index(few)[0].calibrated
    monkeypatch.setattr(EvidenceSources, "load_evidence_judge", lambda self: None)
    with pytest.raises(Failed, match="no evidence model"):
        calibrate_documents(documents, json=False)
    assert not _refresh_index(documents)[0].calibrated
