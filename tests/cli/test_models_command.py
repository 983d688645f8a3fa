"""`rookery ask` by a model: three methods over a real server, and one that misbehaves."""

import itertools
import json
import threading
from pathlib import Path

import pytest
from commands import CORVIDS, GIFTS, Run
from models import Answer, Asking, chat, refused, reply, serving, write_choices
from obedient import Kind, Obedient, tokenizer
from stage import Stage

WORDS = "because they have learned that a particular person feeds them"
QUOTE = f"Crows most likely bring gifts to people {WORDS}"
TITLE = "Why crows bring gifts | Tidings"


def says(*texts: str) -> list[bytes]:
    return [write_choices(chat(text)) for text in texts]


def ask_model(run: Run, method: str, base_url: str, *more: str) -> tuple[int, dict[str, object]]:
    """The exit code and the object that --json prints."""
    by_model = ("--method", method, "--model", "tiny", "--base-url", base_url)
    result = run("ask", GIFTS, *CORVIDS, "--json", *by_model, *more)
    return result.code, json.loads(result.out)


METHODS = {
    "webglm": ["crow gifts", f"They do it {WORDS} [1][2]."],
    "gophercite": [f"%<They know who feeds them.>%({TITLE})%[{QUOTE}]%"],
    "webgpt": [
        "Search why crows bring gifts",
        f"I open it.\n\nClicked on link 0\n\n({TITLE})",
        f"Quote: {QUOTE}",
        "End: Answer",
        "They know who feeds them [1].",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_each_method_answers_with_verified_quotes(run: Run, method: str) -> None:
    with serving(*says(*METHODS[method])) as server:
        code, found = ask_model(run, method, server.base_url)
    assert (code, found["stop"], found["method"]) == (0, "end", method)
    assert found["counts"]["verified"] == found["counts"]["quotes"] >= 1  # type: ignore[index]
    assert any(WORDS in quote["text"] for quote in found["answer"]["quotes"])  # type: ignore[index]
    assert all(GIFTS in prompt for prompt in server.prompts())


@pytest.mark.slow
def test_n_answers_are_written_to_choose_among(run: Run) -> None:
    with serving(*says("They bring them.", f"They do it {WORDS} [1].")) as server:
        assert ask_model(run, "webglm", server.base_url, "-n", "2")[0] == 0
    assert sum(int(asking.fields.get("n") or 1) for asking in server.asked) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_passages_show_what_a_model_was_given(run: Run, method: str) -> None:
    with serving(*says(*METHODS[method])) as server:
        code, found = ask_model(run, method, server.base_url, "--passages")
    report, answer = found["passages"], found["answer"]
    assert code == 0
    query = "why crows bring gifts" if method == "webgpt" else GIFTS
    queries = [query, "crow gifts"] if method == "webglm" else [query]
    searches = [search["query"] for search in report["searches"]]  # type: ignore[index]
    # gophercite has the model write searches, too, and it says what it always says
    assert searches[: len(queries)] == queries
    assert len(searches) == len(queries) + (method == "gophercite")
    cited = {number for each in report["found"] for number in each["quotes"]}  # type: ignore[index]
    assert cited == set(range(1, len(answer["quotes"]) + 1))  # type: ignore[index]
    assert "model's best sample" in report["reason"]  # type: ignore[index]


@pytest.mark.slow
def test_a_model_gives_no_more_quotes_than_are_asked_for(run: Run) -> None:
    with serving(*says("crow gifts", f"They do it {WORDS} [1][2][3].")) as server:
        code, found = ask_model(run, "webglm", server.base_url, "-q", "1")
        shown = server.prompts()[1]
        assert ("Reference [1]" in shown, "Reference [2]" in shown) == (True, False)
    assert (code, len(found["answer"]["quotes"])) == (0, 1)  # type: ignore[index]
    several = "%<They know who feeds them.>%(" + TITLE + ")%[" + QUOTE + "]%"
    two = f"{several} %<A gift needs a giver.>%({TITLE})%[A gift needs a giver]%"
    with serving(*says(two)) as server:
        assert ask_model(run, "gophercite", server.base_url, "-q", "2")[0] == 0
        assert ask_model(run, "gophercite", server.base_url, "-q", "1")[0] == 6
    with serving(*says(*METHODS["webgpt"][:3], "They know who feeds them [1].")) as server:
        code, found = ask_model(run, "webgpt", server.base_url, "-q", "1")  # no End is needed
    assert (code, len(found["answer"]["quotes"])) == (0, 1)  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", ["I like trains.", "[1][2][3]", "%<a>%(b)%[c]%", "Top"])
def test_nonsense_gives_no_answer_and_a_reason(run: Run, method: str, text: str) -> None:
    by_model = ("--method", method, "--model", "tiny")
    with serving(*says(text)) as server:
        result = run("ask", GIFTS, *CORVIDS, *by_model, "--base-url", server.base_url)
    assert "Traceback" not in result.err
    if method == "webglm" and any(letter.isalpha() for letter in text):
        assert result.code == 0
        assert "Unchecked: the model cites nothing" in result.out
    else:
        assert result.code == 6
        assert result.out.strip() == ""
        assert "no answer" in result.err


@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_refuses_the_key_is_told(run: Run, method: str) -> None:
    with serving(refused("401 Unauthorized", "bad key")) as server:
        code, found = ask_model(run, method, server.base_url)
    assert (code, found["stop"], found["answer"]) == (6, "policy_failed", None)
    assert found["counts"]["model_refused_key"] == 1  # type: ignore[index]


def test_a_batch_by_a_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "text": GIFTS}) + "\n")
    files = ("--batch", tmp_path / "q.jsonl", "--out", tmp_path / "a.jsonl")
    with serving(*says(*METHODS["webglm"])) as server:
        by_model = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        result = run("ask", *files, *CORVIDS, *by_model)
    assert (result.code, json.loads((tmp_path / "a.jsonl").read_text())["stop"]) == (0, "end")


@pytest.mark.parametrize("method", METHODS)
def test_an_answer_is_repeated_offline_without_the_server(run: Run, method: str) -> None:
    with serving(*says(*METHODS[method])) as server:
        live = ask_model(run, method, server.base_url)
        asking = len(server.asked)
        again = ask_model(run, method, server.base_url, "--offline")
        assert len(server.asked) == asking
    assert again == live == ask_model(run, method, server.base_url, "--offline")


def test_a_failed_attempt_leaves_what_was_kept_before(run: Run) -> None:
    with serving(*says(*METHODS["webglm"]), refused("401 Unauthorized", "bad key")) as server:
        live = ask_model(run, "webglm", server.base_url)
        assert ask_model(run, "webglm", server.base_url)[0] == 6
        assert ask_model(run, "webglm", server.base_url, "--offline") == live


def test_what_was_never_asked_cannot_be_repeated(run: Run) -> None:
    with serving(*says("Nothing.")) as server:
        code, found = ask_model(run, "webglm", server.base_url, "--offline", "-n", "3")
    assert (code, found["stop"], found["counts"]["not_recorded"]) == (4, "no_evidence", 1)  # type: ignore[index]
    assert server.asked == []


def test_each_role_has_its_endpoint(run: Run, tmp_path: Path) -> None:
    *commands, answer = METHODS["webgpt"]
    with serving(*says(*commands)) as browsing, serving(*says(answer)) as writing:
        (tmp_path / "roles.toml").write_text(
            f'[browse]\nmodel = "small"\nbase_url = "{browsing.base_url}"\n'
            f'[default]\nmodel = "large"\nbase_url = "{writing.base_url}"\n'
        )
        roles = ("--endpoints", tmp_path / "roles.toml")
        live = run("ask", GIFTS, *CORVIDS, "--json", "--method", "webgpt", *roles)
        again = run("ask", GIFTS, *CORVIDS, "--json", "--method", "webgpt", *roles, "--offline")
    assert [len(server.asked) for server in (browsing, writing)] == [len(commands), 1]
    assert {asking.fields["model"] for asking in browsing.asked} == {"small"}
    assert (live.code, again) == (0, live)


def test_a_cap_ends_what_would_cost_more(run: Run) -> None:
    with serving(*says(*METHODS["webglm"])) as server:
        code, found = ask_model(run, "webglm", server.base_url, "--cap-tokens", "500")
    assert (code, found["stop"], found["counts"]["spending_cap"]) == (6, "policy_failed", 1)  # type: ignore[index]
    assert server.asked == []


@pytest.mark.parametrize("method", METHODS)
def test_a_script_is_a_model(run: Run, tmp_path: Path, method: str) -> None:
    lines = METHODS[method] * (8 if method == "gophercite" else 1)
    lines = lines[-1:] if method == "webglm" else lines  # only a chat model writes searches
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, lines)))
    trace = tmp_path / "trace.jsonl"
    by_script = ("--json", "--method", method, "--trace", trace, "--model")
    first = run("ask", GIFTS, *CORVIDS, *by_script, f"script:{tmp_path / 'said.jsonl'}")
    assert first.code == 0
    if method != "gophercite":  # of which a trace has one sample
        again = run("ask", GIFTS, *CORVIDS, *by_script, f"script:{trace}")
        said, before = json.loads(again.out), json.loads(first.out)
        for answered in (said, before):
            assert answered.pop("made_with")["settings"]["models"]["model"].startswith("script:/")
        assert (again.code, said) == (0, before)


@pytest.mark.parametrize(
    ("lines", "said"),
    [("", "no lines left"), ("{}", "line 1 is neither"), ("no json", "line 1 is neither")],
)
def test_a_script_that_says_nothing(run: Run, tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "said.jsonl").write_text(lines)
    by_script = ("--method", "webglm", "--model", f"script:{tmp_path / 'said.jsonl'}")
    result = run("ask", GIFTS, *CORVIDS, *by_script)
    assert (result.code, result.out) == (2 if lines else 6, "")
    assert said in result.err
    assert run("ask", GIFTS, *CORVIDS, *by_script[:3], f"script:{tmp_path}").code == 2


def test_a_batch_asks_for_many_answers_at_once(run: Run, tmp_path: Path) -> None:
    both, requests = threading.Barrier(2, timeout=120), itertools.count()

    def together(asking: Asking) -> bytes:
        if (
            next(requests) < 2
        ):  # of two questions: each asks for its answer when it has its searches
            both.wait()
        return write_choices(chat(METHODS["webglm"][0]))

    lines = [json.dumps({"id": str(number), "text": GIFTS}) for number in range(4)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    files = ("--batch", tmp_path / "q.jsonl", "--out", tmp_path / "a.jsonl")
    with serving(together) as server:
        by_model = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        assert run("ask", *files, *CORVIDS, *by_model).code == 0
    found = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(line["question"]["id"], line["stop"]) for line in found] == [
        (str(n), "end") for n in range(4)
    ]


@pytest.mark.slow
def test_the_doctor_asks_the_model(run: Run, web: Stage, tmp_path: Path) -> None:
    engine = ("--engine", f"searxng:{web.base}", "--allow-private")
    with serving(*says("ready", "ready", "It is sunny.")) as server:
        by_model = ("--model", "tiny", "--base-url", server.base_url)
        assert "tiny answers without log-probabilities" in run("doctor", *engine, *by_model).out
        (tmp_path / "e.toml").write_text(
            f'[write]\nmodel = "tiny"\nbase_url = "{server.base_url}"\ngrammars = "vllm"\n'
        )
        ignoring = run("doctor", *engine, "--endpoints", tmp_path / "e.toml")
    assert "takes grammars and does not keep to them" in ignoring.out
    with serving(refused("401 Unauthorized", "bad key")) as server:
        result = run("doctor", *engine, "--model", "tiny", "--base-url", server.base_url)
    assert (result.code, "model_refused_key" in result.out) == (4, True)


@pytest.mark.slow
def test_both_sides_are_shown_apart_and_need_a_model(run: Run, tmp_path: Path) -> None:
    asking = ("ask", "Can crows recognise human faces?", *CORVIDS, "--both-sides")
    for ranker in ((), ("--ranker", "words")):
        alone = run(*asking, *ranker)
        assert (alone.code, "use --model, or --ranker DIR" in alone.err) == (2, True)
    sides = "\n".join(f"{number}: against" for number in range(1, 17))
    with serving(*says("crows can recognise human faces", sides)) as server:
        by_model = ("--model", "tiny", "--base-url", server.base_url)
        judged = run(*asking, *by_model)
        again = run(*asking, *by_model, "--offline")
    assert (judged.code, again.out) == (0, judged.out)
    assert "Nothing for it was found" in judged.out
    with serving(*says("", "for")) as server:
        by_model = ("--model", "tiny", "--base-url", server.base_url)
        assert run("ask", "Who are you?", *CORVIDS, "--both-sides", *by_model).code == 6
    assert run(*asking, "--method", "webglm").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vllm", "deaf"])
def test_a_server_that_keeps_to_grammars_quotes_word_for_word(
    run: Run, tmp_path: Path, kind: Kind
) -> None:
    server_of = "vllm" if kind == "deaf" else kind
    with serving(Obedient(kind, tokenizer())) as server:
        (tmp_path / "e.toml").write_text(
            f'[write]\nmodel = "tiny"\nbase_url = "{server.base_url}"\ngrammars = "{server_of}"\n'
        )
        # Of words by chance few are long enough to mean anything.
        many = ("-n", "200")
        by_model = ("--json", "--method", "gophercite", "--endpoints", tmp_path / "e.toml", *many)
        live = run("ask", GIFTS, *CORVIDS, *by_model)
        again = run("ask", GIFTS, *CORVIDS, *by_model, "--offline")
    found = json.loads(live.out)
    if kind == "deaf":
        assert (live.code, found["counts"]["grammar_ignored"]) == (6, 1)
    else:
        assert (live.code, found["counts"]["verified"], found["counts"]["quotes"]) == (0, 1, 1)
    assert again.out == live.out


def dropped(asking: Asking) -> None:
    """Ends the connection in the middle of an answer."""
    asking.send(write_choices(chat("They bring"))[:-9])


ENDLESS = write_choices(chat("They bring them. " * 1_100_000))
BRIEFLY: dict[str, Answer] = {
    "busy": refused("429 Too Many Requests", "slow down"),
    "broken": refused("500 Internal Server Error", "oops"),
    "dropped": dropped,
}
FOR_GOOD = {
    "half JSON": reply(b'{"choices": [{"message": {"content": "They'),
    "a web page": reply(b"<h1>Welcome</h1>", kind="text/html"),
    "other JSON": reply(b'{"answer": 42}'),
    "endless": ENDLESS,
    "no such model": refused("404 Not Found", "no such model"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("trouble", BRIEFLY)
def test_what_passes_is_tried_again(run: Run, method: str, trouble: str) -> None:
    with serving(BRIEFLY[trouble], *says(*METHODS[method])) as server:
        code, found = ask_model(run, method, server.base_url)
        assert len(server.asked) > 1
    assert (code, found["counts"]["verified"]) == (0, found["counts"]["quotes"])  # type: ignore[index]


@pytest.mark.parametrize("trouble", FOR_GOOD)
def test_what_does_not_pass_is_a_sentence(run: Run, trouble: str) -> None:
    by_model = ("--method", "webglm", "--model", "tiny", "--base-url")
    with serving(FOR_GOOD[trouble]) as server:
        result = run("ask", GIFTS, *CORVIDS, *by_model, server.base_url)
    assert (result.code, result.out.strip()) == (6, "")
    assert "no answer: the model could not be asked" in result.err
    assert "Traceback" not in result.err


CITED = says("crow gifts", f"They do it {WORDS} [1]. They love the moon [1].")


@pytest.mark.slow
def test_a_model_on_a_server_answers_by_webglm_where_no_method_is_named(run: Run) -> None:
    with serving(*CITED) as server:
        by_model = ("--model", "tiny", "--base-url", server.base_url)
        result = run("ask", GIFTS, *CORVIDS, *by_model)
        assert len(server.asked) == 2
        assert all(asking.fields["messages"][0]["role"] == "system" for asking in server.asked)
        other = run("ask", GIFTS, *CORVIDS, *by_model, "--method", "extract")
    assert result.code == 0
    assert "[1?]" in result.out
    assert "method webglm" in result.err
    assert "2 calls, " in result.err
    assert "sent to" not in result.err
    assert (other.code, len(server.asked)) == (2, 2)


@pytest.mark.slow
def test_before_own_documents_leave_it_is_said_where_to(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("# Rooks\n\nRooks nest in tall elms.")
    away = ("--model", "tiny", "--base-url", "http://models.invalid/v1", "--cap-tokens", "1")
    said = "passages of your documents are sent to tiny at http://models.invalid/v1"
    own = run("ask", "Where do rooks nest?", "--in", tmp_path / "own.md", *away, "--json")
    assert said in own.err
    assert said not in own.out
    assert said not in run("ask", GIFTS, *CORVIDS, *away).err


def call_tool(asking: Asking) -> bytes:
    """A server that has tools, and no forms of replies."""
    if "tools" in asking.fields:
        call = {"id": "c", "type": "function", "function": {"name": "note", "arguments": "{}"}}
        return write_choices(chat(None, "tool_calls", tool_calls=[call]))
    if "response_format" in asking.fields:
        return refused("400 Bad Request", "response_format is not known here")
    return write_choices(chat("They build them in March [1]."))


@pytest.mark.slow
def test_the_doctor_has_a_chat_model_answer_and_tells_what_its_server_obeys(run: Run) -> None:
    with serving(call_tool) as server:
        out = run("doctor", "--model", "tiny", "--base-url", server.base_url).out
    assert "cites the right one: “They build them in March [1].”" in out
    assert "native tools obeyed, structured output refused" in out
    with serving(*says("They build them in spring.")) as server:
        out = run("doctor", "--model", "tiny", "--base-url", server.base_url).out
    assert "no sentence of it cites anything: “They build them in spring.”" in out
    assert "native tools ignored, structured output ignored" in out
