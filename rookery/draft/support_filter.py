"""Answers by models of which only those sentences stay that what was quoted supports."""

from collections.abc import Sequence
from functools import cache

import msgspec

from rookery.cite.evidence_model import EvidenceJudge
from rookery.cite.sentence_support import UNSUPPORTED, SupportedText, cite_sentences
from rookery.cite.syntax import CitationSyntaxError, order_quotes_by_use
from rookery.records import Answer, Episode, Failure, Question, Quote


class SupportFilter:
    """Parses completions: each sentence cites the quotes that support it, or is taken out.

    So what a page asks a model to say enters an answer only where what was quoted says it too.
    """

    def __init__(self, question: Question, quotes: Sequence[Quote], judge: EvidenceJudge) -> None:
        def cite(text: str) -> SupportedText:
            return cite_sentences(text, quotes, question.text, judge)

        self._cite = cache(cite)

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
        failures = (Failure(episode.by, UNSUPPORTED, sentence) for sentence in removed)
        return msgspec.structs.replace(episode, failures=(*episode.failures, *failures))
