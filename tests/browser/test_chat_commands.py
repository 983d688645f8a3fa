"""Replies of chat models read as commands, and the state that they are shown."""

import pytest
from little import opened

from rookery.browser.browser_commands import BrowserRules, parse_command
from rookery.browser.chat_commands import read_chat_commands, render_browsing_turn

SHOWN = """\
Rooks build nests.

They take sticks from 【4†neighbours†a.org】.
Search for food is hard.

Back to the nest they bring "food"."""


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("**Search rook nests**", "Search rook nests"),
        ("**Search:** rook nests", "Search rook nests"),
        ("Search: rook nests", "Search rook nests"),
        ("- Search rook nests", "Search rook nests"),
        ('Search for "rook nests"', "Search rook nests"),
        ("Action: Search rook nests", "Search rook nests"),
        ("Then: **Search rook nests**", "Search rook nests"),
        ("Sure! I'll start by searching.\n\nSearch rook nests", "Search rook nests"),
        ("Clicked on link [4]", "Clicked on link 4"),
        ("Clicked on link 4.", "Clicked on link 4"),
        ("Click on link 4", "Clicked on link 4"),
        ("Click on link 4 (neighbours)", "Clicked on link 4"),
        ("Open 【4†neighbours†a.org】", "Clicked on link 4"),
        ("Scroll down 1", "Scrolled down 1"),
        ("Scrolled down", "Scrolled down 1"),
        ("scroll up by 2 pages", "Scrolled up 2"),
        ('Find in page "sticks"', "Find in page: sticks"),
        ("Find: sticks", "Find in page: sticks"),
        ("```\nGo back\n```", "Back"),
        ("Go to the top.", "Top"),
        ("End: Answer.", "End: Answer"),
        ("End: Nonsense", "End: Nonsense"),
        ("NOT FOUND: no page says it.", "End: Answer"),
        ('Quote: "Rooks build nests."', "Quote: Rooks build nests."),
        ("Quote: 1| Rooks build nests.", "Quote: Rooks build nests."),
        ("Quote:\n```\nRooks build nests.\n```", "Quote: Rooks build nests."),
        ("Quote: Rooks build … neighbours.", "Quote: Rooks build━neighbours."),
    ],
)
def test_near_misses_of_a_command_are_that_command(reply: str, command: str) -> None:
    assert read_chat_commands(reply, SHOWN) == [command]
    assert parse_command(command) is not None


def test_a_quote_of_several_paragraphs_is_whole_and_free_text_below_is_left_out() -> None:
    reply = (
        "Here it is:\n\nQuote: Rooks build nests.\n\nThey take sticks from neighbours.\n"
        'Search for food is hard.\n\nBack to the nest they bring "food".\n\nThis answers it.'
    )
    (command,) = read_chat_commands(reply, SHOWN)
    assert command.startswith("Quote: Rooks build nests.\n\nThey take")
    assert command.endswith('is hard.\n\nBack to the nest they bring "food')


@pytest.mark.parametrize(
    ("reply", "commands"),
    [
        ("Quote: Rooks\nQuote: Food\nfinish {}", ["Quote: Rooks", "Quote: Food", "End: Answer"]),
        ("1. Search nests\n2. Click on link 3", ["Search nests", "Clicked on link 3"]),
        (
            'I look.\nsearch {"query": "nests"}\nopen {"link": 4}\nSearch is hard',
            ["Search nests", "Clicked on link 4"],
        ),
        ('<tool_call>\n{"name": "find", "arguments": {"text": "x"}}', ["Find in page: x"]),
        ('scroll {"direction": "up", "times": 9}\nback {}', ["Scrolled up 3", "Back"]),
        ('quote {"first": "Rooks", "last": "a b"}\ntop {}', ["Quote: Rooks━a b", "Top"]),
        ('quote {"text": "Rooks\nbuild"}\nfinish {}', ["Quote: Rooks\nbuild", "End: Answer"]),
    ],
)
def test_all_commands_of_a_reply_are_read_in_order(reply: str, commands: list[str]) -> None:
    assert read_chat_commands(reply, SHOWN) == commands


@pytest.mark.parametrize("lines", ['"3-4"', "[3, 4]", '"lines 3 to 4"'])
def test_shown_lines_are_quoted_by_their_numbers(lines: str) -> None:
    commands = read_chat_commands(f'quote {{"lines": {lines}}}', SHOWN)
    assert commands == ["Quote: " + "\n".join(SHOWN.splitlines()[2:4])]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I will search for it, and then open link 4 of the page.",
        "Search results show that rooks build nests.",
        "Top of the page is a heading.",
        "Open 4 windows",
        "Clicked on link 4.5",
        'open {"link": "the first"}',
        "open {}",
        'quote {"lines": "90"}',
        'search {"query": ',
        '{"name": "fly", "arguments": {}}',
        '{"name": [], "arguments": {"a": 1}}',
        '{"name": ' * 3000,
        "Quote:",
    ],
)
def test_what_is_no_command_is_given_as_none(reply: str) -> None:
    (command,) = read_chat_commands(reply, SHOWN)
    assert command.startswith("(none)")
    assert parse_command(command) is None


@pytest.mark.parametrize("junk", ["* ", "search ", "> ", '{"name" ', "1. ", "x\n", "find: "])
def test_long_junk_is_read_in_linear_time(junk: str) -> None:
    assert read_chat_commands(junk * 20_000, SHOWN)


PAGE = "".join(f"<p>Paragraph {n} is about <a href='/x{n}'>rooks</a>.</p>" for n in range(40))
RULES = BrowserRules(window=400, before=60)


def test_a_turn_shows_numbered_lines_and_what_the_last_reply_did() -> None:
    seen = opened(PAGE, ["Find in page: Paragraph 20"], RULES)
    turn = render_browsing_turn(seen, ["Back → there is ♦ no page"])
    lines = turn.splitlines()
    assert lines[lines.index("♦Text") + 1].startswith("1| Paragraph 1")
    assert lines[-4:-2] == ["♦Last reply", "- Back → there is ◆ no page"]
    assert lines[-2].startswith("♦Actions left: ")
    assert "Last reply" not in render_browsing_turn(seen, [])


def test_find_shows_what_stands_before_and_lists_the_places() -> None:
    seen = opened(PAGE, ["Find in page: Paragraph 20"], RULES)
    assert "Paragraph 19" in seen.text
    assert "Paragraph 20" in seen.text
    assert seen.effect.startswith("1 on the page\n  49 %: …")
    every = opened(PAGE, ["Find in page: about rooks"], RULES).effect.splitlines()
    assert (every[0], len(every)) == ("40 on the page", 9)
    assert opened(PAGE, ["Find in page: Paragraph 20"], BrowserRules(window=400)).effect == ""


def test_quotes_are_numbered_in_what_is_told() -> None:
    assert opened(PAGE, ["Quote: Paragraph 3 is about rooks."]).effect == "quoted as [1]"
