"""The answering methods: the one place where a method is registered.

The command line, the web pages, the HTTP API and MCP read `METHODS`. Each method imports its own
code when it runs, so that `extract` loads no model client.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.python_objects import PYTHON_PREFIX
from rookery.records import Episode, Failure, Library, Question
from rookery.settings import (
    SCRIPT,
    WORDS,
    WRITING_SETTINGS,
    LocalModelSettings,
    ModelSettings,
    Settings,
    is_local_model,
)

if TYPE_CHECKING:
    from rookery.answers.answer_session import AnswerSession
    from rookery.answers.best_of_n import BestOfNSettings
    from rookery.answers.evidence_answers import EvidenceSettings
    from rookery.answers.model_pool import QuestionRecording
    from rookery.evidence.evidence_model import EvidenceJudge
    from rookery.evidence.passage_ranking import PassageRanker, RankingObserver
    from rookery.models.remote_model import LanguageModel


def _do_nothing(*_: object) -> None:
    pass


class AnswerCallbacks(NamedTuple):
    """Functions that are called while one question is answered; all of them are optional."""

    observe_command: Callable[[str], None] = _do_nothing
    """receives each command that a model gives the text browser"""
    observe_text: Callable[[str], None] | None = None
    """receives the text that a model writes, as far as it has come"""
    observe_ranking: "RankingObserver" = _do_nothing
    """receives ranked passages"""
    wrap_library: Callable[[Library], Library] = lambda library: library
    """receives the library of the question and returns the one that is used in its place"""


NO_CALLBACKS = AnswerCallbacks()


class QuestionRun(NamedTuple):
    """One question, and what a method answers it with."""

    session: "AnswerSession"
    question: Question
    library: Library
    callbacks: AnswerCallbacks = NO_CALLBACKS
    recording: "QuestionRecording | None" = None
    """of the models; None where no model is set"""

    def open_model(self, role: str, observed: bool = True) -> "LanguageModel":
        """Return the model of a role, "browse" or "write". Raises Failed: no_model.

        If it is `observed`, `callbacks.observe_text` receives what it writes.
        """
        if self.recording is None:
            detail = "this method needs a language model: set Settings.models"
            raise Failed(Failure(self.session.settings.method, Outcome.NO_MODEL, detail))
        return self.recording.open_model(role, observed)

    def is_writer_local(self) -> bool:
        """Return True if the model that writes is on this machine, and so a small one."""
        return self.recording is not None and self.session.is_writer_local()

    def is_writer_chat(self) -> bool:
        """Return True if the model that writes is a chat model on a server."""
        return self.recording is not None and self.session.open_models().uses_chat("write")


class AnswerMethod(NamedTuple):
    """One way to answer a question."""

    name: str
    """on the command line, in the API, and in `Episode.by`"""
    title: str
    """short label in the web pages"""
    summary: str
    """one or two sentences that help a reader to choose"""
    run: Callable[[QuestionRun], Episode]
    model: Literal["unused", "optional", "required"] = "required"
    """the part that a language model has in it"""
    samples: int = 1
    """answers that are sampled, of which the best is taken, where the settings give no number"""
    local: LocalModelSettings = LocalModelSettings()
    """settings of a model on this machine, where no table of --endpoints gives others"""
    has_own_flag: bool = False
    """chosen by a flag of its own on the command line, not by --method"""


def _choose_ranker(run: QuestionRun) -> "PassageRanker":
    """Return the ranking by the evidence model, else by the sentence encoder, else by words."""
    from rookery.evidence.passage_ranking import rank_by_evidence, rank_passages

    if run.session.find_trained_policy():
        return rank_passages  # as in its environment
    if judge := run.session.sources.load_evidence_judge():
        return partial(rank_by_evidence, judge=judge)
    if similarity := run.session.sources.load_similarity():
        return partial(rank_passages, similarity=similarity)
    return rank_passages


def _run_extract(run: QuestionRun) -> Episode:
    if judge := run.session.sources.load_evidence_judge():
        from rookery.answers.evidence_answers import answer_by_evidence

        options = _configure_evidence(run.session)
        observe = run.callbacks.observe_ranking
        return answer_by_evidence(run.question, run.library, judge, options, observe)
    from rookery.answers.extract import ExtractSettings, answer_by_extraction

    settings = run.session.settings
    by_words = ExtractSettings(**_drop_unset(decline=settings.decline, quotes=settings.quotes))
    similarity, observe = run.session.sources.load_similarity(), run.callbacks.observe_ranking
    return answer_by_extraction(run.question, run.library, similarity, by_words, observe)


def _configure_evidence(session: "AnswerSession") -> "EvidenceSettings":
    from rookery.answers.evidence_answers import EvidenceSettings

    settings, calibration = session.settings, session.sources.read_library_calibration()
    options = _drop_unset(quotes=settings.quotes)
    if calibration is not None:
        options |= {"calibrate": calibration.calibrate_probability, "calibrated": True}
    if (limit := settings.decline) is not None:
        limit = limit if calibration is None else calibration.find_score(limit)
        options |= {"certain": limit, "decline": limit}
    return EvidenceSettings(**options)


def _drop_unset(**options: Any) -> dict[str, Any]:
    """Return the options that are set: the others have the defaults of what they are given to."""
    return {name: value for name, value in options.items() if value is not None}


def _run_both_sides(run: QuestionRun) -> Episode:
    from rookery.answers.both_sides import SidesSettings, answer_both_sides

    quotes, chat = run.session.settings.quotes, run.is_writer_chat()
    options = SidesSettings(**_drop_unset(quotes=quotes, chat=chat))
    model = run.open_model("write") if run.recording else None
    judge = None
    if model is None and names_evidence_model(run.session.settings):
        judge = run.session.sources.load_evidence_judge()
    observe = run.callbacks.observe_ranking
    return answer_both_sides(run.question, run.library, model, judge, options, observe)


def names_evidence_model(settings: Settings) -> bool:
    """Return True if the settings name a ranker, which may judge both sides of a claim.

    The bundled model tells refutation too badly (docs/LOG.md): it judges only if it is named.
    """
    return settings.ranker not in ("", WORDS)


def _configure_sampling(run: QuestionRun) -> "BestOfNSettings":
    """Return the settings of sampling; a chat model chooses among its samples by itself."""
    sampling = run.session.configure_sampling(run.question)
    if not run.session.is_chooser_chat():
        return sampling
    from rookery.answers.chat_answers import choose_by_votes

    choose = partial(choose_by_votes, run.open_model("write", observed=False))
    return msgspec.structs.replace(sampling, choose=choose)


def _run_webgpt(run: QuestionRun) -> Episode:
    from rookery.answers.webgpt import answer_with_webgpt
    from rookery.browser.browser_commands import BrowserRules, make_chat_rules

    browser, writer = (run.open_model(r) for r in ("browse", "write"))
    rules, judge = BrowserRules(quotes=run.session.settings.quotes or 0), _open_claim_judge(run)
    sampling, observe = _configure_sampling(run), run.callbacks.observe_command
    if chat := run.is_writer_chat() and run.session.open_models().uses_chat("browse"):
        judge = run.session.sources.load_evidence_judge()
        rules = make_chat_rules(rules, run.session.settings.models.context_tokens or 8000)
    if trained := run.session.find_trained_policy():
        hold = run.session.open_models().hold_to_commands
        policy, rules = hold(browser) if trained.constrained else browser, trained.rules
        arguments = (run.question, run.library, policy, None, sampling, rules, observe)
        return answer_with_webgpt(*arguments, trained=True)
    return answer_with_webgpt(
        run.question, run.library, browser, writer, sampling, rules, observe, judge, chat
    )


def _run_gophercite(run: QuestionRun) -> Episode:
    from rookery.answers.best_of_n import make_failed_episode
    from rookery.answers.chat_answers import ChatSettings
    from rookery.answers.gophercite import GopherCiteSettings, answer_with_gophercite
    from rookery.quotes.citation_syntax import AnswerShape

    settings, models = run.session.settings, run.session.open_models()
    # A server that keeps to grammars is held to quotes while it writes.
    chat = run.is_writer_chat() and getattr(models.get_endpoint("write"), "grammars", "") == "none"
    model = run.open_model("write", observed=not chat)
    sampling, rank = _configure_sampling(run), _choose_ranker(run)
    window = None
    if chat:
        window = ChatSettings(**_drop_unset(context_tokens=settings.models.context_tokens))
        sampling = msgspec.structs.replace(sampling, samples=settings.models.samples or 1)
    try:
        trained = run.session.find_trained_policy()
        hold, failure = models.hold_to_quotes(model, *[AnswerShape()] * bool(trained))
    except Failed as error:
        return make_failed_episode(run.question, "gophercite", error)
    options = GopherCiteSettings(quotes=settings.quotes or 0, window=window)
    options = trained.quotes if trained else options
    observe, library = run.callbacks.observe_ranking, run.library
    judge, on_command = _open_claim_judge(run), run.callbacks.observe_command
    options_given = (rank, sampling, options, hold, observe, judge, on_command, bool(trained))
    episode = answer_with_gophercite(run.question, library, model, *options_given)
    return msgspec.structs.replace(episode, failures=(*episode.failures, *filter(None, [failure])))


def _open_claim_judge(run: QuestionRun) -> "EvidenceJudge | None":
    """Return the judge that takes out what no quote supports of the answers of a small model.

    Of a policy that was trained for these prompts nothing is taken out.

    It takes out right sentences, too (docs/LOG.md), of which larger models, which are on servers,
    write more than it would save.
    """
    if run.is_writer_local() and not run.session.find_trained_policy():
        return run.session.sources.load_evidence_judge()
    return None


def _run_webglm(run: QuestionRun) -> Episode:
    from rookery.answers.webglm import WebglmSettings, answer_with_webglm

    trained = run.session.find_trained_policy()
    if run.is_writer_local() and not trained:
        return _write_by_small_model(run)
    if run.is_writer_chat():
        return _write_by_chat(run)
    options = WebglmSettings(**_drop_unset(references=run.session.settings.quotes))
    options = trained.references if trained else options
    model = run.open_model("write")
    rank, sampling = _choose_ranker(run), _configure_sampling(run)
    observe, library = run.callbacks.observe_ranking, run.library
    return answer_with_webglm(run.question, library, model, rank, sampling, options, observe)


def _write_by_chat(run: QuestionRun) -> Episode:
    """Have a chat model search, and answer from the sections that it is shown."""
    from rookery.answers.chat_answers import ChatSettings, answer_by_chat

    settings, sources = run.session.settings, run.session.sources
    options = ChatSettings(
        **_drop_unset(references=settings.quotes, context_tokens=settings.models.context_tokens)
    )
    return answer_by_chat(
        run.question,
        run.library,
        run.open_model("write"),
        run.open_model("write", observed=False),
        _choose_ranker(run),
        _configure_sampling(run),
        options,
        run.callbacks.observe_ranking,
        run.callbacks.observe_command,
        sources.load_evidence_judge(),
    )


def _write_by_small_model(run: QuestionRun) -> Episode:
    """Have a model on this machine put into words what `extract` answers."""
    from rookery.answers.webglm import put_into_words

    found = _run_extract(run)
    if found.stop != "end":
        return found  # and the model need not be loaded
    model, sampling = run.open_model("write"), _configure_sampling(run)
    return put_into_words(found, model, run.session.sources.load_evidence_judge(), sampling)


def _list_methods() -> Iterator[AnswerMethod]:
    summary = "The sentences that answer best, word for word. Quick, without a model."
    yield AnswerMethod("extract", "Quotes", summary, _run_extract, "unused")
    summary, title = "What speaks for a claim and what against it, side by side.", "For and against"
    yield AnswerMethod("sides", title, summary, _run_both_sides, "optional", has_own_flag=True)
    summary = "A model reads like a person: it searches, opens pages, quotes."
    yield AnswerMethod("webgpt", "Browse", summary, _run_webgpt)
    summary = "A model answers and quotes what supports it, held to the page."
    yield AnswerMethod("gophercite", "Quote first", summary, _run_gophercite, samples=8)
    summary = "A model writes a text, each sentence resting on numbered quotes."
    yield AnswerMethod("webglm", "Write", summary, _run_webglm, local=WRITING_SETTINGS)


METHODS = {method.name: method for method in _list_methods()}
"""every answering method by its name, in the order in which they are offered"""
MODEL_METHODS = tuple(name for name, method in METHODS.items() if method.model == "required")
"""names of the methods that need a language model"""
NAMED_METHODS = tuple(name for name, method in METHODS.items() if not method.has_own_flag)
"""names that --method takes"""


def get_method_title(name: str) -> str:
    """Return the label of a method in the web pages; of one that is gone, its name."""
    return METHODS[name].title if name in METHODS else name


def choose_default_method(models: ModelSettings) -> str:
    """Return the name of the method where none is named: webglm for a model on a server and for an
    own policy, and for a policy that `rookery learn` trained the one whose prompts it knows."""
    if is_local_model(models):
        from rookery.answers.trained_policies import read_trained_policy
        from rookery.models.installed_models import locate_local_model

        with suppress(Failed):  # which is raised again where the model is opened
            if trained := read_trained_policy(locate_local_model(models.model)):
                return trained.method
    served = (models.base_url or models.endpoints) and not models.model.startswith(SCRIPT)
    served = served or models.model.startswith(PYTHON_PREFIX)
    return "webglm" if served and not is_local_model(models) else "extract"


def get_method(name: str) -> AnswerMethod:
    """Return the method of this name. Raises Failed: unknown_method."""
    if name not in METHODS:
        detail = f"there is no such method: use one of {', '.join(METHODS)}"
        raise Failed(Failure(name[:80], Outcome.UNKNOWN_METHOD, detail))
    return METHODS[name]
