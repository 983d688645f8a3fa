"""The writer's recipe: statements by rules, preferences, the judges of support, and the recipe
whole."""

from pathlib import Path

import msgspec
import pytest

from recipes.stages import ROOT, Result, run_recipe
from recipes.writer import Settings, train_and_measure
from recipes.writer_data import (
    MOST_SHOWN,
    REFERENCES,
    WritingTask,
    render_trained_prompt,
    show_sources,
)
from recipes.writer_found import AskedQuestion, WrittenAnswers, is_supported_by_words
from recipes.writer_preferences import (
    JudgedSample,
    JudgedTask,
    PreferenceSettings,
    choose_best_samples,
    judge_sample,
)
from recipes.writer_statements import is_sound, shorten_sentence, state_answer
from recipes.writer_support import SupportDataSettings, make_support_examples
from recipes.writer_tiny import write_tiny_data
from rookery.cite.evidence_model import BUNDLED_MODEL, EvidencePassage, load_evidence_model
from rookery.judge.json_lines import read_json_lines
from rookery.learn.lora_adapters import WEIGHTS_FILE
from rookery.measure.citations import CitedStatement
from rookery.records import Completion, Episode, Page

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


OWLS = Page(
    "owls",
    "Owls",
    "Owls hunt at night because mice are out then. They nest in old trees. Owls hear well. "
    + "They sleep by day. " * 30,
)


def make_task(gold: str = "") -> WritingTask:
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    quote = OWLS.quote(0, len(OWLS.text.rstrip()))
    sources = show_sources("Why do owls hunt at night?", [quote] * 4, judge)
    return WritingTask("thread", "Why do owls hunt at night?", sources, gold=gold)


def test_a_prompt_shows_whole_sentences_around_the_answer_of_up_to_three_quotes() -> None:
    task = make_task()
    assert len(task.sources) == REFERENCES
    for source in task.sources:
        assert source.text.startswith("Owls hunt at night because mice are out then. They nest")
        assert source.text.endswith(".")
        assert len(source.text) <= MOST_SHOWN
        assert source.text in OWLS.text
    prompt = render_trained_prompt(task.question, task.sources)
    assert prompt.count("Question:") == 1
    assert [f"Text {n}:" in prompt for n in range(1, 5)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("said", "stop", "gold", "is_worth"),
    [
        ("Owls hunt at night because mice are out then.", "end", "mice", True),
        ("Owls hunt at night because mice are out then.", "length", "", False),
        ("Owls hunt at night because mice are out then.", "end", "voles", False),
        ("Owls hunt at night.", "end", "", False),  # it says what the question says
        ("Owls hunt at night because foxes are out then.", "end", "", False),
        ("owls owls because the of.", "end", "", False),
    ],
)
def test_a_sample_is_worth_what_answers_and_is_supported(
    said: str, stop: str, gold: str, is_worth: bool
) -> None:
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    found = judge_sample(make_task(gold), Completion(said, stop=stop), judge)
    assert (found.worth > 0.3) is is_worth
    assert is_worth or found.worth == 0


def test_the_best_sample_is_learnt_where_the_judge_tells_it_from_the_worst() -> None:
    task = make_task()

    def judged(*worth: float) -> JudgedTask:
        return JudgedTask(task, [JudgedSample(f"Worth {each}.", each) for each in worth])

    samples = [judged(0.9, 0.2), judged(0.9, 0.89), judged(0.4, 0.0)]
    [chosen] = choose_best_samples(PreferenceSettings(least=0.5, margin=0.05), samples)
    assert chosen.answer is not None
    assert chosen.answer.text == "Worth 0.9."


def test_pairs_of_the_same_evidence_are_all_learnt_from_or_all_held_out(tmp_path: Path) -> None:
    data = write_tiny_data(tmp_path)
    pairs = make_support_examples(SupportDataSettings(articles=0.5, held=0.5), data)
    held = {
        each.passage
        for name, every in pairs.held.items()
        if name in ("rte", "covidfact", "wice_dev", "climate_fever")
        for each in every
    }
    assert held
    assert pairs.learnt
    assert not held & {each.passage for each in pairs.learnt}
    assert {"fever_symmetric_dev", "scifact_pairs", "documentation"} <= set(pairs.held)


@pytest.mark.slow
def test_the_recipe_runs_whole_and_goes_on_where_it_was(tmp_path: Path) -> None:
    config, out = ROOT / "recipes" / "sizes" / "writer.tiny.toml", tmp_path / "out"

    def run() -> Result:
        return run_recipe("writer", Settings, train_and_measure, config, tmp_path, out)

    result = run()
    episodes = list(read_json_lines(out / "adapter-episodes.jsonl", Episode))
    said = {each.question.text: each.answer and each.answer.text for each in episodes}
    assert said["When was the bridge of Belmont built?"] == (
        "The bridge of Belmont was built in 1822."
    )
    for each in episodes:  # the prompt shows what the sentence rests on, and no example
        assert each.steps[0].prompt.count("Question:") == 1
        assert each.answer is not None
        assert each.steps[0].said.text == f" {each.answer.text}"
    systems = {
        name: msgspec.json.decode((out / f"{name}.json").read_bytes(), type=WrittenAnswers)
        for name in ("extract", "sentence", "without", "imitated", "adapter")
    }
    assert {each.question for each in systems["extract"].answers} == {
        "when was the bridge of belmont built",
        "Who opened the harbour of Farley?",
    }
    assert all(each.held and not each.written for each in systems["extract"].answers)
    assert (out / "adapter-run" / "adapter" / WEIGHTS_FILE).exists()
    assert any(each.startswith("judge of support on scifact_pairs") for each in result.notes)
    [finding] = result.findings
    assert finding.reference.score.value == 1.0  # extract holds both accepted answers
    assert finding.verdict == "undecided"  # two questions decide nothing
    held = {name: [float(each.held) for each in system.answers] for name, system in systems.items()}
    [table] = result.tables
    assert {name: list(scores) for name, scores in table.scores.items()} == held
    stamp = (out / "adapter.json").stat().st_mtime_ns
    assert run().findings == result.findings
    assert (out / "adapter.json").stat().st_mtime_ns == stamp
