"""Figures of what answers say, cite and copy and how they came about, from files of answers.

It knows nothing of terminals, nor of where figures are written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from rookery.ask.load import questions
from rookery.draft.target import holds
from rookery.measure import copying, probes
from rookery.measure.actions import actions, actions_figure
from rookery.measure.citations import citations_figure, cited
from rookery.measure.exact import exact_figure, exactness
from rookery.measure.figure import Figure
from rookery.measure.leakage import by_overlap, leakage_figure, split
from rookery.measure.rouge import corpus_rouge, rouge_figure
from rookery.records import Episode, Failed, Failure, Question
from rookery.serve.measuring_files import Attempt, by_system, records

Files = Sequence[str]
Pairs = Mapping[str, tuple[list[str], list[str]]]
"""of each system, what is said and what it may be copied from"""
P = TypeVar("P")
EMPTY = "No answer and a declined one count as an empty one."
COPIED: Mapping[str, Callable[[Pairs, str], Figure]] = {
    "novel": lambda pairs, says: copying.novel_figure(
        {name: copying.novel(*each) for name, each in pairs.items()}, says
    ),
    "repeated": lambda pairs, says: copying.repeated_figure(
        {name: copying.repeated(said) for name, (said, _) in pairs.items()}, says
    ),
    "openings": lambda pairs, says: copying.openings_figure(
        {name: copying.openings(*each) for name, each in pairs.items()}, says
    ),
    "places": lambda pairs, says: copying.copied_from_figure(
        {name: copying.copied_from(*each) for name, each in pairs.items()}, says
    ),
}
"""what there is to be seen of copying, and how it is measured and drawn"""


def overlaps(files: Files, stem: bool) -> Figure:
    """ROUGE of each system's answers with the gold ones."""
    systems = {name: corpus_rouge(*both, stem) for name, both in _golden(files).items()}
    return rouge_figure(systems, f"{EMPTY} Of several gold answers the best suited counts.")


def exact(files: Files) -> Figure:
    """How often each system's answers are gold ones."""
    systems = {name: exactness(*both) for name, both in _golden(files).items()}
    return exact_figure(systems, f"{EMPTY} Answers are compared as SQuAD does.")


def _golden(files: Files) -> dict[str, tuple[list[str], list[tuple[str, ...]]]]:
    """Each system's answers, and the gold ones. Raises Failed (no_gold) where it has none."""
    found = {}
    for name, attempts in by_system(files, Attempt).items():
        kept = [each for each in attempts if each.question.gold]
        if not kept:
            detail = "no question of it has a `gold` answer: ask questions that have one"
            raise Failed(Failure(name, "no_gold", detail))
        found[name] = [each.said for each in kept], [each.question.gold for each in kept]
    return found


def copies(files: Files, what: str) -> Figure:
    """What each system copies from the pages given with a question or, where none are, from what
    it quotes. Raises Failed: unknown_figure, no_source."""
    if what not in COPIED:
        detail = f"there is no such figure: use one of {', '.join(COPIED)}"
        raise Failed(Failure(what, "unknown_figure", detail))
    found = {}
    for name, attempts in by_system(files, Attempt).items():
        pairs = [(each.said, source) for each in attempts if (source := _source(each))]
        if not pairs:
            detail = "there is nothing to copy from: no page with a question, no quote in an answer"
            raise Failed(Failure(name, "no_source", detail))
        found[name] = [said for said, _ in pairs], [source for _, source in pairs]
    return COPIED[what](found, "The source is the pages given with a question, else the quotes.")


def _source(attempt: Attempt) -> str:
    quotes = attempt.answer.quotes if attempt.answer else ()
    given = [page.text for page in attempt.question.pages]
    return "\n".join(given or [quote.text for quote in quotes])


def leaks(files: Files, train: Sequence[Path]) -> Figure:
    """How often each system's answers hold a gold one, by what training has seen.

    Raises Failed (no_training).
    """
    if not train:
        detail = "name a file with the questions of training: one a line, as rookery ask takes them"
        raise Failed(Failure("--train", "no_training", detail))
    seen = list(chain.from_iterable(map(questions, train)))
    systems = {}
    for name, attempts in by_system(files, Attempt).items():
        test = [each.question for each in attempts]
        right = [
            float(any(holds(each.said, gold) for gold in each.question.gold)) for each in attempts
        ]
        systems[name] = by_overlap(right, split(seen, test))
    says = f"Share of answers that hold a gold one; training has seen {len(seen)} questions."
    return leakage_figure(systems, says)


def citing(files: Files) -> Figure:
    """Citation recall and precision of each system's answers."""
    systems = {
        name: cited(each.answer for each in attempts if each.answer is not None)
        for name, attempts in by_system(files, Attempt).items()
    }
    says = "A statement is supported where the quotes hold 57 % of its words: no model reads them."
    return citations_figure(systems, says)


def acted(files: Files) -> Figure:
    """How often each system gives which command, and how many tokens that takes."""
    found = by_system(files, Episode)
    systems = {name: actions(episodes) for name, episodes in found.items()}
    count = sum(map(len, found.values()))
    return actions_figure(systems, f"{count} episodes of the text browser.")


def probing(kind: str) -> list[Question]:
    """What is to be asked, stance or point. Raises Failed (unknown_probes)."""
    if kind == "stance":
        return [question for *_, question in probes.stance_questions(probes.stance_probes())]
    if kind == "point":
        return [probes.point_question(probe) for probe in probes.point_probes()]
    raise Failed(Failure(kind, "unknown_probes", "there are no such probes: use stance or point"))


def stances(file: str) -> Figure:
    """What the answers to stance probes do to the beliefs. Raises Failed (no_probes)."""
    asked = {
        question.text: (probe, phrasing)
        for probe, phrasing, question in probes.stance_questions(probes.stance_probes())
    }
    answered = [
        probes.Answered(probe.id, phrasing, probes.stance_of(probe.belief, said))
        for (probe, phrasing), said in _probed(Path(file), records(Path(file), Attempt), asked)
    ]
    says = f"{len(answered)} answers, read for their words alone; intervals over probes."
    return probes.stance_figure(probes.stance_shares(answered), says)


def points(files: Files) -> Figure:
    """From where each system's answers to the point probes speak. Raises Failed (no_probes)."""
    asked = {probe.text: probe for probe in probes.point_probes()}
    systems = {
        name: probes.point_shares(list(_probed(name, attempts, asked)))
        for name, attempts in by_system(files, Attempt).items()
    }
    return probes.point_figure(systems, "Read for their words alone; intervals over probes.")


def _probed(
    name: str | Path, attempts: Sequence[Attempt], asked: Mapping[str, P]
) -> Iterator[tuple[P, str]]:
    """The probes that were answered, and what was said."""
    known = [each for each in attempts if each.question.text in asked]
    if not known:
        detail = "it answers no probe: rookery measure probes prints them, for rookery ask --batch"
        raise Failed(Failure(str(name), "no_probes", detail))
    yield from ((asked[each.question.text], each.said) for each in known)
