"""Strings before which a completion ends. Several servers leave them in, or a part of them."""

from collections.abc import Sequence

from rookery.records import Completion


def cut(said: Completion, stops: Sequence[str]) -> Completion:
    """The completion up to the first of these strings.

    Its tokens and log-probabilities, which are those of more than that, are left out then.
    """
    at = _first(said.text, stops)
    return said if at < 0 else Completion(said.text[:at])


def certain(text: str, stops: Sequence[str]) -> int:
    """How many characters of a text that goes on will stay, whatever follows."""
    at = _first(text, stops)
    if at >= 0:
        return at
    sizes = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return len(text) - max(sizes, default=0)


def _first(text: str, stops: Sequence[str]) -> int:
    return min((at for stop in stops if (at := text.find(stop)) >= 0), default=-1)
