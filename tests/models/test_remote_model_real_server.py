"""Rookery against a model server that nobody here wrote: what it says is checked all the same."""

import fcntl
import html
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import CORVIDS, GIFTS, Result, started, surroundings
from models import chat, serving, write_choices
from ports import find_free_port
from server import PATIENCE, Server, running

from rookery.__main__ import main
from rookery.errors import Failed
from rookery.library.libraries import get_bundled_folder
from rookery.models.openai_protocol import GrammarServer, ModelEndpoint, SpendingBudget
from rookery.models.remote_model import RemoteLimits, RemoteModel, probe_grammar
from rookery.records import Completion, Episode, Failure

pytestmark = pytest.mark.xdist_group("model_server")  # its models are made once
WORDS = "because they have learned that a particular person feeds them"
QUOTE = f"Crows most likely bring gifts to people {WORDS}"
TITLE = "Why crows bring gifts | Tidings"
TRUE = {
    "webglm": [f"They do it {WORDS} [1][2]."],
    "gophercite": [f"%<They know who feeds them.>%({TITLE})%[{QUOTE}]%"],
    "webgpt": [
        "Search why crows bring gifts",
        "Clicked on link 0",
        f"Quote: {QUOTE}",
        "End: Answer",
        "They know who feeds them [1].",
    ],
}
LIE = "Crows bring gifts to people because the moon is full"
FALSE = {
    "webglm": ["The moon is full and the tide is high [1][2]."],
    "gophercite": [f"%<They see the moon.>%({TITLE})%[{LIE}]%"],
    "webgpt": [*TRUE["webgpt"][:2], f"Quote: {LIE}", "End: Answer", "They see the moon [1]."],
}


class Served(NamedTuple):
    """A running server with three models: `taught`, `liar` and `noise`, which never ends."""

    base_url: str
    server: Server
    folder: Path
    lessons: Mapping[str, str]
    """what `taught` says to each prompt that GIFTS leads to"""


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def served(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    for needed in () if "CI" in os.environ else ("torch", "transformers", "uvicorn", "openai"):
        pytest.importorskip(needed, reason=f"{needed} is missing: pip install '.[dev]'")
    place = tmp_path_factory.getbasetemp()
    folder = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "models"
    folder.mkdir(exist_ok=True)
    with running(folder) as server:
        said_to = written(folder, home)
        yield Served(server.base_url(), server, folder, said_to)


def written(folder: Path, home: Path) -> dict[str, str]:
    """Makes the models, or waits until another process has; gives what `taught` is to say."""
    cache = folder / "lessons.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cache.exists():
            from lessons import write_models

            prompts = {method: prompted(home, method) for method in TRUE}
            true, false = turn_by_turn(prompts, TRUE), turn_by_turn(prompts, FALSE)
            texts = [
                page.read_text("utf-8", "replace") for page in get_bundled_folder().rglob("*.html")
            ]
            write_models(folder, sorted(texts), {"taught": true, "liar": false})
            cache.write_text(json.dumps(true))
    lessons: dict[str, str] = json.loads(cache.read_text())
    return lessons


def prompted(home: Path, method: str) -> list[str]:
    """What a model is asked by this method when it says what is true."""
    with serving(*(write_choices(chat(text)) for text in TRUE[method])) as server:
        assert ask_model(home, method, by("noted", server.base_url)).code == 0
    return list(dict.fromkeys(server.prompts()))


def turn_by_turn(
    prompts: Mapping[str, Sequence[str]], says: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """What is to be said to each prompt: the words of its turn, or the last for all others."""
    return {
        prompt: says[method][min(turn, len(says[method]) - 1)]
        for method, turns in prompts.items()
        for turn, prompt in enumerate(turns)
    }


def ran(home: Path, *arguments: str | Path) -> Result:
    """`rookery ARGUMENTS` in this process, where an error that it does not word is one here."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        for name, value in {**surroundings(home), "COLUMNS": "80"}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["rookery", *map(str, arguments)])
        patch.setattr(signal, "signal", lambda number, handler: None)
        with pytest.raises(SystemExit) as ended:
            main()
    return Result(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def ask_model(home: Path, method: str, model: Sequence[str | Path], *more: str | Path) -> Result:
    return ran(home, "ask", GIFTS, *CORVIDS, "--method", method, *model, *more)


def by(model: str, base_url: str) -> tuple[str, ...]:
    return ("--model", model, "--base-url", base_url)


def by_noise(place: Path, base_url: str) -> tuple[str | Path, ...]:
    """The model that never ends, and is not let speak for long."""
    table = {"model": "noise", "base_url": base_url, "max_tokens": 8}
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items()]
    (place / "endpoints.toml").write_text("\n".join(["[default]", *lines]))
    return ("--endpoints", place / "endpoints.toml")


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def stands_in_source(quote: Mapping[str, Any]) -> bool:
    """Whether the words are in the file of the page, tags left out. Knows nothing of ours."""
    source = (get_bundled_folder() / quote["url"].rpartition("/")[2]).read_text("utf-8", "replace")
    return letters(quote["text"]) in letters(html.unescape(re.sub("<[^>]*>", "", source)))


# The model itself


def read_stream(model: RemoteModel, prompt: str) -> tuple[list[str], Completion]:
    """The pieces of a stream, and the whole."""
    whole: list[Completion] = []

    def listen() -> Iterator[str]:
        whole.append((yield from model.stream(prompt)))

    return list(listen()), whole[0]


def failure(model: RemoteModel) -> Failure:
    """Why it could not be completed."""
    with pytest.raises(Failed) as failed:
        model.complete(GIFTS)
    return failed.value.failure


@pytest.mark.slow
def test_a_chat_is_answered_whole_and_in_pieces(served: Served) -> None:
    with RemoteModel(ModelEndpoint("taught", served.base_url)) as model:
        for words, prompt in {words: prompt for prompt, words in served.lessons.items()}.items():
            assert model.complete(prompt) == [Completion(words)]
            pieces, whole = read_stream(model, prompt)
            assert whole == Completion("".join(pieces)) == Completion(words)
            assert len(pieces) > 2


def test_a_prompt_without_a_chat_is_continued_as_it_is(served: Served) -> None:
    prompt, words = next(iter(served.lessons.items()))
    begun, space, rest = words.partition(" ")  # a token holds the space before its word
    rest = space + rest
    with RemoteModel(ModelEndpoint("taught", served.base_url, chat=False)) as model:
        so_far = f"user:\n{prompt}<|end|>\nassistant:\n{begun}"
        assert model.complete(so_far) == [Completion(rest)]
        assert read_stream(model, so_far)[1] == Completion(rest)


@pytest.mark.slow
def test_many_who_ask_at_once_are_each_given_their_own_answer(served: Served) -> None:
    prompts = list(served.lessons) * 2
    with (
        RemoteModel(ModelEndpoint("taught", served.base_url)) as model,
        ThreadPoolExecutor(12) as threads,
    ):
        answers = list(threads.map(model.complete, prompts))
    assert [answer[0].text for answer in answers] == [served.lessons[each] for each in prompts]


@pytest.mark.parametrize("chat", [True, False])
def test_no_more_tokens_come_than_were_allowed_and_the_server_s_count_is_kept(
    served: Served, chat: bool
) -> None:
    spending = SpendingBudget()
    endpoint = ModelEndpoint("noise", served.base_url, chat=chat, max_tokens=7)
    with RemoteModel(endpoint, spending=spending) as model:
        said = [model.complete(GIFTS)[0], read_stream(model, GIFTS)[1]]
    assert [each.stop for each in said] == ["length", "length"]
    assert (spending.spent.requests, spending.spent.said) == (2, 14)
    assert spending.spent.prompt < 2 * len(GIFTS)  # and no guess, which would be more


def test_a_server_that_gives_one_answer_at_a_time_is_asked_for_the_others(served: Served) -> None:
    """Its seed is that of the whole process: only who asks alone is given the same again."""
    alone, spending = RemoteLimits(at_once=1), SpendingBudget()
    endpoint = ModelEndpoint("noise", served.base_url, max_tokens=24)
    with RemoteModel(endpoint, limits=alone, spending=spending) as model:
        three = model.complete(GIFTS, 3, seed=5)
        assert spending.spent.requests == 3
        assert three == [model.complete(GIFTS, seed=seed)[0] for seed in (5, 6, 7)]
        assert len({each.text for each in three}) == 3
    with RemoteModel(endpoint) as model:
        assert len(model.complete(GIFTS, 8)) == 8


def test_temperature_0_leaves_nothing_to_chance(served: Served) -> None:
    endpoint = ModelEndpoint("noise", served.base_url, max_tokens=24, temperature=0.0)
    with RemoteModel(endpoint) as model:
        first, *others = model.complete(GIFTS, 3)
        assert others == [first, first]


def test_log_probabilities_that_a_server_keeps_to_itself_are_missing(served: Served) -> None:
    prompt, words = next(iter(served.lessons.items()))
    with RemoteModel(ModelEndpoint("taught", served.base_url, logprobs=True)) as model:
        assert model.complete(prompt) == [Completion(words, (), ())]


@pytest.mark.parametrize("grammars", ["vllm", "sglang", "llama.cpp"])
def test_a_server_that_takes_no_grammar_is_known_to_refuse_it(
    served: Served, grammars: GrammarServer
) -> None:
    with RemoteModel(ModelEndpoint("taught", served.base_url, grammars=grammars)) as model:
        assert probe_grammar(model) == "refused"


def test_a_field_that_the_server_does_not_know_is_named(served: Served) -> None:
    with RemoteModel(ModelEndpoint("taught", served.base_url, extra={"top_k": 5})) as model:
        refused = failure(model)
    assert refused.outcome == "model_refused"
    assert "change the setting that it names; it says: HTTP 422: " in refused.detail
    assert "top_k" in refused.detail


def test_a_model_that_the_server_cannot_load_is_a_sentence(served: Served) -> None:
    before = served.server.logged().count("POST")
    with RemoteModel(
        ModelEndpoint("nobody", served.base_url), limits=RemoteLimits(tries=2, wait=0.5)
    ) as model:
        failed = failure(model)
    assert (failed.what, failed.outcome) == (f"nobody at {served.base_url}", "model_failed")
    assert "look into its log" in failed.detail
    assert served.server.logged().count("POST") == before + 2


# A server that comes and goes


@pytest.mark.slow
def test_a_server_is_waited_for_while_it_starts_and_told_when_it_is_killed(
    served: Served, home: Path, tmp_path: Path
) -> None:
    port = find_free_port()
    base_url = f"http://127.0.0.1:{port}/v1"
    patient = RemoteLimits(tries=10_000, wait=0.1, longest_wait=0.2, deadline=PATIENCE)
    traces = [tmp_path / "said.jsonl", tmp_path / "said again.jsonl"]
    with (
        running(served.folder, "noise", port=port) as server,
        RemoteModel(ModelEndpoint("noise", base_url, max_tokens=6000)) as noise,
        RemoteModel(ModelEndpoint("taught", base_url), limits=patient) as taught,
    ):
        refused = failure(taught)
        assert refused.outcome == "model_refused"
        assert "Server is pinned to 'noise'; requested 'taught'" in refused.detail
        by_it = by_noise(tmp_path, base_url)
        first = ask_model(home, "webglm", by_it, "--trace", traces[0])
        stream = noise.stream(GIFTS)
        assert len([next(stream) for _ in range(3)]) == 3
        server.kill()
        with pytest.raises(Failed, match=r"model_broke_off.*look into the server's log"):
            list(stream)
    again = ask_model(home, "webglm", by_it, "--offline", "--trace", traces[1])
    # What it has spent stands in the last line alone.
    assert (again.code, again.out) == (first.code, first.out)
    assert traces[1].read_bytes() == traces[0].read_bytes()
    with RemoteModel(ModelEndpoint("noise", base_url), limits=RemoteLimits(tries=1)) as noise:
        assert failure(noise).outcome == "model_unreachable"


# The command line


@pytest.mark.slow
@pytest.mark.parametrize("method", TRUE)
def test_each_method_answers_with_quotes_that_stand_in_their_pages(
    served: Served, home: Path, method: str
) -> None:
    result = ask_model(home, method, by("taught", served.base_url), "--json")
    found = json.loads(result.out)
    assert (result.code, found["stop"], found["method"]) == (0, "end", method)
    quotes = found["answer"]["quotes"]
    assert found["counts"]["verified"] == found["counts"]["quotes"] == len(quotes) >= 1
    assert all(map(stands_in_source, quotes))
    assert any(WORDS in quote["text"] for quote in quotes)


def require_no_answer(method: str, code: int, out: str, err: str, episode: Episode) -> None:
    """What webglm's model says is shown, unchecked or in doubt; the others show none of it."""
    answer = episode.answer
    if method == "webglm" and code == 0:
        assert answer is not None
        doubtful = [claim.doubtful == claim.quotes for claim in answer.claims]
        assert answer.citations == "unchecked" or all(doubtful)
    elif code == 3:
        assert answer is not None
        assert answer.declined
    else:
        assert (code, out.strip(), answer) == (6, "", None)
        assert "no answer: " in err


@pytest.mark.slow
@pytest.mark.parametrize("method", FALSE)
def test_what_a_fluent_model_makes_up_is_no_answer(
    served: Served, home: Path, tmp_path: Path, method: str
) -> None:
    trace = tmp_path / "trace.jsonl"
    code, out, err = ask_model(home, method, by("liar", served.base_url), "--trace", trace)
    episode = Episode.from_json(trace.read_text("utf-8"))
    assert any("moon" in step.said.text for step in episode.steps)
    require_no_answer(method, code, out, err, episode)


@pytest.mark.parametrize("method", TRUE)
def test_noise_is_no_answer_and_never_a_fault(
    served: Served, home: Path, tmp_path: Path, method: str
) -> None:
    trace, model = tmp_path / "trace.jsonl", by_noise(tmp_path, served.base_url)
    code, out, err = ask_model(home, method, model, "-n", "4", "--trace", trace)
    episode = Episode.from_json(trace.read_text("utf-8"))
    require_no_answer(method, code, out, err, episode)


@pytest.mark.slow
def test_a_batch_is_answered_and_its_quotes_are_checked_when_the_model_is_out_of_reach(
    served: Served, home: Path, tmp_path: Path
) -> None:
    questions, out = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    texts = (GIFTS, "How many seeds does a nutcracker hide each autumn?", GIFTS)
    lines = [json.dumps({"id": str(at), "text": text}) for at, text in enumerate(texts)]
    questions.write_text("\n".join(lines))
    batch = ("ask", "--batch", questions, "--out", out, *CORVIDS, "--method", "webglm")
    result = ran(home, *batch, *by("taught", served.base_url))
    answers = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert (result.code, len(answers)) == (0, 3)
    assert answers[0]["stop"] == answers[2]["stop"] == "end"
    assert answers[0]["answer"] == answers[2]["answer"]
    for answer in answers:
        assert all(map(stands_in_source, (answer["answer"] or {"quotes": []})["quotes"]))
    assert ran(home, "cite", "verify", out).code == 0


@pytest.mark.slow
def test_ctrl_c_while_a_model_speaks_is_a_sentence(served: Served, home: Path) -> None:
    before = served.server.count_requests()
    noise = ("--method", "webgpt", *by("noise", served.base_url))
    with started(home, "ask", GIFTS, *CORVIDS, *noise) as command:
        while served.server.count_requests() == before:
            assert command.poll() is None, command.communicate()
            time.sleep(0.02)
        os.killpg(command.pid, signal.SIGINT)
        out, err = command.communicate(timeout=120)
    assert (command.returncode, out) == (130, b"")
    assert err.startswith(b"rookery: stopped; ")
    assert err.count(b"\n") == 1


def test_a_stop_string_that_the_server_leaves_in_its_answer_is_cut(served: Served) -> None:
    prompt, words = next(iter(served.lessons.items()))
    for stop in (" particular", "particular person", "ticular"):
        with RemoteModel(ModelEndpoint("taught", served.base_url, stop=(stop,))) as model:
            cut = Completion(words.partition(stop)[0])
            assert model.complete(prompt) == [cut]
            assert read_stream(model, prompt)[1] == cut
