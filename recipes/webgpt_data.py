"""The WebGPT recipe's settings, its questions and pages, and who is right.

It knows nothing of models.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec

from recipes.gophercite_data import write_little
from rookery.ask.squad import read_squad, write_site
from rookery.browse.rules import Task
from rookery.draft.demonstrate import Habits, demonstrations, is_correct
from rookery.draft.offered import offered
from rookery.draft.small_web import small_web
from rookery.draft.target import holds
from rookery.draft.wording import QuoteHabits
from rookery.learn.imitate import ImitateSettings
from rookery.learn.prefer import PreferSettings
from rookery.learn.reinforce import ReinforceSettings
from rookery.learn.worlds import Browsing
from rookery.records import Answer, Episode, Library, Question

HABITS = Habits(quotes=QuoteHabits(copy=0.0, retype=0.0))
"""quotes are typed in full or abbreviated, as models are offered them"""
_YEAR = re.compile(r"[0-9]{4}")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large everything is. Models that are not named begin from nothing, or as the policy."""

    asked: tuple[int, int, int, int, int]
    """questions: demonstrated; compared for the reward model; compared for the validation reward;
    for reinforcement; for the figures. No two share one (WebGPT, section 3.2)"""
    rounds: int
    """ways in which each question is demonstrated"""
    compared: int
    """samples to a question, each compared with each other and with a demonstrator's"""
    samples: int
    """N: answers that the best is chosen from"""
    imitate: ImitateSettings
    prefer: PreferSettings
    reinforce: ReinforceSettings
    """what a file does not say is as in `rules.WEBGPT`"""
    browsing: Browsing
    squad: str = "squad/train.json.xz"
    """in the folder of the data; empty: a little web is made"""
    words: tuple[int, int] = (20, 70)
    """of a page"""
    held: bool = True
    """whether a policy chooses among what is offered, or says what it likes"""
    sizes: tuple[tuple[int, int], ...] = ((64, 2), (32, 1))
    """width and layers of the policy, and of others that are cloned for what a budget buys"""
    vocabulary: int = 3000
    context: int = 1024
    seed: int = 0


def site(settings: Settings, data: Path, out: Path) -> tuple[Path, list[list[Question]]]:
    """The folder of the pages, and the questions of each use: they ask for a year."""
    squad = data / settings.squad if settings.squad else write_little(out / "little")[0]
    articles, found = small_web(read_squad(squad), asks_for_a_year, *settings.words)
    write_site(articles, out / "site")
    Random(f"{settings.seed} questions").shuffle(found)
    ends = [sum(settings.asked[:at]) for at in range(len(settings.asked) + 1)]
    if len(found) < ends[-1]:
        raise ValueError(f"there are {len(found)} questions: let `asked` sum to no more")
    return out / "site", [found[low:high] for low, high in pairwise(ends)]


def asks_for_a_year(question: Question) -> bool:
    """Whether each accepted answer is one."""
    return bool(question.gold) and all(map(_YEAR.fullmatch, question.gold))


def is_right(question: Question, answer: Answer | None) -> bool:
    """Whether an answer, and a quote of it, hold an accepted one."""
    return answer is not None and any(
        holds(answer.text, gold) and any(holds(each.text, gold) for each in answer.quotes)
        for gold in question.gold
    )


def shown(settings: Settings, asked: Sequence[Question], library: Library) -> Iterator[Episode]:
    """Demonstrations, but for those of a wording that no model is offered."""
    tasks = [Task(question, settings.browsing.rules) for question in asked]
    for number in range(settings.rounds):
        for each in demonstrations(tasks, library, settings.seed + number, habits=HABITS):
            said = ((step.prompt, step.said.text) for step in each.steps)
            if is_correct(each) and all(text in offered(prompt) for prompt, text in said):
                yield each
