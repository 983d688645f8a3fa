"""Answering sessions: everything between the settings and an answer, without a terminal.

The Python front door, the command line, the web pages, the HTTP API and MCP all answer through
`AnswerSession`. Nothing here prints; progress is reported to callbacks.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Self

import msgspec

from rookery.answers.follow_ups import join_questions, rewrite_by_model
from rookery.answers.methods import NO_CALLBACKS, AnswerCallbacks, QuestionRun, get_method
from rookery.errors import USER_ERROR_OUTCOMES, Failed, Outcome
from rookery.evidence.calibration import (
    Calibration,
    ScoreSource,
    find_decline_threshold,
    get_minimum_score,
    identify_score_source,
)
from rookery.evidence.claim_support import make_evidence_reward
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    ENCODER_FILE,
    MODEL_FILE,
    EvidenceJudge,
    EvidenceModel,
    is_dense_ranker,
    is_evidence_model,
    load_dense_ranker,
    load_evidence_model,
)
from rookery.evidence.passage_ranking import Similarity
from rookery.library.call_recording import WrappedLibrary
from rookery.library.folder_library import FolderLibrary, ProgressCallback
from rookery.library.libraries import (
    BUNDLED_PLACE,
    get_bundled_folder,
    is_url,
    list_skipped,
    open_places,
)
from rookery.library.page_archive import PageArchive
from rookery.library.sharded_library import ShardedLibrary
from rookery.library.site_library import SiteLibrary, SiteLimits
from rookery.library.stored_indexes import list_index_digests
from rookery.library.warc import WarcLibrary
from rookery.library.web_library import WebLibrary, WebSearch, make_web_search
from rookery.network.fetcher import Fetcher, build_user_agent
from rookery.pages.file_selection import SkippedGroup, count_skipped
from rookery.python_objects import OwnReward
from rookery.records import (
    BatchReward,
    Episode,
    Failure,
    Hit,
    Library,
    Page,
    Policy,
    Question,
    Quote,
    Reward,
)
from rookery.settings import (
    WORDS,
    Settings,
    get_cache_folder,
    get_data_folder,
    is_local_model,
    locate_archive,
)

if TYPE_CHECKING:
    from rookery.answers.best_of_n import BestOfNSettings
    from rookery.answers.library_calibration import LibraryCalibration
    from rookery.answers.model_pool import ModelPool
    from rookery.answers.trained_policies import TrainedPolicy
    from rookery.models.remote_model import SlotTable

FORMULA_WITHOUT_VALUE = "the file has no value for this formula: save it in a spreadsheet program"
"""remark on an answer that quotes a cell of which only the formula is known"""
_IndexedLibrary = FolderLibrary | SiteLibrary | WarcLibrary | ShardedLibrary
"""libraries with a folder for what is known of their contents"""


@lru_cache(maxsize=1)
def _load_shared_model(folder: Path, changed: int) -> EvidenceModel:
    """Return the evidence model of a folder, one for all sources of this process.

    `changed` is the time at which its file was changed, in nanoseconds. Raises Failed: bad_model.
    """
    return load_evidence_model(folder)


class EvidenceSources:
    """The page archive, the network, the library and the rankers of some settings.

    Each is opened at its first use. Threads may share one object. `libraries` are searched beside
    the places of the settings, and left open.
    """

    def __init__(
        self,
        settings: Settings,
        progress: ProgressCallback | None = None,
        libraries: Sequence[Library] = (),
    ) -> None:
        self.settings = settings
        self._progress = progress
        self._own_libraries = libraries
        self._lock = threading.RLock()
        self._open = ExitStack()
        self.archive = self._open.enter_context(PageArchive(locate_archive(settings.archive)))
        self._fetcher: Fetcher | None = None
        self._library: Library | None = None
        self._web_search: WebSearch | None = None
        self._skipped: tuple[SkippedGroup, ...] | None = None
        self._similarity: Similarity | None = None
        self._judge: EvidenceJudge | None = None
        self._judge_digest = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive and, if they were opened, the library and the network client."""
        with self._lock:
            if self._library is not None:
                self._library.close()
                self._library = None
            self._open.close()

    def open_fetcher(self) -> Fetcher:
        """Return the network client, made at the first call and closed by `close`."""
        with self._lock:
            if self._fetcher is None:
                s = self.settings
                agent = build_user_agent(s.contact)
                render = None
                if s.render:
                    from rookery.network.page_rendering import ChromiumRenderer

                    others = Fetcher(use_proxy=s.proxy, user_agent=agent)
                    render = ChromiumRenderer(self._open.enter_context(others), agent).render_page
                fetcher = Fetcher(
                    allow_private=s.private, use_proxy=s.proxy, user_agent=agent, render=render
                )
                self._fetcher = self._open.enter_context(fetcher)
            return self._fetcher

    def open_web(self) -> WebLibrary:
        """Return the web with permissions of its own, searched as all webs of this object are.

        Raises Failed.
        """
        with self._lock:
            if self._web_search is None:  # it remembers which engines want to be left alone
                self._web_search = make_web_search(self.settings.engine)
            offline = self.settings.offline
            return WebLibrary(self._web_search, self.archive, self.open_fetcher(), offline)

    def open_library(self) -> Library:
        """Return the library of the settings' places, indexed at the first use. Raises Failed.

        It is shared by all callers, and closed by `close`.
        """
        with self._lock:
            if self._library is None:
                self._library = open_places(
                    self.settings.places,
                    self.archive,
                    self.open_fetcher,
                    get_cache_folder(),
                    engine=self.settings.engine,
                    offline=self.settings.offline,
                    progress=self._progress,
                    selection=self.settings.selection,
                    libraries=self._own_libraries,
                )
            return self._library

    def open_library_for_question(self, start: str = "", known_urls: Iterable[str] = ()) -> Library:
        """Return the library that one question or browser session searches and opens.

        Raises Failed. Where the web is searched, it is made anew: it opens only what its own
        searches and pages showed, `start` and `known_urls`. Any other library is the shared one; if
        `start` is a web address, what that library never showed is fetched from the web under the
        same restriction.
        """
        library = self.open_library()
        if not isinstance(library, WebLibrary) and not is_url(start):
            return library
        web = self.open_web()
        for url in filter(is_url, (start, *known_urls)):
            web.allow_url(url)
        return web if isinstance(library, WebLibrary) else FallbackLibrary(library, web)

    def refresh_library(self) -> FolderLibrary | SiteLibrary | WarcLibrary:
        """Return the library of the first place, brought up to date: a site is crawled again.

        Files and folders are opened, all places of the settings as one library, which reads what
        changed: they must be files or folders alone, one WARC file or one site. Raises ValueError
        for other places together, and Failed, also for shards.
        """
        place, *others = self.settings.places
        # Files are looked at whenever they are opened.
        library = None if is_url(place) else self.open_library()
        if isinstance(library, FolderLibrary | WarcLibrary):
            return library
        if isinstance(library, ShardedLibrary):
            detail = "shards are brought up to date by rookery index build, said as before"
            raise Failed(Failure(place, Outcome.SHARDED, detail))
        if others:
            raise ValueError(
                f"{place} is brought up to date by itself: name no other place with it"
            )
        began = time.time()
        limits = SiteLimits(fresh_seconds=0)
        fetcher, cache = self.open_fetcher(), get_cache_folder()
        site = SiteLibrary(place, self.archive, fetcher, cache, limits, self._progress)
        if site.crawled < began:
            raise Failed(site.failures[-1])
        self._library = site
        return site

    def count_skipped(self) -> tuple[SkippedGroup, ...]:
        """Count, by reason, the files that opening the library left out; none before it is opened.

        The bundled pages are not counted: they are nobody's documents.
        """
        with self._lock:
            if self._library is not None and self._skipped is None:
                skipped, bundled = list_skipped(self._library), str(get_bundled_folder())
                users_files = (one for one in skipped if not one.what.startswith(bundled))
                self._skipped = count_skipped(users_files)
            return self._skipped or ()

    def load_evidence_judge(self) -> EvidenceJudge | None:
        """Return the judge of the settings' ranker; None where that is no evidence model.

        Raises Failed: bad_model.
        """
        if self.settings.ranker == WORDS:
            return None
        self._check_ranker_folder()
        with self._lock:
            folder = Path(self.settings.ranker or BUNDLED_MODEL)
            if self._judge is None and is_evidence_model(folder):
                changed = (folder / MODEL_FILE).stat().st_mtime_ns
                self._judge = _load_shared_model(folder, changed).judge_passages
            return self._judge

    def read_library_calibration(self) -> "LibraryCalibration | None":
        """Return the stored calibration of the evidence model on the library, if it is current."""
        with self._lock:
            library = self.open_library()
            if not isinstance(library, _IndexedLibrary):
                return None
            from rookery.answers.library_calibration import load_library_calibration

            calibration = load_library_calibration(library.index_folder)
            if calibration is None or calibration.contents != library.contents_digest():
                return None
            return calibration if calibration.model == self.digest_evidence_model() else None

    def calibrate_library(
        self, observe: "Callable[[int, int], None]"
    ) -> "LibraryCalibration | None":
        """Calibrate the evidence model on the library, and store that with the library's index.

        `observe` hears how many of how many sections were judged. What is stored for the same
        documents and model is returned at once. Returns None where the settings name no evidence
        model, where the library has no index of its own (the web, several places, one file), or too
        few sections. Raises Failed: bad_model, unwritable, shard_failed, or what opening the
        library raises.
        """
        from rookery.answers.library_calibration import (
            MOST_PAGES,
            calibrate_library,
            store_library_calibration,
        )

        library, judge = self.open_library(), self.load_evidence_judge()
        if judge is None or not isinstance(library, _IndexedLibrary):
            return None
        if (stored := self.read_library_calibration()) is not None:
            return stored
        contents = library.contents_digest()
        pages: Iterable[Page]
        if isinstance(library, ShardedLibrary):
            pages = library.draw_pages(MOST_PAGES)
        else:
            digests = list_index_digests(library.index_folder)
            Random(0).shuffle(digests)
            pages = filter(None, map(self.archive.find_page, digests))
        model = self.digest_evidence_model()
        calibration = calibrate_library(library, pages, judge, contents, model, observe)
        if calibration is not None:
            store_library_calibration(calibration, library.index_folder)
        return calibration

    def digest_evidence_model(self) -> str:
        """Return a digest of the settings' evidence model, as it was at the first call."""
        from rookery.answers.library_calibration import digest_evidence_model

        with self._lock:
            if not self._judge_digest:
                folder = Path(self.settings.ranker or BUNDLED_MODEL)
                self._judge_digest = digest_evidence_model(folder)
            return self._judge_digest

    def load_similarity(self) -> Similarity | None:
        """Return the similarity by the settings' trained encoder; None where they name none.

        Raises Failed: bad_model.
        """
        if self.settings.ranker in ("", WORDS):
            return None
        self._check_ranker_folder()
        with self._lock:
            folder = Path(self.settings.ranker)
            if self._similarity is None and is_dense_ranker(folder):
                self._similarity = load_dense_ranker(folder).compute_similarities
            return self._similarity

    def _check_ranker_folder(self) -> None:
        """Raise Failed (bad_model) where the settings name a folder in which nothing ranks."""
        folder = Path(self.settings.ranker)
        if self.settings.ranker and not (is_evidence_model(folder) or is_dense_ranker(folder)):
            detail = (
                f"it holds neither an evidence model ({MODEL_FILE}) nor a trained encoder "
                f"({ENCODER_FILE}): name another folder, or {WORDS} to rank by words alone"
            )
            raise Failed(Failure(self.settings.ranker, Outcome.BAD_MODEL, detail))

    def fetch_page(self, url: str) -> Page:
        """Fetch a page now, keep it in the archive and return it. Raises Failed.

        It is fetched even where the settings are for offline use.
        """
        page = self.open_fetcher().fetch_page(url)
        self.archive.store_page(page, requested_url=url)
        return page

    def find_page(self, quote: Quote) -> Page | None:
        """Return the archived page that a quote was cut from; None if its text is not stored.

        A page with the same text at another address will do if there is none at the quote's own.
        """
        find_page = self.archive.find_page
        return find_page(quote.digest, quote.url) or find_page(quote.digest)


class AnswerSession:
    """Answers questions with one set of settings; threads may share one session.

    Give `sources` to share a library and an archive with other sessions: they are then left open
    when this session is closed. Sessions with one table of `slots` share those of model servers.
    Own `libraries` are searched beside the places of the settings, and left open. An own `policy`
    and `reward` take the place of those that the settings name.
    """

    def __init__(
        self,
        settings: Settings,
        progress: ProgressCallback | None = None,
        sources: EvidenceSources | None = None,
        slots: "SlotTable | None" = None,
        libraries: Sequence[Library] = (),
        policy: Policy | None = None,
        reward: Reward | BatchReward | None = None,
    ) -> None:
        self.settings = settings
        self.method = get_method(settings.method)
        self._slots = slots
        self._policy = policy
        self._reward = None if reward is None else OwnReward(reward)
        self._open = ExitStack()
        self._lock = threading.RLock()
        if sources is None:
            sources = self._open.enter_context(EvidenceSources(settings, progress, libraries))
        self.sources = sources
        self._models: ModelPool | None = None
        self._calibration: Calibration | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the models, and the sources unless they were given."""
        self._open.close()

    def answer(self, question: Question, callbacks: AnswerCallbacks = NO_CALLBACKS) -> Episode:
        """Answer one question; the episode's failures name every source that could not be read.

        A library that cannot be opened gives an episode without evidence. Raises Failed where the
        settings are at fault: a place or a model that does not exist, a model that cannot be asked.
        """
        settings, library = self.settings, None
        try:
            if self.asks_model():
                self.read_calibration()
                if not settings.offline:
                    library = self.sources.open_library_for_question()
                with self.open_models().record_question(
                    question, settings.to_cache_key(), library, callbacks.observe_text
                ) as recorded:
                    searched = callbacks.wrap_library(recorded.library)
                    run = QuestionRun(self, question, searched, callbacks, recorded)
                    episode = self.method.run(run)
                    recorded.complete = episode.stop != Outcome.POLICY_FAILED
            else:
                library = self.sources.open_library_for_question()
                searched = callbacks.wrap_library(library)
                episode = self.method.run(QuestionRun(self, question, searched, callbacks))
        except Failed as failed:
            if failed.failure.outcome in USER_ERROR_OUTCOMES:
                raise
            why = (failed.failure,)
            return Episode(question, settings.method, stop=Outcome.NO_EVIDENCE, failures=why)
        # Last, so that what failed while this question was searched is among them.
        unread = () if library is None else library.failures
        quotes = episode.answer.quotes if episode.answer else ()
        noted = Failure(episode.by, Outcome.CITATION_NOTED, FORMULA_WITHOUT_VALUE)
        formulas = [noted for quote in quotes if "[no stored value]" in quote.text]
        failures = tuple(dict.fromkeys((*episode.failures, *unread, *formulas)))
        return msgspec.structs.replace(episode, failures=failures)

    def asks_model(self) -> bool:
        """Return True if a model is set and the method uses one."""
        return bool(self.settings.models) and self.method.model != "unused"

    def list_recipients(self) -> list[str]:
        """Return the models on other machines that passages of own documents are sent to.

        Each is MODEL at ADDRESS. Raises Failed where a model is misnamed.
        """
        own = (each for each in self.settings.places if each != BUNDLED_PLACE and not is_url(each))
        if self.settings.offline or not self.asks_model() or not any(own):
            return []
        roles = ("browse", "write") if self.method.name == "webgpt" else ("write",)
        return self.open_models().list_remote_models(*roles)

    def rewrite_question(
        self, question: str, earlier: Sequence[str], replies: Sequence[str] = ()
    ) -> str:
        """Return a question that stands alone without the `earlier` ones of its conversation.

        A chat model of a server rewrites it where the method uses one, and is shown the `replies`
        to the last of the earlier questions, too. Elsewhere, where that model fails, and where the
        answer must be the same offline, rules for English do (`join_questions`). Small models
        change what is asked too often.
        """
        if not earlier:
            return question
        if self.asks_model() and not self.settings.offline:
            try:
                pool = self.open_models()
                if pool.uses_chat("write"):
                    model = pool.open_model("write")
                    written = rewrite_by_model(
                        question, earlier, lambda prompt: model.complete(prompt)[0].text, replies
                    )
                    if written:
                        return written
            except Failed as failed:
                if failed.failure.outcome in USER_ERROR_OUTCOMES:
                    raise
        return join_questions([*earlier, question])

    def configure_sampling(self, question: Question) -> "BestOfNSettings":
        """Return the settings of sampling. An own reward is tried on an example of an answer first.

        Raises Failed: no_calibration (--decline), bad_model, and as `load_reward` does.
        """
        from rookery.answers.best_of_n import BestOfNSettings, load_reward

        calibration, judge = self.read_calibration(), self._load_sample_judge()
        with self._lock:
            if self._reward is None and self.settings.models.reward:
                self._reward = load_reward(self.settings.models.reward, question)
        reward: Reward | None = self._reward
        if judge is not None:
            reward = make_evidence_reward(judge)
        decline = None if calibration is None else get_minimum_score(calibration)
        return BestOfNSettings(self._count_samples(), reward, decline)

    def _count_samples(self) -> int:
        return self.settings.models.samples or self.method.samples

    def _load_sample_judge(self) -> EvidenceJudge | None:
        """Return the evidence model's judge where there are samples that it chooses among."""
        if self._get_reward_name() or self._count_samples() == 1:
            return None
        return self.sources.load_evidence_judge()

    def _get_reward_name(self) -> str:
        return self._reward.name if self._reward else self.settings.models.reward

    def identify_score_source(self) -> ScoreSource:
        """Return the source of the scores that this session's answers have, for calibration.

        Raises Failed where a model is misnamed.
        """
        models = self.settings.models
        score = "likelihood"
        if self._load_sample_judge() is not None:
            score = f"evidence {self.sources.digest_evidence_model()}"
        if reward := self._get_reward_name():
            score = f"reward;--reward;{reward}"
        elif self._count_samples() > 1 and self.open_models().uses_chat("write"):
            score += f";--choose-by;{'model' if self.is_chooser_chat() else 'evidence'}"
        endpoint, method = self.open_models().get_endpoint, self.settings.method
        return identify_score_source(method, endpoint, models.samples, score)

    def is_chooser_chat(self) -> bool:
        """Return True if the chat model that writes chooses among its samples. Raises Failed."""
        chooser, chat = self.settings.models.choose_by, self.open_models().uses_chat("write")
        if chooser == "model" and not chat:
            detail = "only a chat model on a server chooses among its answers: leave this out"
            raise Failed(Failure("--choose-by model", Outcome.NO_MODEL, detail))
        return chat and chooser != "evidence" and not self._get_reward_name()

    def is_writer_local(self) -> bool:
        """Return True if the model that writes is a folder on this machine, and on no server.

        Raises Failed: no_model, bad_endpoint.
        """
        return self.open_models().is_local("write")

    def find_trained_policy(self) -> "TrainedPolicy | None":
        """Return what the model was trained with, where that was for prompts of this method.

        Raises Failed: no_model, bad_model.
        """
        if not is_local_model(self.settings.models):
            return None
        from rookery.answers.trained_policies import read_trained_policy
        from rookery.models.installed_models import locate_local_model

        trained = read_trained_policy(locate_local_model(self.settings.models.model))
        return trained if trained and trained.method == self.method.name else None

    def declines_by_extract(self) -> bool:
        """Return True if the fixed rule of `extract` declines answers, and no calibrated score.

        So are those of `extract`, and those that a model on this machine puts into words. Raises
        Failed.
        """
        if self.method.name == "webglm" and self.settings.models:
            return self.is_writer_local() and self.find_trained_policy() is None
        return self.method.name == "extract"

    def read_calibration(self) -> Calibration | None:
        """Return the calibrated score threshold for --decline.

        None without it, or where it is no share of good answers (`declines_by_extract`).

        Raises Failed where no labels were stored for the model.
        """
        share = self.settings.decline
        with self._lock:
            if self._calibration is None and share is not None and not self.declines_by_extract():
                scored = self.identify_score_source()
                self._calibration = find_decline_threshold(scored, share, get_data_folder())
            return self._calibration

    def open_models(self) -> "ModelPool":
        """Return the models that the settings name, which `close` closes.

        Raises Failed where one is misnamed.
        """
        with self._lock:
            if self._models is None:
                from rookery.answers.model_pool import ModelPool

                s, archive = self.settings, self.sources.archive
                trained = self.find_trained_policy()
                local = trained.sampling if trained else self.method.local
                named = (s.models, archive, s.offline, local, self._slots)
                pool = ModelPool(*named, self._policy)
                self._models = self._open.enter_context(pool)
            return self._models


def open_library_alone(
    settings: Settings, progress: ProgressCallback | None = None, libraries: Sequence[Library] = ()
) -> Library:
    """Return the library of the settings and own ones; closing it closes its archive and network
    client."""
    sources = EvidenceSources(settings, progress, libraries)
    try:
        return WrappedLibrary(sources.open_library(), close=sources.close)
    except BaseException:
        sources.close()
        raise


class FallbackLibrary(Library):
    """Searches the first library; what that one never showed is fetched from the other.

    Closing it closes neither.
    """

    def __init__(self, library: Library, fallback: Library) -> None:
        self._library = library
        self._fallback = fallback

    @property
    def failures(self) -> Sequence[Failure]:
        """Documents, pages and searches that either library could not read so far, with reasons."""
        return (*self._library.failures, *self._fallback.failures)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first library's k best results. Raises Failed if the search cannot be made."""
        return list(self._library.search(query, k))

    def fetch(self, url: str) -> Page:
        """Return the page from the first library, or from the other if the first never showed it.

        Raises Failed if it cannot be read.
        """
        try:
            return self._library.fetch(url)
        except Failed as failed:
            if failed.failure.outcome != Outcome.URL_NOT_SHOWN:
                raise
        return self._fallback.fetch(url)
