"""Answers by models of which only those sentences stay that what was quoted supports."""

from collections.abc import Sequence
from functools import cache

import msgspec

from rookery.errors import Outcome
from rookery.evidence.evidence_model import EvidenceJudge
from rookery.evidence.sentence_support import (
    SupportedText,
    cite_sentences,
    is_supported,
    locate_answers,
)
from rookery.quotes.citation_syntax import CitationSyntaxError, order_quotes_by_use
from rookery.records import Answer, Claim, Episode, Failure, Question, Quote


class SupportFilter:
    """Parses completions: each sentence cites the quotes that support it, or is taken out.

    So what a page asks a model to say enters an answer only where what was quoted says it too.
    """

    def __init__(self, question: Question, quotes: Sequence[Quote], judge: EvidenceJudge) -> None:
        sources = locate_answers(question.text, quotes)  # whole: the judge reads each of them

        def cite_text(text: str) -> SupportedText:
            return cite_sentences(text, sources, question.text, judge)

        self._cite = cache(cite_text)

    def parse_supported(self, text: str) -> Answer:
        """Parse a completion. Raises CitationSyntaxError where nothing of it is supported."""
        answer = self._cite(text).answer
        if not answer.text:
            raise CitationSyntaxError("no sentence of it is supported by what was quoted")
        return order_quotes_by_use(answer)

    def report_removed(self, episode: Episode) -> Episode:
        """Add the sentences that were taken out of an episode's answer to its failures."""
        if episode.answer is None:
            return episode
        removed = self._cite(episode.steps[-1].said.text.strip()).removed
        failures = (Failure(episode.by, Outcome.UNSUPPORTED, sentence) for sentence in removed)
        return msgspec.structs.replace(episode, failures=(*episode.failures, *failures))


def require_supported_claims(answer: Answer, question: Question, judge: EvidenceJudge) -> Answer:
    """Return the answer without text that cites nothing, where its quotes support each claim.

    Raises CitationSyntaxError where they do not.
    """
    text, claims = "", list[Claim]()
    for claim in answer.claims:
        words = answer.text[claim.start : claim.end].strip()
        cited = [answer.quotes[number] for number in claim.quotes]
        sources = locate_answers(question.text, cited)
        if not any(is_supported(words, source, question.text, judge) for source in sources):
            raise CitationSyntaxError(f"its claim “{words}” is not supported by what it quotes")
        start = len(text) + bool(text)
        text += f"{' ' * bool(text)}{words}"
        claims.append(Claim(start, len(text), claim.quotes))
    return msgspec.structs.replace(answer, text=text, claims=tuple(claims))
