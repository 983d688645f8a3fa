"""The command `rookery learn`: train what a TOML file describes, with progress and a summary.

For `rookery learn reinforce` that is an environment, trials before and after, and perhaps the desk
where people compare and may stop the run.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from rookery.answers.answer_session import EvidenceSources
from rookery.answers.best_of_n import load_reward
from rookery.answers.gophercite import GopherCiteSettings
from rookery.answers.trained_policies import POLICY_FILE, TrainedPolicy, find_prompt_kind
from rookery.answers.training_rows import describe_rows, read_demonstration_rows, read_rows
from rookery.answers.webglm import WebglmSettings
from rookery.errors import Failed, Outcome
from rookery.learn.action_constraints import (
    ConstrainedEnvironment,
    allow_commands,
    constrain_commands_on_server,
)
from rookery.learn.decoding import SamplingSettings, load_sampled_model
from rookery.learn.episodes import RolloutEnvironment
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.online_labelling import (
    EnvironmentFactory,
    OnlineLabellingResult,
    OnlineLabellingSettings,
    train_with_online_labels,
)
from rookery.learn.policy_gradient import (
    ReinforcementSettings,
    make_a2c_settings,
    make_ppo_settings,
    make_rloo_settings,
    make_webgpt_settings,
)
from rookery.learn.pretrained_models import (
    PolicyTokenizer,
    TrainedModelSettings,
    load_policy_tokenizer,
)
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.retrieval_training import RetrievalTrainingSettings, train_retriever
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model
from rookery.learn.rollout_environments import (
    BatchRewardFunction,
    BrowserEnvironment,
    BrowserEnvironmentSettings,
    TriedEpisode,
    assign_questions,
    average_trial,
    make_quote_environment,
    make_reference_environment,
    try_policy,
)
from rookery.learn.training_run import StepCallback, StopCheck
from rookery.library.page_archive import write_whole_file
from rookery.library.question_files import read_questions
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.records import Episode, Failure, Library, Question
from rookery.settings import COMPLETION_FIELDS, LocalModelSettings, Settings
from rookery.shell.command_line import EXIT_ANSWERED, EXIT_STOPPED, CommandError, print_lines
from rookery.shell.terminal_output import NarrowProgress, StreamConsole
from rookery.text_escaping import sanitize_text
from rookery.typed_files import merge_tables, parse_settings, read_toml_table

if TYPE_CHECKING:
    from rookery.desk.human_feedback import HumanFeedback


class TrainingSummary(NamedTuple):
    """Templates of the lines that tell a person the result of a training run."""

    learnt: str
    measured: str
    """on what, before and after"""
    measures: Mapping[str, str]
    """those that are shown, and what they are"""
    gains: str = ""
    """what the result's `gains` are of"""


_SUMMARIES = read_toml_table(Path(__file__).with_name("training_summaries.toml"))
TRAINING_SUMMARIES = {kind: TrainingSummary(**each) for kind, each in _SUMMARIES.items()}


def run_learn(what: str, config: Path, out: Path | None, json: bool, desk: str = "") -> int:
    """Run a kind of training (`what`) as a TOML file says, and print its result.

    Continues where the same command was stopped or killed. The run's folder is `out` or the one
    that the file names; curves are drawn there. Of several processes that share the work, only the
    main one prints. Returns the exit code. Raises CommandError (EXIT_STOPPED) where the stop switch
    of the run was used, and Failed for what is wrong with the file, the data or the model.
    """
    from safetensors import SafetensorError

    table = read_toml_table(config)
    folder = out or _get_run_folder(table, config)
    table.pop("out", None)
    _refuse_other_training(what, table, config)
    main = _is_main_process()
    err = StreamConsole(stderr=True)
    for place in (table.get("comparisons"), *(table.get("episodes") or ())):
        if isinstance(place, str) and main and (rows := describe_rows(Path(place))):
            err.print_note(sanitize_text(f"taken: {rows}"))
    with _TrainingProgress(err, folder, main) as progress:
        try:
            reached = _train(what, table, config, folder, progress.show_step, desk, main)
        except Failed as failed:
            if failed.failure.outcome != Outcome.STOPPED:
                raise
            raise CommandError(_describe_stop(failed.failure, folder), EXIT_STOPPED) from failed
        except SafetensorError as error:  # is no OSError, as it is where others write
            detail = (
                f"weights cannot be written ({error}): make room and run the same command again"
            )
            raise Failed(Failure(str(folder), Outcome.UNWRITABLE, detail)) from error
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            raise Failed(Failure(str(config), Outcome.BAD_CONFIG, MEMORY_ADVICE)) from error
    if main:
        _show_result(what, reached, folder, json)
    return EXIT_ANSWERED


MEMORY_ADVICE = (
    "memory ran out: lower `piece` first, which changes no result; then set recompute = true or a "
    "`lora` for the model, or let prompts and actions be shorter (`context`, `max_tokens`)"
)
"""what helps where a training needs more memory than there is"""
TRAINING_KEYS = {
    "episodes": "imitate",
    "comparisons": "prefer",
    "settings": "reinforce",
    "sources": "retrieve",
}
"""keys at the top of a file that only one kind of training has"""


def _refuse_other_training(what: str, table: Mapping[str, Any], config: Path) -> None:
    """Raise Failed (bad_config) for a file of another kind of training."""
    kinds = {kind: key for key, kind in TRAINING_KEYS.items() if key in table}
    if kinds and what not in kinds:
        kind, key = next(iter(kinds.items()))
        detail = f"its `{key}` is for rookery learn {kind}: run that, or name another --config FILE"
        raise Failed(Failure(str(config), Outcome.BAD_CONFIG, detail))


def _describe_stop(stopped: Failure, folder: Path) -> str:
    """Return a sentence on why a run stopped, and how to continue it."""
    cord = folder / "cord"
    first = (
        f"delete {cord} and"
        if cord.exists()
        else "let a second person release it at the desk, or bring the desk back, and"
    )
    return f"stopped: {sanitize_text(stopped.detail)}; to go on, {first} run the same command again"


class PolicyFigures(msgspec.Struct, frozen=True):
    """Figures of one policy in the episodes of an evaluation."""

    policy: str
    reward: Estimate
    """mean of an episode; intervals are over questions"""
    answered: Estimate
    """share of the episodes with an answer"""
    episodes: str
    """file of the Episodes, one a line, whose answers have their rewards as scores"""


class EvaluationReport(msgspec.Struct, frozen=True):
    """Figures of a policy in the environment of a file, beside the policy that the file trains."""

    asked: str
    start: PolicyFigures
    model: PolicyFigures
    gained: Estimate
    """reward of the model less that of the start, by question"""


def run_evaluation(config: Path, model: str, out: Path | None, json: bool) -> int:
    """Try a policy, and the one that a file of `learn reinforce` begins with, on the questions that
    the file holds out; print figures with intervals, and keep the episodes.

    They are kept in `out`, or the folder `evaluation` of the run that the file names. Returns the
    exit code. Raises Failed: bad_config, unwritable, and as the environment and the models do.
    """
    table = read_toml_table(config)
    folder = out or _get_run_folder(table, config) / "evaluation"
    table.pop("out", None)
    report = _evaluate_policies(parse_reinforce_file(table, config), config, model, folder)
    if json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return EXIT_ANSWERED
    start, learnt = report.start, report.model
    shares = [_format_estimate(each) for each in (start.answered, learnt.answered)]
    files = f"{start.episodes} {learnt.episodes}"
    print_lines(
        [
            f"on {report.asked}, {start.policy} -> {learnt.policy}, with 95 % intervals:",
            f"  reward    {_format_estimate(start.reward)} -> {_format_estimate(learnt.reward)}",
            f"  answered  {' -> '.join(shares)}",
            f"  gained    {_format_estimate(report.gained)}  reward, by question",
            f"episodes are kept; for another figure: rookery measure citations {files}",
        ]
    )
    return EXIT_ANSWERED


def _format_estimate(mean: Estimate) -> str:
    ends = "" if mean.low is None else f" ({mean.low:.3g} to {mean.high:.3g})"
    return f"{mean.value:.4g}{ends}"


def _evaluate_policies(
    config: "ReinforceFile", path: Path, model: str, folder: Path
) -> EvaluationReport:
    named = config.world
    if not named.reward:
        detail = (
            "[labels] teach reward models in a run: name one of them, RUN/rewards/.../model, as "
            "world.reward, and take [labels] out"
        )
        raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))
    with EvidenceSources(Settings(named.places, named.engine)) as sources:
        library, trials = sources.open_library(), []
        for policy in (config.settings.policy.model, model):
            trained = msgspec.structs.replace(config.settings.policy, model=policy)
            settings = msgspec.structs.replace(config.settings, policy=trained)
            worlds = _build_environments(
                msgspec.structs.replace(config, settings=settings), library
            )
            scores = load_reward(named.reward, worlds.example).score_answers
            trials.append(_measure_reward(config, worlds, policy, scores))
    turns = assign_questions(worlds.tried, named.group, range(named.tried), 0)
    questions = [question for question, _ in turns]
    start, learnt = (
        _describe_trial(trial, policy, questions, folder / f"{name}.jsonl")
        for trial, policy, name in zip(
            trials, (config.settings.policy.model, model), ("start", "model"), strict=True
        )
    )
    gains = [now.score - then.score for then, now in zip(*trials, strict=True)]
    return EvaluationReport(
        worlds.asked, start, learnt, estimate_mean(gains, questions, least=None)
    )


def _describe_trial(
    trial: Sequence[TriedEpisode], policy: str, questions: Sequence[int], file: Path
) -> PolicyFigures:
    """Return the figures of a trial, and write its episodes to a file."""
    lines = []
    for score, _, record in trial:
        if record is not None:
            answer = record.answer and msgspec.structs.replace(record.answer, score=score)
            episode = msgspec.structs.replace(record, by=policy, answer=answer)
            lines.append(episode.to_json().encode() + b"\n")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole_file(file, lines)
    except OSError as error:
        detail = f"it cannot be written ({error.strerror}): make room, or name another --out DIR"
        raise Failed(Failure(str(file), Outcome.UNWRITABLE, detail)) from error
    rewards = estimate_mean([one.score for one in trial], questions, least=None)
    answered = estimate_mean([float(one.is_answered) for one in trial], questions)
    return PolicyFigures(policy, rewards, answered, str(file))


def _get_run_folder(table: dict[str, Any], config: Path) -> Path:
    """Return the folder of the run that the file names."""
    said = table.get("out")
    if not isinstance(said, str) or not said:
        detail = 'say where the run is kept: a line out = "runs/first", or --out DIR'
        raise Failed(Failure(str(config), Outcome.BAD_CONFIG, detail))
    return Path(said)


def _show_result(what: str, reached: msgspec.Struct, folder: Path, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(reached).decode() + "\n")
        return
    print_lines(_format_summary(TRAINING_SUMMARIES[what], msgspec.to_builtins(reached)))
    print_lines([f"model: {folder / 'model'}; curves: {folder / 'run.html'}"])


def _format_summary(summary: TrainingSummary, reached: dict[str, Any]) -> Iterator[str]:
    yield summary.learnt.format_map(reached)
    before, learnt = reached.get("before") or {}, reached.get("reinforced") or {}
    after = reached.get("after") or reached.get("measured") or {}
    if after:
        yield f"on {summary.measured.format_map(reached)}, before -> after:"
        yield from _format_measures(summary.measures, before, after)
        if gains := reached.get("gains"):
            yield _format_gains(gains, summary.gains)
            yield from [_describe_gain(gains, learnt)] if learnt else []
    else:
        yield "nothing was held out, so nothing says how good it is"
    losses = [each.get("validation_loss", each.get("loss")) or 0.0 for each in (before, after)]
    if losses[1] > 0.99 * losses[0] > 0:
        yield "it learnt next to nothing: raise `rate` in [optimising], or `epochs`"
    if reached.get("left_out"):
        yield f"left out: {reached['left_out']}"
    if too_long := reached.get("too_long"):
        yield f"left out: {too_long} comparisons and ratings that are too long for the model"
    if labelled := reached.get("labelled"):
        yield from _format_labelled(labelled)
    if learnt.get("ended"):
        yield f"ended early: {learnt['ended']}"
    if learnt.get("validated") is not None:
        yield (
            f"kept: the policy after batch {learnt['best_step']}, with the highest reward on the "
            f"questions for validation: {learnt['validated']:.4g}"
        )
    yield from (f"look at this: {fault}" for fault in learnt.get("faults", ()))


def _format_labelled(reached: Mapping[str, Any]) -> Iterator[str]:
    yield f"people compared {reached['labels']} times; reward model: {reached['reward']}"
    if reached["better"] is not None:
        yield f"of the last times, they preferred it to its reference in {reached['better']:.0%}"


def _format_measures(
    measures: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a line for each measure that was taken."""
    for name, meaning in measures.items():
        values = [each[name] for each in (before, after) if each.get(name) is not None]
        if values:
            change = " -> ".join(f"{value:.4g}" for value in values)
            yield f"  {name:<16}{change:<20}  {meaning}"


def _format_gains(gains: Sequence[float], of: str) -> str:
    """Return a line with the mean gain and its interval, or why there is none."""
    mean = estimate_mean(gains, least=None)
    if mean.low is None:
        return f"  {'gained':<16}{mean.value:.4g} of {len(gains)}, too few or too alike to say more"
    ends = f"{mean.value:.4g} ({mean.low:.4g} to {mean.high:.4g})"
    return f"  {'gained':<16}{ends:<20}  {of}, with the 95 % interval"


def _describe_gain(gains: Sequence[float], learnt: Mapping[str, Any]) -> str:
    """Return a sentence on the gain of a policy: what the held-out judge says of it, or what to try
    where nothing was gained."""
    low, judged, kl = estimate_mean(gains, least=None).low, learnt["judged"], learnt["kl"]
    if low is None or low <= 0:
        advice = "it moved and is not better: try more episodes, a lower rate, or another reward"
        if kl < 1:
            advice = "it hardly moved: try more batches, a higher optimising.rate or a lower beta"
        return f"no gain can be told from chance, for a KL of {kl:.3g} nats; {advice}"
    says = "no held-out judge was named (world.judge): read samples before you believe it"
    if judged:
        view = "agrees" if judged[1] > judged[0] else "does not agree, which looks like hacking"
        says = f"the held-out judge {view}: {judged[0]:.3g} -> {judged[1]:.3g}"
    return f"the gain is beyond chance, for a KL of {kl:.3g} nats; {says}"


def _is_main_process() -> bool:
    """Return whether this is the process that prints, of several that share the work."""
    import torch
    from accelerate import PartialState

    # Several processes of a machine without an accelerator find each other only if told so.
    return bool(PartialState(cpu=not torch.accelerator.is_available()).is_main_process)


class _TrainingProgress:
    """A bar on standard error, and above it the page that shows more."""

    def __init__(self, err: Console, folder: Path, main: bool) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[measured]}"),
        )
        self._bar = NarrowProgress(*columns, console=err, disable=not (main and err.is_interactive))
        self._task = self._bar.add_task("reading", total=None, measured="")
        self._page = folder / "run.html"

    def show_step(self, step: int, count: int, measured: dict[str, float]) -> None:
        """Show what was measured."""
        first = list(measured.items())[:3]  # the page has all
        words = "  ".join(f"{name} {value:.3g}" for name, value in first)
        self._bar.update(
            self._task, description="learning", completed=step, total=count, measured=words
        )

    def __enter__(self) -> "_TrainingProgress":
        self._bar.start()
        if not self._bar.disable:
            self._bar.console.print(f"curves and samples while it runs: {self._page}", markup=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.live.transient = self._bar.tasks[0].total is None
        self._bar.stop()


def _train(
    what: str,
    table: dict[str, Any],
    config: Path,
    out: Path,
    observer: StepCallback,
    desk: str,
    main: bool,
) -> msgspec.Struct:
    """Train as the table of a file says; return the result, which depends on the kind."""
    match what:
        case "imitate":
            return _run_imitation(table, config, out, observer)
        case "prefer":
            reward = parse_settings(table, RewardTrainingSettings, config, also=("out",))
            return train_reward_model(reward, out, observer)
        case "retrieve":
            retriever = parse_settings(table, RetrievalTrainingSettings, config, also=("out",))
            return train_retriever(retriever, out, observer)
        case _:
            return run_reinforcement(table, config, out, observer, desk, main)


def _run_imitation(
    table: dict[str, Any], config: Path, out: Path, observer: StepCallback
) -> msgspec.Struct:
    """Train by imitation, with the environment of the table [world] if there is one."""
    world, environment, trained = table.pop("world", None), None, None
    settings = parse_settings(table, ImitationSettings, config, also=("out", "world"))
    with ExitStack() as stack:
        if world is not None:
            named = parse_settings(world, EnvironmentSettings, config, ("world",))
            sampling = msgspec.structs.replace(settings.sampling, chat=settings.chat)
            trained = _describe_policy(named, sampling)
            if settings.best == "reward":
                model, tokens = settings.trained.model, settings.sampling.token_limit
                opened = open_reward_environment(world, config, model, tokens)
                environment = stack.enter_context(opened)
        result = train_by_imitation(settings, out, observer, environment)
    source = Path(settings.episodes[0])
    rows = describe_rows(source)
    episodes = read_demonstration_rows(source, "") if rows else read_rows(source, Episode)
    prompts = (step.prompt for episode in episodes for step in episode.steps)
    if trained is None and (kind := find_prompt_kind(next(prompts, ""))):
        trained = TrainedPolicy(kind, LocalModelSettings(chat=settings.chat))
    if trained is not None:
        _store_policy(result.model, trained)
    return result


def _describe_policy(world: "EnvironmentSettings", sampling: SamplingSettings) -> TrainedPolicy:
    settings = {name: getattr(sampling, name) for name in COMPLETION_FIELDS}
    return TrainedPolicy(
        world.kind,
        LocalModelSettings(**settings),
        world.constrained,
        world.browser.rules,
        world.quotes,
        world.references,
    )


def _store_policy(model: str, trained: TrainedPolicy) -> None:
    """Write what a policy was trained with beside its weights, for `rookery ask --model`."""
    if _is_main_process():
        (Path(model) / POLICY_FILE).write_bytes(msgspec.json.encode(trained) + b"\n")


MOST_ANSWERS = 4
"""answers that people compare at once"""
PAPER_SETTINGS = {
    "ppo": make_ppo_settings,
    "webgpt": make_webgpt_settings,
    "a2c": make_a2c_settings,
    "rloo": make_rloo_settings,
}


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Questions, places and reward of the environment that a policy learns in."""

    kind: Literal["browser", "quotes", "references"]
    """the text browser (WebGPT), one page a prompt (GopherCite), or five passages (WebGLM)"""
    questions: str
    """a file of questions, as `library.question_files.read_questions` reads it"""
    places: tuple[str, ...] = msgspec.field(default=(), name="in")
    """as `--in` of `rookery ask` names them; none: the web"""
    engine: str = "wikipedia"
    """search engine of the web, where no place is named"""
    reward: str = ""
    """the folder of a reward model, or python:package.module.function; empty: it is learnt from
    labels"""
    judge: str = ""
    """a second reward, learnt from other data, which is only looked at: where it falls while the
    reward rises (settings.patience), training ends, and the policy from before is written. It needs
    settings.check; empty: none"""
    group: int = 1
    """episodes of one question in a row; 2 or more for rloo"""
    held_out: float = 0.1
    """share of the questions on which the policy is tried before and after, and not trained"""
    validation: float = 0.1
    """with settings.check, share of the other questions by whose reward the policy that is written
    is chosen, and which are not learnt from either"""
    tried: int = 64
    """episodes of a trial before and after the training"""
    constrained: bool = False
    """whether actions in the browser are held to its commands (`learn.action_constraints`)"""
    browser: BrowserEnvironmentSettings = BrowserEnvironmentSettings()
    quotes: GopherCiteSettings = GopherCiteSettings()
    references: WebglmSettings = WebglmSettings()

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1 or min(self.group, self.tried) < 1:
            raise ValueError("held_out is a share below 1; group and tried are 1 or more")
        if not 0 < self.validation < 1:
            raise ValueError(
                "validation is a share between 0 and 1; without settings.check it is 0"
            )
        if self.browser.group not in (1, self.group):
            raise ValueError("`group` does not belong in [world.browser]: write it in [world]")
        if self.constrained and self.kind != "browser":
            raise ValueError(
                'constrained goes with kind = "browser": quotes are held to their page anyway, and '
                "references are not held to anything"
            )


class ReinforceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file for `rookery learn reinforce`, but for where the run is kept."""

    paper: Literal["ppo", "webgpt", "a2c", "rloo"] = "ppo"
    """whose settings count where the file says nothing"""
    world: EnvironmentSettings
    settings: ReinforcementSettings
    """what the file does not say is as in the paper"""
    labels: dict[str, Any] | None = None
    """labels that people give meanwhile: OnlineLabellingSettings but for `reinforce` and `group`;
    None: there is a reward model"""
    desk: dict[str, Any] | None = None
    """how the desk is asked: HumanFeedbackSettings; None: those that they begin with"""

    def __post_init__(self) -> None:
        if bool(self.world.reward) == (self.labels is not None):
            raise ValueError(
                "give either world.reward, or [labels], from which a reward model is learnt "
                "meanwhile"
            )
        if self.settings.advantage == "rloo" and self.world.group < 2:
            raise ValueError(
                'advantage = "rloo" (paper = "rloo") compares the episodes of a question with one '
                "another: set group = 4, or any number from 2 on, in [world]"
            )
        if self.world.judge and not self.settings.check:
            raise ValueError("world.judge judges at validations: set settings.check, such as to 5")
        if self.settings.check and self.labels is not None:
            raise ValueError(
                "with [labels] the reward is another after each training, so that no policy can be "
                "chosen by it: leave settings.check out"
            )


class ReinforceReport(msgspec.Struct, frozen=True):
    """The result of a run, and the policy's reward in trials before and after."""

    reinforced: ReinforcementResult
    asked: str
    """in that trial"""
    before: dict[str, float]
    """`reward`, the mean of its episodes, and the share that was `answered`"""
    after: dict[str, float]
    gains: list[float]
    """reward after less before, the mean of each question's episodes"""
    labelled: OnlineLabellingResult | None = None
    """what came of asking people; None: there was a reward model, which says what was earned"""


class _Environments(NamedTuple):
    """Builders of the environments for training and for trials."""

    kept: EnvironmentFactory
    trial: EnvironmentFactory
    asked: str
    """in the trial"""
    tried: int
    """questions in the trial"""
    validation: EnvironmentFactory | None
    """None without settings.check"""
    example: Question | None
    """a question by which an own reward is tried before anything is trained"""


def run_reinforcement(
    table: dict[str, Any],
    path: Path,
    out: Path,
    observer: StepCallback,
    desk: str = "",
    main: bool = True,
) -> ReinforceReport:
    """Train a policy as the table of a TOML file says; measure its reward before and after.

    `path` names that file in messages, `out` is the run's folder. At the desk of the store `desk`
    people compare samples and may stop the run; without one, a reward model decides. Raises Failed:
    bad_config, stopped where the stop switch was used, and as training does.
    """
    config = parse_reinforce_file(table, path)
    labels = _read_label_settings(config, path)
    named = config.world
    with (
        _open_labeller(config, desk, path, out, observer, main) as labeller,
        EvidenceSources(Settings(named.places, named.engine)) as sources,
    ):
        worlds = _build_environments(config, sources.open_library())
        tell = labeller.report_steps(observer) if labeller else observer
        if labels and labeller:
            report = _train_by_labels(config, labels, worlds, labeller, out, tell)
        else:
            cord = labeller.find_stop_reason if labeller else str
            report = _train_by_reward(config, worlds, out, tell, cord)
    _store_policy(report.reinforced.model, _describe_policy(named, config.settings.sampling))
    return report


def parse_reinforce_file(table: dict[str, Any], path: Path) -> ReinforceFile:
    """Convert the table of a TOML file, on top of the paper's settings that it names.

    `path` names that file in messages. Raises Failed (bad_config).
    """
    return parse_settings(_add_paper_settings(table), ReinforceFile, path, also=("out",))


@contextmanager
def open_reward_environment(
    table: Any, path: Path, model: str, tokens: int
) -> Iterator[RolloutEnvironment]:
    """Open the environment of a table [world], in which imitation is validated by its reward.

    All questions are for that, whatever the table holds out. `path` names the file in messages;
    `model` is the policy's folder, which says at most so many tokens at once. Raises Failed:
    bad_config, and as its parts do.
    """
    named = parse_settings(table, EnvironmentSettings, path, ("world",))
    if not named.reward:
        detail = "name a reward in world.reward: it says which policy is the best"
        raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))
    with EvidenceSources(Settings(named.places, named.engine)) as sources:
        questions = list(read_questions(Path(named.questions)))
        scores = load_reward(named.reward, next(iter(questions), None)).score_answers
        speech = load_policy_tokenizer(Path(model), tokens)
        library = sources.open_library()
        yield _build_environment(named, questions, library, scores, named.group, speech)


def _train_by_reward(
    config: ReinforceFile, worlds: _Environments, out: Path, observer: StepCallback, cord: StopCheck
) -> ReinforceReport:
    settings = config.settings
    scores = load_reward(config.world.reward, worlds.example).score_answers
    before = _measure_reward(config, worlds, settings.policy.model, scores)
    group = config.world.group
    judge, trial = config.world.judge, worlds.validation
    validation = trial(scores, group) if trial else None
    judged = None
    if trial and judge:
        judged = trial(load_reward(judge, worlds.example).score_answers, group)
    result = train_by_reinforcement(
        settings, worlds.kept(scores, group), out, observer, (), cord, validation, judged
    )
    after = _measure_reward(config, worlds, result.model, scores)
    return _report_trials(config, worlds, result, before, after)


def _train_by_labels(
    config: ReinforceFile,
    labels: OnlineLabellingSettings,
    worlds: _Environments,
    desk: "HumanFeedback",
    out: Path,
    observer: StepCallback,
) -> ReinforceReport:
    """Return the last of its reward models says what was earned, before as after."""
    result = train_with_online_labels(
        labels, worlds.kept, desk, out, observer, desk.find_stop_reason
    )
    scores, learnt = load_reward(result.reward).score_answers, result.reinforced
    before, after = (
        _measure_reward(config, worlds, model, scores)
        for model in (config.settings.policy.model, learnt.model)
    )
    return _report_trials(config, worlds, learnt, before, after, result)


def _report_trials(
    config: ReinforceFile,
    worlds: _Environments,
    learnt: ReinforcementResult,
    before: Sequence[TriedEpisode],
    after: Sequence[TriedEpisode],
    labelled: OnlineLabellingResult | None = None,
) -> ReinforceReport:
    """Make the report of a run; gains are of the same question, asked before and after."""
    group, gains = config.world.group, defaultdict[int, list[float]](list)
    turns = assign_questions(worlds.tried, group, range(len(before)), 0)
    for (question, _), then, now in zip(turns, before, after, strict=True):
        gains[question].append(now.score - then.score)
    return ReinforceReport(
        learnt,
        worlds.asked,
        average_trial(before),
        average_trial(after),
        list(map(fmean, gains.values())),
        labelled,
    )


def _measure_reward(
    config: ReinforceFile, worlds: _Environments, policy: str, scores: BatchRewardFunction
) -> list[TriedEpisode]:
    settings, named = config.settings, config.world
    world = worlds.trial(scores, named.group)
    loaded = load_sampled_model(Path(policy), settings.sampling)
    failing = settings.no_answer, settings.bad_syntax
    return try_policy(loaded.model, loaded.ends, world, named.tried, settings.sampling, *failing)


def _read_label_settings(config: ReinforceFile, path: Path) -> OnlineLabellingSettings | None:
    """Return the settings of labels, with those elsewhere in the file that belong to them; None
    without a table."""
    if config.labels is None:
        return None
    for name, place in {"reinforce": "[settings]", "group": "[world]"}.items():
        if name in config.labels:
            detail = f"`{name}` does not belong in [labels]: write it in {place}"
            raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))
    table = merge_tables({"prefer": {"comparisons": ""}}, config.labels)
    table |= {"reinforce": msgspec.to_builtins(config.settings), "group": config.world.group}
    labels = parse_settings(table, OnlineLabellingSettings, path, ("labels",))
    if labels.answers > MOST_ANSWERS:
        detail = f"people compare 2, 3 or {MOST_ANSWERS} answers: lower labels.answers"
        raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))
    return labels


@contextmanager
def _open_labeller(
    config: ReinforceFile, store: str, path: Path, out: Path, observer: StepCallback, main: bool
) -> Iterator["HumanFeedback | None"]:
    """Open the labeller for as long as the run goes on; None without a desk."""
    if not store:
        if config.labels is not None or config.desk is not None:
            detail = "[labels] and [desk] are for a run at a desk: name its store, --desk STORE"
            raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))
        yield None
        return
    try:
        from rookery.desk.human_feedback import HumanFeedback, HumanFeedbackSettings
        from rookery.desk.store import Store
    except ModuleNotFoundError as error:
        detail = f"a desk needs {error.name}: pip install 'rookery[serve]'"
        raise Failed(Failure("--desk", Outcome.NO_DESK, detail)) from error

    def show_waiting(count: int) -> None:
        observer(desk.step, config.settings.steps, {"waiting": float(count)})

    settings = parse_settings(config.desk or {}, HumanFeedbackSettings, path, ("desk",))
    with Store(store) as opened, HumanFeedback(opened, out, settings, main, show_waiting) as desk:
        yield desk


def _build_environments(config: ReinforceFile, library: Library) -> _Environments:
    named, settings = config.world, config.settings
    speech = load_policy_tokenizer(
        Path(settings.policy.model), settings.sampling.max_tokens, settings.sampling.chat
    )
    questions = list(read_questions(Path(named.questions)))
    training, held_out = _split_questions(questions, named.held_out, settings.seed)
    validation: list[Question] = []
    if settings.check:
        training, validation = _split_questions(training, named.validation, settings.seed + 1)
        if not validation:
            detail = "there are too few questions for settings.check: name more, or leave it out"
            raise Failed(Failure(named.questions, Outcome.FEW_QUESTIONS, detail))

    def make_environment(some: list[Question], served: bool = False) -> EnvironmentFactory:
        return lambda scores, group: _build_environment(
            named, some, library, scores, group, speech, served
        )

    tested = f"the {len(training)} questions that it learnt from"
    if held_out:
        tested = f"{len(held_out)} questions that were held out"
    return _Environments(
        make_environment(training, bool(settings.servers)),
        make_environment(held_out or training),
        tested,
        len(held_out or training),
        make_environment(validation, bool(settings.servers)) if validation else None,
        next(iter(questions), None),
    )


def _split_questions(
    questions: list[Question], share: float, seed: int
) -> tuple[list[Question], list[Question]]:
    """Return those that are trained on, and those that are not: none, or at least one of each."""
    most = len(questions) - 1
    size = min(max(round(share * len(questions)), 1), most) if share and questions else 0
    chosen = set(Random(f"{seed} held out").sample(range(len(questions)), size))
    return (
        [one for number, one in enumerate(questions) if number not in chosen],
        [one for number, one in enumerate(questions) if number in chosen],
    )


def _add_paper_settings(table: dict[str, Any]) -> dict[str, Any]:
    """Return the file's settings on top of those of the paper it names. An unknown paper is left
    for `parse_settings` to report."""
    recipe = PAPER_SETTINGS.get(str(table.get("paper", "ppo")), make_ppo_settings)
    below = msgspec.to_builtins(recipe(policy=TrainedModelSettings(""), steps=1))
    del below["policy"], below["steps"]
    said = table.get("settings")
    return table | {"settings": merge_tables(below, said)} if isinstance(said, dict) else table


def _build_environment(
    settings: EnvironmentSettings,
    questions: list[Question],
    library: Library,
    scores: BatchRewardFunction,
    group: int,
    speech: PolicyTokenizer,
    served: bool = False,
) -> RolloutEnvironment:
    if settings.kind == "browser":
        browsing = msgspec.structs.replace(settings.browser, group=group)
        world = BrowserEnvironment(questions, library, scores, speech, browsing)
        if not settings.constrained:
            return world
        constrain = constrain_commands_on_server if served else allow_commands
        return ConstrainedEnvironment(world, speech, constrain(speech))
    if settings.kind == "quotes":
        return make_quote_environment(
            questions, library, scores, speech, settings.quotes, group=group, served=served
        )
    return make_reference_environment(
        questions, library, scores, speech, settings.references, group=group
    )
