"""Many samples at once: each a quote of the page that it was shown, each question its own."""

from pathlib import Path

import pytest
from small import PAGES, TEXTS

from recipes.policy_samples import (
    QuotedSample,
    build_quote_prompt,
    make_search_prompts,
    sample_quoted_answers,
)
from recipes.rewards import cache_scores
from rookery.learn.decoding import SamplingSettings
from rookery.learn.random_models import write_tiny_model
from rookery.library.search_index import InMemoryLibrary
from rookery.quotes.citation_syntax import AnswerShape
from rookery.records import Answer, Question

ASKED = [
    Question("c", "What can a crow remember?"),
    Question("m", "What do magpies hide?"),
    Question("n", "zzz"),
]
SHAPE = AnswerShape(longest=60, free=24)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quoted")
    write_tiny_model(folder, TEXTS, 400, 1024)
    return folder


@pytest.fixture(scope="module")
def sample_policy(policy: Path) -> list[list[QuotedSample]]:
    return sample_quoted_answers(
        policy,
        ASKED,
        make_search_prompts(InMemoryLibrary(PAGES), 1),
        3,
        SamplingSettings(80),
        SHAPE,
        5,
    )


def test_each_answer_quotes_the_page_that_its_question_finds(
    sample_policy: list[list[QuotedSample]],
) -> None:
    assert [len(some) for some in sample_policy] == [3, 3, 0]
    for page, some in zip(PAGES, sample_policy, strict=False):
        for one in some:
            assert one.answer is not None
            [quote] = one.answer.quotes
            assert page.quote(quote.start, quote.end) == quote
            assert len(quote.text) <= 60
            assert -500 < one.logprob < 0


def test_the_pages_of_a_question_take_turns(policy: Path) -> None:
    both = make_search_prompts(InMemoryLibrary(PAGES), 2)
    assert len(both(Question("b", "Do crows and magpies hide food in a mirror?"))) == 2
    asked = [Question("b", "Do crows and magpies hide food in a mirror?")]
    [some] = sample_quoted_answers(policy, asked, both, 4, SamplingSettings(80), SHAPE, 0)
    urls = [one.answer.quotes[0].url for one in some if one.answer]
    assert len(urls) == 4
    assert urls[:2] == urls[2:] != urls[1::-1]


def test_the_prompt_is_the_papers_for_models_that_were_taught() -> None:
    asked = build_quote_prompt(ASKED[0], PAGES[0])
    assert asked.quoted_document == (PAGES[0].title, PAGES[0].text)
    assert asked.prompt == (
        f"Page: Crow\n{PAGES[0].text}\nQuestion: What can a crow remember?\nAnswer: "
    )


def test_the_same_seed_draws_the_same(
    policy: Path, sample_policy: list[list[QuotedSample]]
) -> None:
    again = sample_quoted_answers(
        policy,
        ASKED,
        make_search_prompts(InMemoryLibrary(PAGES), 1),
        3,
        SamplingSettings(80),
        SHAPE,
        5,
    )
    other = sample_quoted_answers(
        policy,
        ASKED,
        make_search_prompts(InMemoryLibrary(PAGES), 1),
        3,
        SamplingSettings(80),
        SHAPE,
        6,
    )
    assert again == sample_policy
    assert other != sample_policy


def test_what_was_scored_is_not_scored_again() -> None:
    asked: list[str] = []

    def scores(pairs: object) -> list[float]:
        asked.extend(answer.text for _, answer in pairs)  # type: ignore[attr-defined]
        return [float(len(answer.text)) for _, answer in pairs]  # type: ignore[attr-defined]

    score = cache_scores(scores)
    pairs = [(ASKED[0], Answer(text)) for text in ("a", "bb", "a")]
    assert score(pairs) == [1.0, 2.0, 1.0]
    assert score([(ASKED[0], Answer("bb")), (ASKED[1], Answer("bb"))]) == [2.0, 2.0]
    assert asked == ["a", "bb", "bb"]
    assert score([]) == []
