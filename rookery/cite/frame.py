r"""What may stand round titles and quotes in the inline syntax, as an automaton over bytes.

It spells out the marks of `rookery.cite.syntax` in the way that its parser reads them: a mark ends
what it stands in unless an odd number of backslashes precedes it. Titles and quotes it does not
know: it stops in the state `title`, and goes on from `quoted`, after the words of a quote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rookery.cite.pieces import NEVER
from rookery.cite.shape import Form
from rookery.cite.trie import Bytes, Ints

Table = dict[str, tuple[str, dict[str, str]]]
"""of each state: the state after any other character, the states after these"""

_CLAIM: Table = {
    # A claim is not empty: `%<>%(` leads nowhere, and `%<>>%(` is the claim `>`.
    "opened": ("claim", {">": "claim is >", "\\": "claim\\"}),
    "claim is >": ("claim", {">": "claim>", "%": "claim is >%", "\\": "claim\\"}),
    "claim is >%": ("claim", {">": "claim>", "(": "nowhere", "\\": "claim\\"}),
    "claim": ("claim", {">": "claim>", "\\": "claim\\"}),
    "claim>": ("claim", {">": "claim>", "%": "claim>%", "\\": "claim\\"}),
    "claim>%": ("claim", {">": "claim>", "(": "title", "\\": "claim\\"}),
    "claim\\": ("claim", {}),
    "quoted": ("nowhere", {"]": "quoted]"}),
    "title": ("in title", {}),
    "in title": ("in title", {}),
}
_ONE_CLAIM = _CLAIM | {
    "start": ("nowhere", {"%": "start%"}),
    "start%": ("nowhere", {"<": "opened"}),
    "quoted]": ("nowhere", {"%": "closed"}),
    "closed": ("nowhere", {}),
}
_ANSWER = _CLAIM | {
    "start": ("start", {"%": "start%", "\\": "start\\"}),
    "start%": ("start", {"%": "start%", "<": "opened", "\\": "start\\"}),
    "start\\": ("start", {}),
    "quoted]": ("nowhere", {"%": "closed"}),
    # What follows a quote at once may be more evidence for the same claim.
    "closed": ("after", {"%": "closed%", "\\": "after\\"}),
    "closed%": ("after", {"%": "after%", "<": "opened", "(": "title", "\\": "after\\"}),
    "after": ("after", {"%": "after%", "\\": "after\\"}),
    "after%": ("after", {"%": "after%", "<": "opened", "\\": "after\\"}),
    "after\\": ("after", {}),
}
_TABLES: dict[Form, Table] = {
    "claim": _ONE_CLAIM,
    "answer": _ANSWER,
    "quote": {"closed": ("nowhere", {})},
}
_MAY_END = ("closed", "closed%", "after", "after%", "after\\", "done")

# How UTF-8 goes on: after a first byte of these, so many bytes, the first of them of these.
_TAILS = (
    (0xC2, 0xDF, 1, 0x80, 0xBF),
    (0xE0, 0xE0, 2, 0xA0, 0xBF),
    (0xE1, 0xEC, 2, 0x80, 0xBF),
    (0xED, 0xED, 2, 0x80, 0x9F),
    (0xEE, 0xEF, 2, 0x80, 0xBF),
    (0xF0, 0xF0, 3, 0x90, 0xBF),
    (0xF1, 0xF3, 3, 0x80, 0xBF),
    (0xF4, 0xF4, 3, 0x80, 0x8F),
)


class Frame(NamedTuple):
    """The automaton. State 0 is a dead end."""

    step: Bytes
    """states × 256 bytes -> the next state"""
    names: dict[str, int]
    to_title: Ints
    """bytes from each state to the beginning of a title, at least"""
    to_end: Ints
    """bytes from each state to one in which the answer may end, at least"""

    @property
    def may_end(self) -> list[int]:
        """The states in which the answer is whole."""
        return [number for name, number in self.names.items() if name in _MAY_END]


def frame(form: Form, spelt: Sequence[int]) -> Frame:
    """The automaton of one form of text, for a vocabulary that can spell these bytes."""
    steps: dict[str, dict[int, str]] = {"nowhere": {}, "done": {}}
    for name, (other, marks) in _TABLES[form].items():
        steps[name] = dict.fromkeys(range(256 if "title" in other else 128), other)
        steps[name] |= {ord(mark): to for mark, to in marks.items()}
        for first, last, *tail in _TAILS if other not in ("nowhere", "in title") else ():
            steps[name] |= dict.fromkeys(range(first, last + 1), _tail(steps, other, *tail))
    names = {name: number for number, name in enumerate(steps)}
    step = np.zeros((len(names), 256), np.uint8)
    for name, onward in steps.items():
        for byte, to in onward.items():
            step[names[name], byte] = names[to]
    heading = [names["title"]] if "title" in names else []
    ending = [names[name] for name in _MAY_END if name in names]
    return Frame(step, names, _away(step, heading, spelt), _away(step, ending, spelt))


def _tail(steps: dict[str, dict[int, str]], to: str, count: int, low: int, high: int) -> str:
    """The state in which `count` bytes of a character are missing, the next within these bounds."""
    if count == 0:
        return to
    name = f"{to}, then {count} bytes from {low:x} to {high:x}"
    if name not in steps:
        steps[name] = {}
        following = _tail(steps, to, count - 1, 0x80, 0xBF)
        steps[name] = dict.fromkeys(range(low, high + 1), following)
    return name


def _away(step: Bytes, goals: Sequence[int], spelt: Sequence[int]) -> Ints:
    """How many bytes away from each state the nearest goal is."""
    away = np.full(len(step), NEVER, np.int32)
    away[goals] = 0
    for _ in step:
        away = np.minimum(away, away[step[:, spelt]].min(axis=1) + 1)
    return np.minimum(away, NEVER)
