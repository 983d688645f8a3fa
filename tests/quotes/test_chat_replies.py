"""Replies of chat models: what stands around the answer is taken off, and all else is kept."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.quotes.chat_replies import list_hidden_spans, read_chat_reply, strip_wrapping
from rookery.quotes.citation_syntax import insert_marks
from rookery.records import Answer, Page, Quote

REFERENCES = [
    Page(f"https://a.example/{name}", name, f"{name} build nests.").quote(0, len(name))
    for name in ("Rooks", "Crows", "Ravens", "Jay's", "Choug")
]


def mark(answer: Answer) -> str:
    """The answer with the numbers of the references behind its claims."""

    def number(quote: Quote) -> int:
        return REFERENCES.index(quote) + 1

    return insert_marks(
        answer, lambda claim: "".join(f"[{number(answer.quotes[n])}]" for n in claim.quotes)
    )


@pytest.mark.parametrize(
    "cited",
    [
        *("[1][3]", "[1, 3]", "[1,3]", "[1; 3]", "[1 and 3]", "[1] [3]", "[1], [3]", "[1]; [3]"),
        *("【1】【3】", "【1†source】【3†L1-L4】", "[^1][^3]", "[^1^][^3^]", "[Reference 1, 3]"),
        *("[References 1 and 3]", "(Reference [1], [3])", "(see [1][3])", "(References 1 and 3)"),
        *("[[1]](#one)[[3]](#three)", "[1](https://a.example/x)[3](#y)", "^[1]^[3]"),
        *("<sup>[1][3]</sup>", "<sup>[1, 3]</sup>"),
        *("**[1][3]**", "*[1]*[3]", "<cite>[1]</cite>[3]", "［1］〔3〕", "[♦1][♦Reference [3]]"),
        *("[1, p. 4][3, section 2.1]", "[1†L3-L5][3†a]", "[ref: 1] [Referenz 3]", "(cf. [1], [3])"),
        *("[Source 1][Source 3]", "[#1][#3]", r"\[1\]\[3\]", "(Ref. 1, 3)", "[ref 1][doc 3]"),
    ],
)
@pytest.mark.parametrize("space", ["", " "])
def test_every_form_of_two_citations_is_read(cited: str, space: str) -> None:
    space = space or " " * cited.startswith("(")
    reply = read_chat_reply(f"Rooks nest early{space}{cited}. Jays do not [2].", REFERENCES)
    assert mark(reply.answer) == "Rooks nest early[1][3]. Jays do not[2]."
    assert reply.answer.text == "Rooks nest early. Jays do not."
    first, second = reply.answer.claims
    assert (first.start, first.end, first.quotes) == (0, 16, (0, 1))
    assert (second.start, second.quotes) == (18, (2,))
    assert reply.unknown == ()


def test_raised_numbers_behind_a_full_stop_are_citations() -> None:
    text = "They nest.¹ Of 10² m or 5<sup>2</sup> m.<sup>3</sup>"
    assert mark(read_chat_reply(text, REFERENCES).answer) == (
        "They nest.[1] Of 10² m or 5<sup>2</sup> m.[3]"
    )


def test_footnotes_cite_the_references_that_they_name() -> None:
    text = "Rooks nest[^1], jays hide[^2].\n\n[^1]: Reference [3], line 2\n[^2]: see [5]"
    assert mark(read_chat_reply(text, REFERENCES).answer) == "Rooks nest[3], jays hide[5]."


def test_marks_behind_a_code_block_leave_it_closed() -> None:
    for space in (" ", "\n", "\n\n"):
        answer = read_chat_reply(
            f"Run:\n```sh\nls a[2]\n```{space}[1]\nDone [3].", REFERENCES
        ).answer
        assert "```sh\nls a[2]\n```\n[1]" in mark(answer)
        first, second = answer.claims
        assert answer.text[first.start : first.end] == "```sh\nls a[2]\n```\n"
        assert answer.text[second.start : second.end] == "Done"


def test_a_citation_on_a_line_of_its_own_belongs_to_what_stands_above() -> None:
    answer = read_chat_reply("Rooks nest [1]\n[2]\n\nJays hide [3]", REFERENCES).answer
    assert [claim.quotes for claim in answer.claims] == [(0, 1), (2,)]


def test_a_range_is_all_its_numbers() -> None:
    assert mark(read_chat_reply("They nest [2]–[4].", REFERENCES).answer) == "They nest[2][3][4]."
    assert mark(read_chat_reply("They nest [2-4] [1–2].", REFERENCES).answer) == (
        "They nest[2][3][4][1]."
    )


def test_code_links_formulas_and_tables_keep_every_character() -> None:
    text = (
        "Use `a[1]` and ``b`[2]`` as $$x[3]$$ or \\(y[1]\\) in [the manual](m.html#[2]) [1]:\n\n"
        "```sql\nSELECT json_extract('[11,22,33]', '$[1]');\n```\n\n"
        "- item [2]\n\n      code[3]\n\n"
        "| a | b |\n|---|---|\n| lz4 [1] | `c[4]` |\n"
        "https://a.example/[3] and list[0] and items[1] = 5, in [2019], $x[2]$ and [0-9],"
        " <code>a[1]</code>."
    )
    reply = read_chat_reply(text, REFERENCES)
    assert mark(reply.answer) == re.sub(r" (\[[12]\])(?=:|\n| \|)", r"\1", text)
    assert [claim.quotes for claim in reply.answer.claims] == [(0,), (1,), (0,)]
    assert reply.unknown == ()


def test_a_number_that_no_reference_has_is_left_out_and_told() -> None:
    reply = read_chat_reply("Rooks nest [1][9]. Jays, too [7].", REFERENCES)
    assert reply.answer.text == "Rooks nest. Jays, too."
    assert mark(reply.answer) == "Rooks nest[1]. Jays, too."
    assert reply.unknown == (9, 7)


def test_a_citation_within_its_sentence_keeps_its_words_and_the_right_number() -> None:
    text = "Jays hide [4]. According to Reference 1, rooks nest. Source [2] differs. So what?"
    answer = read_chat_reply(text, REFERENCES).answer
    assert answer.text == (
        "Jays hide. According to Reference [2], rooks nest. Source [3] differs. So what?"
    )
    words = [answer.text[claim.start : claim.end] for claim in answer.claims]
    assert words[1:] == ["According to Reference [2], rooks nest.", "Source [3] differs."]
    assert [claim.quotes for claim in answer.claims] == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    "text",
    [
        "The report references 5 studies",
        "The annex (document 3) holds the plan",
        "It is stated in the document",
        "It has no sources",
        "Crows feed (in winter)",
        "See section [1.2], [A] and page (3)",
    ],
)
def test_words_that_look_like_a_citation_stay(text: str) -> None:
    answer = read_chat_reply(f"{text} [1].", REFERENCES).answer
    assert (answer.text, [claim.quotes for claim in answer.claims]) == (f"{text}.", [(0,)])


def test_a_citation_that_is_the_subject_or_object_of_its_sentence_stays_in_it() -> None:
    text = "[3] says so. See [1] for more. Jays hide [2]; [4] contradicts it."
    answer = read_chat_reply(text, REFERENCES).answer
    assert answer.text == "[1] says so. See [2] for more. Jays hide; [4] contradicts it."
    assert [claim.quotes for claim in answer.claims] == [(0,), (1,), (2,), (3,)]


def test_a_number_in_a_sentence_that_no_reference_has_leaves_no_gap() -> None:
    reply = read_chat_reply("Reference [99] says so [1].", REFERENCES)
    assert (reply.answer.text, reply.unknown) == ("Reference says so.", (99,))


def test_marks_on_both_sides_of_a_full_stop_are_of_one_claim() -> None:
    answer = read_chat_reply("Rooks nest early [1].[3] Jays do not [2].", REFERENCES).answer
    assert mark(answer) == "Rooks nest early.[1][3] Jays do not[2]."


def test_a_citation_ahead_of_its_sentence_belongs_to_it() -> None:
    answer = read_chat_reply("- [2] Rooks nest. Early.\n- [3] Jays hide", REFERENCES).answer
    assert mark(answer) == "- Rooks nest.[2] Early.\n- Jays hide[3]"
    answer = read_chat_reply("[2] Rooks nest. [3] Jays hide. [1]", REFERENCES).answer
    assert mark(answer) == "Rooks nest.[2] Jays hide.[3][1]"


WHOLE = "Rooks nest early [1]."


@pytest.mark.parametrize(
    "reply",
    [
        f"```\n{WHOLE}\n```",
        f"```markdown\nAnswer: {WHOLE}\n```\n",
        f"Answer: {WHOLE}",
        f"**Answer:** {WHOLE}",
        f"## Answer\n{WHOLE}",
        f"Sure! Based on the references provided, here is the answer to your question:\n\n{WHOLE}",
        f"{WHOLE}\n\nI hope this helps! Let me know if you have any other questions.",
        f"{WHOLE}\n\nReferences:\n[1] Rooks build nests.\n[2] Crows do, too.",
        f"{WHOLE}\n\n**Sources**\n\n1. Rooks\n2. Crows\n",
        f"{WHOLE}\n\n[1]: https://a.example/Rooks\n[2]: https://a.example/Crows",
        f"{WHOLE} []",
        f"Here is the answer to your question:\n{WHOLE}",
        f"Based on the provided documents, here's what I found:\n\n{WHOLE}",
        "Rooks nest early [1] ().",
        f"Apologies for the oversight! {WHOLE}",
        f"I'm sorry about the missing citation.\n\n{WHOLE}",
    ],
)
def test_what_stands_around_an_answer_is_taken_off(reply: str) -> None:
    assert strip_wrapping(reply) == WHOLE


@pytest.mark.parametrize(
    "reply",
    [
        "Use this [1]:\n\n```\nborg prune\n```",
        "```\nborg prune --list\n```",
        "Sure, they nest early [1].",
        "Call `f()` or `a[]`, with `()` [1].",
        "The sources:\n\n- rooks [1]\n- crows [2]",
        "- [ ] a task [1]\n- [x](y) another",
        "1. Open it [1].\n2. Close it [2].",
        "Great tits nest in boxes:\n\n- in parks [1]",
        "Here are the three steps:\n\n1. Open it [1].",
        "According to the rules of 2024:\n\n- no dogs [1]",
        "Ask first [1].\n\nIf you need any of these, call the office.",
        "Hide it [1].\n\nFeel free to feed them.",
    ],
)
def test_what_belongs_to_an_answer_stays(reply: str) -> None:
    assert strip_wrapping(reply) == reply


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("NOT FOUND: they say nothing of rooks.", True),
        (
            "The provided references do not contain information on rooks. They only touch on X.",
            True,
        ),
        ("I'm sorry, but the references do not say when. They only mention nests [1].", True),
        ("I could not find this in the references.", True),
        ("There is no information about rooks in the documents.", True),
        ("None of the references mention the price.", True),
        ("Unfortunately, the answer is not stated there.", True),
        ("The references do not give a number, but rooks nest early [1].", False),
        ("Based on the references provided, I cannot determine the price.", True),
        ("According to the references, there's no mention of rooks.", True),
        ("The answer to this question isn't in the references.", True),
        ("This information is not available in the documents.", True),
        ("No information about rooks is given in the references.", True),
        ("I'm afraid the documents don't say.", True),
        ("I'm sorry, but I can't assist with that request.", True),
        ("After reviewing all references, I found no mention of rooks.", True),
        ("Nothing in the references addresses rooks.", True),
        ("Neither reference mentions rooks.", True),
        ("Not mentioned in the references.", True),
        ("It's not possible to answer this from the references.", True),
        ("NICHT GEFUNDEN: nichts.", True),
        ("未找到：没有。", True),
        ("Not specified means the default [1].", False),
        ("Not found errors are returned for it [1].", False),
        ("I can't say it better: they nest [1].", False),
        ("No, the documentation names no limit, and there is none [1].", False),
        ("It cannot be answered with yes or no: it depends [1].", False),
        ("No. Rooks do not nest [1].", False),
        ("The documentation does not mention rooks. It only lists crows [1].", True),
        ("Unfortunately, none of the references says anything about it. Jays hide [1].", True),
        ("The references do not give a number. However, they nest in hundreds [1].", False),
        ("The documents do not need to be signed [1].", False),
        ("They do not say goodbye when they leave the page [2].", False),
        ("I do not know of a bird that does it better [3].", False),
        ("There is no reason to feed rooks [1].", False),
        ("The file does not include comments. Add them with # [1].", False),
        ("It is not given to birds under 2 kg.", False),
        ("The documents do not have to be signed.", False),
    ],
)
def test_a_refusal_is_told_from_an_answer(text: str, refuses: bool) -> None:
    assert read_chat_reply(text, REFERENCES).refuses == refuses


@example("```")
@given(st.text("ab .,[]()^\\`$1239-–|\n#*【】†"))
def test_any_text_is_read_and_words_are_never_lost(text: str) -> None:
    answer = read_chat_reply(text, REFERENCES).answer
    ends = [0, *(claim.end for claim in answer.claims)]
    assert ends == sorted(ends)
    assert all(claim.quotes for claim in answer.claims)
    assert re.findall("[ab]", answer.text) == re.findall("[ab]", strip_wrapping(text))
    shown = [text[low:high] for low, high in list_hidden_spans(text)]
    assert all(low < high <= len(text) for low, high in list_hidden_spans(text)), shown
