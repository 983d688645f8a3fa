"""WebGPT: a policy learns to answer with a text browser from demonstrations, comparisons and a
reward; or the best of n is chosen (Nakano and others 2021, arXiv 2112.09332).

A script gives the demonstrations, quotes are given by their first and last words, and the right
answers are known. Run it with `python -m recipes.webgpt tiny|small|medium|paper`.
"""

from functools import partial
from itertools import pairwise
from pathlib import Path

from recipes.rewards import cache_scores
from recipes.stages import RecipeOutput, convert_to_toml_keys, load_or_make, main
from recipes.webgpt_actors import RANDOM, SCRIPT, answer_by_offers, demonstrate
from recipes.webgpt_data import Samples, Settings, prepare_site, remember_searches
from recipes.webgpt_found import (
    FRESH,
    GIVEN,
    GIVEN_REINFORCED,
    GREEDY,
    KNOWN,
    REINFORCED,
    list_effects,
    list_notes,
    make_figures,
    make_table,
    name_clone,
    rate_samples,
    reward_samples,
)
from recipes.webgpt_stages import (
    answer_with_quotes,
    browse_with,
    clone_behaviour,
    reinforce_answers,
    sample_answers,
    train_reward,
)
from rookery.learn.policy_gradient import WEBGPT_PPO_DEFAULTS
from rookery.learn.reward_model import RewardModel
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.records import Episode, Question

DEFAULTS = {"reinforce": convert_to_toml_keys(WEBGPT_PPO_DEFAULTS)}
"""Settings used where the file of a size is silent."""


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Imitate more and more demonstrations, learn a reward, reinforce; draw two sets of samples,
    one to foretell best of n from and one to choose from."""
    place, uses = prepare_site(settings, data, out)
    with (
        PageArchive(out / "archive.sqlite") as archive,
        FolderLibrary(place, archive, out) as folder,
    ):
        library = remember_searches(folder)
        questions, few, n = uses.measured, settings.few, settings.samples
        browse = browse_with(settings, library)
        answer = answer_with_quotes(library)

        def show(name: str, some: list[Question]) -> list[Episode]:
            make = partial(demonstrate, settings, some, library)
            return load_or_make(out / f"{name}.json", list[Episode], make)

        demonstrations = show("demonstrations", uses.demonstrated)
        clones = list[Path]()
        for low, high in pairwise((0, *settings.demonstrations)):
            some = [each for each in demonstrations if each.question in uses.demonstrated[low:high]]
            clones.append(clone_behaviour(settings, clones[-1:], some, out / f"cloned-{high}"))
        clone = clones[-1]
        draw = partial(sample_answers, settings, out=out)
        compared = draw("compared", uses.compared, browse, clone, few)
        right = {each.question.id: each.answer for each in show("right", uses.compared)}
        by_lot = answer_by_offers(settings, uses.compared, library, RANDOM)
        answers = [
            [*(each.answer for each in (*some, *others)), right.get(question.id)]
            for question, some, others in zip(uses.compared, compared, by_lot, strict=True)
        ]
        reward = train_reward(settings, uses.compared, answers, out / "reward")
        learnt = reinforce_answers(settings, uses.answered, library, clone, out)
        taught = Path(learnt.model)
        plans = {
            name_clone(count): (browse, policy, few)
            for count, policy in zip(settings.demonstrations[:-1], clones[:-1], strict=True)
        }
        plans |= {KNOWN: (browse, clone, n), FRESH: (browse, clone, n), GREEDY: (browse, clone, 1)}
        plans |= {REINFORCED: (browse, taught, few), GIVEN: (answer, clone, n)}
        plans[GIVEN_REINFORCED] = answer, taught, n
        pools = {
            name: draw(name, questions, *plan, greedy=name == GREEDY)
            for name, plan in plans.items()
        }
        for name in (RANDOM, SCRIPT):
            make = partial(answer_by_offers, settings, questions, library, name)
            pools[name] = load_or_make(out / f"{name.replace(' ', '-')}.json", Samples, make)
    scores = cache_scores(RewardModel(Path(reward.model)).score_answers)
    known_scores, fresh_scores = (
        (reward_samples(questions, pools[name], scores), rate_samples(questions, pools[name]))
        for name in (KNOWN, FRESH)
    )
    table = make_table(questions, pools, fresh_scores[0])
    return RecipeOutput(
        list_effects(settings),
        [table],
        make_figures(settings, table, known_scores, fresh_scores, out / "reinforced"),
        list_notes(settings, len(demonstrations), reward, learnt),
    )


if __name__ == "__main__":
    main("webgpt", Settings, reproduce_paper, DEFAULTS)
