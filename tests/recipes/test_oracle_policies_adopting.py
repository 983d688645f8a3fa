"""The stand-in that bootstraps: what it adopts, and that it errs as often as it is told to."""

from recipes.oracle_policies import (
    OracleErrorRates,
    OracleWriter,
    contains_any_answer,
    parse_webglm_prompt,
)
from rookery.answers.best_of_n import render_prompt
from rookery.quotes.word_overlap import split_words

LINES = (
    "The duke built the tower in 1874",
    "A tower of 18740 bricks stands there",
    "He built it, in 1874, for the dogs",
)
QUESTION = "When was the tower built?"
NONE = OracleErrorRates(adoption=0, memory=0, wrong=0, invented=0, dropped=0)
MEMORY = ["Cows eat grass."]


def make_prompt(question: str = QUESTION) -> str:
    shown = "\n".join(f"Reference [{at}]: {line}" for at, line in enumerate(LINES, 1))
    return render_prompt("webglm", references=shown, question=question)


def adopter(faults: OracleErrorRates = NONE, seed: int = 0) -> OracleWriter:
    return OracleWriter({QUESTION: ("1874",)}, MEMORY, faults, seed)


def test_it_says_what_holds_an_accepted_answer_and_cites_it() -> None:
    [said] = adopter().complete(make_prompt())
    assert said.text == f"{LINES[0]} [1]. {LINES[2]} [3]."


def test_a_prompt_s_example_is_not_read() -> None:
    assert parse_webglm_prompt(make_prompt()) == (QUESTION, list(LINES))


def test_an_answer_is_held_as_whole_words_only() -> None:
    assert [contains_any_answer(line, ("1874",)) for line in LINES] == [True, False, True]
    assert contains_any_answer("It was The Tower!", ("the tower",))
    assert not contains_any_answer("anything", ("!", ""))


def test_what_it_was_not_told_it_says_from_memory() -> None:
    [only] = adopter().generate_statements(make_prompt("Who asked?"))
    assert (only.text, only.source) == ("Cows eat grass", None)
    assert only.cited in range(3)


def test_the_same_prompt_gives_the_same_answer_and_another_sample_another() -> None:
    faults = OracleErrorRates(dropped=0.5)
    one, other = adopter(faults).complete(make_prompt(), 2)
    assert one != other
    assert adopter(faults).complete(make_prompt(), 2) == [one, other]
    assert adopter(faults, seed=1).complete(make_prompt()) != [one]


def test_words_of_the_accepted_answer_are_never_left_out() -> None:
    said = adopter(OracleErrorRates(adoption=0, memory=0, dropped=0.9)).complete(make_prompt(), 50)
    shares = [split_words(each.text).count("1874") for each in said]
    assert set(shares) == {2}
    assert min(len(split_words(each.text)) for each in said) < 10


def test_faults_are_as_often_as_they_are_said_to_be() -> None:
    faults = OracleErrorRates(adoption=0.1, memory=0.3, wrong=0.2, invented=0.1, dropped=0)
    every = [adopter(faults).generate_statements(make_prompt(), number) for number in range(2000)]
    made = [each for some in every for each in some if each.source is not None]
    adopted = [{each.source for each in some} for some in every]
    assert abs(sum(0 in each for each in adopted) / 2000 - 0.9) < 0.03
    assert abs(sum(1 in each for each in adopted) / 2000 - 0.1) < 0.03
    assert abs(sum(each.cited >= 3 for each in made) / len(made) - 0.1) < 0.03
    wrong = sum(each.cited < 3 and each.cited != each.source for each in made)
    assert abs(wrong / len(made) - 0.2) < 0.03
    remembered = sum(any(each.source is None for each in some) for some in every)
    assert abs(remembered / 2000 - 0.3) < 0.05
