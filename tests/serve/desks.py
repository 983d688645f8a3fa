"""A person at the text browser without a terminal: keys and lines, one after another."""

from collections.abc import Callable

from rookery.browse.browser import answer_request
from rookery.browse.browser_commands import BrowserRules, BrowserTask
from rookery.records import Library, Question
from rookery.serve.browser_keys import BrowserControls
from rookery.serve.browser_session import BrowserSession, SessionEvent

QUESTION = Question("1", "Why do crows bring gifts?")


class Person:
    """Somebody at a desk. What is wanted is had at once."""

    def __init__(
        self,
        library: Library,
        question: Question = QUESTION,
        rules: BrowserRules = BrowserRules(),
        start: str = "",
        keep: Callable[[SessionEvent], None] = lambda deed: None,
        save: Callable[[BrowserSession], None] = lambda sitting: None,
    ) -> None:
        self.holdings = library
        self.sitting = BrowserSession(BrowserTask(question, rules, start))
        self.desk = BrowserControls(self.sitting, keep, save)
        self.wait()

    def types(self, *lines: str) -> None:
        """Types lines, each with Enter."""
        for line in lines:
            self.desk.enter_line(line)
            self.wait()

    def presses(self, *keys: str) -> None:
        """Presses keys; a line that one begins is left alone."""
        for key in keys:
            self.desk.press_key(key)
            self.wait()

    def wait(self) -> None:
        """Until nothing is wanted."""
        while (request := self.desk.pending_request) is not None:
            self.desk.accept_reply(self.desk.errand, answer_request(self.holdings, request))
