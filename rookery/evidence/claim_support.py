"""Support of a claim by the passages that it cites, judged by the evidence model.

It is GopherCite's question of whether the evidence supports the claim (section 2.1), with the
passages read together, as ALCE does for citation recall (Gao et al. 2023, section 3.3), and each
alone.

Sentences that a model wrote are cleaned, cited by the quotes that support them, or taken out. A
small model writes no citation numbers, and larger ones write wrong ones, so that the numbers are
not looked at. WebGLM (section 3.2.2) cites by the words that a sentence shares with a reference;
words do not tell a claim from its denial, so the evidence model is asked as well whether the quote
supports the sentence, and numbers and names must stand in the quote.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec

from rookery.errors import Outcome
from rookery.evidence.evidence_model import (
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.pages.passages import find_sentences
from rookery.pages.search_terms import QUESTION_WORDS
from rookery.pages.text_folding import fold_text
from rookery.quotes.answer_types import is_yes_no_question, mark_question
from rookery.quotes.citation_syntax import NUMBERED, UnsupportedAnswerError, order_quotes_by_use
from rookery.quotes.repair import CorrectionSettings, list_guarded_words, measure_shared_words
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Claim, Failure, Page, Question, Quote, Record, Reward

SUPPORT_THRESHOLD = 0.5
"""probability from which a claim counts as supported, or else as refuted"""
MAX_WINDOW_CHARACTERS = 560
"""characters of evidence that are judged at once: beside the longest claim and heading that the
model reads, its 256 tokens leave room for 125, of about four and a half characters in English"""
MAX_PART_CHARACTERS = 240
"""characters of a claim that are judged at once; the model reads 64 tokens of it"""

SupportOutcome = Literal["supports", "refutes", "neither"]


class ClaimSupport(Record, frozen=True):
    """Probabilities that passages support a claim, refute it or do neither; they sum to 1."""

    supports: float
    refutes: float
    neither: float

    @property
    def outcome(self) -> SupportOutcome:
        """The relation whose probability reaches SUPPORT_THRESHOLD, else neither."""
        if self.supports >= SUPPORT_THRESHOLD:
            return "supports"
        return "refutes" if self.refutes >= SUPPORT_THRESHOLD else "neither"


class ClaimVerdict(Record, frozen=True):
    """Judgement of one claim of an answer by the verified quotes that it cites."""

    claim: str
    outcome: Literal["quoted", "supports", "refutes", "neither", "uncited", "unverified"]
    """quoted: it is one of its quotes, and no model is needed; uncited: it cites nothing;
    unverified: none of what it cites is verified or stored"""
    support: ClaimSupport | None = None
    """None where nothing could be judged"""
    detail: str = ""

    @property
    def supported(self) -> bool:
        """True if what the claim cites supports it."""
        return self.outcome in ("quoted", "supports")


def judge_claim_support(
    claim: str, passages: Sequence[EvidencePassage], judge: EvidenceJudge
) -> ClaimSupport:
    """Judge whether passages support a claim, refute it or do neither (GopherCite, section 2.1).

    Each passage is read alone and, where there are several, all are read as one text (ALCE, section
    3.3). What is longer than the model reads is cut into overlapping windows of neighbouring
    sentences. `supports` is the largest probability of any window, and `refutes` likewise, since
    what stands in one place need not stand in another; where evidence for and against a claim add
    up to more than 1, both are divided by their sum. A long claim is judged in parts: it is
    supported as far as its least supported part, and refuted as far as its most refuted one.

    A claim that is one of the passages word for word is supported without asking the judge. Without
    a passage that says anything, and for an empty claim, the outcome is neither.
    """
    if repeats_passage(claim, passages):
        return ClaimSupport(1.0, 0.0, 0.0)
    read = [each for each in passages if each.text.strip()]
    if not read or not claim.strip():
        return ClaimSupport(0.0, 0.0, 1.0)
    if len(read) > 1:
        headings = " ".join(dict.fromkeys(each.heading for each in read))
        read.append(EvidencePassage("\n".join(each.text for each in read), headings.strip()))
    windows = [
        EvidencePassage(window, each.heading)
        for each in read
        for window in cut_windows(each.text, MAX_WINDOW_CHARACTERS)
    ]
    parts = [_judge_part(part, windows, judge) for part in cut_windows(claim, MAX_PART_CHARACTERS)]
    supports = min(part.supports for part in parts)
    refutes = max(part.refutes for part in parts)
    return ClaimSupport(supports, refutes, max(0.0, 1 - supports - refutes))


def _judge_part(
    part: str, windows: Sequence[EvidencePassage], judge: EvidenceJudge
) -> ClaimSupport:
    judged = judge(part, windows)
    supports = max(each.supports for each in judged)
    refutes = max(each.refutes for each in judged)
    both = max(1.0, supports + refutes)
    supports, refutes = supports / both, refutes / both
    return ClaimSupport(supports, refutes, max(0.0, 1 - supports - refutes))


def repeats_passage(claim: str, passages: Sequence[EvidencePassage]) -> bool:
    """Return True if a claim is one of the passages, white space evened out."""
    said = claim.split()
    return bool(said) and any(each.text.split() == said for each in passages)


def cut_windows(text: str, longest: int) -> list[str]:
    """Cut a text into windows of neighbouring sentences, of at most `longest` characters.

    Each begins in the middle of the one before, so that neighbours are read together somewhere. A
    sentence that is too long is cut.
    """
    if len(text) <= longest:
        return [text]
    pieces = [
        (low, min(low + longest, end))
        for start, end in find_sentences(Page("", "", text), 0, len(text))
        for low in range(start, end, longest)
    ]
    windows: list[str] = []
    first = last = 0
    while first < len(pieces):
        while last + 1 < len(pieces) and pieces[last + 1][1] - pieces[first][0] <= longest:
            last += 1
        windows.append(text[pieces[first][0] : pieces[last][1]])
        if last + 1 == len(pieces):
            break
        first = max(first + 1, (first + last + 1) // 2)
        last = max(first, last)
    return windows


def make_evidence_reward(judge: EvidenceJudge) -> Reward:
    """Return the reward 0 to 1 of an answer: how far its quotes support it and answer the question.

    It is the mean over the answer's claims of the probability that the quotes which a claim cites
    support it (`judge_claim_support`), times the probability that the best of all quotes cited
    answers the question. A claim without a quote counts 0, and so does a sentence that no claim
    touches, so that an answer without citations has the reward 0. What was judged before is not
    judged again: samples often cite the same passages.
    """
    judgements: dict[tuple[str, EvidencePassage], EvidenceJudgement] = {}

    def judge_once(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        fresh = [passage for passage in passages if (query, passage) not in judgements]
        for passage, judgement in zip(fresh, judge(query, fresh) if fresh else (), strict=True):
            judgements[query, passage] = judgement
        return [judgements[query, passage] for passage in passages]

    def compute_reward(question: Question, answer: Answer) -> float:
        cited = sorted({number for claim in answer.claims for number in claim.quotes})
        if not cited:
            return 0.0
        quotes = [_make_evidence_passage(answer.quotes[number]) for number in cited]
        answers = max(each.answers for each in judge_once(mark_question(question.text), quotes))
        supported = [0.0 for _ in _list_uncited_sentences(answer)]
        for claim in answer.claims:
            passages = [_make_evidence_passage(answer.quotes[number]) for number in claim.quotes]
            claim_text = answer.text[claim.start : claim.end].strip()
            supported.append(judge_claim_support(claim_text, passages, judge_once).supports)
        return fmean(supported) * convert_to_probability(answers)

    return compute_reward


def _make_evidence_passage(quote: Quote) -> EvidencePassage:
    return EvidencePassage(quote.text, quote.title)


def _list_uncited_sentences(answer: Answer) -> Iterator[str]:
    """Yield the sentences of an answer that no claim touches."""
    for start, end in find_sentences(Page("", "", answer.text), 0, len(answer.text)):
        if not any(claim.start < end and start < claim.end for claim in answer.claims):
            yield answer.text[start:end]


_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•–]|\(?[0-9]{1,2}[.)]|#+)[ \t]+", re.M)
_LEAD = re.compile(
    r"(?:answer|(?:the|my) answer(?: to (?:this|the|your) question)?(?: is)?)\s*[:,]\s*"
    r"|(?:according to|based on|as stated in|as mentioned in) (?:the|this) "
    r"(?:text|passage|information|references?)(?: (?:above|provided|given))*\s*,?\s+"
    r"|(?:the|this) (?:text|passage)(?: above)? (?:states?|says?|mentions?|explains?) that\s+",
    re.I,
)
"""what models say before an answer, and what adds nothing to it"""
_ENDS_SENTENCE = re.compile(r"[.!…。！][\"'”’»)\]」』]*\Z")
_QUOTATION_MARKS = '"“”'
_REPEATED = 0.8
"""share of a sentence's words in an earlier one from which it repeats that"""

SHARED_WORDS = CorrectionSettings().threshold
"""least share of a sentence's words in its source, where there is no evidence model"""
_RUN = 4
"""words in a row that no sentence of an answer says twice"""
_ASKED = 0.75
"""share of the question's words from which a sentence with the answer says what was asked"""


class AnswerSource(NamedTuple):
    """A quote, and where in it the evidence model finds the answer."""

    quote: Quote
    text: str
    """the sentences in which the answer stands"""
    answer: str
    """the words that answer best"""


class SupportedText(NamedTuple):
    """An answer whose every sentence rests on quotes, and the sentences that rested on none."""

    answer: Answer
    removed: tuple[str, ...]


def locate_answers(
    question: str, quotes: Sequence[Quote], judge: EvidenceJudge | None = None
) -> list[AnswerSource]:
    """Locate the answer in each quote: its sentences, and its words.

    Of a span of several sentences, the words are the sentence that answers best; a span that only
    repeats the question becomes its sentence. Without a judge both are the whole quote.
    """
    if judge is None:
        return [AnswerSource(quote, quote.text, quote.text) for quote in quotes]
    question = mark_question(question)
    judged = judge(question, [EvidencePassage(quote.text, quote.title) for quote in quotes])
    return [
        _cut_source(question, quote, *each.span, judge)
        for quote, each in zip(quotes, judged, strict=True)
    ]


def _cut_source(
    question: str, quote: Quote, first: int, last: int, judge: EvidenceJudge
) -> AnswerSource:
    text = quote.text
    sentences = find_sentences(Page("", "", text), 0, len(text))
    around = [span for span in sentences if span[0] < last and first < span[1]]
    if not around:
        return AnswerSource(quote, text, text)
    excerpt = text[around[0][0] : around[-1][1]]
    if len(around) == 1:
        answer = text[first:last]
        return AnswerSource(quote, excerpt, answer if has_new_words(answer, question) else excerpt)
    each = [text[low:high] for low, high in around]
    judged = judge(question, [EvidencePassage(sentence, quote.title) for sentence in each])
    best = max(range(len(each)), key=lambda number: judged[number].answers)
    return AnswerSource(quote, excerpt, each[best])


def cite_sentences(
    text: str,
    sources: Sequence[AnswerSource],
    question: str,
    judge: EvidenceJudge | None = None,
    finished: bool = True,
) -> SupportedText:
    """Cite each sentence of a model's text by the quotes that support it; take out the others.

    A sentence that says no more than the question is taken out too, unless that is one for yes or
    no. `finished` is False where the text was cut off at a limit of tokens: its last sentence is
    then dropped. Without a judge, shared words decide. The answer keeps all quotes, and has no text
    where no sentence is supported.
    """
    written, claims, removed = "", list[Claim](), list[str]()
    asks_side = is_yes_no_question(question)
    for sentence in list_written_sentences(text, finished):
        tells = asks_side or has_new_words(sentence, question)
        numbers = tuple(
            number
            for number, source in enumerate(sources)
            if tells and is_supported(sentence, source, question, judge)
        )
        if not numbers:
            removed.append(sentence)
            continue
        start = len(written) + bool(written)
        written += f"{' ' * bool(written)}{sentence}"
        claims.append(Claim(start, len(written), numbers))
    quotes = tuple(source.quote for source in sources)
    return SupportedText(Answer(written, quotes, tuple(claims)), tuple(removed))


def is_supported(
    sentence: str, source: AnswerSource, question: str, judge: EvidenceJudge | None = None
) -> bool:
    """Return True if a source supports a sentence of an answer.

    It does where the quote holds the sentence word for word. Otherwise the quote, its title or the
    question must have each of the sentence's numbers, names and negations; and the sentence must
    say the answer that was found with nearly all words of the question and no others, or the
    evidence model must say that the quote, or its sentences with the answer, support it. Without a
    judge, enough of the sentence's words must stand in the quote.
    """
    quote = source.quote
    if _stands_in(sentence, quote.text):
        return True
    if not _holds_details(sentence, quote, question):
        return False
    if judge is None:
        return measure_shared_words(sentence, quote.text) >= SHARED_WORDS
    if _says_answer(sentence, source.answer, question):
        return True
    return any(
        judge_claim_support(sentence, [EvidencePassage(text, quote.title)], judge).supports
        >= SUPPORT_THRESHOLD
        for text in dict.fromkeys((quote.text, source.text))
    )


def _stands_in(sentence: str, text: str) -> bool:
    """Return True if a text holds the words of a sentence in their order, whole."""
    words = [" ".join(re.findall(r"\w+", fold_text(each).text)) for each in (sentence, text)]
    return bool(words[0]) and f" {words[0]} " in f" {words[1]} "


def _says_answer(sentence: str, answer: str, question: str) -> bool:
    """Return True if a sentence says the answer with words of the question and no others.

    A sentence that leaves out words of the question may be about something else: that Unicode began
    in 1991 does not say when its surrogates did.
    """
    if not _stands_in(answer, sentence) or has_new_words(sentence, f"{question} {answer}"):
        return False
    return measure_shared_words(question, sentence) >= _ASKED


def has_new_words(sentence: str, source_text: str) -> bool:
    """Return True if a content word of a sentence stands in no form in the known text."""
    words = {word for word in split_words(sentence, stem=True) if word not in QUESTION_WORDS}
    return not words <= set(split_words(source_text, stem=True))


def _holds_details(sentence: str, quote: Quote, question: str) -> bool:
    known = f"{quote.title} {quote.text} {question}".casefold()
    return all(
        re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", known)
        for word in list_guarded_words(sentence)
    )


def list_written_sentences(text: str, finished: bool = True) -> list[str]:
    """Return the sentences of a model's text that can be shown.

    Citation numbers, marks of lists and phrases such as "According to the text," are stripped.
    Questions, sentences that repeat an earlier one or themselves, lines that announce a list and,
    unless the text is `finished`, its last sentence are left out.
    """
    plain = _LIST_MARK.sub("", NUMBERED.sub("", text)).strip()
    sentences: list[str] = []
    lines = [line for line in plain.splitlines() if line.strip()]
    for at, line in enumerate(lines):
        for sentence in _split_line(line, finished or at + 1 < len(lines)):
            repeats = any(_repeats_sentence(sentence, other) for other in sentences)
            if not repeats and not _repeats_itself(sentence):
                sentences.append(sentence)
    return sentences


def _split_line(line: str, finished: bool) -> Iterator[str]:
    stripped = _strip_lead(line.strip())
    spans = find_sentences(Page("", "", stripped), 0, len(stripped))
    for at, (start, end) in enumerate(spans):
        sentence = _strip_lead(stripped[start:end])
        last = at + 1 == len(spans)
        if _ENDS_SENTENCE.search(sentence):
            yield sentence
        elif last and finished and sentence and sentence[-1] not in ":;,?":
            yield f"{sentence}."


def _strip_lead(sentence: str) -> str:
    while lead := _LEAD.match(sentence):
        sentence = sentence[lead.end() :]
    if len(sentence) > 1 and sentence[0] in _QUOTATION_MARKS and sentence[-1] in _QUOTATION_MARKS:
        sentence = sentence[1:-1].strip()
    return sentence[:1].upper() + sentence[1:]


def _repeats_itself(sentence: str) -> bool:
    """Return True if a run of _RUN words comes twice, as when a model goes round in circles."""
    words = split_words(sentence)
    runs = [tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)]
    return len(set(runs)) < len(runs)


def _repeats_sentence(sentence: str, other: str) -> bool:
    ours, theirs = set(split_words(sentence)), set(split_words(other))
    return len(ours & theirs) >= _REPEATED * len(ours)


class SupportFilter:
    """Parses completions: each sentence cites the sources that support it, or is taken out.

    So what a page asks a model to say enters an answer only where what was quoted says it too. Of a
    text that is not `finished`, the last sentence is taken out, too.
    """

    def __init__(
        self, question: str, sources: Sequence[AnswerSource], judge: EvidenceJudge | None
    ) -> None:
        def cite_text(text: str, finished: bool) -> SupportedText:
            return cite_sentences(text, sources, question, judge, finished)

        self._cite = cache(cite_text)

    def parse_supported(self, text: str, finished: bool = True) -> Answer:
        """Parse a completion. Raises UnsupportedAnswerError where nothing of it is supported.

        The answer has only the quotes that it cites, in the order of first citation.
        """
        answer = self._cite(text, finished).answer
        if not answer.text:
            raise UnsupportedAnswerError("no sentence of it is supported by what was quoted")
        return order_quotes_by_use(answer)

    def list_removed(self, by: str, text: str, finished: bool = True) -> list[Failure]:
        """Return the sentences that were taken out of a completion, as failures of `by`."""
        removed = self._cite(text.strip(), finished).removed
        return [Failure(by, Outcome.UNSUPPORTED, sentence) for sentence in removed]


def require_supported_claims(answer: Answer, question: Question, judge: EvidenceJudge) -> Answer:
    """Return the answer without text that cites nothing, where its quotes support each claim.

    Raises UnsupportedAnswerError where they do not.
    """
    text, claims = "", list[Claim]()
    for claim in answer.claims:
        words = answer.text[claim.start : claim.end].strip()
        cited = [answer.quotes[number] for number in claim.quotes]
        sources = locate_answers(question.text, cited)
        if not any(is_supported(words, source, question.text, judge) for source in sources):
            raise UnsupportedAnswerError(f"its claim “{words}” is not supported by what it quotes")
        start = len(text) + bool(text)
        text += f"{' ' * bool(text)}{words}"
        claims.append(Claim(start, len(text), claim.quotes))
    return msgspec.structs.replace(answer, text=text, claims=tuple(claims))
