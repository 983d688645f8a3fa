"""Steps as rows: whose are chosen, which tokens they become, what is left out, and how many."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from recorded_calls import strip_prompts
from small import CROWS, MAGPIES, PAGES, TEXTS

from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.errors import Failed
from rookery.learn.action_batches import ActionRow
from rookery.learn.local_model import LocalModel
from rookery.learn.pretrained_models import LoadedModel, load_model, tokenize_prompt
from rookery.learn.random_models import END_TOKEN, write_tiny_model
from rookery.learn.rollout_environments import constrain_to_document
from rookery.learn.training_data import (
    AnswerRatings,
    EpisodeFilter,
    build_imitation_examples,
    choose_validation_questions,
    describe_left_out,
    encode_target,
    read_episodes,
)
from rookery.library.call_recording import CallRecording
from rookery.library.search_index import InMemoryLibrary
from rookery.models.remote_model import AllowedTokens
from rookery.quotes.citation_syntax import AnswerShape
from rookery.quotes.constraint import VerbatimGrammar
from rookery.records import Answer, Claim, Completion, Episode, Question, Rating, Step
from rookery.settings import LocalModelSettings

QUOTED = Answer("Crows are clever.", (PAGES[0].quote(0, 24),), (Claim(0, 17, (0,)),), score=0.6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny")
    write_tiny_model(made, TEXTS, vocabulary=400, context=100)
    return made


@pytest.fixture(scope="module")
def loaded(folder: Path) -> LoadedModel:
    return load_model(folder, "cpu")


def episode(
    *turns: Completion | str,
    by: str = "person",
    answer: Answer | None = QUOTED,
    question: str = "Why?",
) -> Episode:
    steps = tuple(
        Step(f"Prompt {n}", each if isinstance(each, Completion) else Completion(each))
        for n, each in enumerate(turns)
    )
    return Episode(Question("1", question), by, steps, answer)


def spelt(row: ActionRow, loaded: LoadedModel) -> str:
    return str(loaded.tokenizer.decode(list(row.action)))


def cut(text: str, loaded: LoadedModel) -> list[int]:
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert isinstance(ids, list)
    return ids


def test_every_step_is_a_row_of_its_prompt_and_what_was_said(loaded: LoadedModel) -> None:
    found, left_out = build_imitation_examples([episode("Search crows", "End: Answer")], loaded)
    assert [spelt(each.row, loaded) for each in found] == [
        f"Search crows{END_TOKEN}",
        f"End: Answer{END_TOKEN}",
    ]
    for number, each in enumerate(found):
        assert list(each.row.context) == tokenize_prompt(loaded.tokenizer, f"Prompt {number}")
    assert not left_out


def test_tokens_that_a_model_drew_are_not_cut_again(folder: Path, loaded: LoadedModel) -> None:
    letters = [cut(letter, loaded)[0] for letter in "crow"]
    speaker = LocalModel(folder, LocalModelSettings(max_tokens=12))
    drawn = speaker.complete("Crows?", 9, allow=lambda said: letters, seed=1)
    assert any(cut(said.text, loaded) != list(said.tokens) for said in drawn)
    assert [encode_target(said, loaded) for said in drawn] == [list(said.tokens) for said in drawn]


def test_tokens_of_another_tokenizer_are_not_taken_for_ours(loaded: LoadedModel) -> None:
    ours = cut("Crows are clever", loaded)
    end = loaded.tokenizer.eos_token_id
    letters = [cut(letter, loaded)[0] for letter in "Crows"]
    for tokens in [(), (5, 6, 7), (10**6,), (-1,), tuple(ours[:-1]), (*ours, end, end)]:
        assert encode_target(Completion("Crows are clever", tokens), loaded) == [*ours, end]
    # Letter by letter is another way to spell it, and the one in which it was said.
    assert encode_target(Completion("Crows", tuple(letters)), loaded) == [*letters, end]
    assert encode_target(Completion("Crows", (*letters, end)), loaded) == [*letters, end]


def test_what_was_cut_off_does_not_teach_to_end_there(loaded: LoadedModel) -> None:
    end = loaded.tokenizer.eos_token_id
    assert encode_target(Completion("Crows are", stop="length"), loaded)[-1] != end
    assert encode_target(Completion("Crows are", stop="stop"), loaded)[-1] == end
    assert encode_target(Completion(""), loaded) == [end]


def test_an_end_token_that_is_typed_is_text(loaded: LoadedModel) -> None:
    end = loaded.tokenizer.eos_token_id
    assert encode_target(Completion(f"say {END_TOKEN}"), loaded).count(end) == 1


def test_what_does_not_fit_is_left_out_and_counted(loaded: LoadedModel) -> None:
    fits = episode("Search crows")
    long_prompt = msgspec.structs.replace(fits, steps=(Step(CROWS * 9, Completion("Back")),))
    found, left_out = build_imitation_examples(
        [fits, episode(MAGPIES * 9), long_prompt, long_prompt], loaded
    )
    assert len(found) == 1
    assert describe_left_out(left_out) == (
        "2 steps whose prompt and target are longer than the 100 tokens of the context, "
        "1 steps whose target is longer than the 100 tokens of the context"
    )


def test_a_target_has_the_ids_that_a_constraint_leaves_or_is_left_out(loaded: LoadedModel) -> None:
    grammar = VerbatimGrammar(loaded.vocabulary, AnswerShape())
    page = ("Crows", "Crows are clever birds.")

    def constrain(prompt: str) -> AllowedTokens:
        return constrain_to_document(grammar, page, 60) if prompt == "Prompt 0" else None

    said = [f"%<Clever.>%(Crows)%[{words}]%" for words in ("are clever", "are stupid")]
    examples, left_out = build_imitation_examples(
        [episode(said[0]), episode(said[1]), episode("Search", "crows")],
        loaded,
        chat=False,
        constrain=constrain,
    )
    assert left_out == {"steps whose target the constraint forbids": 2}
    quoted, free = (each.row for each in examples)
    assert free.allowed is None
    assert quoted.allowed is not None
    for token, ids in zip(quoted.action, quoted.allowed, strict=True):
        assert token in ids
    # the page's title is the only one: after its mark nothing is left to choose
    assert len(quoted.allowed[-1]) == 1
    assert min(map(len, quoted.allowed[:2])) > 1


def test_a_row_may_fill_the_context_and_no_more(loaded: LoadedModel) -> None:
    size = len(tokenize_prompt(loaded.tokenizer, "Prompt 0"))
    [letter] = cut("e", loaded)
    full, over = (Completion("e" * many, (letter,) * many) for many in (99 - size, 100 - size))
    found, left_out = build_imitation_examples([episode(full), episode(over)], loaded)
    [row] = [each.row for each in found]
    assert len(row.context) + len(row.action) == 100
    assert left_out.total() == 1


def test_episodes_are_chosen_by_answer_score_and_who(loaded: LoadedModel) -> None:
    declined = msgspec.structs.replace(QUOTED, declined=True)
    unscored = msgspec.structs.replace(QUOTED, score=None)
    episodes = [
        episode("a"),
        episode("b", answer=None),
        episode("c", answer=declined),
        episode("d", by="model"),
        episode("e", answer=unscored),
    ]

    def chosen(**how: object) -> tuple[str, Counter[str]]:
        found, left_out = build_imitation_examples(episodes, loaded, EpisodeFilter(**how))  # type: ignore[arg-type]
        return "".join(each.said for each in found), left_out

    assert chosen() == ("ade", Counter({"episodes without an answer": 2}))
    assert chosen(answered=False)[0] == "abcde"
    assert chosen(by=("model", "nobody"))[0] == "d"
    assert chosen(score=0.6)[0] == "ad"
    assert chosen(score=0.61) == (
        "",
        Counter({"episodes without an answer": 2, "episodes whose answer does not score 0.61": 3}),
    )


def test_rated_good_is_supported_and_plausible_by_the_mean_of_raters(loaded: LoadedModel) -> None:
    other = msgspec.structs.replace(QUOTED, text="Crows are stupid.")
    scored = msgspec.structs.replace(QUOTED, score=0.1)  # a rater saw no score
    why = Question("another id", "Why?")

    def rating(answer: Answer, scale: str, value: float) -> Rating:
        return Rating(why, answer, scale, value, "rater")

    judged = AnswerRatings(
        [
            *(rating(scored, "plausible", value) for value in (1, 1, 0)),
            *(rating(scored, "supported", value) for value in (1, 0)),
            rating(other, "plausible", 1),
        ]
    )
    rated = EpisodeFilter(rated=("plausible", "supported"))
    good, unsupported = episode("good"), episode("other", answer=other)
    elsewhere = episode("elsewhere", question="How?")
    found, left_out = build_imitation_examples(
        [good, unsupported, elsewhere], loaded, rated, judged
    )
    assert [each.said for each in found] == ["good"]
    assert left_out == {"episodes not rated plausible and supported": 2}
    worse = AnswerRatings([*(rating(QUOTED, scale, 1) for scale in rated.rated)])
    assert worse.is_good(good, rated.rated)
    harsh = AnswerRatings([rating(QUOTED, "plausible", 1), rating(QUOTED, "supported", 0.4)])
    assert not harsh.is_good(good, rated.rated)


def test_prompts_that_are_not_stored_are_built_again(tmp_path: Path) -> None:
    task = BrowserTask(Question("q", "Are crows clever?"), BrowserRules(overlap=0))
    says = iter(
        ["Search crows", "Clicked on link 0", "Quote: Crows are clever birds.", "End: Answer"]
    )
    act = make_scripted_policy([lambda seen: "They are [1]." if seen.answering else next(says)])
    with CallRecording(tmp_path / "kept") as recording:
        [whole] = run_rollouts([task], InMemoryLibrary(PAGES), act, "person", recording=recording)
    assert whole.answer is not None
    stored = tmp_path / "stored.jsonl"
    stored.write_text(strip_prompts(whole).to_json() + "\n")
    with pytest.raises(Failed, match=r"stored\.jsonl: q: no_prompts: .* name the recording"):
        list(read_episodes([stored]))
    with CallRecording(tmp_path / "kept") as recording:
        assert list(read_episodes([stored], recording)) == [whole]


def lines(folder: Path, *texts: str) -> Path:
    path = folder / "episodes.jsonl"
    path.write_text("\n".join(texts) + "\n")
    return path


def reading(path: Path) -> Iterator[Episode]:
    return read_episodes([path])


def test_a_line_that_is_no_episode_is_named(tmp_path: Path) -> None:
    good = episode("Back").to_json()
    path = lines(tmp_path, good, "", good[:-9])
    episodes = reading(path)
    assert next(episodes) == episode("Back")
    with pytest.raises(Failed, match=r"line 3: bad_line: no Episode .* take the line out"):
        next(episodes)
    with pytest.raises(Failed, match="line 1: bad_line: no Episode"):
        list(reading(lines(tmp_path, Question("1", "Why?").to_json())))
    with pytest.raises(Failed, match="not_found: it cannot be read"):
        list(reading(tmp_path / "nothing.jsonl"))


def test_questions_are_held_out_whole_and_the_same_under_a_seed() -> None:
    found = [f"q{n % 20}" for n in range(100)]
    held = choose_validation_questions(found, 0.1, 3)
    assert len(held) == 2
    assert (
        held
        == choose_validation_questions(found[::-1], 0.1, 3)
        != choose_validation_questions(found, 0.1, 4)
    )
    assert choose_validation_questions(found, 0, 3) == set()
    assert len(choose_validation_questions(found, 0.0001, 3)) == 1
    assert len(choose_validation_questions(found, 0.9999, 3)) == 19
    assert choose_validation_questions(found[:1], 0, 3) == set()
    with pytest.raises(Failed, match=r"one_question: .* let validation be 0"):
        choose_validation_questions(found[:1], 0.1, 3)
