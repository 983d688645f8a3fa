"""Inline evidence (GopherCite): one page per prompt, claims with quotes, best of N samples."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import cycle, islice
from typing import NamedTuple

import msgspec

from rookery.answers.best_of_n import (
    AnswerDraft,
    AnswerParser,
    BestOfNSettings,
    answer_with_best_draft,
    make_failed_episode,
    render_prompt,
    sample_drafts,
)
from rookery.answers.chat_answers import (
    ChatSearch,
    ChatSettings,
    choose_nearest,
    choose_references,
    list_searches,
    render_reference_blocks,
    show_question,
    write_queries,
)
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import require_supported_claims
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage, convert_to_probability
from rookery.evidence.passage_ranking import PassageRanker, RankingObserver, rank_passages
from rookery.models.chat_prompts import make_reply_form, read_json_objects, render_chat_prompt
from rookery.models.constrained_decoding import PolicyConstrainer
from rookery.pages.page_text import neutralize_line
from rookery.pages.passages import find_sentences
from rookery.quotes.answer_types import mark_question
from rookery.quotes.chat_replies import read_chat_reply
from rookery.quotes.citation_syntax import (
    CitationSyntaxError,
    UnsupportedAnswerError,
    parse_inline,
    write_inline_claim,
)
from rookery.quotes.repair import repair_quote
from rookery.quotes.verification import is_quote_too_short
from rookery.records import (
    Answer,
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

GOPHERCITE_METHOD = "gophercite"


class GopherCiteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of GopherCite: pages, and the length of a prompt."""

    pages: int = 4
    """K, the number of pages, each shown in its own prompts (GopherCite, section 2.3)"""
    budget: int = 6000
    """maximum characters of a page in a prompt"""
    before: int = 500
    """maximum characters shown before the passage found (GopherCite, appendix A)"""
    quotes: int = 0
    """maximum quotes of an answer; a sample with more is bad syntax. 0: any number"""
    answers: float = 0.5
    """least probability that a quote of a sample answers the question, by the evidence model"""
    limits: RetrievalLimits = RetrievalLimits()
    """limits of retrieval"""
    window: ChatSettings | None = None
    """of a chat model: it writes the searches, is shown the sections of a page that hold all
    passages found there, is asked about the pages at the same time, replies with JSON, and may say
    that a page does not answer. None: the question is searched, and the prompts are the paper's"""


def answer_with_gophercite(
    question: Question,
    library: Library,
    policy: Policy,
    rank: PassageRanker = rank_passages,
    choosing: BestOfNSettings = BestOfNSettings(samples=8),
    settings: GopherCiteSettings = GopherCiteSettings(),
    constrain: PolicyConstrainer | None = None,
    observe: RankingObserver = lambda ranked: None,
    judge: EvidenceJudge | None = None,
    on_command: Callable[[str], None] = lambda command: None,
    trained: bool = False,
) -> Episode:
    """Answer a question with the best of N samples, each quoting the one page its prompt shows.

    The pages take turns, so N should exceed their number. `constrain` makes a policy that can only
    quote the page verbatim. Without a page the policy is not called. A sample is no answer if its
    syntax is bad, its title is another page's, or a quote is too short or not on the page
    (GopherCite, appendix F.1); a nearly verbatim quote is replaced by the page's own words where
    nothing that matters differs. A quote becomes the whole sentences that it stands in, and with a
    `judge` a sample is no answer unless a quote of it answers the question and its quotes support
    each claim; text that cites nothing is then left out. `rank` orders the passages that were
    found, and `observe` gets them. A chat model (`settings.window`) writes the searches, which
    `on_command` gets; a reply of it that is no answer is asked for once more, each page is asked
    about, and the answer is declined, with what was searched, where none gives one. Samples of a
    policy that was `trained` on these prompts are read as they were then: quotes stay as they are.
    """
    before, searched = list[Step](), list[str]()
    if settings.window:
        search = ChatSearch(question, library, rank, settings.window, observe, on_command)
        try:
            queries = write_queries(question, policy, before, settings.window.queries)
        except Failed as error:
            return make_failed_episode(question, GOPHERCITE_METHOD, error)
        passages, failures = search.add_searches(queries), tuple(search.failures)
        searched = search.searched
    else:
        gathered = gather_passages(question.text, library, settings.limits)
        ranked, failures = rank(question.text, gathered.found), gathered.failures
        observe(ranked)
        passages = [(each.page, each.hit) for each in ranked]
    places = choose_best_pages(passages, settings.pages)
    if not places:
        none = Outcome.NO_EVIDENCE
        return Episode(question, GOPHERCITE_METHOD, tuple(before), None, none, failures)
    repairs: dict[Quote, float] = {}

    @cache
    def answers_question(quote: Quote) -> bool:
        if judge is None:
            return True
        [judged] = judge(mark_question(question.text), [EvidencePassage(quote.text, quote.title)])
        return convert_to_probability(judged.answers) >= settings.answers

    def check_claims(answer: Answer) -> Answer:
        return require_supported_claims(answer, question, judge) if judge else answer

    prompts = []
    for page, hits in places:
        built = build_page_prompt(question, page, hits, settings, repairs)
        checked = _check_quotes(built, page, answers_question, check_claims)
        prompts.append(built if trained else checked)
    turns = cycle(prompts)
    if settings.window:
        choosing = msgspec.structs.replace(choosing, samples=max(choosing.samples, len(prompts)))

    def sample(n: int) -> Iterator[AnswerDraft]:
        drawn = Counter(islice(turns, n))
        if settings.window:
            yield from _ask_windows(policy, drawn)
            return
        for one, many in drawn.items():
            constrained = constrain([one.document]) if constrain else policy
            yield from sample_drafts(constrained, one.prompt, many, one.read)

    episode = answer_with_best_draft(
        question, GOPHERCITE_METHOD, sample, choosing, failures, before
    )
    no_claim = Failure(GOPHERCITE_METHOD, Outcome.BAD_SYNTAX, NOT_ON_PAGE)
    if settings.window and not episode.answer and episode.failures == (*failures, no_claim):
        references = choose_references([(page, hits[0]) for page, hits in places], settings.window)
        nearest = choose_nearest(question, references, settings.window.longest)
        answer = Answer(_NO_PAGE_ANSWERS.format(len(places)), nearest, declined=True)
        episode = msgspec.structs.replace(
            episode, answer=answer, stop="declined", failures=failures
        )
        return list_searches(episode, searched)
    quotes = episode.answer.quotes if episode.answer else ()
    marked = tuple(
        _report_repair(quote, repairs[mended])
        for quote in quotes
        for mended in repairs
        if mended.digest == quote.digest and quote.start <= mended.start and mended.end <= quote.end
    )
    others = (each for each in episode.failures if each != no_claim)
    return msgspec.structs.replace(episode, failures=(*others, *marked))


NOT_ON_PAGE = "it says that the page does not answer"
_NO_PAGE_ANSWERS = "The model says that no page that it was shown answers this. Pages shown: {}."
_ASK_AGAIN = (
    "That reply cannot be used: {fault}. Write the JSON object again; copy the quote from the page "
    "letter by letter. If the page does not answer the question, leave claim and quote empty."
)


def _ask_windows(policy: Policy, windows: Counter["PagePrompt"]) -> Iterator[AnswerDraft]:
    """Ask about some pages at the same time, each so often; yield the replies in their order.

    Raises the first failure after the replies to all others.
    """
    pool = ThreadPoolExecutor(len(windows))
    calls = [pool.submit(_ask_window, policy, *window) for window in windows.items()]
    pool.shutdown(wait=False)  # whoever is interrupted does not wait for a server
    for replies in sorted(calls, key=lambda call: call.exception() is not None):
        yield from replies.result()


def _ask_window(policy: Policy, window: "PagePrompt", n: int) -> list[AnswerDraft]:
    """Ask n times about a page, and once more where no reply can be used."""
    drafts = sample_drafts(policy, window.prompt, n, window.read)
    if any(draft.fault in ("", NOT_ON_PAGE) for draft in drafts):
        return drafts
    again = _ASK_AGAIN.format(fault=drafts[0].fault)
    prompt = _render_window(window.document[1], drafts[0].step.said.text, again)
    return [*sample_drafts(policy, prompt, 1, window.read), *drafts[1:]]


def _render_window(*turns: str) -> str:
    form = make_reply_form(claim="string", quote="string")
    return render_chat_prompt(render_prompt("chat_quote"), turns, reply_form=form)


def parse_quote_reply(text: str, page: Page, find: Callable[[Page, str], Quote | None]) -> Answer:
    """Parse a chat model's claims and quotes of one page: JSON, or the papers' syntax.

    Raises CitationSyntaxError: NOT_ON_PAGE where it has none, else what is wrong.
    """
    objects = [each for each in read_json_objects(text) if {"claim", "quote"} & each.keys()]
    if objects:
        pairs = [[str(each.get(name) or "") for name in ("claim", "quote")] for each in objects]
        text = " ".join(_write_claim(c, page.title, q) for c, q in pairs if not _claims_nothing(c))
    if _claims_nothing(text):
        raise CitationSyntaxError(NOT_ON_PAGE)
    return parse_inline(text, [page], find)


def _write_claim(claim: str, title: str, words: str) -> str:
    plain = read_chat_reply(claim, ()).answer.text  # without numbers of references
    return write_inline_claim(plain, title, words.strip(" \n\"'“”‘’…`"))


def _claims_nothing(text: str) -> bool:
    return bool(_NONE.match(text)) or read_chat_reply(text, ()).refuses


_NONE = re.compile(r"\W*(?:(?:none|null|n/?a|no answer|not found)\b\W*)?\Z", re.IGNORECASE)


def _check_quotes(
    page_prompt: "PagePrompt",
    page: Page,
    answers_question: Callable[[Quote], bool],
    check_claims: Callable[[Answer], Answer],
) -> "PagePrompt":
    """Return the prompt with a parser that widens quotes to sentences, and rejects those that do
    not answer and claims that are not supported."""

    def read(text: str) -> Answer:
        answer = page_prompt.read(text)
        for quote in answer.quotes:
            if is_quote_too_short(page.text, quote.start, quote.end):
                raise CitationSyntaxError(f"its quote “{quote.text}” is too short to mean anything")
        quotes = tuple(widen_to_sentences(page, quote) for quote in answer.quotes)
        if quotes and not any(map(answers_question, quotes)):
            words = quotes[0].text
            raise UnsupportedAnswerError(f"its quote “{words}” does not answer the question")
        return check_claims(msgspec.structs.replace(answer, quotes=quotes))

    return page_prompt._replace(read=read)


def widen_to_sentences(page: Page, quote: Quote) -> Quote:
    """Return the quote with the whole of each sentence of the page that it touches."""
    spans = find_sentences(page, 0, len(page.text))
    around = [span for span in spans if span[0] < quote.end and quote.start < span[1]]
    if not around:
        return quote
    return page.quote_whole_words(min(quote.start, around[0][0]), max(quote.end, around[-1][1]))


def _report_repair(quote: Quote, score: float) -> Failure:
    detail = f"quoted with {score:.0f} % of the page's own words, which are shown instead"
    return Failure(quote.url, Outcome.REPAIRED, detail)


def choose_best_pages(
    passages: Iterable[tuple[Page, Hit]], most: int
) -> list[tuple[Page, list[Hit]]]:
    """Choose up to `most` pages of these passages, which come best first, as their pages do.

    Each page comes with its passages, best first.
    """
    places: dict[str, tuple[Page, list[Hit]]] = {}
    for page, hit in passages:
        places.setdefault(page.url, (page, []))[1].append(hit)
    return list(places.values())[:most]


_CELL_BARS = re.compile(r"[ \t]*\|[ \t]*")


class PagePrompt(NamedTuple):
    """The prompt with one page, and the parser of its completions."""

    prompt: str
    read: AnswerParser
    """parses a completion with the page's quotes"""
    document: tuple[str, str]
    """title and text shown, for constrained decoding"""


def build_page_prompt(
    question: Question,
    page: Page,
    hits: Sequence[Hit],
    settings: GopherCiteSettings,
    repairs: dict[Quote, float],
) -> PagePrompt:
    """Build the prompt of one page around the best of its passages, or of a window with all.

    Its parser of completions enters quotes that it repaired into `repairs`, with their scores in
    percent.
    """

    def find(page: Page, words: str) -> Quote | None:
        mended = repair_quote(page, words)
        if settings.window and not mended.quote and "|" in words:  # a row of a Markdown table
            mended = repair_quote(page, _CELL_BARS.sub("\t", words).strip())
        if mended.quote and mended.outcome == "repaired":
            repairs[mended.quote] = mended.score
        return mended.quote

    def read(text: str) -> Answer:
        if settings.window:
            answer = parse_quote_reply(text, page, find)
        else:
            answer = parse_inline(text, [page], find)
        refuse_hidden_quotes(answer, page)
        if settings.quotes and len(answer.quotes) > settings.quotes:
            fault = f"it has {len(answer.quotes)} quotes, more than {settings.quotes}"
            raise CitationSyntaxError(fault)
        return answer

    if settings.window:
        sections = choose_references([(page, hit) for hit in hits], settings.window)
        sections.sort(key=lambda section: section.quote.start)
        turn = f"{render_reference_blocks(sections)}\n\n{show_question(question)}"
        return PagePrompt(_render_window(turn), read, (page.title, turn))
    start, end = truncate_page(page, hits[0].start, settings)
    excerpt = page.text[start:end]
    source = f"Page: {neutralize_line(page.title)}\n{neutralize_line(excerpt)}\n"
    prompt = render_prompt("gophercite", pages=source, question=question.text)
    return PagePrompt(prompt, read, (page.title, excerpt))


def measure_shown_text(page: Page) -> int:
    """Return the length of a page's text without hidden text, which stands behind all other."""
    ends = (block.end for block in page.iter_shown())
    return max(ends, default=0 if page.blocks else len(page.text))


def refuse_hidden_quotes(answer: Answer, page: Page) -> None:
    """Raise CitationSyntaxError if a quote of this page holds text that the page hides."""
    shown = measure_shown_text(page)
    for quote in answer.quotes:
        if quote.end > shown:
            raise CitationSyntaxError(f"its quote “{quote.text}” is text that the page hides")


def truncate_page(page: Page, hit_start: int, settings: GopherCiteSettings) -> tuple[int, int]:
    """Return the start and end of the part of a page that a prompt shows, in characters.

    It goes from a sentence's start shortly before the position `hit_start` to a sentence's end
    (GopherCite, appendices A and D). A page within the budget is shown whole.
    """
    text = page.text[: measure_shown_text(page)]
    if len(text) <= settings.budget:
        return 0, len(text)
    low = max(0, hit_start - settings.before)
    starts = (begun for begun, _ in find_sentences(page, low, hit_start) if begun > low or not low)
    start = next(starts, hit_start)
    stop = min(start + settings.budget, len(text))
    return start, max(_find_sentence_ends(page, start, stop), default=stop)


def _find_sentence_ends(page: Page, start: int, stop: int) -> Iterator[int]:
    """Yield the ends of the sentences within the span; a truncated last one is left out."""
    spans = find_sentences(page, start, min(stop + 1, len(page.text)))
    return (end for _, end in spans if end <= stop)
