"""The server's own records, searches, passages for training, the OpenAPI document, the command."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands import Run
from programs import Served, served

from rookery.desk.store import Store
from rookery.library.page_archive import PageArchive
from rookery.records import Hit, Library, Page
from rookery.server.api import endpoints, routes
from rookery.server.api.answer_sessions import DomainFilteredLibrary, is_allowed_url
from rookery.server.api.endpoints import ApiError, ApiLimits
from rookery.settings import ARCHIVE, get_data_folder

QUESTION = "What do ravens eat? 🐦"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def service(
    indexed_home: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = shutil.copytree(indexed_home, tmp_path_factory.mktemp("records") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        place = folder / "desk.sqlite"
        place.write_bytes(empty_store.read_bytes())
        with served(place, limits=ApiLimits()) as server:
            yield server


def page(digest: str) -> Page:
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        found = archive.find_page(digest)
    assert found is not None
    return found


def read_events(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream, by name."""
    events = [each.split("\n") for each in body.decode().strip().split("\n\n")]
    return [(name[7:], json.loads(data[6:])) for name, data in events]


@pytest.mark.slow
def test_a_record_holds_the_answer_its_claims_and_its_quotes(service: Served) -> None:
    lives = "How long do crows live?"
    record = service.send("/v1/answers", {"question": lives}).json
    assert (record["state"], record["question"]) == ("done", lives)
    sources = record["rookery"]["sources"]
    assert record["rookery"]["verified"] == len(sources) > 1
    for source in sources:
        assert page(source["digest"]).text[source["start"] : source["end"]] == source["quote"]
    for claim in record["claims"]:
        said = record["text"][claim["start"] : claim["end"]]
        assert said in [sources[number - 1]["quote"] for number in claim["sources"]]
    assert service.send(f"/v1/answers/{record['id']}").json == record


@pytest.mark.slow
def test_what_happens_is_told_as_it_does_and_again_later(service: Served) -> None:
    live = read_events(service.send("/v1/answers", {"question": QUESTION, "stream": True}).body)
    names = [name for name, _ in live]
    assert [data["number"] for _, data in live] == list(range(len(live)))
    assert names[0] == "asked"
    assert names[-1] == "answered"
    assert {"searching", "found", "opening", "opened", "quote"} <= set(names)
    record = service.send("/v1/answers", {"question": QUESTION}).json
    at = f"/v1/answers/{record['id']}/events"
    again = read_events(service.send(at).body)
    assert sorted(name for name, _ in again) == sorted(names)  # pages are opened side by side
    rest = read_events(service.send(at, headers={"Last-Event-ID": "3"}).body)
    assert rest == again[4:]


@pytest.mark.slow
def test_a_record_can_be_had_before_it_is_complete(service: Served) -> None:
    first = service.send("/v1/answers", {"question": QUESTION, "wait": False})
    assert first.status == 202
    record = first.json
    read_events(
        service.send(f"/v1/answers/{record['id']}/events").body
    )  # which ends when it is over
    assert service.send(f"/v1/answers/{record['id']}").json["state"] == "done"


@pytest.mark.slow
def test_no_path_of_this_machine_is_told(service: Served) -> None:
    bodies = [
        service.send("/v1/responses", {"model": "rookery-extract", "input": QUESTION}).body,
        service.send("/v1/answers", {"question": QUESTION, "stream": True}).body,
        service.send("/search", {"query": "ravens"}).body,
        service.send("/retrieve", {"queries": ["ravens"]}).body,
        service.send("/openapi.json").body,
    ]
    for body in bodies:
        assert str(ROOT).encode() not in body
        assert b"corvids/" not in body


def test_a_search_is_as_perplexity_has_it(service: Served) -> None:
    found = service.send("/search", {"query": ["ravens", "magpies"], "max_results": 4}).json
    assert set(found) == {"id", "results"}
    assert 1 < len(found["results"]) <= 4
    for result in found["results"]:
        assert set(result) == {"title", "url", "snippet", "date", "last_updated"}
        digest = re.search("/pages/([0-9a-f]{32})", result["url"])
        assert digest
        assert page(digest[1]).title
    assert len({result["url"] for result in found["results"]}) == len(found["results"])


def test_passages_are_as_search_r1_asks_for_them(service: Served) -> None:
    asked = {"queries": ["What do ravens eat?", "zxqv wvut"], "topk": 2, "return_scores": True}
    first, nothing = service.send("/retrieve", asked).json["result"]
    assert (len(first), nothing) == (2, [])
    assert first[0]["score"] >= first[1]["score"] > 0
    document = first[0]["document"]
    title, _, text = document["contents"].partition("\n")
    assert (title, text) == (f'"{document["title"]}"', document["text"])
    digest, _, span = document["id"].partition(":")
    start, end = map(int, span.split("-"))
    assert page(digest).text[start:end] == text
    plain = service.send("/retrieve", {"queries": ["What do ravens eat?"]}).json["result"]
    assert len(plain[0]) == 3
    assert plain[0][0] == document


@pytest.mark.parametrize(
    ("url", "domains", "whether"),
    [
        ("https://birds.example/a", (), True),
        ("https://birds.example/a", ("birds.example",), True),
        ("https://www.birds.example/a", ("Birds.Example.",), True),
        ("https://notbirds.example/a", ("birds.example",), False),
        ("https://birds.example.evil.test/", ("birds.example",), False),
        ("https://evil.test/birds.example", ("birds.example",), False),
        ("https://birds.example@evil.test/", ("birds.example",), False),
        ("https://birds.example/a", ("-birds.example",), False),
        ("https://old.birds.example/a", ("birds.example", "-old.birds.example"), False),
        ("https://fish.example/a", ("-birds.example",), True),
        ("file:///home/a.html", ("birds.example",), False),
        ("file:///home/a.html", ("-",), True),
        ("https://birds.example/a", ("", "-", "-."), True),
        ("https://old.birds.example/a", ("-.birds.example",), False),
        ("http://[broken", ("birds.example",), False),
    ],
)
def test_a_host_is_allowed_by_its_name(url: str, domains: tuple[str, ...], whether: bool) -> None:
    assert is_allowed_url(url, domains) == whether


class Shelf(Library):
    """A library of pages of two hosts, every other one of the first."""

    hits = tuple(Hit(f"https://{'ab'[n % 2]}.example/{n}", str(n)) for n in range(40))

    def search(self, query: str, k: int) -> tuple[Hit, ...]:
        return self.hits[:k]

    def fetch(self, url: str) -> Page:
        return Page("https://b.example/moved" if url.endswith("/8") else url, "", "x")


def test_a_narrowed_library_still_finds_as_many_and_follows_nobody_out() -> None:
    within = DomainFilteredLibrary(Shelf(), ("a.example",))
    assert [hit.title for hit in within.search("x", 4)] == ["0", "2", "4", "6"]
    assert within.fetch("https://a.example/2").url == "https://a.example/2"
    for url in ("https://b.example/1", "https://a.example/8"):
        with pytest.raises(Exception, match="not_allowed"):
            within.fetch(url)


def test_every_address_is_described_with_its_errors(service: Served) -> None:
    document = service.send("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    for operation in routes.API_OPERATIONS:
        path = operation.path.replace(":path", "")
        described = document["paths"][path][operation.method.lower()]
        assert {"200", "401", "403", "429", "500", "503"} <= set(described["responses"])
        if operation.request_type is not None:
            assert "400" in described["responses"]
            assert "413" in described["responses"]
    names = set(re.findall("#/components/schemas/([A-Za-z]+)", json.dumps(document)))
    assert names <= set(document["components"]["schemas"])
    models = document["components"]["schemas"]["ChatRequest"]["properties"]["model"]["enum"]
    assert models == ["rookery-extract"]


def schemathesis() -> str | None:
    """Where it is installed: in an environment of its own, or on the path."""
    own = ROOT / ".venv" / "schemathesis" / "bin" / "schemathesis"
    return str(own) if own.exists() else shutil.which("schemathesis")


@pytest.mark.slow
@pytest.mark.program
@pytest.mark.skipif(schemathesis() is None and "CI" not in os.environ, reason="needs schemathesis")
def test_schemathesis_finds_nothing(service: Served, tmp_path: Path) -> None:
    command = [str(schemathesis()), "run", f"{service.address}/openapi.json", "--no-color"]
    few = "--max-time 10 --max-examples 5 --phases coverage,fuzzing --seed 1".split()
    few += ["--request-timeout", "120"]
    few += ["--generation-database", "none"]
    done = subprocess.run([*command, *few], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"\d+ generated, \d+ passed", done.stdout)


@pytest.mark.filterwarnings("ignore:Please use:PendingDeprecationWarning")
def test_the_command_makes_a_key_once_and_ends_it(run: Run, tmp_path: Path) -> None:
    place = str(tmp_path / "desk.sqlite")
    made = run("serve", "key", "bot", "--store", place, "--per-minute", "5", "--budget", "2.5")
    assert made.code == 0
    token = made.out.strip()
    assert "not shown again" in made.err
    with Store(place) as store:
        key = endpoints.authenticate_key(store, f"Bearer {token}", open_here=False)
        assert key == endpoints.ApiKey(key.token, "bot", "bot", 5, 2.5, 0.0)
        assert run("serve", "key", "bot", "--revoke", "--store", place).code == 0
        with pytest.raises(ApiError):
            endpoints.authenticate_key(store, f"Bearer {token}", open_here=True)
    for wrong in (("bot", "--revoke"), (" ",)):
        told = run("serve", "key", *wrong, "--store", place)
        assert (told.code, told.out) == (2, "")
        assert told.err.startswith(f"rookery: {wrong[0]}: ")


@pytest.mark.slow
def test_a_body_is_one_line_of_json_whatever_it_holds(service: Served) -> None:
    answer = service.send("/v1/answers", {"question": "Do\ncrows\u2028use tools?", "stream": True})
    for line in answer.body.decode().split("\n"):
        assert line == "" or line.startswith(("event: ", "data: "))
        if line.startswith("data: "):
            msgspec.json.decode(line[6:])
