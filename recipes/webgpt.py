"""WebGPT: a policy learns to answer with a text browser from demonstrations, comparisons and a
reward; or the best of n is chosen (Nakano and others 2021, arXiv 2112.09332).

Scripts demonstrate, and an oracle that knows the answers compares: the better answer is the one
that is correct and quoted. Run it with `python -m recipes.webgpt tiny|small|medium|paper`.
"""

from functools import partial
from pathlib import Path

from recipes.rewards import cache_scores
from recipes.stages import RecipeOutput, convert_to_toml_keys, load_or_make, main, print_progress
from recipes.webgpt_data import Settings, prepare_site
from recipes.webgpt_floors import answer_by_floors
from recipes.webgpt_found import ComputeCosts, list_effects, list_notes, make_tables, rate_floors
from recipes.webgpt_pools import (
    CLONED_POLICY,
    PPO_POLICY,
    JudgedSamples,
    judge_samples,
    make_figures,
    make_log_odds_scorer,
)
from recipes.webgpt_rewards import train_ppo, train_reward
from recipes.webgpt_stages import (
    Samples,
    clone_behaviour,
    count_policy_operations,
    count_reward_operations,
    load_demonstrations,
    sample_answers,
)
from rookery.learn.policy_gradient import WEBGPT_PPO_DEFAULTS
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive

DEFAULTS = {"reinforce": convert_to_toml_keys(WEBGPT_PPO_DEFAULTS)}
"""Settings used where the file of a size is silent."""


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Run behaviour cloning, two reward models and PPO; then draw two sets of samples, one to
    predict best of n from and one to check it."""
    place, (cloning, comparing, validating, acting, test_questions) = prepare_site(
        settings, data, out
    )
    with (
        PageArchive(out / "archive.sqlite") as archive,
        FolderLibrary(place, archive, out) as library,
    ):
        demonstrations = load_demonstrations(settings, cloning, library, out)
        clones = [
            clone_behaviour(settings, size, demonstrations, out / f"cloned-{size[0]}-{size[1]}")
            for size in settings.sizes
        ]
        rewards = [
            train_reward(settings, some, library, clones[0], out / name, seed)
            for seed, (name, some) in enumerate(
                (("reward", comparing), ("check", validating)), 10 * settings.seed + 1
            )
        ]
        learnt = train_ppo(settings, acting, library, clones[0], rewards[0], out)
        policies = {CLONED_POLICY: clones[0], PPO_POLICY: Path(learnt.model)}
        policies |= {f"smaller-{at}": each for at, each in enumerate(clones[1:], 1)}
        score, check = (cache_scores(make_log_odds_scorer(Path(each.model))) for each in rewards)
        n = settings.samples
        known_samples: dict[str, JudgedSamples] = {}
        fresh: dict[str, JudgedSamples] = {}
        for at, (pool, pool_samples) in enumerate((("known", known_samples), ("fresh", fresh)), 3):
            for name, policy in policies.items():
                if pool_samples is fresh and name not in (CLONED_POLICY, PPO_POLICY):
                    continue
                file, seed = f"{name}-{pool}.json", 10 * settings.seed + at
                print_progress(f"{name}: {n} samples to each of {len(test_questions)} questions")
                samples = sample_answers(
                    settings, test_questions, library, policy, n, seed, out / file
                )
                pool_samples[name] = load_or_make(
                    out / f"judged-{file}",
                    JudgedSamples,
                    partial(judge_samples, test_questions, samples, score, check),
                )
        floors = rate_floors(
            test_questions, answer_by_floors(settings, test_questions, library, out)
        )
    del policies[PPO_POLICY]
    judged = load_or_make(out / f"{CLONED_POLICY}-known.json", Samples, list)
    costs = ComputeCosts(
        {name: count_policy_operations(each, demonstrations) for name, each in policies.items()},
        count_reward_operations(
            Path(rewards[0].model), settings.prefer.context, test_questions, judged
        ),
    )
    return RecipeOutput(
        list_effects(n),
        make_tables(test_questions, floors, known_samples, fresh, costs, n),
        make_figures(known_samples, fresh, *costs, floors, n),
        list_notes(settings, len(demonstrations), rewards, learnt),
    )


if __name__ == "__main__":
    main("webgpt", Settings, reproduce_paper, DEFAULTS)
