"""An independent judge of support: a small cross-encoder that the writer never learns from.

The evidence model chooses demonstrations and preferences, so that it cannot measure what they
taught. This one begins with other weights (all-MiniLM-L6-v2) and learns from data that the evidence
model was not trained on: collections of labelled pairs, summaries of abstracts, and statements over
the articles of SQuAD that are left out of its training.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
import torch

from recipes.evidence_data import (
    exchange_detail,
    list_names,
    read_json_lines_xz,
    split_articles,
    split_sentences,
)
from recipes.evidence_questions import (
    CLAIM_KINDS,
    read_installed_quotes,
    read_site_folders,
)
from recipes.findings import format_estimate
from recipes.stages import print_progress
from recipes.writer_data import find_place
from recipes.writer_statements import shorten_sentence, state_answer
from rookery.ask.question_files import SquadArticle, SquadData, read_squad
from rookery.cite.claim_support import SUPPORT_THRESHOLD, judge_claim_support
from rookery.cite.evidence_model import (
    EvidenceJudgement,
    EvidencePassage,
    EvidenceTokenizer,
    find_best_span,
)
from rookery.learn.evidence_training import (
    EvidenceExample,
    EvidenceLogits,
    EvidenceNetwork,
    EvidenceTrainingSettings,
    collate_pairs,
    train_evidence_model,
)
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import choose_device
from rookery.learn.retrieval_training import MINILM_MODEL, find_encoder_folder
from rookery.measure.intervals import estimate_auroc, estimate_share

LONGEST_EVIDENCE = 900
"""characters of evidence in a pair that is learnt from: the model reads no more"""
_BATCH = 64
"""pairs that are judged at once"""
_LABELS: dict[str, Literal["supports", "refutes", "neither"]] = {
    "supports": "supports",
    "supported": "supports",
    "SUPPORTS": "supports",
    "refutes": "refutes",
    "REFUTES": "refutes",
    "neither": "neither",
    "not_supports": "neither",
    "not_supported": "neither",
    "partially_supported": "neither",
    "NOT_ENOUGH_INFO": "neither",
}
LEARNT = ("rte", "covidfact", "wice_dev")
"""collections in support/ of which most pairs are learnt from, and the others are held out"""
HELD_OUT = ("fever_symmetric_dev", "scifact_pairs")
"""collections in support/ that are only measured on"""


class SupportDataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the data of the judge of support."""

    articles: float = 0.5
    """share of SQuAD's articles that the evidence model and the writer learn from: the others are
    this judge's"""
    pairs: int = 8000
    """pairs of collections, at most, of each"""
    statements: int = 2500
    """questions of SQuAD whose statement, changed statement or sentence makes a pair"""
    summaries: int = 1500
    """abstracts whose summary makes pairs"""
    held: float = 0.15
    """share of the evidence of each part that is held out"""
    measured: int = 400
    """pairs of each held-out part that are judged, at most"""
    seed: int = 0


class SupportJudgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the judge of support."""

    base: str = MINILM_MODEL
    """folder of the BERT that it begins as; "minilm" is all-MiniLM-L6-v2"""
    data: SupportDataSettings = SupportDataSettings()
    training: EvidenceTrainingSettings = EvidenceTrainingSettings(
        frozen=0.0, optimising=OptimizerSettings(rate=8e-5, warmup=0.1, decay=0.01), epochs=3
    )


class SupportExamples(msgspec.Struct, frozen=True):
    """Pairs to learn from, and those that are held out, by part."""

    learnt: list[EvidenceExample]
    held: dict[str, list[EvidenceExample]]


def make_support_examples(settings: SupportDataSettings, data: Path) -> SupportExamples:
    """Return pairs of claims and evidence that the evidence model was not trained on.

    Pairs with the same evidence are all learnt from or all held out. Raises FileNotFoundError.
    """
    squad = read_squad(data / "squad" / "train.json.xz")
    parts: dict[str, list[EvidenceExample]] = {
        name: _read_pairs(data / "support" / f"{name}.jsonl.xz") for name in LEARNT
    }
    parts["climate_fever"] = _read_climate_claims(data / "climate_fever" / "climate-fever.jsonl.xz")
    parts["summaries"] = list(_pair_summaries(data / "scitldr", settings))
    for kind, example in _pair_statements(squad, settings):
        parts.setdefault(kind, []).append(example)
    learnt: list[EvidenceExample] = []
    held: defaultdict[str, list[EvidenceExample]] = defaultdict(list)
    for name, every in parts.items():
        Random(f"{settings.seed} {name}").shuffle(every)
        for each in every[: settings.pairs]:
            # By the article of a statement, whose quotes overlap; else by the evidence itself.
            key = each.heading if name.startswith("statements") else each.passage[:200]
            is_held = Random(f"{settings.seed} {key}").random() < settings.held
            (held[name] if is_held else learnt).append(each)
    for name in HELD_OUT:
        held[name] = _read_pairs(data / "support" / f"{name}.jsonl.xz")
    held["documentation"] = _read_written_claims()
    random = Random(f"{settings.seed} measured")
    chosen = {
        name: random.sample(every, min(settings.measured, len(every)))
        for name, every in held.items()
        if every
    }
    random.shuffle(learnt)
    return SupportExamples(learnt, chosen)


def _read_pairs(path: Path) -> list[EvidenceExample]:
    pairs = (
        EvidenceExample(each["claim"], " ".join(each["evidence"]), support=_LABELS[each["label"]])
        for each in read_json_lines_xz(path)
    )
    return [each for each in pairs if len(each.passage) <= LONGEST_EVIDENCE]


def _read_climate_claims(path: Path) -> list[EvidenceExample]:
    return [
        EvidenceExample(
            each["claim"],
            shown["evidence"],
            shown["article"],
            support=_LABELS[shown["evidence_label"]],
        )
        for each in read_json_lines_xz(path)
        for shown in each["evidences"]
    ]


def _read_written_claims() -> list[EvidenceExample]:
    """Read the claims that people wrote over installed documentation, in other words."""
    return [
        EvidenceExample(each.question.text, each.text, support=_LABELS[each.question.kind])
        for _, each in read_installed_quotes(read_site_folders())
        if each.question.kind in CLAIM_KINDS
    ]


def _pair_summaries(folder: Path, settings: SupportDataSettings) -> Iterator[EvidenceExample]:
    """Yield one-sentence summaries, which say in other words what an abstract says: as they are,
    with a detail exchanged, and with another abstract."""
    lines = [
        each for path in sorted(folder.glob("*.jsonl.xz")) for each in read_json_lines_xz(path)
    ]
    random = Random(f"{settings.seed} summaries")
    random.shuffle(lines)
    abstracts = [" ".join(each["source"])[:LONGEST_EVIDENCE] for each in lines]
    for each, abstract in zip(lines[: settings.summaries], abstracts, strict=False):
        summary = str(each["target"][0])
        yield EvidenceExample(summary, abstract, support="supports")
        changed = exchange_detail(summary, [], random)
        if changed is not None:
            yield EvidenceExample(changed, abstract, support="refutes")
        yield EvidenceExample(summary, random.choice(abstracts), support="neither")


def _pair_statements(
    squad: SquadData, settings: SupportDataSettings
) -> Iterator[tuple[str, EvidenceExample]]:
    """Yield pairs over the articles that the evidence model does not learn from, with their part.

    A statement says in other words what its quote says (paraphrases); with a detail exchanged it is
    refuted (details), and another place of the article says nothing of it.
    """
    seen = split_articles(squad, settings.articles, settings.seed)
    articles = {each.name: each for each in squad.articles if each.name not in seen}
    known = {
        word.strip(".,;:()\"'").lower()
        for article in articles.values()
        for paragraph in article.paragraphs
        for word in paragraph.split()
    }
    names = {name: list_names(each.paragraphs) for name, each in articles.items()}
    asked = [each for each in squad.questions if each.source in articles and each.gold]
    Random(f"{settings.seed} asked").shuffle(asked)
    left = settings.statements
    for question in asked:
        if not left:
            return
        random, article = Random(f"{settings.seed} {question.id}"), articles[question.source]
        number = squad.places[question.id][1]
        place = find_place(article, number, question.gold[0], question.text, random)
        if place is None:
            continue
        said = state_answer(question.text, question.gold[0], place.before, known)
        if said is None and random.random() < 0.3:
            said = shorten_sentence(place.page.text[slice(*place.sentence)], question.gold[0])
        if said is None:
            continue
        left -= 1
        shown, title = place.page.text[slice(*place.window)], article.title
        yield "statements, paraphrased", EvidenceExample(said, shown, title, support="supports")
        changed = exchange_detail(said, names[article.name], random)
        if changed is not None:
            yield (
                "statements, a detail exchanged",
                EvidenceExample(changed, shown, title, support="refutes"),
            )
        if other := _find_other_place(article, question.gold[0], random):
            yield "statements, elsewhere", EvidenceExample(said, other, title, support="neither")


def _find_other_place(article: SquadArticle, gold: str, random: Random) -> str:
    """Return up to three sentences of a paragraph without the answer; empty if none is drawn."""
    paragraph = random.choice(article.paragraphs)
    if gold.lower() in paragraph.lower():
        return ""
    spans = split_sentences(paragraph)
    first = random.randrange(len(spans))
    return paragraph[spans[first][0] : spans[min(first + 2, len(spans) - 1)][1]][:LONGEST_EVIDENCE]


def train_support_judge(
    settings: SupportJudgeSettings, examples: Sequence[EvidenceExample], out: Path
) -> Path:
    """Train the judge and return the folder of its network. Raises Failed, as training does."""

    def print_step(step: int, steps: int, measured: dict[str, float]) -> None:
        if step % 50 == 0 or step == steps:
            print_progress(f"judge of support, step {step} of {steps}: {measured['loss']:.3f}")

    base = find_encoder_folder(settings.base)
    return Path(train_evidence_model(settings.training, base, examples, out, print_step).model)


class SupportJudge:
    """Judges support with a network of a folder, on the usual device; heads for answers are not
    trained, and what it says of them means nothing. Raises Failed: no_model, bad_model."""

    def __init__(self, folder: Path) -> None:
        self._device = choose_device("")
        self._network = EvidenceNetwork.load_folder(folder).to(self._device).eval()
        self._tokenizer = EvidenceTokenizer(folder)

    @torch.inference_mode()
    def judge_passages(
        self, query: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        """Judge each passage for a claim."""
        pairs = [self._tokenizer.encode_pair(query, each) for each in passages]
        judged = []
        for at in range(0, len(pairs), _BATCH):
            batch = pairs[at : at + _BATCH]
            found: EvidenceLogits = self._network(**collate_pairs(batch, self._device))
            shares = found.support_N3.softmax(-1).tolist()
            starts, ends = found.starts_NT.tolist(), found.ends_NT.tolist()
            for number, pair in enumerate(batch):
                span, margin = find_best_span(starts[number], ends[number], pair.offsets)
                judged.append(
                    EvidenceJudgement(float(found.answers_N[number]), span, margin, *shares[number])
                )
        return judged


def describe_support_judge(
    judge: SupportJudge, held: Mapping[str, Sequence[EvidenceExample]]
) -> Iterator[str]:
    """Yield a line for each held-out part: how often the judge calls a claim supported that is, and
    one that is not, and how well it tells them apart."""
    for name, examples in held.items():
        scores: dict[bool, list[float]] = {True: [], False: []}
        for each in examples:
            passage = EvidencePassage(each.passage, each.heading)
            found = judge_claim_support(each.query, [passage], judge.judge_passages).supports
            scores[each.support == "supports"].append(found)
        called: dict[bool, Any] = {
            right: estimate_share(sum(one >= SUPPORT_THRESHOLD for one in values), len(values))
            for right, values in scores.items()
            if values
        }
        said = [
            f"{format_estimate(called[right])} of {len(scores[right])} that {what}"
            for right, what in ((True, "are"), (False, "are not"))
            if right in called
        ]
        apart = (
            f"; AUROC {format_estimate(estimate_auroc(scores[True], scores[False]))}"
            if len(said) == 2
            else ""
        )
        right = sum(
            (score >= SUPPORT_THRESHOLD) == kind for kind in scores for score in scores[kind]
        )
        yield (
            f"judge of support on {name}, held out: accuracy {right / len(examples):.3f}; "
            f"called supported: {', '.join(said)}{apart}"
        )
