"""Labelled answers kept with the model that gave them, and the threshold that follows from them.

It knows neither who says which answers are good nor how a threshold follows: that is `decline`'s.
"""

import math
import os
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from rookery.draft.curve import Promise, drawn
from rookery.draft.decline import Calibration, calibrate
from rookery.draft.endpoint import Endpoint
from rookery.records import Failed, Failure, Question, Record, digest_of

LOCAL = "path:"
"""what the name of a model begins with that is a folder of this machine"""


class Scored(Record, frozen=True):
    """Whose scores they are, and of what kind: a threshold is for these and no others."""

    method: str
    model: str
    """that writes, as its server calls it; or path:FOLDER, which is path:. in the file in it"""
    base_url: str = ""
    """where it is served; empty for what is on this machine"""
    browser: str = ""
    """the model that browses, where it is another one"""
    samples: int = 0
    """answers of which each was the best; 0: as many as the method draws if it is not told"""
    worth: float = 0.0
    """what one more had to be expected to add to the score"""
    score: str = "likelihood"
    """the mean log-probability of a token; or what rewards it"""

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.method} by {self.model}" + f" at {self.base_url}" * bool(self.base_url)

    @property
    def options(self) -> str:
        """What a command line says to ask so."""
        served = ["--base-url", self.base_url] * bool(self.base_url)
        named = ["--endpoints", "FILE"] if self.browser else ["--model", self.model, *served]
        many = ["-n", f"{self.samples}"] * bool(self.samples)
        worth = ["--worth", f"{self.worth:g}"] * bool(self.worth)
        return shlex.join(["--method", self.method, *named, *many, *worth])


class Label(Record, frozen=True, array_like=True):
    """Whether one answer is good, and its score."""

    question: str
    """digest of the question's text"""
    score: float
    good: bool

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise ValueError("a label's score is a finite number")


class Labelled(Record, frozen=True):
    """A file of labels: kept whole, so that any share may be wanted when it is used."""

    scored: Scored
    labels: tuple[Label, ...] = ()
    """one a question, in the order of their digests"""

    def calibration(self, wanted: float, confidence: float = 0.95) -> Calibration:
        """The lowest threshold that promises this. Raises Failed (not_usable)."""
        scores, good = [each.score for each in self.labels], [each.good for each in self.labels]
        return calibrate(scores, good, wanted, confidence)


def scored_by(
    method: str,
    model: Callable[[str], Endpoint | str],
    samples: int | None = None,
    worth: float = 0.0,
) -> Scored:
    """Whose scores the answers have that this asks for; `model` says who writes and who browses.

    Raises Failed, as `model` does, and not_found where a model's folder is not there.
    """
    writer = _named(model("write"))
    browser = _named(model("browse")) if method == "webgpt" else writer
    if writer[0].startswith(LOCAL) and not _folder(writer[0]).is_dir():
        detail = "there is no such folder: check the path behind path:"
        raise Failed(Failure(writer[0], "not_found", detail))
    other = "" if browser == writer else " at ".join(filter(None, browser))
    return Scored(method, *writer, other, samples or 0, worth)


def _named(model: Endpoint | str) -> tuple[str, str]:
    return (model, "") if isinstance(model, str) else (model.model, model.address)


def label(question: Question, score: float, good: bool) -> Label:
    """The label of an answer to this question."""
    return Label(digest_of(question.text), score, good)


def place(scored: Scored, home: Path) -> Path:
    """Where the labels are: with the model in its folder, or below `home`, the user's data."""
    digest = digest_of(_stored(scored).to_json())[:12]
    if scored.model.startswith(LOCAL):
        return _folder(scored.model) / f"rookery-calibration-{_slug(scored.method)}-{digest}.json"
    return home / "calibrations" / f"{_slug(f'{scored.method}-{scored.model}')}-{digest}.json"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80]


def _folder(model: str) -> Path:
    return Path(model.removeprefix(LOCAL)).expanduser()


def labelled(scored: Scored, home: Path) -> Labelled | None:
    """What is stored; None where nothing is.

    Raises Failed (bad_calibration) where the file is damaged or holds other scores.
    """
    path = place(scored, home)
    problem = "it holds labels of other answers"
    try:
        found = Labelled.from_json(path.read_bytes())
        if found.scored == _stored(scored):
            return found
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror})"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = f"it is damaged ({error})"
    detail = f"{problem}: move it away and run `rookery calibrate` again"
    raise Failed(Failure(str(path), "bad_calibration", detail))


def _stored(scored: Scored) -> Scored:
    """A folder that is moved or copied keeps what is in it."""
    local = scored.model.startswith(LOCAL)
    return msgspec.structs.replace(scored, model=f"{LOCAL}.") if local else scored


def keep(scored: Scored, labels: Iterable[Label], home: Path) -> Labelled:
    """Adds labels to what is stored; one of a question that has one already replaces it.

    Say beforehand how many are wanted: who adds some until a promise can be made runs its risk
    each time. Raises Failed (bad_calibration, unwritable), and then all is as it was.
    """
    before = labelled(scored, home) or Labelled(_stored(scored))
    known = {each.question: each for each in (*before.labels, *labels)}
    now = Labelled(before.scored, tuple(known[digest] for digest in sorted(known)))
    _put(place(scored, home), now.to_json() + "\n")
    return now


def draw(scored: Scored, calibration: Calibration, home: Path) -> Path:
    """Draws the curve beside the labels, with what is promised. Raises Failed (unwritable)."""
    words = "no threshold can promise it"
    if calibration.threshold is not None:
        words = f"score ≥ {calibration.threshold:.4g}: {calibration.coverage:.0%} answered"
    promise = Promise(calibration.wanted, calibration.coverage, words)
    line = [(point.coverage, point.share) for point in calibration.curve]
    good = f"share of these that is good ({calibration.labels:,} labels)"
    path = place(scored, home).with_suffix(".svg")
    _put(path, drawn({scored.method: line}, good, promise))
    return path


def _put(path: Path, text: str) -> None:
    """A reader sees the old file or the new one; a full disk leaves the old one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        detail = (
            f"it cannot be written ({error.strerror}); what was there is as it was: "
            "make room or allow it, and run the same command again"
        )
        raise Failed(Failure(str(path), "unwritable", detail)) from error


def threshold_for(
    scored: Scored, wanted: float, home: Path, confidence: float = 0.95
) -> Calibration:
    """The calibration of these scores for a share that is wanted.

    Where no threshold can promise it, `least_score` declines every answer, and the calibration
    says why. Raises Failed: no_calibration where nothing is labelled, with the commands that
    change it; bad_calibration; not_usable where no such share can be wanted.
    """
    found = labelled(scored, home)
    if found is not None:
        return found.calibration(wanted, confidence)
    detail = (
        "no labelled answers tell yet which of its scores are good: "
        f"rookery ask --batch QUESTIONS.jsonl --out ANSWERS.jsonl {scored.options} (and --in, if "
        "you use it), of questions with a `gold` answer or answers that people then rate; after "
        f"it, rookery calibrate ANSWERS.jsonl {scored.options}"
    )
    raise Failed(Failure(scored.name, "no_calibration", detail))


def least_score(calibration: Calibration) -> float:
    """The score below which an answer is declined: infinite where nothing can be promised."""
    return math.inf if calibration.threshold is None else calibration.threshold
