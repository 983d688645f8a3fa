"""Own Python code by name: `python:package.module.name`, for rewards, libraries and policies."""

import importlib
import sys
import sysconfig
import traceback
from pathlib import Path

from rookery.errors import Failed, Outcome
from rookery.records import Failure

PYTHON_PREFIX = "python:"
_FOREIGN = ("<", str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib")))
"""beginnings of file names that are not own code"""


def load_python_object(name: str) -> object:
    """Import the object that `python:package.module.name` names; the current folder is searched,
    too.

    Raises Failed: not_found where the module or the name in it is missing, and not_usable where the
    module raises an error while it is loaded; both name file and line of own code.
    """
    module_name, _, attribute = name.removeprefix(PYTHON_PREFIX).rpartition(".")
    if not module_name:
        raise Failed(Failure(name, Outcome.NOT_FOUND, "write python:module.name"))
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


def describe_own_error(error: BaseException) -> str:
    """Return an error's type and words, and file and line of the last code that is not Rookery's,
    Python's or of an installed package; where there is none, of the last code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)] or frames
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
    else:
        place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {words}{place}"
