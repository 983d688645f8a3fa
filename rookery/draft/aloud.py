"""A model that is heard while it speaks, by somebody who waits. It knows nothing of screens."""

from collections.abc import Callable, Generator, Sequence

from rookery.draft.remote import Allow, Model, Seed
from rookery.records import Completion


class Aloud:
    """The model, whose single completions are told as far as they have come.

    `tell` is given the whole text so far, again and again. What is drawn in numbers, or held to
    tokens or a grammar, comes at once.
    """

    def __init__(self, model: Model, tell: Callable[[str], None]) -> None:
        self.name = model.name
        self._model = model
        self._tell = tell

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> Sequence[Completion]:
        """n completions of one prompt."""
        if n > 1 or allow is not None or grammar:
            return self._model.complete(prompt, n, allow, seed, grammar)
        return [self._heard(self._model.stream(prompt, seed))]

    def _heard(self, pieces: Generator[str, None, Completion]) -> Completion:
        text = ""
        while True:
            try:
                text += next(pieces)
            except StopIteration as ended:
                said: Completion = ended.value
                return said
            self._tell(text)

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """The pieces of one completion."""
        return self._model.stream(prompt, seed)
