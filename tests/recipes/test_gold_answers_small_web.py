"""Pages of a few sentences around known answers."""

from recipes.gold_answers import build_small_web
from rookery.library.question_files import SquadArticle, SquadData
from rookery.records import Question

ONE = "The mill is very old. It was built in 1707. It burnt down in 1811 and was built anew."
SQUAD = SquadData(
    (
        SquadArticle("Mill.html", "Mill", (ONE,)),
        SquadArticle("Hill.html", "Hill", ("It is 1707 m high.",)),
    ),
    (
        Question("a", "When was it built?", gold=("1707",), source="Mill.html"),
        Question("b", "When did it burn?", gold=("1811",), source="Mill.html"),
        Question("c", "How old is it?", gold=("very old",), source="Mill.html"),
        Question("d", "How high is it?", gold=("1707",), source="Hill.html"),
        Question("e", "Who built it?", gold=("Ann",), source="Mill.html"),
    ),
    {"a": (0, 0), "b": (0, 0), "c": (0, 0), "d": (1, 0), "e": (0, 0)},
)


def test_a_page_holds_the_answers_of_the_questions_that_name_it() -> None:
    pages, asked = build_small_web(SQUAD, lambda question: True, 3, 10)
    texts = {page.name: page.paragraphs[0] for page in pages}
    assert [texts[question.source] for question in asked] == [
        "The mill is very old. It was built in 1707.",
        "It burnt down in 1811 and was built anew.",
        "The mill is very old. It was built in 1707.",
        "It is 1707 m high.",
    ]
    assert [page.title for page in pages] == ["Mill", "Mill", "Hill"]


def test_questions_that_no_excerpt_answers_are_left_out() -> None:
    _, asked = build_small_web(SQUAD, lambda question: question.id in "ae", 3, 10)
    assert [question.id for question in asked] == ["a"]


def test_only_wanted_questions_have_pages() -> None:
    pages, asked = build_small_web(SQUAD, lambda question: question.id == "b", 3, 10)
    assert len(pages) == len(asked) == 1
