"""What small models choose from: read from the prompt, and wide enough for demonstrators."""

from recipes.oracle_policies import NO_ANSWER, list_candidate_actions
from rookery.browser.browser_commands import (
    format_answer_prompt,
    format_prompt_foot,
    format_prompt_head,
)
from rookery.records import Quote

ASKED = "When was the mill built?"
SENTENCE = "The old mill on the river was built in 1707 by Ann Lee."


def state(title: str, text: str, quoted: str = "") -> str:
    return format_prompt_head(ASKED, quoted, "", title, (0, 100)) + text + format_prompt_foot(3)


def referring(text: str) -> str:
    return format_answer_prompt(ASKED, [("Ashby", Quote("u", "Ashby", "d", 0, len(text), text))])


def test_before_the_first_page_only_searches_are_offered() -> None:
    assert list_candidate_actions(state("", "")) == [
        "Search When was the mill built?",
        "Search when was the mill built",
        "Search mill built",
    ]


def test_every_link_of_the_results_can_be_clicked_on() -> None:
    found = list_candidate_actions(
        state("Search results for: mill", "【0†Ashby】\nA mill.\n\n【1†Mills】\nMore.")
    )
    assert [each for each in found if each.startswith("Click")] == [
        "Clicked on link 0",
        "Clicked on link 1",
    ]


def test_each_sentence_of_a_page_can_be_quoted_whole_or_abbreviated() -> None:
    found = list_candidate_actions(
        state("Ashby", f"Ashby\n{SENTENCE} It is 【2†mended】 now and then by all.")
    )
    quotes = {each.removeprefix("Quote: ") for each in found if each.startswith("Quote")}
    assert quotes == {
        SENTENCE,
        "The old mill━by Ann Lee.",
        "It is mended now and then by all.",
    }


def test_browsing_can_end_once_something_is_quoted() -> None:
    assert "End: Answer" not in list_candidate_actions(state("Ashby", SENTENCE))
    assert "End: Answer" in list_candidate_actions(
        state("Ashby", SENTENCE, "From Ashby\n> A mill.\n")
    )


def test_an_answer_is_a_number_or_a_name_that_a_quote_holds() -> None:
    found = list_candidate_actions(referring(SENTENCE))
    assert {"1707 [1].", "The answer is Ann Lee [1].", "According to “Ashby”, 1707 [1]."} < set(
        found
    )
    assert all(each.endswith(" [1].") for each in found)
    assert len(found) == len(set(found)) == 3 * len(("The", "1707", "Ann Lee"))


def test_where_no_quote_holds_any_it_can_be_said_that_nothing_was_found() -> None:
    assert list_candidate_actions(referring("nothing of the kind")) == [NO_ANSWER]
