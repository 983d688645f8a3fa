"""Settings of the WebGPT recipe, its questions and pages, and what is right."""

from functools import lru_cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from recipes.gold_answers import build_small_web, look_up_answer
from recipes.gophercite_data import write_tiny_data
from recipes.squad_site import write_site
from rookery.browser.browser_commands import format_answer_prompt
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.learn.rollout_environments import BrowserEnvironmentSettings, EnvironmentPrompt
from rookery.library.call_recording import WrappedLibrary
from rookery.library.question_files import is_correct_answer, read_squad
from rookery.quotes.citation_syntax import parse_numbered
from rookery.records import Answer, Library, Question, Record

GOLD_WORDS, ANSWER_WORDS = 3, 5
"""Most words of every accepted answer to a question, and of an answer that is right."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the recipe. Models that are not named start from random weights."""

    pages: int
    """Questions whose pages make the little web; those of each use are among them."""
    demonstrations: tuple[int, ...]
    """Questions that each policy has seen demonstrated, ascending."""
    compared: int
    """Questions whose samples are compared for the reward model."""
    answered: int
    """Questions that are answered in reinforcement."""
    measured: int
    samples: int
    """N of best of N, drawn twice; a power of 2."""
    few: int
    """Samples of each question by policies that nothing is chosen from, and for comparisons."""
    imitate: ImitationSettings
    prefer: RewardTrainingSettings
    reinforce: ReinforcementSettings
    browsing: BrowserEnvironmentSettings
    squad: str = "squad/train.json.xz"
    """Path in the data folder; empty: made-up data."""
    words: tuple[int, int] = (20, 60)
    """Minimum and maximum words of a page."""
    seed: int = 0
    split: int = 0
    """Number of the draw of the questions; the same for all seeds, so that rows can be paired."""


class QuestionUses(NamedTuple):
    """Questions for each use; none is in two (WebGPT, section 3.2)."""

    demonstrated: list[Question]
    compared: list[Question]
    answered: list[Question]
    measured: list[Question]


def prepare_site(settings: Settings, data: Path, out: Path) -> tuple[Path, QuestionUses]:
    """Write the folder of pages and return it with the questions for each use. Raises ValueError if
    there are too few questions."""
    path = data / settings.squad if settings.squad else write_tiny_data(out / "little")
    squad, chance = read_squad(path), Random(f"{settings.split} questions")
    short = [
        question.id
        for question in squad.questions
        if 0 < max((len(gold.split()) for gold in question.gold), default=0) <= GOLD_WORDS
    ]
    chosen = {*chance.sample(short, min(settings.pages, len(short)))}
    articles, questions = build_small_web(squad, lambda each: each.id in chosen, *settings.words)
    write_site(articles, out / "site")
    chance.shuffle(questions)
    counts = settings.demonstrations[-1], settings.compared, settings.answered, settings.measured
    if len(questions) < sum(counts):
        raise ValueError(f"there are {len(questions)} questions: use {sum(counts)} or fewer")
    rest = iter(questions)
    return out / "site", QuestionUses(*(list(islice(rest, count)) for count in counts))


class AnswerSample(Record, frozen=True):
    """Answer of an episode, None without one, and the log-probability of all that was said."""

    answer: Answer | None
    logprob: float


Samples = list[list[AnswerSample]]  # by question


def is_right(question: Question, answer: Answer | None) -> bool:
    """Return True if an answer names a gold answer, in a few words, that its quote holds too; a
    sentence that is copied whole names nothing."""
    short = answer is not None and len(answer.text.split()) <= ANSWER_WORDS
    return short and is_correct_answer(question, answer)


def remember_searches(library: Library) -> Library:
    """Return the library with searches that are done once: samples repeat each other's."""
    return WrappedLibrary(library, lru_cache(None)(library.search), lru_cache(None)(library.fetch))


def list_quote_prompts(library: Library, question: Question) -> list[EnvironmentPrompt]:
    """Return the browser's prompt for an answer from the sentence that holds it, which is given;
    none where the page cannot be found."""
    if (target := look_up_answer(question, library)) is None:
        return []
    quote = target.page.quote(target.start, target.end)
    prompt = format_answer_prompt(question.text, [(quote.title, quote)])
    return [EnvironmentPrompt(prompt, lambda text: parse_numbered(text, [quote]))]
