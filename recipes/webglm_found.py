"""Effects of the WebGLM recipe, with the scores of every question, figures and notes."""

from collections.abc import Iterator, Sequence
from functools import partial

from recipes.findings import Effect, ScoreTable
from recipes.measures import make_curves_figure
from recipes.webglm_data import Data
from recipes.webglm_generator import (
    FEW_SHOT,
    FIRST_REFERENCE,
    LOT_REFERENCE,
    SURVIVES,
    TRAINED,
    GeneratedClaims,
)
from recipes.webglm_stages import FIRST_REFERENCES, RankedQuestion, Settings
from rookery.library.question_files import is_correct_answer
from rookery.measure.figures import Figure
from rookery.measure.intervals import estimate_mean
from rookery.measure.text_metrics import compute_token_f1
from rookery.records import Answer, Question

START, DISTILLED = "start", "distilled"
RANDOM_ORDER = "order by lot"
COPIED_REFERENCE = "reference as it is"


def list_effects() -> Iterator[Effect]:
    """Yield what the paper claims of the retriever and of the generator."""
    make_rank_effect = partial(
        Effect,
        learnt=DISTILLED,
        reference=START,
        floors=(RANDOM_ORDER, "BM25", "TF-IDF"),
        expected=0.05,
        chosen="nothing on these folders; settings of version 0.2 (docs/LOG.md)",
    )
    yield make_rank_effect(
        effect="the retriever distilled from citations ranks a passage that answers first more "
        "often than its start",
        paper="accuracy 69.36 against 18.54, 40.33 and 46.85 % (table 7; from Contriever)",
        table="first",
    )
    yield make_rank_effect(
        effect=f"and among the first {FIRST_REFERENCES} more often",
        paper="not measured",
        table="among the first",
    )
    make_claim_effect = partial(
        Effect,
        paper="not compared with the model that bootstraps; people find WebGLM-10B nearly as "
        "correct as WebGPT-175B (2.81 of 3, section 5.1)",
        learnt=TRAINED,
        reference=FEW_SHOT,
        floors=(LOT_REFERENCE, FIRST_REFERENCE),
        facts=(COPIED_REFERENCE,),
        expected=0.1,
        chosen="the filters, on 60 other questions (docs/LOG.md)",
    )
    yield make_claim_effect(
        effect="trained on those of its own claims that filters leave, the model is right more "
        "often",
        table="claims",
    )
    yield make_claim_effect(
        effect="and its claims share more with the accepted answers", table="F1 of claims"
    )


def make_ranking_tables(
    ranked: Sequence[RankedQuestion], settings: Settings
) -> Iterator[ScoreTable]:
    """Yield the share of questions for which a passage that answers is first, and among the
    first."""
    names = {"BM25": "BM25", "TF-IDF": "TF-IDF", "lot": RANDOM_ORDER}
    names |= {"0": START, f"{settings.counts[-1]}": DISTILLED}
    ids = tuple(each.id for each in ranked)
    first, among = (
        {name: tuple(row[each] for row in rows) for each, name in names.items()}
        for rows in ([each.first for each in ranked], [each.among for each in ranked])
    )
    yield ScoreTable("first", "share of questions of which it ranks an answer first", ids, first)
    says = f"share of questions of which an answer is among its first {FIRST_REFERENCES}"
    yield ScoreTable("among the first", says, ids, among)


def make_claim_tables(claims: GeneratedClaims) -> Iterator[ScoreTable]:
    """Yield the share of right claims, and their F1."""
    questions = [question for question, _ in claims.pointed]
    copies: list[Answer | None] = [Answer(quote.text, (quote,)) for _, quote in claims.pointed]
    answers = {**claims.answers, COPIED_REFERENCE: copies}
    ids = tuple(each.id for each in questions)
    right = {name: tuple(map(_score_right, questions, each)) for name, each in answers.items()}
    says = "share of questions whose claim holds an accepted answer, as does what it cites"
    yield ScoreTable("claims", says, ids, right)
    f1 = {name: tuple(map(_score_f1, questions, each)) for name, each in answers.items()}
    yield ScoreTable("F1 of claims", "F1 of a claim's words and an accepted answer's", ids, f1)


def _score_right(question: Question, answer: Answer | None) -> float:
    return float(is_correct_answer(question, answer))


def _score_f1(question: Question, answer: Answer | None) -> float:
    return compute_token_f1(answer.text, question.gold) if answer else 0.0


def make_labels_figure(ranked: Sequence[RankedQuestion], settings: Settings) -> Figure:
    """Make the curve of accuracy by number of questions learnt from."""
    counts = (0, *settings.counts)
    return make_curves_figure(
        "labels",
        "Accuracy by questions learnt from",
        f"Share of {len(ranked)} questions for which the retriever ranks a passage of its folder "
        "first that answers, by the number of questions about other folders that it learnt from; "
        "0 is its start (WebGLM, section 3.1.3).",
        {
            line: [
                (
                    float(count),
                    estimate_mean(
                        [each.first[f"{count}" if line == "retriever" else line] for each in ranked]
                    ),
                )
                for count in counts
            ]
            for line in ("retriever", "BM25", "TF-IDF")
        },
        ("questions learnt from", "accuracy"),
    )


def list_notes(data: Data, claims: GeneratedClaims, settings: Settings) -> Iterator[str]:
    """Yield notes on differences from the paper."""
    yield (
        f"The retriever starts from MiniLM, which has learnt from SQuAD and StackExchange. The "
        f"{len(data.folders)} folders of documents and their questions were invented in 2026: no "
        "model here has seen them. Each question is measured once, by a retriever that learnt from "
        f"up to {settings.counts[-1]} questions about others (WebGLM: 20,000); a question's "
        "references are all sections of its folder, and those that answer it count as cited."
    )
    yield (
        "The generator is SmolLM2-135M, which may have read SQuAD's articles and questions; what "
        "it is compared with has, too. A question's references are the sentences of its page; the "
        "one is cited after which the question is likeliest, by the untrained model."
    )
    fates = dict(claims.fates)
    survivors = fates.pop(SURVIVES, 0)
    rest = ", ".join(f"{name} {count}" for name, count in fates.items())
    yield (
        f"Of {sum(claims.fates.values())} claims that the generator's start wrote without knowing "
        f"the accepted answers, {survivors} survive the filters ({rest})."
    )
    yield (
        "The scorer (section 3.3) is open: there are no comparisons by people of answers with "
        "evidence here. Votes of two small forums told who came first, and what was left when "
        "pairs were balanced by time showed nothing in version 0.2."
    )
