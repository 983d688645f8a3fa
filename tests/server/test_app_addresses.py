"""Links that are sent elsewhere begin with the server's address, whatever Host a client says."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from askers import CROWS, SECONDS, home
from commands import started
from mcpline import called
from starlette.testclient import TestClient
from test_answer_pages_notebooks import until_done
from visits import Opened, Visit, open_store

from rookery.desk import accounts, projects
from rookery.desk.projects import ProjectSettings
from rookery.server.api.endpoints import create_api_key
from rookery.server.app import build_web_app
from rookery.server.monitoring import ObservabilityMiddleware

__all__ = ["home"]
FORGED = "evil.example"


@pytest.fixture
def opened(empty_store: Path, tmp_path: Path) -> Iterator[Opened]:
    opened = open_store(empty_store, tmp_path)
    yield opened
    opened.store.close()


@contextmanager
def enter(opened: Opened, address: str = "", behind_proxy: bool = False) -> Iterator[Visit]:
    """An administrator, whose client sends a forged Host with every request."""
    app = build_web_app(opened.store, CROWS, address=address)
    watched = ObservabilityMiddleware(app, behind_proxy)
    with TestClient(watched, "http://127.0.0.1:8500", client=("127.0.0.1", 50000)) as client:
        client.headers["host"] = FORGED
        visit = Visit(client, "ada")
        visit.post(f"/enter/{accounts.create_invite(opened.store, 'ada', 'admin', 'ada')}")
        yield visit


def list_sent_links(opened: Opened, visit: Visit) -> list[str]:
    """Every link that pages, the API and MCP show in full, until the part that is a secret."""
    projects.save_project(opened.store, "corvids", ProjectSettings(), "ada")
    links = []
    visit.post("/board/people/invite", name="ben", role="reader")
    links.append(visit.first("#link").attributes["value"] or visit.first("#link").text())
    visit.post("/board/projects/link", project="corvids", days="7", study="65aa")
    links.append(visit.first("#link").text())
    visit.post("/ask", question="Why do crows bring gifts?")
    visit.post(f"{visit.at.partition('?')[0]}/share", link="yes")
    until_done(visit)
    links.append(visit.first("#link").attributes["value"] or "")
    key = {"Authorization": f"Bearer {create_api_key(opened.store, 'program')}"}
    found = visit.client.post("/search", json={"query": "gifts of crows"}, headers=key).json()
    links.append(found["results"][0]["url"])
    sent = visit.client.post("/mcp", json=called("search", query="gifts of crows"), headers=key)
    links += re.findall(r"https?://[^\s\"\\]+/pages/", sent.text)[:1]
    return links


@pytest.mark.parametrize(
    ("address", "proxy", "begins"),
    [
        ("", {}, "http://127.0.0.1:8500/"),
        ("https://rookery.example/", {}, "https://rookery.example/"),
        ("", {"X-Forwarded-Host": "us.example:8443"}, "http://us.example:8443/"),
        ("", {"X-Forwarded-Host": "us.example"}, "http://us.example/"),
        ("", {"X-Forwarded-Host": "[2001:db8::1]"}, "http://[2001:db8::1]/"),
        ("http://a.example", {"X-Forwarded-Host": "us.example"}, "http://a.example/"),
    ],
)
def test_links_begin_with_the_address_of_the_server(
    opened: Opened, home: Path, address: str, proxy: dict[str, str], begins: str
) -> None:
    with enter(opened, address, bool(proxy)) as visit:
        visit.client.headers.update(proxy)
        links = list_sent_links(opened, visit)
    assert len(links) == 5
    assert all(link.startswith(begins) for link in links), links


def test_no_page_names_the_host_that_a_client_made_up(opened: Opened, home: Path) -> None:
    paths = [route.path for route in build_web_app(opened.store, CROWS).routes]  # type: ignore[attr-defined]
    with enter(opened) as visit:
        for path in (path for path in paths if "{" not in path):
            for asked in (path, f"{path.rstrip('/')}/"):
                answer = visit.client.get(asked, follow_redirects=False)
                assert FORGED not in answer.text, asked
                assert not any(FORGED in value for value in answer.headers.values()), asked


def test_an_address_has_to_be_whole(tmp_path: Path) -> None:
    with started(tmp_path, "serve", "--address", "rookery.example") as process:
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert b"--address rookery.example: say it in full, as https://rookery.example" in said
