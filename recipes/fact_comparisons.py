"""Comparisons made from fact-checking data without labellers (GopherCite, appendix E.2).

Claims and pages come from files in FEVER's format, or from Climate-FEVER, claims about the climate
with sentences of Wikipedia for and against them. Their labels say what is true.
"""

import lzma
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from string import Template
from typing import Literal, NamedTuple
from urllib.parse import quote as quoted

import msgspec

from rookery.errors import Failed, Outcome
from rookery.records import (
    Answer,
    Block,
    Claim,
    Comparison,
    Failure,
    Page,
    Policy,
    Question,
    Quote,
    Rating,
    prepare_type,
)
from rookery.typed_files import read_json_lines

FactComparisonKind = Literal["A", "B", "A2", "B2"]
FACTS_RATER = "facts"
WIKI_URL_PREFIX = "https://en.wikipedia.org/wiki/"
_QUESTION_WORDINGS = (
    "{}?",
    "Is it true that {}?",
    "Is it correct to say that {}?",
    "{}. Do you agree?",
)
_AFFIRMATIONS = ("Yes.", "This is correct.", "It is true.")
_DENIALS = ("No.", "This is not correct.", "It is not true.")
_TOKENIZER_MARKS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "-COLON-": ":",
    "``": '"',
    "''": '"',
}
"""Marks of FEVER's tokenizer, and the characters they stand for."""
_DRAWS_PER_SENTENCE = 100
"""Draws for each wanted sentence of a page that is no evidence."""
SentencePlace = tuple[str, int]
"""Id of a page, and number of a sentence on it."""


class FactClaim(msgspec.Struct, frozen=True):
    """A claim that its evidence supports or refutes."""

    id: str
    text: str
    """Without a full stop."""
    is_true: bool
    evidence: tuple[tuple[SentencePlace, ...], ...]
    """Alternative sets of sentences; each set alone is sufficient."""


class WikiPage(msgspec.Struct, frozen=True):
    """A page and the offsets of its sentences by number."""

    page: Page
    sentences: dict[int, tuple[int, int]]

    def quote_sentence(self, number: int) -> Quote:
        """Quote the sentence of this number."""
        return self.page.quote_whole_words(*self.sentences[number])


class FactComparison(NamedTuple):
    """A comparison, and ratings of its answers."""

    comparison: Comparison
    ratings: tuple[Rating, ...]
    """The better answer is supported and plausible, the worse is not supported."""


class FactSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Kinds of comparisons to make of each claim."""

    kinds: tuple[FactComparisonKind, ...] = ("A", "B", "A2", "B2")
    seed: int = 0
    """Seed of wordings, of unrelated quotes, and of the order of answers."""


class _FeverClaim(msgspec.Struct):
    id: int | str
    claim: str
    label: str = ""
    evidence: list[list[tuple[object, object, str | None, int | None]]] = []


class _FeverPage(msgspec.Struct):
    id: str
    lines: str = ""


def read_fever_claims(path: Path) -> tuple[list[FactClaim], Counter[str]]:
    """Read the claims that have evidence for or against them, and count the others by reason.

    Raises Failed: not_found, bad_line.
    """
    claims: list[FactClaim] = []
    left_out: Counter[str] = Counter()
    for each in read_json_lines(path, _FeverClaim):
        groups = [
            tuple(
                (_normalize_id(title), number)
                for *_, title, number in group
                if title and number is not None
            )
            for group in each.evidence
        ]
        evidence = tuple(dict.fromkeys(group for group in groups if group))
        if each.label not in ("SUPPORTS", "REFUTES") or not evidence:
            left_out["claims without evidence for or against them"] += 1
            continue
        text = _restore_punctuation(each.claim).strip().removesuffix(".")
        claims.append(FactClaim(str(each.id), text, each.label == "SUPPORTS", evidence))
    return claims, left_out


def read_fever_pages(paths: Iterable[Path], facts: Iterable[FactClaim]) -> dict[str, WikiPage]:
    """Read the pages that are evidence for these claims from Wikipedia files in FEVER's format.

    Returns them by id; other pages are skipped. Raises Failed: not_found, bad_line.
    """
    page_names = {page for fact in facts for group in fact.evidence for page, _ in group}
    return {
        name: _make_fever_page(name, each.lines)
        for path in paths
        for each in read_json_lines(path, _FeverPage)
        if (name := _normalize_id(each.id)) in page_names
    }


def _normalize_id(name: str) -> str:
    """Normalise an id to NFC: FEVER's claims and pages compose accents differently."""
    return unicodedata.normalize("NFC", name)


def _restore_punctuation(text: str) -> str:
    for mark, written in _TOKENIZER_MARKS.items():
        text = text.replace(mark, written)
    return text


def _make_fever_page(name: str, lines: str) -> WikiPage:
    text = ""
    sentences: dict[int, tuple[int, int]] = {}
    for line in lines.split("\n"):
        number, *rest = line.split("\t")
        words = _restore_punctuation(rest[0]).strip() if rest else ""
        if number.isdecimal() and words:
            start = len(text) + 1 if text else 0
            text = f"{text} {words}" if text else words
            sentences[int(number)] = (start, len(text))
    title = _restore_punctuation(name.replace("_", " "))
    url = WIKI_URL_PREFIX + quoted(_restore_punctuation(name), safe="(),:")
    blocks = (Block(0, len(text), "paragraph"),) if text else ()
    return WikiPage(Page(url, title, text, blocks), sentences)


QuestionWriter = Callable[[FactClaim, str], str]
"""Writes a question that the claim answers; arguments: the claim, and the title of its page.
Returns an empty text if there is none."""


def ask_about_page(fact: FactClaim, title: str) -> str:
    """Return the question "What can be said about TITLE?", which any claim on the page answers."""
    return f"What can be said about {title}?"


def make_question_writer(policy: Policy) -> QuestionWriter:
    """Make a function that asks a policy for the question that a claim answers.

    The prompt has examples (GopherCite, appendix E.2). The function returns an empty text if the
    first line of the completion is no question, and raises Failed where the policy does.
    """
    text = Path(__file__).with_name("claim_question.txt").read_text("utf-8")

    def write_question(fact: FactClaim, title: str) -> str:
        """Return the policy's question, or an empty text if its first line is not one."""
        prompt = Template(text.rstrip("\n")).substitute(claim=f"{fact.text}.")
        said = policy.complete(prompt)[0].text.strip().partition("\n")[0].strip()
        return said if said.endswith("?") else ""

    return write_question


def make_fact_comparisons(
    facts: Sequence[FactClaim],
    wiki: dict[str, WikiPage],
    settings: FactSettings = FactSettings(),
    ask: QuestionWriter = ask_about_page,
) -> tuple[list[FactComparison], Counter[str]]:
    """Make comparisons of a right and a wrong answer from each claim; count those not made.

    A: a yes-or-no question; the answers yes and no both cite the evidence. B: a question that the
    claim answers; claim and denial both cite the evidence. A2 and B2: the true one of these answers
    with its evidence, against the same text with as many sentences of unrelated pages. A refuted
    claim's true answer is its denial, in B2 too. The true answer, in A2 and B2 the one with the
    evidence, is preferred, and the order of the two is random. Each comparison depends only on the
    seed, the claim, `ask` and the set of pages. The counts are by reason. Raises Failed
    (no_other_page), and whatever `ask` raises.
    """
    comparisons: list[FactComparison] = []
    left_out: Counter[str] = Counter()
    names = sorted(name for name, each in wiki.items() if each.sentences)
    for fact in facts:
        places = _choose_evidence(fact, wiki)
        if not places:
            left_out["claims whose evidence is on no page that was read"] += 1
            continue
        for kind in settings.kinds:
            random = Random(f"{settings.seed} {kind} {fact.id}")
            question = _make_question(fact, kind, wiki[places[0][0]].page.title, ask, random)
            if question is None:
                left_out["claims for which no question was written"] += 1
                continue
            comparisons.append(
                _make_fact_comparison(
                    fact, kind, question, _quote_evidence(places, wiki), random, names, wiki
                )
            )
    return comparisons, left_out


def _choose_evidence(fact: FactClaim, wiki: dict[str, WikiPage]) -> tuple[SentencePlace, ...]:
    """Return the shortest evidence whose sentences are all there; the first of equals."""
    whole = [
        group
        for group in fact.evidence
        if all(name in wiki and number in wiki[name].sentences for name, number in group)
    ]
    return min(whole, key=len, default=())


def _quote_evidence(
    places: Sequence[SentencePlace], wiki: dict[str, WikiPage]
) -> tuple[Quote, ...]:
    return tuple(wiki[name].quote_sentence(number) for name, number in dict.fromkeys(places))


def _make_question(
    fact: FactClaim, kind: FactComparisonKind, title: str, ask: QuestionWriter, random: Random
) -> Question | None:
    in_words = (
        random.choice(_QUESTION_WORDINGS).format(fact.text) if kind[0] == "A" else ask(fact, title)
    )
    return Question(f"{fact.id}/{kind}", in_words, source=FACTS_RATER) if in_words else None


def _make_fact_comparison(
    fact: FactClaim,
    kind: FactComparisonKind,
    question: Question,
    quotes: tuple[Quote, ...],
    random: Random,
    names: Sequence[str],
    wiki: dict[str, WikiPage],
) -> FactComparison:
    if kind[0] == "A":
        texts = [random.choice(_AFFIRMATIONS), random.choice(_DENIALS)]
    else:
        texts = [f"{fact.text}.", f"It is not true that {fact.text}."]
    true, false = texts if fact.is_true else texts[::-1]
    better = _make_answer(true, quotes)
    if kind in ("A", "B"):
        worse = _make_answer(false, quotes)
    else:
        worse = _make_answer(true, _draw_unrelated_quotes(quotes, random, names, wiki))
    by = f"{FACTS_RATER}/{kind}"
    ratings = (
        Rating(question, better, "supported", 1.0, by),
        Rating(question, better, "plausible", 1.0, by),
        Rating(question, worse, "supported", 0.0, by),
    )
    if random.random() < 0.5:  # so that position does not reveal the better one
        return FactComparison(Comparison(question, (better, worse), (1.0, 0.0), by), ratings)
    return FactComparison(Comparison(question, (worse, better), (0.0, 1.0), by), ratings)


def _make_answer(text: str, quotes: tuple[Quote, ...]) -> Answer:
    return Answer(text, quotes, (Claim(0, len(text), tuple(range(len(quotes)))),))


def _draw_unrelated_quotes(
    quotes: Sequence[Quote], random: Random, names: Sequence[str], wiki: dict[str, WikiPage]
) -> tuple[Quote, ...]:
    """Draw as many sentences from pages that hold none of the evidence."""
    related = {quote.digest for quote in quotes}
    unrelated: dict[Quote, None] = {}
    for _ in range(_DRAWS_PER_SENTENCE * len(quotes)):
        page = wiki[random.choice(names)]
        if page.page.digest not in related:
            unrelated[page.quote_sentence(random.choice(tuple(page.sentences)))] = None
        if len(unrelated) == len(quotes):
            return tuple(unrelated)
    detail = "there are too few other pages to take sentences from: give more claims and pages"
    raise Failed(Failure(quotes[0].title, "no_other_page", detail))


class _ClimateEvidence(msgspec.Struct):
    evidence_id: str
    evidence_label: str
    article: str
    evidence: str

    @property
    def place(self) -> tuple[str, int]:
        """Title of the article and number of the sentence."""
        return self.article, int(self.evidence_id.rpartition(":")[2])


class _ClimateClaim(msgspec.Struct):
    claim_id: str
    claim: str
    claim_label: str
    evidences: list[_ClimateEvidence]


def read_climate_claims(path: Path) -> tuple[list[FactClaim], dict[str, WikiPage]]:
    """Read the supported or refuted claims of Climate-FEVER, and its sentences as pages by title.

    A file that ends in `.xz` is decompressed. Every sentence whose label agrees with the claim's is
    evidence by itself. Raises Failed: not_found, bad_line.
    """
    claimed = _read_climate_lines(path)
    facts = []
    for each in claimed:
        evidence = tuple((e.place,) for e in each.evidences if e.evidence_label == each.claim_label)
        if each.claim_label in ("SUPPORTS", "REFUTES") and evidence:
            text = each.claim.strip().removesuffix(".")
            facts.append(FactClaim(each.claim_id, text, each.claim_label == "SUPPORTS", evidence))
    evidence_by_page: dict[str, dict[int, str]] = defaultdict(dict)
    for one in (one for each in claimed for one in each.evidences):
        article, number = one.place
        evidence_by_page[article][number] = one.evidence.strip()
    return facts, {
        title: _make_climate_page(title, sentences) for title, sentences in evidence_by_page.items()
    }


def _read_climate_lines(path: Path) -> list[_ClimateClaim]:
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            claims = msgspec.json.Decoder(prepare_type(_ClimateClaim)).decode_lines(file.read())
        for each in claims:
            for one in each.evidences:
                _ = one.place
    except FileNotFoundError as error:
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, "check the path")) from error
    except (msgspec.MsgspecError, ValueError, lzma.LZMAError, EOFError) as error:
        detail = f"it is no file of Climate-FEVER: fetch it again ({error})"
        raise Failed(Failure(str(path), Outcome.BAD_LINE, detail)) from error
    return claims


def _make_climate_page(title: str, sentences: dict[int, str]) -> WikiPage:
    text, places = "", {}
    for number, words in sorted(sentences.items()):
        if words:
            text = f"{text} {words}" if text else words
            places[number] = (len(text) - len(words), len(text))
    blocks = (Block(0, len(text), "paragraph"),) if text else ()
    return WikiPage(
        Page(WIKI_URL_PREFIX + quoted(title.replace(" ", "_")), title, text, blocks), places
    )
