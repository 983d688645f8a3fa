"""Methods with a chat model whose replies are scripted: what the product makes of them.

The replies of tests/stored/chat/METHOD.jsonl were written by hand from the prompts alone, three of
four as a careful model writes and one as a sloppy one, over four small folders that were made up
beside them. They measure the product around a model and no particular model. Whether a last reply
is right and complete as written was judged by hand; as shown it is right if it holds the strings
that questions.jsonl wanted before anything was asked, or, where the folder does not hold the
answer, if it is declined. Seconds are of one core, and without the model. A token is four
characters. Prints tables and writes bench/results/played.json.

    python -m bench.played [--record]

`--record` writes what is shown now, and the evidence model's judgements, into METHOD.jsonl, for the
tests. Where a prompt has changed, read it first: its references may have other numbers.
"""

import argparse
import hashlib
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from bench.report import ROOT, choose_size, print_table, write_results
from rookery.answers.best_of_n import BestOfNSettings
from rookery.answers.chat_answers import (
    CHARACTERS_PER_TOKEN,
    ChatSettings,
    answer_by_chat,
    choose_by_votes,
)
from rookery.answers.gophercite import GopherCiteSettings, answer_with_gophercite
from rookery.answers.webgpt import answer_with_webgpt
from rookery.browser.browser_commands import BrowserRules, make_chat_rules
from rookery.evidence.claim_support import make_evidence_reward
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    load_evidence_model,
)
from rookery.evidence.passage_ranking import rank_by_evidence
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.measure.intervals import estimate_share
from rookery.records import Completion, Episode, Library, Policy, Question

FOLDER = ROOT / "tests" / "stored" / "chat"
REFERENCE = re.compile(r"♦Reference \[(\d+)\]: .*\((.*)\)\n((?:(?!♦Reference|♦User).*\n)*)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
MARKS = re.compile(r" ?(?:\[\d+\])+")


class ShownClaim(msgspec.Struct):
    """A part of an answer, and the texts of the quotes that it cites."""

    text: str
    quotes: list[str]
    doubtful: list[str]


class ShownAnswer(msgspec.Struct):
    """What a reader is shown: the answer, its citations and the remarks below it."""

    stop: str
    declined: bool
    checked: bool
    text: str
    claims: list[ShownClaim]
    quotes: list[str]
    notes: list[str]


class PlayedQuestion(msgspec.Struct, omit_defaults=True):
    """A question, the replies of the model in order, and what was shown."""

    id: str
    question: str
    place: str
    style: str
    replies: list[str]
    cited: list[list[int]]
    """references that the last reply cites, mark by mark, as whoever wrote it meant them"""
    right: bool
    """the last reply is right and complete, judged by hand"""
    shown: ShownAnswer
    judgements: dict[str, tuple[float, float, float]]
    """answers, supports and refutes of the evidence model, by `hash_judged`"""
    prompts: list[str] = []
    """words of the prompt that each reply is for, if prompts come side by side; none: in order"""
    written: str = ""
    """the claim that is to be shown, with its marks; empty: the last reply"""

    def get_written(self) -> str:
        """Return the answer as it was written."""
        return self.written or self.replies[-1]


class WantedAnswer(msgspec.Struct):
    """A line of questions.jsonl, as far as it is needed here."""

    id: str
    must: list[str]
    """strings of a right and complete answer; none where the folder does not hold it"""


def load_played(method: str) -> list[PlayedQuestion]:
    """Return the questions that a method is asked, with their replies."""
    lines = (FOLDER / f"{method}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=PlayedQuestion) for line in lines]


def load_wanted() -> dict[str, list[str]]:
    """Return the strings of a right answer by the question's id."""
    lines = (FOLDER / "questions.jsonl").read_bytes().splitlines()
    wanted = (msgspec.json.decode(line, type=WantedAnswer) for line in lines)
    return {each.id: each.must for each in wanted}


def hash_judged(text: str, passage: EvidencePassage) -> str:
    """Return a short name of what the evidence model is asked."""
    asked = f"{text}\n{passage.heading}\n{passage.text}"
    return hashlib.sha256(asked.encode()).hexdigest()[:10]


def replay_judge(played: PlayedQuestion) -> EvidenceJudge:
    """Return a judge that has the recorded judgements and raises LookupError for others."""

    def judge(text: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        try:
            rows = [played.judgements[hash_judged(text, passage)] for passage in passages]
        except KeyError:
            detail = f"{played.id}: the evidence model is asked what was not recorded ({text!r})"
            raise LookupError(f"{detail}: see python -m bench.played --record") from None
        return [
            EvidenceJudgement(answers, (0, 0), 0.0, supports, refutes, 1 - supports - refutes)
            for answers, supports, refutes in rows
        ]

    return judge


def record_judge(judge: EvidenceJudge, played: PlayedQuestion) -> EvidenceJudge:
    """Return the judge with its judgements rounded and written into the question."""

    def recording(text: str, passages: Sequence[EvidencePassage]) -> Sequence[EvidenceJudgement]:
        for passage, found in zip(passages, judge(text, passages), strict=True):
            row = (round(found.answers, 3), round(found.supports, 4), round(found.refutes, 4))
            played.judgements[hash_judged(text, passage)] = row
        return replay_judge(played)(text, passages)

    return recording


class PlayedModel:
    """A chat model that gives these replies in their order, or each to a prompt with its words."""

    name = "played"

    def __init__(self, played: PlayedQuestion) -> None:
        self._lock, self._played = threading.Lock(), played
        self.asked: dict[int, str] = {}
        """prompts by the numbers of their replies"""

    def complete(self, prompt: str, n: int = 1, allow: object = None) -> list[Completion]:
        """Return the next reply, n times. Raises LookupError if there is none."""
        replies, words = self._played.replies, self._played.prompts
        with self._lock:  # a prompt of several has one thread, so that its replies come in order
            rest = (number for number in range(len(replies)) if number not in self.asked)
            number = next((each for each in rest if not words or words[each] in prompt), None)
            if number is None:
                raise LookupError(f"{self._played.id}: there is no reply to {prompt[-300:]!r}")
            self.asked[number] = prompt
        return [Completion(replies[number])] * n


def _answer_by_webglm(
    question: Question, library: Library, model: Policy, judge: EvidenceJudge
) -> Episode:
    rank = partial(rank_by_evidence, judge=judge)
    return answer_by_chat(question, library, model, model, rank, judge=judge)


def _answer_by_webgpt(
    question: Question, library: Library, model: Policy, judge: EvidenceJudge
) -> Episode:
    rules = make_chat_rules(BrowserRules(), 8000)
    return answer_with_webgpt(question, library, model, rules=rules, judge=judge, chat=True)


def _answer_by_gophercite(
    question: Question, library: Library, model: Policy, judge: EvidenceJudge
) -> Episode:
    rank, choose = partial(rank_by_evidence, judge=judge), partial(choose_by_votes, model)
    choosing = BestOfNSettings(1, make_evidence_reward(judge), choose=choose)
    settings = GopherCiteSettings(window=ChatSettings())
    return answer_with_gophercite(question, library, model, rank, choosing, settings)


METHODS: dict[str, Callable[[Question, Library, Policy, EvidenceJudge], Episode]] = {
    "webglm": _answer_by_webglm,
    "webgpt": _answer_by_webgpt,
    "gophercite": _answer_by_gophercite,
}


def answer_played(
    method: str, played: PlayedQuestion, library: Library, judge: EvidenceJudge
) -> "PlayedOutcome":
    """Answer a question by its replies. Raises ValueError if not all of them are asked for."""
    model, begun = PlayedModel(played), time.process_time()
    episode = METHODS[method](Question(played.id, played.question), library, model, judge)
    seconds = time.process_time() - begun
    prompts = [prompt for _, prompt in sorted(model.asked.items())]
    if len(prompts) != len(played.replies):
        count = len(prompts)
        raise ValueError(f"{played.id}: {count} replies of {len(played.replies)} were asked for")
    return PlayedOutcome(played, episode, prompts, seconds)


def describe_shown(episode: Episode) -> ShownAnswer:
    """Return what a reader sees of an episode. Raises ValueError if it has no answer."""
    answer = episode.answer
    if answer is None:
        raise ValueError(f"{episode.question.id} has no answer: {episode.stop}")
    texts = [quote.text for quote in answer.quotes]
    claims = [
        ShownClaim(
            answer.text[claim.start : claim.end],
            [texts[number] for number in claim.quotes],
            [texts[number] for number in claim.doubtful],
        )
        for claim in answer.claims
    ]
    notes = [failure.detail for failure in episode.failures]
    checked = answer.citations != "unchecked"
    return ShownAnswer(episode.stop, answer.declined, checked, answer.text, claims, texts, notes)


def list_cited(episode: Episode) -> list[list[int]]:
    """Return the numbers that the quotes of each claim have in the last prompt."""
    answer, prompt = episode.answer, episode.steps[-1].prompt + "\n"
    assert answer is not None
    blocks = [
        (int(number), name, " ".join(text.split()))
        for number, name, text in REFERENCE.findall(prompt)
    ]
    return [
        [
            next(
                number
                for number, name, text in blocks
                if quote.url.endswith(f"/{name}") and " ".join(quote.text.split()) in text
            )
            for quote in (answer.quotes[place] for place in claim.quotes)
        ]
        for claim in answer.claims
    ]


def take_marks_off(reply: str) -> tuple[str, list[tuple[int, list[int]]]]:
    """Return a careful reply without its marks, and where they stood with which numbers."""
    hidden = CODE.sub(lambda code: "x" * len(code[0]), reply)
    text, position, marks = "", 0, list[tuple[int, list[int]]]()
    for mark in MARKS.finditer(hidden):
        text += reply[position : mark.start()]
        position = mark.end()
        marks.append((len(text), [int(number) for number in re.findall(r"\d+", mark[0])]))
    return text + reply[position:], marks


class PlayedOutcome(NamedTuple):
    """A question, its episode, the model's prompts, and the CPU seconds of the product."""

    played: PlayedQuestion
    episode: Episode
    prompts: list[str]
    seconds: float

    def is_as_written(self) -> bool:
        """Tell whether a careful reply is shown to the byte, its marks aside, or declined."""
        shown, reply = describe_shown(self.episode), self.played.get_written()
        return shown.declined or shown.text == take_marks_off(reply)[0]

    def count_marks(self) -> tuple[int, int, int]:
        """Count the citations kept, lost and added."""
        written = Counter(number for mark in self.played.cited for number in mark)
        shown = Counter(number for claim in list_cited(self.episode) for number in claim)
        kept = (written & shown).total()
        return kept, written.total() - kept, shown.total() - kept

    def count_changed_code(self) -> int:
        """Count the characters of code in the last reply that are not shown as they are."""
        shown, reply = describe_shown(self.episode).text, self.played.get_written()
        code = (each for each in CODE.findall(reply) if each != reply)  # no fence round everything
        return sum(len(each) for each in code if each not in shown)

    def is_right(self, must: Sequence[str]) -> bool:
        """Tell whether what is shown is right and complete, or declined as it must be."""
        shown = describe_shown(self.episode)
        if not must:
            return shown.declined
        held = all(each.casefold() in shown.text.casefold() for each in must)
        return held and not shown.declined and self.played.right


def summarize(
    outcomes: Sequence[PlayedOutcome], wanted: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the shares of right answers and the counts of marks, calls and tokens."""
    answerable = [each for each in outcomes if wanted[each.played.id]]
    others = [each for each in outcomes if not wanted[each.played.id]]
    shares: dict[str, dict[str, float | None]] = {}

    def add_share(name: str, each: Iterable[bool]) -> None:
        held = [*each]
        if held:
            share = estimate_share(sum(held), len(held))
            counts = {"count": sum(held), "of": len(held), "share": share.value}
            shares[name] = {**counts, "low": share.low, "high": share.high}

    add_share("right and complete, as written", (each.played.right for each in outcomes))
    right = {each.played.id: each.is_right(wanted[each.played.id]) for each in outcomes}
    add_share("right and complete, as shown", right.values())
    add_share("answerable, right as shown", (right[each.played.id] for each in answerable))
    for style in ("careful", "sloppy"):
        own = [each for each in others if each.played.style == style]
        add_share(f"unanswerable, {style}: declined", (right[each.played.id] for each in own))
    counts = {}
    for style in ("careful", "sloppy"):
        own = [each for each in outcomes if each.played.style == style]
        marks = [each.count_marks() for each in own]
        claims = [claim for each in own for claim in describe_shown(each.episode).claims]
        counts[style] = {
            "replies": len(own),
            "shown_as_written": sum(each.is_as_written() for each in own),
            "marks_kept": sum(kept for kept, _, _ in marks),
            "marks_lost": sum(lost for _, lost, _ in marks),
            "marks_added": sum(added for _, _, added in marks),
            "marked_as_doubtful": sum(len(claim.doubtful) for claim in claims),
            "characters_of_code_changed": sum(each.count_changed_code() for each in own),
        }
    prompts = [each.prompts for each in outcomes]
    said = [each.played.replies for each in outcomes]
    references = [max(len(REFERENCE.findall(each + "\n")) for each in own) for own in prompts]
    return {
        "shares": shares,
        "counts": counts,
        "calls": sum(map(len, prompts)) / len(prompts),
        "prompt_tokens": median(sum(map(len, own)) / CHARACTERS_PER_TOKEN for own in prompts),
        "completion_tokens": median(sum(map(len, own)) / CHARACTERS_PER_TOKEN for own in said),
        "references": median(references),
        "seconds": median(each.seconds for each in outcomes),
        "wrong": [name for name, good in right.items() if not good],
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write METHOD.jsonl anew")
    options = parser.parse_args()
    judge, wanted = load_evidence_model(BUNDLED_MODEL).judge_passages, load_wanted()
    results = dict[str, dict[str, Any]]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        archive = stack.enter_context(PageArchive(folder / "archive"))
        libraries = {
            place: stack.enter_context(FolderLibrary([FOLDER / place], archive, folder / "cache"))
            for place in ("manual", "town", "bells", "office")
        }
        for method in METHODS:
            questions = load_played(method)[:: choose_size(1, 13)]
            outcomes = list[PlayedOutcome]()
            for each in questions:
                each.judgements = {}
                own_judge = record_judge(judge, each)
                outcomes.append(answer_played(method, each, libraries[each.place], own_judge))
                each.shown = describe_shown(outcomes[-1].episode)
            found = results[method] = summarize(outcomes, wanted)
            if options.record:
                lines = (msgspec.json.encode(each) + b"\n" for each in questions)
                (FOLDER / f"{method}.jsonl").write_bytes(b"".join(lines))
            print(f"\n{method}")
            print_table(["count", "of", "share", "low", "high"], found["shares"])
            print_table(list(next(iter(found["counts"].values()))), found["counts"])
            print(
                {name: value for name, value in found.items() if name not in ("shares", "counts")}
            )
    write_results("played", results)


if __name__ == "__main__":
    main()
