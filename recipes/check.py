"""`python -m recipes.check`: does training learn on this machine? A quarter of an hour of one core
in float32, on texts and labels of the repository's own.

SmolLM2-135M (`rookery models add smollm2`) continues sentences about birds and sentences of
invented folders, and a labeller likes what reads like the former: a reward model learns from its
labels, the best of 16 is chosen by that, and a policy learns from the labeller's own reward.
"""

import argparse
import sys
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import NamedTuple

from msgspec.structs import replace

from recipes.gold_answers import cut_excerpts
from recipes.measures import measure_pair_accuracy
from recipes.rewards import MockLabeller, list_answer_pairs
from recipes.sentiment_judges import LABELLER, train_judges
from recipes.stages import ROOT, print_progress
from recipes.ziegler_data import Novels
from recipes.ziegler_stages import Settings, StagedRun
from rookery.errors import Failed
from rookery.learn.retrieval_training import MINILM_MODEL
from rookery.library.libraries import get_bundled_folder
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.pages.page_reader import read_page
from rookery.records import Question
from rookery.typed_files import parse_settings, read_toml_table

SETTINGS = ROOT / "recipes" / "sizes" / "ziegler.check.toml"
FOLDERS = ROOT / "recipes" / "questions" / "folders"


class LearningCheck(NamedTuple):
    """What was learnt, over held-out beginnings; rewards are in standard deviations of the
    labeller's over the reference's texts."""

    accuracy: float
    """How often the reward model ranks two texts as the labeller does; by lot .5."""
    best_of_n: Estimate
    """Gain of the best of 16 by the reward model over one text."""
    policy: Estimate
    """Gain of the policy that learnt from the labeller's reward."""

    def list_missed(self) -> list[str]:
        """Return what is below its bound, each far inside what was seen when it was set."""
        bounds = {
            "accuracy of the reward model": (self.accuracy, 0.6),
            "gain of the best of 16": (self.best_of_n.value, 0.3),
            "gain of the policy": (self.policy.value, 0.5),
        }
        return [
            f"{name}: {value:.2f}, at least {bound} was expected"
            for name, (value, bound) in bounds.items()
            if not value > bound
        ]


def check_learning(out: Path, model: str = "") -> LearningCheck:
    """Train a reference, a reward model and a policy in this folder, and measure the last two.

    What is there is not trained again. `model` is the language model's folder; empty: SmolLM2 as it
    was added. Raises Failed where it was not.
    """
    settings = parse_settings(read_toml_table(SETTINGS), Settings, SETTINGS)
    settings = replace(settings, model=model or settings.model)
    rows = read_own_texts()
    labeller = train_judges(rows, MINILM_MODEL, settings.split).scores[LABELLER]
    passages = [text for text, _ in rows]
    begun = [Question(f"{at}", " ".join(text.split()[:5])) for at, text in enumerate(passages)]
    measured = slice(settings.passages, settings.passages + settings.held)
    novels = Novels(passages, begun[measured.stop :], begun[measured])
    out.mkdir(parents=True, exist_ok=True)
    run = StagedRun(settings, out, novels, MINILM_MODEL)
    beginnings = novels.training[: settings.labelled]
    texts = run.sample_texts("labelled", run.reference, beginnings, 4)
    pairs = list_answer_pairs(beginnings, [[each.text for each in four] for four in texts])
    mock = MockLabeller(lambda question, answer: labeller([(question, answer)])[0])
    [(count, passes)] = settings.labels
    labels = list(mock.compare_answers(pairs[:count]))
    reward = run.train_reward(f"{count} labels", labels, passes)

    samples = run.sample_texts("reference", run.reference, run.held, settings.drawn)
    hidden, learnt = (
        run.score_samples("hidden", labeller, samples),
        run.score_samples("learnt", reward, samples),
    )
    spread = fmean(map(pstdev, hidden))
    policy = run.train_policy("known reward", labeller, settings.targets[0], spread)
    trained = run.sample_texts("policy", policy, run.held, settings.each)
    rewards = run.score_samples("policy", labeller, trained)
    chosen = [row[scores.index(max(scores))] for row, scores in zip(hidden, learnt, strict=True)]
    plain = list(map(fmean, hidden))
    return LearningCheck(
        fmean(map(measure_pair_accuracy, learnt, hidden)),
        _estimate_gain(chosen, plain, spread),
        _estimate_gain(list(map(fmean, rewards)), plain, spread),
    )


def read_own_texts() -> list[tuple[str, bool]]:
    """Read sentences of the packaged pages about birds (true) and of the invented folders (false),
    in an order by lot."""
    bundled, folders = sorted(get_bundled_folder().glob("*.html")), sorted(FOLDERS.rglob("*.*"))
    rows = [
        (" ".join(text.split()), places is bundled)
        for places in (
            bundled,
            [each for each in folders if each.suffix in (".html", ".md", ".txt")],
        )
        for place in places
        for text in cut_excerpts(read_page(place.read_bytes(), place.name).text, 8, 24)
    ]
    return Random("own texts").sample(rows, len(rows))


def _estimate_gain(scores: list[float], plain: list[float], spread: float) -> Estimate:
    return estimate_mean([(one - other) / spread for one, other in zip(scores, plain, strict=True)])


def main() -> None:
    """Run the check, print what was learnt, and end with an error where something was not."""
    parser = argparse.ArgumentParser(prog="python -m recipes.check", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/check"), help="folder of the run")
    try:
        check = check_learning(parser.parse_args().out)
    except Failed as failed:
        sys.exit(f"check: {failed.failure.what}: {failed.failure.detail}")
    except KeyboardInterrupt:
        sys.exit("check: stopped; the same command goes on from there")
    print_progress(f"reward model: right for {check.accuracy:.2f} of pairs, by lot .50")
    for name, gain in (("best of 16", check.best_of_n), ("policy", check.policy)):
        print_progress(f"{name}: {gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})")
    if missed := check.list_missed():
        sys.exit("not learnt: " + "; ".join(missed))


if __name__ == "__main__":
    main()
