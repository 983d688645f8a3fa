"""Examples of the evidence recipe: questions and claims with passages, made of public data.

Questions come from SQuAD, forums and those written over documentation (evidence_questions.py); what
does not answer them is taken from near by, or the question is changed so that the passage answers
it no longer (as in SQuAD 2.0). Claims come from collections of labelled pairs, from sentences that
were changed, and from those written.
"""

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec
import sentencex

from recipes.evidence_questions import (
    list_folder_examples,
    list_judged_examples,
    list_written_examples,
)
from recipes.evidence_training import EvidenceExample
from rookery.errors import Failed
from rookery.evidence.evidence_model import EvidenceJudge
from rookery.library.question_files import SquadData, read_squad
from rookery.pages.page_reader import read_page
from rookery.records import Failure, Page, Question

_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w.-]+(?: (?:of |the )?[A-Z][\w.-]+)*")
_AUXILIARY = re.compile(r"\b(is|are|was|were|did|does|do|can|could|will|would|must|may|has|have)\b")
_OPPOSITES = """
first last|largest smallest|biggest smallest|highest lowest|most least|before after|north south
east west|northern southern|eastern western|increase decrease|increased decreased|rise fall
early late|earliest latest|old new|oldest newest|older newer|long short|longest shortest
male female|men women|man woman|win lose|won lost|more fewer|more less|above below|upper lower
allow forbid|allowed forbidden|accept reject|accepted rejected|support oppose|supported opposed
begin end|began ended|start stop|started stopped|enable disable|enabled disabled|open close
opened closed|public private|always never|minimum maximum|ancient modern|rich poor|hot cold
add remove|added removed|create delete|created deleted|internal external|import export
strong weak|common rare|positive negative|inside outside|success failure|single multiple
read write|client server|local remote|enter leave|buy sell|best worst|major minor|young old
"""
_OPPOSITE = {
    word: other
    for pair in _OPPOSITES.replace("\n", "|").split("|")
    if pair.strip()
    for word, other in (pair.split(), pair.split()[::-1])
}


class EvidenceDataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the parts of the data; 0 leaves a part out."""

    articles: float = 0.5
    """share of SQuAD's articles that questions are taken from; the rest stays unseen"""
    questions: int = 5000
    """questions of SQuAD"""
    written: tuple[str, ...] = ()
    """sites whose files in recipes/questions are taken; all must be installed"""
    found: tuple[str, ...] = ()
    """those of these sites whose files in recipes/questions/found are taken too"""
    judged: tuple[str, ...] = ()
    """sites of bench.documentation whose files in recipes/questions/judged are taken"""
    folders: tuple[str, ...] = ()
    """folders of recipes/questions/folders whose questions are taken"""
    windows: Literal[1, 2] = 2
    """examples of each written quote that answers: in its section and in a run of blocks, or one of
    the two by lot"""
    threads: int = 500
    """threads of the forums"""
    pairs: dict[str, int] = msgspec.field(
        default_factory=lambda: {"conjnli": 2000, "monotonicity": 600, "breaking_nli": 900}
    )
    """pairs of each collection in support/, whose labels are drawn equally often"""
    yes_no: int = 2000
    """yes-or-no questions of BoolQ, as claims"""
    claims: int = 1200
    """sentences of SQuAD's articles, as claims"""
    seed: int = 0


def make_examples(
    settings: EvidenceDataSettings,
    data: Path,
    sites: Mapping[str, Path],
    judge: EvidenceJudge,
) -> list[EvidenceExample]:
    """Return the examples of all parts, the same for the same settings, data, packages and judge.

    `sites` has the folders of those that are named in `written` and `judged`; `judge` chooses what
    does not answer of `folders`. Raises Failed (no_data).
    """
    squad = read_squad(data / "squad" / "train.json.xz")
    training_articles = split_articles(squad, settings.articles, settings.seed)
    questions = [each for each in squad.questions if each.source in training_articles and each.gold]
    chosen = _sample(questions, settings.questions, f"{settings.seed} questions")
    parts: list[Iterable[EvidenceExample]] = [
        _list_squad_examples(squad, chosen, settings.seed),
        _list_claim_examples(squad, training_articles, settings.claims, settings.seed),
        _list_forum_examples(data / "stackexchange", settings.threads, settings.seed),
        _list_yes_no_examples(data / "boolq" / "boolq.jsonl.xz", settings.yes_no, settings.seed),
    ]
    named = (*settings.written, *settings.judged)
    if unknown := [name for name in named if name not in sites]:
        detail = "neither recipes/questions/sites.toml nor bench.documentation has this name"
        raise Failed(Failure(", ".join(unknown), "no_data", detail))
    if missing := [str(sites[name]) for name in named if not sites[name].is_dir()]:
        detail = "not installed: recipes/questions/README.md says where packages are named"
        raise Failed(Failure(", ".join(missing), "no_data", detail))
    folders = {name: sites[name] for name in settings.written}
    pages = {name: read_site(folder.resolve()) for name, folder in folders.items()}
    parts.append(
        list_written_examples(
            pages, folders, settings.seed, settings.found, windows=settings.windows
        )
    )
    parts.append(
        list_judged_examples({name: sites[name] for name in settings.judged}, settings.seed)
    )
    parts.append(list_folder_examples(settings.folders, settings.seed, judge))
    parts += [
        _list_pair_examples(data / "support" / f"{name}.jsonl.xz", count, settings.seed)
        for name, count in settings.pairs.items()
    ]
    return [example for part in parts for example in part]


def split_articles(squad: SquadData, share: float, seed: int) -> frozenset[str]:
    """Return the names of the articles that are trained on."""
    names = [article.name for article in squad.articles]
    return frozenset(Random(f"{seed} articles").sample(names, round(share * len(names))))


def _sample(every: Sequence[Any], count: int, seed: str) -> list[Any]:
    return Random(seed).sample(every, min(count, len(every)))


def read_json_lines_xz(path: Path) -> list[Any]:
    """Return the objects of a compressed file of JSON lines."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences of a text."""
    spans, at = [], 0
    for sentence in sentencex.segment("en", text):
        start = text.find(sentence.strip(), at)
        if sentence.strip() and start >= 0:
            at = start + len(sentence.strip())
            spans.append((start, at))
    return spans or [(0, len(text))]


def exchange_detail(text: str, names: Sequence[str], random: Random) -> str | None:
    """Return the text with a number, a name, a word or its negation exchanged; None if it has
    nothing to exchange.

    `names` are taken in place of a name. The result asks or says something else.
    """
    kinds = ["number", "name", "word", "negation"]
    random.shuffle(kinds)
    # Negation can be applied nearly everywhere, and would be nearly all there is.
    for kind in sorted(kinds, key=lambda kind: kind == "negation"):
        changed = _EXCHANGES[kind](text, names, random)
        if changed is not None and changed != text:
            return changed
    return None


def _exchange_number(text: str, names: Sequence[str], random: Random) -> str | None:
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    match = random.choice(numbers)
    plain = match[0].replace(",", "")
    try:
        value = float(plain)
    except ValueError:
        return None
    if re.fullmatch(r"1\d{3}|20\d\d", plain):
        other = str(int(plain) + random.choice([-30, -12, -7, -3, -1, 1, 2, 5, 11, 40]))
    else:
        value = value * random.choice([0.1, 0.5, 2, 3, 10]) + random.choice([0, 1, 4])
        other = f"{value:.0f}" if "." not in plain else f"{value:.1f}"
    return text[: match.start()] + other + text[match.end() :]


def _exchange_name(text: str, names: Sequence[str], random: Random) -> str | None:
    found = list(_NAME.finditer(text))
    others = [name for name in names if name not in text]
    if not found or not others:
        return None
    match = random.choice(found)
    return text[: match.start()] + random.choice(others) + text[match.end() :]


def _exchange_word(text: str, names: Sequence[str], random: Random) -> str | None:
    found = [match for match in re.finditer(r"\w+", text) if match[0].lower() in _OPPOSITE]
    if not found:
        return None
    match = random.choice(found)
    return text[: match.start()] + _OPPOSITE[match[0].lower()] + text[match.end() :]


def _negate_text(text: str, names: Sequence[str], random: Random) -> str | None:
    if re.search(r"\b(not|no|never|none)\b|n.t\b", text):
        return None
    match = _AUXILIARY.search(text)
    if match is None:
        return None
    question = text.rstrip().endswith("?")
    if question and re.match(
        r"(?i)(is|are|was|were|did|does|do|can|could|will|would|has|have)\b", text
    ):
        return None  # "Did X not do Y?" asks the same
    if question:
        rest = text[match.end() :].split(" ")
        cut = min(3, len(rest) - 1)
        if match[0] in ("did", "does", "do", "can", "could", "will", "would"):
            return text[: match.end()] + " ".join(rest[:cut]) + " not " + " ".join(rest[cut:])
    return text[: match.end()] + " not" + text[match.end() :]


_EXCHANGES = {
    "number": _exchange_number,
    "name": _exchange_name,
    "word": _exchange_word,
    "negation": _negate_text,
}


class _Window(NamedTuple):
    """Sentences of a paragraph, and where the answer stands in their text."""

    text: str
    span: tuple[int, int] | None


def _cut_window(paragraph: str, sentences: Sequence[tuple[int, int]], random: Random) -> _Window:
    """A run of one to four sentences, or all."""
    size = random.choice([1, 2, 3, 4, len(sentences)])
    first = random.randrange(max(1, len(sentences) - size + 1))
    run = sentences[first : first + size]
    return _Window(paragraph[run[0][0] : run[-1][1]], None)


def _cut_answer_window(
    paragraph: str, sentences: Sequence[tuple[int, int]], at: tuple[int, int], random: Random
) -> _Window:
    """A run of one to four sentences, or all, with the sentence of the answer among them."""
    place = max(n for n, (start, _) in enumerate(sentences) if start <= at[0] or n == 0)
    size = random.choice([1, 2, 3, 4, len(sentences)])
    first = max(0, place - random.randrange(size))
    run = sentences[first : first + size]
    start, end = run[0][0], max(run[-1][1], at[1])
    return _Window(paragraph[start:end], (at[0] - start, at[1] - start))


def list_names(paragraphs: Iterable[str]) -> list[str]:
    """Return the names in these texts, in order."""
    return sorted({match[0] for text in paragraphs for match in _NAME.finditer(text)})


def _list_squad_examples(
    squad: SquadData, questions: Sequence[Question], seed: int
) -> Iterator[EvidenceExample]:
    """For each question its window, and two of: the same for a changed question, the rest of the
    paragraph, another paragraph of the article that has the question's words, another article."""
    names = {a.name: list_names(a.paragraphs) for a in squad.articles}
    for question in questions:
        random = Random(f"{seed} {question.id}")
        article, number = squad.places[question.id]
        title, paragraphs = squad.articles[article].title, squad.articles[article].paragraphs
        paragraph, answer = paragraphs[number], question.gold[0]
        at = _find_answer(paragraph, answer, question.text)
        if at < 0:
            continue
        sentences = split_sentences(paragraph)
        heading = title if random.random() < 0.75 else ""
        window = _cut_answer_window(paragraph, sentences, (at, at + len(answer)), random)
        yield EvidenceExample(question.text, window.text, heading, 1.0, window.span)
        negatives = []
        changed = exchange_detail(question.text, names[squad.articles[article].name], random)
        if changed is not None:
            negatives.append(EvidenceExample(changed, window.text, heading, 0.0))
        without = [
            span for span in sentences if answer.lower() not in paragraph[slice(*span)].lower()
        ]
        if without:
            other = _cut_window(paragraph, _longest_run(sentences, without), random)
            negatives.append(EvidenceExample(question.text, other.text, heading, 0.0))
        if near := _find_near_paragraph(question.text, answer, paragraphs, number):
            other = _cut_window(near, split_sentences(near), random)
            negatives.append(EvidenceExample(question.text, other.text, heading, 0.0))
        if random.random() < 0.25:
            foreign = random.choice(squad.articles)
            text = random.choice(foreign.paragraphs)
            if answer.lower() not in text.lower():
                other = _cut_window(text, split_sentences(text), random)
                negatives.append(EvidenceExample(question.text, other.text, foreign.title, 0.0))
        random.shuffle(negatives)
        yield from negatives[:2]


def _find_answer(paragraph: str, answer: str, question: str) -> int:
    """Return where the answer stands; of several places the one nearest to the question's words."""
    places = [match.start() for match in re.finditer(re.escape(answer), paragraph)]
    asked = set(re.findall(r"\w+", question.lower()))

    def count_words(place: int) -> int:
        around = paragraph[max(0, place - 150) : place + 150].lower()
        return len(asked.intersection(re.findall(r"\w+", around)))

    return max(places, key=count_words, default=-1)


def _longest_run(
    sentences: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The longest run of neighbouring sentences that are kept."""
    best: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    for span in sentences:
        run = [*run, span] if span in spans else []
        best = max(best, run, key=len)
    return best


def _find_near_paragraph(
    question: str, answer: str, paragraphs: Sequence[str], number: int
) -> str | None:
    """The paragraph that has most of the question's words and not the answer."""
    question_words = set(re.findall(r"\w{4,}", question.lower()))
    others = [
        text
        for n, text in enumerate(paragraphs)
        if n != number and answer.lower() not in text.lower()
    ]
    return max(
        others,
        key=lambda text: len(question_words.intersection(re.findall(r"\w+", text.lower()))),
        default=None,
    )


def _list_claim_examples(
    squad: SquadData, training_articles: frozenset[str], count: int, seed: int
) -> Iterator[EvidenceExample]:
    """Sentences as claims: their own paragraph supports them, refutes them when a detail was
    exchanged, and another paragraph does neither."""
    articles = [article for article in squad.articles if article.name in training_articles]
    random = Random(f"{seed} claims")
    for _ in range(count):
        article = random.choice(articles)
        paragraph = random.choice(article.paragraphs)
        sentences = split_sentences(paragraph)
        place = random.randrange(len(sentences))
        sentence = paragraph[slice(*sentences[place])]
        if not 6 <= len(sentence.split()) <= 35:
            continue
        window = _cut_answer_window(paragraph, sentences, sentences[place], random).text
        claim = _shorten_sentence(sentence)
        if random.random() < 0.4:
            yield EvidenceExample(claim, window, article.title, support="supports")
            continue
        changed = exchange_detail(claim, list_names(article.paragraphs), random)
        if changed is not None and random.random() < 0.65:
            yield EvidenceExample(changed, window, article.title, support="refutes")
            continue
        other = random.choice(article.paragraphs)
        if other != paragraph:
            text = _cut_window(other, split_sentences(other), random).text
            yield EvidenceExample(claim, text, article.title, support="neither")


def _shorten_sentence(sentence: str) -> str:
    """The sentence without brackets and without a last subordinate clause."""
    plain = re.sub(r" ?\([^()]*\)", "", sentence)
    return re.sub(r", (?:which|who|where|although|while|whereas)\b[^,]*\.$", ".", plain)


def _list_pair_examples(path: Path, count: int, seed: int) -> Iterator[EvidenceExample]:
    """Labelled pairs of a collection, each label as often as any other where there are enough."""
    by_label: dict[Any, list[Any]] = {}
    for each in read_json_lines_xz(path):
        by_label.setdefault(each["label"], []).append(each)
    for label, every in sorted(by_label.items()):
        for each in _sample(every, count // len(by_label), f"{seed} {path.name} {label}"):
            yield EvidenceExample(each["claim"], " ".join(each["evidence"]), support=label)


_BOOLQ = re.compile(r"Passage: (.*)\nQuestion: (.*)", re.DOTALL)


def _list_yes_no_examples(path: Path, count: int, seed: int) -> Iterator[EvidenceExample]:
    """Yes-or-no questions: answered by their passage, which supports or refutes; not by another."""
    every = _sample(read_json_lines_xz(path), count, f"{seed} yes_no") if count else []
    random = Random(f"{seed} yes_no labels")
    passages = [match[1] for each in every if (match := _BOOLQ.search(each["query"]))]
    for each in every:
        match = _BOOLQ.search(each["query"])
        if match is None:
            continue
        passage, question = match[1], match[2]
        yes = each["choices"][each["gold"]].strip().lower() == "yes"
        side: Literal["supports", "refutes"] = "supports" if yes else "refutes"
        yield EvidenceExample(question, passage, answers=1.0, support=side)
        if random.random() < 0.25 and (other := random.choice(passages)) != passage:
            yield EvidenceExample(question, other, answers=0.0, support="neither")


def _list_forum_examples(folder: Path, count: int, seed: int) -> Iterator[EvidenceExample]:
    """Titles of threads, answered by the start of their best answer and not by another thread's."""
    threads = [
        each
        for path in sorted(folder.glob("*.jsonl.xz"))
        for each in (read_json_lines_xz(path) if count else [])
        if any(answer["score"] > 2 for answer in each["answers"])
    ]
    random = Random(f"{seed} forums")
    for each in _sample(threads, count, f"{seed} threads"):
        best = max(each["answers"], key=lambda answer: answer["score"])
        other = random.choice(threads)
        yield EvidenceExample(each["title"], _strip_markup(best["body_html"]), answers=1.0)
        if other["site"] == each["site"] and other["id"] != each["id"]:
            text = _strip_markup(other["answers"][0]["body_html"])
            yield EvidenceExample(each["title"], text, answers=0.0)


def _strip_markup(html: str) -> str:
    page = read_page(html.encode(), "https://forum.example/", "text/html")
    return page.text[:600].rpartition(" ")[0]


def read_site(folder: Path) -> list[Page]:
    """Return the English HTML pages of a folder."""
    pages = []
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.htm")]):
        if re.search(
            r"\.(?!en)[a-z]{2}(_[A-Z]{2})?\.html?$|/_modules/|genindex|/whatsnew/", str(path)
        ):
            continue
        with suppress(Failed):  # shells that scripts fill have no text
            pages.append(read_page(path.read_bytes(), path.as_uri(), "text/html"))
    return pages
