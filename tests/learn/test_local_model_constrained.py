"""The verbatim constraint inside `generate`: sampled, greedy, in beams, in padded batches."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small import PAGES, TEXTS
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessorList,
    PreTrainedTokenizerBase,
)

from rookery.learn.local_model import VerbatimLogitsProcessor
from rookery.learn.random_models import END_TOKEN, write_tiny_model
from rookery.quotes.citation_syntax import AnswerShape, parse_inline
from rookery.quotes.constraint import VerbatimConstraint
from rookery.quotes.grammar import VerbatimGrammar
from rookery.quotes.verification import verify_quotes
from rookery.quotes.vocabulary import Vocabulary, read_vocabulary

BUDGET = 40
PROMPTS = [
    "Are crows clever?",
    "Which birds know themselves in a mirror, and how was it found out?",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny")
    write_tiny_model(made, TEXTS, vocabulary=400)
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """With logits that belong to no token, and are often the likeliest."""
    found: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    found.resize_token_embeddings(424, mean_resizing=False)
    with torch.no_grad():
        found.lm_head.weight[400:] = 3 * found.lm_head.weight[:24]
    return found


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    found: Any = AutoTokenizer.from_pretrained(folder, padding_side="left", local_files_only=True)
    return found  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def words(folder: Path) -> Vocabulary:
    return read_vocabulary(folder / "tokenizer.json", END_TOKEN, 424)


@pytest.fixture(scope="module")
def constraint(words: Vocabulary) -> VerbatimConstraint:
    shape = AnswerShape(free=24, longest=60)
    return VerbatimConstraint(
        VerbatimGrammar(words, shape), [(page.title, page.text) for page in PAGES]
    )


WAYS: dict[str, dict[str, Any]] = {
    "sampled": {"do_sample": True, "num_return_sequences": 60},
    "hot": {"do_sample": True, "num_return_sequences": 20, "temperature": 3.0, "top_k": 0},
    "greedy": {"do_sample": False},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 3},
    "many beams": {"do_sample": False, "num_beams": 12, "num_return_sequences": 12},
    "sampled beams": {"do_sample": True, "num_beams": 3, "num_return_sequences": 3},
    "early beams": {"do_sample": False, "num_beams": 3, "early_stopping": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_generated_parses_and_verifies(
    way: str,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    constraint: VerbatimConstraint,
    words: Vocabulary,
) -> None:
    prompt = tokenizer(PROMPTS, padding=True, return_tensors="pt")
    width = prompt["input_ids"].shape[1]
    masks = LogitsProcessorList([VerbatimLogitsProcessor(constraint, width, BUDGET)])
    torch.manual_seed(0)
    said = model.generate(**prompt, max_new_tokens=BUDGET, logits_processor=masks, **WAYS[way])
    assert len(said) == 2 * WAYS[way].get("num_return_sequences", 1)
    lengths = set()
    for tokens in said[:, width:].tolist():
        ended = tokens.index(words.end)
        assert set(tokens[ended + 1 :]) <= {tokenizer.pad_token_id, words.end}
        answer = parse_inline(words.decode(tokens[:ended]).decode(), PAGES)
        [verdict] = verify_quotes(
            answer, lambda quote: next(p for p in PAGES if p.url == quote.url)
        )
        assert verdict.verbatim
        lengths.add(ended)
    assert len(lengths) > 1 or way == "greedy"


def test_greedy_and_one_beam_write_the_same_with_and_without_a_batch(
    model: Any, tokenizer: PreTrainedTokenizerBase, constraint: VerbatimConstraint
) -> None:
    def generated(prompts: list[str]) -> list[str]:
        prompt = tokenizer(prompts, padding=True, return_tensors="pt")
        width = prompt["input_ids"].shape[1]
        masks = LogitsProcessorList([VerbatimLogitsProcessor(constraint, width, BUDGET)])
        said = model.generate(
            **prompt, max_new_tokens=BUDGET, logits_processor=masks, do_sample=False
        )
        return list(tokenizer.batch_decode(said[:, width:], skip_special_tokens=True))

    assert generated(PROMPTS) == [*generated(PROMPTS[:1]), *generated(PROMPTS[1:])]


def test_scores_of_what_is_allowed_stay_and_all_others_go(
    constraint: VerbatimConstraint, words: Vocabulary
) -> None:
    verbatim = VerbatimLogitsProcessor(constraint, prompt_tokens=2, budget=BUDGET)
    scores = torch.randn(3, 424)
    prompt: Any = torch.zeros((3, 2), dtype=torch.long)
    verbatim(prompt, scores)  # type: ignore[arg-type]
    start = list(constraint.make_token_filter(budget=BUDGET)([]))
    rows: Any = torch.tensor([[0, 0, start[0]], [5, 6, start[-1]], [0, 0, start[0]]])
    masked = verbatim(rows, scores)  # type: ignore[arg-type]
    for row, first in enumerate((start[0], start[-1], start[0])):
        ids = constraint.make_token_filter(budget=BUDGET)([first])
        assert torch.equal(masked[row, ids], scores[row, ids])
        assert torch.isfinite(masked[row]).sum() == len(ids)


def test_a_wrong_width_of_the_prompt_is_noticed(constraint: VerbatimConstraint) -> None:
    tokens: Any = torch.zeros((1, 5), dtype=torch.long)
    scores: Any = torch.zeros((1, 424))
    for wrong in (4, 6):
        with pytest.raises(ValueError, match="has 5 tokens"):
            VerbatimLogitsProcessor(constraint, wrong)(tokens, scores)
    assert torch.isneginf(VerbatimLogitsProcessor(constraint, 5)(tokens, scores)).any()
