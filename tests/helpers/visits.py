"""A desk with items of every form, and visits to it without a browser."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode
from starlette.testclient import TestClient

from rookery.desk import accounts, labelling_queue
from rookery.desk.accounts import PersonRole
from rookery.desk.forms import FORMS, GoldLabels, LabellingItem
from rookery.desk.store import Store
from rookery.records import Answer, Claim, Page, Question, digest_of
from rookery.server.app import build_web_app
from rookery.settings import Settings
from rookery.shell.security import VisitorLimits

WRITERS = ("model-alpha", "model-beta", "model-gamma", "model-delta")
LIFE = Page(
    "https://www.birds.example/age",
    "How old crows get",
    "Most wild crows live for seven or eight years. A few reach fifteen. Ravens live longer.",
)
TOOLS = Page(
    "https://tools.example/hooks",
    "Hooks and sticks",
    "New Caledonian crows bend twigs into hooks. They keep the best ones.",
)
CLEAR = Answer(
    "Most crows live for seven or eight years. A few 🐦 reach fifteen.",
    (LIFE.quote(0, 46), LIFE.quote(47, 67)),
    (Claim(0, 41, (0,)), Claim(42, 64, (1,))),
)
BESIDE = Answer(
    "Crows bend hooks. So they live long.\n\nNobody has counted.",
    (TOOLS.quote(0, 43), TOOLS.quote(44, 68)),
    (Claim(0, 17, (0,)),),
)
OTHERS = (Answer("About seven years."), Answer("It depends on the winter."))
ANSWERS = (CLEAR, BESIDE, *OTHERS)
JUSTIFICATION = "The evidence of the other answer is about hooks, and not about age."
FORMS_HERE = tuple(name for name in FORMS if name != "demonstrate")


class Clock:
    """Seconds since 1970 that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def item(form: str, number: int = 0, gold: GoldLabels | None = None) -> LabellingItem:
    """An item that fits the form."""
    count = FORMS[form].answers
    question = Question(f"{form}{number}", f"How old do crows get? ({number})", gold=("Seven.",))
    return LabellingItem(form, question, ANSWERS[:count], WRITERS[:count], gold=gold)


class Visit:
    """Somebody at the desk, in a browser without scripts."""

    def __init__(self, client: TestClient, name: str) -> None:
        self.client, self.name = client, name
        self.at = ""
        self.html = ""
        self.status = 0

    def get(self, address: str) -> "Visit":
        """Opens a page."""
        return self._seen(self.client.get(address))

    def post(self, address: str, /, **fields: str | list[str]) -> "Visit":
        """Sends a form, and follows where that leads."""
        return self._seen(self.client.post(address, data=fields))

    def begin(self, form: str) -> "Visit":
        """Takes a task of a form in hand."""
        return self.post("/next", form=form)

    def send(
        self, values: Mapping[str, str | list[str]], do: str = "submit", without: Iterable[str] = ()
    ) -> "Visit":
        """Fills in and sends the task's form as the page has it, pressing a button."""
        form = self.first("form#task")
        fields = {name: said for name, said in filled_in(form).items() if name not in without}
        fields |= {k: [v] if isinstance(v, str) else v for k, v in values.items()} | {"do": [do]}
        return self._seen(self.client.post(form.attributes["action"] or "", data=fields))

    @property
    def page(self) -> LexborHTMLParser:
        """What is seen, taken apart."""
        return LexborHTMLParser(self.html)

    def first(self, selector: str) -> LexborNode:
        """The first element of its kind, which must be there."""
        found = self.page.css_first(selector)
        assert found is not None, (selector, self.text)
        return found

    @property
    def text(self) -> str:
        """The words of the page's main part."""
        main = self.page.css_first("main")
        assert main is not None, self.html
        return " ".join(main.text(separator=" ").split())

    @property
    def task(self) -> str:
        """The id of the item that is open."""
        return self.at.partition("/tasks/")[2].partition("?")[0]

    def _seen(self, answer: object) -> "Visit":
        assert hasattr(answer, "text")
        assert hasattr(answer, "status_code")
        assert hasattr(answer, "url")
        self.html, self.status = answer.text, answer.status_code
        self.at = f"{answer.url.path}?{answer.url.query.decode()}".rstrip("?")
        return self


def filled_in(form: LexborNode) -> dict[str, list[str]]:
    """What a browser would send of a form as it stands, without a button."""
    said: dict[str, list[str]] = {}
    for control in form.css("input[name], textarea[name]"):
        kind, name = control.attributes.get("type"), control.attributes["name"] or ""
        if kind in ("radio", "checkbox") and "checked" not in control.attributes:
            continue
        value = control.text() if control.tag == "textarea" else control.attributes.get("value")
        said.setdefault(name, []).append(value or "")
    return said


class Opened(NamedTuple):
    """A desk that can be visited."""

    store: Store
    clock: Clock
    limits: VisitorLimits = VisitorLimits()

    def lay(
        self, *items: LabellingItem, copies: int = 9, batch: str = "first", **more: bool
    ) -> list[str]:
        """Puts items there; their ids."""
        labelling_queue.add_items(self.store, items, batch, copies, **more)
        return [digest_of(f"{batch}\n{each.to_json()}") for each in items]

    def client(self, site: str = "http://desk.test") -> TestClient:
        """A browser without scripts that nobody is in with yet."""
        app = build_web_app(self.store, Settings(), self.limits)
        return TestClient(app, base_url=site, raise_server_exceptions=False)

    def visit(self, name: str = "lena", role: PersonRole = "labeller") -> Visit:
        """Somebody who is in."""
        client = self.client()
        token = accounts.create_invite(self.store, name, role, "ada")
        assert client.post(f"/enter/{token}").status_code == 200
        return Visit(client, name)


def open_store(template: Path, folder: Path) -> Opened:
    """A new store, copied from an empty one."""
    place, clock = folder / "desk.sqlite", Clock()
    shutil.copyfile(template, place)
    return Opened(Store(str(place), clock), clock)
