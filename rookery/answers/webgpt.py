"""Browsing (WebGPT): the policy drives the text browser, then writes an answer from its quotes.

This runs one episode for a waiting user; `run_rollouts` runs many at once. A chat model is shown
the same states, one at a time, but may think aloud and give several commands in one reply.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec

from rookery.answers.best_of_n import (
    BestOfNSettings,
    answer_with_best_draft,
    make_failed_episode,
    render_prompt,
    sample_drafts,
)
from rookery.answers.chat_answers import (
    ChatQuestion,
    ChatSettings,
    list_searches,
    render_answer_prompt,
)
from rookery.browser.browser import BrowseResult, browse_library, replace_surrogates
from rookery.browser.browser_commands import BrowserRules, BrowserTask, Observation, parse_command
from rookery.browser.chat_commands import read_chat_commands, render_browsing_turn
from rookery.browser.page_view import PageViewCache, truncate_line
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import SupportFilter, locate_answers
from rookery.evidence.evidence_model import EvidenceJudge
from rookery.models.chat_prompts import render_chat_prompt
from rookery.quotes.citation_syntax import order_quotes_by_use, parse_numbered
from rookery.records import Answer, Completion, Episode, Failure, Library, Policy, Question, Step

WEBGPT_METHOD = "webgpt"
STUCK_REPEATS = 5
"""identical commands in a row without effect after which browsing is broken off, or replies of a
chat model"""
_NOTHING_QUOTED = "nothing is quoted yet: quote, or search with other words"
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
    chat: bool = False,
    trained: bool = False,
) -> Episode:
    """Answer a question from what the policy quotes while it browses.

    The `writer`, or else the policy itself, writes the answers, of which the best is chosen by
    rejection sampling (WebGPT, section 3.2). `on_command` gets each command before it is executed.
    Without a quote no answer is sampled. A policy that repeats commands without effect is broken
    off (stuck). With a `judge`, each sentence of an answer is cited by the quotes that support it;
    one that none supports is taken out, and the failures say which (unsupported).

    A `chat` model may think aloud and give several commands in one reply. Its browsing steps are
    those of a rollout: for each command the state in the papers' form and the command, whatever the
    model's words, so that `replay_episode` restores them and they can be trained on. Its answer is
    read and checked as that of `answer_by_chat`. Without a quote, and where it says that the quotes
    do not hold the answer, it is declined, with what was searched. If its replies have no effect,
    it answers from what it quoted, or is stuck. A policy that was `trained` in the browser is shown
    its states alone, without words that explain them.
    """
    render = (lambda _, observation: observation) if trained else render_prompt
    steps: list[Step] = []
    flow = browse_library(BrowserTask(question, rules), library, PageViewCache())
    try:
        browse = _browse_by_chat if chat else partial(_browse_until_answer, render=render)
        observation, ended = browse(flow, policy, steps, on_command)
    except Failed as error:
        return make_failed_episode(question, WEBGPT_METHOD, error, steps)
    commands = (step.said.text.partition(" ") for step in steps)
    searched = [query for verb, _, query in commands if verb == "Search"]
    if observation is None:
        episode = _end_unanswered(question, ended, steps)
        if not chat or episode.stop not in (Outcome.NO_QUOTES, Outcome.MAX_ACTIONS):
            return episode
        answer = Answer("Nothing that was read holds the answer.", (), declined=True)
        episode = msgspec.structs.replace(episode, answer=answer, stop="declined")
        return list_searches(episode, searched)
    if chat:
        whole, writer = ChatSettings(longest=0), writer or policy
        asking = ChatQuestion(question, writer, choosing, whole, judge, WEBGPT_METHOD)
        failures = _finish_browsing(flow).failures
        return list_searches(asking.answer_quotes(observation.quotes, steps, failures), searched)
    prompt = render("webgpt_answer", observation=observation.prompt)

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


class ChatBrowsing:
    """A browser session as a chat model sees it: its prompts, and its replies as commands."""

    def __init__(self) -> None:
        self.results: list[str] = []
        """what the commands of the last reply did, or why they failed"""
        self.commands: list[str] = []
        """the commands of the last reply that were given out"""
        self.idle = 0
        """replies in a row that had no effect or repeated the one before"""
        self._read: list[str] = []
        self._warned, self._failed, self._repeats = False, 0, False

    def render_prompt(self, observation: Observation) -> str:
        """Render the prompt for the next reply, or for the answer."""
        if observation.answering:
            return render_answer_prompt(Question("", observation.question), observation.quotes)
        turn = render_browsing_turn(observation, self.results)
        return render_chat_prompt(render_prompt("chat_browse"), [turn], list_browsing_tools())

    def read_reply(self, reply: str, observation: Observation) -> None:
        """Read the reply to the prompt of an observation; `take_command` gives its commands out."""
        before, self._read = self._read, read_chat_commands(reply, observation.text)
        self._repeats = self._read == before
        self.results, self.commands, self._failed = [], [], 0

    def take_command(self, observation: Observation | None) -> str | None:
        """Return the next command of the reply; None at its end, and where browsing has ended.

        `observation` is what the command before led to, None at the end of the session. The reply
        is broken off where it finishes although a command failed, or once without a quote before a
        second search.
        """
        if observation is None or observation.answering:
            return None
        if self.commands:
            result = observation.note or observation.effect or "done"
            self.results.append(f"{truncate_line(self.commands[-1], 300)} → {result}")
            self._failed += bool(observation.note)
        command = next(iter(self._read[len(self.commands) :]), None)
        if command == "End: Answer":
            searched = {each for each in observation.past if each.startswith("Search ")}
            enough = observation.quotes or self._warned or len(searched) > 1
            if self._failed or not enough:
                why = "a command before it failed: mend that" if self._failed else _NOTHING_QUOTED
                self.results.append(f"not finished, as {why}, or finish again")
                self._warned = self._warned or not self._failed
                command = None
        if command is not None:
            self.commands.append(command)
        else:
            idle = self._repeats or self._failed == len(self._read)
            self.idle = self.idle + 1 if idle else 0
        return command


def list_browsing_tools() -> list[dict[str, Any]]:
    """Return the commands as tools: name, description, and JSON schema of the parameters."""
    tools: list[dict[str, Any]] = msgspec.json.decode(render_prompt("chat_browse_tools"))
    return tools


def _browse_by_chat(
    flow: Generator[Observation, str, BrowseResult],
    policy: Policy,
    steps: list[Step],
    on_command: Callable[[str], None],
) -> tuple[Observation | None, BrowseResult | None]:
    """Browse like `_browse_until_answer`, by replies of several commands."""
    observation, chat = next(flow), ChatBrowsing()
    while not observation.answering:
        reply = policy.complete(chat.render_prompt(observation), 1)[0].text
        chat.read_reply(replace_surrogates(reply), observation)
        while command := chat.take_command(observation):
            on_command(command)
            steps.append(Step(observation.prompt, Completion(command)))
            try:
                observation = flow.send(command)
            except StopIteration as ended:
                return None, ended.value
        if chat.idle >= STUCK_REPEATS and not observation.answering:
            if not observation.quotes:
                return None, BrowseResult((), Outcome.STUCK)
            steps.append(Step(observation.prompt, Completion("End: Answer")))
            observation = flow.send("End: Answer")
    return observation, None


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
    render: Callable[..., str],
) -> tuple[Observation | None, BrowseResult | None]:
    """Browse; return the observation that asks for an answer, or the result without an answer."""
    observation, idle, same = next(flow), 0, 0
    while not observation.answering:
        prompt = render("webgpt", observation=observation.prompt)
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
