"""Pages while their database does not answer: PostgreSQL has stopped, or the file is damaged."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from stores import binaries, serving
from visits import Clock, Opened

from rookery.desk.store import RETRY_SECONDS, Store, initialize_store
from rookery.shell.security import is_api_path


@pytest.fixture
def stranded(kind: str, tmp_path: Path) -> Iterator[TestClient]:
    """A browser that an administrator entered with before the database stopped."""
    if kind == "postgresql":
        if binaries() is None:
            pytest.skip("needs PostgreSQL's programs (initdb, postgres)")
        with serving() as server:
            place = server.database()
            initialize_store(place)
            store = Store(place)
            client = enter(store)
    else:
        file = tmp_path / "store.sqlite"
        initialize_store(str(file))
        store = Store(str(file))
        client = enter(store)
        for each in tmp_path.glob("store.sqlite*"):
            each.write_bytes(b"Dear Ada, " * 1000)
    yield client
    store.close()


def enter(store: Store) -> TestClient:
    client = Opened(store, Clock()).visit("ada", "admin").client
    assert client.get("/asked").status_code == 200
    return client


def list_pages(client: TestClient) -> list[tuple[str, str]]:
    """Method and path of each page, with a 1 for each of its parameters."""
    pages = []
    for route in client.app.routes:  # type: ignore[attr-defined]
        if isinstance(route, Route) and not is_api_path(route.path):
            path = re.sub(r"\{.*?\}", "1", route.path)
            pages += [(method, path) for method in (route.methods or ()) if method != "HEAD"]
    return [page for page in pages if not page[1].startswith(("/static/", "/openapi"))]


def test_every_page_says_in_the_readers_language_that_the_database_does_not_answer(
    stranded: TestClient,
) -> None:
    pages = list_pages(stranded)
    assert {("GET", "/"), ("POST", "/documents"), ("POST", "/enter/1")} <= set(pages)
    for language, words in (
        ("en", "The database does not answer. Try again, or tell who runs this server."),
        ("de", "Bitte noch einmal versuchen, oder der Person Bescheid geben"),
    ):
        for method, path in pages:
            answer = stranded.request(method, path, headers={"Accept-Language": language})
            assert answer.status_code == 503, (method, path)
            if path.endswith("/events"):  # read by the page's script, which connects again
                continue
            assert words in answer.text, (method, path)
            assert f'lang="{language}"' in answer.text
            assert answer.headers["retry-after"] == str(RETRY_SECONDS)
            for secret in ("sqlite", "postgresql", "OperationalError", "Traceback"):
                assert secret not in answer.text


def test_the_api_says_when_to_ask_again(stranded: TestClient) -> None:
    answer = stranded.get("/v1/models", headers={"Authorization": "Bearer any"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == str(RETRY_SECONDS)
