"""webgpt with a chat model: its browsing, what it is told, and what becomes of its answer."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from models import chat, refused, serving, write_choices
from recorded_calls import strip_prompts

from rookery.answers.webgpt import STUCK_REPEATS, answer_with_webgpt
from rookery.browser.browser import BrowseResult, browse_library, build_episode
from rookery.browser.browser_commands import BrowserRules, BrowserTask, make_chat_rules
from rookery.browser.rollout import replay_episode
from rookery.library.call_recording import CallRecording, RecordingLibrary
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.models.openai_protocol import ModelEndpoint
from rookery.models.remote_model import RemoteModel
from rookery.records import Completion, Episode, Policy, Question, Step

FILLER = "\n\n".join(f"Plain words of paragraph {n} stand here." for n in range(300))
NEST = "Rooks build nests of sticks in March."
SEEDS = "In winter they dig for 2,000 seeds a day."
CODE = "`json_extract('[11,22]', '$[1]')` gives 22 in SQLite."
TEXT = f"# Rooks\n\n{FILLER}\n\n## Nests\n\n{NEST}\n\n{SEEDS}\n\n{CODE}\n\n## Rest\n\n{FILLER}"
QUESTION = Question("q", "When do rooks build their nests?")


class Says:
    """A policy that says these, with the prompts that it was given; then the last again."""

    name = "says"

    def __init__(self, *replies: str) -> None:
        self.replies, self.prompts = list(replies), list[str]()

    def complete(self, prompt: str, n: int = 1, allow: object = None) -> list[Completion]:
        self.prompts.append(prompt)
        return [Completion(self.replies.pop(0) if self.replies[1:] else self.replies[0])] * n


@pytest.fixture
def library(tmp_path: Path) -> Iterable[FolderLibrary]:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rooks.md").write_text(TEXT)
    (folder / "crows.md").write_text(f"# Crows\n\n{FILLER}")
    with PageArchive(tmp_path / "archive") as archive:
        yield FolderLibrary([folder], archive, tmp_path / "cache")


def browse(library: FolderLibrary, *replies: str, quotes: int = 0) -> tuple[Episode, Says]:
    policy = Says(*replies)
    rules = make_chat_rules(BrowserRules(quotes=quotes), 8000)
    return answer_with_webgpt(QUESTION, library, policy, rules=rules, chat=True), policy


def commands(episode: Episode) -> list[str]:
    return [step.said.text for step in episode.steps if step.prompt.endswith("♦Next action\n")]


def test_tools_thoughts_and_several_commands_lead_to_an_answer(library: FolderLibrary) -> None:
    episode, policy = browse(
        library,
        'I search first. Search is good.\nsearch {"query": "rook nests"}\nopen {"link": 0}',
        f'quote {{"text": "{NEST}"}}\nquote {{"first": "In winter", "last": "a day."}}',
        "finish {}",
        "They build them in March [1], and dig for 2,000 seeds [2]; `$[1]` stays.",
    )
    assert commands(episode) == [
        "Search rook nests",
        "Clicked on link 0",
        f"Quote: {NEST}",
        "Quote: In winter━a day.",
        "End: Answer",
    ]
    answer = episode.answer
    assert answer is not None
    assert [quote.text for quote in answer.quotes] == [NEST, SEEDS]
    assert answer.text == "They build them in March, and dig for 2,000 seeds; `$[1]` stays."
    assert (episode.stop, answer.citations, episode.by) == ("end", msgspec.UNSET, "webgpt")
    first, second, third, _ = policy.prompts
    assert first.startswith("♦System\nYou look for the answer")
    assert '♦Tools\n[{"name":"search"' in first
    assert "♦Last reply" not in first
    assert "results: Rooks\n- Clicked on link 0 → done" in second
    assert NEST in second  # in the middle of a page that is longer than a view
    assert "quoted as [1]" in third


def test_a_result_opens_at_its_passage_with_what_stands_before(library: FolderLibrary) -> None:
    _, policy = browse(
        library, "Search build nests of sticks March", "Clicked on link 0", "End: Nonsense"
    )
    lines = policy.prompts[2].splitlines()
    place = next(number for number, line in enumerate(lines) if NEST in line)
    text = lines.index("♦Text")
    assert text + 5 < place < text + 60
    assert "paragraph 299 stand here" in policy.prompts[2]


def test_errors_come_back_in_words_and_do_not_end_the_session(library: FolderLibrary) -> None:
    episode, policy = browse(
        library,
        "I do not know what to do.",
        "open {}",
        "Clicked on link 7",
        'quote {"text": "x"}',
        "Search rook nests\nClick on link 0\nQuote: not there\nfinish {}",
        f'Quote: "{NEST}"\nEnd: Answer.',
        "In March [1].",
    )
    told = [prompt.rpartition("♦Last reply\n")[2].partition("♦")[0] for prompt in policy.prompts]
    assert "I do not know what to do. → this is no command" in told[1]
    assert "open {} → this is no command" in told[2]
    assert "there is no link 7 on this page" in told[3]
    assert "only a page that was opened can be quoted" in told[4]
    assert "Quote: not there → this text is not on the page: copy it" in told[5]
    assert "not finished, as a command before it failed" in told[5]
    assert episode.answer is not None
    assert (episode.stop, episode.answer.text) == ("end", "In March.")


def test_without_a_quote_it_is_asked_once_and_then_declined(library: FolderLibrary) -> None:
    episode, policy = browse(library, "Search rook price", "finish {}", "NOT FOUND")
    assert "not finished, as nothing is quoted yet" in policy.prompts[2]
    answer = episode.answer
    assert answer is not None
    assert (episode.stop, answer.declined, answer.quotes) == ("declined", True, ())
    assert answer.text.endswith("holds the answer.\n\nSearched for: rook price")


def test_after_two_searches_it_may_finish_without_a_quote(library: FolderLibrary) -> None:
    episode, policy = browse(
        library, 'search {"query": "rook price"}\nsearch {"query": "build nests"}', "finish {}"
    )
    assert (episode.stop, len(policy.prompts)) == ("declined", 2)
    told = policy.prompts[1].rpartition("♦Last reply\n")[2]
    assert "- Search rook price → 1 results: Rooks\n- Search build nests → " in told


def test_quotes_that_do_not_hold_the_answer_are_declined(library: FolderLibrary) -> None:
    start = "Search rook nests\nClick on link 0\nQuote: " + NEST
    episode, _ = browse(library, start, "finish {}", "NOT FOUND: they give no price.")
    answer = episode.answer
    assert answer is not None
    assert (episode.stop, answer.declined) == ("declined", True)
    assert answer.text == "they give no price.\n\nSearched for: rook nests"
    assert [quote.text for quote in answer.quotes] == [NEST]


def test_an_answer_that_cites_nothing_is_asked_for_again_then_unchecked(
    library: FolderLibrary,
) -> None:
    start = "Search rook nests\nClick on link 0\nQuote: " + NEST
    episode, policy = browse(library, start, "finish {}", "Spring, I believe.", "In spring.")
    assert "no sentence of it cites anything" in policy.prompts[-1]
    answer = episode.answer
    assert answer is not None
    assert (answer.citations, answer.text) == ("unchecked", "In spring.")
    assert [quote.text for quote in answer.quotes] == [NEST]


def test_a_model_without_effect_answers_from_its_quotes_or_is_stuck(
    library: FolderLibrary,
) -> None:
    episode, policy = browse(library, "Hm.")
    assert (episode.stop, len(policy.prompts)) == ("stuck", STUCK_REPEATS)
    start = "Search rook nests\nClick on link 0\nQuote: " + NEST
    replies = [start, *["It is March [1]."] * (STUCK_REPEATS + 1)]
    episode, _ = browse(library, *replies)
    assert episode.answer is not None
    assert (episode.answer.text, commands(episode)[-1]) == ("It is March.", "End: Answer")


def test_commands_and_quotes_are_limited(library: FolderLibrary) -> None:
    episode, _ = browse(library, *(f"Search rook {n}\nSearch crows {n}" for n in range(40)))
    assert (episode.stop, len(episode.steps)) == ("declined", 60)
    episode, _ = browse(library, "Search rook nests\nSearch crows")  # again and again
    assert (episode.stop, len(episode.steps)) == ("stuck", 12)
    start = f"Search rook nests\nClick on link 0\nQuote: {NEST}\nQuote: {SEEDS}"
    episode, _ = browse(library, start, "March [1].", quotes=1)
    assert episode.answer is not None
    assert [quote.text for quote in episode.answer.quotes] == [NEST]


def test_browsing_of_several_calls_replays_byte_for_byte(
    library: FolderLibrary, tmp_path: Path
) -> None:
    task = BrowserTask(QUESTION, make_chat_rules(BrowserRules(), 8000))
    replies = [
        'search {"query": "rook nests"}\nopen {"link": 0}\nopen {"link": "?"}\nfind {"text": "a"}',
        f'quote {{"text": "{NEST}"}}\nquote {{"first": "In winter", "last": "day."}}\nfinish {{}}',
        "Rooks build nests in March [1].",
    ]
    with CallRecording(tmp_path / "recording.sqlite") as recording:
        recording.begin_session("s", task.to_json().encode())
        recorded = RecordingLibrary(recording, library, "s")
        policy: Policy = Says(*replies)
        shown = answer_with_webgpt(QUESTION, recorded, policy, rules=task.rules, chat=True)
        steps, flow = [], browse_library(task, recorded)
        observation = next(flow)
        for step in shown.steps[:-1]:
            steps.append(Step(observation.prompt, step.said))
            observation = flow.send(step.said.text)
        assert tuple(steps) == shown.steps[:-1]
        steps.append(Step(observation.prompt, shown.steps[-1].said))
        with pytest.raises(StopIteration) as ended:
            flow.send(steps[-1].said.text)
        browsed: BrowseResult = ended.value.value
        episode = build_episode(task, "webgpt", steps, browsed, "s")
        again = replay_episode(strip_prompts(episode), recording)
    assert again.to_json() == episode.to_json()
    assert again.steps[:-1] == shown.steps[:-1]


def test_a_server_that_takes_no_tools_is_given_the_commands_as_text(
    library: FolderLibrary,
) -> None:
    replies = ["Search rook nests\nClick on link 0", f"Quote: {NEST}\nfinish {{}}", "In March [1]."]
    answers = [write_choices(chat(each)) for each in replies]
    no = refused("400 Bad Request", "m does not support tools")
    with (
        serving(no, *answers) as server,
        RemoteModel(ModelEndpoint(model="m", base_url=server.base_url)) as model,
    ):
        episode = answer_with_webgpt(QUESTION, library, model, chat=True)
        assert ["tools" in each.fields for each in server.asked] == [True, *[False] * 3]
        system = server.asked[1].fields["messages"][0]["content"]
    assert 'search {"query": "two to six words"}' in system
    assert episode.answer is not None
    assert episode.answer.text == "In March."
