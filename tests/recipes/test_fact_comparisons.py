"""Comparisons from fact-checking data: four kinds, each with slices of real pages for evidence."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recipes.fact_comparisons import (
    FactClaim,
    FactComparison,
    FactSettings,
    WikiPage,
    make_fact_comparisons,
    make_question_writer,
    read_fever_claims,
    read_fever_pages,
)
from rookery.errors import Failed
from rookery.quotes.citation_syntax import parse_numbered, render_numbered
from rookery.records import Comparison, Completion

Group = list[tuple[str | None, int | None]]


def claim(
    number: int, text: str, label: str, *evidence: list[tuple[str | None, int | None]]
) -> str:
    groups = [[[1, 2, title, sentence] for title, sentence in group] for group in evidence]
    fields = {"id": number, "verifiable": "?", "label": label, "claim": text, "evidence": groups}
    return json.dumps(fields)


CLAIMS = [
    claim(1, "Roman Atwood is a content creator.", "SUPPORTS", [("Roman_Atwood", 0)]),
    claim(
        2,
        "The Soul is a river in Oklahoma",
        "REFUTES",
        [("Soul_-LRB-river-RRB-", 0), ("Soul_-LRB-river-RRB-", 2)],
        [("Soul_-LRB-river-RRB-", 2)],
    ),
    claim(3, "Tilda Swinton is a vegan.", "NOT ENOUGH INFO", [(None, None)]),
    claim(4, "Café Noir is a film.", "SUPPORTS", [("Cafe\u0301_Noir", 0), ("Roman_Atwood", 1)]),
    claim(5, "Nobody wrote this page.", "SUPPORTS", [("Nowhere", 0)]),
]


def page(name: str, *sentences: str) -> str:
    lines = "\n".join(f"{n}\t{each}\tlink\tlink" for n, each in enumerate(sentences))
    return json.dumps({"id": name, "text": " ".join(sentences), "lines": lines})


PAGES = [
    page("Roman_Atwood", "Roman Atwood makes videos -LRB- vlogs -RRB- .", "He saw Café Noir ."),
    page("Soul_-LRB-river-RRB-", "The Soul is a river .", "", "It flows through Kansas ."),
    page("Café_Noir", "Café Noir is a film of 2009 ."),
    page("Kestrel", "The kestrel hovers .", "It eats voles ."),
    page("Empty"),
]


@dataclass
class World:
    facts: list[FactClaim]
    left_out: Counter[str]
    wiki: dict[str, WikiPage]


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "claims.jsonl").write_text("\n".join(CLAIMS))
    (tmp_path / "wiki-001.jsonl").write_text("\n".join(PAGES[:2]))
    (tmp_path / "wiki-002.jsonl").write_text("\n".join(PAGES[2:]))
    facts, left_out = read_fever_claims(tmp_path / "claims.jsonl")
    paths = sorted(tmp_path.glob("wiki-*.jsonl"))
    return World(facts, left_out, read_fever_pages(paths, facts))


def by_kind(comparisons: Sequence[FactComparison], number: int) -> dict[str, Comparison]:
    return {
        each.comparison.by.removeprefix("facts/"): each.comparison
        for each in comparisons
        if each.comparison.question.id.startswith(f"{number}/")
    }


def better(comparison: Comparison) -> tuple[str, list[str]]:
    """The preferred answer's text, and its quotes'."""
    answer = comparison.answers[comparison.weights.index(1.0)]
    return answer.text, [quote.text for quote in answer.quotes]


def worse(comparison: Comparison) -> tuple[str, list[str]]:
    answer = comparison.answers[comparison.weights.index(0.0)]
    return answer.text, [quote.text for quote in answer.quotes]


YES = ("Yes.", "This is correct.", "It is true.")
NO = ("No.", "This is not correct.", "It is not true.")


def test_a_supported_claim_becomes_the_four_kinds(world: World) -> None:
    made, _ = make_fact_comparisons(world.facts, world.wiki)
    kinds = by_kind(made, 1)
    evidence = ["Roman Atwood makes videos ( vlogs ) ."]
    text = "Roman Atwood is a content creator"
    assert better(kinds["A"])[0] in YES
    assert worse(kinds["A"])[0] in NO
    assert better(kinds["A"])[1] == worse(kinds["A"])[1] == evidence
    assert kinds["A"].question.text in (
        f"{text}?",
        f"Is it true that {text}?",
        f"Is it correct to say that {text}?",
        f"{text}. Do you agree?",
    )
    assert better(kinds["B"]) == (f"{text}.", evidence)
    assert worse(kinds["B"]) == (f"It is not true that {text}.", evidence)
    assert kinds["B"].question.text == "What can be said about Roman Atwood?"
    assert better(kinds["A2"])[0] == worse(kinds["A2"])[0]
    assert better(kinds["A2"])[0] in YES
    assert better(kinds["B2"]) == (f"{text}.", evidence)
    assert worse(kinds["B2"])[0] == f"{text}."
    for kind in ("A2", "B2"):
        assert better(kinds[kind])[1] == evidence
        assert worse(kinds[kind])[1] != evidence


def test_of_a_refuted_claim_the_denial_is_true(world: World) -> None:
    made, _ = make_fact_comparisons(world.facts, world.wiki)
    kinds = by_kind(made, 2)
    # Of two groups of evidence the shorter is enough. The empty sentence before it is counted.
    evidence = ["It flows through Kansas ."]
    denial = "It is not true that The Soul is a river in Oklahoma."
    assert better(kinds["A"])[0] in NO
    assert better(kinds["B"]) == (denial, evidence)
    assert worse(kinds["B"]) == ("The Soul is a river in Oklahoma.", evidence)
    assert better(kinds["B2"]) == (denial, evidence)
    assert worse(kinds["B2"])[0] == denial


def test_what_cannot_be_used_is_counted(world: World) -> None:
    assert world.left_out == {"claims without evidence for or against them": 1}
    made, left_out = make_fact_comparisons(world.facts, world.wiki)
    assert left_out == {"claims whose evidence is on no page that was read": 1}
    assert len(made) == 3 * 4


def test_evidence_of_two_pages_is_two_quotes_and_accents_are_found(world: World) -> None:
    made, _ = make_fact_comparisons(world.facts, world.wiki, FactSettings(("B2",)))
    [comparison] = by_kind(made, 4).values()
    assert better(comparison)[1] == ["Café Noir is a film of 2009 .", "He saw Café Noir ."]
    assert len(set(worse(comparison)[1])) == 2


def test_every_quote_is_a_slice_of_its_page_and_no_fake_is_evidence(world: World) -> None:
    pages = {each.page.digest: each.page for each in world.wiki.values()}
    for seed in range(20):
        for each in make_fact_comparisons(world.facts, world.wiki, FactSettings(seed=seed))[0]:
            answers = each.comparison.answers
            for answer in answers:
                for quote in answer.quotes:
                    text = pages[quote.digest].text
                    assert quote.text == text[quote.start : quote.end] != ""
                assert parse_numbered(render_numbered(answer), answer.quotes) == answer
            ours, theirs = ({quote.digest for quote in answer.quotes} for answer in answers)
            assert ours == theirs if each.comparison.by[6:] in "AB" else not ours & theirs


def test_ratings_say_what_the_paper_says(world: World) -> None:
    made, _ = make_fact_comparisons(world.facts, world.wiki)
    for each in made:
        one = each.comparison.answers[each.comparison.weights.index(1.0)]
        other = each.comparison.answers[each.comparison.weights.index(0.0)]
        said = [(rating.answer, rating.scale, rating.value) for rating in each.ratings]
        assert said == [
            (one, "supported", 1.0),
            (one, "plausible", 1.0),
            (other, "supported", 0.0),
        ]


def test_the_same_seed_makes_the_same_and_the_better_stands_anywhere(world: World) -> None:
    first, again = (make_fact_comparisons(world.facts, world.wiki)[0] for _ in range(2))
    assert first == again
    for each in first:
        assert Comparison.from_json(each.comparison.to_json()) == each.comparison
    places = [
        each.comparison.weights[0]
        for seed in range(30)
        for each in make_fact_comparisons(world.facts, world.wiki, FactSettings(seed=seed))[0]
    ]
    assert 0.4 < sum(places) / len(places) < 0.6
    # What is made of one claim does not depend on which others there are.
    alone, _ = make_fact_comparisons(world.facts[:1], world.wiki)
    assert alone == first[:4]


@dataclass
class Asks:
    """A policy that turns claims into questions, and one of them into something else."""

    name: str = "asks"
    asked: list[str] = field(default_factory=list)

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[..., Any] | None = None
    ) -> list[Completion]:
        self.asked.append(prompt)
        said = " Who is Roman Atwood?\nClaim: more" if "Claim: Roman" in prompt else "I will not."
        return [Completion(said)] * n


def test_a_policy_that_is_shown_examples_asks_the_questions(world: World) -> None:
    policy = Asks()
    settings = FactSettings(("B", "A"))
    made, left_out = make_fact_comparisons(
        world.facts, world.wiki, settings, make_question_writer(policy)
    )
    assert by_kind(made, 1)["B"].question.text == "Who is Roman Atwood?"
    assert policy.asked[0].endswith("Claim: Roman Atwood is a content creator.\nQuestion:")
    assert left_out["claims for which no question was written"] == 2
    assert len(policy.asked) == 3
    assert by_kind(made, 2).keys() == {"A"}


def test_pages_that_are_no_evidence_are_not_kept(world: World) -> None:
    assert set(world.wiki) == {"Roman_Atwood", "Soul_-LRB-river-RRB-", "Café_Noir"}
    river = world.wiki["Soul_-LRB-river-RRB-"].page
    assert (river.title, river.url) == (
        "Soul (river)",
        "https://en.wikipedia.org/wiki/Soul_(river)",
    )
    assert river.text == "The Soul is a river . It flows through Kansas ."


def test_without_another_page_there_is_nothing_to_fake(world: World) -> None:
    with pytest.raises(Failed, match=r"no_other_page: .* give more claims and pages"):
        make_fact_comparisons(world.facts[:1], {"Roman_Atwood": world.wiki["Roman_Atwood"]})


@pytest.mark.parametrize("line", ["{", '{"claim": "x"}', '{"id": 1, "claim": 2}', "[]"])
def test_a_line_that_is_no_claim_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "claims.jsonl").write_text(f"{CLAIMS[0]}\n{line}\n")
    with pytest.raises(Failed, match=r"line 2: bad_line: no FeverClaim \("):
        read_fever_claims(tmp_path / "claims.jsonl")
