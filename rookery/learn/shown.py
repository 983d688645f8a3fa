"""A question and an answer as the tokens that a reward model reads, when it learns and when it
scores.

It knows nothing of models.
"""

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from rookery.cite.syntax import with_marks
from rookery.draft.rollout import writable
from rookery.records import Answer, Claim, Failed, Failure, Question


class Shown(NamedTuple):
    """What is read, the reward at its last token."""

    tokens: list[int]
    cut: int
    """tokens of quotes and given pages that found no room"""


class Showing(NamedTuple):
    """How questions and answers are shown.

    A question, an answer with its numbers, and between them each quote with its number and title
    (WebGPT, section 3.2: "a question and an answer with references"; GopherCite, section 2.8: the
    evidence, not the whole page). An end token stands after each of these and nowhere else, since
    text that spells one out is text: no page can pass for an answer.
    """

    tokenizer: PreTrainedTokenizerBase
    end: int
    """the token that ends each part"""
    pad: int
    """another token, so that the last token that does not pad is the last token that was shown,
    which is where transformers read a reward"""
    context: int
    """the most tokens"""
    given: bool = False
    """whether the pages that are given with a question are shown: the text to be summarised or
    continued (Ziegler)"""

    def shown(self, question: Question, answer: Answer) -> Shown:
        """Question, evidence and answer; where there is no room, evidence is cut, the longest
        first, and never the question or the answer.

        Raises Failed (too_long) where these two alone have more tokens than `context`.
        """
        asked = self._part(f"Question: {question.text}")
        said = self._part(f"Answer: {with_marks(answer, _numbers)}")
        begun = self._begin()
        room = self.context - len(begun) - len(asked) - len(said)
        if room < 0:
            detail = (
                f"question and answer have {self.context - room} tokens, and the reward model "
                f"reads {self.context}: shorten the answer, or use a model with a longer context"
            )
            raise Failed(Failure(f"an answer to {question.id}", "too_long", detail))
        whole = [self._part(text) for text in self._evidence(question, answer)]
        fitted = _fitted(whole, room)
        cut = sum(map(len, whole)) - sum(map(len, fitted))
        tokens = [*begun, *asked, *(token for part in fitted for token in part), *said]
        return Shown(tokens, cut)

    def _evidence(self, question: Question, answer: Answer) -> list[str]:
        given = [f"{page.title}\n{page.text}" for page in question.pages if self.given]
        quotes = enumerate(answer.quotes, 1)
        return [*given, *(f"[{number}] {quote.title}\n{quote.text}" for number, quote in quotes)]

    def _begin(self) -> list[int]:
        """The token that begins all texts, where the tokenizer has one that it uses."""
        first = self.tokenizer("")["input_ids"][:1]
        return list(first) if first == [self.tokenizer.bos_token_id] else []

    def _part(self, text: str) -> list[int]:
        encoded = self.tokenizer(
            writable(text),
            add_special_tokens=False,
            split_special_tokens=True,
            verbose=False,
            return_attention_mask=False,
        )
        return [*(token for token in encoded["input_ids"] if token != self.end), self.end]


def padding(tokenizer: PreTrainedTokenizerBase, end: int, width: int) -> int:
    """A token to pad with that is not the end token: the tokenizer's own, where it has one that
    the model knows (`width` tokens); else any special token; else any token."""
    usual = [tokenizer.pad_token_id, *sorted(tokenizer.all_special_ids), 0, 1]
    return next(int(pad) for pad in usual if pad not in (None, end) and pad < width)


def _numbers(claim: Claim) -> str:
    return " " * bool(claim.quotes) + "".join(f"[{number + 1}]" for number in claim.quotes)


def _fitted(parts: Sequence[list[int]], room: int) -> list[list[int]]:
    """The parts, each cut at one length so that all have room together; each keeps its end."""
    longest = room
    for shorter, size in enumerate(sorted(map(len, parts))):
        longest = room // (len(parts) - shorter)
        if size > longest:
            break
        room -= size
    else:
        return list(parts)
    kept = [part if len(part) <= longest else [*part[: longest - 1], part[-1]] for part in parts]
    return kept if longest > 1 else [part for part in parts if len(part) <= longest]
