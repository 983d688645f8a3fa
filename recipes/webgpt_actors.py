"""Actors of the WebGPT recipe that are no policies: a demonstrator that knows the answer, one that
says any offer, and a script over the same offers."""

from collections.abc import Callable, Sequence
from random import Random

from recipes.gold_answers import AnswerLocation, locate_answer
from recipes.oracle_policies import abbreviate_quote, list_candidate_actions
from recipes.webgpt_data import AnswerSample, Samples, Settings, is_right
from rookery.browser.browser import ABBREVIATION_MARK, PASSAGES_PER_RESULT
from rookery.browser.browser_commands import BrowserTask, Observation
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.learn.action_constraints import QUOTE_SHAPE
from rookery.pages.search_terms import QUESTION_WORDS, get_keywords
from rookery.quotes.word_overlap import split_words
from rookery.records import Episode, Library, Question

POINTER_WORDS = range(2, 6)
"""Fewest words at either end of a quote that is pointed at, in the order in which they are tried:
an end has eight characters."""
RANDOM, SCRIPT = "offers by lot", "script"


def demonstrate(
    settings: Settings, questions: Sequence[Question], library: Library
) -> list[Episode]:
    """Return the right demonstrations of these questions: search for the keywords, open the page of
    the question, quote the sentence that answers by its first and last words, and answer."""
    rules = settings.browsing.rules
    actors = [make_demonstrator(each, library, rules.results) for each in questions]
    tasks = [BrowserTask(each, rules) for each in questions]
    episodes = run_rollouts(tasks, library, make_scripted_policy(actors), "demonstrator")
    return [each for each in episodes if is_right(each.question, each.answer)]


def make_demonstrator(
    question: Question, library: Library, results: int
) -> Callable[[Observation], str]:
    """Make an actor that knows the question's page and answer; it gives up where the search does
    not find the page."""
    query = " ".join(get_keywords(question.text)) or question.text
    hits = library.search(query, PASSAGES_PER_RESULT * results)
    urls = list(dict.fromkeys(each.url for each in hits))[:results]
    at = next((n for n, url in enumerate(urls) if url.endswith(f"/{question.source}")), None)
    target = None if at is None else locate_answer(question, library.fetch(urls[at]))

    def act(observation: Observation) -> str:
        if target is None:
            return "End: Nonsense"
        if observation.answering:
            return f"{target.answer.rstrip('.')} [1]."
        if not observation.past:
            return f"Search {query}"
        if not observation.url:
            return f"Clicked on link {at}"
        return f"Quote: {point_at_sentence(target, observation.text)}"

    return act


def point_at_sentence(target: AnswerLocation, screen: str) -> str:
    """Return the fewest first and last words that tell a sentence from others on the screen, with
    WebGPT's mark between them; the whole of a short sentence."""
    sentence = " ".join(target.page.text[target.start : target.end].split())
    for size in POINTER_WORDS:
        pointer = abbreviate_quote(sentence, screen, size)
        if pointer and min(map(len, pointer.split(ABBREVIATION_MARK))) >= QUOTE_SHAPE.shortest:
            return pointer
    return sentence


def answer_by_offers(
    settings: Settings, questions: Sequence[Question], library: Library, name: str
) -> Samples:
    """Answer each question from the offers of the browser's states: a few times by lot, or once by
    the script."""
    n, rules = 1 if name == SCRIPT else settings.few, settings.browsing.rules
    tasks = [BrowserTask(question, rules) for question in questions for _ in range(n)]
    make = make_random_actor if name == RANDOM else lambda seed: follow_script
    actors = [make(f"{settings.seed} {at} {one.question.id}") for at, one in enumerate(tasks)]
    episodes = run_rollouts(tasks, library, make_scripted_policy(actors), name)
    samples = [AnswerSample(each.answer, 0.0) for each in episodes]
    return [samples[at : at + n] for at in range(0, len(samples), n)]


def make_random_actor(seed: str) -> Callable[[Observation], str]:
    """Make an actor that says any of the offers, each as likely."""
    chance = Random(seed)
    return lambda observation: chance.choice(list_candidate_actions(observation.prompt))


def follow_script(observation: Observation) -> str:
    """Search for the question, open the first result, quote the sentence with the most words of the
    question, and answer with the first name or number of the quote that the question has not; all
    from the offers."""
    offers = list_candidate_actions(observation.prompt)
    question_words = {*split_words(" ".join(get_keywords(observation.question)))}
    if observation.answering:
        words = {each: {*split_words(each.rpartition(" [")[0])} for each in offers}
        excluded = question_words | QUESTION_WORDS
        return next((each for each in offers if not excluded & words[each]), offers[0])
    quotes = [each for each in offers if each.startswith("Quote: ")]
    if quotes:
        return max(quotes, key=lambda each: len(question_words & {*split_words(each)}))
    verb = "Clicked on link " if observation.past else "Search "
    return next((each for each in offers if each.startswith(verb)), offers[0])
