"""Pages that need JavaScript, friendly and hostile, in a real Chromium before loopback servers."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crowded import room_for_files
from servers import Server, serving
from stage import Said, Stage, stage

from rookery.errors import Failed
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import WebLibrary, make_web_search
from rookery.network import page_rendering
from rookery.network.fetcher import Fetcher, FetchResponse
from rookery.network.page_rendering import ChromiumRenderer, RenderLimits, find_chromium

needs_chromium = pytest.mark.skipif(
    not find_chromium() and "CI" not in os.environ, reason="needs chromium"
)
SHELL = (
    "<!doctype html><title>Crows</title><div id=root></div>"
    "<noscript>You need to enable JavaScript to run this app.</noscript>"
    "<script src=/app.js></script>"
)
APP = """
fetch('/api').then(answer => answer.json()).then(told => {
  document.title = told.title;
  document.getElementById('root').innerHTML =
    `<main><p>${told.text}</p><a href="/jay">Jay</a></main>`;
});
"""


@pytest.fixture
def site() -> Iterator[Stage]:
    with stage() as site:
        site.routes["/robots.txt"] = Said("", "text/plain")
        yield site


@pytest.fixture
def canary() -> Iterator[Server]:
    """A server of the private network, which nobody may come to."""
    with serving({}) as server:
        yield server


def render(site: Stage, path: str, **limits: int | float) -> FetchResponse:
    """Renders a page of the site, whose own origin alone may be private."""
    limited = RenderLimits(**{"seconds": 60.0, "settle": 20.0, **limits})  # type: ignore[arg-type]
    with Fetcher(allow_private=True) as fetcher, Fetcher() as others:
        page = fetcher.fetch_response(site.base + path)
        return ChromiumRenderer(others, "rookery/test", limited).render_page(fetcher, page)


ListProcesses = Callable[[], set[int]]


@pytest.fixture
def list_new_processes() -> ListProcesses:
    """Lists the processes below this one that were started since the test began: earlier tests may
    have left some that they share."""
    before = set(page_rendering._list_descendants(os.getpid()))
    return lambda: set(page_rendering._list_descendants(os.getpid())) - before


@needs_chromium
@pytest.mark.browser
def test_a_page_rendered_once_replays_without_chromium(
    site: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.routes["/"] = Said("", status=302, headers=(("Location", "/crows"),))
    site.routes["/crows"] = Said(SHELL)
    site.routes["/app.js"] = Said(APP, "text/javascript")
    told = {"title": "Walnuts", "text": "The crow keeps seven walnuts."}
    site.routes["/api"] = Said(json.dumps(told), "application/json")
    with (
        Fetcher() as others,
        Fetcher(
            allow_private=True,
            render=ChromiumRenderer(
                others, "rookery/test", RenderLimits(seconds=60, settle=20)
            ).render_page,
        ) as fetcher,
        PageArchive(tmp_path / "archive.sqlite") as archive,
    ):
        web = WebLibrary(make_web_search("duckduckgo"), archive, fetcher)
        web.allow_url(f"{site.base}/")
        page = web.fetch(f"{site.base}/")
        assert (page.url, page.title) == (f"{site.base}/crows", "Walnuts")
        assert page.text == "The crow keeps seven walnuts.\n\nJay"
        assert [link.url for link in page.links] == [f"{site.base}/jay"]
        # The document was fetched once, and all came through our own network code.
        assert site.paths() == ["/", "/crows", "/app.js", "/api"]
        agents = {visit.headers["user-agent"] for visit in site.visits}
        assert len(agents) == 1
        assert agents.pop().startswith("rookery/")

        monkeypatch.setattr(page_rendering, "find_chromium", lambda: pytest.fail("rendered again"))
        offline = WebLibrary(make_web_search("duckduckgo"), archive, fetcher, offline=True)
        offline.allow_url(f"{site.base}/")
        assert offline.fetch(f"{site.base}/") == page


@needs_chromium
@pytest.mark.browser
def test_no_request_of_a_script_reaches_the_private_network(site: Stage, canary: Server) -> None:
    attack = f"""
    <body><script>
    const private = '127.0.0.1:{canary.port}';
    const tried = [];
    async function attempt(name, run) {{
      try {{ tried.push(name + ' ' + await run()); }}
      catch (error) {{ tried.push(name + ' refused'); }}
    }}
    async function attack() {{
      fetch('/held');  // so that the network rests only when all was tried
      for (const host of [private, 'localhost:{canary.port}', '[::ffff:127.0.0.1]:{canary.port}',
                          '169.254.169.254'])
        await attempt(host, async () => (await fetch('http://' + host + '/secret')).status);
      await attempt('post', () => fetch('http://' + private, {{method: 'POST', body: 'x'}}));
      await attempt('redirect', async () => (await fetch('/redirect')).status);
      await attempt('worker', () => new Promise((done, failed) => {{
        const code = `fetch('http://${{private}}/worker').then(() => postMessage('reached'),
                                                               () => postMessage('refused'))`;
        const worker = new Worker(URL.createObjectURL(new Blob([code])));
        worker.onmessage = event => done(event.data);
        worker.onerror = failed;
      }}));
      await attempt('socket', () => new Promise((done, failed) => {{
        const socket = new WebSocket('ws://' + private);
        socket.onopen = () => done('reached');
        socket.onclose = socket.onerror = failed;
      }}));
      navigator.sendBeacon('http://' + private + '/beacon', 'x');
      new EventSource('http://' + private + '/events');
      for (const html of ['<img src="http://P/">', '<iframe src="http://P/"></iframe>',
          '<link rel=preconnect href="http://P/">', '<link rel=prefetch href="http://P/">',
          '<link rel=stylesheet href="http://P/">', '<video src="http://P/"></video>'])
        document.body.insertAdjacentHTML('beforeend', html.replace('P', private));
      try {{
        const peer = new RTCPeerConnection({{iceServers: [{{urls: 'turn:' + private
          + '?transport=tcp', username: 'u', credential: 'c'}}]}});
        peer.createDataChannel('x');
        await peer.setLocalDescription(await peer.createOffer());
      }} catch (error) {{}}
      try {{ await navigator.serviceWorker.register('/worker.js'); }} catch (error) {{}}
      window.open('http://' + private + '/window');
      document.body.insertAdjacentHTML('beforeend', '<p>' + tried.join(', ') + '</p>');
      await fetch('/tried');
      location = 'http://' + private + '/gone';
    }}
    attack();
    </script>"""
    site.routes["/"] = Said(attack)
    away = f"http://127.0.0.1:{canary.port}/redirected"
    site.routes["/redirect"] = Said("", status=302, headers=(("Location", away),))
    site.routes["/worker.js"] = Said("fetch('/from-service-worker')", "text/javascript")
    all_tried = threading.Event()

    def end_wait(visit: object) -> Said:
        all_tried.set()
        return Said("")

    def wait_for_all(visit: object) -> Said:
        all_tried.wait(60)
        return Said("")

    site.routes["/tried"], site.routes["/held"] = end_wait, wait_for_all
    got = render(site, "/")
    page = got.data.decode()
    assert page.count(" refused") == 8, page
    assert "reached" not in page
    assert got.url == f"{site.base}/"
    assert "/from-service-worker" not in site.paths()
    assert canary.connections == []


@needs_chromium
@pytest.mark.browser
@pytest.mark.parametrize(
    ("script", "limits", "outcome"),
    [
        ("while (true) {}", {"seconds": 8.0}, "timed_out"),
        ("while (true) alert('x')", {"seconds": 8.0}, "timed_out"),
        ("location = '?' + Math.random()", {"documents": 4}, "too_many_redirects"),
        (
            "const kept = []; while (true) kept.push(new Array(1e6).fill(Math.random()))",
            {},
            "too_large",
        ),
        (
            "document.write('<p>' + 'crow '.repeat(99999))",
            {"bytes": 400_000},
            "too_large",
        ),
    ],
)
def test_what_scripts_do_without_end_is_a_failure_of_that_page(
    script: str,
    limits: dict[str, float],
    outcome: str,
    site: Stage,
    list_new_processes: ListProcesses,
) -> None:
    site.routes["/"] = Said(f"<body>Crows.<script>{script}</script>")
    with pytest.raises(Failed) as caught:
        render(site, "/", **limits)
    assert caught.value.failure.outcome == outcome
    assert list_new_processes() == set()


@needs_chromium
@pytest.mark.browser
def test_windows_questions_downloads_and_endless_requests_keep_no_page_from_being_read(
    site: Stage, list_new_processes: ListProcesses
) -> None:
    site.routes["/"] = Said("""
        <body><p id=told>Crows.</p><script>
        alert('one'); confirm('two'); prompt('three');
        onbeforeunload = event => { event.preventDefault(); return 'stay'; };
        for (let i = 0; i < 5; i++) open('/window' + i);
        setInterval(() => fetch('/again'), 10);
        const link = document.createElement('a');
        link.href = URL.createObjectURL(new Blob(['x'.repeat(9999)])); link.download = 'evil.exe';
        link.click();
        location = '/file.zip';
        document.getElementById('told').textContent = 'Crows bury nuts.';
        </script>""")
    site.routes["/again"] = Said("more", "text/plain")
    site.routes["/file.zip"] = Said(b"PK\3\4" + bytes(99), "application/zip")
    got = render(site, "/", requests=40, settle=0.5)
    assert b"Crows bury nuts." in got.data
    assert got.url == f"{site.base}/"
    assert not any(path.startswith("/window") for path in site.paths())
    assert len(site.paths()) <= 1 + 40
    assert list_new_processes() == set()


@needs_chromium
@pytest.mark.browser
def test_a_page_that_leads_on_has_the_address_that_it_came_from(site: Stage) -> None:
    site.routes["/"] = Said("<script>location = '/old'</script>")
    site.routes["/old"] = Said("", status=301, headers=(("Location", "/new/page"),))
    site.routes["/new/page"] = Said("<p id=p></p><script src=here.js></script>")
    site.routes["/new/here.js"] = Said("p.textContent = location.pathname", "text/javascript")
    got = render(site, "/")
    assert got.url == f"{site.base}/new/page"
    assert b'<p id="p">/new/page</p>' in got.data
    assert b"<script" not in got.data


@needs_chromium
@pytest.mark.browser
def test_a_browser_that_dies_is_a_failure(site: Stage, list_new_processes: ListProcesses) -> None:
    def kill_browser(_: object) -> Said:
        for number in sorted(list_new_processes()):
            with suppress(ProcessLookupError):  # it ended with one before it
                os.kill(number, signal.SIGKILL)
        return Said("")

    site.routes["/"] = Said("<script src=/kill.js></script>")
    site.routes["/kill.js"] = kill_browser
    with pytest.raises(Failed) as caught:
        render(site, "/")
    assert caught.value.failure.outcome == "crashed"


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_without_room_for_a_process_a_page_is_not_rendered(room: int) -> None:
    pytest.importorskip("playwright")
    page = FetchResponse("http://crows.example/", 200, "text/html", b"", "")
    with Fetcher() as fetcher, Fetcher() as others:
        renderer = ChromiumRenderer(others, "rookery/test")
        with room_for_files(room), pytest.raises(Failed) as caught:
            renderer.render_page(fetcher, page)
    failure = caught.value.failure
    assert (failure.what, failure.outcome) == (page.url, "crashed")
    assert "no process can be started to render it (Too many open files)" in failure.detail


def test_a_page_waits_for_others_no_longer_than_it_may() -> None:
    pytest.importorskip("playwright")
    page = FetchResponse("http://crows.example/", 200, "text/html", b"", "")
    with Fetcher() as fetcher, Fetcher() as others:
        limits = RenderLimits(browsers=1, waiting=0.05)
        renderer = ChromiumRenderer(others, "rookery/test", limits)
        with renderer._slots, pytest.raises(Failed) as caught:
            renderer.render_page(fetcher, page)
        assert (caught.value.failure.what, caught.value.failure.outcome) == (page.url, "timed_out")
        assert "other pages" in caught.value.failure.detail
        with room_for_files(0), pytest.raises(Failed, match="crashed"):  # its turn has come
            renderer.render_page(fetcher, page)
        assert renderer._slots.acquire(blocking=False), "it gave its place back"
        renderer._slots.release()


@pytest.mark.slow
def test_a_missing_browser_is_said(site: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright")
    monkeypatch.setattr(page_rendering, "find_chromium", lambda: "/nowhere/chromium")
    site.routes["/"] = Said(SHELL)
    with pytest.raises(Failed, match="install it") as caught:
        render(site, "/")
    assert caught.value.failure.outcome == "no_renderer"


def test_a_missing_package_is_said(site: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_rendering, "find_spec", lambda _: None)
    site.routes["/"] = Said(SHELL)
    with pytest.raises(Failed, match=r"pip install 'rookery\[render\]'"):
        render(site, "/")
