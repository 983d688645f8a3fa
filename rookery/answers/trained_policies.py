"""Prompts, constraint and sampling that `rookery learn` trained a policy with, stored beside its
weights, so that it answers with them."""

from pathlib import Path
from typing import Literal

import msgspec

from rookery.answers.best_of_n import render_prompt
from rookery.answers.gophercite import GopherCiteSettings
from rookery.answers.webglm import WebglmSettings
from rookery.browser.browser_commands import BrowserRules, read_screen
from rookery.errors import Failed, Outcome
from rookery.records import Failure, decode_json
from rookery.settings import LocalModelSettings

POLICY_FILE = "rookery-policy.json"
PromptKind = Literal["browser", "quotes", "references"]
"""kind of an environment, and so of its prompts"""


class TrainedPolicy(msgspec.Struct, frozen=True):
    """Prompts, constraint and sampling of a policy's training."""

    kind: PromptKind
    sampling: LocalModelSettings
    constrained: bool = False
    """whether actions in the browser are held to its commands; quotes are held to their page"""
    rules: BrowserRules = BrowserRules()
    quotes: GopherCiteSettings = GopherCiteSettings()
    references: WebglmSettings = WebglmSettings()

    @property
    def method(self) -> str:
        """Name of the answering method that shows such prompts."""
        return {"browser": "webgpt", "quotes": "gophercite", "references": "webglm"}[self.kind]


def read_trained_policy(model: Path) -> TrainedPolicy | None:
    """Return what the model of a folder was trained with; None where that is not stored.

    Raises Failed (bad_model) for a file that cannot be read.
    """
    path = model / POLICY_FILE
    if not path.is_file():
        return None
    try:
        return decode_json(path.read_bytes(), TrainedPolicy)
    except (OSError, ValueError) as error:
        detail = f"{error}: train it again, or delete the file to use it as any other model"
        raise Failed(Failure(str(path), Outcome.BAD_MODEL, detail)) from error


def find_prompt_kind(prompt: str) -> PromptKind | None:
    """Return the kind of environment whose prompt this is; None for any other text.

    Prompts that are not stored are the browser's.
    """
    if not prompt or read_screen(prompt) is not None:
        return "browser"
    quotes = render_prompt("gophercite", pages="\0", question="").partition("\0")[0]
    references = render_prompt("webglm", references="\0", question="").partition("\0")[0]
    if prompt.startswith((quotes, references)):
        return "quotes" if prompt.startswith(quotes) else "references"
    return None
