"""Rows for other libraries: what those read without a word, and what comes back."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.answers.training_rows import (
    DemonstrationRow,
    PreferenceRow,
    convert_training_file,
    describe_rows,
    format_answer_with_quotes,
    make_demonstration_rows,
    make_preference_rows,
    read_demonstration_rows,
    read_preference_rows,
    write_training_rows,
)
from rookery.errors import Failed
from rookery.learn.random_models import write_tiny_model
from rookery.records import Answer, Claim, Comparison, Completion, Episode, Page, Question, Step

WHY = Question("1", "Why do crows bring gifts?")
PAGE = Page("https://a.org", "Gifts", "They are fed. Nobody tested it.")


def comparison(*weights: float, question: Question = WHY) -> Comparison:
    answers = tuple(Answer(f"Answer {n}") for n in range(len(weights)))
    return Comparison(question, answers, weights, "rater")


def pairs(*weights: float) -> list[tuple[str, str]]:
    rows = make_preference_rows([comparison(*weights)]).rows
    return [
        (each.chosen[-1], each.rejected[-1]) for each in rows if isinstance(each, PreferenceRow)
    ]


def test_of_k_answers_every_pair_of_which_one_was_preferred() -> None:
    assert pairs(1, 0) == [("0", "1")]
    assert pairs(0.3, 0.7) == [("1", "0")]
    assert pairs(0, 0, 1, 0) == [("2", "0"), ("2", "1"), ("2", "3")]
    assert pairs(0.2, 0.5, 0.3) == [("1", "0"), ("2", "0"), ("1", "2")]


def test_ties_are_left_out_and_counted() -> None:
    rows, left_out = make_preference_rows(
        [comparison(0.5, 0.5), comparison(0, 0, 1, 0), comparison(1, 0)]
    )
    assert len(rows) == 4
    assert left_out == {"pairs of equal weight": 1 + 3}
    same = Comparison(WHY, (Answer("Yes."), Answer("Yes.", score=0.3)), (1.0, 0.0), "rater")
    assert make_preference_rows([same]) == ([], {"pairs of answers that read the same": 1})


@pytest.mark.slow
@given(st.lists(st.integers(0, 3), min_size=2, max_size=6).filter(any))
def test_as_many_rows_and_ties_as_there_are_pairs(weights: list[int]) -> None:
    rows, left_out = make_preference_rows([comparison(*(w / sum(weights) for w in weights))])
    ties = left_out["pairs of equal weight"]
    assert len(rows) + ties == len(weights) * (len(weights) - 1) // 2


def test_an_answer_is_shown_with_the_quotes_that_it_cites() -> None:
    quotes = (PAGE.quote(14, 31), PAGE.quote(0, 13), PAGE.quote(0, 8))
    answer = Answer("They are fed, untested.", quotes, (Claim(0, 12, (1,)), Claim(14, 22, (0, 1))))
    assert format_answer_with_quotes(answer) == (
        "They are fed [2], untested [1][2].\n\n"
        "[1] Gifts: Nobody tested it.\n[2] Gifts: They are fed."
    )
    assert format_answer_with_quotes(Answer("No idea.")) == "No idea."


def test_every_step_is_a_prompt_and_a_completion() -> None:
    steps = (Step("shown", Completion("Search crows")), Step("", Completion("Back")))
    assert make_demonstration_rows([Episode(WHY, "person", steps)]) == (
        [DemonstrationRow("shown", "Search crows", Episode(WHY, "person").to_json())],
        {"steps whose prompt is not stored": 1},
    )


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    odd = Question("7", 'Why "crows"?\n\u2028 é 日本 \U0001f426')
    exported = make_preference_rows([comparison(0, 1, question=odd)])
    write_training_rows(exported.rows, tmp_path / "pairs.jsonl")
    [back] = read_preference_rows(tmp_path / "pairs.jsonl", "trl")
    assert back.question.text == odd.text
    assert [answer.text for answer in back.answers] == ["Answer 1", "Answer 0"]
    assert back.weights == (1.0, 0.0)
    assert make_preference_rows([back]) == exported
    episode = Episode(odd, "person", (Step(odd.text, Completion("Back")),))
    write_training_rows(make_demonstration_rows([episode]).rows, tmp_path / "steps.jsonl")
    [again] = read_demonstration_rows(tmp_path / "steps.jsonl", "person")
    assert again == episode


def test_conversations_of_one_message_are_texts(tmp_path: Path) -> None:
    def message(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": text}]

    row = {"prompt": message("Why?"), "chosen": message("So."), "rejected": "No.", "score": 3}
    long = row | {"chosen": [*message("Why?"), *message("So.")]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(long))
    rows = read_preference_rows(tmp_path / "rows.jsonl", "x")
    assert [answer.text for answer in next(rows).answers] == ["So.", "No."]
    with pytest.raises(Failed, match="many_messages: row 2 has a conversation of 2 messages"):
        next(rows)
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Why?", "chosen": "So."}')
    with pytest.raises(
        Failed, match=r"line 1: bad_line: no PreferenceLine .*the field .* is missing"
    ):
        next(read_preference_rows(tmp_path / "rows.jsonl", "x"))


def say(*texts: str) -> list[dict[str, str]]:
    """A conversation, in which a person begins."""
    roles = ("user", "assistant") * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def write_turns(*texts: str) -> str:
    """The same as one text."""
    roles = ("Human", "Assistant") * len(texts)
    return "".join(f"\n\n{role}: {text}" for role, text in zip(roles, texts, strict=False))


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"chosen": say("Why?", "So."), "rejected": say("Why?", "No.")}, "Why?"),
        ({"chosen": write_turns("Why?", "So."), "rejected": write_turns("Why?", "No.")}, "Why?"),
        (
            {"chosen": say("Hi", "Hm", "Why?", "So."), "rejected": say("Hi", "Hm", "Why?", "No.")},
            "user: Hi\n\nassistant: Hm\n\nuser: Why?",
        ),
        (
            {
                "chosen": write_turns("Hi", "Hm", "Why?", "So."),
                "rejected": write_turns("Hi", "Hm", "Why?", "No."),
            },
            "Human: Hi\n\nAssistant: Hm\n\nHuman: Why?",
        ),
        ({"prompt": "Why?", "chosen": say("Why?", "So."), "rejected": say("Why?", "No.")}, "Why?"),
        (
            {"prompt": say("Hi", "Hm", "Why?"), "chosen": say("So."), "rejected": say("No.")},
            "user: Hi\n\nassistant: Hm\n\nuser: Why?",
        ),
    ],
)
def test_what_both_conversations_begin_with_is_the_prompt(
    tmp_path: Path, row: dict[str, Any], prompt: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    [read] = read_preference_rows(tmp_path / "rows.jsonl", "x")
    assert read.question.text == prompt
    assert [answer.text for answer in read.answers] == ["So.", "No."]


def test_equal_conversations_differ_in_nothing_but_their_reply(tmp_path: Path) -> None:
    row = {"chosen": say("Why?", "So."), "rejected": say("Why?", "So.")}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    [read] = read_preference_rows(tmp_path / "rows.jsonl", "x")
    assert (read.question.text, read.answers[0].text) == ("Why?", "So.")


def test_turns_that_are_written_in_a_reply_stay_there(tmp_path: Path) -> None:
    texts = [write_turns("Why?", text) for text in ("So.", "No.")]
    row = {"prompt": "Go on", "chosen": texts[0], "rejected": texts[1]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    [read] = read_preference_rows(tmp_path / "rows.jsonl", "x")
    assert (read.question.text, read.answers[0].text) == ("Go on", texts[0])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"chosen": "So.", "rejected": "No."}, "bad_line: row 2 has no prompt: add `prompt`"),
        ({"prompt": "", "chosen": "So.", "rejected": "No."}, "bad_line: row 2 has no prompt"),
        ({"chosen": say("So."), "rejected": say("No.")}, "bad_line: row 2 has no prompt"),
        ({"chosen": "So.\n\nHuman: Why?", "rejected": "No."}, "bad_line: row 2 has no prompt"),
        (
            {"chosen": say("Why?", "So.", "And?"), "rejected": say("Why?", "No.")},
            "many_messages: row 2 has a conversation of 2 messages",
        ),
        (
            {"chosen": [], "rejected": [], "prompt": "Why?"},
            "many_messages: row 2 has a conversation of 0 messages",
        ),
    ],
)
def test_a_row_without_a_prompt_or_reply_is_named(
    tmp_path: Path, row: dict[str, Any], why: str
) -> None:
    good = {"prompt": "Why?", "chosen": "So.", "rejected": "No."}
    source, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    source.write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n")
    with pytest.raises(Failed, match=why):
        convert_training_file(source, out, "x")
    assert not out.exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Failed, match="not_written: make room, or allow writing there"):
        write_training_rows([], tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")
    from datasets import load_dataset  # type: ignore[import-untyped]

    def load(rows: Any) -> Any:
        write_training_rows(rows, tmp_path / "rows.jsonl")
        files = str(tmp_path / "rows.jsonl")
        return load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path))

    return load


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # theirs, of each other
def test_trl_reads_the_rows_and_trains_on_them(loads: Any, tmp_path: Path) -> None:
    trl: Any = import_module("trl")
    rows = make_preference_rows([comparison(1, 0), comparison(0, 0, 1, 0)]).rows
    pairs = loads(rows)
    assert sorted(pairs.column_names) == ["chosen", "prompt", "record", "rejected"]
    write_tiny_model(tmp_path / "model", ["Answer 1"], vocabulary=300)
    model = str(tmp_path / "model")
    usual: Any = {"output_dir": str(tmp_path / "out"), "report_to": [], "max_steps": 1}
    usual |= {"use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
    reward = trl.RewardTrainer(model, args=trl.RewardConfig(**usual), train_dataset=pairs)
    tokenizer = reward.processing_class
    read = [tokenizer.decode(row["chosen_ids"]) for row in reward.train_dataset]
    for row, text in zip(rows, read, strict=True):
        assert isinstance(row, PreferenceRow)
        assert f"{row.prompt}{row.chosen}" in text
    reward.train()
    steps = loads([DemonstrationRow("Why?", "So.")])
    taught = trl.SFTTrainer(model, args=trl.SFTConfig(**usual), train_dataset=steps)
    [row] = taught.train_dataset
    said = [token for token in row["labels"] if token != -100]
    assert tokenizer.decode(said, skip_special_tokens=True) == "So."


def test_a_file_is_converted_by_what_its_first_line_holds(tmp_path: Path) -> None:
    ours, rows, back = (tmp_path / name for name in ("ours.jsonl", "rows.jsonl", "back.jsonl"))
    ours.write_text(f"{comparison(1, 0).to_json()}\n{comparison(0.5, 0.5).to_json()}\n")
    assert convert_training_file(ours, rows, "") == (1, {"pairs of equal weight": 1})
    row = json.loads(rows.read_text())
    assert Comparison.from_json(row.pop("record")) == comparison(1, 0)
    assert row == {"prompt": WHY.text, "chosen": "Answer 0", "rejected": "Answer 1"}
    assert convert_training_file(rows, back, "TRL") == (1, {})
    assert Comparison.from_json(back.read_text()) == comparison(1, 0)
    rows.write_text(rows.read_text().replace('"chosen":"Answer 0"', '"chosen":"Answer 2"'))
    assert convert_training_file(rows, back, "TRL") == (1, {})
    found = Comparison.from_json(back.read_text())
    assert (found.question.text, found.weights, found.by) == (WHY.text, (1.0, 0.0), "TRL")
    assert [answer.text for answer in found.answers] == ["Answer 2", "Answer 1"]

    episode = Episode(WHY, "ada", (Step("Why?", Completion("Because.")),))
    ours.write_text(episode.to_json() + "\n")
    assert convert_training_file(ours, rows, "") == (1, {})
    assert convert_training_file(rows, back, "TRL") == (1, {})
    assert Episode.from_json(back.read_text()).steps == (Step("Why?", Completion("Because.")),)


def test_quotes_ids_and_steps_come_back(tmp_path: Path) -> None:
    answer = Answer("They are fed.", (PAGE.quote(0, 13),), (Claim(0, 13, (0,)),))
    judged = Comparison(WHY, (answer, Answer("No idea.")), (1.0, 0.0), "ada")
    said = [Completion("Search crows"), Completion("End: Answer"), Completion("They are fed [1].")]
    steps = tuple(Step(f"screen {number}", each) for number, each in enumerate(said))
    episodes = [Episode(WHY, "ada", steps, answer), Episode(WHY, "bob", steps[:1])]
    write_training_rows(make_preference_rows([judged]).rows, tmp_path / "pairs.jsonl")
    assert list(read_preference_rows(tmp_path / "pairs.jsonl", "x")) == [judged]
    write_training_rows(make_demonstration_rows(episodes).rows, tmp_path / "steps.jsonl")
    assert list(read_demonstration_rows(tmp_path / "steps.jsonl", "x")) == episodes


def test_what_rows_cannot_hold_is_counted() -> None:
    assert make_preference_rows([comparison(0.7, 0.3)]).left_out == {
        "weights other than 0 and 1": 1
    }
    sampled = Step("shown", Completion("Back", (3, 4), (-0.5, -0.1)))
    rows = make_demonstration_rows([Episode(WHY, "policy", (sampled,))])
    assert rows.left_out == {"tokens and log-probabilities of steps": 1}


def test_each_reply_of_a_conversation_is_a_step(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, *say("Why?", "So.", "And?", "No.")]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": messages}))
    [episode] = read_demonstration_rows(tmp_path / "rows.jsonl", "x")
    assert [step.said.text for step in episode.steps] == ["So.", "No."]
    assert episode.steps[0].prompt == "system: Be brief.\n\nuser: Why?"
    assert episode.answer == Answer("No.")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["disk", "splits", "parquet"])
def test_datasets_on_disk_are_read_as_they_are(tmp_path: Path, kind: str) -> None:
    datasets: Any = import_module("datasets")
    row = {"prompt": say("Why?"), "chosen": say("x", "So.")[1:], "rejected": say("x", "No.")[1:]}
    rows = datasets.Dataset.from_list([row | {"score": number} for number in range(3)])
    place = tmp_path / "data"
    if kind == "parquet":
        place = tmp_path / "data.parquet"
        rows.to_parquet(place)
    elif kind == "splits":
        datasets.DatasetDict({"test": rows.select([0]), "train": rows}).save_to_disk(place)
    else:
        rows.save_to_disk(place, num_shards=2)
    read = list(read_preference_rows(place, "x"))
    assert [each.question.text for each in read] == ["Why?"] * 3
    assert [answer.text for answer in read[0].answers] == ["So.", "No."]
    assert describe_rows(place) == (
        f"rows (prompt, chosen, rejected) of {place}; they are texts, without quotes; "
        "not read: score"
    )


@pytest.mark.parametrize("first", ["", '{"text": "crows"}', "[]"])
def test_a_file_of_another_kind_is_told(tmp_path: Path, first: str) -> None:
    (tmp_path / "some.jsonl").write_text(first + "\n")
    with pytest.raises(Failed, match=r"some.jsonl.*(first line is no comparison|no JSON object)"):
        convert_training_file(tmp_path / "some.jsonl", tmp_path / "rows.jsonl", "")
    assert not (tmp_path / "rows.jsonl").exists()
