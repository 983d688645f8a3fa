"""What stands before every page: headers, origins, sizes, rates; errors give nothing away."""

import logging
import re
from collections.abc import Iterator

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from visits import FORMS_HERE, Opened, item

from rookery.desk import accounts, labelling_queue
from rookery.desk.accounts import PersonRole
from rookery.desk.forms import FORMS
from rookery.desk.page_endpoints import require_role
from rookery.errors import Failed
from rookery.records import Failure
from rookery.server.app import build_web_app
from rookery.settings import Settings
from rookery.shell.security import SecurityMiddleware, VisitorLimits

POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-NONCE'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; object-src 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


def nonce_of(answer: object) -> str:
    assert hasattr(answer, "headers")
    found = re.search("'nonce-([^']+)'", answer.headers["content-security-policy"])
    assert found
    return found[1]


@pytest.mark.parametrize("address", ["/", "/nowhere", "/history", "/static/no/no.css", "/enter/x"])
def test_every_answer_has_the_headers(opened: Opened, address: str) -> None:
    answer = opened.visit().client.get(address)
    nonce = nonce_of(answer)
    assert answer.headers["content-security-policy"] == POLICY.replace("NONCE", nonce)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in answer.headers


def test_refused_answers_have_the_headers_too(opened: Opened) -> None:
    client = opened.client()
    for answer in (
        client.post("/leave", headers={"sec-fetch-site": "cross-site"}),
        client.post("/next", content=b"x" * 3_000_000),
    ):
        assert answer.status_code in (403, 413)
        assert nonce_of(answer)
        assert "To the first page" in answer.text


@pytest.mark.slow
def test_pages_hold_no_script_and_no_style_of_their_own(opened: Opened) -> None:
    opened.lay(*(item(form) for form in FORMS_HERE))
    visit = opened.visit()
    pages = [visit.get(at).html for at in ("/", "/history", "/guides", "/enter/x", "/nowhere")]
    for form in FORMS_HERE:
        visit.begin(form)
        pages += [visit.get(f"/guides/{form}").html]
        numbers = range(len(FORMS[form].steps))
        pages += [visit.get(f"/tasks/{visit.task}?page={number}").html for number in numbers]
    for html in pages:
        assert not re.search(r"<[^>]*\s(style|on\w+)\s*=", html)
        assert "<style" not in html
        assert "javascript:" not in html
        assert all("src=" in tag and "nonce=" in tag for tag in re.findall("<script[^>]*>", html))
        assert not re.findall(r"<script[^>]*>[^<]", html)


def test_the_nonce_is_new_each_time_and_that_of_the_page(opened: Opened) -> None:
    visit = opened.visit()
    first, second = visit.client.get("/"), visit.client.get("/")
    assert nonce_of(first) != nonce_of(second)
    assert set(re.findall('nonce="([^"]+)"', first.text)) == {nonce_of(first)}


def test_files_are_kept_for_good_under_their_digest(opened: Opened) -> None:
    client = opened.client()
    addresses = set(re.findall(r'/static/[^"]+', client.get("/enter/x").text))
    assert len(addresses) >= 4
    for address in addresses:
        for packed in ("gzip", "identity"):
            answer = client.get(address, headers={"accept-encoding": packed})
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers.get("content-encoding", "identity") == packed
        digest = address.split("/")[2]
        assert client.get(address.replace(digest, "0" * 16)).status_code == 404
    assert client.get("/static/x/..%2fapp.py").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://desk.test"}, 403),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "http://desk.test.evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://desk.test"}, 303),
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "none"}, 303),
    ],
)
def test_only_what_our_pages_sent_changes_anything(
    opened: Opened, headers: dict[str, str], status: int
) -> None:
    opened.lay(item("thumbs"))
    visit = opened.visit().begin("thumbs")
    address, fields = f"/tasks/{visit.task}", {"thumbs.0": "up", "page": "0"}
    sent = visit.client.post(address, data=fields, headers=headers, follow_redirects=False)
    assert sent.status_code == status
    assert len(labelling_queue.list_judgements(opened.store, "lena", 9)) == (status == 303)


def chunks() -> Iterator[bytes]:
    for _ in range(40):
        yield b"x=" + b"y" * 99_998


@pytest.mark.parametrize("declared", [True, False])
def test_too_much_at_once_is_refused_with_a_sentence(opened: Opened, declared: bool) -> None:
    content: bytes | Iterator[bytes] = b"".join(chunks()) if declared else chunks()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = opened.visit().client.post("/next", content=content, headers=headers)
    assert answer.status_code == 413
    assert "more than can be sent at once" in answer.text


def test_files_and_broken_forms_are_refused(opened: Opened) -> None:
    client = opened.visit().client
    assert client.post("/next", files={"form": ("a.txt", b"thumbs")}).status_code == 400
    headers = {"content-type": "multipart/form-data"}
    assert client.post("/next", content=b"--x", headers=headers).status_code == 400


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def hello(_: Request) -> Response:
    return PlainTextResponse("hello")


def test_a_visitor_who_sends_too_often_waits_and_others_do_not() -> None:
    time = Time()
    routes = [Route(at, hello, methods=["GET", "POST"]) for at in ("/", "/enter/x")]
    limits = VisitorLimits(sent=6, entered=2)
    client = TestClient(SecurityMiddleware(Starlette(routes=routes), limits, clock=time))
    mine, theirs = {"cookie": "rookery=a"}, {"cookie": "rookery=b"}
    assert [client.post("/", headers=mine).status_code for _ in range(8)] == [200] * 6 + [429] * 2
    assert client.post("/", headers=theirs).status_code == 200
    assert client.get("/", headers=mine).status_code == 200
    time.now += 10  # one more has come back: six a minute
    assert [client.post("/", headers=mine).status_code for _ in range(2)] == [200, 429]
    tries = [client.post("/enter/x", headers={"cookie": f"rookery={n}"}) for n in range(4)]
    assert [each.status_code for each in tries] == [200, 200, 429, 429]


def test_of_many_visitors_those_seen_long_ago_are_forgotten() -> None:
    guard = SecurityMiddleware(
        Starlette(routes=[Route("/", hello, methods=["POST"])]), VisitorLimits(watched=50)
    )
    client = TestClient(guard)
    for number in range(80):
        client.post("/", headers={"cookie": f"rookery={number}"})
    assert len(guard._rates._buckets) == 50


@pytest.mark.parametrize(
    ("damage", "status", "sentence"),
    [
        ("drop table slots", 503, "The database does not answer"),
        ("insert into forms values ('x', 1, '', '{', '', '', 0)", 500, "The server made an error"),
    ],
)
def test_an_error_gives_nothing_away_and_is_written_down(
    opened: Opened, caplog: pytest.LogCaptureFixture, damage: str, status: int, sentence: str
) -> None:
    client = opened.visit().client
    with opened.store.begin_write() as connection:
        connection.exec_driver_sql(damage)
    with caplog.at_level(logging.ERROR):
        answer = client.get("/desk")
    assert answer.status_code == status
    assert sentence in answer.text
    assert "Traceback" not in answer.text
    assert opened.store.place not in answer.text
    assert "rookery.desk" in {record.name for record in caplog.records}


def test_a_problem_keeps_the_head_of_the_page_and_names_nobody_who_is_alone(opened: Opened) -> None:
    app = build_web_app(opened.store, Settings(), opened.limits)
    client = TestClient(app, "http://localhost", False, client=("127.0.0.1", 50_000))
    client.post(f"/enter/{accounts.create_invite(opened.store, 'lena', 'admin', 'lena')}")
    with opened.store.begin_write() as connection:
        connection.exec_driver_sql("insert into forms values ('x', 1, '', '{', '', '', 0)")
    for address, status in (("/nowhere", 404), ("/tasks/x", 404), ("/desk", 500)):
        answer = client.get(address)
        head = LexborHTMLParser(answer.text).css_first("header")
        assert head is not None
        assert (answer.status_code, "lena" in answer.text) == (status, False)
        assert [each.text() for each in head.css(".person, a[href='/history']")] == [
            "My work",
            "You",
        ]


def test_a_mistake_of_ours_is_a_page_too(opened: Opened) -> None:
    @require_role(None)
    def breaks(_: Request) -> Response:
        raise RuntimeError("the secret detail")

    client = opened.client()
    app = client.app
    assert isinstance(app, Starlette)
    app.router.routes.append(Route("/breaks", breaks))
    answer = client.get("/breaks")
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert nonce_of(answer)


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        ("store_busy", 503, "could not be saved"),
        ("disk_full", 507, "could not be saved"),
        ("already", 409, "The secret detail"),
        ("never_heard_of", 500, "The server made an error"),
    ],
)
def test_a_failure_becomes_a_page(opened: Opened, outcome: str, status: int, said: str) -> None:
    @require_role(None)
    def fails(_: Request) -> Response:
        raise Failed(Failure("/secret/place", outcome, "the secret detail"))

    client = opened.client()
    app = client.app
    assert isinstance(app, Starlette)
    app.router.routes.append(Route("/fails", fails))
    answer = client.get("/fails")
    assert (answer.status_code, said in answer.text) == (status, True)
    assert "/secret/place" not in answer.text


def test_a_page_is_only_for_its_roles(opened: Opened) -> None:
    @require_role("researcher")
    def lab(_: Request) -> Response:
        return PlainTextResponse("the lab")

    statuses: dict[PersonRole, int] = {
        "labeller": 403,
        "reviewer": 403,
        "researcher": 200,
        "admin": 200,
    }
    for role, status in statuses.items():
        client = opened.client()
        app = client.app
        assert isinstance(app, Starlette)
        app.router.routes.append(Route("/lab", lab))
        assert client.get("/lab").status_code == 401
        client.post(f"/enter/{accounts.create_invite(opened.store, role, role, 'me')}")
        assert client.get("/lab").status_code == status
