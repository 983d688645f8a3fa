"""Suggested passages in a demonstration: asked for, gone to, quoted, recorded, and left out."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from commands import Run, surroundings
from demonstrating import Desk, Seen, client, desk, person_at, write_pages
from starlette.testclient import TestClient

from rookery.answers.answer_session import EvidenceSources
from rookery.desk import judgement_conversion, labelling_queue, store
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.library.libraries import get_bundled_folder
from rookery.records import Question
from rookery.server import app
from rookery.settings import Settings

FILLING = "".join(
    f"<p>Paragraph {n} of a page on crows, which says nothing at all.</p>" for n in range(80)
)
TRAYS = f"""<!doctype html><title>Trays</title><main><h1>Trays</h1>{FILLING}
<h2>Why</h2><p>Crows leave a bead <b>where &lt;i&gt;food</b> was found &#x202e;before, by habit.</p>
{FILLING.replace("on crows", "on trays")}
<h2>Who</h2><p>Whoever feeds them daily gets a button sooner or later, as a rule.</p></main>"""


class BeadJudge:
    """Says that passages with a bead answer, and those with a button do so perhaps."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(
        self, question: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        self.asked.append(question)
        judged = []
        for passage in passages:
            odds = 4.0 if "bead" in passage.text else 2.3 if "button" in passage.text else -4.0
            judged.append(EvidenceJudgement(odds, (0, 5), 0.0, 0.0, 0.0, 1.0))
        return judged


def fail_to_judge(question: str, passages: object) -> Sequence[EvidenceJudgement]:
    raise RuntimeError("an output is missing")


@pytest.fixture
def desk_pages(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    for name, value in surroundings(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("rookery.desk.demonstration_pages.COMMAND_WAIT", 100.0)
    with desk(empty_store, tmp_path) as there:
        yield there


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = write_pages(tmp_path_factory.mktemp("web") / "pages", trays=TRAYS)
    return Settings(places=(str(folder),))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> BeadJudge:
    planted = BeadJudge()
    monkeypatch.setattr(EvidenceSources, "load_evidence_judge", lambda sources: planted)
    return planted


def events(desk: Desk, item: str, person: str = "Ada") -> list[str]:
    with desk.store.begin_read() as connection:
        bodies = map(
            msgspec.json.decode, store.read_events(connection, desk.place(item, person).stream)
        )
        return [body.get("command") or body["type"] for body in bodies]


def opened(browser: TestClient, item: str, words: str = "Trays") -> Seen:
    """A demonstration in which a page was searched for and opened."""
    seen = Seen(browser, f"/demonstrate/{item}")
    seen.presses("Search", search=words.lower())
    return seen.presses(words)


def passages(screen: Seen) -> list[tuple[str, str]]:
    grades, texts = (
        screen.tree.css("#suggestions .tag:first-child"),
        screen.tree.css("#suggestions blockquote"),
    )
    return [(one.text(), text.text()) for one, text in zip(grades, texts, strict=True)]


@pytest.mark.slow
def test_a_suggestion_is_gone_to_and_quoted_with_ordinary_commands(
    desk_pages: Desk, pages: Settings, judge: BeadJudge
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages, suggest=True) as browser:
        seen = opened(browser, item).presses("Suggest")
        assert (seen.path, seen.status) == (f"/demonstrate/{item}", 200)
        first, second, third = passages(seen)
        assert first == ("high", "Crows leave a bead where <i>food was found ·before, by habit.")
        assert second[0] == "middle"
        assert second[1].startswith("Whoever feeds them daily gets a button")
        assert third[0] == "low"
        assert "<i>food" not in seen.html
        assert "\u202e" not in seen.one("#suggestions blockquote").text()
        assert "%" not in seen.one("#suggestions").text()
        assert "popover" not in seen.one("#suggestions").attributes
        seen.presses("Go there")
        assert "Crows leave a bead" in seen.one("[data-window]").text()
        assert seen.one("mark.found").text().startswith("Crows leave a bead where")
        assert "popover" in seen.one("#suggestions").attributes
        assert seen.one("button[popovertarget=suggestions]").text().startswith("Suggest")
        quote = seen.tree.css("#suggestions button[name=suggestion]")
        seen.sends(quote[0])
        assert seen.one("aside blockquote").text().startswith("Crows leave a bead")
        assert len(seen.tree.css("#suggestions button[name=suggestion]")) == 2
        away = seen.form(seen.tree.css("#suggestions button[name=suggestion]")[0])
        for _ in range(2):  # a double click, on one that the window does not show
            seen.take(browser.post(away[0], data=away[1]))
            assert (seen.status, seen.note()) == (200, "")
        assert "gets a button" in seen.one("[data-window]").text()
        assert seen.one("aside blockquote").text().startswith("Whoever feeds them daily")
        assert events(desk_pages, item)[2:] == [
            "Clicked on link 0", "Given", "Suggested",
            "Find in page: Crows leave a bead where",
            "Quote: Crows leave a bead where <i>food was found ·before, by habit.",
            "Find in page: Whoever feeds them daily gets",
            "Quote: Whoever feeds them daily gets a button sooner or later, as a rule.",
        ]  # fmt: skip
        seen.presses("Write the answer").presses("Hand it in", answer="By habit [1][2].")
        (judgement,) = labelling_queue.list_judgements(desk_pages.store, "Ada", 5)
        (kept,) = judgement.filled["suggestions"]
        assert kept["passages"][0]["score"] > 0.9
        episode = judgement_conversion.convert_to_episode(
            labelling_queue.load_item(desk_pages.store, item), judgement
        )
        assert episode is not None
        assert not any("uggest" in step.prompt + step.said.text for step in episode.steps)
        person_at(browser, desk_pages, "Cleo")
        for address in (f"/trace/{judgement.id}", f"/trace/{judgement.id}/1"):
            assert "with suggestions" in Seen(browser, address).words
        assert "suggested passages on 1 page." in Seen(browser, f"/trace/{judgement.id}").words


@pytest.mark.slow
def test_a_page_is_judged_once_and_recorded_once_for_each_person(
    desk_pages: Desk, pages: Settings, judge: BeadJudge
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages, suggest=True) as browser:
        seen = opened(browser, item)
        again = seen.form(seen.one("button[name=suggest]"))
        seen.presses("Suggest")
        judgings = len(judge.asked)
        assert judgings
        for _ in range(2):  # a double click, then asked again by a page that is up to date
            seen.take(browser.post(again[0], data=again[1]))
            assert (seen.status, len(passages(seen))) == (200, 3)
            again = seen.form(seen.one("button[name=suggest]"))
        assert events(desk_pages, item).count("Suggested") == 1
        person_at(browser, desk_pages, "Ben")
        assert labelling_queue.claim_item(desk_pages.store, "Ben", item=item)
        assert len(passages(opened(browser, item).presses("Suggest"))) == 3
        assert len(judge.asked) == judgings
        assert events(desk_pages, item, "Ben").count("Suggested") == 1
        seen = Seen(browser, f"/demonstrate/{item}").presses("Undo")
        assert events(desk_pages, item, "Ben")[-1] == "Undone"
    with client(desk_pages, pages, "Ben") as browser:  # undone or not, it was shown
        seen = opened(browser, item)
        assert not seen.tree.css("#suggestions, [name=suggest]")
        seen.presses("Quote these sentences").presses("Write the answer")
        seen.presses("Hand it in", answer="By habit [1].")
        (judgement,) = labelling_queue.list_judgements(desk_pages.store, "Ben", 5)
        assert len(judgement.filled["suggestions"]) == 1


@pytest.mark.slow
def test_results_and_desks_without_suggestions_have_none(
    desk_pages: Desk, pages: Settings, judge: BeadJudge
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages, suggest=True) as browser:
        seen = Seen(browser, f"/demonstrate/{item}").presses("Suggest")
        assert (seen.status, "open one first" in seen.note()) == (422, True)
        seen.presses("Search", search="trays").presses("Suggest")
        assert (seen.status, "open one first" in seen.note()) == (422, True)
        assert events(desk_pages, item) == ["Search trays", "Replied"]
        seen.presses("Trays").presses("Suggest")
        for span in ("0-5", "x", "1-", "99999999999999-3"):
            seen.take(browser.post(f"/demonstrate/{item}", data={"seen": "5", "suggestion": span}))
            assert (seen.status, "none of the passages" in seen.note()) == (422, True)
        tab = seen.form(seen.one("button[name=command][value=Top]"))
        seen.presses("Back")
        seen.take(browser.post(tab[0], data={**tab[1], "suggest": "yes"}))
        assert (seen.status, "gone on in another" in seen.note()) == (422, False)
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
        assert "Suggest" not in seen.one(".commands").text()
        seen.take(browser.post(f"/demonstrate/{item}", data={"seen": "6", "suggest": "yes"}))
        assert (seen.status, "nothing was chosen" in seen.note().lower()) == (422, True)
    other = desk_pages.item(Question("2", "Who are jays?"))
    with client(desk_pages, pages) as browser:
        opened(browser, other).presses("Quote these sentences").presses("Write the answer")
        seen = Seen(browser, f"/demonstrate/{other}").presses("Hand it in", answer="Birds [1].")
        (judgement,) = labelling_queue.list_judgements(desk_pages.store, "Ada", 5)
        assert "suggestions" not in judgement.filled
        assert "with suggestions" not in Seen(browser, f"/trace/{judgement.id}").words


@pytest.mark.slow
def test_a_tab_that_is_behind_gets_no_suggestions(
    desk_pages: Desk, pages: Settings, judge: BeadJudge
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages, suggest=True) as browser:
        one = opened(browser, item)
        two = Seen(browser, f"/demonstrate/{item}")
        one.presses("Down")
        two.presses("Suggest")
        assert (two.status, "gone on in another" in two.note()) == (409, True)
        assert "Suggested" not in events(desk_pages, item)


@pytest.mark.slow
def test_a_model_that_is_missing_or_broken_is_a_sentence(
    desk_pages: Desk, pages: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = desk_pages.item()
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        (broken / name).write_text("{}", encoding="utf-8")
    for ranker, sentence in (
        (str(tmp_path / "nowhere"), "neither an evidence model"),
        (str(broken), "cannot be read"),
        ("words", "there is no evidence model"),
    ):
        settings = msgspec.structs.replace(pages, ranker=ranker)
        with client(desk_pages, settings, suggest=True) as browser:
            seen = Seen(browser, f"/demonstrate/{item}")
            if "Nothing is open yet" in seen.words:
                seen = opened(browser, item)
            seen.presses("Suggest")
            assert seen.status == 422
            assert seen.note().startswith("Nothing can be suggested: ")
            assert sentence in seen.note()
    monkeypatch.setattr(EvidenceSources, "load_evidence_judge", lambda sources: fail_to_judge)
    with client(desk_pages, pages, suggest=True) as browser:
        seen = Seen(browser, f"/demonstrate/{item}").presses("Suggest")
        assert seen.note() == "Nothing can be suggested: the evidence model failed."
    assert "Suggested" not in events(desk_pages, item)


@pytest.mark.slow
def test_the_bundled_model_suggests_the_sentence_that_answers(
    desk_pages: Desk, tmp_path: Path
) -> None:
    item = desk_pages.item(Question("3", "Why do crows bring gifts to people?"))
    settings = Settings(places=(str(get_bundled_folder()),))
    with client(desk_pages, settings, suggest=True) as browser:
        seen = opened(browser, item, "Why crows bring gifts").presses("Suggest")
        grade, text = passages(seen)[0]
        assert grade == "high"
        assert "because they have learned that a particular person feeds them" in text
        seen.presses("Go there")
        assert "Crows most likely bring gifts to people" in seen.one("[data-window]").text()
        seen.sends(seen.tree.css("#suggestions button[name=suggestion]")[0])
        assert "because they have learned" in seen.one("aside blockquote").text()


@pytest.mark.filterwarnings("ignore:Please use:PendingDeprecationWarning")
def test_the_option_opens_a_desk_with_suggestions_or_says_what_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[bool] = []
    monkeypatch.setattr(
        app, "run_server", lambda place, settings, listener, how: served.append(how.suggest)
    )
    here = ("--store", tmp_path / "desk.sqlite", "--port", "0")
    for command in (("desk",), ("desk", "--suggest"), (), ("--suggest",)):
        assert run("serve", *command, *here).code == 0
    assert served == [False, True, False, True]
    told = run("serve", *here, "--suggest", "--ranker", "words")
    assert (told.code, "--suggest needs an evidence model" in told.err) == (2, True)
    told = run("serve", *here, "--suggest", "--ranker", tmp_path / "nowhere")
    assert told.code != 0
    assert "neither an evidence model" in told.err
    assert "Traceback" not in told.err
    assert len(served) == 4
