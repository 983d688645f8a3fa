"""GopherCite: answers that rest on a verbatim quote, learnt from ratings and comparisons, reranked,
or declined (Menick and others 2022, arXiv 2203.11147).

Known answers stand in for raters: an answer is plausible if its claim contains an accepted answer,
and supported if its quote does. Claim and quote are both written by the policy. The articles of
some questions are in no library, so that these questions should be declined. Run it with
`python -m recipes.gophercite tiny|small|medium|paper`; `small` begins with SmolLM2-135M.
"""

from functools import partial
from pathlib import Path

from recipes.gophercite_data import split_articles, write_tiny_data
from recipes.gophercite_floors import FloorScores, QuoteScores, score_floors, score_quotes
from recipes.gophercite_found import (
    Samples,
    list_chosen_quotes,
    list_effects,
    list_notes,
    make_figures,
    make_tables,
    score_samples,
)
from recipes.gophercite_stages import (
    Settings,
    sample_answers,
    train_imitation,
    train_reinforcement,
    train_reward,
)
from recipes.policy_samples import QuotedSample
from recipes.stages import RecipeOutput, convert_to_toml_keys, load_or_make, main, print_progress
from rookery.learn.policy_gradient import A2C_DEFAULTS
from rookery.library.question_files import read_squad

DEFAULTS = {"reinforce": convert_to_toml_keys(A2C_DEFAULTS)}
"""Settings used where the file of a size is silent."""


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Run imitation, comparisons, a reward model and A2C; then sample both policies and report."""
    squad, climate = data / settings.squad, data / settings.climate
    if not settings.squad:
        squad, climate = write_tiny_data(out / "little")
    world = split_articles(
        read_squad(squad), settings.articles, settings.questions, settings.words, settings.split
    )
    sft = train_imitation(settings, world, out)
    reward = train_reward(settings, world, climate, out, sft)
    rl = train_reinforcement(settings, world, out, sft, reward)
    answerable, everything = len(world.asked), [*world.asked, *world.absent]
    samples_by_system: dict[str, Samples] = {}
    for name, policy in {"SFT": sft, "RL": rl}.items():
        print_progress(
            f"{name} is asked {answerable} questions, and {len(world.absent)} that nothing answers"
        )
        samples = sample_answers(
            settings, world, policy, everything, settings.samples, out / f"{name}.json"
        )
        parts = reward, everything, answerable, samples, settings.prefer.context
        samples_by_system[name] = load_or_make(
            out / f"{name}-judged.json", Samples, partial(score_samples, *parts)
        )
    floors = load_or_make(
        out / "floors.json", FloorScores, lambda: score_floors(world, settings.pages)
    )
    first_samples = load_or_make(out / "SFT.json", list[list[QuotedSample]], list)
    quotes = list_chosen_quotes(samples_by_system["SFT"], first_samples)
    quoted = load_or_make(
        out / "quoted.json", QuoteScores, lambda: score_quotes(everything, quotes)
    )
    return RecipeOutput(
        list_effects(settings.samples),
        make_tables(samples_by_system, everything, answerable, floors, quoted),
        make_figures(samples_by_system, answerable, floors, settings.seed),
        list_notes(samples_by_system, answerable),
    )


if __name__ == "__main__":
    main("gophercite", Settings, reproduce_paper, DEFAULTS)
