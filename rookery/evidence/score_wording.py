"""Words for the score of an answer: a probability only where it was calibrated.

Scores of `extract` that were not calibrated on the documents asked are called high, middle or low,
and the shares of right first quotes are told that answers with such scores had elsewhere.
"""

from rookery.pages.search_terms import ENGLISH, find_language
from rookery.records import Answer, Episode

HIGH_SCORE = 0.8
"""score from which an answer is called high"""
MIDDLE_SCORE = 0.5
"""score from which an answer is called middle, and below which it is called low"""
MEASURED = {"high": (25, 28), "middle": (46, 62)}
"""right first quotes, and answers, by grade, of the test questions of `python -m bench
documentation` (bench/results/test/documentation.jsonl); answers with a low score are declined"""


def grade_score(score: float) -> str:
    """Return high, middle or low for a score from 0 to 1."""
    return "high" if score >= HIGH_SCORE else "middle" if score >= MIDDLE_SCORE else "low"


def word_score(episode: Episode) -> str:
    """Return the score of an episode's answer in words; empty where it has none.

    It is "about 80 % likely" where it was calibrated, "score high" and so on for other answers by
    `extract` in English, on which its model was measured, and the number for methods whose scores
    are no probabilities.
    """
    answer = episode.answer
    if answer is None or answer.score is None:
        return ""
    if answer.calibrated:
        return f"about {_round_percent(answer.score)} % likely"
    if episode.by != "extract":
        return f"score {answer.score:.2f}"
    return f"score {grade_score(answer.score)}" if _is_english(episode) else "score not measured"


def explain_score(episode: Episode) -> str:
    """Return a sentence on the meaning of the score; empty where no sentence is known."""
    answer = episode.answer
    if answer is None or answer.score is None or episode.by != "extract":
        return ""
    if answer.calibrated:
        return (
            "The probability that the first quote answers, calibrated on questions made from these "
            "documents."
        )
    if not _is_english(episode):
        return (
            "Scores were measured on English only: whether this one holds in this language is not "
            "known."
        )
    return f"A {grade_score(answer.score)} score, not calibrated on these documents." + (
        _describe_share(answer)
    )


def _is_english(episode: Episode) -> bool:
    """Return False if a question is in other letters, or it and its answer in another language.

    Questions alone are too short to tell: "do" and "a" are words of several languages.
    """
    question, answer = episode.question.text, episode.answer
    letters = [letter for letter in question if letter.isalpha()]
    latin = sum(letter < "\u0250" for letter in letters)
    language = find_language(question)
    return 2 * latin >= len(letters) and (
        language == ENGLISH or answer is None or find_language(answer.text) != language
    )


def _describe_share(answer: Answer) -> str:
    grade = grade_score(answer.score or 0.0)
    if grade not in MEASURED:
        return ""
    right, answers = MEASURED[grade]
    return (
        f" On other documentation, {right} of {answers} first quotes with such a score by the "
        "evidence model were right."
    )


def _round_percent(score: float) -> int:
    """Round to steps of five, and to neither certainty."""
    return min(95, max(5, 5 * round(20 * score)))
