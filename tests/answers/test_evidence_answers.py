"""Answers by the evidence model: which blocks are quoted, what is declined. The judge looks for
words, so that each case can be worked out by hand."""

import re
from collections.abc import Sequence

import pytest

from rookery.answers import evidence_answers
from rookery.answers.evidence_answers import (
    READ_BY_WORDS,
    EvidenceSettings,
    JudgedSection,
    PageSection,
    answer_by_evidence,
    choose_quote,
    compose_evidence_answer,
    estimate_probabilities,
    list_sections,
    narrow_section,
)
from rookery.answers.extract import find_altered_extract
from rookery.evidence.evidence_model import EvidenceJudge, EvidenceJudgement, EvidencePassage
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.records import Episode, Page, Question

STEPS = """<h1>Nest boxes</h1>
<p>Old boxes are cleaned each autumn, when the birds have left them for good.</p>
<h2>Hanging a box</h2>
<p>To hang a box for jackdaws:</p>
<ol><li>Choose a wall that faces north or east.</li>
<li>Drive two long screws into the wall.</li>
<li>Hang the box five metres above the ground.</li></ol>
<p>Jackdaws look at a new box for weeks before they move in.</p>
<h2>Counting</h2>
<p>This command counts the boxes:</p>
<pre>box count --all
box list</pre>"""
COPY = "<h1>Boxes again</h1><p>Hang the box five metres above the ground, as everybody does.</p>"


class WordJudge:
    """Judges by a word: the passages that hold it answer, at its place."""

    def __init__(self, **odds: float) -> None:
        self._odds = odds

    def __call__(
        self, question: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        judged = []
        for passage in passages:
            scores = [
                (odds, match.span())
                for word, odds in self._odds.items()
                if (match := re.search(word, passage.text))
            ]
            odds, span = max(scores, default=(-9.0, (0, 1)))
            judged.append(EvidenceJudgement(odds, span, 0.0, 0.0, 0.0, 1.0))
        return judged


def ask(judge: EvidenceJudge, settings: EvidenceSettings = EvidenceSettings()) -> Episode:
    pages = [
        read_page(html.encode(), f"https://boxes.example/{name}", "text/html")
        for name, html in (("steps", STEPS), ("copy", COPY))
    ]
    question = Question("1", "How do I hang and count a box for jackdaws above the ground?")
    return answer_by_evidence(question, InMemoryLibrary(pages), judge, settings)


def quoted(episode: Episode) -> list[str]:
    assert episode.answer is not None
    return [quote.text for quote in episode.answer.quotes]


def test_steps_are_quoted_whole_with_what_announces_them() -> None:
    [first] = quoted(ask(WordJudge(screws=3.0)))
    assert first.startswith("To hang a box for jackdaws:")
    assert first.endswith("five metres above the ground.")
    assert "Choose a wall" in first
    assert "look at a new box" not in first


def test_code_is_quoted_with_the_sentence_before_it_and_keeps_its_lines() -> None:
    episode = ask(WordJudge(count=3.0))
    [first] = quoted(episode)
    assert first.startswith("This command counts the boxes:")
    assert "box count --all\nbox list" in first
    assert episode.answer is not None
    assert episode.answer.text == first


def test_a_page_is_cut_once_for_all_passages_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[str] = []

    def note_page(page: Page) -> list[PageSection]:
        cut.append(page.url)
        return list_sections(page)

    monkeypatch.setattr(evidence_answers, "list_sections", note_page)
    ask(WordJudge(screws=3.0))
    assert len(cut) == len(set(cut)) == 2


def test_a_paragraph_is_quoted_alone() -> None:
    assert quoted(ask(WordJudge(weeks=3.0))) == [
        "Jackdaws look at a new box for weeks before they move in."
    ]


def test_a_long_block_is_cut_to_its_sentences() -> None:
    settings = EvidenceSettings(longest=60)
    assert quoted(ask(WordJudge(autumn=3.0), settings)) == [
        "Old boxes are cleaned each autumn, when the birds have left them for good."[:60]
    ]


def judged_with(*log_odds: float) -> list[JudgedSection]:
    """Sections of pages that say different things, with these log-odds."""
    texts = ("Rooks breed in colonies.", "A box hangs high.")
    pages = [read_page(text.encode(), f"file:///{text[0]}.txt") for text in texts]
    return [
        JudgedSection(page, 0, len(page.text), EvidenceJudgement(odds, (0, 9), 0, 0, 0, 1), 1.0)
        for page, odds in zip(pages, log_odds, strict=True)
    ]


def test_a_second_page_is_quoted_only_if_it_adds_something() -> None:
    both = ask(WordJudge(weeks=5.0, everybody=4.6))
    assert [quote.url[-5:] for quote in both.answer.quotes] == ["steps", "/copy"]  # type: ignore[union-attr]
    worse = ask(WordJudge(weeks=5.0, everybody=4.0))
    assert len(quoted(worse)) == 1
    assert estimate_probabilities(judged_with(5.0, 4.0))[1] > EvidenceSettings().second
    claims = both.answer.claims  # type: ignore[union-attr]
    assert [both.answer.text[each.start : each.end] for each in claims] == quoted(both)  # type: ignore[union-attr]


def ask_both(first: tuple[str, str], second: tuple[str, str], **odds: float) -> Episode:
    """Ask about a fee of two Markdown files, each with a name and a text."""
    pages = [
        read_page(f"# Fees\n\n{text}".encode(), f"file:///club/{name}.md", "text/markdown")
        for name, text in (first, second)
    ]
    question = Question("1", "How much is the yearly fee for adults?")
    return answer_by_evidence(question, InMemoryLibrary(pages), WordJudge(**odds))


OLDER = "The yearly fee for adults is 45 euros, as before."
NEWER = "The yearly fee for adults is 60 euros, as decided."


def test_of_two_sources_that_differ_the_newer_comes_first_and_it_is_said() -> None:
    odds = {"before": 3.0, "decided": 1.5}  # far less likely than a further quote must be
    both = ask_both(("minutes_2024-03-12", OLDER), ("minutes_2025-10-08", NEWER), **odds)
    assert quoted(both) == [NEWER, OLDER]
    assert [(each.outcome, each.detail) for each in both.failures] == [
        ("citation_noted", "the first two quotes answer differently; the newer one comes first")
    ]
    assert both.answer is not None
    assert find_altered_extract(both.answer) == []
    older = ask_both(("minutes_2025", OLDER), ("minutes_2024", NEWER), **odds)
    assert quoted(older) == [OLDER, NEWER]


def test_what_is_quoted_first_is_certain_or_not_whatever_the_older_is() -> None:
    """The second of the search has .3 ln 2 less: 3 and 1.29 are .94 and .36; 2.69 is .86."""
    names = ("minutes_2024-03-12", OLDER), ("minutes_2025-10-08", NEWER)
    unsure = ask_both(*names, before=3.0, decided=1.5).answer
    sure = ask_both(*names, before=3.0, decided=2.9).answer
    first = ask_both(
        ("minutes_2025", OLDER), ("minutes_2024", NEWER), before=3.0, decided=1.5
    ).answer
    assert unsure is not None
    assert sure is not None
    assert first is not None
    assert (unsure.certain, sure.certain, first.certain) == (False, True, True)
    assert unsure.score == pytest.approx(0.358, abs=0.002)
    assert sure.score == pytest.approx(0.862, abs=0.002)
    assert first.score == pytest.approx(0.944, abs=0.002)


def test_below_a_limit_that_was_asked_for_the_older_does_not_count() -> None:
    """Of the amendment the limit is missed, and not of what it replaces."""
    settings = EvidenceSettings(certain=0.5, decline=0.5)
    odds = {"steel": 2.0, "replaced": 0.5}
    changed = ask_about_petrol("lease_2019", "amendment_2026-08", settings, **odds)
    assert changed.stop == "declined"
    assert quoted(changed) == [AMENDMENT, LEASE]
    before = ask_about_petrol("lease_2026", "amendment_2019", settings, **odds)
    assert before.stop == "end"


def test_of_sources_without_dates_nothing_is_said_of_their_order() -> None:
    both = ask_both(("a", OLDER), ("b", NEWER), before=3.0, decided=1.5)
    assert quoted(both) == [OLDER, NEWER]
    assert [each.detail for each in both.failures] == ["the first two quotes answer differently"]


def test_what_says_the_same_or_is_unlikely_is_no_rival() -> None:
    same = ask_both(("2024", OLDER), ("2025", OLDER.replace("before", "decided")), before=3.0)
    unlikely = ask_both(("2024", OLDER), ("2025", NEWER), before=3.0, decided=-1.0)
    assert (same.failures, unlikely.failures) == ((), ())
    assert quoted(same) == quoted(unlikely) == [OLDER]


LEASE = "The tenant keeps at most 40 litres of petrol in the steel locker."
AMENDMENT = "Clause 7 is replaced: at most 25 litres of petrol stay in the locker of the tenant."


def ask_about_petrol(
    name: str, other: str, settings: EvidenceSettings = EvidenceSettings(), **odds: float
) -> Episode:
    pages = [
        read_page(f"# Papers\n\n{text}".encode(), f"file:///club/{name}.md", "text/markdown")
        for name, text in ((name, LEASE), (other, AMENDMENT))
    ]
    question = Question("1", "How much petrol is kept?")
    return answer_by_evidence(question, InMemoryLibrary(pages), WordJudge(**odds), settings)


def test_what_a_newer_document_changes_is_quoted_behind_it() -> None:
    changed = ask_about_petrol("lease_2019", "amendment_2026-08", steel=2.0, replaced=0.5)
    assert quoted(changed) == [AMENDMENT, LEASE]
    assert [each.detail for each in changed.failures] == [
        "the first quote is newer than the second and speaks of a change"
    ]
    before = ask_about_petrol("lease_2026", "amendment_2019", steel=2.0, replaced=0.5)
    unlikely = ask_about_petrol("lease_2019", "amendment_2026-08", steel=2.0, replaced=-0.8)
    assert quoted(before) == quoted(unlikely) == [LEASE]
    assert before.failures == unlikely.failures == ()


def test_a_newer_document_below_the_limit_declines_also_where_the_older_one_reaches_it() -> None:
    limits = EvidenceSettings(certain=0.7, decline=0.7)
    episode = ask_about_petrol("lease_2019", "amendment_2026-08", limits, steel=2.0, replaced=0.5)
    assert episode.answer is not None
    assert episode.answer.declined
    assert episode.answer.text == "The newer passage did not reach 0.7; the closest are below."
    assert find_altered_extract(episode.answer) == []
    assert quoted(episode) == [AMENDMENT, LEASE]


ADVERTISED = "<h1>Changes</h1><h2>4.1.2 (2026-03-30)</h2><aside>Buy vents now!</aside><p>{}</p>"
CHANGES = """# Changelog

## 4.1.2 (2026-03-30)

### Fixed

Vents opened by night when summer time began.

## 2. Support

Write to the desk when vents stay open.
"""
ITEMS = "".join(f"<tr><td>Ladder {number}</td><td>{number}.00</td></tr>" for number in range(200))
BILL = f"""<h1>Bill 0417</h1><p>Thank you for the repair of the tower that you gave to us.</p>
<table><tr><th>What</th><th>Pounds</th></tr>{ITEMS}
<tr><td>Total to pay</td><td>1,139.28</td></tr></table>"""


def test_the_version_above_a_change_is_quoted_with_it() -> None:
    page = read_page(CHANGES.encode(), "https://a.org/changes.md", "text/markdown")
    library = InMemoryLibrary([page])
    [change] = quoted(
        answer_by_evidence(Question("1", "When did vents?"), library, WordJudge(Vents=3))
    )
    assert change.startswith("4.1.2 (2026-03-30)")
    assert change.endswith("summer time began.")
    [support] = quoted(
        answer_by_evidence(Question("1", "When did vents?"), library, WordJudge(desk=3))
    )
    assert support == "Write to the desk when vents stay open."


def test_a_version_is_not_quoted_with_what_stands_between_by_chance() -> None:
    said = "Vents opened by night when summer time began."
    page = read_page(ADVERTISED.format(said).encode(), "https://a.org/changes", "text/html")
    question, judge = Question("1", "When did vents open?"), WordJudge(summer=3)
    assert quoted(answer_by_evidence(question, InMemoryLibrary([page]), judge)) == [said]


def test_the_sum_of_a_table_is_judged_for_a_question_about_its_page() -> None:
    library = InMemoryLibrary([read_page(BILL.encode(), "https://a.org/bill", "text/html")])
    judge = WordJudge(Total=3.0, repair=-2.0)
    asked = Question("1", "What did the repair of the tower come to?")
    assert quoted(answer_by_evidence(asked, library, judge)) == ["Total to pay\t1,139.28"]
    other = answer_by_evidence(Question("1", "Who did the repair of the tower?"), library, judge)
    assert quoted(other) == ["Thank you for the repair of the tower that you gave to us."]


def test_of_many_sums_the_last_few_are_judged() -> None:
    rows = "".join(f"Total of day {number},{number}\n" for number in range(500))
    text = f"What,Pounds\nRepair of the tower,3\n{rows}"
    judged: list[EvidencePassage] = []

    def note_passages(
        question: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        judged.extend(passages)
        return WordJudge()(question, passages)

    page = read_page(text.encode(), "https://a.org/days.csv", "text/csv")
    question = Question("1", "How much was the repair of the tower?")
    answer_by_evidence(question, InMemoryLibrary([page]), note_passages)
    texts = {each.text for each in judged}
    assert "What Total of day 499, Pounds 499" in texts
    assert "What Total of day 300, Pounds 300" not in texts


GERMAN = {
    "beitrag": "# Beiträge\n\nDer Jahresbeitrag beträgt 60 Euro. Die Jugend zahlt dafür nichts.",
    "miete": "# Miete\n\nDie Kündigungsfrist beträgt drei Monate. Haustiere sind nicht erlaubt. "
    "Die monatliche Miete von 780 Euro wird am ersten Tag gezahlt.",
    "fest": "# Feier\n\nDas Sommerfest wird am 4. Juli im Garten der Familie Reuter gefeiert.",
}


def ask_in_german(question: str, **odds: float) -> Episode:
    pages = [
        read_page(text.encode(), f"file:///verein/{name}.md", "text/markdown")
        for name, text in GERMAN.items()
    ]
    return answer_by_evidence(Question("1", question), InMemoryLibrary(pages), WordJudge(**odds))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wie hoch ist der Jahresbeitrag?", "60 Euro"),
        ("Wie hoch ist die monatliche Miete?", "780 Euro"),
        ("Welche Kündigungsfrist hat die Wohnung?", "drei Monate"),
        ("Wann ist das Sommerfest?", "4. Juli"),
    ],
)
def test_words_find_a_possible_answer_where_the_model_does_not_read(
    question: str, answer: str
) -> None:
    episode = ask_in_german(question, Jugend=-0.5)  # what the model finds possible
    assert episode.answer is not None
    assert episode.answer.certain is False
    assert answer in quoted(episode)[0]
    assert len(quoted(episode)) == 1


@pytest.mark.parametrize(
    "question", ["Wie hoch ist der Mont Blanc?", "Was ist die Hauptstadt von Peru?"]
)
def test_a_foreign_question_in_another_language_is_declined(question: str) -> None:
    assert ask_in_german(question, Jugend=-0.5).stop == "declined"
    assert ask_in_german(question, Jugend=3.0).stop == "declined"


def test_what_the_model_finds_in_another_language_is_possible_if_it_has_the_words() -> None:
    episode = ask_in_german("Wie hoch ist der Jahresbeitrag?", Jahresbeitrag=3.0)
    assert episode.answer is not None
    assert episode.answer.certain is False
    assert [each.detail for each in episode.failures] == [READ_BY_WORDS]
    assert quoted(episode) == ["Der Jahresbeitrag beträgt 60 Euro. Die Jugend zahlt dafür nichts."]


@pytest.mark.parametrize(("similarity", "quotes"), [(None, 2), (0.4, 2), (0.3, 1)])
def test_a_further_quote_is_like_the_question_by_its_vectors(
    similarity: float | None, quotes: int
) -> None:
    best, other = judged_with(3.0, 2.8)
    answer = compose_evidence_answer([best, other._replace(similarity=similarity)])
    assert len(answer.quotes) == quotes


def test_a_possible_answer_has_further_quotes_that_are_likely_enough() -> None:
    possible = compose_evidence_answer(judged_with(-0.1, -0.3))  # the second has .25
    unlikely = compose_evidence_answer(judged_with(-0.1, -0.6))  # and here .17
    assert possible.certain is False
    assert unlikely.certain is False
    assert (len(possible.quotes), len(unlikely.quotes)) == (2, 1)


def test_a_list_of_references_is_never_quoted() -> None:
    html = "<h1>Boxes</h1><h2>References</h2><p>How to hang a box above the ground, 1999.</p>"
    page = read_page(html.encode(), "https://boxes.example/r", "text/html")
    question = Question("1", "How do I hang a box above the ground?")
    episode = answer_by_evidence(question, InMemoryLibrary([page]), WordJudge(hang=9.0))
    assert quoted(episode) == []


def test_an_answer_is_certain_possible_or_not_found() -> None:
    """Odds of -.2 are .45, alone: below what is certain, above what is nothing."""
    possible = ask(WordJudge(weeks=-0.2))
    assert possible.stop == "end"
    assert possible.answer is not None
    assert possible.answer.certain is False
    assert "weeks" in possible.answer.text
    assert possible.answer.score == pytest.approx(0.450166, abs=2e-4)  # others far below
    certain = ask(WordJudge(weeks=1.2)).answer
    assert certain is not None
    assert "certain" not in certain.to_json()
    nothing = ask(WordJudge(weeks=-3.0))
    assert nothing.stop == "declined"
    assert nothing.answer is not None
    assert nothing.answer.text == "Nothing that was found answers this; the closest is below."
    assert find_altered_extract(nothing.answer) == []
    assert "weeks" in quoted(nothing)[0]


def test_below_a_limit_that_was_asked_for_an_answer_is_declined_with_the_closest() -> None:
    episode = ask(WordJudge(weeks=-0.2), EvidenceSettings(certain=0.5, decline=0.5))
    assert episode.stop == "declined"
    assert episode.answer is not None
    assert episode.answer.text == "No passage reached 0.5; the closest are below."
    [closest] = quoted(episode)  # nothing else is close
    assert "weeks" in closest


def test_what_the_search_found_first_is_preferred_a_little() -> None:
    """.3 of the logarithm of the rank: of two that the model judges alike, the search decides."""
    page = read_page(b"<p>One of the box in words.</p>", "https://boxes.example/", "text/html")
    judgement = EvidenceJudgement(1.0, (0, 3), 0.0, 0.0, 0.0, 1.0)
    sections = [JudgedSection(page, 0, 9, judgement, 1.0, rank=rank) for rank in (0, 1, 11)]
    assert [each.log_odds for each in sections] == pytest.approx([1.0, 0.792056, 0.254528])
    # e × share 1 / (1 + e to the .792056 - 1), as odds
    assert estimate_probabilities(sections[:2])[0] == pytest.approx(0.6, abs=1e-4)


def test_a_section_that_stands_out_is_likelier_right() -> None:
    """Log-odds plus the logarithm of the share: alone, with an equal, and far above another."""
    page = read_page(b"<p>One of the box in words.</p>", "https://boxes.example/", "text/html")

    def estimate(*log_odds: float) -> list[float]:
        judged = [EvidenceJudgement(each, (0, 3), 0.0, 0.0, 0.0, 1.0) for each in log_odds]
        return estimate_probabilities([JudgedSection(page, 0, 9, each, 1.0) for each in judged])

    assert estimate() == []
    assert estimate(1.0) == pytest.approx([0.731059])  # e / (1 + e)
    assert estimate(0.0, 0.0) == pytest.approx([1 / 3, 1 / 3])
    # e × share e / (e + 1), and 1 × share 1 / (e + 1), as odds
    assert estimate(1.0, 0.0) == pytest.approx([0.665241, 0.211942], abs=1e-6)
    assert estimate(1e4, -1e4) == [1.0, 0.0]


def narrow(judge: EvidenceJudge, longest: int = 900) -> str:
    """The part of a section of four paragraphs that is left, by a span in the second."""
    html = "".join(
        f"<p>{word} of the box in words.</p>" for word in ("One", "Two", "Three", "Four")
    )
    page = read_page(html.encode(), "https://boxes.example/four", "text/html")
    at = page.text.index("Two")
    judgement = EvidenceJudgement(2.0, (at, at + 3), 0.0, 0.0, 0.0, 1.0)
    section = JudgedSection(page, 0, len(page.text), judgement, 1.0)
    span = narrow_section("which box?", section, judge, longest)
    return page.text[slice(*span.judgement.span)]


@pytest.mark.parametrize("cell", ["b1", "d3", "f4"])
def test_rows_of_a_table_are_quoted_whole(cell: str) -> None:
    rows = [[f"{column}{row}" for column in "abcdefgh"] for row in range(9)]
    html = "".join(f"<tr>{''.join(f'<td>{each}' for each in row)}" for row in rows)
    page = read_page(
        f"<p>Counts</p><table>{html}</table>".encode(), "https://a.example/", "text/html"
    )
    at = page.text.index(cell)
    judgement = EvidenceJudgement(2.0, (at, at + 2), 0.0, 0.0, 0.0, 1.0)
    quote = choose_quote(JudgedSection(page, 8, len(page.text), judgement, 1.0), 900)
    assert quote is not None
    quoted_rows = quote.text.split("\n")
    assert set(quoted_rows) <= {"\t".join(row) for row in rows}
    assert any(cell in row for row in quoted_rows)


def test_what_is_quoted_reaches_over_the_best_run_and_the_span_of_the_section() -> None:
    """The span begins with "Two"; where it is too far away, the run is quoted alone."""
    best = WordJudge(Three=3.0, Two=1.0)
    assert narrow(best).split("\n\n") == [
        "Two of the box in words.",
        "Three of the box in words.",
    ]
    html = f"<p>Two of the box.</p><p>{'Much is said. ' * 30}</p><p>Three of the box in words.</p>"
    page = read_page(html.encode(), "https://boxes.example/far", "text/html")
    judgement = EvidenceJudgement(2.0, (0, 3), 0.0, 0.0, 0.0, 1.0)
    section = JudgedSection(page, 0, len(page.text), judgement, 1.0)
    span = narrow_section("which box?", section, best, 900).judgement.span
    assert page.text[slice(*span)] == "Three of the box in words."


def test_sentences_that_answer_only_together_are_quoted_together() -> None:
    """Odds: the second and third sentence 3, the second alone less."""
    html = "<p>One is a box here. Two is a box here. Three is a box here. Four is one too.</p>"
    page = read_page(html.encode(), "https://boxes.example/p", "text/html")

    def judge(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        def compute_odds(text: str) -> float:
            lost = ("Three" not in text) + 0.1 * len(text.split())
            return -9.0 if "Two" not in text else 3.0 - lost

        odds = [compute_odds(passage.text) for passage in passages]
        return [EvidenceJudgement(each, (0, 1), 0.0, 0.0, 0.0, 1.0) for each in odds]

    at = page.text.index("Two")
    judgement = EvidenceJudgement(2.0, (at, at + 3), 0.0, 0.0, 0.0, 1.0)
    section = JudgedSection(page, 0, len(page.text), judgement, 1.0)
    span = narrow_section("which box?", section, judge, 900).judgement.span
    assert page.text[slice(*span)] == "Two is a box here. Three is a box here."


def make_prose(*sentences: str) -> Page:
    padding = "Many other words about boxes stand before it here, so that the block is a long one, "
    first = (
        padding + "and is not quoted whole for the sake of one sentence only, as short ones are."
    )
    text = " ".join((first, first.replace("Many", "More"), *sentences))
    return read_page(f"<p>{text}</p>".encode(), "https://boxes.example/l", "text/html")


def test_a_sentence_is_quoted_with_what_it_leans_on_and_its_exception() -> None:
    page = make_prose(
        "The box hangs high.", "It is opened in March.", "Except by wardens.", "Paint is blue."
    )

    def quote(word: str) -> str:
        at = page.text.index(word)
        judgement = EvidenceJudgement(2.0, (at, at + 3), 0.0, 0.0, 0.0, 1.0)
        chosen = choose_quote(JudgedSection(page, 0, len(page.text), judgement, 1.0), 900)
        assert chosen is not None
        return chosen.text

    assert quote("opened") == "The box hangs high. It is opened in March. Except by wardens."
    assert quote("blue") == "Paint is blue."


def test_the_judge_reads_a_day_of_the_question_as_the_passage_writes_it() -> None:
    questions: dict[str, str] = {}

    def judge(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        questions.update((passage.text, question) for passage in passages)
        return WordJudge(door=2.0)(question, passages)

    texts = (
        "2026-02-27 the kiln door stood open",
        "27.2.2026: a window broke",
        "What broke: a chair",
    )
    pages = [Page(url=f"https://a.example/{n}", title="", text=t) for n, t in enumerate(texts)]
    question = Question("1", "What broke on 27 February 2026?")
    answer_by_evidence(question, InMemoryLibrary(pages), judge)
    assert questions == {
        texts[0]: "What broke on 2026-02-27?",
        texts[1]: "What broke on 27.2.2026?",
        texts[2]: question.text,
    }


def test_a_row_is_judged_with_its_header_in_words_and_quoted_as_it_stands() -> None:
    html = """<h1>Budget</h1><h2>Costs</h2><table><tr><th>Item</th><th>Spent</th></tr>
    <tr><td>Chairs of oak</td><td>120</td></tr><tr><td>Tables of ash</td><td>1,400</td></tr>
    <tr><td>Lamps of brass</td><td>60</td></tr></table>"""
    library = InMemoryLibrary([read_page(html.encode(), "https://a.example/", "text/html")])
    judge = WordJudge(**{"Item Tables of ash, Spent 1,400": 3.0, "Item Lamps": 2.0})
    answer = answer_by_evidence(Question("1", "What was spent on tables?"), library, judge).answer
    assert answer is not None
    assert [quote.text for quote in answer.quotes] == ["Tables of ash\t1,400"]


def test_a_heading_of_a_changelog_is_judged_as_a_version() -> None:
    text = "# News\n\n## 3.1.2 (2026-03-02)\n\nUndo works.\n\n## 1.2 Undo\n\nPress it."
    page = read_page(text.encode(), "https://a.example/news.md", "text/markdown")
    assert [section.heading for section in list_sections(page)] == [
        "News News > Version 3.1.2 (2026-03-02)",
        "News News > 1.2 Undo",
    ]


def test_a_question_without_its_mark_is_judged_with_it_and_kept_as_it_was_typed() -> None:
    read = list[str]()
    judge = WordJudge(wall=4.0)

    def judge_and_note(
        question: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        read.append(question)
        return judge(question, passages)

    typed = Question("1", "where do i hang a box for jackdaws")
    page = read_page(STEPS.encode(), "https://boxes.example/steps", "text/html")
    episode = answer_by_evidence(typed, InMemoryLibrary([page]), judge_and_note)
    assert set(read) == {"where do i hang a box for jackdaws?"}
    assert episode.question == typed


@pytest.mark.parametrize(("length", "parents"), [(1, 1), (60, 2)])
def test_a_question_that_a_mail_quotes_is_no_rival_of_its_answer(length: int, parents: int) -> None:
    asked = "May the films be thrown away? " * length
    mail = f"From: Anne <a@example.org>\nSubject: Films\n\n> {asked}\n\nNo, keep them.\n"
    sections = list_sections(read_page(mail.encode(), "file:///films.eml"))
    assert len({section.parent for section in sections}) == parents
    assert sections[-1].text == "No, keep them."
    assert sections[-1].heading.endswith("answering: " + " ".join(asked.split())[-160:])
