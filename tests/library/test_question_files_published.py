"""Files of questions in the forms of their publishers, small and written by hand."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from rookery.library.question_files import read_questions

Read = list[tuple[str, str, tuple[str, ...], str]]

KILT = [
    {
        "id": "1kiwfx",
        "input": "In Trading Places (1983), how did the scheme work?",
        "output": [
            {"answer": "The final scene", "meta": {"score": 44}},
            {
                "provenance": [
                    {
                        "wikipedia_id": "242855",
                        "title": "Futures contract",
                        "section": "Section::::Abstract.",
                        "start_paragraph_id": 1,
                        "start_character": 14,
                        "end_paragraph_id": 1,
                        "end_character": 612,
                        "bleu_score": 0.9,
                    }
                ]
            },
            {"answer": "The final scene"},
            {"answer": " They sold short. "},
        ],
        "meta": {"left_context": "", "obj_surface": [], "template_questions": []},
    },
    {"id": "test-1", "input": "Why is the sky blue?", "meta": {}},
]
ELI5_POSTS = [
    {
        "q_id": "5lcjq6",
        "title": "Why does water feel cold?",
        "selftext": "Even at 20°?\n",
        "document": "",
        "subreddit": "explainlikeimfive",
        "answers": {"a_id": ["a", "b"], "text": ["Heat leaves.", "Evaporation."], "score": [2, 5]},
        "title_urls": {"url": []},
        "selftext_urls": {"url": []},
        "answers_urls": {"url": []},
    },
    {
        "q_id": "gone",
        "title": "[deleted by user]",
        "selftext": "[removed]",
        "answers": {"a_id": [], "text": [], "score": []},
    },
    {
        "q_id": "x1",
        "title": "Why do cats purr?",
        "selftext": "[removed]",
        "category": "Biology",
        "answers": {
            "a_id": ["c"],
            "text": ["To soothe."],
            "score": [1],
            "text_urls": [[]],
        },
        "title_urls": ["url"],
    },
]
ELI5_THREADS = [
    [
        "5lcjq6",
        {
            "id": "5lcjq6",
            "score": 7,
            "url": "https://www.reddit.com/r/explainlikeimfive/comments/5lcjq6",
            "title": ["Why does water feel cold ?", []],
            "selftext": ["", []],
            "comments": [
                {
                    "id": "a",
                    "link_id": "t3_5lcjq6",
                    "parent_id": "t3_5lcjq6",
                    "score": 2,
                    "body": ["Heat leaves , see URL_0 .", ["https://example.org"]],
                },
                {"id": "b", "score": 5, "body": ["Evaporation .", []]},
            ],
        },
    ]
]
ELI5_EXAMPLES = [
    {
        "id": "example_1",
        "question": "Why do animals see other colors ? --T-- ",
        "document": "<P> Dogs have two kinds of cones .",
        "answer": "Cones differ .",
    },
    {"id": "example_2", "question": "Gravity ? --T-- On the moon .", "document": "", "answer": ""},
]
NATURAL = {
    "annotations": [
        {
            "annotation_id": 593165450220027640,
            "long_answer": {"candidate_index": 0, "start_token": 3, "end_token": 16},
            "short_answers": [
                {"start_token": 9, "end_token": 11},
                {"start_token": 12, "end_token": 14},
            ],
            "yes_no_answer": "NONE",
        },
        {
            "annotation_id": 1,
            "long_answer": {"candidate_index": -1, "start_token": -1, "end_token": -1},
            "short_answers": [],
            "yes_no_answer": "YES",
        },
    ],
    "document_text": (
        "<H1> Google </H1> <P> It was founded in by Larry Page and Sergey Brin . </P>"
    ),
    "document_url": "https://en.wikipedia.org//w/index.php?title=Google&amp;oldid=1",
    "example_id": 5655493461695504401,
    "long_answer_candidates": [{"start_token": 3, "end_token": 16, "top_level": True}],
    "question_text": "who founded google",
}
NATURAL_TOKENS = {
    "annotations": [
        {
            "annotation_id": 1,
            "long_answer": {"start_byte": 27, "end_byte": 80, "start_token": 0, "end_token": 5},
            "short_answers": [{"start_byte": 1, "end_byte": 9, "start_token": 1, "end_token": 4}],
            "yes_no_answer": "NONE",
        }
    ],
    "document_html": "<p>Larry <b>Page</b></p>",
    "document_title": "Google",
    "document_tokens": [
        {"token": "<p>", "start_byte": 0, "end_byte": 3, "html_token": True},
        {"token": "Larry", "start_byte": 3, "end_byte": 8, "html_token": False},
        {"token": "<b>", "start_byte": 9, "end_byte": 12, "html_token": True},
        {"token": "Page", "start_byte": 12, "end_byte": 16, "html_token": False},
        {"token": "</p>", "start_byte": 20, "end_byte": 24, "html_token": True},
    ],
    "document_url": "https://en.wikipedia.org//w/index.php?title=Google",
    "example_id": -7,
    "long_answer_candidates": [],
    "question_text": "who founded google",
    "question_tokens": ["who", "founded", "google"],
}
NQ_OPEN = [
    {"question": "how many players on an nfl active roster", "answer": ["53"]},
    {
        "question": "when did the nightmare before christmas come out",
        "def_correct_predictions": [],
        "answer": ["October\u00a029,\u00a01993", "1993"],
        "answer_and_def_correct_predictions": ["October\u00a029,\u00a01993", "1993"],
    },
]
TRIVIA = {
    "Data": [
        {
            "Answer": {
                "Aliases": ["Sunset Blvd", "Sunset Boulevard"],
                "MatchedWikiEntityName": "Sunset Boulevard",
                "NormalizedAliases": ["sunset blvd", "sunset boulevard"],
                "NormalizedMatchedWikiEntityName": "sunset boulevard",
                "NormalizedValue": "sunset boulevard",
                "HumanAnswers": ["Sunset"],
                "Type": "WikipediaEntity",
                "Value": "Sunset Boulevard",
            },
            "EntityPages": [{"DocSource": "TagMe", "Filename": "A.txt", "Title": "A"}],
            "Question": "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
            "QuestionId": "tc_33",
            "QuestionSource": "http://www.triviacountry.com/",
            "SearchResults": [{"Description": "d", "Filename": "35/35_995.txt", "Rank": 0}],
        },
        {"Question": "Who was the next British PM?", "QuestionId": "tc_34", "QuestionSource": ""},
    ],
    "Domain": "Web",
    "Split": "dev",
    "VerifiedEval": False,
    "Version": 1.0,
}
SQUAD = {
    "data": [
        {
            "title": "Rooks",
            "paragraphs": [
                {
                    "context": "They nest in spring.",
                    "qas": [
                        {"id": "56be", "question": "When?", "answers": [{"text": "spring"}] * 2},
                        {"id": 7, "question": "Not?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}


def lines(values: list[Any]) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def read(path: Path) -> Read:
    return [(each.id, each.text, each.gold, each.source) for each in read_questions(path)]


MUSICAL = TRIVIA["Data"][0]["Question"]  # type: ignore[index]
WIKI = "https://en.wikipedia.org//w/index.php?title=Google"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            lines(KILT),
            [
                (
                    "1kiwfx",
                    "In Trading Places (1983), how did the scheme work?",
                    ("The final scene", "They sold short."),
                    "",
                ),
                ("test-1", "Why is the sky blue?", (), ""),
            ],
        ),
        (
            lines(ELI5_POSTS),
            [
                (
                    "5lcjq6",
                    "Why does water feel cold? Even at 20°?",
                    ("Evaporation.", "Heat leaves."),
                    "",
                ),
                ("x1", "Why do cats purr?", ("To soothe.",), ""),
            ],
        ),
        (
            json.dumps(ELI5_THREADS).encode(),
            [
                (
                    "5lcjq6",
                    "Why does water feel cold ?",
                    ("Evaporation .", "Heat leaves , see URL_0 ."),
                    "",
                )
            ],
        ),
        (
            json.dumps(ELI5_EXAMPLES, indent=1).encode(),
            [
                ("example_1", "Why do animals see other colors ?", ("Cones differ .",), ""),
                ("example_2", "Gravity ? On the moon .", (), ""),
            ],
        ),
        (
            lines([NATURAL]),
            [
                (
                    "5655493461695504401",
                    "who founded google",
                    ("Larry Page", "Sergey Brin", "yes"),
                    f"{WIKI}&amp;oldid=1",
                )
            ],
        ),
        (lines([NATURAL_TOKENS]), [("-7", "who founded google", ("Larry Page",), WIKI)]),
        (
            lines(NQ_OPEN),
            [
                ("1", "how many players on an nfl active roster", ("53",), ""),
                (
                    "2",
                    "when did the nightmare before christmas come out",
                    ("October\u00a029,\u00a01993", "1993"),
                    "",
                ),
            ],
        ),
        (
            json.dumps(TRIVIA, indent=2).encode(),
            [
                (
                    "tc_33",
                    MUSICAL,
                    ("Sunset Boulevard", "Sunset Blvd", "Sunset"),
                    "http://www.triviacountry.com/",
                ),
                ("tc_34", "Who was the next British PM?", (), ""),
            ],
        ),
        (json.dumps(SQUAD).encode(), [("56be", "When?", ("spring",), ""), ("7", "Not?", (), "")]),
    ],
    ids=["kilt", "posts", "threads", "examples", "nq", "nq-tokens", "open", "trivia", "squad"],
)
def test_a_published_file_is_read_as_it_is(tmp_path: Path, content: bytes, found: Read) -> None:
    """Plain, with a byte order mark, and packed."""
    place = tmp_path / "questions.json"
    place.write_bytes(content)
    assert read(place) == found
    place.write_bytes(b"\xef\xbb\xbf" + content)
    assert read(place) == found
    for name, pack in (("q.jsonl.gz", gzip.compress), ("q.jsonl.xz", lzma.compress)):
        (tmp_path / name).write_bytes(pack(content))
        assert read(tmp_path / name) == found


def test_a_question_over_many_lines_is_refused_with_advice(tmp_path: Path) -> None:
    place = tmp_path / "own.jsonl"
    place.write_text('{\n  "id": "a",\n  "text": "Why?"\n}\n')
    with pytest.raises(ValueError, match=r"\(it has no list `Data`.*write one question a line, as"):
        list(read_questions(place))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lines([{"id": "tc_1", "input": "", "output": []}]), "KILT's files of TriviaQA"),
        (lines([{"id": "a", "input": 1}]), r"line 1: not a question of KILT "),
        (
            lines([{**NATURAL, "document_text": "<P> too short </P>"}]),
            "not a question of Natural Questions .*tokens 9 to 11, and the document has 4",
        ),
        (lines([{"question": "who", "answer": "53"}]), "not a question of NQ-open"),
        (lines([{"question": " ", "answer": ["53"]}]), "not a question of NQ-open .*is empty"),
        (b'{"Data": [{"Question": "Who?", "QuestionId": 1}]}', "question 1: not a .* TriviaQA"),
        (b'{"Data": [{"Question": "Who?"', "not a file of questions .*ends too early"),
        (b'{"Data": {}}', "not a file of questions .*it must be a list"),
        (b"[1, 2]", "question 1: not a question .*write one question a line, as"),
        (b'{"id": "a", "claim": "Crows are black."}', "name a file of ELI5"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, content: bytes, said: str) -> None:
    place = tmp_path / "questions.json"
    place.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        list(read_questions(place))


def test_an_id_that_a_publisher_uses_again_is_given_a_number(tmp_path: Path) -> None:
    place = tmp_path / "kilt.jsonl"
    place.write_bytes(lines([*KILT, KILT[1], KILT[1]]))
    assert [each[0] for each in read(place)] == ["1kiwfx", "test-1", "test-1-2", "test-1-3"]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_packed_file_that_is_cut_off_is_named(tmp_path: Path, suffix: str) -> None:
    content = lines(NQ_OPEN) * 50
    packed = gzip.compress(content) if suffix == ".gz" else lzma.compress(content)
    place = tmp_path / f"questions.jsonl{suffix}"
    for damaged in (packed[: len(packed) // 2], b"no such thing"):
        place.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot be unpacked: fetch it again"):
            list(read_questions(place))
