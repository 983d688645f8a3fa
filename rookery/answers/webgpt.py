"""Browsing (WebGPT): the policy drives the text browser, then writes an answer from its quotes.

This runs one episode for a waiting user; `run_rollouts` runs many at once.
"""

from collections.abc import Callable, Generator
from functools import partial

import msgspec

from rookery.answers.best_of_n import (
    BestOfNSettings,
    answer_with_best_draft,
    make_failed_episode,
    render_prompt,
    sample_drafts,
)
from rookery.browser.browser import BrowseResult, browse_library, replace_surrogates
from rookery.browser.browser_commands import BrowserRules, BrowserTask, Observation, parse_command
from rookery.browser.page_view import PageViewCache
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import SupportFilter, locate_answers
from rookery.evidence.evidence_model import EvidenceJudge
from rookery.quotes.citation_syntax import order_quotes_by_use, parse_numbered
from rookery.records import Answer, Completion, Episode, Failure, Library, Policy, Question, Step

WEBGPT_METHOD = "webgpt"
STUCK_REPEATS = 5
"""identical commands in a row without effect after which browsing is broken off"""
HOPELESS_STEPS = 15
"""commands of any kind in a row without effect after which browsing is broken off"""


def answer_with_webgpt(
    question: Question,
    library: Library,
    policy: Policy,
    writer: Policy | None = None,
    choosing: BestOfNSettings = BestOfNSettings(),
    rules: BrowserRules = BrowserRules(),
    on_command: Callable[[str], None] = lambda command: None,
    judge: EvidenceJudge | None = None,
) -> Episode:
    """Answer a question from what the policy quotes while it browses.

    The `writer`, or else the policy itself, writes the answers, of which the best is chosen by
    rejection sampling (WebGPT, section 3.2). `on_command` gets each command before it is executed.
    Without a quote no answer is sampled. A policy that repeats commands without effect is broken
    off (stuck). With a `judge`, each sentence of an answer is cited by the quotes that support it;
    one that none supports is taken out, and the failures say which (unsupported).
    """
    steps: list[Step] = []
    flow = browse_library(BrowserTask(question, rules), library, PageViewCache())
    try:
        observation, ended = _browse_until_answer(flow, policy, steps, on_command)
    except Failed as error:
        return make_failed_episode(question, WEBGPT_METHOD, error, steps)
    if observation is None:
        return _end_unanswered(question, ended, steps)
    prompt = render_prompt("webgpt_answer", observation=observation.prompt)

    # The sources are whole: the judge reads each of them.
    sources = locate_answers(question.text, observation.quotes)
    support = SupportFilter(question.text, sources, judge) if judge else None

    def read(text: str) -> Answer:
        if support:
            return support.parse_supported(text)
        return order_quotes_by_use(parse_numbered(text, observation.quotes))

    sample = partial(sample_drafts, writer or policy, prompt, read=read)
    failures = _finish_browsing(flow).failures
    episode = answer_with_best_draft(question, WEBGPT_METHOD, sample, choosing, failures, steps)
    if support is None or episode.answer is None:
        return episode
    removed = support.list_removed(WEBGPT_METHOD, episode.steps[-1].said.text)
    return msgspec.structs.replace(episode, failures=(*episode.failures, *removed))


def _finish_browsing(flow: Generator[Observation, str, BrowseResult]) -> BrowseResult:
    """End the session with an empty answer and return its result: the answer is chosen later."""
    try:
        flow.send("")
    except StopIteration as ended:
        browsed: BrowseResult = ended.value
        return browsed
    raise AssertionError("a session ends with its answer")


def _browse_until_answer(
    flow: Generator[Observation, str, BrowseResult],
    policy: Policy,
    steps: list[Step],
    on_command: Callable[[str], None],
) -> tuple[Observation | None, BrowseResult | None]:
    """Browse; return the observation that asks for an answer, or the result without an answer."""
    observation, idle, same = next(flow), 0, 0
    while not observation.answering:
        prompt = render_prompt("webgpt", observation=observation.prompt)
        completion = policy.complete(prompt, 1)[0]
        command = replace_surrogates(extract_command(completion.text))
        on_command(command)
        same = same + 1 if steps and steps[-1].said.text == command else 0
        completion = completion if completion.text == command else Completion(command)
        steps.append(Step(prompt, completion))
        try:
            following = flow.send(command)
        except StopIteration as ended:
            return None, ended.value
        idle = idle + 1 if following.note else 0
        if idle >= HOPELESS_STEPS or min(idle, same) >= STUCK_REPEATS:
            return None, BrowseResult(following.quotes, Outcome.STUCK)
        observation = following
    return observation, None


def _end_unanswered(question: Question, ended: BrowseResult | None, steps: list[Step]) -> Episode:
    assert ended is not None  # there is no observation that asks for an answer
    failures = ended.failures
    if ended.stop == Outcome.STUCK:
        said = steps[-1].said.text[:80]
        detail = f"its commands had no effect; the last was {said!r}"
        failures = (Failure(WEBGPT_METHOD, Outcome.STUCK, detail),)
    return Episode(question, WEBGPT_METHOD, tuple(steps), None, ended.stop, failures)


def extract_command(text: str) -> str:
    """Extract the command from a completion with more text: its first line that is a command.

    Returns the completion itself where no line is one.
    """
    if parse_command(text):
        return text.strip()
    lines = (line.strip().strip("`") for line in text.splitlines())
    return next((line for line in lines if parse_command(line)), text)
