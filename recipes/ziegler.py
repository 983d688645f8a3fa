"""Fine-tuning language models from human preferences (Ziegler and others, 2019): novels continued
kindly or with what can be seen and heard, abstracts summed up, while a mock labeller compares."""

from pathlib import Path
from statistics import fmean, pstdev

from msgspec.structs import replace

from recipes.stages import Found, main
from recipes.ziegler_data import Task, read_tasks, write_made_up
from recipes.ziegler_found import NOTES, RIGHT, Part, better, continued, summed_up
from recipes.ziegler_stages import Aim, Play, Settings
from rookery.learn.labels import LabelSettings


def play(settings: Settings, data: Path, out: Path) -> Found:
    """The three tasks, with one language model as the reference of all."""
    if settings.made_up:
        data = out / "data"
        write_made_up(data)
    run = Play(settings, out)
    tasks = read_tasks(
        data,
        settings.passage,
        settings.excerpt,
        settings.abstract,
        (settings.held, settings.held * settings.each),
        settings.seed,
    )
    language = run.language(tasks.texts)
    parts = (
        _continued(run, tasks.sentiment, language),
        _described(run, tasks.descriptive, language),
        _summed_up(run, tasks.summary, language),
    )
    findings = [finding for found, _ in parts for finding in found]
    figures = [figure for _, drawn in parts for figure in drawn]
    learnt = ("offline", "online", "described", "summed-up")
    right = ", ".join(f"{name} {run.foretold(name):.0%}" for name in learnt)
    notes = [f"{NOTES[0]} {tasks.accuracy:.1%} of them.", *NOTES[1:], f"{RIGHT} {right}."]
    return findings, figures, notes


def _continued(run: Play, task: Task, reference: str) -> Part:
    """Sentiment: policies that learn from labels, that imitate what was chosen, and that know the
    hidden reward, to several KLs; beside what the best policy would have."""
    made = run.settings
    said = run.said("drawn", task, reference, "", made.drawn)
    every = run.worth(task, said, made.drawn)
    drawn = [every[at : at + made.drawn] for at in range(0, len(every), made.drawn)]
    aims = {f"aimed-{kl:g}": Aim(kl, fmean(map(pstdev, drawn))) for kl in made.targets}
    policies = {
        "offline": run.learnt("offline", task, reference, _offline(made.labels)),
        "online": run.learnt("online", task, reference, made.labels),
        "cloned": run.cloned("cloned", task, reference, "offline"),
        **{name: run.learnt(name, task, reference, made.labels, aims[name]) for name in aims},
    }
    seen = {name: run.seen(task, name, model, reference) for name, model in policies.items()}
    kls = {name: run.kls(name) for name in aims}
    return continued(seen, kls, {name: aim.kl for name, aim in aims.items()}, drawn, made.betas)


def _described(run: Play, task: Task, reference: str) -> Part:
    """With what can be seen, heard, felt, smelt or tasted."""
    model = run.learnt("described", task, reference, _offline(run.settings.labels))
    seen = run.seen(task, "described", model, reference)
    return [better("Learning to describe", seen, "86 % (table 1)")], []


def _summed_up(run: Play, task: Task, reference: str) -> Part:
    """Abstracts: by the language model as it is, taught by summaries, and by labels after that."""
    taught = [(task.shown(one), f" {min(one.gold, key=len)}", "end") for one in task.asked]
    tuned = run.imitated("taught", run.settings.tuned, reference, taught)
    learnt = run.learnt("summed-up", task, tuned, _offline(run.settings.summaries))
    models = {"zero-shot": reference, "supervised": tuned, "labels": learnt}
    said = {name: run.said(f"summary-{name}", task, models[name], tuned, 1) for name in models}
    return summed_up(task, {name: [one.text for one in texts] for name, texts in said.items()})


def _offline(how: LabelSettings) -> LabelSettings:
    """All labels before the first episode."""
    return replace(how, initial=how.labels)


if __name__ == "__main__":
    main("ziegler", Settings, play)
