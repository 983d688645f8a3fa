"""Read questions from JSONL files, from the command line, and as their publishers give them: ELI5,
Natural Questions, TriviaQA, KILT and SQuAD.

Each published form is known by the keys of its objects, so that nobody needs to say which it is.
"""

import gzip
import lzma
import re
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast
from urllib.parse import unquote

import msgspec

from rookery.pages.text_folding import fold_text
from rookery.records import Answer, Question, Record, decode_json, describe_json_error, prepare_type
from rookery.typed_files import require_regular_file

_DELETED_TITLE = "[deleted by user]"
_NO_TEXT = ("", "[deleted]", "[removed]")
_SELFTEXT_MARK = "--T--"
"""between title and post in the files that ELI5's own scripts write"""


class _KiltOutput(msgspec.Struct):
    answer: str = ""
    """empty where an output has only places in Wikipedia"""


class _KiltQuestion(msgspec.Struct):
    id: str
    input: str
    output: list[_KiltOutput] = []
    """none in the test sets"""


class _Eli5Answers(msgspec.Struct):
    text: list[str]
    score: list[int] = []


class _Eli5Post(msgspec.Struct):
    q_id: str
    title: str
    selftext: str = ""
    answers: _Eli5Answers | None = None


class _Eli5Comment(msgspec.Struct):
    body: tuple[str, list[str]]
    """the text, and the URLs that marks in it stand for"""
    score: int = 0


class _Eli5Thread(msgspec.Struct):
    title: tuple[str, list[str]]
    selftext: tuple[str, list[str]] = ("", [])
    comments: list[_Eli5Comment] = []


class _Eli5Example(msgspec.Struct):
    id: str
    question: str
    answer: str


class _NaturalSpan(msgspec.Struct):
    start_token: int
    end_token: int


class _NaturalAnnotation(msgspec.Struct):
    short_answers: list[_NaturalSpan] = []
    yes_no_answer: str = "NONE"


class _NaturalToken(msgspec.Struct):
    token: str
    html_token: bool = False


class _NaturalQuestion(msgspec.Struct):
    example_id: int | str
    question_text: str
    document_url: str = ""
    document_text: str | None = None
    """tokens with a blank between them (simplified form); the other form has `document_tokens`"""
    document_tokens: list[_NaturalToken] = []
    annotations: list[_NaturalAnnotation] = []


class _OpenNaturalQuestion(msgspec.Struct):
    question: str
    answer: list[str]


class _TriviaAnswer(msgspec.Struct, rename="pascal"):
    value: str
    aliases: list[str] = []
    human_answers: list[str] = []
    """what people answered who checked the question; only in the verified sets"""


class _TriviaQuestion(msgspec.Struct, rename="pascal"):
    question_id: str
    question: str
    question_source: str = ""
    answer: _TriviaAnswer | None = None
    """None in the test sets"""


class _SquadAnswer(msgspec.Struct):
    text: str


class SquadQuestion(msgspec.Struct):
    """A question of a SQuAD file, with its accepted answers."""

    id: str | int
    question: str
    answers: list[_SquadAnswer] = []
    is_impossible: bool = False


class _SquadParagraph(msgspec.Struct):
    qas: list[msgspec.Raw]


class _SquadArticle(msgspec.Struct):
    paragraphs: list[_SquadParagraph]


def _convert_kilt(data: bytes, _: int) -> Question:
    read = msgspec.json.decode(data, type=prepare_type(_KiltQuestion))
    if not read.input.strip():
        raise ValueError(
            "its `input` is empty, as in KILT's files of TriviaQA, which have no questions: "
            "name the files of TriviaQA itself"
        )
    return _make_question(read.id, read.input, [each.answer for each in read.output])


def _convert_eli5_post(data: bytes, _: int) -> Question | None:
    read = msgspec.json.decode(data, type=prepare_type(_Eli5Post))
    answers = read.answers.text if read.answers else []
    votes = read.answers.score if read.answers else []
    return _make_eli5_question(read.q_id, read.title, read.selftext, answers, votes)


def _convert_eli5_thread(data: bytes, _: int) -> Question | None:
    identity, read = msgspec.json.decode(data, type=prepare_type(tuple[str, _Eli5Thread]))
    answers = [each.body[0] for each in read.comments]
    votes = [each.score for each in read.comments]
    return _make_eli5_question(identity, read.title[0], read.selftext[0], answers, votes)


def _convert_eli5_example(data: bytes, _: int) -> Question | None:
    read = msgspec.json.decode(data, type=prepare_type(_Eli5Example))
    title, _mark, selftext = read.question.partition(_SELFTEXT_MARK)
    return _make_eli5_question(read.id, title, selftext, [read.answer], [])


def _make_eli5_question(
    identity: str, title: str, selftext: str, answers: Sequence[str], votes: Sequence[int]
) -> Question | None:
    """Return a question with the answers of most votes first; None if its author deleted it.

    Its text is the title, then the post, where there is one (WebGPT, appendix B).
    """
    title, selftext = title.strip(), selftext.strip()
    if title == _DELETED_TITLE:
        return None
    text = title if selftext in _NO_TEXT else f"{title}\n\n{selftext}"
    if len(votes) == len(answers):
        order = sorted(range(len(answers)), key=lambda number: -votes[number])
        answers = [answers[number] for number in order]
    return _make_question(identity, text, answers)


def _convert_natural(data: bytes, _: int) -> Question:
    read = msgspec.json.decode(data, type=prepare_type(_NaturalQuestion))
    tokens = read.document_tokens
    if read.document_text is not None:
        # Not at white space of other kinds, which may be a token's own.
        words = read.document_text.split(" ")
        tokens = [_NaturalToken(word, _is_html_tag(word)) for word in words]
    gold: list[str] = []
    for each in read.annotations:
        for span in each.short_answers:
            if not 0 <= span.start_token < span.end_token <= len(tokens):
                place = f"the tokens {span.start_token} to {span.end_token}"
                raise ValueError(f"a short answer has {place}, and the document has {len(tokens)}")
            span_tokens = tokens[span.start_token : span.end_token]
            gold.append(" ".join(each.token for each in span_tokens if not each.html_token))
        if each.yes_no_answer in ("YES", "NO"):
            gold.append(each.yes_no_answer.lower())
    return _make_question(str(read.example_id), read.question_text, gold, read.document_url)


def _is_html_tag(word: str) -> bool:
    return len(word) > 2 and word[0] == "<" and word[-1] == ">"


def _convert_open_natural(data: bytes, number: int) -> Question:
    read = msgspec.json.decode(data, type=prepare_type(_OpenNaturalQuestion))
    return _make_question(str(number), read.question, read.answer)


def _convert_trivia(data: bytes, _: int) -> Question:
    read = msgspec.json.decode(data, type=prepare_type(_TriviaQuestion))
    answer = read.answer
    gold = [answer.value, *answer.aliases, *answer.human_answers] if answer else []
    return _make_question(read.question_id, read.question, gold, read.question_source)


def _convert_squad(data: bytes, _: int) -> Question:
    read = msgspec.json.decode(data, type=prepare_type(SquadQuestion))
    gold = [] if read.is_impossible else [each.text for each in read.answers]
    return _make_question(str(read.id), read.question, gold)


def _make_question(identity: str, text: str, gold: Sequence[str], source: str = "") -> Question:
    accepted = dict.fromkeys(filter(None, (each.strip() for each in gold)))
    return Question(identity, text, gold=tuple(accepted), source=source)


class _PublishedForm(NamedTuple):
    name: str
    keys: frozenset[str]
    """that its objects have, and no form before it"""
    convert: Callable[[bytes, int], Question | None]
    """from an object and its number in the file; None: a question that its author deleted"""


_FORMS = (
    _PublishedForm("KILT", frozenset({"id", "input"}), _convert_kilt),
    _PublishedForm("ELI5", frozenset({"q_id", "title"}), _convert_eli5_post),
    _PublishedForm(
        "Natural Questions", frozenset({"example_id", "question_text"}), _convert_natural
    ),
    _PublishedForm("TriviaQA", frozenset({"QuestionId", "Question"}), _convert_trivia),
    _PublishedForm("SQuAD", frozenset({"id", "question", "answers"}), _convert_squad),
    _PublishedForm("ELI5", frozenset({"id", "question", "answer"}), _convert_eli5_example),
    _PublishedForm("NQ-open", frozenset({"question", "answer"}), _convert_open_natural),
)
_ELI5_THREADS = _PublishedForm("ELI5", frozenset(), _convert_eli5_thread)


def split_published_document(data: bytes) -> Iterator[bytes]:
    """Yield each question's JSON of a file that is one JSON value.

    That is a list (ELI5), or an object with a list `Data` (TriviaQA) or `data` (SQuAD). Raises
    ValueError for any other value.
    """
    try:
        if data.lstrip().startswith(b"["):
            values = msgspec.json.decode(data, type=list[msgspec.Raw])
        else:
            parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            if "data" in parts:
                squad = prepare_type(list[_SquadArticle])
                articles = msgspec.json.decode(parts["data"], type=prepare_type(squad))
                values = [one for each in articles for some in each.paragraphs for one in some.qas]
            elif "Data" in parts:
                values = msgspec.json.decode(parts["Data"], type=list[msgspec.Raw])
            else:
                raise ValueError("it has no list `Data`, as TriviaQA has, or `data`, as SQuAD has")
    except msgspec.MsgspecError as error:
        raise ValueError(describe_json_error(error)) from error
    yield from map(bytes, values)


def convert_published_question(data: bytes, number: int) -> tuple[str, Question | None] | None:
    """Return the name of the published form that an object has, and its question.

    The question is None where its author deleted it, and all is None for an object of no such form.
    `number` is the object's in its file, and the id of a question whose form has none. Accepted
    answers are in `gold`, each once: all that KILT lists, ELI5's by their votes, short answers of
    Natural Questions and its yes and no, TriviaQA's answer with its aliases, those of SQuAD. Raises
    ValueError for an object that has the keys of a form and is not of that form.
    """
    form = _find_form(data)
    if form is None:
        return None
    try:
        return form.name, form.convert(data, number)
    except (msgspec.MsgspecError, ValueError) as error:
        detail = describe_json_error(error)
        raise ValueError(f"not a question of {form.name} ({detail})") from error


def _find_form(data: bytes) -> _PublishedForm | None:
    if data.lstrip().startswith(b"["):
        return _ELI5_THREADS
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
    except msgspec.MsgspecError:
        return None
    return next((form for form in _FORMS if form.keys <= keys), None)


MOST_QUESTION_CHARACTERS = 10_000
"""characters of a question"""
MOST_LINE_BYTES = 64_000_000
"""bytes of a line, with the pages that a question may bring along"""


def parse_question(text: str, identity: str = "1") -> Question:
    """Return a Question of this text, its white space evened out, with the id `identity`.

    Raises ValueError if the text is empty or has more than MOST_QUESTION_CHARACTERS.
    """
    text = " ".join(text.encode("utf-8", "replace").decode().split())  # a shell passes any bytes
    if not text:
        raise ValueError("the question is empty: write one")
    if len(text) > MOST_QUESTION_CHARACTERS:
        most = f"at most {MOST_QUESTION_CHARACTERS:,} are taken"
        raise ValueError(
            f"the question has {len(text):,} characters and {most}: "
            "put documents into a folder and ask about that"
        )
    return Question(identity, text)


def bundled_questions() -> Path:
    """Return the path of the bundled JSONL file of questions about the sample pages on crows.

    Most of them have gold answers.
    """
    return Path(__file__).parent / "corvids.jsonl"


def read_questions(path: Path) -> Iterator[Question]:
    """Yield the questions of a file, blank lines and deleted questions left out.

    It has a Question in each line, with `id`, `text` and any other field of a Question; or it is a
    file of ELI5, Natural Questions, NQ-open, TriviaQA, KILT or SQuAD as their publishers give it
    (`convert_published_question` says what becomes of it), in which an id that was used before is
    given a number, as in `56be-2`. A file whose name ends in `.gz` or `.xz` is unpacked, and the
    path `-` is standard input. Raises ValueError naming the line that is not a question, or whose
    own id was used before, and OSError where the file cannot be read.
    """
    if str(path) == "-":
        yield from _read_each(sys.stdin.buffer, "standard input")
        return
    with _open_unpacked(path) as file:
        yield from _read_each(file, str(path))


@contextmanager
def _open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and unpack it while it is read. Raises ValueError where that fails."""
    try:
        with _open_file(path) as file:
            yield file
    except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: cannot be unpacked: fetch it again ({error})") from error


def _open_file(path: Path) -> IO[bytes]:
    if require_regular_file(path).suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def _read_each(file: IO[bytes], name: str) -> Iterator[Question]:
    lines_by_id: dict[str, str] = {}
    times: Counter[str] = Counter()
    for where, number, data in _split_file(file, name):
        question, is_published = _parse_question_object(data, number, where)
        if question is None:
            continue
        if is_published:
            identity = _find_unused(question.id, times, lambda id: id in lines_by_id)
            question = msgspec.structs.replace(question, id=identity)
        elif question.id in lines_by_id:
            raise ValueError(
                f"{where}: the id {question.id!r} was used in "
                f"{lines_by_id[question.id].removeprefix(f'{name}, ')}: give each question its own"
            )
        lines_by_id[question.id] = where
        yield question


_WHOLE_DOCUMENT = re.compile(
    rb'\s*(\[|\{\s*($|"(Data|Domain|Split|VerifiedEval|Version|data|version)"))'
)
"""how a file begins that is one JSON value: a list, TriviaQA, or SQuAD"""


def _split_file(file: IO[bytes], name: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield the JSON of each question with its place in words and its number."""
    lines = enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), 1)
    for number, line in lines:
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not line.strip():
            continue
        if number == 1 and _WHOLE_DOCUMENT.match(line):
            yield from _split_document(line + file.read(), name)
            return
        yield f"{name}, line {number}", number, line


def _split_document(data: bytes, name: str) -> Iterator[tuple[str, int, bytes]]:
    try:
        for number, each in enumerate(split_published_document(data), 1):
            yield f"{name}, question {number}", number, each
    except ValueError as error:
        advice = f"({error}); {_QUESTION_ADVICE}"
        raise ValueError(f"{name}: not a file of questions {advice}") from error


_QUESTION_ADVICE = (
    'write one question a line, as {"id": "1", "text": "Why do crows bring gifts?"},'
    " or name a file of ELI5, Natural Questions, TriviaQA, KILT or SQuAD"
)


def _parse_question_object(data: bytes, number: int, where: str) -> tuple[Question | None, bool]:
    """Return the question of a JSON object, None where its author deleted it, and whether it is in
    a published form."""
    try:
        question = Question.from_json(data)
        parse_question(question.text)
        return question, False
    except ValueError as error:
        own_error, fault = error, str(error).removeprefix("it is no Question in JSON: ")
    try:
        published = convert_published_question(data, number)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if published is None:
        raise ValueError(f"{where}: not a question ({fault}); {_QUESTION_ADVICE}") from own_error
    form, form_fields = published
    if form_fields is None:
        return None, True
    try:
        text = parse_question(form_fields.text).text
        return msgspec.structs.replace(form_fields, text=text), True
    except ValueError as error:
        raise ValueError(f"{where}: not a question of {form} ({error})") from error


LONGEST_NAME = 60
"""characters of a title that its page's file name keeps"""
_NAME = re.compile(r"[\w-]+\.html")


class SquadArticle(Record, frozen=True):
    """One article, and the name of its page in a site made of all."""

    name: str
    title: str
    paragraphs: tuple[str, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a page: use letters, digits, _ and .html")


class SquadData(msgspec.Struct, frozen=True):
    """The articles and questions of a SQuAD file, in its order."""

    articles: tuple[SquadArticle, ...]
    questions: tuple[Question, ...]
    """`gold` has each accepted answer once, and none where the file says that there is none;
    `source` is the name of the article's page"""
    places: dict[str, tuple[int, int]]
    """of each question, by its id: the numbers of its article and of its paragraph there"""

    def get_paragraph(self, question: Question) -> str:
        """Return the paragraph that this question was written about. Raises KeyError for others."""
        article, paragraph = self.places[question.id]
        return self.articles[article].paragraphs[paragraph]


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[SquadQuestion]


class _Article(msgspec.Struct):
    title: str
    paragraphs: list[_Paragraph]


class _File(msgspec.Struct):
    data: list[_Article]


def read_squad(path: Path) -> SquadData:
    """Return the articles and questions of a SQuAD file; `.gz` and `.xz` files are unpacked.

    An id that was used before is given a number, as in `56be-2`. Raises ValueError naming the place
    that is not as in a SQuAD file, and OSError where the file cannot be read.
    """
    read = _decode_file(path)
    articles = [
        SquadArticle(name, title, tuple(paragraph.context for paragraph in article.paragraphs))
        for article, (name, title) in zip(read, _name_articles(read), strict=True)
    ]
    questions: list[Question] = []
    places: dict[str, tuple[int, int]] = {}
    times: Counter[str] = Counter()
    for number, article in enumerate(read):
        for at, paragraph in enumerate(article.paragraphs):
            for nth, each in enumerate(paragraph.qas):
                identity = _find_unused(str(each.id), times, lambda id: id in places)
                place = f"{path}: $.data[{number}].paragraphs[{at}].qas[{nth}]"
                questions.append(_build_question(each, identity, articles[number].name, place))
                places[identity] = (number, at)
    return SquadData(tuple(articles), tuple(questions), places)


def _decode_file(path: Path) -> list[_Article]:
    with _open_unpacked(path) as file:
        data = file.read().removeprefix(b"\xef\xbb\xbf")
    try:
        return decode_json(data, _File).data
    except ValueError as error:
        raise ValueError(f"{path}: not a SQuAD file ({error})") from error


def _build_question(each: SquadQuestion, identity: str, source: str, place: str) -> Question:
    try:
        text = parse_question(each.question).text
    except ValueError as error:
        raise ValueError(f"{place}: not a question ({error})") from error
    gold = [] if each.is_impossible else [answer.text for answer in each.answers]
    return _make_question(identity, text, gold, source)


def _name_articles(articles: Sequence[_Article]) -> Iterator[tuple[str, str]]:
    """Yield the name of each article's page, no two alike even where upper and lower case are, and
    its title in words."""
    used_names: set[str] = set()
    times: Counter[str] = Counter()
    for number, article in enumerate(articles, 1):
        title = " ".join(unquote(article.title).replace("_", " ").split()) or f"Article {number}"
        plain = re.sub(r"[^\w-]", "_", unicodedata.normalize("NFC", title))[:LONGEST_NAME]
        name = _find_unused(plain, times, lambda name: _fold_name(name) in used_names, "_")
        used_names.add(_fold_name(name))
        yield f"{name}.html", title


def _fold_name(name: str) -> str:
    """Equal for names that some file system takes for one."""
    return unicodedata.normalize("NFKC", name).casefold()


def _find_unused(
    name: str, times: Counter[str], is_used: Callable[[str], bool], mark: str = "-"
) -> str:
    """Return the name itself, or with the next number behind it that makes it one of its own."""
    found = name
    while is_used(found):
        times[name] += 1
        found = f"{name}{mark}{times[name] + 1}"
    return found


def contains_gold_answer(text: str, gold: str) -> bool:
    """Return True if a text contains a gold answer as whole words, typography and case ignored.

    Punctuation round the gold answer does not count; one that is nothing else is in no text.
    """
    wanted = fold_text(gold).text.strip(" .,;:!?\"'")
    pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)"
    return bool(wanted) and re.search(pattern, fold_text(text).text) is not None


def is_correct_answer(question: Question, answer: Answer | None) -> bool:
    """Return True if the answer's text and one of its quotes contain the same gold answer.

    All quotes count, cited or not. False without an answer, and for a question without gold
    answers.
    """
    return answer is not None and any(
        contains_gold_answer(answer.text, gold)
        and any(contains_gold_answer(each.text, gold) for each in answer.quotes)
        for gold in question.gold
    )
