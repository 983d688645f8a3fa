"""The answering methods: the one place where a method is registered.

The command line, the web pages, the HTTP API and MCP read `METHODS`. Each method imports its own
code when it runs, so that `extract` loads no model client.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from rookery.draft.completion_settings import WRITING_SETTINGS, LocalModelSettings
from rookery.errors import Failed, Outcome
from rookery.records import Episode, Failure, Library, Question
from rookery.serve.settings import WORDS, Settings

if TYPE_CHECKING:
    from rookery.cite.evidence_model import EvidenceJudge
    from rookery.cite.passage_ranking import PassageRanker, RankingObserver, Similarity
    from rookery.draft.best_of_n import BestOfNSettings
    from rookery.draft.constrained_decoding import ConstrainerChoice
    from rookery.draft.library_calibration import LibraryCalibration
    from rookery.draft.remote_model import LanguageModel


class MethodResources(NamedTuple):
    """The opened resources that a method may use to answer one question."""

    settings: Settings
    library: Library
    open_similarity: "Callable[[], Similarity | None]"
    """load the trained sentence encoder; None where the settings name none"""
    open_evidence_judge: "Callable[[], EvidenceJudge | None]"
    """load the evidence model; None where the settings name none"""
    open_model: "Callable[[str], LanguageModel] | None"
    """open the model of a role, "browse" or "write"; None where no model is set"""
    is_writer_local: Callable[[], bool]
    """return True if the model that writes is on this machine, and so a small one"""
    hold_to_quotes: "Callable[[LanguageModel], ConstrainerChoice]"
    """constrain a model to write its quotes verbatim, as far as its server can"""
    configure_sampling: "Callable[[], BestOfNSettings]"
    """settings of choosing among samples"""
    observe_ranking: "RankingObserver"
    """callback that receives ranked passages"""
    observe_command: Callable[[str], None]
    """callback that receives each command that a model gives the text browser"""
    read_library_calibration: "Callable[[], LibraryCalibration | None]"
    """read the calibration of the evidence model on the library; None where none is stored"""


class AnswerMethod(NamedTuple):
    """One way to answer a question."""

    name: str
    """on the command line, in the API, and in `Episode.by`"""
    title: str
    """short label in the web pages"""
    summary: str
    """one or two sentences that help a reader to choose"""
    run: Callable[[MethodResources, Question], Episode]
    model: Literal["unused", "optional", "required"] = "required"
    """the part that a language model has in it"""
    samples: int = 1
    """answers that are sampled, of which the best is taken, where the settings give no number"""
    local: LocalModelSettings = LocalModelSettings()
    """settings of a model on this machine, where no table of --endpoints gives others"""
    has_own_flag: bool = False
    """chosen by a flag of its own on the command line, not by --method"""


def _open_role(resources: MethodResources, role: str) -> "LanguageModel":
    if resources.open_model is None:
        detail = "this method needs a language model: set Settings.models"
        raise Failed(Failure(resources.settings.method, Outcome.NO_MODEL, detail))
    return resources.open_model(role)


def _choose_ranker(resources: MethodResources) -> "PassageRanker":
    """Return the ranking by the evidence model, else by the sentence encoder, else by words."""
    from rookery.cite.evidence_ranking import rank_by_evidence
    from rookery.cite.passage_ranking import rank_passages

    if judge := resources.open_evidence_judge():
        return partial(rank_by_evidence, judge=judge)
    if similarity := resources.open_similarity():
        return partial(rank_passages, similarity=similarity)
    return rank_passages


def _run_extract(resources: MethodResources, question: Question) -> Episode:
    from rookery.draft.extract import ExtractSettings, answer_by_extraction

    settings, options = resources.settings, ExtractSettings()
    if settings.decline is not None:
        options = msgspec.structs.replace(options, decline=settings.decline)
    if settings.quotes is not None:
        options = msgspec.structs.replace(options, quotes=settings.quotes)
    if judge := resources.open_evidence_judge():
        return _answer_by_evidence(resources, question, judge)
    similarity = resources.open_similarity()
    return answer_by_extraction(
        question, resources.library, similarity, options, resources.observe_ranking
    )


def _answer_by_evidence(
    resources: MethodResources, question: Question, judge: "EvidenceJudge"
) -> Episode:
    from rookery.draft.evidence_answers import EvidenceSettings, answer_by_evidence

    settings, options = resources.settings, EvidenceSettings()
    calibration = resources.read_library_calibration()
    if settings.decline is not None:
        limit = (
            settings.decline if calibration is None else calibration.find_score(settings.decline)
        )
        options = msgspec.structs.replace(options, decline=limit)
    if calibration is not None:
        options = msgspec.structs.replace(options, calibrate=calibration.calibrate_probability)
    if settings.quotes is not None:
        options = msgspec.structs.replace(options, quotes=settings.quotes)
    episode = answer_by_evidence(
        question, resources.library, judge, options, resources.observe_ranking
    )
    if calibration is None or episode.answer is None or episode.answer.score is None:
        return episode
    answer = msgspec.structs.replace(episode.answer, calibrated=True)
    return msgspec.structs.replace(episode, answer=answer)


def _run_both_sides(resources: MethodResources, question: Question) -> Episode:
    from rookery.draft.both_sides import SidesSettings, answer_both_sides

    quotes = resources.settings.quotes
    options = SidesSettings() if quotes is None else SidesSettings(quotes=quotes)
    model = resources.open_model("write") if resources.open_model else None
    judge = None
    if model is None and names_evidence_model(resources.settings):
        judge = resources.open_evidence_judge()
    observe = resources.observe_ranking
    return answer_both_sides(question, resources.library, model, judge, options, observe)


def names_evidence_model(settings: Settings) -> bool:
    """Return True if the settings name a ranker, which may judge both sides of a claim.

    The bundled model tells refutation too badly (docs/LOG.md): it judges only if it is named.
    """
    return settings.ranker not in ("", WORDS)


def _run_webgpt(resources: MethodResources, question: Question) -> Episode:
    from rookery.browse.browser_commands import BrowserRules
    from rookery.draft.webgpt import WebgptSettings, answer_with_webgpt

    browser, writer = (_open_role(resources, r) for r in ("browse", "write"))
    options = WebgptSettings(BrowserRules(quotes=resources.settings.quotes or 0))
    sampling, observe = resources.configure_sampling(), resources.observe_command
    library, judge = resources.library, _open_claim_judge(resources)
    return answer_with_webgpt(question, library, browser, writer, sampling, options, observe, judge)


def _run_gophercite(resources: MethodResources, question: Question) -> Episode:
    from rookery.draft.best_of_n import make_failed_episode
    from rookery.draft.gophercite import GopherCiteSettings, answer_with_gophercite

    model = _open_role(resources, "write")
    sampling, rank = resources.configure_sampling(), _choose_ranker(resources)
    try:
        hold, failure = resources.hold_to_quotes(model)
    except Failed as error:
        return make_failed_episode(question, "gophercite", error)
    options = GopherCiteSettings(quotes=resources.settings.quotes or 0)
    observe, library = resources.observe_ranking, resources.library
    judge = _open_claim_judge(resources)
    episode = answer_with_gophercite(
        question, library, model, rank, sampling, options, hold, observe, judge
    )
    return msgspec.structs.replace(episode, failures=(*episode.failures, *filter(None, [failure])))


def _open_claim_judge(resources: MethodResources) -> "EvidenceJudge | None":
    """Return the judge that takes out what no quote supports of the answers of a small model.

    It takes out right sentences, too (docs/LOG.md), of which larger models, which are on servers,
    write more than it would save.
    """
    if resources.open_model is not None and resources.is_writer_local():
        return resources.open_evidence_judge()
    return None


def _run_webglm(resources: MethodResources, question: Question) -> Episode:
    from rookery.draft.webglm import WebglmSettings, answer_with_webglm

    if resources.open_model is not None and resources.is_writer_local():
        return _write_by_small_model(resources, question)
    quotes, model = resources.settings.quotes, _open_role(resources, "write")
    options = WebglmSettings() if quotes is None else WebglmSettings(references=quotes)
    rank, sampling = _choose_ranker(resources), resources.configure_sampling()
    observe, library = resources.observe_ranking, resources.library
    return answer_with_webglm(question, library, model, rank, sampling, options, observe)


def _write_by_small_model(resources: MethodResources, question: Question) -> Episode:
    """Have a model on this machine put into words what `extract` answers."""
    from rookery.draft.written_answers import put_into_words

    found = _run_extract(resources, question)
    if found.stop != "end":
        return found  # and the model need not be loaded
    model, sampling = _open_role(resources, "write"), resources.configure_sampling()
    return put_into_words(found, model, resources.open_evidence_judge(), sampling)


METHODS = {
    method.name: method
    for method in (
        AnswerMethod(
            "extract",
            "Quotes",
            "The sentences that answer best, word for word. Quick, without a model.",
            _run_extract,
            model="unused",
        ),
        AnswerMethod(
            "sides",
            "For and against",
            "What speaks for a claim and what against it, side by side.",
            _run_both_sides,
            model="optional",
            has_own_flag=True,
        ),
        AnswerMethod(
            "webgpt",
            "Browse",
            "A model reads like a person: it searches, opens pages, quotes.",
            _run_webgpt,
        ),
        AnswerMethod(
            "gophercite",
            "Quote first",
            "A model answers and quotes what supports it, held to the page.",
            _run_gophercite,
            samples=8,
        ),
        AnswerMethod(
            "webglm",
            "Write",
            "A model writes a text, each sentence resting on numbered quotes.",
            _run_webglm,
            local=WRITING_SETTINGS,
        ),
    )
}
"""every answering method by its name, in the order in which they are offered"""


MODEL_METHODS = tuple(name for name, method in METHODS.items() if method.model == "required")
"""names of the methods that need a language model"""
NAMED_METHODS = tuple(name for name, method in METHODS.items() if not method.has_own_flag)
"""names that --method takes"""


def get_method(name: str) -> AnswerMethod:
    """Return the method of this name. Raises Failed: unknown_method."""
    if name not in METHODS:
        detail = f"there is no such method: use one of {', '.join(METHODS)}"
        raise Failed(Failure(name[:80], Outcome.UNKNOWN_METHOD, detail))
    return METHODS[name]
