"""One completion while it is said: its tokens, the text that is certain, and why it stops.

It knows nothing of models.
"""

import codecs
from collections.abc import Collection, Sequence

from rookery.cite.vocabulary import Vocabulary
from rookery.draft.stops import certain
from rookery.records import Completion


class Utterance:
    """What is being said, token by token, until `stop` is "end", "stop" or "length".

    The text ends before the first stop string. Bytes that are no UTF-8 become U+FFFD; a character
    that is incomplete at the end is left out.
    """

    def __init__(
        self, vocabulary: Vocabulary, ends: Collection[int], stops: Sequence[str], limit: int
    ) -> None:
        self.tokens: list[int] = []
        self.stop = ""
        self._logprobs: list[float] = []
        self._text = ""
        self._given = 0
        self._vocabulary = vocabulary
        self._ends = ends
        self._stops = stops
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int, logprob: float) -> None:
        """Says one more token."""
        self.tokens.append(token)
        self._logprobs.append(logprob)
        if token in self._ends:
            self.stop = "end"
            return
        before = len(self._text)
        self._text += self._decoder.decode(self._vocabulary.tokens[token] or b"")
        found = [self._text.find(stop, max(0, before - len(stop) + 1)) for stop in self._stops]
        if found := [at for at in found if at >= 0]:
            self._text = self._text[: min(found)]
            self.stop = "stop"
        elif len(self.tokens) == self._limit:
            self.stop = "length"

    def piece(self) -> str:
        """The text since the last piece, but for what may be the beginning of a stop string."""
        start, self._given = self._given, self._certain()
        return self._text[start : self._given]

    def completion(self) -> Completion:
        """All that was said. The tokens are those drawn, ends and stop strings included."""
        return Completion(self._text, tuple(self.tokens), tuple(self._logprobs), self.stop)

    def _certain(self) -> int:
        """How much of the text will stay, whatever follows."""
        return len(self._text) if self.stop else certain(self._text, self._stops)
