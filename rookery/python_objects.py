"""Own Python code by name, `python:package.module.name`: loading it, and rewards and policies that
name the file and line of a mistake in it."""

import importlib
import inspect
import math
import reprlib
import sys
import sysconfig
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from rookery.errors import Failed, Outcome
from rookery.records import (
    Answer,
    BatchReward,
    Claim,
    Completion,
    Failure,
    Page,
    Policy,
    Question,
    Reward,
)

PYTHON_PREFIX = "python:"
_FOREIGN = ("<", str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib")))
"""beginnings of file names that are not own code"""


class OwnCodeError(ValueError):
    """A mistake in own code, in one sentence that names file and line; it ends what was run.

    It is no Failed, since the failure of one policy or page must not end a run.
    """


def load_python_object(name: str) -> object:
    """Import the object that `python:package.module.name` names; the current folder is searched,
    too.

    Raises Failed: not_found where the module or the name in it is missing, and not_usable where the
    module raises an error while it is loaded; both name file and line of own code.
    """
    dotted = name.removeprefix(PYTHON_PREFIX)
    module_name, _, attribute = dotted.rpartition(".")
    if not module_name or ":" in dotted:
        example = dotted.replace(":", ".") if ":" in dotted else "module.name"
        raise Failed(Failure(name, Outcome.NOT_FOUND, f"write {PYTHON_PREFIX}{example}"))
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            detail = f"no module {error.name} in {folder} or among the installed packages"
            raise Failed(Failure(name, Outcome.NOT_FOUND, detail)) from error
        raise Failed(Failure(name, Outcome.NOT_USABLE, describe_own_error(error))) from error
    except Exception as error:  # whatever own code does when it is loaded
        raise Failed(Failure(name, Outcome.NOT_USABLE, describe_own_error(error))) from error
    if not hasattr(module, attribute):
        detail = f"{module.__file__} has no {attribute}"
        raise Failed(Failure(name, Outcome.NOT_FOUND, detail))
    return getattr(module, attribute)


def load_own_object(name: str, methods: Sequence[str], lacks: str) -> Any:
    """Return the object with these methods that a name names; or what that makes, if it is a class
    or function, when it is called without arguments.

    `lacks` says what another object lacks. Raises Failed as `load_python_object` does, and
    not_usable where nothing with these methods is made.
    """
    value = load_python_object(name)
    if isinstance(value, type) or (callable(value) and not has_methods(value, methods)):
        try:
            value = value()
        except Exception as error:
            detail = describe_own_error(error, value)
            raise Failed(Failure(name, Outcome.NOT_USABLE, detail)) from error
    if not has_methods(value, methods):
        raise Failed(Failure(name, Outcome.NOT_USABLE, f"a {type(value).__name__} {lacks}"))
    return value


def has_methods(value: object, names: Sequence[str]) -> bool:
    """Return whether an object has all these methods."""
    return all(callable(getattr(value, name, None)) for name in names)


def describe_own_error(error: BaseException, code: object = None) -> str:
    """Return an error's type and words, and file and line of the last code that is not Rookery's,
    Python's or of an installed package; where there is none, of `code`, which was called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)] or frames
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    if not own or own[-1].filename.startswith(_FOREIGN):
        place = _locate_code(code) or place
    return f"{type(error).__name__}: {error}{place}"


def _locate_code(value: object) -> str:
    """Return file and line of a function, of a callable object's class, or of a class."""
    for name in ("__code__", "__call__.__code__", "__init__.__code__"):
        with suppress(AttributeError):
            code = attrgetter(name)(value)
            return f" ({code.co_filename}, line {code.co_firstlineno})"
    return ""


@contextmanager
def locate_own_errors(name: str, code: object) -> Iterator[None]:
    """Raise OwnCodeError in place of what own code raises, apart from Failed."""
    try:
        yield
    except (Failed, OwnCodeError):
        raise
    except Exception as error:
        raise OwnCodeError(f"{name}: {describe_own_error(error, code)}") from error


class OwnReward:
    """A reward as it is used: called for one answer, or `score_answers` for many.

    The function takes a question and an answer, or a list of such pairs for which it returns as
    many numbers: its signature says which. NaN is no score. An object with `score_answers`, such as
    a RewardModel, is called by that. Raises OwnCodeError for another signature, and in use for what
    the function raises, and for what it returns that is no number.
    """

    def __init__(self, function: Reward | BatchReward, name: str = "") -> None:
        self.name: str = name or getattr(function, "__name__", type(function).__name__)
        self._function: Any = getattr(function, "score_answers", function)
        self._takes_pairs = self._read_signature()

    def __call__(self, question: Question, answer: Answer) -> float:
        """Return the reward of one answer."""
        return self.score_answers([(question, answer)])[0]

    def score_answers(self, pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        """Return the reward of each answer."""
        if self._takes_pairs:
            return self._call_function([list(pairs)], len(pairs))
        return [self._call_function(pair, 1)[0] for pair in pairs]

    def score_example(self, question: Question) -> Self:
        """Score an example of an answer to this question, and return this reward.

        Raises OwnCodeError as scoring does, and where the reward is not finite.
        """
        page = Page("https://example.org/", "Example", "This is an example.")
        quote, claim = page.quote(0, len(page.text)), Claim(0, len(page.text), (0,))
        if not math.isfinite(reward := self(question, Answer(page.text, (quote,), (claim,)))):
            raise self._make_error(f"gave {reward} for an example: return a finite number")
        return self

    def _read_signature(self) -> bool:
        """Return whether the function takes a list of pairs."""
        if isinstance(self._function, type) or not callable(self._function):
            raise self._make_error("is no function of a question and an answer: make it one")
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):  # of a function in C
            return False
        fits = []
        for count in (1, 2):
            try:
                signature.bind(*range(count))
                fits.append(count)
            except TypeError:
                pass
        if not fits:
            raise self._make_error(
                f"takes {signature}: let it take (question, answer), or a list of such pairs"
            )
        first = next(iter(signature.parameters.values()))
        is_single = first.kind is first.VAR_POSITIONAL or first.annotation is Question
        return 1 in fits and not (2 in fits and is_single)

    def _call_function(self, arguments: Sequence[Any], count: int) -> list[float]:
        with locate_own_errors(self.name, self._function):
            returned = self._function(*arguments)
        try:
            rewards = [_to_number(each) for each in (returned if self._takes_pairs else [returned])]
        except (TypeError, ValueError, RuntimeError):  # the last of a tensor
            rewards = []
        if len(rewards) == count:
            return rewards
        expected = f"a list of {count} numbers" if self._takes_pairs else "a number"
        raise self._make_error(f"gave {reprlib.repr(returned)}: return {expected}")

    def _make_error(self, sentence: str) -> OwnCodeError:
        return OwnCodeError(f"{self.name}: it {sentence}{_locate_code(self._function)}")


def _to_number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)  # torch's and numpy's numbers, too


class OwnPolicy:
    """Somebody's policy as a language model: seeds and grammars are not passed on to it.

    Raises OwnCodeError for what it raises besides Failed, and for what is not n completions.
    """

    def __init__(self, policy: Policy) -> None:
        self.name = str(getattr(policy, "name", type(policy).__name__))
        self._policy = policy

    def complete(self, prompt: str, n: int = 1, allow: Any = None, **_: object) -> list[Completion]:
        """Return n completions of one prompt."""
        code = self._policy.complete
        with locate_own_errors(self.name, code):
            returned = code(prompt, n, allow)
        kinds = [type(each) for each in returned] if isinstance(returned, list | tuple) else []
        if kinds != [Completion] * n:
            sentence = f"complete gave {reprlib.repr(returned)}{_locate_code(code)}"
            raise OwnCodeError(f"{self.name}: {sentence}: return {n} rookery.Completion in a list")
        return list(returned)

    def stream(self, prompt: str, seed: int | None = None) -> Generator[str, None, Completion]:
        """Yield a completion in one piece, and return it."""
        (said,) = self.complete(prompt)
        yield said.text
        return said


def load_own_policy(name: str) -> OwnPolicy:
    """Return the policy that `python:package.module.name` names. Raises Failed."""
    lacks = "has no complete(prompt, n, allow), as a policy has"
    return OwnPolicy(load_own_object(name, ("complete",), lacks))
