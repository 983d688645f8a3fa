"""GopherCite: answers that rest on a verbatim quote, learnt from ratings and comparisons, reranked,
or declined (Menick and others 2022, arXiv 2203.11147).

A pointer finds the sentence of a page after which the question is likeliest, and a policy writes a
claim from question and quote. Known answers stand in for raters: an answer is plausible if its
claim contains an accepted answer, and supported if its quote does. The articles of some questions
are in no library, so that these questions should be declined. Run it with
`python -m recipes.gophercite tiny|small|medium`; `small` begins with SmolLM2-135M.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from recipes.findings import format_estimate
from recipes.gophercite_data import split_articles, write_tiny_data
from recipes.gophercite_found import (
    GREEDY,
    Samples,
    judge_samples,
    list_effects,
    make_answer_tables,
    make_figures,
    make_pointer_table,
)
from recipes.gophercite_stages import (
    EXAMPLES,
    Settings,
    find_start,
    point,
    sample,
    score_by_gold,
    train_imitation,
    train_reinforcement,
    train_reward,
)
from recipes.pointed_claims import choose_quote
from recipes.stages import RecipeOutput, convert_to_toml_keys, load_or_make, main, print_progress
from rookery.learn.policy_gradient import A2C_DEFAULTS
from rookery.learn.reward_model import RewardModel
from rookery.library.question_files import read_squad
from rookery.measure.intervals import estimate_mean

DEFAULTS = {"reinforce": convert_to_toml_keys(A2C_DEFAULTS)}
"""Settings used where the file of a size is silent."""


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Run imitation, comparisons, a reward model and reinforcement; then sample and report."""
    squad = data / settings.squad if settings.squad else write_tiny_data(out / "little")
    world = split_articles(
        read_squad(squad), settings.articles, settings.questions, settings.words, settings.split
    )
    start = find_start(settings, world, out)
    learnt = train_imitation(settings, world, start, out)
    pages = [(question, world.find_page(question)) for question, _ in (*world.held, *world.absent)]
    answerable = len(world.held)
    print_progress(f"points for {answerable} questions, and {len(world.absent)} without an article")
    scores = {
        "learnt pointer": point(learnt["pointer"], pages, out / "learnt-pointer.json"),
        "untrained pointer": point(start, pages[:answerable], out / "untrained-pointer.json"),
    }
    quoted = [
        (question, choose_quote(page, each))
        for (question, page), each in zip(pages, scores["learnt pointer"], strict=True)
    ]
    clone, answered, n = learnt["claims"], quoted[:answerable], settings.samples
    reward = train_reward(settings, world, out, clone)
    runs = {
        "RL": (out / "rl", RewardModel(reward).score_answers),
        "RL on the known reward": (out / "rl-known", score_by_gold),
    }
    ask = partial(sample, settings)
    samples = {
        "SFT": ask(clone, quoted, n, out / "SFT.json"),
        f"SFT, {GREEDY}": ask(clone, answered, 1, out / "SFT-greedy.json"),
        f"few-shot, {GREEDY}": ask(start, answered, 1, out / "few.json", world.taught[:EXAMPLES]),
    }
    for name, (folder, scorer) in runs.items():
        policy = train_reinforcement(settings, world, folder, clone, scorer)
        samples[name] = ask(policy, answered, n, out / f"{folder.name}-samples.json")
        samples[f"{name}, {GREEDY}"] = ask(policy, answered, 1, out / f"{folder.name}-greedy.json")
    judged: dict[str, Samples] = {}
    for name, each in samples.items():
        parts = reward, quoted[: len(each)], answerable, each
        judged[name] = load_or_make(
            out / f"{name}, judged.json", Samples, partial(judge_samples, *parts)
        )
    return RecipeOutput(
        list_effects(n),
        [
            make_pointer_table(pages[:answerable], scores),
            *make_answer_tables(judged, quoted, answerable),
        ],
        make_figures(
            judged, answerable, {name: folder for name, (folder, _) in runs.items()}, settings.seed
        ),
        list_notes(judged),
    )


def list_notes(samples_by_system: Mapping[str, Samples]) -> list[str]:
    """Return notes on differences from the paper, and how long claims are."""
    lengths = {
        name: estimate_mean([float(len(one.claim)) for row in each for one in row])
        for name, each in samples_by_system.items()
    }
    means = "; ".join(f"{name} {format_estimate(each, '.0f')}" for name, each in lengths.items())
    return [
        f"Characters of a claim: {means}. Longer ones hold an answer more easily.",
        "Known answers rate in place of people: an answer is right where its claim and its quote "
        "both hold an accepted answer. Demonstrations are accepted answers, in place of rated "
        "samples of a prompted model. Pages are paragraphs.",
        "The quote is the sentence after which the question is likeliest; the policy writes the "
        "claim alone, where the paper's writes both. RLOO stands for A2C.",
    ]


if __name__ == "__main__":
    main("gophercite", Settings, reproduce_paper, DEFAULTS)
