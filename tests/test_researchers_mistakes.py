"""What a researcher gets wrong with own parts ends in one helpful sentence, without a traceback.

A row of MISTAKES is a command line, what the sentence must hold, and the exit code. `own.py`, in
the folder where the command is given, is MODULE; `broken.py` is no Python.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run

MODULE = """import rookery
from rookery.records import Completion

TABLE = {}
def three(question, answer, weight): return 1.0
def nothing(question, answer): pass
def words(question, answer): return "good"
def nan(question, answer): return float("nan")
def too_many(pairs): return [1.0] * 5
def no_list(pairs): return 1.0
def divides(question, answer): return 1 / 0


class Weighted:
    def __init__(self, weight): self.weight = weight
    def __call__(self, question, answer): return self.weight


class Parrot:
    name = "parrot"
    def complete(self, prompt, n=1, allow=None):
        return [Completion("Crows bring gifts to people who feed them.[1]")] * n


class Misspelt(Parrot):
    def complete(self, prompt, n=1, allow=None):
        return [Completion(prompt.text)]


class OfTexts(Parrot):
    def complete(self, prompt, n=1, allow=None):
        return ["Crows bring gifts."] * n


class TooFew(Parrot):
    def complete(self, prompt, n=1, allow=None):
        return []


class Alone(Parrot):
    def complete(self, prompt): return "gifts"
"""
ASK = ("ask", "Why do crows bring gifts to people?", "--in", "rookery:corvids")
CHOOSE = (*ASK, "--model", "python:own.Parrot", "-n", "2", "--reward")
BY = (*ASK, "--model")
SERVE = ("serve", "env", "--reward")
BEST_OF = ("measure", "best-of", "rookery.jsonl", "--validation", "python:own.three", "--reward")
MISTAKES: list[tuple[tuple[str, ...], str, int]] = [
    # Rewards
    ((*CHOOSE, "own:divides"), "a function of your own, python:package.module.function", 2),
    ((*CHOOSE, "python:own:divides"), "write python:own.divides", 2),
    ((*CHOOSE, "python:divides"), "write python:module.name", 2),
    ((*CHOOSE, "python:nowhere.divides"), "no module nowhere in ", 2),
    ((*CHOOSE, "python:own.divide"), "own.py has no divide", 2),
    ((*CHOOSE, "python:broken.divides"), "SyntaxError: ", 2),
    ((*CHOOSE, "python:broken.divides"), "broken.py, line 2)", 2),
    ((*CHOOSE, "python:own.TABLE"), "a dict is no function of (question, answer)", 2),
    ((*CHOOSE, "python:own.Weighted"), "argument: 'weight' (HERE/own.py, line 16)", 2),
    ((*CHOOSE, "python:own.three"), "takes (question, answer, weight): let it take ", 2),
    ((*CHOOSE, "python:own.nothing"), "gave None: return a number (HERE/own.py, line 6)", 2),
    ((*CHOOSE, "python:own.words"), "gave 'good': return a number (HERE/own.py, line 7)", 2),
    ((*CHOOSE, "python:own.nan"), "gave nan for an example: return a finite number", 2),
    ((*CHOOSE, "python:own.too_many"), "1.0]: return a list of 1 numbers", 2),
    ((*CHOOSE, "python:own.no_list"), "gave 1.0: return a list of 1 numbers", 2),
    ((*CHOOSE, "python:own.divides"), "division by zero (HERE/own.py, line 11)", 2),
    ((*CHOOSE, "python:own.nan", "--choose-by", "evidence"), "leave one of them out", 2),
    ((*ASK, "--reward", "python:own.nan"), "goes with --model", 2),
    ((*SERVE, "own.divides"), "name accepted, evidence, the folder of a reward model, or a", 2),
    ((*SERVE, "python:own.divides"), "division by zero (HERE/own.py, line 11)", 2),
    ((*BEST_OF, "python:own.three"), "takes (question, answer, weight): let it take ", 2),
    # Policies
    ((*BY, "python:own.Parrots"), "own.py has no Parrots", 2),
    ((*BY, "python:own.TABLE"), "a dict has no complete(prompt, n, allow)", 2),
    ((*BY, "python:own.Weighted"), "argument: 'weight' (HERE/own.py, line 16)", 2),
    ((*BY, "python:own.Misspelt"), "no attribute 'text' (HERE/own.py, line 27)", 2),
    ((*BY, "python:own.OfTexts"), "gave ['Crows bring gifts.'] (HERE/own.py, line 31): return", 2),
    ((*BY, "python:own.TooFew"), "return 1 rookery.Completion in a list", 2),
    ((*BY, "python:own.Alone"), "takes 2 positional arguments but 4 were given (HERE/own.py", 2),
    ((*BY, "python:own.Misspelt", "--method", "webgpt"), "'text' (HERE/own.py, line 27)", 2),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with own modules, in which commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("\ndef (\n")
    lines = [
        f'{{"question": {{"id": "1", "text": "Why?"}}, "answer": {{"text": "{n}"}}}}' for n in "ab"
    ]
    (tmp_path / "rookery.jsonl").write_text("\n".join(lines) + "\n")
    yield tmp_path
    for name in ("own", "broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("command", "words", "code"), MISTAKES)
def test_a_mistake_ends_in_a_sentence(
    run: Run, folder: Path, command: tuple[str, ...], words: str, code: int
) -> None:
    here = str(folder)
    ended = run(*(word.replace("HERE", here) for word in command))
    assert ended.code == code
    *_, sentence = ended.err.splitlines()
    assert sentence.startswith("rookery: ")
    assert words.replace("HERE", here) in sentence
    assert "Traceback" not in ended.out + ended.err
