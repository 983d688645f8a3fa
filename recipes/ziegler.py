"""Fine-tuning language models from human preferences (Ziegler and others, 2019): continuations of
novels that are kind or physically descriptive, and summaries of abstracts, with a mock labeller
that compares and another judge who measures what was learnt."""

from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev

from msgspec.structs import replace

from recipes.stages import RecipeOutput, main
from recipes.ziegler_data import (
    Task,
    choose_canned_sentence,
    list_physical_words,
    read_tasks,
    write_tiny_data,
)
from recipes.ziegler_found import (
    TaskReport,
    list_notes,
    report_descriptive,
    report_sentiment,
    report_summaries,
)
from recipes.ziegler_stages import RewardTarget, Settings, StagedRun
from rookery.learn.online_labelling import OnlineLabellingSettings
from rookery.records import Answer


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Run the three tasks with one language model as their common reference."""
    encoder = settings.encoder
    if settings.made_up:
        data = out / "data"
        encoder = write_tiny_data(data)
    run = StagedRun(settings, out)
    tasks = read_tasks(
        data,
        settings.passage,
        settings.excerpt,
        settings.abstract,
        (settings.held, settings.held_abstracts),
        settings.split,
        encoder,
        settings.full_stop,
    )
    language = run.train_language_model(tasks.texts)
    canned = choose_canned_sentence(tasks.sentiment, tasks.texts)
    parts = (
        _run_sentiment(run, tasks.sentiment, language, canned),
        _run_descriptive(run, tasks.descriptive, language),
        _run_summaries(run, tasks.summary, language),
    )
    learnt = ("offline", "online", "described", "summed-up")
    right = {name: run.read_reward_accuracy(name) for name in learnt}
    effects = chain.from_iterable(part.effects for part in parts)
    tables = chain.from_iterable(part.tables for part in parts)
    figures = chain.from_iterable(part.figures for part in parts)
    return RecipeOutput(effects, tables, figures, list_notes(settings, tasks.judges, right, canned))


def _run_sentiment(run: StagedRun, task: Task, reference: str, canned: str) -> TaskReport:
    """Run the sentiment task: policies that learn from labels, and that know the hidden reward, at
    several KLs; compare them with the optimal policy."""
    settings, labels = run.settings, run.settings.labels
    draws, judged = run.draw_rewards(task, reference)
    aims = {f"aimed-{kl:g}": RewardTarget(kl, fmean(map(pstdev, draws))) for kl in settings.targets}
    offline = run.train_with_labels("offline", task, reference, _label_offline(labels))
    policies = {
        "offline": offline,
        "online": run.train_with_labels("online", task, reference, labels, shared="offline"),
        **{name: run.train_with_labels(name, task, reference, labels, aims[name]) for name in aims},
    }
    comparisons = {
        name: run.compare_with_reference(task, name, policies[name], reference) for name in policies
    }
    kls = {name: run.read_kls(name) for name in aims}
    [reward] = task.judged([(task.held[0], Answer(canned))])
    targets = {name: aim.kl for name, aim in aims.items()}
    return report_sentiment(comparisons, kls, targets, draws, judged, settings.betas, reward)


def _run_descriptive(run: StagedRun, task: Task, reference: str) -> TaskReport:
    """Run the descriptive task: words for what can be seen, heard, felt, smelt or tasted."""
    how = _label_offline(run.settings.labels)
    model = run.train_with_labels("described", task, reference, how, shared="offline")
    seen = run.compare_with_reference(task, "described", model, reference)
    [listed] = task.judged([(task.held[0], Answer(list_physical_words()))])
    return report_descriptive(seen, listed)


def _run_summaries(run: StagedRun, task: Task, reference: str) -> TaskReport:
    """Run the summary task: the language model alone, after imitating summaries, and after labels
    on top of that."""
    some = task.asked[: run.settings.demonstrations]
    taught = [(task.shown(one), f" {min(one.gold, key=len)}", "end") for one in some]
    tuned = run.train_imitation("taught", run.settings.tuned, reference, taught)
    learnt = run.train_with_labels("summed-up", task, tuned, _label_offline(run.settings.summaries))
    models = {"zero-shot": reference, "supervised": tuned, "labels": learnt}
    completions = {
        name: run.sample_completions(f"summary-{name}", task, models[name], tuned, 1)
        for name in models
    }
    return report_summaries(
        task, {name: [one.text for one in texts] for name, texts in completions.items()}
    )


def _label_offline(how: OnlineLabellingSettings) -> OnlineLabellingSettings:
    """Return settings with every label collected before the first episode."""
    return replace(how, initial=how.labels)


if __name__ == "__main__":
    main("ziegler", Settings, reproduce_paper)
