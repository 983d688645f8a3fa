"""The TOML file that says what is learnt: read into the settings of a trainer, key by key.

A key that nothing reads is an error. It knows nothing of training.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rookery.records import Failed, Failure

S = TypeVar("S", bound=msgspec.Struct)


def read_table(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises Failed (bad_config)."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): name a TOML file"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        detail = f"it is no TOML: {error}"
    raise Failed(Failure(str(path), "bad_config", detail))


def settings_of(table: dict[str, Any], kind: type[S], path: Path) -> S:
    """A table as these settings. Raises Failed (bad_config), naming what is unknown or wrong."""
    try:
        return msgspec.convert(table, kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Failed(Failure(str(path), "bad_config", f"correct it: {error}")) from None


def over(below: Any, above: Any) -> Any:
    """What the first table says where the other one does not, tables within them alike."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: over(below.get(name), value) for name, value in above.items()}
