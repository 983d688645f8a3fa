"""A person at the text browser without a terminal: keys and lines, one after another."""

from collections.abc import Callable

from rookery.browse.browser import answered
from rookery.browse.rules import Rules, Task
from rookery.records import Library, Question
from rookery.serve.desk import Desk
from rookery.serve.sitting import Deed, Sitting

QUESTION = Question("1", "Why do crows bring gifts?")


class Person:
    """Somebody at a desk. What is wanted is had at once."""

    def __init__(
        self,
        library: Library,
        question: Question = QUESTION,
        rules: Rules = Rules(),
        start: str = "",
        keep: Callable[[Deed], None] = lambda deed: None,
        save: Callable[[Sitting], None] = lambda sitting: None,
    ) -> None:
        self.holdings = library
        self.sitting = Sitting(Task(question, rules, start))
        self.desk = Desk(self.sitting, keep, save)
        self.wait()

    def types(self, *lines: str) -> None:
        """Types lines, each with Enter."""
        for line in lines:
            self.desk.enter(line)
            self.wait()

    def presses(self, *keys: str) -> None:
        """Presses keys; a line that one begins is left alone."""
        for key in keys:
            self.desk.press(key)
            self.wait()

    def wait(self) -> None:
        """Until nothing is wanted."""
        while (request := self.desk.awaited) is not None:
            self.desk.arrived(self.desk.errand, answered(self.holdings, request))
