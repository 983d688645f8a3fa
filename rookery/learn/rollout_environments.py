"""Environments of reinforcement learning: the text browser (WebGPT), and environments of one step
over pages that were found once, with inline quotes (GopherCite) or numbered references (WebGLM).

Many sessions of the browser run side by side, and each of their steps is a row. A `PolicySampler`
draws the actions, and a function gives the reward of each answer.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from rookery.answers.best_of_n import AnswerParser, parse_draft, render_prompt
from rookery.answers.gophercite import GopherCiteSettings, build_page_prompt, choose_best_pages
from rookery.answers.retrieval import gather_passages
from rookery.answers.webglm import WebglmSettings, quote_passage, render_references
from rookery.browser.browser import (
    BrowseResult,
    BrowserReply,
    BrowserRequest,
    answer_request,
    build_episode,
    run_browser,
)
from rookery.browser.browser_commands import (
    BrowserRules,
    BrowserTask,
    Observation,
    draw_action_limit,
)
from rookery.browser.page_view import PageViewCache
from rookery.errors import Failed, Outcome
from rookery.evidence.passage_ranking import rank_passages
from rookery.learn.decoding import SampledAction, SamplingSettings
from rookery.learn.episodes import (
    PolicySampler,
    RolloutEnvironment,
    ServerConstraint,
    Trajectory,
    make_policy_sampler,
)
from rookery.learn.pretrained_models import PolicyTokenizer
from rookery.models.constrained_decoding import UNFORCED, build_lark_grammar
from rookery.models.remote_model import AllowedTokens
from rookery.python_objects import OwnReward
from rookery.quotes.citation_syntax import AnswerShape, order_quotes_by_use
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.quotes.repair import parse_and_correct
from rookery.records import (
    Answer,
    BatchReward,
    Completion,
    Episode,
    Failure,
    Library,
    Question,
    Reward,
    Step,
)

BatchRewardFunction = Callable[[Sequence[tuple[Question, Answer]]], Sequence[float]]
"""rewards of many answers at once, such as `RewardModel.score_answers`; what is not a number is no
answer"""
CONCURRENT_REQUESTS = 32
"""requests to a library"""


def compute_answer_rewards(
    scores: Reward | BatchReward, answers: Sequence[tuple[Question, Answer | None]]
) -> list[float | None]:
    """Score all answers; None without an answer or where the score is NaN."""
    pairs = [(question, answer) for question, answer in answers if answer is not None]
    rewards = iter(OwnReward(scores).score_answers(pairs) if pairs else ())
    each = (None if answer is None else next(rewards) for _, answer in answers)
    return [None if worth is None or math.isnan(worth) else worth for worth in each]


def assign_questions(
    count: int, group: int, episodes: Sequence[int], seed: int
) -> list[tuple[int, int]]:
    """Return for each episode its question's index, and which pass over the questions it is in.

    Each pass asks every one of the `count` questions in `group` episodes in a row, in an order
    drawn from the seed. Raises ValueError for a count or group below 1.
    """
    if count < 1 or group < 1:
        raise ValueError("there must be a question, and a group of one at least")
    assignments = []
    orders: dict[int, list[int]] = {}
    for episode in episodes:
        turn, place = divmod(episode // group, count)
        if turn not in orders:
            orders[turn] = Random(f"{seed} questions {turn}").sample(range(count), count)
        assignments.append((orders[turn][place], turn))
    return assignments


class BrowserEnvironmentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of episodes of the text browser that a policy learns from."""

    rules: BrowserRules = BrowserRules()
    draw_actions: bool = False
    """whether each episode has a number of actions of its own, from 20 to 100 (WebGPT, section
    3.2), in place of the rules'"""
    extra_answers: int = 0
    """more answers from the same quotes, each an episode of its own (WebGPT, section 3.2)"""
    group: int = 1
    """episodes of one question in a row"""

    def __post_init__(self) -> None:
        if self.extra_answers < 0 or self.group < 1:
            raise ValueError(
                "BrowserEnvironmentSettings: extra_answers must be 0 or more, group 1 or more"
            )


@dataclass(eq=False)
class BrowserEnvironment:
    """Environment in which questions are answered from what is quoted in the text browser (WebGPT,
    section 3.2).

    A function in place of a library makes one for each episode, such as the replay of a recording;
    a library is safe to share between threads. An episode without an answer, or whose prompt or
    answer is too long for the models, has no reward. Raises ValueError without a question.
    """

    questions: Sequence[Question]
    library: Library | Callable[[int], Library]
    scores: Reward | BatchReward
    speech: PolicyTokenizer
    settings: BrowserEnvironmentSettings = field(default_factory=BrowserEnvironmentSettings)

    def __post_init__(self) -> None:
        if not self.questions:
            raise ValueError("there must be a question")
        self.scores = OwnReward(self.scores)
        self._views = PageViewCache()

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes with actions drawn by `sample`, and return them with their rewards.

        They are in the order of `episodes`, each followed by its extra answers. All sessions take
        each step together, so that the policy's batches, and with them the last bits of what it
        says, are the same in every run.
        """
        turns = assign_questions(len(self.questions), self.settings.group, episodes, seed)
        sessions = [
            self._start_episode(episode, self.questions[number], seed)
            for episode, (number, _) in zip(episodes, turns, strict=True)
        ]
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            self._advance_episodes(pool, [(session, None) for session in sessions])
            while waiting := [session for session in sessions if session.browsed is None]:
                contexts = [session.context for session in waiting]
                seeds = [f"{seed} {one.episode} {len(one.rows)}" for one in waiting]
                actions = sample(contexts, seeds)
                for session, one in zip(waiting, actions, strict=True):
                    session.rows.append(one)
                words = [self.speech.decode_action(one.row.action) for one in actions]
                for session, text in zip(waiting, words, strict=True):
                    session.steps.append(Step(session.prompt, Completion(text)))
                self._advance_episodes(pool, list(zip(waiting, words, strict=True)))
        return self._build_trajectories(
            sessions, self._sample_extra_answers(sample, sessions, seed)
        )

    def _start_episode(self, episode: int, question: Question, seed: int) -> "_BrowserEpisode":
        rules = self.settings.rules
        if self.settings.draw_actions:
            rules = draw_action_limit(rules, Random(f"{seed} {episode} actions"))
        library = self.library(episode) if callable(self.library) else self.library
        return _BrowserEpisode(episode, BrowserTask(question, rules), library, self._views)

    def _advance_episodes(
        self,
        pool: ThreadPoolExecutor,
        sent: Sequence[tuple["_BrowserEpisode", str | BrowserReply | None]],
    ) -> None:
        """Let each session go on until it waits to be told something, or has ended."""
        while sent:
            open_sessions = [
                (session, request)
                for session, words in sent
                if (request := session.advance_browser(words, self.speech)) is not None
            ]
            replies = pool.map(lambda one: answer_request(one[0].library, one[1]), open_sessions)
            sent = [
                (session, reply) for (session, _), reply in zip(open_sessions, replies, strict=True)
            ]

    def _sample_extra_answers(
        self, sample: PolicySampler, sessions: Sequence["_BrowserEpisode"], seed: int
    ) -> dict[int, list[SampledAction]]:
        """Draw more answers in the answering phase of each episode that came to it."""
        count = self.settings.extra_answers
        answering = [session for session in sessions if session.is_answering for _ in range(count)]
        if not answering:
            return {}
        seeds = [f"{seed} {one.episode} extra {at % count}" for at, one in enumerate(answering)]
        actions = sample([session.rows[-1].row.context for session in answering], seeds)
        extra_actions: dict[int, list[SampledAction]] = {}
        for session, one in zip(answering, actions, strict=True):
            extra_actions.setdefault(session.episode, []).append(one)
        return extra_actions

    def _build_trajectories(
        self, sessions: Sequence["_BrowserEpisode"], extras: dict[int, list[SampledAction]]
    ) -> list[Trajectory]:
        group = self.settings.group
        played, answers = [], []
        for session in sessions:
            episode, record = session.episode, session.build_record()
            whole = Trajectory(episode, session.rows, None, episode // group, record=record)
            played.append(whole)
            answers.append((record.question, record.answer))
            for extra in extras.get(episode, ()):
                played.append(Trajectory(episode, [extra], None, ("answers", episode), extra=True))
                other = session.build_record(self.speech.decode_action(extra.row.action))
                answers.append((other.question, other.answer))
        rewards = compute_answer_rewards(self.scores, answers)
        return [one._replace(reward=reward) for one, reward in zip(played, rewards, strict=True)]


class _BrowserEpisode:
    """One episode under way: `browsed` is None until it has ended."""

    def __init__(
        self, episode: int, task: BrowserTask, library: Library, views: PageViewCache
    ) -> None:
        self.episode = episode
        self.library = library
        self.rows: list[SampledAction] = []
        self.steps: list[Step] = []
        self.prompt = ""
        self.context: list[int] = []
        """the prompt that waits for something to be said"""
        self.is_answering = False
        """whether an answer was asked for, and given"""
        self.browsed: BrowseResult | None = None
        self._task = task
        self._browser_loop = run_browser(task, views)

    def advance_browser(
        self, sent: str | BrowserReply | None, speech: PolicyTokenizer
    ) -> BrowserRequest | None:
        """Tell the browser something; return what it asks of the library, if it does."""
        try:
            screen = next(self._browser_loop) if sent is None else self._browser_loop.send(sent)
            if not isinstance(screen, Observation):
                return screen
            self.prompt = screen.prompt
            self.context = speech.encode_prompt(screen.prompt)
            self.is_answering = screen.answering
        except StopIteration as ended:
            self.browsed = ended.value
        except Failed as failed:
            self._abort_episode(failed.failure.outcome)
        except Exception:  # what one page holds must not end the other sessions
            self._abort_episode(Outcome.BROWSER_FAILED)
        return None

    def _abort_episode(self, stop: str) -> None:
        self._browser_loop.close()
        self.browsed, self.is_answering = BrowseResult((), stop), False

    def build_record(self, text: str | None = None) -> Episode:
        """Return the episode with its answer, or with what these words in its place answer."""
        assert self.browsed is not None
        browsed = self.browsed
        if text is not None:
            browsed = msgspec.structs.replace(browsed, answer_text=text)
        return build_episode(self._task, "", self.steps, browsed)


class TriedEpisode(NamedTuple):
    """An episode of a trial: what it is worth, whether it has an answer, and what was said."""

    score: float
    is_answered: bool
    record: Episode | None


def try_policy(
    model: Any,
    ends: frozenset[int],
    world: RolloutEnvironment,
    episodes: int,
    sampling: SamplingSettings,
    no_answer: float,
    bad_syntax: float | None = None,
) -> list[TriedEpisode]:
    """Play episodes with a model; return what each is worth, and whether it has an answer.

    They are episodes 0 to `episodes` - 1 of seed 0, the same at each call, and every process that
    calls this plays them all. An episode without a reward counts as `no_answer`, one of bad syntax
    as `bad_syntax` says (both as in `ReinforcementSettings`); extra answers do not count. Raises
    Failed (not_a_number).
    """
    played = world.play_episodes(make_policy_sampler(model, ends, sampling), range(episodes), 0)
    whole = [one for one in played if not one.extra]
    return [
        TriedEpisode(one.compute_score(no_answer, bad_syntax), one.is_answered, one.record)
        for one in whole
    ]


def average_trial(trial: Sequence[TriedEpisode]) -> dict[str, float]:
    """Return the mean `reward` of what `try_policy` returned, and the share `answered`."""
    rewards, answered, _ = zip(*trial, strict=True)
    return {"reward": fmean(rewards), "answered": fmean(answered)}


_FREE_FACTOR = 16
"""times the tokens of an action: a grammar counts free text in characters, four for a token, and
meets no limit of its own before the action is cut"""


class EnvironmentPrompt(NamedTuple):
    """A prompt, and the function that parses the answer to it."""

    prompt: str
    read: AnswerParser
    quoted_document: tuple[str, str] | None = None
    """title and text of the document that all quotes are kept to; None: nothing is kept to"""


class _ParsedAnswer(NamedTuple):
    answer: Answer | None
    malformed: bool
    """whether it is the text as it stands, since that cannot be read"""


PromptFunction = Callable[[Question], Sequence[EnvironmentPrompt]]
"""from a question to its prompts, in the order in which they take turns; none: there is nothing to
answer from"""


@dataclass(eq=False)
class SingleStepEnvironment:
    """Environment in which each question is answered to one prompt; prompts are built once in a
    run.

    A question with several prompts is asked by each in turn. An answer that cannot be read is
    malformed, and its reward that of its text without any quote; one that is empty, or cannot be
    scored, has none, and a question without a prompt has no action either. With a `grammar`,
    what is said is held to the prompt's document, and the rows know it; where a server samples
    (`served`), as `constrain_on_server` says. Raises ValueError without a question.
    """

    questions: Sequence[Question]
    list_prompts: PromptFunction
    scores: Reward | BatchReward
    speech: PolicyTokenizer
    grammar: VerbatimGrammar | None = None
    group: int = 1
    served: bool = False

    def __post_init__(self) -> None:
        if not self.questions or self.group < 1:
            raise ValueError("there must be a question, and a group of one at least")
        self._prompts_by_question: dict[int, Sequence[EnvironmentPrompt]] = {}

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes with actions drawn by `sample`, and return them with their rewards.

        Each has one prompt and one answer; without a prompt it has no action and no reward. Raises
        Failed: prompt_too_long, and too_long for a document that a server takes no grammar of.
        """
        turns = assign_questions(len(self.questions), self.group, episodes, seed)
        self._find_prompts({number for number, _ in turns})
        prompts = [
            self._prompts_by_question[number][turn % len(self._prompts_by_question[number])]
            if self._prompts_by_question[number]
            else None
            for number, turn in turns
        ]
        rows = self._sample_actions(sample, episodes, prompts, seed)
        answers = [self._parse_answer(one, row) for one, row in zip(prompts, rows, strict=True)]
        rewards = compute_answer_rewards(
            self.scores,
            [
                (self.questions[number], one.answer)
                for (number, _), one in zip(turns, answers, strict=True)
            ],
        )
        return [
            Trajectory(
                episode,
                [] if row is None else [row],
                reward,
                episode // self.group,
                malformed=one.malformed,
                record=self._build_record(self.questions[number], prompt, row, one),
            )
            for episode, (number, _), prompt, row, reward, one in zip(
                episodes, turns, prompts, rows, rewards, answers, strict=True
            )
        ]

    def _build_record(
        self,
        question: Question,
        prompt: EnvironmentPrompt | None,
        row: SampledAction | None,
        parsed: _ParsedAnswer,
    ) -> Episode:
        if prompt is None or row is None:
            return Episode(question, "", stop=Outcome.NO_EVIDENCE)
        answer = None if parsed.malformed else parsed.answer
        step = Step(prompt.prompt, Completion(self.speech.decode_action(row.row.action)))
        return Episode(question, "", (step,), answer, "end" if answer else Outcome.BAD_SYNTAX)

    def _find_prompts(self, numbers: set[int]) -> None:
        """Build the prompts of questions that have none yet."""
        fresh = sorted(number for number in numbers if not self._prompts_by_question.get(number))
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            found = pool.map(self.list_prompts, [self.questions[number] for number in fresh])
            self._prompts_by_question.update(zip(fresh, found, strict=True))

    def _sample_actions(
        self,
        sample: PolicySampler,
        episodes: Sequence[int],
        prompts: Sequence[EnvironmentPrompt | None],
        seed: int,
    ) -> list[SampledAction | None]:
        seeded_prompts = [
            (f"{seed} {n}", one) for n, one in zip(episodes, prompts, strict=True) if one
        ]
        contexts = {one.prompt: self.speech.encode_prompt(one.prompt) for _, one in seeded_prompts}
        allow = {one.prompt: self._make_token_constraint(one) for _, one in seeded_prompts}
        actions = iter(
            sample(
                [contexts[one.prompt] for _, one in seeded_prompts],
                [name for name, _ in seeded_prompts],
                [allow[one.prompt] for _, one in seeded_prompts] if self.grammar else None,
            )
        )
        return [next(actions) if one else None for one in prompts]

    def _make_token_constraint(self, prompt: EnvironmentPrompt) -> AllowedTokens:
        """Return the tokens that may be said; all, where the document has nothing that can be
        quoted."""
        if self.grammar is None or prompt.quoted_document is None:
            return None
        if self.served:
            return constrain_on_server(self.grammar, prompt.quoted_document)
        return constrain_to_document(
            self.grammar, prompt.quoted_document, self.speech.max_action_tokens
        )

    def _parse_answer(
        self, prompt: EnvironmentPrompt | None, row: SampledAction | None
    ) -> _ParsedAnswer:
        if prompt is None or row is None:
            return _ParsedAnswer(None, False)
        text = self.speech.decode_action(row.row.action)
        answer, *_ = parse_draft(text, prompt.read)
        shortest = self.grammar.shape.shortest if self.grammar else 0
        if answer and all(len(quote.text) >= shortest for quote in answer.quotes):
            return _ParsedAnswer(answer, False)
        return _ParsedAnswer(Answer(text.strip()) if text.strip() else None, True)


def constrain_to_document(
    grammar: VerbatimGrammar, document: tuple[str, str], budget: int
) -> AllowedTokens:
    """Return the ids that may follow in an answer of at most `budget` tokens that quotes this
    document (its title and text); None where nothing in it can be quoted."""
    try:
        constraint = VerbatimConstraint(grammar, [document])
        constraint.start_decoding(budget=budget)
    except ValueError:
        return None
    return constraint.make_token_filter(budget=budget)


def constrain_on_server(grammar: VerbatimGrammar, document: tuple[str, str]) -> AllowedTokens:
    """Return the ids that may follow in an answer that quotes this document (its title and text),
    as a server keeps to them by a grammar; None where nothing in it can be quoted.

    It is a ServerConstraint, which holds the grammar; no server is asked here. A server does not
    count tokens: an answer that does not end in time is cut, and malformed. Raises Failed
    (too_long) where a server would not take the grammar.
    """
    try:
        allow = VerbatimConstraint(grammar, [document]).make_token_filter()
    except ValueError:
        return None
    try:
        return ServerConstraint(allow, UNFORCED + build_lark_grammar([document], grammar.shape))
    except ValueError as error:
        detail = f"{error}; or leave `server` empty, so that this process samples"
        raise Failed(Failure(document[0] or "a page", Outcome.TOO_LONG, detail)) from error


def make_quote_environment(
    questions: Sequence[Question],
    library: Library,
    scores: Reward | BatchReward,
    speech: PolicyTokenizer,
    quoting: GopherCiteSettings = GopherCiteSettings(),
    group: int = 1,
    served: bool = False,
) -> SingleStepEnvironment:
    """Return an environment with one page a prompt and quotes constrained to that page's words.

    The pages of a question take turns (GopherCite, section 2.8). Quotes are read as `gophercite`
    reads them; what it would not take for an answer is malformed (appendix F.1). `served` says that
    a server samples; a claim then is as long as an action may be.
    """
    free = _FREE_FACTOR * speech.max_action_tokens if served else AnswerShape().free

    def list_page_prompts(question: Question) -> list[EnvironmentPrompt]:
        gathered = gather_passages(question.text, library, quoting.limits)
        ranked = rank_passages(question.text, gathered.found)
        places = choose_best_pages([(one.page, one.hit) for one in ranked], quoting.pages)
        shown = (build_page_prompt(question, page, hits, quoting, {}) for page, hits in places)
        return [EnvironmentPrompt(*one) for one in shown]

    grammar = VerbatimGrammar(speech.vocabulary, AnswerShape(free=free))
    return SingleStepEnvironment(
        questions, list_page_prompts, scores, speech, grammar, group, served
    )


def make_reference_environment(
    questions: Sequence[Question],
    library: Library,
    scores: Reward | BatchReward,
    speech: PolicyTokenizer,
    settings: WebglmSettings = WebglmSettings(),
    group: int = 1,
) -> SingleStepEnvironment:
    """Return an environment with the best passages as numbered references in one prompt.

    Citations in the answers are corrected (WebGLM, section 3.2).
    """

    def list_reference_prompts(question: Question) -> list[EnvironmentPrompt]:
        passages = gather_passages(question.text, library, settings.limits).found
        ranked = rank_passages(question.text, passages)
        quotes = tuple(
            quote_passage(one.page, one.hit.start, one.hit.end, settings.longest)
            for one in ranked[: settings.references]
        )

        def parse_answer(text: str) -> Answer:
            return order_quotes_by_use(parse_and_correct(text, quotes, settings.correct))

        prompt_text = render_prompt(
            "webglm", references=render_references(quotes), question=question.text
        )
        return [EnvironmentPrompt(prompt_text, parse_answer)] if quotes else []

    return SingleStepEnvironment(questions, list_reference_prompts, scores, speech, group=group)
