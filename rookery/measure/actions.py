"""What browsing takes: how often each command is given, and how many tokens and seconds it costs.

Of episodes of the text browser (WebGLM, appendix B, tables 11 and 12, counts WebGPT's so). It knows
nothing of how long a model, a search or a page took in truth: speeds are given.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from rookery.browse.commands import parse
from rookery.measure.figure import Cell, Figure, bars
from rookery.measure.interval import Estimate, mean
from rookery.records import Completion, Episode, Record

ACTIONS = {
    "Search": "search",
    "Clicked on link": "click_link",
    "Quote:": "quote",
    "Back": "back",
    "Scrolled down": "scroll_down",
    "Scrolled up": "scroll_up",
    "Top": "top",
    "End:": "end",
    "Find in page:": "find_in_page",
}
"""commands, under the names of WebGLM's tables"""
INVALID, WRITE = "invalid", "write"
"""what is no command; and the answer, which the tables leave out"""
NAMES = (*ACTIONS.values(), INVALID, WRITE)
Count = Callable[[Completion], int | None]
"""tokens of something said; None where that is not known"""


class Action(Record, frozen=True):
    """One action in all episodes of a system."""

    name: str
    count: int
    share: float | None
    """of all commands; None for the answer, which is none"""
    per_episode: Estimate
    tokens: float | None
    """each time, in the mean; None where they are not known"""
    tokens_per_episode: Estimate | None


class Pace(NamedTuple):
    """How fast a model says tokens, and how long what it asks for takes besides."""

    tokens_a_second: float
    seconds: Mapping[str, float]
    """of each action that waits for something, such as search and click_link"""


def tokens_said(said: Completion) -> int | None:
    """The tokens that a completion carries; None where it carries none, as a person's."""
    return len(said.tokens) or None


def actions(episodes: Sequence[Episode], count: Count = tokens_said) -> list[Action]:
    """What was done, in the order of WebGLM's tables; what nobody did is left out.

    Intervals are the bootstrap's over episodes. Raises ValueError without an episode.
    """
    if not episodes:
        raise ValueError("there are no episodes to count the actions of")
    each = [_done(episode) for episode in episodes]
    commands = sum(len(said) for done in each for name, said in done.items() if name != WRITE)
    return [
        _action(name, [done.get(name, []) for done in each], commands, count)
        for name in NAMES
        if any(name in done for done in each)
    ]


def seconds(found: Sequence[Action], pace: Pace) -> float:
    """How long browsing takes, an episode in the mean: what the model says and what it waits for
    (WebGLM, appendix B, equations 2 to 7). The answer is left out.

    Raises ValueError where tokens are not known.
    """
    total = 0.0
    for action in found:
        if action.name == WRITE:
            continue
        if action.tokens_per_episode is None:
            raise ValueError(f"how many tokens {action.name} takes is not known: count them")
        total += action.tokens_per_episode.value / pace.tokens_a_second
        total += action.per_episode.value * pace.seconds.get(action.name, 0.0)
    return total


def actions_figure(
    systems: Mapping[str, Sequence[Action]],
    says: str,
    name: str = "actions",
    title: str = "Actions an episode",
) -> Figure:
    """How often each system does what, side by side; tokens in the table."""
    counts = {
        (system, name): action.per_episode
        for name in NAMES
        for system, found in systems.items()
        for action in found
        if action.name == name
    }
    return Figure(
        name,
        title,
        f"{says} Intervals are the bootstrap's over episodes.",
        (
            "system",
            "action",
            "count",
            "share of commands",
            "an episode",
            "low",
            "high",
            "tokens an action",
            "tokens an episode",
        ),
        tuple(_row(system, action) for system, found in systems.items() for action in found),
        bars(counts, "times an episode"),
        "WebGLM, tables 11 and 12",
    )


def _done(episode: Episode) -> dict[str, list[Completion]]:
    """What was said in one episode, by what it did."""
    found: dict[str, list[Completion]] = defaultdict(list)
    written = episode.answer is not None or episode.stop == "bad_syntax"
    ended = False
    for left, step in zip(reversed(range(len(episode.steps))), episode.steps, strict=True):
        command = parse(step.said.text)
        name = ACTIONS[command.verb] if command else INVALID
        found[WRITE if ended or (written and not left) else name].append(step.said)
        ended = ended or name == "end"
    return dict(found)


def _action(name: str, said: Sequence[Sequence[Completion]], commands: int, count: Count) -> Action:
    tokens = [[count(each) for each in one] for one in said]
    known = [each for one in tokens for each in one if each is not None]
    times = sum(len(one) for one in said)
    whole = len(known) == times
    return Action(
        name,
        times,
        None if name == WRITE else times / commands,
        mean([float(len(one)) for one in said]),
        fmean(known) if known else None,
        mean([float(sum(each or 0 for each in one)) for one in tokens]) if whole else None,
    )


def _row(system: str, action: Action) -> tuple[Cell, ...]:
    each, tokens = action.per_episode, action.tokens_per_episode
    return (
        system,
        action.name,
        action.count,
        action.share,
        each.value,
        each.low,
        each.high,
        action.tokens,
        tokens.value if tokens else None,
    )
