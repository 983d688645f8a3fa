"""A server as those who run it see it: healthy, ready, counted, logged, ended, several at once."""

import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commands import CORVIDS, GIFTS
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from services import Service, service
from sqlalchemy import text
from stage import Said, Stage
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from stores import Server, postgres
from visits import Clock

from rookery.desk.store import Store, initialize_store
from rookery.server.api import answer_queue, endpoints
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.server.app import build_web_app
from rookery.server.monitoring import (
    LATENCY_BOUNDS,
    SETTLED_SECONDS,
    ObservabilityMiddleware,
    OutcomeCounter,
    RequestMetrics,
    redact_secrets,
)
from rookery.settings import Settings

__all__ = ["postgres"]
HOME = ("127.0.0.1", 50000)
AWAY = ("203.0.113.9", 50000)
LONGEST = 120.0
"""seconds after which something hangs"""
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Sample = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture
def place(empty_store: Path, tmp_path: Path) -> str:
    return str(shutil.copy(empty_store, tmp_path / "desk.sqlite"))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with Store(place) as store:
        yield store


def echo(request: Request) -> Response:
    """What the application takes the request for."""
    client = request.client.host if request.client else None
    return JSONResponse({"url": str(request.url), "client": client})


def visit(
    store: Store,
    client: tuple[str, int] = HOME,
    behind_proxy: bool = False,
    places: tuple[str, ...] = ("rookery:corvids",),
) -> TestClient:
    app = build_web_app(store, Settings(places))
    app.router.routes.insert(0, Route("/echo", echo))
    watched = ObservabilityMiddleware(app, behind_proxy)
    return TestClient(watched, base_url="http://127.0.0.1:8500", client=client)


def samples(body: str) -> dict[Sample, float]:
    """What Prometheus would read: every line is a comment that it knows, or a sample."""
    values: dict[Sample, float] = {}
    kinds: dict[str, str] = {}
    for line in body.splitlines():
        if line.startswith("#"):
            _, word, name, rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE")
            if word == "TYPE":
                assert name not in kinds, "told once"
                kinds[name] = rest
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        base = re.sub(r"_(bucket|sum|count)$", "", match[1])
        assert match[1] in kinds or kinds[base] == "histogram"
        sample = match[1], tuple(LABEL.findall(match[2] or ""))
        assert sample not in values, "told once"
        values[sample] = float(match[3])
    return values


def requests_of(values: dict[Sample, float], route: str) -> float:
    """Requests at a route, whatever came of them."""
    counted = [
        (dict(labels), n) for (name, labels), n in values.items() if name.endswith("s_total")
    ]
    return sum(count for labels, count in counted if labels.get("route") == route)


@pytest.mark.slow
def test_a_server_with_its_store_and_its_library_is_ready(store: Store) -> None:
    with visit(store, AWAY) as visitor:
        assert visitor.get("/healthz").text == "ok\n"
        ready = visitor.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"store": "ready", "library": "ready"})
        assert visitor.post("/healthz").status_code == 405


@pytest.mark.slow
def test_a_server_is_not_ready_with_a_store_of_another_revision(store: Store, place: str) -> None:
    with visit(store) as visitor:
        assert visitor.get("/readyz").status_code == 200
        with store.begin_write() as connection:
            connection.execute(text("update alembic_version set version_num = '0001'"))
        ready = visitor.get("/readyz")
        assert (ready.status_code, ready.json()["store"]) == (503, "old_store")
        Path(place).unlink()
        assert visitor.get("/readyz").json()["store"] == "no_store"
        assert visitor.get("/healthz").status_code == 200


def test_a_server_whose_library_is_not_there_is_not_ready(store: Store, tmp_path: Path) -> None:
    with visit(store, places=(str(tmp_path / "nowhere"),)) as visitor:
        ready = visitor.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["library"] != "ready"
    assert str(tmp_path) not in ready.text


@pytest.mark.slow
def test_metrics_count_requests_answers_and_what_is_in_hand(store: Store) -> None:
    with visit(store) as visitor:
        before = samples(visitor.get("/metrics").text)
        assert before["rookery_waiting", ()] == 0
        for question in (GIFTS, GIFTS, "Which enzyme splits lactose?"):
            assert visitor.post("/v1/answers", json={"question": question}).status_code == 200
        assert visitor.get("/v1/answers/none").status_code == 404
        read = visitor.get("/metrics")
    assert read.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(read.text)
    kept = ("method", "POST"), ("route", "/v1/answers"), ("status", "200")
    assert found["rookery_requests_total", kept] == 3
    lost = ("method", "GET"), ("route", "/v1/answers/{answer_id}"), ("status", "404")
    assert found["rookery_requests_total", lost] == 1
    ended = {labels: n for (name, labels), n in found.items() if name == "rookery_answers_total"}
    assert sum(ended.values()) == 3
    assert ended[("stop", "end"),] >= 2
    assert found["rookery_leases", (("of", "answers"),)] == 0


def test_a_histogram_counts_up_to_each_bound() -> None:
    metrics = RequestMetrics()
    for seconds in (0.001, LATENCY_BOUNDS[0], 0.03, 1e6, 0.03):
        metrics.add("GET", '/a"b\\', 200, seconds)
    found = samples(generate_latest(metrics.registry).decode())
    route = "route", r"/a\"b\\"
    name = "rookery_request_seconds"
    seen = [found[f"{name}_bucket", (("le", str(bound)), route)] for bound in LATENCY_BOUNDS]
    assert seen == [2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    assert found[f"{name}_bucket", (("le", "+Inf"), route)] == 5
    assert found[f"{name}_count", (route,)] == 5
    assert found[f"{name}_sum", (route,)] == pytest.approx(1e6 + 0.066)


def test_answers_are_counted_once_however_often_they_are_counted(place: str) -> None:
    clock = Clock()
    with Store(place, clock) as store:
        endpoints.ensure_reader(store, "Ada")
        ended, cancelled = OutcomeCounter(store), 0
        for passed in (
            0.0,
            1.0,
            SETTLED_SECONDS,
            0.5,
            2 * SETTLED_SECONDS,
            30.0,
            30.0,
            SETTLED_SECONDS,
        ):
            clock.now += passed
            answer = answer_queue.enqueue_answers(store, [(QuestionRequest(GIFTS), GIFTS)], "Ada")[
                0
            ]
            if passed != 0.5:
                cancelled += answer_queue.cancel_answer(store, answer)
            assert ended.count_outcomes().get("failed", 0) == cancelled
            assert ended.count_outcomes() == OutcomeCounter(store).count_outcomes()


def test_metrics_are_for_this_machine_and_for_keys(store: Store) -> None:
    with visit(store, AWAY) as visitor:
        assert visitor.get("/metrics").status_code == 401
        key = endpoints.create_api_key(store, "prometheus")
        header = {"Authorization": f"Bearer {key}"}
        assert visitor.get("/metrics", headers=header).status_code == 200
        endpoints.revoke_api_key(store, "prometheus")
        refused = visitor.get("/metrics", headers=header)
        assert refused.status_code == 401
        assert "rookery_" not in refused.text
    with visit(store) as visitor:
        assert visitor.get("/metrics").status_code == 200
        through = {"X-Forwarded-For": "203.0.113.9"}
        assert visitor.get("/metrics", headers=through).status_code == 401
        assert visitor.get("/metrics", headers={"Host": "evil.example"}).status_code == 401
    with visit(store, behind_proxy=True) as visitor:
        assert visitor.get("/metrics").status_code == 401, "a proxy that says nothing of who asks"


def test_each_request_has_an_id_of_its_own(store: Store) -> None:
    with visit(store) as visitor:
        paths = ["/healthz", "/", "/nowhere", "/v1/models", "/healthz"]
        seen = [visitor.get(path).headers["x-request-id"] for path in paths]
        given = visitor.get("/healthz", headers={"X-Request-Id": "given-by-a-stranger"})
    assert len(set(seen)) == len(paths)
    assert given.headers["x-request-id"] != "given-by-a-stranger"


def test_what_a_proxy_says_counts_only_behind_one(store: Store) -> None:
    said = {
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "rookery.example",
        "X-Forwarded-For": "198.51.100.1, 203.0.113.9",
        "X-Request-Id": "from-the-proxy",
    }
    with visit(store) as visitor:
        alone = visitor.get("/echo", headers=said)
    assert alone.json() == {"url": "http://127.0.0.1:8500/echo", "client": HOME[0]}
    with visit(store, behind_proxy=True) as visitor:
        behind = visitor.get("/echo", headers=said)
        odd = {"X-Forwarded-Host": 'x"><script>', "X-Forwarded-Proto": "javascript"}
        strange = visitor.get("/echo", headers={**odd, "X-Request-Id": 'no id {"}'})
    assert behind.json() == {"url": "https://rookery.example/echo", "client": "203.0.113.9"}
    assert behind.headers["x-request-id"] == "from-the-proxy"
    assert strange.json() == {"url": "http://127.0.0.1:8500/echo", "client": None}
    assert strange.headers["x-request-id"] != 'no id {"}'


@pytest.mark.parametrize(
    "said",
    [
        "GET /enter/SECRET failed",
        "no such key: rk-SECRETSECRET",
        "Authorization: Bearer SECRET.SECRET",
        "x-api-key: SECRET",
        "{'cookie': '__Host-rookery=SECRET'}",
        "postgresql://rookery:SECRET@db.example/rookery is gone",
        "https://search.example/find?q=SECRET&n=1 timed out",
        "insert failed\n[parameters: ('SECRET',)]",
        "Key exists\nDETAIL:  Key (name)=(SECRET) already exists.",
    ],
)
def test_secrets_are_cut_out_of_logs(said: str) -> None:
    assert "SECRET" not in redact_secrets(said)
    assert "[...]" in redact_secrets(said)


@pytest.mark.slow
def test_logs_hold_a_line_for_each_request_and_no_secrets(place: str, tmp_path: Path) -> None:
    with Store(place) as store:
        key = endpoints.create_api_key(store, "a program")
    secrets = [key, "TOKEN-OF-AN-INVITE", "COOKIE-OF-A-SESSION", "What do nutcrackers hide"]
    with service(tmp_path, place, *CORVIDS, "--log") as served:
        cookie = {"Cookie": f"__Host-rookery={secrets[2]}"}
        asked = served.ask(f"{secrets[3]}?", key)
        seen = [
            asked,
            served.get(f"/enter/{secrets[1]}"),
            served.get(f"/?question={secrets[3]}", cookie),
            served.get("/v1/models", {"Authorization": "Bearer rk-NOT-A-KEY-OF-OURS"}),
        ]
        code, lines = served.end()
        printed = served.printed()
    assert code == 143
    assert asked.status_code == 200
    by_id = {line["id"]: line for line in lines if "route" in line}
    told = [by_id[one.headers["x-request-id"]] for one in seen]
    assert [line["status"] for line in told] == [one.status_code for one in seen]
    routes = ["/v1/answers", "/enter/{token}", "/", "/v1/models"]
    assert [line["route"] for line in told] == routes
    assert all(secret not in f"{lines}{printed}" for secret in [*secrets, "rk-", "/enter/T"])


@pytest.mark.slow
def test_a_server_that_is_ended_finishes_what_is_under_way_and_gives_back_the_rest(
    place: str, tmp_path: Path, web: Stage
) -> None:
    found = web.routes["/search"]
    assert isinstance(found, Said)

    asked_for, go_on, over = (threading.Event() for _ in range(3))

    def slowly(visit: Any) -> Said:
        """The first question goes on when it is told to, the others when the server is gone."""
        first = "jays" in visit.query.get("q", "")
        if first:
            asked_for.set()
        (go_on if first else over).wait(LONGEST)
        return found

    web.routes["/search"] = slowly
    # Two at once: the searches that wait leave a connection to this host for the pages.
    engine = ("--engine", f"searxng:{web.base}", "--allow-private", "--at-once", "2")
    with service(tmp_path, place, *engine) as served, ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(served.ask, "Where do jays bury acorns?")
        assert asked_for.wait(LONGEST)
        later = [served.ask(f"What is crow {n}?", wait=False).json()["id"] for n in range(20)]
        served.process.send_signal(signal.SIGTERM)
        while accepts(served):
            time.sleep(0.01)
        go_on.set()
        said = under_way.result()
        code, _ = served.end()
        over.set()
    assert code == 143
    assert said.status_code == 200
    assert said.json()["state"] == "done"
    with Store(place) as store:
        states = [answer_queue.find_answer(store, answer).state for answer in later]
    assert set(states) <= {"done", "asked"}
    assert "asked" in states


def accepts(served: Service) -> bool:
    """Whether a new connection is taken."""
    try:
        socket.create_connection(("127.0.0.1", int(served.address.rpartition(":")[2]))).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_workers_share_one_store_and_one_that_is_killed_is_replaced(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counts").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "counts"))
    with service(tmp_path, place, *CORVIDS, "--workers", "2") as served:
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(served.ask, [GIFTS] * 4))
        assert [one.json()["state"] for one in said] == ["done"] * 4
        assert counted(served, 4) == 4
        first, second = served.workers()
        # What a worker counted and has not told yet would be gone with it.
        until = time.monotonic() + LONGEST
        while answers_told(tmp_path / "counts") < 4:
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        answers = [one.json()["id"] for one in said]
        with Store(place) as store:
            assert all(answer_queue.find_answer(store, answer).answered for answer in answers)
        deadline = time.monotonic() + LONGEST
        while len(served.workers()) < 2 or first in served.workers():
            assert time.monotonic() < deadline
            assert served.get("/healthz").status_code == 200
            time.sleep(0.1)
        assert second in served.workers()
        assert served.ask(GIFTS).json()["state"] == "done"
        assert counted(served, 5) == 5
        code, _ = served.end()
    assert code == 0


@pytest.mark.slow
def test_workers_of_a_server_that_was_killed_leave_its_port(place: str, tmp_path: Path) -> None:
    with service(tmp_path, place, *CORVIDS, "--workers", "2") as served:
        assert len(served.workers()) == 2
        served.process.kill()
        deadline = time.monotonic() + LONGEST
        while accepts(served):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def answers_told(folder: Path) -> int:
    """Questions asked, by what workers have told each other."""
    [shared] = folder.glob("rookery-*")
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(shared))  # type: ignore[no-untyped-call]
    return int(requests_of(samples(generate_latest(registry).decode()), "/v1/answers"))


def counted(served: Service, least: int) -> float:
    """Questions asked, of all workers."""
    deadline = time.monotonic() + LONGEST
    while True:
        count = requests_of(samples(served.get("/metrics").text), "/v1/answers")
        if count >= least or time.monotonic() > deadline:
            return count
        time.sleep(0.1)


@pytest.mark.slow
def test_a_service_has_its_work_in_postgresql(postgres: Server, tmp_path: Path) -> None:
    place = postgres.database()
    initialize_store(place)
    with Store(place) as store:
        key = endpoints.create_api_key(store, "a program")
    more = ("--log", "--behind-proxy")
    with service(tmp_path, place, *CORVIDS, *more) as served:
        asked = served.ask(GIFTS, key)
        assert asked.json()["state"] == "done"
        assert served.get("/metrics").status_code == 401
        found = samples(served.get("/metrics", {"Authorization": f"Bearer {key}"}).text)
        assert found["rookery_answers_total", (("stop", "end"),)] == 1
        assert "/enter/" not in served.printed(), "it would stay in a journal"
        _, lines = served.end()
    assert asked.headers["x-request-id"] in {line.get("id") for line in lines}
