"""Preferences of the evidence model between samples of the imitated writer.

Samples of one prompt are judged, and the best of each prompt, where the judge tells it from the
worst, is imitated together with the demonstrations (best of n, as in WebGPT's rejection sampling,
section 3.2, but learnt). An answer must hold the accepted answer where one is known.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

import msgspec

from recipes.line_completions import complete_lines
from recipes.writer_data import WritingTask, make_episode, render_trained_prompt
from recipes.writer_statements import is_sound
from rookery.cite.claim_support import judge_claim_support
from rookery.cite.evidence_model import EvidenceJudge, EvidencePassage, convert_to_probability
from rookery.cite.sentence_support import cite_sentences, list_written_sentences
from rookery.draft.gold_answers import contains_gold_answer
from rookery.learn.decoding import SamplingSettings
from rookery.records import Completion, Episode


class PreferenceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Samples that are judged, and which of them are learnt from."""

    prompts: int = 1000
    """tasks that are sampled for, at most; 0: no preferences are learnt"""
    samples: int = 8
    """of each task"""
    sampling: SamplingSettings = SamplingSettings(max_tokens=72, temperature=0.8, rows=512)
    least: float = 0.5
    """least worth of a sample that is learnt from"""
    margin: float = 0.05
    """by which the best sample must be worth more than the worst"""


class JudgedSample(msgspec.Struct, frozen=True):
    """A sample, and what it is worth by the evidence model, from 0 to 1."""

    text: str
    worth: float


class JudgedTask(msgspec.Struct, frozen=True):
    """A task with its samples, best first."""

    task: WritingTask
    samples: list[JudgedSample]


def judge_sample(task: WritingTask, said: Completion, judge: EvidenceJudge) -> JudgedSample:
    """Judge a sample: the probability that it answers, times that of its least supported sentence.

    It is worth nothing if it was cut off, is not well formed, lacks the accepted answer, or has a
    sentence that would be taken out.
    """
    finished = said.stop != "length"
    sentences = list_written_sentences(said.text, finished)
    text = " ".join(sentences)
    worthless = JudgedSample(said.text.strip(), 0.0)
    if not finished or not 1 <= len(sentences) <= 3 or not all(map(is_sound, sentences)):
        return worthless
    if task.gold and not contains_gold_answer(text, task.gold):
        return worthless
    if cite_sentences(text, task.sources, task.question, judge).removed:
        return worthless
    quotes = [EvidencePassage(each.quote.text, each.quote.title) for each in task.sources]
    supports = min(judge_claim_support(each, quotes, judge).supports for each in sentences)
    [judged] = judge(task.question, [EvidencePassage(text, quotes[0].heading)])
    return JudgedSample(text, supports * convert_to_probability(judged.answers))


def judge_samples(
    settings: PreferenceSettings,
    tasks: Sequence[WritingTask],
    model: Path,
    judge: EvidenceJudge,
    seed: int = 0,
) -> list[JudgedTask]:
    """Sample answers of a model to tasks and judge them. Raises Failed, as sampling does."""
    asked = list(tasks[: settings.prompts])
    prompts = [render_trained_prompt(each.question, each.sources) for each in asked]
    repeated = [prompt for prompt in prompts for _ in range(settings.samples)]
    said = complete_lines(model, repeated, settings.sampling, seed)
    # Samples that are alike are judged once.
    sampled = [
        list(dict.fromkeys(said[at : at + settings.samples]))
        for at in range(0, len(said), settings.samples)
    ]

    def judge_task(number: int) -> JudgedTask:
        found = [judge_sample(asked[number], each, judge) for each in sampled[number]]
        # Of two that are worth the same the shorter one says as much in fewer words.
        found.sort(key=lambda each: (-each.worth, len(each.text)))
        return JudgedTask(asked[number], found)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(judge_task, range(len(asked))))


def choose_best_samples(
    settings: PreferenceSettings, judged: Sequence[JudgedTask]
) -> list[Episode]:
    """Return the best sample of each task where it is worth enough, and more than the worst."""
    return [
        make_episode(each.task, best.text, "preferred")
        for each in judged
        if (best := each.samples[0]).worth >= settings.least
        and best.worth - each.samples[-1].worth >= settings.margin
    ]


def describe_preferences(judged: Sequence[JudgedTask], chosen: int) -> str:
    """Say what samples are worth, and of how many tasks the best one is learnt from."""
    if not judged:
        return "no samples were judged"
    best = fmean(each.samples[0].worth for each in judged)
    mean = fmean(fmean(one.worth for one in each.samples) for each in judged)
    worst = fmean(each.samples[-1].worth for each in judged)
    return (
        f"samples for {len(judged)} tasks: worth {mean:.3f} in the mean of the different ones, the "
        f"best {best:.3f}, the worst {worst:.3f}; the best of {chosen} tasks are learnt from"
    )
