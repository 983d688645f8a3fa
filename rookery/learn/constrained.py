"""The verbatim constraint for those who call `model.generate` themselves.

It knows nothing of models: it masks their scores.

    verbatim = Verbatim(constraint, prompt.input_ids.shape[1], budget=200)
    model.generate(**prompt, max_new_tokens=200, logits_processor=LogitsProcessorList([verbatim]))
"""

from __future__ import annotations

import torch
from transformers import LogitsProcessor

from rookery.cite.constraint import Constraint


class Verbatim(LogitsProcessor):
    """Lets each row of a batch write only what the constraint allows (GopherCite, appendix J).

    `prompt_tokens` is how wide the prompts are, padding on the left included; `budget` is how many
    tokens an answer may take, its end included: what `max_new_tokens` says. A row is known by what
    it has written, so that beams may be reordered, and one that has ended is left alone.
    """

    def __init__(
        self, constraint: Constraint, prompt_tokens: int, budget: int | None = None
    ) -> None:
        self._allow = constraint.allow(budget=budget)
        self._prompt_tokens = prompt_tokens
        self._begun = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """The scores of what may follow in each row; all others are -inf.

        Raises ValueError where the prompt is not as wide as was said.
        """
        written = input_ids.shape[1] - self._prompt_tokens
        if written < 0 or (written > 0 and not self._begun):
            raise ValueError(
                f"the prompt has {input_ids.shape[1]} tokens, and not {self._prompt_tokens}: "
                "prompt_tokens is the width of input_ids, padding included"
            )
        self._begun = True
        masked = torch.full_like(scores, -torch.inf)
        for row, tokens in enumerate(input_ids[:, self._prompt_tokens :].tolist()):
            ids = self._ids(tokens)
            masked[row, ids] = scores[row, ids]
        return masked  # type: ignore[return-value]

    def _ids(self, tokens: list[int]) -> torch.Tensor | slice:
        """What may follow. All, where padding stands behind an end, or where a beam has written
        what it may not: `generate` goes on with a few of no probability for want of others."""
        try:
            return torch.from_numpy(self._allow(tokens)).long()
        except ValueError:
            return slice(None)
