"""Forged answers are refused and honest ones verified, one by one, by the command and over MCP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands import CORVIDS, GIFTS, Run
from stage import Said, Stage

from rookery.answers.answer_session import EvidenceSources
from rookery.evidence.evidence_model import BUNDLED_MODEL
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import bundled_questions, read_questions
from rookery.records import Page
from rookery.server.mcp.tools import ArchivedSources, describe_verdict
from rookery.settings import ARCHIVE, Settings, get_data_folder
from rookery.shell.answer_verification import (
    CheckedSources,
    DocumentLookup,
    check_saved_answers,
)

FACES_PAGE = (get_bundled_folder() / "faces.html").resolve().as_uri()
GIFTS_PAGE = (get_bundled_folder() / "gifts-from-crows.html").resolve().as_uri()
SIDES = ("--both-sides", "--ranker", str(BUNDLED_MODEL))
BECAUSE = "Crows most likely bring gifts to people because they have learned"
REST = "objects left at the feeding place are followed by more food"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def replies_by_question(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What was asked in this module, by its arguments: each answer is made once."""
    return {}


@pytest.fixture
def ask(run: Run, replies_by_question: dict[str, str]) -> Callable[..., str]:
    """The JSON line of `rookery ask QUESTION OPTIONS` over the bundled pages."""

    def asks(question: str = GIFTS, *options: str) -> str:
        key = repr((question, options))
        if key not in replies_by_question:
            reply = run("ask", question, *CORVIDS, "--json", *options)
            replies_by_question[key] = reply.out
        return replies_by_question[key]

    return asks


def whole_text(answer: Json, text: str) -> None:
    """Another text, held by the claims as before where they still can be."""
    answer["text"] = text
    for claim in answer["claims"]:
        claim["end"] = min(claim["end"], len(text))
        claim["start"] = min(claim["start"], claim["end"])


def cut_quote(answer: Json, start: int, end: int, also_text: bool) -> None:
    """The first quote cut to its [start:end], offsets too; the text as well, if wanted."""
    quote = answer["quotes"][0]
    quote |= {
        "start": quote["start"] + start,
        "end": quote["start"] + end,
        "text": quote["text"][start:end],
    }
    if also_text:
        answer["text"], answer["quotes"] = quote["text"], [quote]
        answer["claims"] = [{"start": 0, "end": len(quote["text"]), "quotes": [0]}]


def swap(answer: Json, field: str) -> None:
    first, last = answer["quotes"][0], answer["quotes"][-1]
    first[field], last[field] = last[field], first[field]


def alter(answer: Json, **fields: object) -> None:
    answer["quotes"][0] |= fields


def point(answer: Json, **fields: object) -> None:
    answer["claims"][0] |= fields


def say(answer: Json, old: str, new: str) -> None:
    assert old in answer["text"]
    whole_text(answer, answer["text"].replace(old, new, 1))


def say_and_quote(answer: Json, old: str, new: str) -> None:
    say(answer, old, new)
    answer["quotes"][0]["text"] = answer["quotes"][0]["text"].replace(old, new, 1)


FORGED_SAVED: dict[str, tuple[Callable[[Json], object], str]] = {
    "the opposite": (lambda a: say(a, "most likely bring", "have never brought"), "claim_differs"),
    "one word less": (lambda a: say(a, "most likely ", ""), "claim_differs"),
    "one letter": (lambda a: say(a, "gifts", "Gifts"), "claim_differs"),
    "another answer": (lambda a: whole_text(a, "No."), "claim_differs"),
    "no answer": (lambda a: whole_text(a, ""), "claim_differs"),
    "a sentence after": (lambda a: whole_text(a, a["text"] + " This is a lie."), "claim_differs"),
    "a sentence before": (
        lambda a: a.update(text="Not so: " + a["text"], claims=[]),
        "claim_differs",
    ),
    "no claims": (lambda a: a.update(claims=[]), "claim_differs"),
    "no quotes": (lambda a: a.update(claims=[], quotes=[]), "claim_differs"),
    "a declined answer that speaks": (lambda a: a.update(declined=True), "claim_differs"),
    "a claim on another quote": (
        lambda a: point(a, quotes=[len(a["quotes"]) - 1]),
        "claim_differs",
    ),
    "a claim on no quote": (lambda a: point(a, quotes=[]), "claim_differs"),
    "a claim that holds less": (lambda a: point(a, start=6), "claim_differs"),
    "a claim that ends early": (lambda a: point(a, end=5), "claim_differs"),
    "a claim twice": (lambda a: a["claims"].append(a["claims"][0]), "claim_differs"),
    "three letters": (lambda a: cut_quote(a, 0, 3, True), "cut_word"),
    "two words": (lambda a: cut_quote(a, 6, 17, True), "too_short"),
    "two words and two halves": (lambda a: cut_quote(a, 4, 19, True), "cut_word"),
    "a cut quote alone": (lambda a: cut_quote(a, 0, 30, False), "claim_differs"),
    "a changed quote": (lambda a: alter(a, text="Crows never bring gifts."), "text_differs"),
    "quote and text changed": (
        lambda a: say_and_quote(a, "most likely", "very seldom"),
        "text_differs",
    ),
    "a moved quote": (lambda a: alter(a, start=3), "text_differs"),
    "a quote from before the page": (lambda a: alter(a, start=-3), "out_of_range"),
    "a quote that ends late": (lambda a: alter(a, end=10**9), "out_of_range"),
    "an unknown address": (lambda a: alter(a, url="https://www.nature.com/1"), "wrong_source"),
    "a file of another name": (lambda a: alter(a, url="file:///etc/hosts"), "wrong_source"),
    "the address of another page": (lambda a: alter(a, url=FACES_PAGE), "wrong_source"),
    "a part of the address": (lambda a: alter(a, url=GIFTS_PAGE + "/"), "wrong_source"),
    "an empty address": (lambda a: alter(a, url=""), "wrong_source"),
    "another title": (lambda a: alter(a, title="Nature"), "wrong_source"),
    "no title": (lambda a: alter(a, title=""), "wrong_source"),
    "another digest": (lambda a: alter(a, digest="0" * 32), "digest_differs"),
    "nothing that is stored": (
        lambda a: alter(a, digest="0" * 32, url="https://gone.example/"),
        "page_missing",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED_SAVED)
def test_a_forged_answer_is_refused(
    run: Run, ask: Callable[..., str], tmp_path: Path, home: Path, name: str
) -> None:
    forge, outcome = FORGED_SAVED[name]
    two_quotes = "How long do crows live?"
    saved = json.loads(ask(two_quotes if name == "a claim on another quote" else GIFTS))
    forge(saved["answer"])
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(saved), "utf-8")
    code, out, _ = run("cite", "verify", file)
    assert code == 5
    assert outcome in [line.split()[0] for line in out.splitlines() if line[:1].strip()]
    lines = run("cite", "verify", file, "--json").out.splitlines()
    assert outcome in [json.loads(line)["outcome"] for line in lines]
    with PageArchive(home / "data" / "rookery" / "archive.sqlite") as archive:
        found = check_saved_answers(
            file.read_bytes(), "x", ArchivedSources(archive, lambda url: "")
        )
    assert outcome in [describe_verdict(each).outcome for each in found]


@pytest.mark.parametrize(
    "forge",
    [
        lambda a: point(a, end=10**6),
        lambda a: point(a, start=-1),
        lambda a: point(a, start=9, end=3),
        lambda a: point(a, quotes=[17]),
        lambda a: point(a, quotes=[-1]),
        lambda a: a.update(verified=True),
        lambda a: a.pop("text"),
        lambda a: alter(a, start="3"),
    ],
)
def test_a_claim_that_points_nowhere_is_refused_in_words(
    run: Run, ask: Callable[..., str], tmp_path: Path, forge: Callable[[Json], object]
) -> None:
    saved = json.loads(ask())
    forge(saved["answer"])
    (tmp_path / "answer.json").write_text(json.dumps(saved), "utf-8")
    code, out, err = run("cite", "verify", tmp_path / "answer.json")
    assert (code, out) == (2, "")
    assert "answer.json, the answer: not a whole answer: " in err
    assert "Traceback" not in err


FORGED_SIDES: tuple[Callable[[Json], object], ...] = (
    lambda a: say(a, "Against:", "Besides:"),
    lambda a: whole_text(a, a["text"] + " It is so."),
    lambda a: whole_text(a, a["text"].replace("Claim:", "Truth:")),
    lambda a: point(a, end=a["claims"][0]["end"] - 2),
)


@pytest.mark.slow
@pytest.mark.parametrize("forge", FORGED_SIDES)
def test_forged_sides_are_refused(
    run: Run, ask: Callable[..., str], tmp_path: Path, forge: Callable[[Json], object]
) -> None:
    saved = json.loads(ask("Do crows live for a hundred years?", *SIDES))
    assert saved["answer"]["claims"]
    forge(saved["answer"])
    (tmp_path / "answer.json").write_text(json.dumps(saved), "utf-8")
    code, out, _ = run("cite", "verify", tmp_path / "answer.json")
    assert (code, "claim_differs" in out) == (5, True)


BY_STORED = "checked against the stored pages, not the sources as they are now"
HONEST_QUESTIONS = [question.text for question in read_questions(bundled_questions())][:14]


@pytest.mark.slow
@pytest.mark.parametrize("question", HONEST_QUESTIONS)
def test_what_ask_answers_is_verified(
    run: Run, ask: Callable[..., str], tmp_path: Path, question: str
) -> None:
    (tmp_path / "answer.json").write_text(ask(question), "utf-8")
    saved = json.loads(ask(question))
    code, out, err = run("cite", "verify", tmp_path / "answer.json")
    quotes = len(saved["answer"]["quotes"])
    assert code == (0 if quotes else 4)
    assert [line.split()[0] for line in out.splitlines()] == ["verified"] * quotes
    counted = f"{quotes} of {quotes} quote{'s' * (quotes > 1)} verified"
    assert not quotes or err == f"{counted}; {BY_STORED}\n"


def test_an_answer_is_checked_against_the_stored_pages_and_says_so(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "rooks").mkdir()
    rooks, saved = tmp_path / "rooks" / "rooks.txt", tmp_path / "answer.json"
    rooks.write_text("Rooks nest in tall elms near open farm land.")
    saved.write_text(run("ask", "Where do rooks nest?", "--in", rooks.parent, "--json").out)
    rooks.write_text("Rooks nest in low hedges near open farm land.")
    assert run("cite", "verify", saved).err == f"1 of 1 quote verified; {BY_STORED}\n"
    assert BY_STORED not in run("cite", "verify", saved, "--pages", rooks.parent).err


def without(saved: Json, *names: str) -> str:
    return json.dumps({name: value for name, value in saved.items() if name not in names})


HONEST_FORMS: dict[str, Callable[[Callable[..., str]], str]] = {
    "declined": lambda ask: ask(GIFTS, "--decline", "1"),
    "both sides": lambda ask: ask("Do crows live for a hundred years?", *SIDES),
    "sides declined": lambda ask: ask("Do crows sing opera at night?", *SIDES),
    "a bare answer": lambda ask: json.dumps(json.loads(ask())["answer"]),
    "no method": lambda ask: without(json.loads(ask()), "method"),
    "lines": lambda ask: ask() + ask("Do crows remember human faces?"),
    "a list": lambda ask: f"[{ask().strip()},{ask().strip()}]",
    "indented": lambda ask: json.dumps(json.loads(ask()), indent=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", HONEST_FORMS)
def test_honest_answers_in_every_form_are_verified(
    run: Run, ask: Callable[..., str], tmp_path: Path, form: str
) -> None:
    (tmp_path / "answer.json").write_text(HONEST_FORMS[form](ask), "utf-8")
    code, out, err = run("cite", "verify", tmp_path / "answer.json")
    assert (code, {line.split()[0] for line in out.splitlines()}) == (0, {"verified"})
    assert "not judged" not in err


def test_what_a_model_wrote_is_counted_as_not_judged(
    run: Run, ask: Callable[..., str], tmp_path: Path
) -> None:
    saved = json.loads(ask())
    quotes = saved["answer"]["quotes"]
    text = "They learn it. Crows want more food, it seems. Nobody knows."
    claims = [{"start": 15, "end": 46, "quotes": [0]}]
    saved |= {"method": "webglm", "answer": {"text": text, "quotes": quotes, "claims": claims}}
    (tmp_path / "answer.json").write_text(json.dumps(saved), "utf-8")
    code, out, err = run("cite", "verify", tmp_path / "answer.json")
    outcomes = [line.split()[0] for line in out.splitlines() if line[:1].strip()]
    assert (code, outcomes) == (0, ["verified"] * len(quotes) + ["not_judged"] * 3)
    assert "; 3 sentences written by a model were not judged: only their quotes" in err
    del saved["method"]
    (tmp_path / "answer.json").write_text(json.dumps(saved), "utf-8")
    assert "3 sentences" in run("cite", "verify", tmp_path / "answer.json").err


# Answers of other tools


def markdown(quoted: str, source: str = GIFTS_PAGE) -> tuple[str, str]:
    return "answer.md", f"As they say, “{quoted}” [1].\n\n[1] {source}\n"


def block_quote(quoted: str, source: str = GIFTS_PAGE) -> tuple[str, str]:
    return "answer.md", f"> {quoted}\n>\n> — [Gifts](<{source}>)\n"


def openai(quoted: str, source: str = GIFTS_PAGE) -> tuple[str, str]:
    text = f"They say “{quoted}”. (source)"
    cited = {
        "type": "url_citation",
        "start_index": text.index("(source"),
        "end_index": len(text),
        "url": source,
        "title": "Gifts",
    }
    message = {"role": "assistant", "content": text, "annotations": [cited]}
    return "answer.json", json.dumps({"choices": [{"message": message}]})


def anthropic(quoted: str, source: str = GIFTS_PAGE) -> tuple[str, str]:
    cited = {"type": "web_search_result_location", "url": source, "cited_text": quoted}
    content = [{"type": "text", "text": "They learn it.", "citations": [cited]}]
    return "answer.json", json.dumps({"role": "assistant", "content": content})


def perplexity(quoted: str, source: str = GIFTS_PAGE) -> tuple[str, str]:
    message = {"role": "assistant", "content": f"They say “{quoted}” [1]."}
    return "answer.json", json.dumps({"choices": [{"message": message}], "citations": [source]})


def gemini(quoted: str, source: str = GIFTS_PAGE) -> tuple[str, str]:
    quotation = f"“{quoted}”"
    text = f"Früher hieß es: {quotation}, ja."
    start = len("Früher hieß es: ".encode())
    segment = {"startIndex": start, "endIndex": start + len(quotation.encode()), "text": quotation}
    metadata = {
        "groundingChunks": [{"web": {"uri": source, "title": "gifts"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    content = {"role": "model", "parts": [{"text": text}]}
    whole = {"candidates": [{"content": content, "groundingMetadata": metadata}]}
    return "answer.json", json.dumps(whole)


FORMATS = (markdown, block_quote, openai, anthropic, perplexity, gemini)
TRUE = f"{BECAUSE} that a particular person feeds them"
FALSE_QUOTES = {
    TRUE.replace("most likely", "never"): "not_found",
    TRUE.replace("feeds", "hates"): "not_found",
    f"{BECAUSE} … more food … a particular person": "not_found",
    f"Crows most ... {REST}": "elided",
    f"{BECAUSE} ... followed by more food": "elided",
}


def outcomes_of(
    run: Run, folder: Path, saved: tuple[str, str], *options: str | Path
) -> tuple[int, list[str], str]:
    (folder / saved[0]).write_text(saved[1], "utf-8")
    code, out, err = run("cite", "verify", folder / saved[0], "--json", *options)
    return code, [json.loads(line)["outcome"] for line in out.splitlines()], err


@pytest.mark.parametrize("form", FORMATS)
def test_quotes_of_other_tools_are_verified_or_refused_in_every_format(
    run: Run, ask: Callable[..., str], tmp_path: Path, form: Callable[..., tuple[str, str]]
) -> None:
    ask()
    assert outcomes_of(run, tmp_path, form(TRUE))[:2] == (0, ["verified"])
    for quoted, outcome in FALSE_QUOTES.items():
        assert outcomes_of(run, tmp_path, form(quoted))[:2] == (5, [outcome])
    assert outcomes_of(run, tmp_path, form(TRUE, FACES_PAGE))[:2] == (5, ["not_found"])
    gone = "https://gone.example/gifts"
    assert outcomes_of(run, tmp_path, form(TRUE, gone))[:2] == (5, ["page_missing"])


@pytest.mark.slow
def test_an_elided_quotation_is_never_verified(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(
        "Notes\n\nThe new drug does not cure cancer in mice. The old drug, which was made in the "
        "same valley, does cure cancer in rats.\n\nThe wait... was long for the birds.\n"
    )
    pages = ("--pages", tmp_path / "notes.txt")
    turned = markdown("The new drug does ... cure cancer in mice", "notes.txt")
    assert outcomes_of(run, tmp_path, turned, *pages)[:2] == (5, ["elided"])
    code, out, err = run("cite", "verify", tmp_path / "answer.md", *pages)
    assert (code, "left out: “not”" in out) == (5, True)
    assert "0 of 1 quote verified; 1 elided, which is never verified" in err
    harmless = markdown("The old drug, … does cure cancer in rats", "notes.txt")
    assert outcomes_of(run, tmp_path, harmless, *pages)[:2] == (5, ["elided"])
    literal = markdown("The wait… was long for the birds", "notes.txt")
    assert outcomes_of(run, tmp_path, literal, *pages)[:2] == (0, ["verified"])


def test_of_several_cited_sources_each_that_lacks_the_words_is_told(
    run: Run, ask: Callable[..., str], tmp_path: Path
) -> None:
    ask()
    text = f"“{TRUE}” [1][2].\n\n[1]: {GIFTS_PAGE}\n[2]: {FACES_PAGE}\n"
    code, found, _ = outcomes_of(run, tmp_path, ("answer.md", text))
    assert (code, found) == (5, ["verified", "not_found"])
    out = run("cite", "verify", tmp_path / "answer.md").out
    assert f"{FACES_PAGE}: these words do not stand in the source; they stand in another" in out


@pytest.mark.slow
def test_files_are_found_by_their_place_beside_the_answer_and_in_given_folders(
    run: Run, tmp_path: Path
) -> None:
    for folder, said in (("a", "Crows remember human faces."), ("b", "Jays bury many acorns.")):
        (tmp_path / "docs" / folder).mkdir(parents=True)
        (tmp_path / "docs" / folder / "my notes.txt").write_text(f"Notes\n\n{said}\n")
    right = markdown("Crows remember human faces", "Notes — docs/a/my%20notes.txt")
    wrong = markdown("Crows remember human faces", "Notes — docs/b/my%20notes.txt")
    assert outcomes_of(run, tmp_path, right)[:2] == (5, ["page_missing"])
    for options in (("--fetch",), ("--pages", tmp_path / "docs")):
        assert outcomes_of(run, tmp_path, right, *options)[:2] == (0, ["verified"])
        assert outcomes_of(run, tmp_path, wrong, *options)[:2] == (5, ["not_found"])
    run("ask", "What do crows remember?", "--in", tmp_path / "docs")
    assert outcomes_of(run, tmp_path, right)[:2] == (0, ["verified"])
    elsewhere = (tmp_path / "docs" / "a" / "my notes.txt").as_uri()
    by_url = markdown("Crows remember human faces", elsewhere)
    assert outcomes_of(run, tmp_path, by_url)[:2] == (0, ["verified"])


# Addresses and versions


def story(text: str) -> str:
    filler = "The wind was in the trees all day, and the rain came down on the roof. " * 3
    return f"<title>Jays</title><article><h1>Jays</h1><p>{text} {filler}</p></article>"


def test_what_an_earlier_reader_saw_in_a_file_is_not_called_forged(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "docs" / "jays.txt"
    file.parent.mkdir()
    file.write_text("Jays bury nuts in winter.")
    text = "Jays bury acorns in autumn, and nuts."
    earlier = Page(file.resolve().as_uri(), "jays", text, fetched="2999-01-01T00:00:00+00:00")
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        archive.store_page(earlier)
    quote = msgspec.to_builtins(earlier.quote(0, 26))
    saved = tmp_path / "answer.json"
    saved.write_text(json.dumps({"text": quote["text"], "quotes": [quote]}))
    assert json.loads(run("cite", "verify", saved, "--json").out.split("\n")[0])["detail"] == ""
    code, out, _ = run("cite", "verify", saved, "--pages", file.parent)
    assert (code, "read otherwise: ask again to quote it anew" in out) == (5, True)
    file.write_text("# Jays\n\nJays bury acorns in autumn, and nuts in winter.")
    code, out, _ = run("cite", "verify", saved, "--pages", file.parent)
    assert (code, "now read otherwise, with these words" in out) == (0, True)


@pytest.mark.slow
def test_mirrors_redirects_and_changed_pages(run: Run, web: Stage, tmp_path: Path) -> None:
    jays, mirror, short = (f"{web.base}/{name}" for name in ("jays", "mirror", "short"))
    first, second = story("Jays bury acorns in autumn."), story("Jays bury nuts in winter.")
    web.routes.update({"/jays": Said(first), "/mirror": Said(first)})
    web.routes["/short"] = Said("", status=301, headers=(("Location", "/jays"),))
    for address in (mirror, short):
        assert run("browse", address, "--allow-private").code == 0
    page = Page.from_json(run("browse", jays, "--json", "--allow-private").out)
    assert page.url == jays
    start = page.text.index("Jays bury")
    quote = page.quote(start, start + len("Jays bury acorns in autumn."))
    answer = {"text": quote.text, "claims": [{"start": 0, "end": 27, "quotes": [0]}]}

    def verified(url: str, *options: str) -> tuple[int, Json]:
        named = msgspec.to_builtins(msgspec.structs.replace(quote, url=url))
        saved = {"question": {"id": "1", "text": "Jays?"}, "stop": "end", "method": "extract"}
        saved["answer"] = {**answer, "quotes": [named]}
        (tmp_path / "answer.json").write_text(json.dumps(saved))
        code, out, _ = run("cite", "verify", tmp_path / "answer.json", "--json", *options)
        return code, json.loads(out)

    for url in (jays, mirror, short):
        assert verified(url)[0] == 0
        assert verified(url)[1]["detail"] == ""
    code, verdict = verified(f"{web.base}/never")
    assert (code, verdict["outcome"]) == (5, "wrong_source")
    web.routes["/jays"] = Said(second)
    changed = f"verified against the version of {page.fetched[:10]}; the page now differs and no"
    assert verified(jays)[1]["detail"] == ""
    code, verdict = verified(jays, "--fetch", "--allow-private")
    assert (code, verdict["outcome"]) == (0, "verified")
    assert verdict["detail"].startswith(changed)
    assert verified(jays)[1]["detail"].startswith(changed)  # it is stored now
    assert verified(mirror)[1]["detail"] == ""
    (tmp_path / "answer.md").write_text(f"“Jays bury acorns in autumn.” ({jays})")
    code, out, _ = run("cite", "verify", tmp_path / "answer.md")
    assert (code, changed in out) == (0, True)


# Markdown as its reader sees it: forged and honest answers about three pages of a folder

ROOKS = """<!doctype html><title>Rooks</title><article><h1>Rooks</h1>
<p>Rooks nest in tall elms near open farm land.<sup><a href="#n1">[1]</a></sup> They feed on
grubs and grain. Rooks lay eggs in March and feed their young for a month. The keeper called them
“clever old birds” in his diary. The wood at Ashby covers 12 km<sup>2</sup> and belongs
to Smith &amp; Sons.
The colony — the largest in the county — has lived there since 1887.</p>
<p>In winter they roost with jackdaws.</p><p>館長は「時計は嘘をつかない」と話した。</p>
<ol><li>Find an open field.</li><li>Wait for the evening.</li></ol></article>"""
JAYS = "Jays\n\nJays bury acorns in autumn. They find most of them again in spring.\n"
NEST = "Rooks nest in tall elms near open farm land."
FEED = "They feed on grubs and grain."


@pytest.fixture
def rookery(tmp_path: Path) -> Path:
    """A folder `pages` of two sources, beside which answers are saved."""
    pages = tmp_path / "pages"
    (pages / "more").mkdir(parents=True)
    (pages / "rooks.html").write_text(ROOKS, "utf-8")
    (pages / "more" / "jays.txt").write_text(JAYS, "utf-8")
    mail = "Subject: Jays\n\nJays hide two acorns a minute.\n"
    (pages / "more" / "jays.eml").write_text(mail, "utf-8")
    return pages


def message(text: str, **more: object) -> str:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text, **more}}]})


def bare_link(url: str) -> str:
    return f"“{NEST}” [rooks]({url})"


# Each would be verified by who reads the Markdown by patterns, or looks at a part of it only.
FORGED_ANSWERS = {
    "Hebrew marks": f"״Rooks never eat any grain״ [r](rooks.html)\n\n“{NEST}” [r](rooks.html)",
    "double primes": f"″Rooks never eat any grain″ [r](rooks.html)\n\n“{NEST}” [r](rooks.html)",
    "a linked word inside a block quote": (
        "> Rooks [never][1] nest in tall elms\n>\n> — [Rooks](rooks.html)\n\n[1]: rooks.html"
    ),
    "linked words in brackets": (
        "“Rooks nest ([hardly ever](rooks.html)) in tall elms” [rooks](rooks.html)"
    ),
    "a linked number": "“Rooks lay [12](rooks.html) eggs in March” ([source](rooks.html))",
    "a linked word in brackets": (
        "“Rooks [[never]](rooks.html) nest in tall elms” [rooks](rooks.html)"
    ),
    "a last line with a dash": f"> {NEST}\n> — but seldom any more ([Rooks](rooks.html))",
    "a last line of a list": f"> {NEST}\n> - and never in towers ([Rooks](rooks.html))",
    "a last line that names a source": f"> {NEST}\n> Source of endless noise ([Rooks](rooks.html))",
    "a number without a full stop before": (
        "> Rooks lay eggs in March and feed their young for a month. [12](more/jays.txt) "
        "jays\n>\n> — [Rooks](rooks.html)"
    ),
    "a footnote's number as a figure": (
        "“Rooks lay [^12] eggs in March” [rooks](rooks.html)\n\n[^13]: rooks.html"
    ),
    "the second definition is the true one": (
        f"“{NEST}” [1].\n\n[1]: more/jays.txt\n[1]: rooks.html"
    ),
    "the second entry is the true one": (
        f"“{NEST}” [1].\n\nSources\n\n[1] Jays, more/jays.txt\n[1] Rooks, rooks.html"
    ),
    "a source inside a comment": f"“{NEST}” <!-- [rooks](rooks.html) -->",
    "a list of sources inside a comment": f"“{NEST}” [1]\n\n<!--\n\n[1] rooks.html\n\n-->",
    "a hidden source": f'“{NEST}” <span style="display:none"><a href="rooks.html">rooks</a></span>',
    "a source in code": f"“{NEST}” `[rooks](rooks.html)`",
    "an escaped link": rf"“{NEST}” \[rooks\](rooks.html)",
    "another host": bare_link("https://www.who.example/reports/rooks.html"),
    "a file of the same name": bare_link("other/rooks.html"),
    "a script as address": bare_link("javascript:x//rooks.html"),
    "another scheme": bare_link("ftp://www.who.example/rooks.html"),
    "no scheme": bare_link("//www.who.example/rooks.html"),
    "a folder above": bare_link("../../rooks.html"),
    "the last part of a file's address": bare_link("file:///srv/reports/rooks.html"),
    "false words between single marks": (
        f"“{NEST}” [r](rooks.html) and ‘Rooks never eat any grain’ [r](rooks.html)"
    ),
    "false words between straight single marks": (
        f"“{NEST}” [r](rooks.html) and 'Rooks never eat any grain' [r](rooks.html)"
    ),
    "false words between turned guillemets": (
        f"“{NEST}” [r](rooks.html). »Rooks never eat any grain« [r](rooks.html)"
    ),
    "false words between equal marks": (
        f"“{NEST}” [r](rooks.html). ”Rooks never eat any grain” [r](rooks.html)"
    ),
    "false words between German single marks": (
        f"“{NEST}” [r](rooks.html). ‚Rooks never eat any grain‘ [r](rooks.html)"
    ),
    "false words in a q element": (
        f"“{NEST}” [r](rooks.html). <q>Rooks never eat any grain</q> [r](rooks.html)"
    ),
    "false words in a blockquote element": (
        f"“{NEST}” [r](rooks.html).\n\n<blockquote>Rooks never eat any grain <a "
        "href='rooks.html'>Rooks</a></blockquote>"
    ),
    "three false words": f"“{NEST}” [r](rooks.html), and “never eat grain” [r](rooks.html)",
    "false words round a true quotation": (
        f"“The keeper said “{NEST}” and that no rook was ever seen” [r](rooks.html)"
    ),
    "the same words twice, once from elsewhere": (
        f"“{NEST}” [r](rooks.html)\n\n“{NEST}” [j](more/jays.txt)"
    ),
    "the same words unquoted beside a false source": (
        f"{NEST} [r](rooks.html)\n\n“{NEST}” [j](more/jays.txt)"
    ),
    "the same words twice in a message": message(
        f"“{NEST}” [r](rooks.html). As jays: “{NEST}” [j](more/jays.txt)."
    ),
    "a mark that is not closed": (
        f"“{FEED}” [r](rooks.html)\n\nThey say: “Rooks never eat grain in any year [r](rooks.html)"
    ),
    "struck-out words are not said": (
        "“Rooks nest in ~~tall~~ low elms near open farm land” [r](rooks.html)"
    ),
    "words shown by an entity": "“Rooks n&#101;v&#101;r nest in tall elms” [r](rooks.html)",
    "raised by HTML": "“The wood at Ashby covers 12 km<sup>3</sup>” [r](rooks.html)",
    "a text beside its annotation": message(
        f"“{NEST}” and ‘Rooks never eat any grain’.",
        annotations=[
            {"type": "url_citation", "start_index": 0, "end_index": 80, "url": "rooks.html"}
        ],
    ),
}
HONEST_ANSWERS = {
    "a mail in the list of sources": "“Jays hide two acorns a minute” [1]\n\n- [1] more/jays.eml",
    "corner marks within marks": "「館長は『時計は嘘をつかない』と話した。」 [rooks](rooks.html)",
    "the page's mark left out": f"“{NEST} {FEED}” [rooks](rooks.html)",
    "a block quote with its page's mark": f"> {NEST}[1] {FEED}\n>\n> — [Rooks](rooks.html)",
    "a mark inside the marks": f"“{NEST} [1]”\n\n[1] Rooks, rooks.html",
    "a footnote inside the marks": f"“{NEST}[^1] {FEED}”\n\n[^1]: rooks.html",
    "the page's own link": (
        "“Rooks nest in [tall elms](https://en.example/Elm) near open farm land” "
        "([rooks](rooks.html))"
    ),
    "marks within marks": (
        "“The keeper called them 'clever old birds' in his diary” [rooks](rooks.html)"
    ),
    "marks within single marks": (
        "‘The keeper called them “clever old birds” in his diary’ [rooks](rooks.html)"
    ),
    "an entity": "“belongs to Smith &amp; Sons” [rooks](rooks.html)",
    "dashes without spaces": (
        "“The colony—the largest in the county—has lived there since 1887” [rooks](rooks.html)"
    ),
    "two hyphens": (
        "“The colony -- the largest in the county -- has lived there” [rooks](rooks.html)"
    ),
    "a square by its sign": "“The wood at Ashby covers 12 km²” [rooks](rooks.html)",
    "a square by HTML": "“The wood at Ashby covers 12 km<sup>2</sup>” [rooks](rooks.html)",
    "items without numbers": (
        "> Find an open field.\n> Wait for the evening.\n>\n> — [Rooks](rooks.html)"
    ),
    "emphasis and code": (
        "“Rooks *nest* in **tall `elms`** near open farm land” [rooks](rooks.html)"
    ),
    "an apostrophe": f"The rooks' nests and the crows’ nests: “{NEST}” [rooks](rooks.html)",
    "three words": "They “feed on grubs” [rooks](rooks.html)",
    "a path below the folder": "“Jays bury acorns in autumn” [jays](more/jays.txt)",
    "a path with percent signs and a fragment": (
        "“Jays bury acorns in autumn” [jays](./more/jays%2Etxt#top)"
    ),
    "a source that is written after a dash": f"> {NEST} — Smith & Sons, *[Rooks](rooks.html)*",
    "words in Swedish marks": f"”{NEST}” [rooks](rooks.html)",
    "words in guillemets with spaces": f"« {NEST} » [rooks](rooks.html)",
    "a struck-out word beside": f"~~Crows~~ “{NEST}” [rooks](rooks.html)",
    "a quotation in a table": f"| said | where |\n|---|---|\n| “{NEST}” | [rooks](rooks.html) |",
}


def check_answer(run: Run, pages: Path, text: str) -> tuple[int, list[Json], str]:
    file = pages.parent / ("answer.json" if text.startswith("{") else "answer.md")
    file.write_text(text, "utf-8")
    code, out, err = run("cite", "verify", file, "--pages", pages, "--json")
    return code, [json.loads(line) for line in out.splitlines()], err


def list_outcomes(pages: Path, texts: dict[str, str]) -> dict[str, set[str]]:
    """The outcomes of each answer over the same pages, which are read once."""
    documents = DocumentLookup(pages)
    with EvidenceSources(Settings()) as opened:
        sources = CheckedSources(documents, opened, False, pages.parent)
        return {
            name: {
                each.outcome
                for each in check_saved_answers(
                    text.encode(), "answer.json" if text.startswith("{") else "answer.md", sources
                )
            }
            for name, text in texts.items()
        }


def test_what_a_reader_of_the_answer_sees_is_checked(rookery: Path) -> None:
    outcomes = list_outcomes(rookery, FORGED_ANSWERS)
    passing = {"verified", "not_checked", "not_quoted"}
    assert [name for name, each in outcomes.items() if each <= passing] == []


def test_honest_quotations_of_other_tools_hold(rookery: Path) -> None:
    outcomes = list_outcomes(rookery, HONEST_ANSWERS)
    assert {
        name: each
        for name, each in outcomes.items()
        if not {"verified"} <= each <= {"verified", "not_quoted"}
    } == {}


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"```\n“Rooks never eat any grain” [r](rooks.html)\n```\n\n“{NEST}” [r](rooks.html)", 0),
        (f"He wrote `“never eat grain” [r](rooks.html)`.\n\n“{NEST}” [r](rooks.html)", 0),
        (f"The ‘three little words’ of old.\n\n“{NEST}” [r](rooks.html)", 0),
        ("```\n“Rooks nest in tall elms” [r](rooks.html)\n```", 4),
        ("It is so.\n\n[1] Smith, “The rooks of Ashby”, rooks.html", 4),
    ],
)  # fmt: skip
def test_a_quotation_that_is_not_checked_is_named_and_counted(
    run: Run, rookery: Path, text: str, most: int
) -> None:
    code, found, err = check_answer(run, rookery, text)
    assert code == most
    [unchecked] = [each for each in found if each["outcome"] == "not_checked"]
    assert unchecked["claimed"]["text"] in err
    assert "1 quotation was not checked" in err


def test_each_occurrence_has_its_place_and_its_verdict(run: Run, rookery: Path) -> None:
    twice = (
        f"“{NEST}” [r](rooks.html)\n\nThen “{NEST}” [j](more/jays.txt), “{FEED}” [r](rooks.html)"
    )
    _, found, _ = check_answer(run, rookery, twice)
    places = [(each["claimed"]["where"], each["outcome"]) for each in found]
    assert places == [
        ("line 1, column 1", "verified"),
        ("line 3, column 6", "not_found"),
        ("line 3, column 73", "verified"),
    ]
    _, found, _ = check_answer(run, rookery, message(twice))
    assert [each["claimed"]["where"] for each in found] == [
        f"the answer.choices[0].message, character {at}" for at in (0, 69, 136)
    ]


def test_what_a_model_types_in_quotation_marks_in_our_own_answers_is_checked(
    run: Run, ask: Callable[..., str], tmp_path: Path
) -> None:
    saved = json.loads(ask())
    quote = saved["answer"]["quotes"][0]
    words = " ".join(quote["text"].split()[:8])
    for typed, expected in ((words, 0), ("Crows have never brought anybody a gift", 5)):
        text = f"As the page says, “{typed}”. So it is."
        claims = [{"start": 0, "end": len(text) - 11, "quotes": [0]}]
        answer = {"text": text, "quotes": [quote], "claims": claims}
        saved |= {"method": "webglm", "answer": answer}
        (tmp_path / "answer.json").write_text(json.dumps(saved), "utf-8")
        code, out, _ = run("cite", "verify", tmp_path / "answer.json")
        assert code == expected
        assert ("not_found" in out) == (expected == 5)


@pytest.mark.slow
def test_addresses_that_differ_in_writing_alone_are_the_same_source(
    run: Run, web: Stage, tmp_path: Path
) -> None:
    web.routes["/b%C3%A4ume/"] = Said(story("Jays bury acorns in autumn."))
    assert run("browse", f"{web.base}/b%C3%A4ume/", "--allow-private").code == 0
    upper = web.base.replace("http://", "HTTP://")
    for url in ("b%C3%A4ume/", "bäume/", "b%c3%a4ume", "bäume/index.html", "b%C3%A4ume/#top"):
        for base in (web.base, upper):
            said = markdown("Jays bury acorns in autumn", f"{base}/{url}")
            assert outcomes_of(run, tmp_path, said)[:2] == (0, ["verified"])
    for url in ("b%C3%A4ume/other.html", "bäume/?a=1", "x/b%C3%A4ume/"):
        said = markdown("Jays bury acorns in autumn", f"{web.base}/{url}")
        assert outcomes_of(run, tmp_path, said)[:2] == (5, ["page_missing"])
