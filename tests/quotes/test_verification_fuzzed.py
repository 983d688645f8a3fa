"""Random Markdown and HTML round true and false quotations: what is verified stands in the page.

The oracle compares the words that a reader sees of the answer with those that a reader sees of the
page, one by one, and knows both from how they were made and not from any reader of ours.
"""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rookery.pages.page_reader import read_page
from rookery.quotes.saved_answers import extract_claimed_quotes
from rookery.quotes.verification import check_claimed_quote

URL = "https://mill.example/rules"
WORDS = st.sampled_from(
    "the mill never turns in May may not 12.5 mW MW safe unsafe non-toxic can't 10 Co CO wheel "
    "and sold Polish polish a".split()
)
PAGE_WORDS = ("{}", "<b>{}</b>", "<a href='#n'>{}</a>", "<i><u>{}</u></i>", "<!-- not -->{}")
UNSEEN_IN_PAGE = ("<span hidden>never</span>", "<del>not</del>", "<!-- safe -->", "<wbr>")
BLOCKS = ("<p>{}</p>", "<h2>{}</h2>", "<ul><li>{}</li></ul>", "<table><tr><td>{}</td></tr></table>")
ANSWER_WORDS = (
    "{}", "*{}*", "**{}**", "`{}`", "[{}](#f)", "<b>{}</b>", "{}<!-- not -->", "<i>{}</i>",
)  # fmt: skip
UNSEEN_IN_ANSWER = (
    "<!-- never -->", "<span hidden>not</span>", "~~unsafe~~", "<del>never</del>", "![not](a.png)",
)  # fmt: skip
MARKS = (
    "“{}” [1]", '"{}" [1]', "„{}“ [1]", "«{}» [1]", "＂{}＂ [1]", "<q>{}</q> [1]", "❝{}❞ [1]",
    "“<i>{}</i>” [1]", '" {} " [1]', "> {}\n\n[1]", "> {} [1]", "- “{}” [1]",
    "<blockquote>{}</blockquote>\n\n[1]",
)  # fmt: skip


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, list[tuple[str, bool]]]:
    """HTML, and the words that a reader sees; with True the last of a block that no sign ends.

    A paragraph may go on in the next one, in small letters.
    """
    html, shown, before = "", list[tuple[str, bool]](), ""
    for _ in range(draw(st.integers(1, 3))):
        words, sign = (
            draw(st.lists(WORDS, min_size=3, max_size=7)),
            draw(st.sampled_from(["", "."])),
        )
        words[-1] += sign
        pieces = []
        for word in words:
            pieces += [draw(st.sampled_from(UNSEEN_IN_PAGE))] * (draw(st.integers(0, 7)) == 0)
            pieces.append(draw(st.sampled_from(PAGE_WORDS)).format(word))
        block = draw(st.sampled_from(BLOCKS))
        if block == before == "<p>{}</p>" and shown[-1][0][-1].islower() and words[0][0].islower():
            shown[-1] = shown[-1][0], False
        html, before = html + block.format(" ".join(pieces)), block
        shown += [(word, n == len(words) and not sign) for n, word in enumerate(words, 1)]
    return html, shown


@st.composite
def quotations(draw: st.DrawFn, shown: list[str]) -> tuple[str, list[str]]:
    """Markdown of a quotation, and the words of it that a reader sees."""
    start = draw(st.integers(0, len(shown) - 3))
    words = shown[start : draw(st.integers(start + 3, len(shown)))]
    at, other = draw(st.integers(0, len(words) - 1)), draw(WORDS)
    change = draw(st.sampled_from(["none"] * 4 + ["drop", "put", "add", "case", "cut", "swap"]))
    if change in ("drop", "put"):
        words[at : at + 1] = [other] * (change == "put")
    elif change == "add":
        words.insert(at, other)
    elif change == "case":
        words[at] = words[at].swapcase()
    elif change == "cut":
        words[at] = words[at][draw(st.integers(0, 1)) : len(words[at]) - 1] or "a"
    elif change == "swap":
        words[at], words[0] = words[0], words[at]
    pieces, gap = [], draw(st.sampled_from([" ", " ", "\n"]))
    for word in words:
        # A comment that begins a line is a block of its own.
        unseen = draw(st.sampled_from(UNSEEN_IN_ANSWER if gap == " " else UNSEEN_IN_ANSWER[1:]))
        pieces += [unseen] * (draw(st.integers(0, 7)) == 0)
        pieces.append(draw(st.sampled_from(ANSWER_WORDS)).format(word))
    marks = draw(st.sampled_from(MARKS))
    body = gap.join(pieces).replace("\n", "\n> " if marks.startswith(">") else "\n")
    return f"So: {marks.format(body)}" if marks[0] not in ">-<" else marks.format(body), words


def stands_in(words: list[str], shown: list[tuple[str, bool]]) -> bool:
    """Whether the page shows these words in a row, and no block ends unseen between them."""
    for start in range(len(shown) - len(words) + 1):
        part = shown[start : start + len(words)]
        first, last = (part[0][0], words[0]), (part[-1][0], words[-1])
        inner = [word for word, _ in part[1:-1]] == words[1:-1]
        begins = first[0] == first[1] or first[0].swapcase()[:1] + first[0][1:] == first[1]
        ends = (
            last[0] == last[1] or last[0] == last[1].rstrip(".") or last[0].rstrip(".") == last[1]
        )
        if inner and begins and ends and not any(silent for _, silent in part[:-1]):
            return True
    return False


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(pages(), st.data())
def test_what_is_verified_is_what_both_readers_see(
    page: tuple[str, list[tuple[str, bool]]], data: st.DataObject
) -> None:
    html, shown = page
    markdown, words = data.draw(quotations([word for word, _ in shown]))
    assume(len(words) > 2)
    stored = read_page(html.encode(), URL, "text/html")
    claims = extract_claimed_quotes(f"{markdown}\n\n[1]: {URL}\n".encode(), "answer.md")
    verdicts = [check_claimed_quote(each, [stored]) for each in claims if each.quoted]
    verified = [each for each in verdicts if each.verified]
    if verified:
        assert stands_in(words, shown), (html, markdown, verified)
        assert verified[0].claimed.text.split() == words
