"""One episode of the text browser: what was shown and said, and the answer at its end.

Rollouts, the Gymnasium environment, the environment server and the adapters for other trainers all
step this object. It does no I/O.
"""

import re
from collections.abc import Sequence

import msgspec

from rookery.browser.browser import (
    BrowseResult,
    BrowserReply,
    BrowserRequest,
    answer_request,
    run_browser,
)
from rookery.browser.browser_commands import BrowserTask, Observation
from rookery.browser.page_view import PageViewCache
from rookery.errors import Outcome
from rookery.library.page_archive import convert_nested
from rookery.quotes.citation_syntax import CitationSyntaxError, parse_numbered
from rookery.records import Completion, Episode, Failure, Library, Step, prepare_type

FINISHED_STOPS = (
    "end",
    Outcome.MAX_ACTIONS,
    Outcome.MAX_QUOTES,
    Outcome.NO_QUOTES,
    Outcome.NONSENSE,
    Outcome.CONTROVERSIAL,
    Outcome.BAD_SYNTAX,
)
"""stops of episodes that came to their end; others were broken off: policy_failed where the policy
gave no completion, browser_failed where a library's answer could not be shown"""


class BrowserEpisode:
    """One episode under way: it waits for a command (`observation`), for a library's reply, or has
    ended (`result`).

    `begin_browsing`, `accept_completion` and `accept_reply` return the request that the library is
    to answer next, or None where there is an observation or the episode has ended. What the browser
    itself raises is raised by them; `break_off` then ends the episode. Share `views` between
    episodes to render pages once.
    """

    def __init__(
        self, task: BrowserTask, by: str, views: PageViewCache | None = None, session: str = ""
    ) -> None:
        self.task = task
        self.steps: list[Step] = []
        """the steps so far"""
        self.observation: Observation | None = None
        """the state that waits for a command, or for the answer; None while a library is asked, and
        at the end"""
        self.result: Episode | None = None
        """the episode, once it has ended"""
        self.browsed = BrowseResult((), "")
        """the quotes and the stop, once it has ended"""
        self._by = by
        self._session = session
        self._flow = run_browser(task, views)

    def begin_browsing(self) -> BrowserRequest | None:
        """Begin the episode."""
        return self._advance_browser(None)

    def accept_completion(self, completion: Completion) -> BrowserRequest | None:
        """Take a command, or in the answering phase the answer. Raises ValueError where none is
        awaited."""
        if self.observation is None:
            raise ValueError(
                "the episode has ended: begin another"
                if self.result
                else "the library is being asked: no command is awaited"
            )
        self.steps.append(Step(self.observation.prompt, completion))
        return self._advance_browser(completion.text)

    def accept_reply(self, reply: BrowserReply) -> BrowserRequest | None:
        """Take the library's reply to the last request."""
        return self._advance_browser(reply)

    def answer_from(self, library: Library, request: BrowserRequest | None) -> None:
        """Have a library answer a request, and those that follow from it. Raises Failed as
        `answer_request` does."""
        while request is not None:
            request = self.accept_reply(answer_request(library, request))

    def break_off(self, failure: Failure) -> Episode:
        """End the episode without an answer; the stop is the failure's outcome."""
        browsed = BrowseResult((), failure.outcome)
        if self.observation is not None:
            try:
                self._flow.send("End: Nonsense")
            except StopIteration as ended:
                browsed = ended.value
        self._flow.close()
        failures = (*browsed.failures, failure)
        return self._finish(
            msgspec.structs.replace(
                browsed, stop=failure.outcome, answer_text=None, failures=failures
            )
        )

    def _advance_browser(self, sent: str | BrowserReply | None) -> BrowserRequest | None:
        self.observation = None
        try:
            observation = next(self._flow) if sent is None else self._flow.send(sent)
        except StopIteration as ended:
            self._finish(ended.value)
            return None
        if isinstance(observation, Observation):
            self.observation = observation
            return None
        return observation

    def _finish(self, browsed: BrowseResult) -> Episode:
        self.observation = None
        self.browsed = browsed
        self.result = build_episode(self.task, self._by, self.steps, browsed, self._session)
        return self.result


def build_episode(
    task: BrowserTask, by: str, steps: Sequence[Step], browsed: BrowseResult, session: str = ""
) -> Episode:
    """Build the episode of an ended session, with its answer parsed from `[1][2]` citations.

    An answer that cites what was not quoted is left out: the stop is bad_syntax and the last
    failure gives the reason.
    """
    answer, stop, failures = None, browsed.stop, browsed.failures
    if browsed.answer_text is not None:
        try:
            answer = parse_numbered(browsed.answer_text, browsed.quotes)
        except CitationSyntaxError as error:
            stop = "bad_syntax"
            failures = (*failures, Failure(by, stop, str(error)))
    return ensure_encodable(
        Episode(task.question, by, tuple(steps), answer, stop, failures, session)
    )


_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def ensure_encodable(episode: Episode) -> Episode:
    """Return the episode with lone surrogates replaced, which pages and errors may contain."""
    try:
        episode.to_json()
    except UnicodeEncodeError:
        return msgspec.convert(
            convert_nested(msgspec.to_builtins(episode), str, replace_surrogates),
            prepare_type(Episode),
        )
    return episode
