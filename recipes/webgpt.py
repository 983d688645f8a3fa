"""WebGPT: a policy learns to answer with a text browser, from demonstrations, from comparisons, and
from a reward; or the best of n is chosen (Nakano and others 2021, arXiv 2112.09332).

Demonstrators are scripts, and who compares knows the answers: better is what is right and quoted.
Run it with `python -m recipes.webgpt tiny|small|paper`.
"""

from functools import partial
from pathlib import Path

from recipes.stages import Found, kept, main, say
from recipes.webgpt_data import Settings, site
from recipes.webgpt_found import findings, notes, optimal
from recipes.webgpt_pools import CLONED, LEARNT, Pool, figures, odds, pool
from recipes.webgpt_rewards import preferred, reinforced
from recipes.webgpt_stages import answered, imitated, taught, weights
from rookery.browse.archive import Archive
from rookery.browse.folder import Folder
from rookery.learn.quoted import once
from rookery.learn.rules import WEBGPT, paper_table

BELOW = {"reinforce": paper_table(WEBGPT)}


def play(settings: Settings, data: Path, out: Path) -> Found:
    """Cloning, two reward models, PPO; then samples of the policies, foretold from and fresh."""
    place, (cloning, comparing, validating, acting, asked) = site(settings, data, out)
    with Archive(out / "archive.sqlite") as archive, Folder(place, archive, out) as library:
        made = taught(settings, cloning, library, out)
        clones = [
            imitated(settings, size, made, out / f"cloned-{size[0]}-{size[1]}")
            for size in settings.sizes
        ]
        rewards = [
            preferred(settings, some, library, clones[0], out / name, seed)
            for seed, (name, some) in enumerate((("reward", comparing), ("check", validating)), 1)
        ]
        learnt = reinforced(settings, acting, library, clones[0], rewards[0], out)
        policies = {CLONED: clones[0], LEARNT: Path(learnt.model)}
        policies |= {f"smaller-{at}": each for at, each in enumerate(clones[1:], 1)}
        score, check = (once(odds(Path(each.model))) for each in rewards)
        known: dict[str, Pool] = {}
        fresh: dict[str, Pool] = {}
        for seed, drawn in ((3, known), (4, fresh)):
            for name, policy in policies.items():
                if drawn is fresh and name not in (CLONED, LEARNT):
                    continue
                file = f"{name}-{seed}.json"
                say(f"{name}: {settings.samples} samples to each of {len(asked)} questions")
                samples = answered(
                    settings, asked, library, policy, settings.samples, seed, out / file
                )
                drawn[name] = kept(
                    out / f"judged-{file}", Pool, partial(pool, asked, samples, score, check)
                )
    costs = {name: float(weights(each)) for name, each in policies.items() if name != LEARNT}
    n = settings.samples
    found = [*findings(known, fresh, n), optimal(known, costs, n)]
    return found, figures(known, fresh, costs, n), notes(settings, len(made), rewards, learnt)


if __name__ == "__main__":
    main("webgpt", Settings, play, BELOW)
