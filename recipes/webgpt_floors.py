"""Answers to the WebGPT recipe's questions without a policy that learnt: by lot among the offers,
by a script over the same offers, and by the extractive method."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from recipes.oracle_policies import list_candidate_actions
from recipes.stages import load_or_make, print_progress
from recipes.webgpt_data import Settings
from recipes.webgpt_stages import Samples
from rookery.answers.extract import answer_by_extraction
from rookery.browser.browser_commands import BrowserTask, Observation
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.pages.search_terms import get_keywords
from rookery.quotes.word_overlap import split_words
from rookery.records import Library, Question

RANDOM, SCRIPT, EXTRACT = "offers by lot", "script", "extract method"
ActorFactory = Callable[[Question, int], Callable[[Observation], str]]
"""From a question and the number of an episode to what acts in it."""
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")


def answer_by_floors(
    settings: Settings, questions: Sequence[Question], library: Library, out: Path
) -> dict[str, Samples]:
    """Return answers by lot (as many as a policy's samples), by the script and by the extractive
    method (one each), kept in `out`."""
    actors: dict[str, ActorFactory] = {
        RANDOM: lambda question, at: make_random_actor(f"{settings.seed} {at} {question.id}"),
        SCRIPT: lambda question, at: follow_script,
    }
    answers_by_floor = {}
    for name, make in actors.items():
        n = settings.samples if name == RANDOM else 1
        print_progress(f"{name}: {n} answers to each of {len(questions)} questions")
        play = partial(_run_actors, settings, questions, library, n, make)
        answers_by_floor[name] = load_or_make(
            out / f"floor-{name.replace(' ', '-')}.json", Samples, play
        )
    answers_by_floor[EXTRACT] = load_or_make(
        out / "floor-extract.json",
        Samples,
        lambda: [[answer_by_extraction(question, library).answer] for question in questions],
    )
    return answers_by_floor


def make_random_actor(seed: str) -> Callable[[Observation], str]:
    """Make an actor that says any of the offers, each as likely."""
    chance = Random(seed)
    return lambda seen: chance.choice(list_candidate_actions(seen.prompt))


def follow_script(observation: Observation) -> str:
    """Search for the question, open the first result, quote the sentence with a year and the most
    words of the question, end, and answer with the first year of the quote; all from the offers."""
    offers = list_candidate_actions(observation.prompt)
    if "End: Answer" in offers:
        return "End: Answer"
    if observation.answering:
        years = [each for each in offers if _YEAR.search(each.rpartition("[")[0])]
        return (years or offers)[0]
    quotes = [each for each in offers if each.startswith("Quote: ")]
    links = [each for each in offers if each.startswith("Clicked on link ")]
    if quotes:
        question_words = {*split_words(" ".join(get_keywords(observation.question)))}
        return max(
            quotes,
            key=lambda each: (bool(_YEAR.search(each)), len(question_words & {*split_words(each)})),
        )
    if links and observation.past:
        return links[0]
    return next((each for each in offers if each.startswith("Search ")), offers[0])


def _run_actors(
    settings: Settings,
    questions: Sequence[Question],
    library: Library,
    n: int,
    make: ActorFactory,
) -> Samples:
    """Let an actor answer each question n times in the text browser."""
    rules = settings.browsing.rules
    tasks = [BrowserTask(question, rules) for question in questions for _ in range(n)]
    actors = [make(task.question, number) for number, task in enumerate(tasks)]
    episodes = run_rollouts(tasks, library, make_scripted_policy(actors), "floor")
    answers = [episode.answer for episode in episodes]
    return [answers[at : at + n] for at in range(0, len(answers), n)]
