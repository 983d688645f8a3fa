"""Answers of other tools are read as these tools write them; broken files are named in words."""

import json
from typing import Any

import msgspec
import pytest
from growth import AT_MOST, growth_of

from rookery.quotes.answer_text import ClaimedQuote
from rookery.quotes.saved_answers import (
    SavedAnswer,
    extract_claimed_quotes,
    parse_saved_answers,
)
from rookery.quotes.verification import find_quote_pieces
from rookery.records import Answer, Claim, Page

A, B = "https://a.example/crows", "https://b.example/ravens"
FACES = "Crows remember human faces"
TOOLS = "Ravens plan ahead with tools"


def read(value: Any, name: str = "answer.json") -> list[ClaimedQuote]:
    return extract_claimed_quotes(json.dumps(value).encode(), name)


def markdown(text: str) -> list[ClaimedQuote]:
    return extract_claimed_quotes(text.encode(), "answer.md")


def pairs(quotes: list[ClaimedQuote]) -> list[tuple[str, str]]:
    checked = (claimed for claimed in quotes if claimed.quoted and not claimed.unchecked)
    return [(claimed.text, claimed.url) for claimed in checked]


def annotation(text: str, mark: str, url: str, title: str = "") -> dict[str, Any]:
    start = text.index(mark)
    end = start + len(mark)
    return {
        "type": "url_citation",
        "start_index": start,
        "end_index": end,
        "title": title,
        "url": url,
    }


SAID = (
    "😀 A study says “Crows remember human faces” ([a.example](https://a.example/crows)). "
    "They also use tools. ([b.example](https://b.example/ravens))"
)
ANNOTATIONS = [
    annotation(SAID, f"([a.example]({A}))", A, "Crows"),
    annotation(SAID, f"([b.example]({B}))", B, "Ravens"),
]


def test_openai_responses() -> None:
    part = {"type": "output_text", "text": SAID, "annotations": ANNOTATIONS, "logprobs": []}
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    calls = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    found = read({"object": "response", "output": [calls, message]})
    where = "the answer.output[1].content[0]"
    assert found == [
        ClaimedQuote(FACES, A, "Crows", f"{where}, character 15"),
        ClaimedQuote("They also use tools.", B, "Ravens", f"{where}, character 105", quoted=False),
    ]
    assert read([message]) == [
        msgspec.structs.replace(each, where=each.where.replace("the answer.output[1]", "[0]"))
        for each in found
    ]


def test_openai_chat_completions() -> None:
    nested = [{"type": "url_citation", "url_citation": each} for each in ANNOTATIONS]
    message = {"role": "assistant", "content": SAID, "annotations": nested}
    found = read({"choices": [{"index": 0, "message": message}]})
    assert found[0] == ClaimedQuote(
        FACES, A, "Crows", "the answer.choices[0].message, character 15"
    )
    batch = {
        "custom_id": "1",
        "response": {"status_code": 200, "body": {"choices": [{"message": message}]}},
    }
    assert pairs(read(batch)) == [(FACES, A)]


def test_a_citation_may_span_the_words_that_rest_on_it() -> None:
    text = f'Crows are clever. As one put it, "{FACES}". More to come.'
    cited = annotation(text, f'As one put it, "{FACES}".', A)
    other = annotation(text, "Crows are clever.", B)
    found = read({"role": "assistant", "content": text, "annotations": [cited, other]})
    assert pairs(found) == [(FACES, A)]
    assert [each.text for each in found if not each.quoted] == ["Crows are clever."]


@pytest.mark.parametrize(("start", "end"), [(5, 900), (-1, 4), (9, 4), (None, 4), ("1", "2")])
def test_a_citation_outside_its_text_is_a_problem(start: Any, end: Any) -> None:
    cited = {"type": "url_citation", "start_index": start, "end_index": end, "url": A, "title": ""}
    found = read({"role": "assistant", "content": "Crows fly.", "annotations": [cited]})
    assert [each.url for each in found] == [A]
    assert "of a text of 10 characters" in found[0].problem


def test_anthropic() -> None:
    web = {
        "type": "web_search_result_location",
        "url": A,
        "title": "Crows",
        "encrypted_index": "Eo8B",
        "cited_text": "Crows remember human faces for years and te...",
    }
    document = {
        "type": "char_location",
        "document_index": 0,
        "document_title": "Field notes",
        "start_char_index": 0,
        "end_char_index": 5,
        "cited_text": "Ravens plan.",
    }
    blocks = [
        {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}},
        {"type": "text", "text": "So: "},
        {"type": "text", "text": "they “know a face for years”", "citations": [web]},
        {"type": "text", "text": " and plan.", "citations": [document]},
    ]
    at = "the answer.content"
    expected = [
        ClaimedQuote(web["cited_text"], A, "Crows", f"{at}[2].citations[0]"),
        ClaimedQuote("Ravens plan.", "", "Field notes", f"{at}[3].citations[0]"),
        ClaimedQuote("know a face for years", A, "Crows", f"{at}, character 9"),
    ]
    assert read({"type": "message", "role": "assistant", "content": blocks}) == expected
    search = {"type": "search_result_location", "source": B, "title": "R", "cited_text": TOOLS}
    block = {"type": "text", "text": "Yes.", "citations": [search]}
    assert pairs(read({"role": "assistant", "content": [block]})) == [(TOOLS, B)]


GEMINI = f"Günther 😀 says: “{FACES}” (so). They also use tools. Third."
CHUNKS = [
    {"web": {"uri": A, "title": "a.example"}},
    {"retrievedContext": {"uri": B, "title": "Ravens"}},
]


def support(text: str, *numbers: int, **more: int) -> dict[str, Any]:
    """What a Gemini response says of one segment, by bytes."""
    start = GEMINI.encode().index(text.encode())
    segment = {"startIndex": start, "endIndex": start + len(text.encode()), "text": text, **more}
    segment = {name: value for name, value in segment.items() if value != 0}  # as protobuf does
    return {"segment": segment, "groundingChunkIndices": list(numbers)}


def gemini(*supports: dict[str, Any], thought: str = "") -> dict[str, Any]:
    parts = [{"text": thought, "thought": True}] * bool(thought) + [{"text": GEMINI}]
    metadata = {"groundingChunks": CHUNKS, "groundingSupports": list(supports)}
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "groundingMetadata": metadata}]}


def test_gemini() -> None:
    first, second = GEMINI[: GEMINI.index(" They")], "They also use tools."
    at = "the answer.candidates[0]"
    expected = [
        ClaimedQuote(FACES, A, "a.example", f"{at}, character 16"),
        ClaimedQuote(FACES, B, "Ravens", f"{at}, character 16"),
        ClaimedQuote(second, B, "Ravens", f"{at}, character 51", quoted=False),
    ]
    answer = gemini(support(first, 0, 1), support(second, 1))
    assert read(answer) == expected
    assert read({"response": answer})[0].where == "the answer.response.candidates[0], character 16"
    python = json.dumps(answer)
    for name in ("groundingMetadata", "groundingChunks", "groundingSupports", "retrievedContext",
                 "groundingChunkIndices", "startIndex", "endIndex"):  # fmt: skip
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        python = python.replace(f'"{name}"', f'"{snake}"')
    assert extract_claimed_quotes(python.encode(), "a.json") == expected
    parts = (support(first, 0, 1, partIndex=1), support(second, 1, partIndex=1))
    assert read(gemini(*parts, thought="A “thought that nobody is told” of mine.")) == expected


def test_gemini_whose_grounding_points_elsewhere() -> None:
    moved = support(f"“{FACES}”", 0, startIndex=2)
    assert pairs(read(gemini(moved))) == [(FACES, A)]  # by the segment's own text
    moved["segment"]["text"] = "Something that it does not say."
    [broken] = read(gemini(moved))
    assert "no place of the text" in broken.problem
    [cited] = read(gemini(support(f"“{FACES}”", 7)))
    assert cited.problem == "cites grounding chunk 7, and there are 2"
    assert pairs(read({"role": "model", "parts": [{"text": GEMINI}]})) == [(FACES, "")]
    assert read({"role": "user", "parts": [{"text": GEMINI}]}) == []


def test_perplexity() -> None:
    text = f"“{FACES}” [1][2]. **Also** “{TOOLS}”[2]. No source says so [3]."
    answer = {
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "citations": [A, B],
        "search_results": [{"title": "Crows", "url": A}, {"title": "Ravens", "url": B}],
    }
    found = read(answer)
    assert pairs(found) == [(FACES, A), (FACES, B), (TOOLS, B)]
    assert found[0].title == "Crows"
    assert [(each.text, each.problem) for each in found if each.problem] == [
        ("No source says so.", "cites [3], for which the file names no source")
    ]
    del answer["search_results"]
    assert pairs(read(answer)) == pairs(found)


@pytest.mark.parametrize(
    "name", ["answer", "response", "output", "text", "content", "result", "message"]
)
def test_an_object_with_one_text_is_read_as_markdown(name: str) -> None:
    value = {"question": "Who?", name: f"“{FACES}” [2]", "model": "any"}
    assert pairs(read({**value, "sources": [B, A]})) == [(FACES, A)]
    by_id = [{"id": 2, "link": A}, {"id": 1, "url": B}]
    assert pairs(read({**value, "references": by_id})) == [(FACES, A)]
    assert pairs(read({**value, "sources": [B, A], "citations": [A, B]})) == [(FACES, "")]
    other = "answer" if name != "answer" else "text"
    with pytest.raises(ValueError, match="no answer of a known form"):
        read({**value, other: "More."})


def test_parts_of_a_message_are_read_as_one_text() -> None:
    parts = [
        {"type": "text", "text": each} for each in ("“Crows ", f"never {FACES[6:]}” ", f"({A})")
    ]
    [found] = read({"role": "assistant", "content": parts})
    assert (found.text, found.url) == (f"Crows never {FACES[6:]}", A)
    assert found.where == "the answer.content[0], character 0"


def test_what_a_model_thinks_is_no_answer() -> None:
    thought = {"type": "reasoning", "content": [{"type": "text", "text": f"“{FACES}” ({A})"}]}
    assert read({"output": [thought]}) == []


def test_json_lines_are_read_one_by_one() -> None:
    line = json.dumps({"role": "assistant", "content": f"“{FACES}” [it]({A})"})
    found = extract_claimed_quotes(f"{line}\r\n\n{line}\n".encode(), "answers.jsonl")
    assert [each.where for each in found] == ["line 1, character 0", "line 3, character 0"]
    assert pairs(found) == [(FACES, A)] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"“{FACES}” [1].\n\n[1]: {A}", [(FACES, A)]),
        (f"“{FACES}”[^1].\n\n[^1]: Smith, “Crows and their many faces”, {A}.", [(FACES, A)]),
        (f"“{FACES}” [1].\n\n## Sources\n\n1. [Crows]({A})\n2. <{B}>", [(FACES, A)]),
        (f"“{FACES}” [2].\n\n**Sources:**\n[1] Crows {A}\n[2] Ravens - {B}", [(FACES, B)]),
        (f"“{FACES}” [[1]]({A}), “{TOOLS}” [[2]]({B}).", [(FACES, A), (TOOLS, B)]),
        (f"“{FACES}” ([a]({A})). “{TOOLS}” ([b]({B})).", [(FACES, A), (TOOLS, B)]),
        (f"“{FACES}”. [1] “{TOOLS}.” [2]\n\n[1]: {A}\n[2]: {B}", [(FACES, A), (TOOLS + ".", B)]),
        (f"[Smith]({A}) says “{FACES}”. [Lee]({B}) says “{TOOLS}”.", [(FACES, A), (TOOLS, B)]),
        (f"“{FACES}” [1, 2].\n\n[1]: {A}\n[2]: {B}", [(FACES, A), (FACES, B)]),
        (f"“{FACES}” [Smith][s].\n\n[s]: {A} 'Crows'", [(FACES, A)]),
        (f"“{FACES}” 【1†L5-L6】.\n\n[1]: {A}", [(FACES, A)]),
        (f"“{FACES}” {A}.", [(FACES, A)]),
        (f'"{FACES}" <{A}>', [(FACES, A)]),
        (f"[“{FACES}”]({A})", [(FACES, A)]),
        (f"„{FACES}“ «{TOOLS}» ([a]({A}))", [(FACES, A), (TOOLS, A)]),
        (f"- “{FACES}” [a]({A})\n- “{TOOLS}” [b]({B})", [(FACES, A), (TOOLS, B)]),
        (f"“Crows *remember*\n`human` [faces](#f)” [a]({A})", [(FACES, A)]),
        (f"“{FACES}” is unsourced.\n\nAnother paragraph [a]({A}).", [(FACES, "")]),
        (f"「鴉は人の顔を覚えている」[a]({A})", [("鴉は人の顔を覚えている", A)]),
        (f'The so-called “crow’s funeral” is 5" long, or 6" [a]({A}).', []),
        (f"```\n“{FACES}” [a]({A})\n```\n", []),
        (f'See [a]({A} "Crows remember human faces") there.', []),
        (f"“{FACES}” [a](https://x.example/a_(b))", [(FACES, "https://x.example/a_(b)")]),
    ],
)
def test_quotations_in_markdown(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(markdown(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"> {FACES}\n> and tools.\n>\n> — [Crows]({A})\n\nSee [b]({B}).",
        f"> {FACES}\n> and tools.\n\n— [Crows]({A})\n\nSee [b]({B}).",
        f"> {FACES}\n> and tools.\n([Crows]({A}))\n\nSee [b]({B}).",
        f"See [b]({B}).\n\nAs [Crows]({A}) says:\n\n> {FACES}\n> and tools.\n\nSo [b]({B}).",
        f"> “{FACES}\n> and tools.” [1]\n\n[1]: {A}",
    ],
)
def test_block_quotes_in_markdown(text: str) -> None:
    assert pairs(markdown(text)) == [(f"{FACES} and tools.", A)]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (f"> {FACES}\n> — [Crows]({A})", FACES),
        (f"> “{FACES}”\n>\n> — [hut]({A})", FACES),
        (f"> “{FACES}”\n>\n> ([hut]({A})).", FACES),
        (f"> “{FACES}” never\n>\n> — [hut]({A})", f"“{FACES}” never\n— hut"),
        (f"> — {FACES} [Crows]({A})", f"— {FACES} Crows"),
        (f"> {FACES}\n> [see Crows]({A})\n> — there", f"{FACES} see Crows — there"),
        (f"> {FACES}\n> — Lee & Sons, *Crows of* [Ashby]({A})", FACES),
    ],
)
def test_the_last_line_of_a_block_quote_may_name_its_source(block: str, expected: str) -> None:
    assert [quote.text for quote in markdown(f"{block}\n") if quote.quoted] == [expected]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"> {FACES}\n> Only [1]", f"{FACES} Only 1"),
        (f"> {FACES}\n> the [1]", f"{FACES} the 1"),
        (f"> {FACES}\n> 10 [1]", f"{FACES} 10 1"),
        (f"> {FACES}.\n> Source: [1]", f"{FACES}."),
        (f"> 3. {FACES}.\n\n[1]", f"3. {FACES}."),
        (f"> {FACES}.\n>\n> They fly.\n\n[1]", f"{FACES}.\nThey fly."),
        (f"It says: ``{FACES}'' [1]", FACES),
        (f"It says: `{FACES}' [1]", FACES),
        (f'It says: " {FACES} " [1]', FACES),
        ('It says: "`Crows` remember human faces" [1]', FACES),
        (f'It says: "{FACES}“ [1]', FACES),
        (f"\u202eIt says: “{FACES}” [1]", f"\u202e{FACES}"),
        (f"\u202eIt says\u202c: “{FACES}” [1]", FACES),
        (f"It says: <bdo dir=rtl>“{FACES}”</bdo> [1]", f"\u202e{FACES}"),
    ],
)
def test_every_word_that_a_reader_sees_is_quoted(text: str, words: str) -> None:
    assert pairs(markdown(f"{text}\n\n[1]: {A}")) == [(words, A)]


@pytest.mark.parametrize(
    ("sources", "cited"),
    [
        ("[1] and [2]", [A, B]),
        (f"([a]({A}); [b]({B}))", [A, B]),
        (f"([a]({A})), [Lee]({B}) says so", [A]),
        (f"[1], as [Lee]({B}) says", [A]),
        (f"[a]({A})[b]({B})", [A, B]),
    ],
)
def test_sources_that_are_given_together(sources: str, cited: list[str]) -> None:
    found = markdown(f"“{FACES}” {sources}\n\n[1]: {A}\n[2]: {B}\n")
    assert [each.url for each in found if each.quoted] == cited


def test_a_footnote_may_be_a_link_and_nothing_else() -> None:
    assert pairs(markdown(f"“{FACES}”[^1]\n\n[^1]: [Crows]({A})\n")) == [(FACES, A)]


def test_a_quotation_in_signs_counts_from_six_of_them() -> None:
    assert pairs(markdown(f"「鴉は人の顔」[a]({A})")) == []
    assert pairs(markdown(f"「鴉は人の顔を」[a]({A})")) == [("鴉は人の顔を", A)]


def test_a_markdown_claim_says_its_line_and_title() -> None:
    found = markdown(f"# Crows\n\nIt is known.\nA study: “{FACES}” [1].\n\n[1]: {A}\n")
    assert found == [ClaimedQuote(FACES, A, "", "line 4, column 10")]
    assert markdown(f"“{FACES}” [1]\n\n[1] Crows at night. {A}")[0].title == "Crows at night"


@pytest.mark.parametrize(
    ("entry", "url", "title"),
    [
        ("[1]: notes.txt", "notes.txt", ""),
        ("[1]: <my%20notes.txt>", "my%20notes.txt", ""),
        ("[1] file:///data/a%20b.txt", "file:///data/a%20b.txt", ""),
        ("[1]: file:///data/report.pdf#page=3", "file:///data/report.pdf#page=3", ""),
        ("[1] Report title — docs/report.pdf", "docs/report.pdf", "Report title"),
        ("[1] Report title docs/report.pdf", "docs/report.pdf", "Report title"),
        ("[1] Notes, `docs/n.md`.", "docs/n.md", "Notes"),
        ("[1] notes.txt — Field notes", "notes.txt", "Field notes"),
        ("[^1]: [Field notes](docs/notes.txt)", "docs/notes.txt", "Field notes"),
        ("## Sources\n1. report.pdf\n2. other.pdf", "report.pdf", ""),
        ("**Sources:**\n1. annual report.docx", "annual report.docx", ""),
        ("References\n- [1] Birds (birds.html#gifts)", "birds.html", "Birds"),
        ("[1] Notes on crows. notes.txt", "notes.txt", "Notes on crows"),
        ("[^1]: Crows · crows.md · about 10 % down · verified", "", "crows.md"),
    ],
)
def test_numbered_files_are_sources(entry: str, url: str, title: str) -> None:
    [found] = markdown(f"“{FACES}” [1].\n\n{entry}\n")
    assert (found.text, found.url, found.title) == (FACES, url, title)


@pytest.mark.parametrize("entry", ["Smith et al., 2020. Crows.", "Crows"])
def test_a_list_entry_that_names_no_file_is_no_source(entry: str) -> None:
    found = markdown(f"“{FACES}” [1].\n\n[1] {entry}")
    assert found[0].problem == "cites [1], for which the file names no source"


@pytest.mark.parametrize("mark", ["[1-3]", "[1–3]", "[1]–[3]", "［1–3］", "[1, 2 and 3]"])
def test_every_number_of_a_range_is_a_source(mark: str) -> None:
    found = pairs(markdown(f"“{FACES}” {mark}\n\n[1]: a.md\n[2]: b.md\n[3]: c.md\n"))
    assert sorted(found) == [(FACES, "a.md"), (FACES, "b.md"), (FACES, "c.md")]
    assert any(each.problem for each in markdown(f"“{FACES}” {mark}\n\n[1]: a.md\n[3]: c.md\n"))


@pytest.mark.parametrize(
    "mark",
    ["(notes.md)", "[notes.md]", "(`notes.md`)", "(Source: notes.md, p. 3)", "(notes.md:12)"],
)
def test_a_file_in_brackets_is_a_source(mark: str) -> None:
    assert pairs(markdown(f"“{FACES}” {mark}. See [others](others.md).")) == [(FACES, "notes.md")]
    assert pairs(markdown(f"“{FACES}” {mark.replace('.md', '.py')}")) == [(FACES, "")]


@pytest.mark.parametrize("first", ["[Notes](a.md)", "a.md", "Notes · a.md · verified"])
def test_what_stands_below_a_footnotes_first_line_is_from_its_source(first: str) -> None:
    text = f"It is so.[^1]\n\n[^1]: {first}\n\n    > {FACES}\n\n    and “{TOOLS}”\n\n[^2]: b.md"
    sources = {(each.url or each.title) for each in markdown(text) if each.quoted}
    assert sources == {"a.md"}
    assert [each.text for each in markdown(text) if each.quoted] == [FACES, TOOLS]


@pytest.mark.parametrize("name", ["answer.html", "answer"])
def test_an_answer_in_html_is_no_markdown(name: str) -> None:
    link = '<a href="crows.html">crows</a>'
    lines = [
        '<!doctype html><html><head><base href="annex/"><title>It’s</title></head>',
        "<body>",
        "",
        f"    <p>“{FACES}” {link}</p>",
        "",
        f"    <p>`“{TOOLS}” <a href='#n'>[1]</a>` but “{FACES} again” [x](notes.md)</p>",
        '<ol><li id="n">Ravens: <a href="https://b.example/ravens">ravens</a></li></ol>',
    ]
    found = extract_claimed_quotes("\n".join(lines).encode(), name)
    assert [(each.text, each.url, each.where) for each in found if each.quoted] == [
        (FACES, "annex/crows.html", "line 4, column 8"),
        (TOOLS, B, "line 6, column 9"),
        (f"{FACES} again", B, "line 6, column 66"),
    ]


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("../", "../crows.html"),
        ("annex/x.html", "annex/crows.html"),
        ("https://a.example/x/", "https://a.example/x/crows.html"),
        ("/srv/", "/srv/crows.html"),
        ("http://[", "crows.html"),
    ],
)
def test_a_base_is_applied_to_links(base: str, address: str) -> None:
    text = f'<base href="{base}"><p>“{FACES}” <a href="crows.html">crows</a></p>'
    assert pairs(extract_claimed_quotes(text.encode(), "a.html")) == [(FACES, address)]


def test_a_number_without_a_source_is_a_problem() -> None:
    found = markdown(f"“{FACES}” [7]. In [2020] it was [sic] so.")
    assert [(each.text, each.url, each.problem) for each in found] == [
        (FACES, "", "cites [7], for which the file names no source")
    ]


def test_a_sentence_that_cites_without_quoting_is_told_apart() -> None:
    found = markdown(f"They fly. They use tools ([a]({A})). They nest. [Lee]({B}) saw it.")
    assert [(each.text, each.url, each.quoted) for each in found] == [
        ("They use tools.", A, False),
        ("Lee saw it.", B, False),
    ]


CROWS = Page(A, "Crows", "Indeed, Crows remember\nhuman faces for years. They teach their young.")


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        (FACES, ["Crows remember\nhuman faces"]),
        ("crows remember human faces for years...", ["Crows remember\nhuman faces for years"]),
        ("Crows […] teach their young", ["Crows", "teach their young"]),
        ("… human faces … They teach", ["human faces", "They teach"]),
        ("They teach … human faces", []),
        ("Crows forget human faces", []),
        ("…", []),
    ],
)
def test_what_stands_in_a_source(text: str, quotes: list[str]) -> None:
    assert [quote.text for quote in find_quote_pieces(CROWS, text)] == quotes


QUOTE = CROWS.quote(8, 13)
OURS = Answer("Crows.", (QUOTE,), (Claim(0, 5, (0,)),), score=0.5)
ASKED = {"question": {"id": "1", "text": "Who?"}, "stop": "end", "method": "extract", "counts": {}}


def test_our_own_answers() -> None:
    answer = json.loads(OURS.to_json())
    asked = json.dumps({**ASKED, "answer": answer})
    none = json.dumps({**ASKED, "answer": None})
    bare, whole, without = (
        SavedAnswer(OURS),
        SavedAnswer(OURS, "extract"),
        SavedAnswer(None, "extract"),
    )
    assert parse_saved_answers(OURS.to_json().encode()) == [bare]
    assert parse_saved_answers(json.dumps(answer, indent=1).encode()) == [bare]
    assert parse_saved_answers(asked.encode()) == [whole]
    lines = f"\ufeff{asked}\n{none}\n\n{asked}\n"
    assert parse_saved_answers(lines.encode()) == [whole, without, whole]
    assert parse_saved_answers(f"[{asked},{none}]".encode()) == [whole, without]


@pytest.mark.parametrize("text", ["", "# Crows", '{"choices": []}', "[]", "[1](http://x)"])
def test_other_files_hold_none_of_our_answers(text: str) -> None:
    assert parse_saved_answers(text.encode()) is None


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (b'{"a": 1,\n "b": }', "a.json", r"a\.json, line 2, column 7: not JSON"),
        (b'{"role":"assistant","content":""}\n{"role"\n', "a.jsonl", r"a\.jsonl, line 2, column"),
        (b"{'a': 1}", "a", r"a, line 1, column 2: not JSON"),
        (b'{"error": {"message": "no"}}', "a.json", r"a\.json, the answer: no answer of a known"),
        (b"[1, 2]", "a.json", r"a\.json, \[0\]: no answer of a known form"),
        (b"# Crows\n\xff\xfe", "a.md", r"a\.md, line 2: not UTF-8"),
        (b"[" * 200_000, "a.json", r"a\.json, line 1"),
    ],
)
def test_a_broken_file_is_named_with_its_line(data: bytes, name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        extract_claimed_quotes(data, name)


def test_a_broken_answer_of_ours_is_named_with_its_line() -> None:
    bad = OURS.to_json().replace('"score":0.5', '"score":"high"')
    with pytest.raises(ValueError, match=r"ours\.jsonl, line 2: not a whole answer: .*score"):
        parse_saved_answers(f"{OURS.to_json()}\n{bad}\n".encode(), "ours.jsonl")
    with pytest.raises(ValueError, match="line 2: not an answer of Rookery"):
        parse_saved_answers(f'{OURS.to_json()}\n{{"role":"user"}}\n'.encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "“a b c d” " * 10_000,
        '"' * 100_000,
        "> a b c d\n" * 20_000,
        "“a b c d e” [1] " * 10_000,
        "*a" * 50_000,
        "[a](" * 20_000,
        "`" * 50_000,
        "http://" * 10_000,
        "\n" * 100_000,
        "Sources:\n" * 30_000,
        ". " * 100_000,
        "【1" * 50_000,
        "“" + "*a " * 20_000 + "”",
        "[1] a " * 3_000,
        "[a" * 50_000,
        " " * 100_000,
        "a" + " " * 100_000 + "b.",
    ],
    ids=lambda text: text[:12].strip() or "space",
)
def test_no_text_is_slow(text: str) -> None:
    part = text[: len(text) // 16] + text[-2:]
    assert growth_of(lambda times: markdown(part * times), 1) < AT_MOST


def test_a_link_behind_a_block_quotes_marks_is_its_source() -> None:
    blocks = [f"> “{FACES} {n}” [x](https://x.example/{n})\n\n" for n in range(3)]
    claimed = extract_claimed_quotes("".join(blocks).encode(), "answer.md")
    assert [(each.text, each.url) for each in claimed] == [
        (f"{FACES} {n}", f"https://x.example/{n}") for n in range(3)
    ]
    inside = extract_claimed_quotes(f"> “{FACES}” [never]({A}) do.\n".encode(), "answer.md")
    assert [each.text for each in inside] == [f"“{FACES}” never do."]
