"""A person at the text browser without a terminal: lines, one after another."""

from collections.abc import Callable

from rookery.browser.browser import answer_request
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.records import Library, Question
from rookery.shell.browser_session import BrowserSession, SessionEvent
from rookery.shell.demonstration_commands import run_typed_command, undo_last_command

QUESTION = Question("1", "Why do crows bring gifts?")


class Person:
    """Somebody who types commands. What is wanted is had at once."""

    def __init__(
        self,
        library: Library,
        question: Question = QUESTION,
        rules: BrowserRules = BrowserRules(),
        start: str = "",
        keep: Callable[[SessionEvent], None] = lambda event: None,
    ) -> None:
        self.holdings = library
        self.sitting = BrowserSession(BrowserTask(question, rules, start))
        self.sitting.on_event = keep
        self.note = ""
        """why the last line did nothing"""
        self.wait()

    def types(self, *lines: str) -> None:
        """Types lines, each with Enter; `undo` takes a command back."""
        for line in lines:
            if line == "undo":
                self.note = undo_last_command(self.sitting)
            else:
                self.note = run_typed_command(self.sitting, line)
            self.wait()

    def wait(self) -> None:
        """Until nothing is wanted."""
        while (request := self.sitting.pending_request) is not None:
            self.sitting.accept_reply(answer_request(self.holdings, request))
