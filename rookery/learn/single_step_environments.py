"""Environments of one step over pages that were found once: inline quotes (GopherCite), and
numbered references (WebGLM)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from rookery.answers.best_of_n import AnswerParser, parse_draft, render_prompt
from rookery.answers.gophercite import GopherCiteSettings, build_page_prompt, choose_best_pages
from rookery.answers.retrieval import gather_passages
from rookery.answers.webglm import WebglmSettings, quote_passage, render_references
from rookery.errors import Failed, Outcome
from rookery.evidence.passage_ranking import PassageRanker, rank_passages
from rookery.learn.browser_environment import (
    CONCURRENT_REQUESTS,
    BatchRewardFunction,
    assign_questions,
    compute_answer_rewards,
)
from rookery.learn.decoding import SampledAction
from rookery.learn.episodes import PolicySampler, ServerConstraint, Trajectory
from rookery.learn.pretrained_models import PolicyTokenizer
from rookery.models.constrained_decoding import UNFORCED, build_lark_grammar
from rookery.models.remote_model import AllowedTokens
from rookery.quotes.citation_syntax import AnswerShape, order_quotes_by_use
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.quotes.repair import parse_and_correct
from rookery.records import Answer, Failure, Library, Question

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


class SingleStepEnvironment:
    """Environment in which each question is answered to one prompt; prompts are built once in a
    run.

    A question with several prompts is asked by each in turn. An answer that cannot be read is
    malformed, and its reward that of its text without any quote; one that is empty, or cannot be
    scored, has none, and a question without a prompt has no action either. With a `grammar`,
    what is said is held to the prompt's document, and the rows know it; where a server samples
    (`served`), as `constrain_on_server` says. Raises ValueError without a question.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        show: PromptFunction,
        scores: BatchRewardFunction,
        speech: PolicyTokenizer,
        grammar: VerbatimGrammar | None = None,
        group: int = 1,
        served: bool = False,
    ) -> None:
        if not questions or group < 1:
            raise ValueError("there must be a question, and a group of one at least")
        self._served = served
        self._questions = questions
        self._prompt_function = show
        self._scores = scores
        self._speech = speech
        self._grammar = grammar
        self._group = group
        self._prompts_by_question: dict[int, Sequence[EnvironmentPrompt]] = {}

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes with actions drawn by `sample`, and return them with their rewards.

        Each has one prompt and one answer; without a prompt it has no action and no reward. Raises
        Failed: prompt_too_long, and too_long for a document that a server takes no grammar of.
        """
        turns = assign_questions(len(self._questions), self._group, episodes, seed)
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
            self._scores,
            [
                (self._questions[number], one.answer)
                for (number, _), one in zip(turns, answers, strict=True)
            ],
        )
        return [
            Trajectory(
                episode,
                [] if row is None else [row],
                reward,
                episode // self._group,
                malformed=one.malformed,
            )
            for episode, row, reward, one in zip(episodes, rows, rewards, answers, strict=True)
        ]

    def _find_prompts(self, numbers: set[int]) -> None:
        """Build the prompts of questions that have none yet."""
        fresh = sorted(number for number in numbers if not self._prompts_by_question.get(number))
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            found = pool.map(self._prompt_function, [self._questions[number] for number in fresh])
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
        contexts = {one.prompt: self._speech.encode_prompt(one.prompt) for _, one in seeded_prompts}
        allow = {one.prompt: self._make_token_constraint(one) for _, one in seeded_prompts}
        actions = iter(
            sample(
                [contexts[one.prompt] for _, one in seeded_prompts],
                [name for name, _ in seeded_prompts],
                [allow[one.prompt] for _, one in seeded_prompts] if self._grammar else None,
            )
        )
        return [next(actions) if one else None for one in prompts]

    def _make_token_constraint(self, prompt: EnvironmentPrompt) -> AllowedTokens:
        """Return the tokens that may be said; all, where the document has nothing that can be
        quoted."""
        if self._grammar is None or prompt.quoted_document is None:
            return None
        if self._served:
            return constrain_on_server(self._grammar, prompt.quoted_document)
        return constrain_to_document(
            self._grammar, prompt.quoted_document, self._speech.max_action_tokens
        )

    def _parse_answer(
        self, prompt: EnvironmentPrompt | None, row: SampledAction | None
    ) -> _ParsedAnswer:
        if prompt is None or row is None:
            return _ParsedAnswer(None, False)
        text = self._speech.decode_action(row.row.action)
        answer, _ = parse_draft(text, prompt.read)
        shortest = self._grammar.shape.shortest if self._grammar else 0
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

    A server does not count tokens: an answer that does not end in time is cut, and malformed.
    Raises Failed (too_long) where a server would not take the grammar.
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
    scores: BatchRewardFunction,
    speech: PolicyTokenizer,
    quoting: GopherCiteSettings = GopherCiteSettings(),
    shape: AnswerShape = AnswerShape(),
    rank: PassageRanker = rank_passages,
    group: int = 1,
    served: bool = False,
) -> SingleStepEnvironment:
    """Return an environment with one page a prompt and quotes constrained to that page's words.

    The pages of a question take turns (GopherCite, section 2.8). Quotes are read as `gophercite`
    reads them; what it would not take for an answer is malformed (appendix F.1). `served` says that
    a server samples; a claim then is as long as an action may be, whatever `shape.free` says.
    """
    if served:
        shape = msgspec.structs.replace(shape, free=_FREE_FACTOR * speech.max_action_tokens)

    def list_page_prompts(question: Question) -> list[EnvironmentPrompt]:
        gathered = gather_passages(question.text, library, quoting.limits)
        places = choose_best_pages(question, gathered, rank, quoting.pages)
        shown = (build_page_prompt(question, page, found, quoting, {}) for page, found in places)
        return [EnvironmentPrompt(*one) for one in shown]

    grammar = VerbatimGrammar(speech.vocabulary, shape)
    return SingleStepEnvironment(
        questions, list_page_prompts, scores, speech, grammar, group, served
    )


def make_reference_environment(
    questions: Sequence[Question],
    library: Library,
    scores: BatchRewardFunction,
    speech: PolicyTokenizer,
    settings: WebglmSettings = WebglmSettings(),
    rank: PassageRanker = rank_passages,
    group: int = 1,
) -> SingleStepEnvironment:
    """Return an environment with the best passages as numbered references in one prompt.

    Citations in the answers are corrected (WebGLM, section 3.2).
    """

    def list_reference_prompts(question: Question) -> list[EnvironmentPrompt]:
        passages = gather_passages(question.text, library, settings.limits).found
        ranked = rank(question.text, passages)
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
