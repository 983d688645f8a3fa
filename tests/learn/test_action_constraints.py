"""Policies held to offered actions, or to the browser's commands: nothing else is said, and what
was allowed is recorded."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from small import CROWS, MAGPIES, logprobs

from recipes.oracle_policies import list_candidate_actions
from recipes.random_models import write_random_model
from rookery.browser.browser_commands import (
    SCREEN_LINK,
    BrowserRules,
    format_prompt_head,
    parse_command,
)
from rookery.errors import Failed
from rookery.learn.action_batches import TokenIds, list_allowed_ids
from rookery.learn.action_constraints import (
    ConstrainedEnvironment,
    allow_commands,
    constrain_commands_on_server,
    list_next_tokens,
    tokenize_actions,
)
from rookery.learn.decoding import SampledAction, SamplingSettings, sample_actions
from rookery.learn.episodes import PolicySampler, Trajectory
from rookery.learn.pretrained_models import (
    PolicyTokenizer,
    TrainedModelSettings,
    load_policy_tokenizer,
    load_trainable_model,
)
from rookery.learn.random_models import write_tiny_model
from rookery.learn.rollout_environments import BrowserEnvironment, BrowserEnvironmentSettings
from rookery.learn.training_data import PromptConstraint
from rookery.library.search_index import InMemoryLibrary
from rookery.models.remote_model import AllowedTokens
from rookery.pages.page_reader import read_page
from rookery.records import Answer, Question

TOKENS = 60
LIBRARY = InMemoryLibrary(
    read_page(
        f"<title>{title}</title><p>{words}</p>".encode(), f"https://a.org/{title}", "text/html"
    )
    for title, words in (("Crow", CROWS), ("Magpie", MAGPIES))
)
QUESTIONS = [
    Question("crows", "What do crows remember?"),
    Question("mirrors", "Who knows itself in a mirror?"),
]
BROWSING = BrowserEnvironmentSettings(rules=BrowserRules(actions=8, overlap=0))


def allow_offers(
    speech: PolicyTokenizer, offer: Callable[[str], Sequence[str]] = list_candidate_actions
) -> PromptConstraint:
    """A constraint to the actions that are offered to each prompt; those that are too long are left
    out unless all are."""

    def constrain_action(prompt: str) -> AllowedTokens:
        rows = tokenize_actions(speech, offer(prompt))
        fitting = [row for row in rows if len(row) <= speech.max_action_tokens] or rows
        return lambda said: list_next_tokens(fitting, said)

    return constrain_action


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("blank")
    write_random_model(
        made, [CROWS, MAGPIES, format_prompt_head("", "", "", "", (0, 0))], 400, 2048, 16, 1
    )
    return made


@pytest.fixture(scope="module")
def speech(folder: Path) -> PolicyTokenizer:
    return load_policy_tokenizer(folder, TOKENS, chat=False)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_trainable_model(TrainedModelSettings(str(folder)))


@pytest.fixture(scope="module")
def played(model: Any, speech: PolicyTokenizer) -> list[Trajectory]:
    def draw_sample(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
        return sample_actions(model, contexts, seeds, speech.ends, SamplingSettings(TOKENS), allow)

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [1.0] * len(pairs)

    world = BrowserEnvironment(QUESTIONS, LIBRARY, scores, speech, BROWSING)
    offered = allow_offers(speech)
    return ConstrainedEnvironment(world, speech, offered).play_episodes(
        draw_sample, range(8), seed=1
    )


class Asks:
    """A world that asks once, and gives nothing back."""

    def __init__(self, speech: PolicyTokenizer, prompt: str = "?") -> None:
        self._speech = speech
        self._prompt = prompt

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        sample([self._speech.encode_prompt(self._prompt)], ["0"])
        return []


def test_a_policy_that_knows_nothing_says_only_what_is_offered(
    played: list[Trajectory], speech: PolicyTokenizer
) -> None:
    for one in (one for each in played for one in each.rows):
        assert one.ended
        assert speech.decode_action(one.row.action) in list_candidate_actions(
            speech.decode_action(one.row.context)
        )


def test_so_it_comes_to_answers(played: list[Trajectory]) -> None:
    assert any(one.reward == 1.0 for one in played)


def within(allowed: Sequence[TokenIds]) -> Callable[[Sequence[int]], TokenIds]:
    return lambda said: allowed[len(said)]


def test_what_was_drawn_is_as_likely_as_the_offered_tokens_make_it(
    played: list[Trajectory], model: Any
) -> None:
    for one in played[0].rows:
        context, action, allowed = one.row
        assert allowed is not None
        found = logprobs(model, context, action, allow=within(allowed))
        assert one.logprobs == pytest.approx(found, abs=1e-4)


def test_offers_that_are_too_long_are_left_out_while_others_are_not(
    speech: PolicyTokenizer,
) -> None:
    long = "x" * (TOKENS + 1)

    def allowed(*texts: str) -> set[int]:
        token_sets: list[set[int]] = []

        def sampler(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
            token_sets.extend(set(each([])) for each in allow)
            return []

        def offer(_: str) -> Sequence[str]:
            return texts

        offered = allow_offers(speech, offer)
        ConstrainedEnvironment(Asks(speech), speech, offered).play_episodes(sampler, [0], 0)
        return token_sets[0]

    assert allowed("End: Answer", long) == allowed("End: Answer") != allowed(long) != set()


PAGE_TEXT = "Crows remember faces for years.\nThey tell 【3†their young†b.org】 of them."
COMMAND_PROMPT = (
    format_prompt_head("What do crows remember?", "", "Search crows", "Crow", (0, 100))
    + f"\n{PAGE_TEXT}\n♦Actions left: 5\n♦Next action\n"
)


def encode_action(speech: PolicyTokenizer, text: str) -> list[int]:
    encoded = speech.tokenizer(text, add_special_tokens=False, split_special_tokens=True)
    return [*encoded["input_ids"], speech.vocabulary.end]


WAYS = (allow_commands, constrain_commands_on_server)


def is_allowed(way: Any, speech: PolicyTokenizer, text: str, prompt: str = COMMAND_PROMPT) -> bool:
    allow = way(speech)(prompt)
    assert allow is not None
    return list_allowed_ids(encode_action(speech, text), allow) is not None


@pytest.mark.parametrize(
    "command",
    [
        "Search faces of crows",
        "Find in page: crows remember",
        "Clicked on link 3",
        "Quote: Crows remember faces",
        "Quote: faces for years. They tell their young of them.",
        "Quote: Crows remember━of them.",
        "Scrolled down 3",
        "Scrolled up 1",
        "Top",
        "Back",
        "End: Answer",
        "End: Controversial",
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_each_command_of_the_browser_can_be_said(
    way: Any, speech: PolicyTokenizer, command: str
) -> None:
    assert parse_command(command)
    in_a_row = "━" not in command or way is allow_commands
    assert is_allowed(way, speech, command) == in_a_row


@pytest.mark.parametrize(
    "said",
    [
        "Search",
        "Search  ",
        "Search crows\nTop",
        "Search\ncrows",
        "Searchcrows",
        "Clicked on link 4",
        "Quote: Crows forget faces",
        "Quote: of them.━Crows remember",
        "Quote: Crows",
        "Quote:Crows remember faces",
        "Scrolled down 4",
        "End: Nothing",
        "I do not know.",
        "",
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_else_can_be_said(way: Any, speech: PolicyTokenizer, said: str) -> None:
    assert not is_allowed(way, speech, said)


@pytest.mark.parametrize("way", WAYS)
def test_a_screen_without_words_has_nothing_to_quote(way: Any, speech: PolicyTokenizer) -> None:
    blank = COMMAND_PROMPT.replace(PAGE_TEXT, "Crow")
    assert is_allowed(way, speech, "Back", blank)
    assert not is_allowed(way, speech, "Quote: Crow", blank)


def test_a_screen_that_is_too_long_for_a_grammar_says_what_to_do(speech: PolicyTokenizer) -> None:
    long = COMMAND_PROMPT.replace(PAGE_TEXT, "crows " * 1400)
    with pytest.raises(Failed, match=r"too_long: .*leave `server` empty"):
        constrain_commands_on_server(speech)(long)


@pytest.mark.parametrize("way", WAYS)
def test_a_policy_with_a_chat_template_is_held_too(way: Any, tmp_path: Path) -> None:
    """The template holds end tokens before the prompt."""
    write_tiny_model(tmp_path, [COMMAND_PROMPT, *["<|im_start|>user\n<|im_end|>"] * 9], 400)
    chatting = load_policy_tokenizer(tmp_path, TOKENS)
    assert chatting.ends & {*chatting.encode_prompt(COMMAND_PROMPT)}
    held: list[Any] = []

    def sampler(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
        held.extend(allow)
        return []

    world = Asks(chatting, COMMAND_PROMPT)
    ConstrainedEnvironment(world, chatting, way(chatting)).play_episodes(sampler, [0], 0)
    [allow] = held
    assert list_allowed_ids(encode_action(chatting, "Clicked on link 3"), allow) is not None
    assert list_allowed_ids(encode_action(chatting, "Clicked on link 4"), allow) is None


@pytest.mark.parametrize("way", WAYS)
def test_prompts_that_ask_for_an_answer_are_free(way: Any, speech: PolicyTokenizer) -> None:
    assert way(speech)("Why?■[1] Crow\n\nThey remember.■") is None


@pytest.mark.parametrize("way", WAYS)
def test_a_policy_that_knows_nothing_says_commands_that_end_and_quotes_of_the_screen(
    way: Any, model: Any, speech: PolicyTokenizer
) -> None:
    short = speech._replace(max_action_tokens=24)
    allow = way(short)(COMMAND_PROMPT)
    context = speech.encode_prompt(COMMAND_PROMPT)
    said = sample_actions(
        model, [context] * 60, range(60), speech.ends, SamplingSettings(24), [allow] * 60
    )
    screen = " ".join(SCREEN_LINK.sub(r"\2", PAGE_TEXT).split())
    verbs = set()
    for one in said:
        if not one.ended:  # a server does not count tokens
            assert way is constrain_commands_on_server
            continue
        text = speech.decode_action(one.row.action)
        command = parse_command(text)
        assert command, text
        verbs.add(command.verb)
        if command.verb == "Quote:":
            parts = command.argument.split("━")
            assert all(part in screen for part in parts)
    assert "Quote:" in verbs
    assert "Search" in verbs or way is constrain_commands_on_server
