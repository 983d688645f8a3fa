"""What one session of the text browser is bound by. It knows neither pages nor commands."""

from random import Random

import msgspec

from rookery.records import Question, Record

TRAINING_ACTIONS = (20, 100)
"""the least and most actions that an episode of training is given (WebGPT, section 3.2)"""


class Rules(Record, frozen=True):
    """Limits and prohibitions. Where WebGPT gives a value, it is the default."""

    actions: int = 100
    """commands, valid or not (WebGPT, section 3.2)"""
    quoted: int = 6000
    """characters of all quotes together; the paper has such a limit and does not print it"""
    quotes: int = 0
    """of an episode, at most, after which the answer is asked for; 0: any number"""
    window: int = 2000
    """characters of a page that are shown at once, markers of links not counted"""
    results: int = 10
    """of a search"""
    blocked: tuple[str, ...] = ("reddit.com", "quora.com")
    """domains that neither searches nor pages lead to (WebGPT, appendix A)"""
    overlap: int = 10
    """words in a row that a page may not share with the question or a reference answer; 0: any
    number (WebGPT, appendix A)"""
    title: int = 200
    """characters of a title, of a link's text in past actions, and of a query there"""

    def __post_init__(self) -> None:
        least = {
            "actions": 1,
            "quoted": 1,
            "quotes": 0,
            "window": 100,
            "results": 1,
            "overlap": 0,
            "title": 1,
        }
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ValueError(f"Rules.{name} must be at least {value}")


class Task(Record, frozen=True):
    """All that decides what a session shows, besides its library and its commands."""

    question: Question
    rules: Rules = Rules()
    start: str = ""
    """the address of a page to begin with, which the user names; none: begin with a search"""


def with_drawn_actions(rules: Rules, random: Random) -> Rules:
    """These rules, with as many actions as WebGPT drew for each episode of training."""
    return msgspec.structs.replace(rules, actions=random.randint(*TRAINING_ACTIONS))
