"""Both sides: quotes for the claim that a question assumes and quotes against it, kept apart.

Against cherry-picking, which the papers leave open (WebGPT, section 6.4; GopherCite, section 4.1):
a question that assumes something finds pages that assume it too. It searches for doubt as hard as
for the claim. Knows nothing of who is right; it weighs nothing and counts no votes.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

import msgspec

from rookery.browse.passages import headings_above, sentences
from rookery.browse.view import neutral
from rookery.browse.words import question_terms
from rookery.cite.cues import denies
from rookery.cite.rank import Observer, Passage, RankWeights, Sentence, Similarity, rank
from rookery.cite.verify import TextVerdict
from rookery.draft.gather import Gathered, GatherLimits, gather
from rookery.draft.sides_claim import LEAST, LONGEST, claim_of
from rookery.draft.stance import Reading, Stance, stance_by_words
from rookery.draft.write import prompt
from rookery.records import (
    Answer,
    Claim,
    Completion,
    Episode,
    Failed,
    Failure,
    Hit,
    Library,
    Page,
    Policy,
    Question,
    Quote,
    Step,
)

BY = "sides"
SEARCHES = ("{}", "{} myth misconception false", "no evidence {} not true debunked")
"""what is searched for: the claim, and twice what doubts it"""
ENDS = ".!?…:;\"”’')]»。！？"
"""what a sentence ends with"""
NOTHING_FOUND = "Nothing that was read is for or against this claim: {}. {}"
BY_WORDS = (
    "Judged by words alone: only a sentence that says the claim, or that it is not so, in the "
    "claim's own words takes a side."
)


class SidesSettings(msgspec.Struct, frozen=True):
    """How much is read and shown."""

    quotes: int = 3
    """at most, on each side"""
    asked: int = 16
    """sentences that a policy is asked about, one by one; by words alone, all are read"""
    longest: int = 600
    """characters of a sentence; a longer one is no quote: what is cut off may be a "not\""""
    limits: GatherLimits = GatherLimits()
    """of each of the searches"""
    weights: RankWeights = RankWeights()


class Candidate(NamedTuple):
    """A sentence that may be shown, and what a judge of it reads."""

    sentence: Sentence
    reading: Reading


class Found(NamedTuple):
    """What was found, and what could not be looked for."""

    gathered: Gathered
    unsearched: int
    """of SEARCHES, those that gave nothing because something failed"""


def both_sides(
    question: Question,
    library: Library,
    similarity: Similarity | None = None,
    policy: Policy | None = None,
    settings: SidesSettings = SidesSettings(),
    observe: Observer = lambda ranked: None,
) -> Episode:
    """Quotes for and against what the question assumes, as one answer in two parts.

    A policy, where there is one, words the claim and judges each sentence by itself; what it says
    is never shown but for the claim, and anything but the word that it was asked for is "neither".
    `observe` is told the ranked passages.
    Without one, words alone decide, and few sentences take a side.

    The episode's stop is "end", "declined" (nothing takes a side: the nearest sentences are in the
    answer), "no_evidence" (searching or opening failed), "no_claim" (the question assumes none) or
    "policy_failed". In the last three there is no answer, and the failures say why.
    """
    steps: list[Step] = []

    def ended(stop: str, failures: Sequence[Failure], answer: Answer | None = None) -> Episode:
        return Episode(question, BY, tuple(steps), answer, stop, tuple(failures))

    try:
        claim = _claim(question.text, policy, steps)
    except Failed as failed:
        unclaimed = failed.failure.outcome == "no_claim"
        return ended("no_claim" if unclaimed else "policy_failed", [failed.failure])
    gathered, unsearched = _search(claim, library, settings.limits)
    if not gathered.found and gathered.failures:
        return ended("no_evidence", gathered.failures)
    candidates = _candidates(claim, gathered, similarity, settings, observe)
    try:
        sides = _judge(claim, candidates, policy, steps, settings.asked)
    except Failed as failed:
        return ended("policy_failed", [*gathered.failures, failed.failure])
    judge = f"Judged by {_line(policy.name)}." if policy else BY_WORDS
    if not any(sides.values()):
        nearest = _quotes([each.sentence for each in candidates], settings.quotes)
        answer = Answer(NOTHING_FOUND.format(claim, judge), nearest, declined=True)
        return ended("declined", gathered.failures, answer)
    shown = {side: _quotes(said, settings.quotes) for side, said in sides.items()}
    read = _read(len({page.digest for page, _ in gathered.found}), unsearched)
    return ended("end", gathered.failures, _answer(claim, shown, read, judge))


def _claim(question: str, policy: Policy | None, steps: list[Step]) -> str:
    """The claim as the policy words it, or by rules where it does not."""
    if policy is not None:
        said = _ask(policy, prompt("sides_claim", question=_line(question)), steps)
        worded = said.removeprefix("Claim:").strip().rstrip(".")
        if _is_claim(worded, question):
            return worded
    return claim_of(question)


def _is_claim(worded: str, question: str) -> bool:
    """Whether it is one short line, denies nothing of its own, and is about what is asked."""
    if not 0 < len(worded) <= LONGEST or not worded.isprintable() or "?" in worded:
        return False
    if denies(worded) and not denies(question):
        return False
    about = set(question_terms(worded))
    asked = about.intersection(question_terms(question))
    return len(asked) >= LEAST and 2 * len(asked) >= len(about)


def _ask(policy: Policy, asked: str, steps: list[Step]) -> str:
    """What the policy says to a prompt, which is kept as a step. Raises Failed where it does."""
    said = next(iter(policy.complete(asked)), Completion(""))
    steps.append(Step(asked, said))
    return said.text.strip()


def _search(claim: str, library: Library, limits: GatherLimits) -> Found:
    """What all searches found, each passage once, with the best of its scores."""
    each = [gather(search.format(claim), library, limits) for search in SEARCHES]
    best: dict[tuple[str, str, int, int], tuple[Page, Hit]] = {}
    for page, hit in chain.from_iterable(gathered.found for gathered in each):
        place = hit.url, hit.digest, hit.start, hit.end
        if place not in best or best[place][1].score < hit.score:
            best[place] = page, hit
    failures = dict.fromkeys(chain.from_iterable(gathered.failures for gathered in each))
    unsearched = sum(bool(gathered.failures) and not gathered.found for gathered in each)
    return Found(Gathered(tuple(best.values()), tuple(failures)), unsearched)


def _candidates(
    claim: str,
    gathered: Gathered,
    similarity: Similarity | None,
    settings: SidesSettings,
    observe: Observer,
) -> list[Candidate]:
    """The sentences that may be shown, best first; what two pages say alike counts once."""
    asked = f"Is it so that {claim}?"  # a sentence that only repeats the claim answers this
    ranked = rank(asked, gathered.found, similarity, settings.weights)
    observe(ranked)
    every = [each for passage in ranked for each in _read_in(passage, settings.longest)]
    first: dict[str, Candidate] = {}
    for each in sorted(every, key=lambda each: -each.sentence.score):
        first.setdefault(_line(each.sentence.text).casefold(), each)
    return list(first.values())


def _read_in(passage: Passage, longest: int) -> Iterator[Candidate]:
    """The whole sentences of a passage, each with what stands round it."""
    page = passage.page
    above = f"{page.title} {headings_above(page, passage.hit.start)}"
    spans = sentences(page, passage.hit.start, passage.hit.end)
    said = ["", *(page.text[start:end] for start, end in spans), ""]
    around = {span: (said[at], said[at + 2]) for at, span in enumerate(spans)}
    for sentence in passage.sentences:
        span = sentence.start, sentence.end
        if len(sentence.text) <= longest and _is_whole(page, *span):
            yield Candidate(sentence, Reading(sentence.text, *around[span], above))


def _is_whole(page: Page, start: int, end: int) -> bool:
    """Whether neither end was cut in the middle: what is cut off may be "It is a myth that"."""
    at = bisect(page.blocks, start, key=lambda block: block.start) - 1
    low, high = (page.blocks[at].start, page.blocks[at].end) if at >= 0 else (0, len(page.text))
    before, after = page.text[low:start].rstrip(), page.text[end:high].strip()
    return (not before or before[-1] in ENDS) and (not after or page.text[end - 1] in ENDS)


def _judge(
    claim: str,
    candidates: Sequence[Candidate],
    policy: Policy | None,
    steps: list[Step],
    asked: int,
) -> dict[Stance, list[Sentence]]:
    """The sentences of each side, best first. Raises Failed where the policy does."""
    sides: dict[Stance, list[Sentence]] = {"for": [], "against": []}
    for sentence, reading in candidates if policy is None else _mixed(candidates)[:asked]:
        if policy is None:
            side = stance_by_words(claim, reading)
        else:
            side = _stance_by(policy, claim, reading, steps)
        if side in sides:
            sides[side].append(sentence)
    return sides


def _mixed(candidates: Sequence[Candidate]) -> list[Candidate]:
    """By turns those that deny something and those that do not, so that both are heard."""
    denying = [each for each in candidates if denies(each.sentence.text)]
    others = [each for each in candidates if not denies(each.sentence.text)]
    turns = chain.from_iterable(zip_longest(others, denying))
    return [each for each in turns if each is not None]


def _stance_by(policy: Policy, claim: str, reading: Reading, steps: list[Step]) -> Stance:
    """The side that the policy names in one word; "neither" for whatever else it says."""
    parts = {"claim": claim, "before": reading.before, "sentence": reading.sentence}
    asked = prompt("sides_stance", **{name: _line(neutral(text)) for name, text in parts.items()})
    said = _ask(policy, asked, steps).rstrip(".").lower()
    sides: dict[str, Stance] = {"for": "for", "against": "against"}
    return sides.get(said, "neither")


def _quotes(said: Sequence[Sentence], most: int) -> tuple[Quote, ...]:
    """The best sentences as quotes, of pages not yet quoted before others."""
    seen: set[str] = set()
    first: list[Sentence] = []
    others: list[Sentence] = []
    for sentence in said:
        (others if sentence.page.digest in seen else first).append(sentence)
        seen.add(sentence.page.digest)
    return tuple(each.page.quote(each.start, each.end) for each in [*first, *others][:most])


def _read(pages: int, unsearched: int) -> str:
    """How much was looked at, for a reader who wonders why a side is empty."""
    failed = f", and {unsearched} of {len(SEARCHES)} searches failed" if unsearched else ""
    return f"{pages} page{'s' * (pages != 1)}{failed}"


def _answer(claim: str, sides: Mapping[Stance, Sequence[Quote]], read: str, judge: str) -> Answer:
    """The claim, what is for it, what is against it, and who judged; every sentence is a quote."""
    text = f"Claim: {_line(claim)}\n"
    quotes: list[Quote] = []
    claims: list[Claim] = []
    for side, cited in sides.items():
        text += f"\n{side.capitalize()}:\n"
        for quote in cited:
            start = len(text)
            text += _line(quote.text)
            claims.append(Claim(start, len(text), (len(quotes),)))
            quotes.append(quote)
            text += "\n"
        if not cited:
            text += f"Nothing {side} it was found in {read}; that is no proof.\n"
    return Answer(f"{text}\n{judge}", tuple(quotes), tuple(claims))


_WRITTEN = re.compile(r"Claim: ([^\n]+)\n\nFor:\n(?:.*\n)?\nAgainst:\n.*\n([^\n]+)", re.DOTALL)
_BY_MODEL = re.compile(r"Judged by (?!words alone)(?:(?!\. ).)+\.")
_READ = re.compile(r"it was found in (\d+ pages?(?:, and \d of \d searches failed)?); that is no")
_DECLINED = re.compile(re.escape(NOTHING_FOUND).replace(r"\{\}", r"[^\n]+"))


def find_altered_sides(answer: Answer) -> list[TextVerdict]:
    """What of a saved answer's text `both_sides` did not write from its quotes and claims.

    Nothing is found where writing it again gives the same. The wording of the claim at its head and
    the side that a quote is on are taken as they are.
    """
    if answer.declined:
        whole = _DECLINED.fullmatch(answer.text) and not answer.claims
        detail = "a declined answer says that nothing is for or against the claim"
        return [] if whole else [TextVerdict(answer.text, "claim_differs", detail)]
    for number, claim in enumerate(answer.claims, 1):
        said = answer.text[claim.start : claim.end]
        quoted = [_line(answer.quotes[each].text) for each in claim.quotes]
        if quoted != [said]:
            why = f"claim {number} says this, and its quote “{' '.join(quoted)}”"
            return [TextVerdict(said, "claim_differs", why)]
    found = _WRITTEN.fullmatch(answer.text)
    if found and (found[2] == BY_WORDS or _BY_MODEL.fullmatch(found[2])):
        middle = answer.text.index("\nAgainst:\n")
        sides: dict[Stance, list[Quote]] = {"for": [], "against": []}
        for claim in answer.claims:
            side: Stance = "for" if claim.start < middle else "against"
            sides[side] += [answer.quotes[number] for number in claim.quotes]
        read = _READ.search(answer.text)
        again = _answer(found[1], sides, read[1] if read else "", found[2])
        if (again.text, again.quotes, again.claims) == (answer.text, answer.quotes, answer.claims):
            return []
    detail = "outside of its quotes this is not what --both-sides writes"
    return [TextVerdict(answer.text, "claim_differs", detail)]


def _line(text: str) -> str:
    return " ".join(text.split())
