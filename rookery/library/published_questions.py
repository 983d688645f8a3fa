"""Questions as their publishers give them: ELI5, Natural Questions, TriviaQA, KILT and SQuAD.

Each form is known by the keys of its objects, so that nobody needs to say which it is.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from rookery.records import Question, prepare_type

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
                raise ValueError(
                    f"a short answer has the tokens {span.start_token} to {span.end_token}, and "
                    f"the document has {len(tokens)}"
                )
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
                articles = msgspec.json.decode(
                    parts["data"], type=prepare_type(list[_SquadArticle])
                )
                values = [one for each in articles for some in each.paragraphs for one in some.qas]
            elif "Data" in parts:
                values = msgspec.json.decode(parts["Data"], type=list[msgspec.Raw])
            else:
                raise ValueError("it has no list `Data`, as TriviaQA has, or `data`, as SQuAD has")
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
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
        raise ValueError(f"not a question of {form.name} ({error})") from error


def _find_form(data: bytes) -> _PublishedForm | None:
    if data.lstrip().startswith(b"["):
        return _ELI5_THREADS
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
    except msgspec.MsgspecError:
        return None
    return next((form for form in _FORMS if form.keys <= keys), None)
