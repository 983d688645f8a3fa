"""Sentences that a model wrote: cleaned, cited by the quotes that support them, or taken out.

A small model writes no citation numbers, and larger ones write wrong ones, so that the numbers are
not looked at. WebGLM (section 3.2.2) cites by the words that a sentence shares with a reference;
words do not tell a claim from its denial, so the evidence model is asked as well whether the quote
supports the sentence (GopherCite, section 2.1), and numbers and names must stand in the quote.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from rookery.evidence.claim_support import SUPPORT_THRESHOLD, judge_claim_support
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage
from rookery.pages.passages import find_sentences
from rookery.pages.search_terms import QUESTION_WORDS
from rookery.pages.text_folding import fold_text
from rookery.quotes.answer_types import is_yes_no_question
from rookery.quotes.citation_syntax import NUMBERED
from rookery.quotes.repair import CorrectionSettings, list_guarded_words, measure_shared_words
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Claim, Page, Quote

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

_RUN = 4
"""words in a row that no sentence of an answer says twice"""
_ASKED = 0.75
"""share of the question's words from which a sentence with the answer says what was asked"""


class SupportSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of citing sentences by what supports them."""

    support: float = SUPPORT_THRESHOLD
    """least probability that a quote supports a sentence, by the evidence model"""
    words: CorrectionSettings = CorrectionSettings()
    """least share of shared words, where there is no evidence model"""


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
    settings: SupportSettings = SupportSettings(),
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
            if tells and is_supported(sentence, source, question, judge, settings)
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
    sentence: str,
    source: AnswerSource,
    question: str,
    judge: EvidenceJudge | None = None,
    settings: SupportSettings = SupportSettings(),
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
        return measure_shared_words(sentence, quote.text) >= settings.words.threshold
    if _says_answer(sentence, source.answer, question):
        return True
    return any(
        judge_claim_support(sentence, [EvidencePassage(text, quote.title)], judge).supports
        >= settings.support
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
