"""A desk for demonstrations in the tests: its store, its people, its pages, and forms as they are
sent without a script."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from listening import listening
from selectolax.lexbor import LexborHTMLParser, LexborNode
from starlette.testclient import TestClient

from rookery.browser.browser import BrowserReply, answer_request
from rookery.browser.browser_commands import BrowserRules
from rookery.desk import accounts, labelling_queue
from rookery.desk.accounts import PersonRole
from rookery.desk.demonstration_sessions import (
    DemonstrationKey,
    DemonstrationSession,
    DemonstrationStore,
    make_storable_reply,
)
from rookery.desk.forms import LabellingItem
from rookery.desk.store import Store
from rookery.records import Library, Question, digest_of
from rookery.server.app import build_web_app
from rookery.settings import Settings
from rookery.shell.browser_session import BrowserSession
from rookery.shell.security import VisitorLimits

QUESTION = Question("1", "Why do crows bring gifts?")
CROWS = """<!doctype html><title>Crows</title><main>
<h1>Crows and gifts</h1>
<p>Crows bring gifts to people who feed them. A gift needs a giver who means something by it.</p>
<p>They also play. <a href="jays.html">Jays</a> are their kin, and bury acorns.</p>
<table><tr><th>Bird</th><th>Gift</th></tr><tr><td>Crow</td><td>bead</td></tr></table>
<ul><li>A bent paper clip</li><li>Half a walnut shell 🐦‍⬛</li></ul>
""" + "".join(
    f"<p>Line {number} of a page about crows, and nothing else.</p>" for number in range(90)
)
JAYS = """<!doctype html><title>Jays</title><main>
<p>Jays bury acorns in September. They find most of them again.</p></main>"""
PEOPLE: Mapping[str, PersonRole] = {"Ada": "labeller", "Ben": "labeller", "Cleo": "reviewer"}
EVERYBODY = VisitorLimits(sent=1_000_000)


def write_pages(place: Path, **named: str) -> Path:
    """A folder of pages."""
    place.mkdir()
    for name, text in {"crows": CROWS, "jays": JAYS, **named}.items():
        (place / f"{name}.html").write_text(text, encoding="utf-8")
    return place


class Desk(NamedTuple):
    """A store with people, and the sessions that they hold."""

    store: Store
    sessions: dict[str, str]

    def item(self, question: Question = QUESTION, **values: object) -> str:
        """An item that three people may demonstrate, by its id."""
        rules = values.get("rules", BrowserRules())
        assert isinstance(rules, BrowserRules)
        item = LabellingItem(
            "demonstrate", question, rules=rules, start=str(values.get("start", ""))
        )
        labelling_queue.add_items(self.store, [item], "b", 3)
        lease = labelling_queue.claim_item(
            self.store, "Ada", item=digest_of(f"b\n{item.to_json()}")
        )
        assert lease is not None
        return lease.item_id

    def place(self, item: str, person: str = "Ada") -> DemonstrationKey:
        """Where that person's demonstration is."""
        return DemonstrationKey(item, person)


@contextmanager
def desk(template: Path, folder: Path) -> Iterator[Desk]:
    """A new desk with Ada and Ben, who label, and Cleo, who reviews."""
    place = folder / "desk.sqlite"
    shutil.copyfile(template, place)
    with Store(str(place)) as store:
        yield Desk(
            store,
            {
                name: accounts.redeem_invite(
                    store, accounts.create_invite(store, name, role, by="root")
                )
                for name, role in PEOPLE.items()
            },
        )


def did(
    sittings: DemonstrationStore,
    place: DemonstrationKey,
    library: Library,
    act: Callable[[BrowserSession], str],
) -> str:
    """Does something now, and fetches what it wants."""
    with sittings.open_session(place) as work:
        number = work.event_count
    note = sittings.change_session(place, number, act)
    fetched(sittings, place, library)
    return note


def fetched(sittings: DemonstrationStore, place: DemonstrationKey, library: Library) -> None:
    """Has what is wanted, until nothing is."""
    while True:
        with sittings.open_session(place) as work:
            wanted, number = work.browser_session.pending_request, work.event_count
        if wanted is None:
            return
        reply = make_storable_reply(wanted[0], answer_request(library, wanted))
        sittings.change_session(place, number, accepting(reply))


def accepting(reply: BrowserReply) -> Callable[[BrowserSession], None]:
    """Gives a session what its browser waits for."""
    return lambda session: session.accept_reply(reply)


def state(work: DemonstrationSession) -> tuple[object, ...]:
    """All that is shown of a work, and where it stands."""
    sitting = work.browser_session
    return (
        sitting.observation.prompt,
        sitting.observation.quotes,
        sitting.observation.left,
        sitting.commands,
        sitting.pending_request,
        sitting.draft,
        sitting.browse_result,
        work.event_count,
        [page.digest for page in sitting.pages],
    )


@contextmanager
def client(desk: Desk, settings: Settings, person: str = "Ada") -> Iterator[TestClient]:
    """The desk's pages, as one person's browser without scripts sees them."""
    with TestClient(
        build_web_app(desk.store, settings, EVERYBODY),
        headers={"sec-fetch-site": "same-origin"},
    ) as browser:
        browser.cookies.set("rookery", desk.sessions[person])
        yield browser


@contextmanager
def served(desk: Desk, settings: Settings) -> Iterator[str]:
    """The desk on a free port, and its address."""
    with listening(build_web_app(desk.store, settings, EVERYBODY)) as address:
        yield address


def person_at(browser: TestClient, desk: Desk, name: str) -> None:
    """Somebody else sits down at this browser."""
    browser.cookies.set("rookery", desk.sessions[name])


class Seen:
    """A page, its words, and its forms."""

    def __init__(self, browser: TestClient, address: str) -> None:
        self.browser = browser
        self.take(browser.get(address))

    def take(self, answer: object) -> "Seen":
        """What came in its place."""
        self.answer = answer
        self.status: int = answer.status_code  # type: ignore[attr-defined]
        self.html: str = answer.text  # type: ignore[attr-defined]
        self.path: str = answer.url.path  # type: ignore[attr-defined]
        self.tree = LexborHTMLParser(self.html)
        return self

    @property
    def words(self) -> str:
        """Its text, white space joined."""
        return " ".join(self.one("main").text(separator=" ").split())

    def one(self, selector: str) -> LexborNode:
        """The first element that fits."""
        found = self.tree.css_first(selector)
        assert found is not None, f"{selector} is not on the page"
        return found

    def note(self) -> str:
        """What it says did not work."""
        found = self.tree.css_first("[role=alert]")
        return found.text() if found else ""

    def presses(self, words: str, **typed: str) -> "Seen":
        """Presses the button that says this, its form filled in like this."""
        buttons = [each for each in self.tree.css("main button") if words in each.text()]
        assert buttons, f"no button says {words!r}"
        return self.sends(buttons[0], typed)

    def sends(self, button: LexborNode, typed: Mapping[str, str] = {}) -> "Seen":
        """Sends the form of a button, as browsers do."""
        action, fields = self.form(button)
        return self.take(self.browser.post(action, data={**fields, **typed}))

    def form(self, button: LexborNode) -> tuple[str, dict[str, str]]:
        """Where a button sends what."""
        named = button.attributes.get("form")
        form = self.one(f"form#{named}") if named else _above(button)
        fields = {}
        for each in form.css("input, textarea, select"):
            name = each.attributes.get("name")
            if name and each.attributes.get("type") not in ("checkbox", "radio"):
                fields[name] = _value(each)
        if name := button.attributes.get("name"):
            fields[name] = button.attributes.get("value") or ""
        return form.attributes["action"] or "", fields


def _above(node: LexborNode) -> LexborNode:
    at: LexborNode | None = node
    while at is not None and at.tag != "form":
        at = at.parent
    assert at is not None
    return at


def _value(field: LexborNode) -> str:
    if field.tag == "select":
        option = field.css_first("option")
        return (option.attributes.get("value") or "") if option else ""
    if field.tag == "textarea":
        return field.text()
    return field.attributes.get("value") or ""
