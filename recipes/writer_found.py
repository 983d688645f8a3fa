"""Measures of written answers beside the quotes that they rest on, on questions not trained on.

Questions are those of Natural Questions (EfficientQA) and TriviaQA that an article of SQuAD may
answer, some of SQuAD about articles that nothing here learns from, and those of bench/questions
about sites that are at hand. Only where `extract` answers is there anything to write, so systems
are compared on these.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
import torch

from recipes.evidence_data import exchange_detail, split_articles
from recipes.findings import Effect, ScoreTable, format_estimate
from recipes.line_completions import StoredPolicy, complete_lines
from recipes.stages import ROOT, print_progress
from recipes.writer_data import (
    REFERENCES,
    WriterDataSettings,
    render_trained_prompt,
    show_sources,
)
from recipes.writer_statements import is_sound
from rookery.ask.question_files import SquadData, read_squad, write_site
from rookery.browse.file_selection import FileSelection
from rookery.browse.folder_library import FolderLibrary
from rookery.browse.libraries import get_bundled_folder
from rookery.browse.page_archive import PageArchive
from rookery.browse.passages import find_sentences
from rookery.browse.search_terms import get_question_terms, split_terms
from rookery.cite.claim_support import judge_claim_support
from rookery.cite.evidence_model import EvidenceJudge, EvidencePassage
from rookery.cite.repair import list_guarded_words
from rookery.cite.sentence_support import UNSUPPORTED, locate_answers
from rookery.cite.word_overlap import split_words
from rookery.draft.evidence_answers import answer_by_evidence
from rookery.draft.gold_answers import contains_gold_answer
from rookery.draft.webglm import WEBGLM_METHOD
from rookery.draft.written_answers import (
    WritingSettings,
    put_into_words,
    render_writing_prompt,
)
from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SamplingSettings
from rookery.learn.minibatches import predict_actions
from rookery.learn.pretrained_models import load_model
from rookery.learn.prompt_encoding import tokenize_prompt
from rookery.measure.citations import CitedStatement, list_statements
from rookery.measure.figures import Figure, make_bars_figure
from rookery.measure.intervals import Estimate, estimate_mean, estimate_share
from rookery.records import Answer, Claim, Episode, Library, Page, Question, prepare_type

LEAST_FACT = 0.6
"""least share of a pattern's words in an answer that holds the fact"""
MOST_READ = 120
"""tokens of an answer whose surprise is taken"""
LEAST_WORDS = 0.75
"""least share of a sentence's words in what it cites or in the question, from which the rule calls
it supported"""
LEAST_COVERED = 0.6
"""least share of a cited sentence's words in a statement, from which its negation counts"""
_NEGATION = re.compile(r"\b(?:not|no|never|none|cannot|neither|nor|without)\b|n['’]t\b", re.I)


_SIDE = re.compile(r"\A(?:Yes|No), ")


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question of a set that is measured on, and what a right answer holds."""

    id: str
    text: str
    part: str
    """nq, triviaqa, or the name of a site"""
    gold: tuple[str, ...] = ()
    """accepted answers"""
    facts: tuple[str, ...] = ()
    """patterns of the quotes that are accepted (bench/questions)"""

    def is_held(self, text: str) -> bool:
        """Return True if a text holds an accepted answer, or most words of an accepted fact."""
        if self.gold:
            return any(contains_gold_answer(text, gold) for gold in self.gold)
        asked, said = set(split_words(self.text, stem=True)), set(split_words(text, stem=True))
        for pattern in "|".join(self.facts).split("|"):
            literal = re.sub(r"\\[SsWwDdb]|\{[^}]*\}|\\(?=.)", " ", pattern)
            words = set(split_words(literal, stem=True)) - asked
            if words and len(words & said) >= LEAST_FACT * len(words):
                return True
        return False


def list_open_questions(folder: Path, squad: SquadData, shared: float) -> list[AskedQuestion]:
    """Return the questions of both sets for which a paragraph holds an accepted answer and
    a share of the question's terms of at least `shared`."""
    asked: list[AskedQuestion] = []
    nq = (folder / "NQ-open.efficientqa.dev.1.1.jsonl").read_text().splitlines()
    for number, each in enumerate(map(json.loads, nq)):
        asked.append(AskedQuestion(f"nq-{number}", each["question"], "nq", tuple(each["answer"])))
    trivia = (folder / "triviaqa_300.jsonl").read_text().splitlines()
    for number, each in enumerate(map(json.loads, trivia)):
        text = each["context"].removeprefix("Question: ").rpartition("\nAnswer:")[0]
        gold = tuple(dict.fromkeys([each["answer"], *each["aliases"]]))
        asked.append(AskedQuestion(f"triviaqa-{number}", text, "triviaqa", gold))
    paragraphs = [(f"{a.title} {p}", p) for a in squad.articles for p in a.paragraphs]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, (text, _) in enumerate(paragraphs):
        for term in set(split_terms(text)):
            places[term].append(number)
    return [each for each in asked if _may_be_answered(each, paragraphs, places, shared)]


def _may_be_answered(
    asked: AskedQuestion,
    paragraphs: Sequence[tuple[str, str]],
    places: Mapping[str, list[int]],
    least: float,
) -> bool:
    terms = set(get_question_terms(asked.text))
    shared: defaultdict[int, int] = defaultdict(int)
    for term in terms:
        for number in places.get(term, ()):
            shared[number] += 1
    likely = [n for n, count in shared.items() if count >= least * len(terms)]
    gold = [re.compile(rf"(?<!\w){re.escape(each)}(?!\w)", re.I) for each in asked.gold if each[1:]]
    return any(each.search(paragraphs[number][1]) for number in likely for each in gold)


class MeasureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Questions that are asked, and how answers are written."""

    open_questions: bool = True
    """ask those of Natural Questions and TriviaQA"""
    shared: float = 0.65
    """least share of such a question's terms in a paragraph that holds an accepted answer, from
    which it is asked"""
    unseen: int = 0
    """questions of SQuAD about articles that nothing here learns from"""
    sites: dict[str, str] = {}
    """folders of sites of bench/questions, each with the pattern of its pages behind it. A site
    that lies in the data folder under sites/NAME is read there; one that is nowhere is left out"""
    tokens: int = 72
    """tokens of an answer, at most"""


class FoundAnswer(msgspec.Struct, frozen=True):
    """A question and the answer of `extract`."""

    asked: AskedQuestion
    episode: Episode


class MeasuredAnswer(msgspec.Struct, frozen=True):
    """An answer of one system and what was measured of it."""

    id: str
    part: str
    question: str
    text: str
    written: bool
    """it is the model's; else it is the quotes as they are"""
    held: bool
    """it holds an accepted answer"""
    sentences: int
    supported: int
    """of the sentences, those that the rule calls supported"""
    judged: int
    """of the sentences, those that the independent judge calls supported"""
    taken_out: int
    """sentences that the model wrote and that were taken out"""
    surprise: float
    """nats a token, by the model as it was, as its answer to the question"""


class WrittenAnswers(msgspec.Struct, frozen=True):
    """The answers of one system to all questions that `extract` answers."""

    system: str
    answers: list[MeasuredAnswer]


def answer_from_quotes(
    settings: MeasureSettings,
    trained: WriterDataSettings,
    data: Path,
    out: Path,
    judge: EvidenceJudge,
) -> list[FoundAnswer]:
    """Answer every question by `extract`; what was answered before is read from the folder.

    `trained` says which articles of SQuAD are learnt from.
    """
    out.mkdir(parents=True, exist_ok=True)
    found: list[FoundAnswer] = []
    archive = PageArchive(out / "archive.sqlite")
    if settings.open_questions or settings.unseen:
        squad = read_squad(data / "squad" / "train.json.xz")
        write_site(squad.articles, out / "web")
        library = FolderLibrary(out / "web", archive, out / "cache")
        asked = []
        if settings.open_questions:
            asked = list_open_questions(data / "questions", squad, settings.shared)
        found += _answer_all(asked, library, judge, out / "open.jsonl")
        unseen = list_unseen_questions(squad, trained, settings.unseen)
        found += _answer_all(unseen, library, judge, out / "unseen.jsonl")
    for name, place in settings.sites.items():
        lines = (ROOT / "bench" / "questions" / f"build_{name}.jsonl").read_bytes().splitlines()
        about = [msgspec.json.decode(line) for line in lines]
        asked = [
            AskedQuestion(each["id"], each["text"], name, facts=tuple(each["facts"]))
            for each in about
            if each.get("facts")
        ]
        folder = _find_site(name, Path(place), data)
        if not (folder.is_dir() or (out / f"{name}.jsonl").exists()):
            print_progress(f"{name} is neither in {data / 'sites'} nor installed: left out")
            continue
        selection = FileSelection(glob=(Path(place).name,))
        library = FolderLibrary(folder, archive, out / "cache", selection=selection)
        found += _answer_all(asked, library, judge, out / f"{name}.jsonl")
    return found


def _find_site(name: str, place: Path, data: Path) -> Path:
    if name == "corvids":
        return get_bundled_folder()
    carried = data / "sites" / name
    return carried if carried.is_dir() else place.parent


def list_unseen_questions(
    squad: SquadData, trained: WriterDataSettings, count: int
) -> list[AskedQuestion]:
    """Return questions of SQuAD, by lot, about articles that are not learnt from."""
    seen = split_articles(squad, trained.articles, trained.seed)
    every = [each for each in squad.questions if each.source not in seen and each.gold]
    chosen = Random(f"{trained.seed} unseen").sample(every, min(count, len(every)))
    return [AskedQuestion(each.id, each.text, "squad", each.gold) for each in chosen]


def _answer_all(
    asked: Sequence[AskedQuestion], library: Library, judge: EvidenceJudge, place: Path
) -> list[FoundAnswer]:
    lines = place.read_bytes().splitlines() if place.exists() else []
    found = [msgspec.json.decode(line, type=prepare_type(FoundAnswer)) for line in lines]
    known = {each.asked.id for each in found}
    left = [each for each in asked if each.id not in known]

    def answer(each: AskedQuestion) -> FoundAnswer:
        return FoundAnswer(each, answer_by_evidence(Question(each.id, each.text), library, judge))

    with place.open("ab") as file, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # The first question indexes the library, which one thread does best.
        for some in (left[:1], left[1:]):
            for each in pool.map(answer, some):
                found.append(each)
                file.write(msgspec.json.encode(each) + b"\n")
                file.flush()
    return found


def quote_sentences(found: Sequence[FoundAnswer], judge: EvidenceJudge) -> list[Episode]:
    """Answer by the sentences that the prompt shows, as they stand: the simplest script."""
    episodes = []
    for each in found:
        if each.episode.stop == "end" and each.episode.answer is not None:
            quotes = each.episode.answer.quotes
            text = locate_answers(each.asked.text, quotes[:1], judge)[0].text
            answer = Answer(text, quotes[:1], (Claim(0, len(text), (0,)),))
            episodes.append(msgspec.structs.replace(each.episode, answer=answer))
    return episodes


def write_answers(
    found: Sequence[FoundAnswer],
    folder: Path,
    trained: bool,
    judge: EvidenceJudge,
    settings: MeasureSettings,
) -> list[Episode]:
    """Have a model put what was answered into words, by always the likeliest token.

    A `trained` one is shown the prompt that it was trained on. As in `rookery ask --write`, a line
    is an answer.
    """
    answered = [each.episode for each in found if each.episode.stop == "end"]
    writing = WritingSettings(references=REFERENCES if trained else 1)

    def render_prompts(each: Episode) -> tuple[str, str]:
        """Return the prompt that `put_into_words` gives, and the one that the model is shown."""
        assert each.answer is not None
        question, quotes = each.question.text, each.answer.quotes
        sources = locate_answers(question, quotes, judge)
        usual = render_writing_prompt(question, sources[: writing.references])
        if not trained:
            return usual, usual
        return usual, render_trained_prompt(question, show_sources(question, quotes, judge))

    sampling = SamplingSettings(max_tokens=settings.tokens, temperature=0, rows=256)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        prompts = list(pool.map(render_prompts, answered))
        said = complete_lines(folder, [shown for _, shown in prompts], sampling)
        usual = (prompt for prompt, _ in prompts)
        policy = StoredPolicy(dict(zip(usual, said, strict=True)))
        return list(
            pool.map(lambda each: put_into_words(each, policy, judge, settings=writing), answered)
        )


def measure_answers(
    system: str,
    found: Sequence[FoundAnswer],
    episodes: Sequence[Episode],
    base: Path,
    support: EvidenceJudge,
) -> WrittenAnswers:
    """Measure the answers of one system; `base` is the model whose surprise is taken, `support` the
    judge that nothing has learnt from."""
    asked = [each.asked for each in found if each.episode.stop == "end"]
    loaded = load_model(base)
    measured = []
    for each, episode in zip(asked, episodes, strict=True):
        answer = episode.answer
        assert answer is not None
        statements = list_statements(answer)
        row = ActionRow(
            tokenize_prompt(loaded.tokenizer, each.text),
            loaded.tokenizer(answer.text, add_special_tokens=False)["input_ids"][:MOST_READ],
        )
        with torch.inference_mode():
            logprobs, _ = predict_actions(loaded.model, [row], min(loaded.ends), False)
        measured.append(
            MeasuredAnswer(
                each.id,
                each.part,
                each.text,
                answer.text,
                episode.by == WEBGLM_METHOD,
                each.is_held(answer.text),
                len(statements),
                sum(is_supported_by_words(one, each.text) for one in statements),
                sum(_is_judged_supported(one, support) for one in statements),
                sum(failure.outcome == UNSUPPORTED for failure in episode.failures),
                float(-logprobs.mean()),
            )
        )
    return WrittenAnswers(system, measured)


def _is_judged_supported(statement: CitedStatement, support: EvidenceJudge) -> bool:
    text = _SIDE.sub("", statement.text)
    return judge_claim_support(text, statement.cited, support).outcome == "supports"


def is_supported_by_words(statement: CitedStatement, question: str) -> bool:
    """Judge by a rule whether what a statement cites supports it.

    Each of its numbers, names and negations must stand there, in the title or in the question, and
    so must three of four of its words; and where it says most of the cited sentence that shares
    most words with it, it must not lack that sentence's negation. A "Yes," or "No," is not looked
    at.
    """
    text = _SIDE.sub("", statement.text)
    cited = " ".join(f"{each.heading} {each.text}" for each in statement.cited)
    if not cited:
        return False
    known = f"{cited} {question}".casefold()
    if not all(
        re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", known)
        for word in list_guarded_words(text)
    ):
        return False
    said = set(split_words(text, stem=True))
    if len(said & set(split_words(known, stem=True))) < LEAST_WORDS * len(said):
        return False
    sentences = [
        each.text[start:end]
        for each in statement.cited
        for start, end in find_sentences(Page("", "", each.text), 0, len(each.text))
    ]
    nearest = max(sentences, key=lambda other: len(said & set(split_words(other, stem=True))))
    read = set(split_words(nearest, stem=True))
    covers = len(said & read) >= LEAST_COVERED * len(read)
    return not (covers and _NEGATION.search(nearest) and not _NEGATION.search(text))


def describe_rule(episodes: Sequence[Episode], seed: int = 0) -> str:
    """Say how often the rule calls demonstrations supported, as they are and with a detail
    exchanged."""
    random, calls = Random(f"{seed} rule"), defaultdict[str, list[bool]](list)
    sentences = [each.answer.text for each in episodes if each.answer is not None]
    names = sorted({word for text in sentences for word in re.findall(r"(?<= )[A-Z]\w+", text)})
    for each in episodes:
        if each.answer is None:
            continue
        quote = EvidencePassage(each.answer.quotes[0].text, each.answer.quotes[0].title)
        changed = exchange_detail(each.answer.text, names, random)
        for kind, text in (("as they are", each.answer.text), ("with a detail exchanged", changed)):
            if text is not None:
                statement = CitedStatement(text, (quote,))
                calls[kind].append(is_supported_by_words(statement, each.question.text))
    shares = (
        f"{format_estimate(estimate_share(sum(values), len(values)))} {kind}"
        for kind, values in calls.items()
    )
    return f"the rule calls demonstrations supported: {', '.join(shares)}"


def make_effects() -> list[Effect]:
    """Return the condition of shipping that is judged by scores of the same questions."""
    return [
        Effect(
            effect="written answers hold the accepted answer as often as extract's, within .03",
            paper="none: a condition of shipping",
            table="held",
            learnt="adapter",
            reference="extract",
            script=("sentence", "without", "imitated"),
            absent={
                "chance": "no text by lot holds an accepted answer",
                "best": "extract: what is written rests on its quotes",
            },
            claim="same",
            margin=0.03,
            chosen="the margin before the run; rules of the demonstrations on data that are "
            "trained on",
        )
    ]


def make_table(systems: Mapping[str, WrittenAnswers]) -> ScoreTable:
    """Return whether each answer of each system holds the accepted answer."""
    return ScoreTable(
        "held",
        "share of questions whose answer holds the accepted one",
        tuple(each.id for each in systems["extract"].answers),
        {
            name: tuple(float(each.held) for each in system.answers)
            for name, system in systems.items()
        },
    )


def describe_written(systems: Mapping[str, WrittenAnswers]) -> Iterator[str]:
    """Yield the measures of what was written, each beside the model without the adapter. What is
    written differs by system, so that they are no scores of the same questions and not judged."""
    extract, script, plain, imitated, learnt = (
        systems[name].answers for name in ("extract", "sentence", "without", "imitated", "adapter")
    )
    ours = _keep_written(learnt)
    compared = {
        "without the adapter": _keep_written(plain),
        "imitation alone": _keep_written(imitated),
        "the quotes": extract,
    }
    for judged, name in ((True, "the judge that was not trained on"), (False, "a rule")):
        others = ", ".join(
            f"{what} {format_estimate(_estimate_support(answers, judged))}"
            for what, answers in compared.items()
        )
        yield (
            f"written sentences supported by {name}: "
            f"{format_estimate(_estimate_support(ours, judged))}; {others}; to ship .970"
        )
    yield (
        "written answers surprise the model as it was less than extract's, as answers to the "
        f"question, in {format_estimate(_estimate_wins(learnt, extract))} of those that were "
        f"written, and less than the sentence alone in "
        f"{format_estimate(_estimate_wins(learnt, script))}; without the adapter "
        f"{format_estimate(_estimate_wins(plain, extract))} and "
        f"{format_estimate(_estimate_wins(plain, script))}; chance .500"
    )
    written, unaided, once = (
        estimate_share(sum(each.written for each in answers), len(answers))
        for answers in (learnt, plain, imitated)
    )
    yield (
        "answers that are written, and not the quotes for want of a supported sentence: "
        f"{format_estimate(written)}; without the adapter {format_estimate(unaided)}, imitation "
        f"alone {format_estimate(once)}"
    )


def _estimate(values: Sequence[float], groups: Sequence[int] | None = None) -> Estimate:
    """Return the mean; 0 of none where a system wrote nothing."""
    return estimate_mean(values, groups) if values else Estimate(0.0, 0.0, 0.0, 0)


def _keep_written(answers: Sequence[MeasuredAnswer]) -> list[MeasuredAnswer]:
    return [each for each in answers if each.written]


def _estimate_support(answers: Sequence[MeasuredAnswer], judged: bool) -> Estimate:
    """Estimate the share of sentences that are supported, by the judge or by the rule. Answers are
    drawn as wholes."""
    values, groups = [], []
    for number, each in enumerate(answers):
        supported = each.judged if judged else each.supported
        values += [1.0] * supported + [0.0] * (each.sentences - supported)
        groups += [number] * each.sentences
    return _estimate(values, groups)


def _estimate_wins(ours: Sequence[MeasuredAnswer], theirs: Sequence[MeasuredAnswer]) -> Estimate:
    pairs = [
        float(our.surprise < their.surprise)
        for our, their in zip(ours, theirs, strict=True)
        if our.written
    ]
    return _estimate(pairs)


def make_figures(systems: Mapping[str, WrittenAnswers]) -> list[Figure]:
    """Return one figure with every measure of every system."""
    measured = {}
    for name, system in systems.items():
        answers = system.answers
        written = [each for each in answers if each.written or name in ("extract", "sentence")]
        measured[name] = {
            "holds the accepted answer": estimate_share(
                sum(each.held for each in answers), len(answers)
            ),
            "supported by the judge": _estimate_support(written, True),
            "supported by the rule": _estimate_support(written, False),
            "written": estimate_share(sum(each.written for each in answers), len(answers)),
            "well formed": estimate_share(
                sum(is_sound(each.text) for each in answers), len(answers)
            ),
            "nats a token": _estimate([each.surprise for each in written]),
            "words": _estimate([float(len(each.text.split())) for each in written]),
        }
    parts = sorted({each.part for each in systems["extract"].answers})
    says = f"Questions that extract answers, of {', '.join(parts)}."
    return [make_bars_figure("written", "Written answers beside quotes", says, measured, "value")]


def describe_parts(systems: Mapping[str, WrittenAnswers]) -> list[str]:
    """Return a line for each part: how many questions, and how often each system holds the
    answer."""
    lines = []
    for part in sorted({each.part for each in systems["extract"].answers}):
        held = {
            name: [each.held for each in system.answers if each.part == part]
            for name, system in systems.items()
        }
        shares = ", ".join(f"{name} {fmean(values):.2f}" for name, values in held.items())
        lines.append(f"{part}: {len(held['extract'])} questions; accepted answer held by {shares}")
    return lines
