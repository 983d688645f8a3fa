"""Both sides: quotes for the claim that a question assumes, and quotes against it, kept apart.

A question that assumes a claim finds pages that assume it too: cherry-picking, which the papers
leave open (WebGPT, section 6.4; GopherCite, section 4.1). So the library is also searched for doubt
about the claim. The two sides are shown and not weighed.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Literal, NamedTuple, TypeVar

import msgspec

from rookery.answers.best_of_n import render_prompt
from rookery.answers.evidence_answers import (
    JudgedSection,
    choose_quote,
    describe_section,
    judge_sections,
)
from rookery.answers.retrieval import RetrievalLimits, RetrievedPassages, gather_passages
from rookery.errors import Failed, Outcome
from rookery.evidence.evidence_model import EvidenceJudge, EvidenceJudgement, EvidencePassage
from rookery.evidence.passage_ranking import (
    RankedPassage,
    RankingObserver,
    ScoredSentence,
    rank_passages,
)
from rookery.library.search_index import compute_fused_score
from rookery.models.chat_prompts import render_chat_prompt
from rookery.pages.page_text import neutralize_line
from rookery.pages.passages import find_sentences, get_headings_above
from rookery.pages.search_terms import get_question_terms
from rookery.quotes.answer_types import contains_negation, is_yes_no_question
from rookery.quotes.verification import TextVerdict, is_quote_too_short
from rookery.records import (
    Answer,
    Claim,
    Completion,
    Episode,
    Failure,
    Hit,
    Library,
    Page,
    Policy,
    Question,
    Quote,
    Step,
)

SIDES_METHOD = "sides"
SEARCH_TEMPLATES = ("{}", "{} myth misconception false", "no evidence {} not true debunked")
"""templates of the queries: the claim, and two for texts that doubt it"""
SENTENCE_ENDS = ".!?…:;\"”’')]»。！？"
"""characters that end a sentence"""
NO_SIDE_FOUND = "No sentence was judged to be for or against this claim: {}. {}"
JUDGED_BY_EVIDENCE = "Judged by the evidence model."
NO_JUDGE_ADVICE = (
    "what speaks for and against a claim is judged by a language model or by an evidence model "
    "that is named: use --model, or --ranker DIR"
)
MAX_QUESTION_CHARACTERS = 300
"""maximum characters of a question; longer ones do not assume a single claim"""
MIN_CLAIM_WORDS = 2
"""minimum content words of a claim: "is it safe?" has too few to know its subject"""
NO_CLAIM_ADVICE = (
    "the question assumes no single claim that pages could speak for or against: state one, as in "
    "“crows hold grudges”"
)
Stance = Literal["for", "against", "neither"]
S = TypeVar("S", bound=JudgedSection | ScoredSentence)
_OPEN_QUESTION = re.compile(r"(?:who|whom|whose|what|which|when|where|how|why)\b", re.IGNORECASE)


class SidesSettings(msgspec.Struct, frozen=True):
    """Settings of both-sides answers: numbers of quotes and of judged sentences."""

    quotes: int = 3
    """maximum number of quotes on each side"""
    asked: int = 16
    """maximum number of sentences that a policy judges"""
    judged: int = 20
    """maximum number of passages whose sections the evidence model judges"""
    least: float = 0.5
    """probability from which a section, and the quote of it, takes a side by the evidence model"""
    longest: int = 600
    """maximum characters of a sentence; longer ones are not cut, since a "not" might be lost"""
    chat: bool = False
    """one prompt has a chat model judge all sentences; False: one prompt for each sentence"""
    limits: RetrievalLimits = RetrievalLimits()
    """limits of retrieval, for each search"""


class SideCandidate(NamedTuple):
    """A sentence that may be quoted, with its context for the judge."""

    sentence: ScoredSentence
    before: str
    """preceding sentence"""


class AssumedClaim(NamedTuple):
    """The claim that a question assumes."""

    text: str
    """the claim as it is shown"""
    question: str
    """what is searched and judged: the claim, or the yes-or-no question to which yes supports"""


def answer_both_sides(
    question: Question,
    library: Library,
    policy: Policy | None = None,
    judge: EvidenceJudge | None = None,
    settings: SidesSettings = SidesSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> Episode:
    """Answer with quotes for and against the claim that a question assumes, in two parts.

    A policy words the claim and judges the sentences; of its completions only the claim is shown,
    and a judgement that cannot be read counts as "neither", which the failures tell. Without a
    policy the evidence model judges: a statement, or a yes-or-no question, to which yes supports.
    Raises Failed (no_model) where there is neither. `observe` gets the ranked passages, or the
    sections that were judged.

    The episode's stop is "end", "declined" (no sentence takes a side: the answer quotes the nearest
    ones), "no_evidence" (searching or opening failed), "no_claim" (the question assumes none) or
    "policy_failed". In the last three cases there is no answer, and the failures give the reason.
    """
    steps: list[Step] = []

    def end_episode(
        stop: str, failures: Sequence[Failure], answer: Answer | None = None
    ) -> Episode:
        return Episode(question, SIDES_METHOD, tuple(steps), answer, stop, tuple(failures))

    if policy is None and judge is None:
        raise Failed(Failure(SIDES_METHOD, Outcome.NO_MODEL, NO_JUDGE_ADVICE))
    try:
        claim = _word_claim(question.text, policy, steps)
    except Failed as failed:
        unclaimed = failed.failure.outcome == "no_claim"
        return end_episode("no_claim" if unclaimed else "policy_failed", [failed.failure])
    queries = [template.format(claim.question) for template in SEARCH_TEMPLATES]
    gathered, reading = _search_claim(queries, library, settings.limits)
    failures = list(gathered.failures)
    if not gathered.found and gathered.failures:
        return end_episode("no_evidence", gathered.failures)
    judged_by = f"Judged by {_to_one_line(policy.name)}." if policy else JUDGED_BY_EVIDENCE
    if policy is not None:
        try:
            sides, unread = _judge_sentences(claim, gathered, policy, steps, settings, observe)
        except Failed as failed:
            return end_episode("policy_failed", [*failures, failed.failure])
        if unread:
            detail = f"of {unread} sentences the model named no side: they count as neither"
            failures.append(Failure(SIDES_METHOD, Outcome.CITATION_NOTED, detail))
    elif judge is not None:
        sides = _judge_evidence(claim.question, gathered, judge, settings, observe)
    if not any(sides.shown.values()):
        answer = Answer(NO_SIDE_FOUND.format(claim.text, judged_by), sides.nearest, declined=True)
        return end_episode("declined", failures, answer)
    answer = _render_answer(claim.text, sides.shown, reading, judged_by)
    return end_episode("end", failures, answer)


def _word_claim(question: str, policy: Policy | None, steps: list[Step]) -> AssumedClaim:
    """Return the claim in the policy's words, or as it is asked where these are unusable.

    Raises Failed: no_claim where the question assumes none, or what the policy raises.
    """
    question_line = _to_one_line(question)
    if policy is not None:
        reply = _ask_policy(policy, render_prompt("sides_claim", question=question_line), steps)
        worded = reply.removeprefix("Claim:").strip().rstrip(".")
        if _is_claim(worded, question):
            return AssumedClaim(worded, worded)
    stated = question_line.rstrip(" ?!.…")
    closed = is_yes_no_question(stated)
    if (
        len(stated) > MAX_QUESTION_CHARACTERS
        or len(get_question_terms(stated)) < MIN_CLAIM_WORDS
        or _OPEN_QUESTION.match(stated)
        or (closed and re.search(r"\bor\b", stated))
    ):
        what = question_line[:MAX_QUESTION_CHARACTERS]
        raise Failed(Failure(what, Outcome.NO_CLAIM, NO_CLAIM_ADVICE))
    if closed:
        return AssumedClaim(f"yes to “{question_line}”", question_line)
    return AssumedClaim(stated, stated)


def _is_claim(worded: str, question: str) -> bool:
    """Return True if the wording is one short line about the question without added negation."""
    if not 0 < len(worded) <= MAX_QUESTION_CHARACTERS or not worded.isprintable() or "?" in worded:
        return False
    if contains_negation(worded) and not contains_negation(question):
        return False
    about = set(get_question_terms(worded))
    asked = about.intersection(get_question_terms(question))
    return len(asked) >= MIN_CLAIM_WORDS and 2 * len(asked) >= len(about)


def _ask_policy(policy: Policy, prompt: str, steps: list[Step]) -> str:
    """Return the policy's completion of a prompt and append it to the steps. May raise Failed."""
    said = next(iter(policy.complete(prompt)), Completion(""))
    steps.append(Step(prompt, said))
    return said.text.strip()


def _search_claim(
    queries: Sequence[str], library: Library, limits: RetrievalLimits
) -> tuple[RetrievedPassages, str]:
    """Make these searches; return each passage once, with its best score.

    The searches take turns in the order of the passages, since their scores cannot be compared.
    With them comes how many pages were read and searches failed, shown where a side is empty.
    """
    each = [gather_passages(query, library, limits) for query in queries]
    best: dict[tuple[str, str, int, int], tuple[Page, Hit]] = {}
    turns = chain.from_iterable(zip_longest(*(gathered.found for gathered in each)))
    for page, hit in filter(None, turns):
        place = hit.url, hit.digest, hit.start, hit.end
        if place not in best or compute_fused_score(best[place][1]) < compute_fused_score(hit):
            best[place] = page, hit
    failures = dict.fromkeys(chain.from_iterable(gathered.failures for gathered in each))
    unsearched = sum(bool(gathered.failures) and not gathered.found for gathered in each)
    pages = len({page.digest for page, _ in best.values()})
    failed = f", and {unsearched} of {len(each)} searches failed" * bool(unsearched)
    reading = f"{pages} page{'s' * (pages != 1)}{failed}"
    return RetrievedPassages(tuple(best.values()), tuple(failures)), reading


class SideQuotes(NamedTuple):
    """The quotes of each side, and the nearest ones for where there are none."""

    shown: Mapping[Stance, tuple[Quote, ...]]
    nearest: tuple[Quote, ...]


def _judge_evidence(
    claim: str,
    gathered: RetrievedPassages,
    judge: EvidenceJudge,
    settings: SidesSettings,
    observe: RankingObserver,
) -> SideQuotes:
    """Quote what takes a side by the evidence model, in the sections of the best passages."""
    sections = judge_sections(claim, RetrievedPassages(gathered.found[: settings.judged]), judge)
    sections.sort(key=lambda section: section.judgement.neither)
    observe([describe_section(each, 1 - each.judgement.neither) for each in sections])
    quotes_by_side: dict[Stance, tuple[Quote, ...]] = {}
    for side in _SIDES:
        others = [quote for quotes in quotes_by_side.values() for quote in quotes]
        quotes_by_side[side] = _quote_side(claim, side, sections, judge, settings, others)
    closest = (choose_quote(section, settings.longest) for section in sections)
    distinct = dict.fromkeys(quote for quote in closest if quote is not None)
    return SideQuotes(quotes_by_side, tuple(distinct)[: settings.quotes])


_SIDES: tuple[Stance, Stance] = ("for", "against")


def _get_probability(judgement: EvidenceJudgement, side: Stance) -> float:
    return judgement.supports if side == "for" else judgement.refutes


def _quote_side(
    claim: str,
    side: Stance,
    sections: Sequence[JudgedSection],
    judge: EvidenceJudge,
    settings: SidesSettings,
    others: Sequence[Quote],
) -> tuple[Quote, ...]:
    """Quote the sections that take a side, the surest first, those of pages not yet quoted before.

    Nothing that stands in `others`, the quotes of the other side, is quoted.
    """
    taking = [each for each in sections if _get_probability(each.judgement, side) >= settings.least]
    taking.sort(key=lambda section: -_get_probability(section.judgement, side))
    chosen: list[Quote] = []
    for section in _put_new_pages_first(taking):
        if len(chosen) == settings.quotes:
            break
        quote = _choose_side_quote(claim, side, section, judge, settings)
        if quote and not any(_repeats_quote(quote, other) for other in (*others, *chosen)):
            chosen.append(quote)
    return tuple(chosen)


def _put_new_pages_first(sections: Sequence[S]) -> list[S]:
    first = {section.page.digest: section for section in reversed(sections)}
    new = [each for each in sections if each is first[each.page.digest]]
    return [*new, *(each for each in sections if each is not first[each.page.digest])]


def _choose_side_quote(
    claim: str, side: Stance, section: JudgedSection, judge: EvidenceJudge, settings: SidesSettings
) -> Quote | None:
    """Quote the sentence of a section that takes the side most clearly, judged by itself.

    Where none does without the sentences around it, the blocks that answer are quoted if they do.
    """
    page = section.page
    quotes = [
        page.quote_whole_words(start, end)
        for start, end in find_sentences(page, section.start, section.end)
        if end - start <= settings.longest
        and _is_whole_sentence(page, start, end)
        and not is_quote_too_short(page.text, start, end)
    ]
    blocks = choose_quote(section, settings.longest)
    if blocks is not None and blocks not in quotes:
        quotes.append(blocks)
    heading = f"{page.title} {get_headings_above(page, section.start)}".strip()
    judged = judge(claim, [EvidencePassage(quote.text, heading) for quote in quotes])
    sure = [
        (quote is not blocks, probability, quote)
        for quote, judgement in zip(quotes, judged, strict=True)
        if (probability := _get_probability(judgement, side)) >= settings.least
    ]
    return max(sure, key=lambda each: each[:2])[2] if sure else None


def _repeats_quote(quote: Quote, other: Quote) -> bool:
    """Return True if two quotes overlap or say the same."""
    if quote.digest == other.digest and quote.start < other.end and other.start < quote.end:
        return True
    return _to_one_line(quote.text).casefold() == _to_one_line(other.text).casefold()


def _judge_sentences(
    claim: AssumedClaim,
    gathered: RetrievedPassages,
    policy: Policy,
    steps: list[Step],
    settings: SidesSettings,
    observe: RankingObserver,
) -> tuple[SideQuotes, int]:
    """Quote the sentences that take a side by the policy. Raises what the policy raises.

    With the quotes comes the number of sentences whose judgement cannot be read.
    """
    candidates = _list_candidates(claim.question, gathered, settings, observe)
    listed = _alternate_denials(candidates)[: settings.asked]
    stances = list(_ask_stances(policy, claim.text, listed, steps, settings.chat))
    judged, chosen = list(zip(listed, stances, strict=True)), dict[Stance, tuple[Quote, ...]]()
    for side in _SIDES:
        taking = [each.sentence for each, stance in judged if stance == side]
        chosen[side] = _choose_quotes(taking, settings.quotes)
    nearest = _choose_quotes([each.sentence for each in candidates], settings.quotes)
    return SideQuotes(chosen, nearest), stances.count("")


def _list_candidates(
    claim: str, gathered: RetrievedPassages, settings: SidesSettings, observe: RankingObserver
) -> list[SideCandidate]:
    """List the sentences that may be quoted by descending score, without repetitions."""
    # As a yes-or-no question, so that the ranking counts a sentence that repeats the claim.
    claim_question = claim if is_yes_no_question(claim) else f"Is it so that {claim}?"
    ranked = rank_passages(claim_question, gathered.found)
    observe(ranked)
    every = [each for passage in ranked for each in _list_in_passage(passage, settings.longest)]
    first: dict[str, SideCandidate] = {}
    for each in sorted(every, key=lambda each: -each.sentence.score):
        first.setdefault(_to_one_line(each.sentence.text).casefold(), each)
    return list(first.values())


def _list_in_passage(passage: RankedPassage, longest: int) -> Iterator[SideCandidate]:
    """Yield the complete sentences of a passage, each with the one before."""
    page = passage.page
    spans = find_sentences(page, passage.hit.start, passage.hit.end)
    sentences = ["", *(page.text[start:end] for start, end in spans)]
    before = dict(zip(spans, sentences, strict=False))
    for sentence in passage.sentences:
        span = sentence.start, sentence.end
        short = is_quote_too_short(page.text, *span)
        if len(sentence.text) <= longest and _is_whole_sentence(page, *span) and not short:
            yield SideCandidate(sentence, before[span])


def _is_whole_sentence(page: Page, start: int, end: int) -> bool:
    """Return True if a span is a complete sentence: a lost part may be "It is a myth that"."""
    at = bisect(page.blocks, start, key=lambda block: block.start) - 1
    low, high = (page.blocks[at].start, page.blocks[at].end) if at >= 0 else (0, len(page.text))
    before, after = page.text[low:start].rstrip(), page.text[end:high].strip()
    begins = not before or before[-1] in SENTENCE_ENDS
    return begins and (not after or page.text[end - 1] in SENTENCE_ENDS)


def _alternate_denials(candidates: Sequence[SideCandidate]) -> list[SideCandidate]:
    """Alternate sentences without and with negation, so that the first ones have both kinds."""
    denying = [each for each in candidates if contains_negation(each.sentence.text)]
    others = [each for each in candidates if not contains_negation(each.sentence.text)]
    return [each for each in chain.from_iterable(zip_longest(others, denying)) if each is not None]


def _ask_stances(
    policy: Policy, claim: str, candidates: Sequence[SideCandidate], steps: list[Step], chat: bool
) -> Iterator[str]:
    """Yield the side that the policy names for each sentence, "" where it names none.

    A chat model is asked about all of them at once, another policy about each.
    """
    lines = [
        (neutralize_line(each.sentence.text), neutralize_line(each.before)) for each in candidates
    ]
    claim = neutralize_line(claim)
    for group in [lines] if chat and lines else [[line] for line in lines]:
        if chat:
            listed = [f"{n}. {line} (after: {before})" for n, (line, before) in enumerate(group, 1)]
            turn = "\n".join([f"Claim: {claim}", "", *listed])
            prompt = render_chat_prompt(render_prompt("sides_together"), [turn])
        else:
            [(line, before)] = group
            prompt = render_prompt("sides_stance", claim=claim, before=before, sentence=line)
        reply = _ask_policy(policy, prompt, steps)
        named = dict(_STANCE.findall(reply if chat else f"1: {reply}"))
        yield from (named.get(str(n), "").lower() for n in range(1, len(group) + 1))


_STANCE = re.compile(
    r"(?<![\w.])(\d{1,3})(?:\W*\b(?:is|side|stance|judge?ment|sentence|answer)\b)?"
    r"\W*\b(for|against|neither)[*_\"'`)\]]*[ \t]*(?:[-–—:;.,(|}\n]|\Z)",
    re.IGNORECASE,
)
"""a number and the side behind it, with a reason or none, in a line or in JSON"""


def _choose_quotes(sentences: Sequence[ScoredSentence], most: int) -> tuple[Quote, ...]:
    """Quote the best `most` sentences, those of pages not yet quoted first."""
    best = _put_new_pages_first(sentences)[:most]
    return tuple(each.page.quote_whole_words(each.start, each.end) for each in best)


def _render_answer(
    claim: str, sides: Mapping[Stance, Sequence[Quote]], read: str, judge: str
) -> Answer:
    """Render the answer: the claim, the quotes for and against it, and the judge."""
    text = f"Claim: {_to_one_line(claim)}\n"
    quotes: list[Quote] = []
    claims: list[Claim] = []
    for side, cited in sides.items():
        text += f"\n{side.capitalize()}:\n"
        for quote in cited:
            start = len(text)
            text += _to_one_line(quote.text)
            claims.append(Claim(start, len(text), (len(quotes),)))
            quotes.append(quote)
            text += "\n"
        if not cited:
            text += f"Nothing {side} it was found in {read}; that is no proof.\n"
    return Answer(f"{text}\n{judge}", tuple(quotes), tuple(claims))


_RENDERED = re.compile(r"Claim: ([^\n]+)\n\nFor:\n(?:.*\n)?\nAgainst:\n.*\n([^\n]+)", re.DOTALL)
_JUDGED_BY = re.compile(r"Judged by (?:(?!\. ).)+\.")
"""the judge; before version 0.3 it could be "words alone", with a colon and what that meant"""
_READ = re.compile(r"it was found in (\d+ pages?(?:, and \d of \d searches failed)?); that is no")
_DECLINED = re.compile(
    r"(?:No sentence was judged to be|Nothing that was read is)"  # the second before version 0.2
    r" for or against this claim: [^\n]+\. [^\n]+"
)


def find_altered_sides(answer: Answer) -> list[TextVerdict]:
    """Find a part of a saved answer's text that `answer_both_sides` did not write; at most one.

    Empty where rendering its quotes and claims again gives the same text. The wording of the claim
    and the side of each quote cannot be checked and are taken as they are.
    """
    if answer.declined:
        whole = _DECLINED.fullmatch(answer.text) and not answer.claims
        detail = "a declined answer says that no sentence was judged to take a side"
        return [] if whole else [TextVerdict(answer.text, "claim_differs", detail)]
    for number, claim in enumerate(answer.claims, 1):
        claim_text = answer.text[claim.start : claim.end]
        quoted = [_to_one_line(answer.quotes[each].text) for each in claim.quotes]
        if quoted != [claim_text]:
            why = f"claim {number} says this, and its quote “{' '.join(quoted)}”"
            return [TextVerdict(claim_text, "claim_differs", why)]
    match = _RENDERED.fullmatch(answer.text)
    if match and _JUDGED_BY.fullmatch(match[2]):
        middle = answer.text.index("\nAgainst:\n")
        sides: dict[Stance, list[Quote]] = {"for": [], "against": []}
        for claim in answer.claims:
            side: Stance = "for" if claim.start < middle else "against"
            sides[side] += [answer.quotes[number] for number in claim.quotes]
        read = _READ.search(answer.text)
        again = _render_answer(match[1], sides, read[1] if read else "", match[2])
        if (again.text, again.quotes, again.claims) == (answer.text, answer.quotes, answer.claims):
            return []
    detail = "outside of its quotes this is not what --both-sides writes"
    return [TextVerdict(answer.text, "claim_differs", detail)]


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
