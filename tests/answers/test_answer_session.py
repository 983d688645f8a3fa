"""`--ranker`: a folder with a trained encoder ranks, and one in which nothing ranks is refused."""

from pathlib import Path

import pytest
from commands import Run
from stage import Said, stage

from recipes.random_models import write_tiny_encoder
from rookery.answers.answer_session import EvidenceSources
from rookery.errors import Failed
from rookery.learn.retrieval_training import export_sentence_encoder
from rookery.settings import Settings

PAGE = "Owls eat mice at night.\n\nRain falls on the roof.\n"


def test_a_trained_encoder_ranks(run: Run, tmp_path: Path) -> None:
    (tmp_path / "owls.md").write_text(PAGE)
    write_tiny_encoder(tmp_path / "encoder", [PAGE, "What do owls eat?"])
    export_sentence_encoder(tmp_path / "encoder")
    ask = ("ask", "What do owls eat?", "--in", tmp_path / "owls.md", "--ranker")
    assert "Owls eat mice" in run(*ask, tmp_path / "encoder").out
    with EvidenceSources(Settings(ranker=str(tmp_path / "encoder"))) as sources:
        assert sources.load_evidence_judge() is None
        similarity = sources.load_similarity()
    assert similarity is not None
    assert similarity("owls", ["owls"]) == pytest.approx([1])


@pytest.mark.parametrize("folder", ["empty", "none"])
def test_a_folder_in_which_nothing_ranks_is_refused(run: Run, tmp_path: Path, folder: str) -> None:
    (tmp_path / "owls.md").write_text(PAGE)
    (tmp_path / "empty").mkdir()
    ask = ("ask", "What do owls eat?", "--in", tmp_path / "owls.md", "--ranker")
    found = run(*ask, tmp_path / folder)
    assert found.code == 2
    assert "neither an evidence model (model.onnx) nor a trained encoder" in found.err
    with EvidenceSources(Settings(ranker=str(tmp_path / folder))) as sources:
        for load in (sources.load_evidence_judge, sources.load_similarity):
            with pytest.raises(Failed, match="bad_model"):
                load()


@pytest.mark.parametrize("site_first", [False, True])
def test_places_that_are_no_one_index_are_not_refreshed_together(
    home: Path, tmp_path: Path, site_first: bool
) -> None:
    (tmp_path / "owls.md").write_text(PAGE)
    with stage() as site:
        site.routes["/"] = Said(f"<title>Owls</title><main><p>{PAGE}</p></main>")
        places = (f"{site.base}/", str(tmp_path / "owls.md"))[:: 1 if site_first else -1]
        with (
            EvidenceSources(Settings(places=places, private=True)) as sources,
            pytest.raises(ValueError, match="is brought up to date by itself: name no other place"),
        ):
            sources.refresh_library()
        for place in places:
            with EvidenceSources(Settings(places=(place,), private=True)) as sources:
                assert sources.refresh_library().count_pages() == 1


def test_words_and_the_default_load_no_encoder(run: Run) -> None:
    for ranker in ("words", ""):
        with EvidenceSources(Settings(ranker=ranker)) as sources:
            assert sources.load_similarity() is None
