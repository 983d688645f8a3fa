"""The writer's recipe: statements by rules, the rule that judges support, and the recipe whole."""

import json
import lzma
from pathlib import Path

import msgspec
import pytest

from recipes.stages import ROOT, Result, run_recipe
from recipes.writer import Settings, train_and_measure
from recipes.writer_found import AskedQuestion, WrittenAnswers, is_supported_by_words
from recipes.writer_statements import is_sound, shorten_sentence, state_answer
from rookery.cite.evidence_model import EvidencePassage
from rookery.judge.json_lines import read_json_lines
from rookery.learn.lora_adapters import WEIGHTS_FILE
from rookery.learn.random_models import write_tiny_model
from rookery.measure.citations import CitedStatement
from rookery.records import Episode

WORDS = (
    "the bridge was founded built in of on by eats mice owl owls dealt with trade port new york "
    "and house there are two teams capital is called rangoon a city did reached reach x 1874 mary "
    "shelley wrote novel hobart may 5 1901 because it rained harbour closed nests 12 deals"
)
KNOWN = frozenset(WORDS.split())


@pytest.mark.parametrize(
    ("question", "answer", "before", "statement"),
    [
        ("When was the bridge built?", "1874", "It was built in ", "The bridge was built in 1874."),
        ("When was the bridge built?", "May 5, 1901", "", "The bridge was built on May 5, 1901."),
        ("Who wrote the novel?", "Mary Shelley", "by ", "Mary Shelley wrote the novel."),
        ("What is the capital of X?", "Hobart", "is ", "The capital of X is Hobart."),
        ("What was the port city called?", "Rangoon", "", "The port city was called Rangoon."),
        ("How many nests are there in the port?", "12", "", "There are 12 nests in the port."),
        ("What did the port deal with?", "trade", "", "The port dealt with trade."),
        (
            "Why was the harbour closed?",
            "it rained",
            "closed because ",
            "The harbour was closed because it rained.",
        ),
    ],
)
def test_a_question_and_its_answer_become_a_statement(
    question: str, answer: str, before: str, statement: str
) -> None:
    assert state_answer(question, answer, before, KNOWN) == statement


@pytest.mark.parametrize(
    ("question", "answer", "before"),
    [
        ("Tell me about the bridge.", "1874", ""),  # no question
        ("When was the flood?", "1874", "in "),  # "was flood" has no participle
        ("When was the bridge built?", "the evening", ""),  # no preposition is known
        ("What was the bridge built for?", "in trade", ""),
        ("Who were the teams?", "Mary", ""),  # one is not several
        ("When did the owl zibble?", "1874", "in "),  # "zibbled" is no known word
    ],
)
def test_what_no_rule_states_is_left_out(question: str, answer: str, before: str) -> None:
    assert state_answer(question, answer, before, KNOWN) is None


def test_a_sentence_loses_what_can_be_left_out() -> None:
    whole = (
        "However, the owl (Strix aluco) eats mice in the winter months, while the wren eats flies."
    )
    assert shorten_sentence(whole, "mice") == "The owl eats mice in the winter months."
    assert shorten_sentence(whole, "flies") == (
        "The owl eats mice in the winter months, while the wren eats flies."
    )
    assert shorten_sentence("It eats mice in the winter months.", "mice") is None


@pytest.mark.parametrize(
    "sentence",
    ["the owl eats mice.", "The owl eats mice", "The owl eats eats mice.", "The owl of in mice."],
)
def test_leftovers_are_no_sound_sentence(sentence: str) -> None:
    assert not is_sound(sentence)
    assert is_sound("The owl eats mice.")


QUOTE = EvidencePassage(
    "The bridge was built in 1874 by Mary Ann Hale. It does not open for ships.", "Bridges"
)


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("The bridge was built in 1874 by Mary Ann Hale.", True),
        ("Mary Ann Hale built the bridge.", True),
        ("The bridge does not open for ships.", True),
        ("The bridge was built in 1875 by Mary Ann Hale.", False),
        ("The bridge was built in 1874 by Mary Ann Cole.", False),
        ("The bridge does open for ships.", False),
        ("The bridge was painted green by volunteers in 1874.", False),
    ],
)
def test_the_rule_finds_planted_faults(sentence: str, supported: bool) -> None:
    statement = CitedStatement(sentence, (QUOTE,))
    assert is_supported_by_words(statement, "Who built the bridge?") is supported


def test_what_cites_nothing_is_not_supported() -> None:
    assert not is_supported_by_words(CitedStatement("The bridge was built in 1874.", ()), "")


def test_an_answer_holds_a_fact_by_the_words_of_its_pattern() -> None:
    asked = AskedQuestion("1", "After how many seconds?", "git", facts=(r"default: 900|x{0,2}",))
    assert asked.is_held("By default it is 900 s.")
    assert not asked.is_held("It is 90 s.")
    assert AskedQuestion("1", "Who?", "nq", gold=("Mary",)).is_held("It was mary.")
    assert not AskedQuestion("1", "Who?", "nq", gold=("Mary",)).is_held("It was Maryland.")


TOWNS = ("Arden", "Belmont", "Corvale", "Dunmore", "Elstow", "Farley")
BUILT = (1801, 1822, 1843, 1864, 1885, 1906)


def write_made_up_data(folder: Path) -> Path:
    """Write a data folder with articles about towns, and questions of the other sets about them."""
    articles = []
    for town, year in zip(TOWNS, BUILT, strict=True):
        first = f"The bridge of {town} was built in {year}. It is made of stone."
        second = f"The mayor of {town} opened the new harbour. Ships from the north use it."
        asked = {
            first: (f"When was the bridge of {town} built?", str(year)),
            second: ("Who opened the new harbour?", f"The mayor of {town}"),
        }
        paragraphs = [
            {
                "context": context,
                "qas": [
                    {
                        "id": f"{town}-{number}",
                        "question": question,
                        "answers": [{"text": gold, "answer_start": context.find(gold)}],
                    }
                ],
            }
            for number, (context, (question, gold)) in enumerate(asked.items())
        ]
        articles.append({"title": town, "paragraphs": paragraphs})
    query = (
        "Passage: Ships use the harbour every day.\nQuestion: do ships use the harbour every day"
    )
    for name, text in (
        ("squad/train.json.xz", json.dumps({"data": articles})),
        ("boolq/boolq.jsonl.xz", json.dumps({"query": query, "choices": ["no", "yes"], "gold": 1})),
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(lzma.compress(text.encode()))
    (folder / "questions").mkdir()
    (folder / "questions" / "NQ-open.efficientqa.dev.1.1.jsonl").write_text(
        '{"question": "when was the bridge of belmont built", "answer": ["1822"]}\n'
        '{"question": "who painted the ceiling of the chapel", "answer": ["nobody"]}\n'
    )
    trivia = {"context": "Question: Who opened the harbour of Farley?\nAnswer:"}
    (folder / "questions" / "triviaqa_300.jsonl").write_text(
        json.dumps(trivia | {"answer": "Mayor", "aliases": ["The mayor"]}) + "\n"
    )
    return folder


@pytest.mark.slow
def test_the_recipe_runs_whole_and_goes_on_where_it_was(tmp_path: Path) -> None:
    data = write_made_up_data(tmp_path / "data")
    write_tiny_model(tmp_path / "base", ["The bridge was built in 1822 by the mayor of the town."])
    config = tmp_path / "writer.tiny.toml"
    text = (ROOT / "recipes" / "sizes" / "writer.tiny.toml").read_text()
    config.write_text(text.replace('model = ""', f'model = "{tmp_path / "base"}"'))

    def run() -> Result:
        return run_recipe("writer", Settings, train_and_measure, config, data, tmp_path / "out")

    result = run()
    episodes = list(read_json_lines(tmp_path / "out" / "episodes.jsonl", Episode))
    said = {each.question.text: each.answer and each.answer.text for each in episodes}
    assert said["When was the bridge of Belmont built?"] == (
        "The bridge of Belmont was built in 1822."
    )
    for each in episodes:  # the prompt shows what the sentence rests on, and no example
        assert each.steps[0].prompt.count("Question:") == 1
        assert each.answer is not None
        assert each.steps[0].said.text == f" {each.answer.text}"
    systems = {
        name: msgspec.json.decode(
            (tmp_path / "out" / f"{name}.json").read_bytes(), type=WrittenAnswers
        )
        for name in ("extract", "sentence", "without", "adapter")
    }
    assert {each.question for each in systems["extract"].answers} == {
        "when was the bridge of belmont built",
        "Who opened the harbour of Farley?",
    }
    assert all(each.held and not each.written for each in systems["extract"].answers)
    assert (tmp_path / "out" / "run" / "adapter" / WEIGHTS_FILE).exists()
    [finding] = result.findings
    assert finding.reference.score.value == 1.0  # extract holds both accepted answers
    assert finding.verdict == "undecided"  # two questions decide nothing
    held = {name: [float(each.held) for each in system.answers] for name, system in systems.items()}
    [table] = result.tables
    assert {name: list(scores) for name, scores in table.scores.items()} == held
    stamp = (tmp_path / "out" / "adapter.json").stat().st_mtime_ns
    assert run().findings == result.findings
    assert (tmp_path / "out" / "adapter.json").stat().st_mtime_ns == stamp
