"""In by an invite and out again; cookies; who is not in sees nothing."""

import pytest
from starlette.testclient import TestClient
from visits import Opened, item

from rookery.desk import accounts


def test_an_invite_lets_one_person_in_once(opened: Opened) -> None:
    token = accounts.create_invite(opened.store, "lena", "labeller", "ada")
    client = opened.client()
    for _ in range(3):  # looking at the link uses nothing up
        assert "Sign in" in client.get(f"/enter/{token}").text
    assert "lena" in client.post(f"/enter/{token}").text
    for link, sentence in ((token, "This link was used before"), ("nonsense", "No such link")):
        for method in ("GET", "POST"):
            again = opened.client().request(method, f"/enter/{link}")
            assert (again.status_code, sentence in again.text) == (410, True)
            assert "rookery judge invite NAME" in again.text
            assert "What is searched" not in again.text  # for those who are invited
            assert ">Sign in<" not in again.text
    assert "You are signed in already" in client.get(f"/enter/{token}").text


def test_an_invite_that_is_too_old_says_so(opened: Opened) -> None:
    token = accounts.create_invite(opened.store, "lena", "labeller", "ada", days=1)
    opened.clock.now += 2 * accounts.DAY_SECONDS
    page = opened.client().get(f"/enter/{token}")
    assert (page.status_code, "This link is too old" in page.text) == (410, True)
    assert opened.client().post(f"/enter/{token}").status_code == 410


def test_who_runs_it_on_this_computer_is_told_how_to_come_in(opened: Opened) -> None:
    client = TestClient(opened.client().app, base_url="http://127.0.0.1", client=("127.0.0.1", 9))
    for status, page in ((401, client.get("/")), (410, client.get("/enter/used"))):
        told = "rookery judge invite NAME --role admin" in page.text
        assert (page.status_code, told) == (status, True)
        assert "Whoever runs this server" not in page.text


@pytest.mark.parametrize("address", ["/", "/history", "/guides", "/tasks/x", "/judgements/x"])
def test_who_is_not_in_is_shown_the_way(opened: Opened, address: str) -> None:
    answer = opened.client().get(address)
    assert answer.status_code == 401
    assert "Open the invite link" in answer.text
    assert "Whoever runs this server" in answer.text


@pytest.mark.parametrize(
    "address", ["/next", "/tasks/x", "/tasks/x/leave", "/judgements/x/correct"]
)
def test_who_is_not_in_changes_nothing(opened: Opened, address: str) -> None:
    opened.lay(item("thumbs"))
    assert opened.client().post(address, data={"form": "thumbs"}).status_code == 401


def test_leaving_ends_the_session_for_whoever_holds_its_cookie(opened: Opened) -> None:
    visit = opened.visit()
    copied = dict(visit.client.cookies)
    assert "You are signed out" in visit.post("/leave").html
    other = opened.client()
    other.cookies.update(copied)
    assert other.get("/").status_code == 401


def test_entering_anew_ends_the_session_before(opened: Opened) -> None:
    visit = opened.visit("lena")
    copied = dict(visit.client.cookies)
    visit.post(f"/enter/{accounts.create_invite(opened.store, 'omar', 'labeller', 'ada')}")
    assert "omar" in visit.html
    other = opened.client()
    other.cookies.update(copied)
    assert other.get("/").status_code == 401


def test_who_is_shut_out_is_out_at_once(opened: Opened) -> None:
    visit = opened.visit()
    accounts.shut_out_person(opened.store, "lena", "ada")
    assert visit.get("/").status == 401


@pytest.mark.slow
@pytest.mark.parametrize(
    ("site", "looked", "cookie"),
    [
        ("https://desk.test", True, "__Host-rookery"),
        ("https://desk.test", False, "__Host-rookery"),
        ("http://desk.test", True, "rookery"),  # no browser keeps the strict cookie there
    ],
)
def test_the_cookie_is_as_strict_as_the_browser_lets_it_be(
    opened: Opened, site: str, looked: bool, cookie: str
) -> None:
    client = opened.client(site)
    token = accounts.create_invite(opened.store, "lena", "labeller", "ada")
    if looked:
        client.get(f"/enter/{token}")
    answer = client.post(f"/enter/{token}", follow_redirects=False)
    (kept,) = answer.headers.get_list("set-cookie")
    assert kept.startswith(f"{cookie}=")
    parts = {part.strip().lower().partition("=")[0] for part in kept.split(";")[1:]}
    assert parts == {"httponly", "path", "samesite", "max-age"} | (
        {"secure"} if site.startswith("https") else set()
    )
    assert "samesite=lax" in kept.lower()
    assert client.get("/").status_code == 200


def test_the_plain_cookie_lets_nobody_in_over_https(opened: Opened) -> None:
    token = accounts.create_invite(opened.store, "lena", "labeller", "ada")
    session = accounts.redeem_invite(opened.store, token)
    client = opened.client("https://desk.test")
    assert client.get("/", headers={"cookie": f"rookery={session}"}).status_code == 401


def test_keys_are_turned_off_on_this_browser(opened: Opened) -> None:
    visit = opened.visit()
    assert 'data-keys="on"' in visit.get("/").html
    assert 'data-keys="off"' in visit.post("/keys", keys="off").html
    assert 'data-keys="on"' in visit.post("/keys", keys="on").html
