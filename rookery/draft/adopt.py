"""A stand-in for the language model that bootstraps answers (WebGLM, section 3.2).

It is told the accepted answers, adopts the references that hold one, and makes mistakes as often as
it is told to: what correction and filters do to them can be counted. It knows nothing of either.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from rookery.cite.overlap import words
from rookery.records import Completion

_ASKED, _SHOWN = "Question: ", "Reference ["


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often it does what it should not."""

    adoption: float = 0.098
    """it adopts a reference that holds no accepted answer, or leaves one that does; GPT-3 was right
    90.2 % of the time (WebGLM, table 1)"""
    memory: float = 0.15
    """it says one thing more, which no reference says; it always does where it adopted none"""
    wrong: float = 0.2
    """it cites another reference than the one that it adopted"""
    invented: float = 0.05
    """it cites a number that no reference has"""
    dropped: float = 0.15
    """it leaves out a word of what it adopted, if not one of the accepted answer"""


class Statement(NamedTuple):
    """One sentence of an answer."""

    text: str
    source: int | None
    """the number of the reference that it was made from, from 0 on; None: from memory"""
    cited: int
    """the number that it gives, right or wrong"""


class Adopter:
    """Writes WebGLM answers from references that hold accepted answers. The same prompt gives the
    same answers."""

    name = "adopter"

    def __init__(
        self,
        accepted: Mapping[str, Sequence[str]],
        memory: Sequence[str],
        faults: Faults = Faults(),
        seed: int = 0,
    ) -> None:
        """`accepted` are the answers by the words of the question; `memory` is what it may say that
        no reference says."""
        self._accepted = accepted
        self._memory = memory
        self._faults = faults
        self._seed = seed

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[[Sequence[int]], Iterable[int]] | None = None
    ) -> list[Completion]:
        """n answers, each a sentence for a reference. `allow` has no say: it knows no tokens."""
        said = (self.statements(prompt, number) for number in range(n))
        return [
            Completion(" ".join(f"{each.text} [{each.cited + 1}]." for each in some))
            for some in said
        ]

    def statements(self, prompt: str, number: int = 0) -> list[Statement]:
        """What answer `number` to a prompt is made from."""
        question, references = read_prompt(prompt)
        chance = Random(f"{self._seed} {question} {number}")
        accepted = self._accepted.get(question, ())
        adopted = [
            at
            for at, reference in enumerate(references)
            if holds(reference, accepted) != (chance.random() < self._faults.adoption)
        ]
        needed = {word for answer in accepted for word in words(answer)}
        said: list[tuple[str, int | None]] = [
            (self._shortened(references[at], needed, chance), at) for at in adopted
        ]
        if not adopted or chance.random() < self._faults.memory:
            said.append((_bare(chance.choice(self._memory)), None))
        return [Statement(text, at, self._cited(at, len(references), chance)) for text, at in said]

    def _shortened(self, reference: str, needed: set[str], chance: Random) -> str:
        kept = [
            word
            for word in reference.split()
            if chance.random() >= self._faults.dropped or not needed.isdisjoint(words(word))
        ]
        return _bare(" ".join(kept or reference.split()))

    def _cited(self, source: int | None, count: int, chance: Random) -> int:
        """The number given for a statement."""
        drawn = chance.random()
        if drawn < self._faults.invented:
            return count + chance.randrange(5)
        others = [at for at in range(count) if at != source]
        if source is None or (drawn < self._faults.invented + self._faults.wrong and others):
            return chance.choice(others)
        return source


def holds(reference: str, accepted: Iterable[str]) -> bool:
    """Whether a text holds an accepted answer, word for word."""
    said = f" {' '.join(words(reference))} "
    return any(f" {' '.join(words(answer))} " in said for answer in accepted if words(answer))


def read_prompt(prompt: str) -> tuple[str, list[str]]:
    """The question of a WebGLM prompt and its references, which stand behind its example."""
    lines = prompt.rpartition("\n\n")[2].splitlines()
    shown = [line.partition(": ")[2] for line in lines if line.startswith(_SHOWN)]
    asked = [line.removeprefix(_ASKED) for line in lines if line.startswith(_ASKED)]
    return asked[-1] if asked else "", shown


def _bare(text: str) -> str:
    """Without what would be taken for citations, and without a full stop at the end."""
    return text.replace("[", "(").replace("]", ")").rstrip(" .!?")
