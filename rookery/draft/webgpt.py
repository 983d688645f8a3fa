"""Browse, quote, answer (WebGPT): the policy drives the text browser, then writes from its quotes.

It knows neither models nor networks. Many episodes at once are `rollout`'s; here one is played for
a person who waits, by any policy that can follow the instructions of the prompt.
"""

from collections.abc import Callable, Generator

import msgspec

from rookery.browse.browser import Browsed, Views, browse
from rookery.browse.commands import parse
from rookery.browse.observation import Observation
from rookery.browse.rules import Rules, Task
from rookery.cite.syntax import in_order_of_use, parse_numbered
from rookery.draft.rollout import writable
from rookery.draft.write import Choosing, Draft, answered, drafts, failed, prompt
from rookery.records import (
    Answer,
    Completion,
    Episode,
    Failed,
    Failure,
    Library,
    Policy,
    Question,
    Step,
)

BY = "webgpt"
STUCK = 5
"""times in a row that the same thing is said to no effect before browsing is broken off"""
HOPELESS = 15
"""the same, where it is something else each time"""


class WebgptSettings(msgspec.Struct, frozen=True):
    """The browser's rules, and what a policy is told of them."""

    rules: Rules = Rules()
    instruct: bool = True
    """the prompt begins with what the commands are; a policy that was trained needs none"""


def webgpt(
    question: Question,
    library: Library,
    policy: Policy,
    writer: Policy | None = None,
    choosing: Choosing = Choosing(),
    settings: WebgptSettings = WebgptSettings(),
    heard: Callable[[str], None] = lambda said: None,
) -> Episode:
    """An answer from what the policy quoted while browsing, step by step.

    The policy writes it too, or else the `writer` does; several are written and the best chosen
    by rejection sampling (WebGPT, section 3.2). `heard` is told each command as it is given.
    Without a quote no answer is asked for. A policy that says the same thing over and over to no
    effect is broken off (stuck).
    """
    steps: list[Step] = []
    flow = browse(Task(question, settings.rules), library, Views())
    try:
        shown, ended = _browsed(flow, policy, settings, steps, heard)
    except Failed as error:
        return failed(question, BY, error, steps)
    if shown is None:
        return _without_answer(question, ended, steps)
    asked = _asked("webgpt_answer", shown, settings)

    def read(text: str) -> Answer:
        return in_order_of_use(parse_numbered(text, shown.quotes))

    def sample(n: int) -> list[Draft]:
        return drafts(writer or policy, asked, n, read)

    return answered(question, BY, sample, choosing, _ended(flow).failures, steps)


def _ended(flow: Generator[Observation, str, Browsed]) -> Browsed:
    """What came of browsing; what is said in the end is chosen elsewhere."""
    try:
        flow.send("")
    except StopIteration as ended:
        browsed: Browsed = ended.value
        return browsed
    raise AssertionError("a session ends with its answer")


def _browsed(
    flow: Generator[Observation, str, Browsed],
    policy: Policy,
    settings: WebgptSettings,
    steps: list[Step],
    heard: Callable[[str], None],
) -> tuple[Observation | None, Browsed | None]:
    """The observation that asks for the answer; or what came of browsing without one."""
    shown, idle, same = next(flow), 0, 0
    while not shown.answering:
        asked = _asked("webgpt", shown, settings)
        said = policy.complete(asked, 1)[0]
        command = writable(command_in(said.text))
        heard(command)
        same = same + 1 if steps and steps[-1].said.text == command else 0
        steps.append(Step(asked, said if said.text == command else Completion(command)))
        try:
            following = flow.send(command)
        except StopIteration as ended:
            return None, ended.value
        idle = idle + 1 if following.note else 0
        if idle >= HOPELESS or min(idle, same) >= STUCK:
            return None, Browsed(following.quotes, "stuck")
        shown = following
    return shown, None


def _without_answer(question: Question, ended: Browsed | None, steps: list[Step]) -> Episode:
    assert ended is not None  # there is no observation that asks for an answer
    failures = ended.failures
    if ended.stop == "stuck":
        said = steps[-1].said.text[:80]
        detail = f"it went on to no effect; last it said {said!r}"
        failures = (Failure(BY, "stuck", detail),)
    return Episode(question, BY, tuple(steps), None, ended.stop, failures)


def _asked(name: str, shown: Observation, settings: WebgptSettings) -> str:
    return prompt(name, observation=shown.prompt) if settings.instruct else shown.prompt


def command_in(said: str) -> str:
    """The command that was meant by a policy that says more than the command: its first line that
    is one; what it said, where none is."""
    if parse(said):
        return said.strip()
    lines = (line.strip().strip("`") for line in said.splitlines())
    return next((line for line in lines if parse(line)), said)
