"""Actions of browsing episodes: how often each command is given, in tokens and seconds.

For episodes of the text browser (WebGLM, appendix B, tables 11 and 12, counts WebGPT's actions so).
Speeds of models, searches and pages are given by the caller.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from rookery.browser.browser_commands import parse_command
from rookery.errors import Outcome
from rookery.measure.figures import Figure, TableCell, make_bars
from rookery.measure.intervals import Estimate, estimate_mean
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
"""actions under the names of WebGLM's tables, by the browser's command"""
INVALID, WRITE = "invalid", "write"
"""INVALID stands for text that is no command, WRITE for the answer, which the tables leave out"""
NAMES = (*ACTIONS.values(), INVALID, WRITE)


class ActionCount(Record, frozen=True):
    """Counts of one action in all episodes of a system."""

    name: str
    count: int
    share: float | None
    """share of all commands; None for the answer, which is no command"""
    per_episode: Estimate
    tokens: float | None
    """mean number of tokens each time; None if not known"""
    tokens_per_episode: Estimate | None


def count_actions(episodes: Sequence[Episode]) -> list[ActionCount]:
    """Count the actions of episodes, in the order of WebGLM's tables, without those never taken.

    Text that is no command counts as INVALID, an answer that is written out as WRITE. Completions
    without tokens, as a person's, have no count of them. Intervals are by the bootstrap over
    episodes. Raises ValueError without an episode.
    """
    if not episodes:
        raise ValueError("there are no episodes to count the actions of")
    each = [_group_by_action(episode) for episode in episodes]
    commands = sum(
        len(completions)
        for completions_by_action in each
        for name, completions in completions_by_action.items()
        if name != WRITE
    )
    return [
        _summarize_action(
            name, [completions_by_action.get(name, []) for completions_by_action in each], commands
        )
        for name in NAMES
        if any(name in completions_by_action for completions_by_action in each)
    ]


def make_actions_figure(systems: Mapping[str, Sequence[ActionCount]], says: str) -> Figure:
    """Make the figure of how often each system takes each action, with tokens in the table.

    `says` begins the caption.
    """
    counts = {
        (system, name): action.per_episode
        for name in NAMES
        for system, action_counts in systems.items()
        for action in action_counts
        if action.name == name
    }
    return Figure(
        "actions",
        "Actions an episode",
        f"{says} Intervals are the bootstrap's over episodes.",
        (
            *("system", "action", "count", "share of commands", "an episode", "low", "high"),
            *("tokens an action", "tokens an episode"),
        ),
        tuple(
            _make_row(system, action)
            for system, action_counts in systems.items()
            for action in action_counts
        ),
        make_bars(counts, "times an episode"),
        "WebGLM, tables 11 and 12",
    )


def _group_by_action(episode: Episode) -> dict[str, list[Completion]]:
    """Return the completions of one episode by action."""
    completions: dict[str, list[Completion]] = defaultdict(list)
    written = episode.answer is not None or episode.stop == Outcome.BAD_SYNTAX
    ended = False
    for steps_left, step in zip(reversed(range(len(episode.steps))), episode.steps, strict=True):
        command = parse_command(step.said.text)
        name = ACTIONS[command.verb] if command else INVALID
        completions[WRITE if ended or (written and not steps_left) else name].append(step.said)
        ended = ended or name == "end"
    return dict(completions)


def _summarize_action(
    name: str, completions: Sequence[Sequence[Completion]], commands: int
) -> ActionCount:
    tokens = [[len(each.tokens) for each in one] for one in completions]
    known_counts = [count for one in tokens for count in one if count]
    times = sum(map(len, completions))
    whole = len(known_counts) == times
    return ActionCount(
        name,
        times,
        None if name == WRITE else times / commands,
        estimate_mean([float(len(one)) for one in completions]),
        fmean(known_counts) if known_counts else None,
        estimate_mean([float(sum(one)) for one in tokens]) if whole else None,
    )


def _make_row(system: str, action: ActionCount) -> tuple[TableCell, ...]:
    each, tokens = action.per_episode, action.tokens_per_episode
    counts = system, action.name, action.count, action.share, each.value, each.low, each.high
    return (*counts, action.tokens, tokens.value if tokens else None)
