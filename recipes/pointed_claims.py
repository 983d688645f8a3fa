"""Answers in two steps: point at the sentence of a page after which the question is likeliest, then
write a short claim from the question and that quote.

A quote is a sentence of its page, so that it is verbatim by construction. A small model tells which
sentence answers long before it can copy one (docs/LOG.md).
"""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch

from rookery.learn.action_batches import ActionRow, predict_actions, split_into_micro_batches
from rookery.learn.decoding import SamplingSettings, load_sampled_model, sample_actions
from rookery.learn.pretrained_models import LoadedModel, PolicyTokenizer, tokenize_prompt
from rookery.learn.rollout_environments import (
    BatchRewardFunction,
    EnvironmentPrompt,
    SingleStepEnvironment,
)
from rookery.learn.training_data import encode_target
from rookery.pages.passages import find_sentences
from rookery.records import Answer, Claim, Completion, Episode, Page, Question, Quote, Record, Step

QuotedQuestion = tuple[Question, Quote]
"""A question, and the quote that its claim rests on."""


class ClaimSample(Record, frozen=True):
    """One sampled claim, as an answer that cites its quote."""

    answer: Answer | None
    """None: nothing was said."""
    logprob: float
    """Of all that was said, in nats, at the temperature of sampling."""


def list_sentence_quotes(page: Page) -> list[Quote]:
    """Return every sentence of a page as a quote."""
    return [
        page.quote_whole_words(start, end) for start, end in find_sentences(page, 0, len(page.text))
    ]


def build_pointer_prompt(quote: Quote) -> str:
    """Return the text after which a question is the likelier, the more this quote answers it."""
    return f"{quote.title}: {_join_lines(quote.text)}\nQuestion:"


def build_claim_prompt(question: Question, quote: Quote) -> str:
    """Return the prompt for a claim that answers the question from the quote."""
    text = f"{quote.title}: {_join_lines(quote.text)}"
    return f"{text}\nQuestion: {_join_lines(question.text)}\nAnswer:"


def build_few_shot_prompt(
    examples: Sequence[tuple[Question, Quote, str]], question: Question, quote: Quote
) -> str:
    """Return the same prompt after examples with their claims, for a model that has learnt none."""
    before = [f"{build_claim_prompt(*each[:2])} {each[2]}\n\n" for each in examples]
    return "".join((*before, build_claim_prompt(question, quote)))


def make_pointer_episode(question: Question, quote: Quote) -> Episode:
    """Return the demonstration from which a pointer learns that the quote leads to the question."""
    step = Step(build_pointer_prompt(quote), Completion(f" {_join_lines(question.text)}"))
    return Episode(question, "pointer", (step,), make_claim_answer(quote.text, quote))


def make_claim_episode(question: Question, quote: Quote, claim: str) -> Episode:
    """Return the demonstration of a claim that answers the question from the quote."""
    step = Step(build_claim_prompt(question, quote), Completion(f" {claim}"))
    return Episode(question, "claim", (step,), make_claim_answer(claim, quote))


def make_claim_answer(claim: str, quote: Quote) -> Answer:
    """Return the answer that claims this and cites the quote."""
    return Answer(claim, (quote,), (Claim(0, len(claim), (0,)),))


def parse_claim(text: str, quote: Quote) -> Answer | None:
    """Return what was said up to the end of its first line as an answer; None if that is empty."""
    claim = text.strip().partition("\n")[0].strip()
    return make_claim_answer(claim, quote) if claim else None


@torch.inference_mode()
def score_pointers(
    loaded: LoadedModel, pairs: Sequence[QuotedQuestion], tokens: int = 2048
) -> list[float]:
    """Return the log-likelihood of each question after its quote, in nats.

    `tokens` are given to the model at once.
    """
    rows = []
    for step in (make_pointer_episode(*each).steps[0] for each in pairs):
        target = msgspec.structs.replace(step.said, stop="length")  # without an end token
        context = tokenize_prompt(loaded.tokenizer, step.prompt, chat=False)
        rows.append(ActionRow(context, encode_target(target, loaded)))
    sums: dict[int, float] = {}
    places = {id(row): number for number, row in enumerate(rows)}
    for piece in split_into_micro_batches(rows, tokens):
        logprobs_N = predict_actions(loaded.model, piece, loaded.pad)[0]
        parts = torch.split(logprobs_N, [len(row.action) for row in piece])
        sums |= {places[id(row)]: float(part.sum()) for row, part in zip(piece, parts, strict=True)}
    return [sums[number] for number in range(len(rows))]


def point_at_quotes(
    loaded: LoadedModel, pages: Sequence[tuple[Question, Page]]
) -> list[list[float]]:
    """Return the score of every sentence of each question's page, in the sentences' order.

    The quote is the one with the highest score (`choose_quote`).
    """
    quotes = [list_sentence_quotes(page) for _, page in pages]
    pairs = [
        (question, quote)
        for (question, _), each in zip(pages, quotes, strict=True)
        for quote in each
    ]
    scores = iter(score_pointers(loaded, pairs))
    return [[next(scores) for _ in each] for each in quotes]


def choose_quote(page: Page, scores: Sequence[float]) -> Quote:
    """Return the sentence of the page with the highest score, the first of equals."""
    return list_sentence_quotes(page)[scores.index(max(scores))]


def sample_claims(
    policy: Path,
    quoted: Sequence[QuotedQuestion],
    n: int,
    sampling: SamplingSettings,
    seed: int,
    examples: Sequence[tuple[Question, Quote, str]] = (),
) -> list[list[ClaimSample]]:
    """Sample `n` claims of a saved policy for each question and quote, after `examples` if there
    are any. Raises Failed: no_model, bad_model, not_a_number.
    """
    loaded = load_sampled_model(policy, sampling)
    room = loaded.context - sampling.max_tokens
    speech = PolicyTokenizer(
        loaded.tokenizer, loaded.vocabulary, loaded.ends, sampling.max_tokens, room, chat=False
    )
    contexts = [speech.encode_prompt(build_few_shot_prompt(examples, *each)) for each in quoted]
    actions = sample_actions(
        loaded.model,
        [context for context in contexts for _ in range(n)],
        [f"{seed} claim {number} {at}" for number in range(len(quoted)) for at in range(n)],
        loaded.ends,
        sampling,
    )
    samples = [
        ClaimSample(
            parse_claim(speech.decode_action(one.row.action), quoted[at // n][1]),
            math.fsum(one.logprobs),
        )
        for at, one in enumerate(actions)
    ]
    return [samples[at : at + n] for at in range(0, len(samples), n)]


def make_claim_environment(
    quoted: Sequence[QuotedQuestion],
    scores: BatchRewardFunction,
    speech: PolicyTokenizer,
    group: int,
) -> SingleStepEnvironment:
    """Return the environment in which claims are written from quotes that were chosen before;
    `group` episodes of a question come in a row. Questions have different ids."""
    quotes = {question.id: quote for question, quote in quoted}

    def list_claim_prompts(question: Question) -> list[EnvironmentPrompt]:
        quote = quotes[question.id]
        return [
            EnvironmentPrompt(
                build_claim_prompt(question, quote),
                lambda text: parse_claim(text, quote) or Answer(""),
            )
        ]

    questions = [question for question, _ in quoted]
    return SingleStepEnvironment(questions, list_claim_prompts, scores, speech, group=group)


def _join_lines(text: str) -> str:
    """Return a text in one line: the prompts' lines begin with what they are."""
    return " ".join(text.split())
