"""WebGLM: a retriever distilled from citations, answers bootstrapped and filtered, and a scorer
learnt from thumbs-up (Liu and others 2023, arXiv 2306.07906).

An oracle policy that knows the accepted answers stands in for the large model that bootstraps:
`rookery.draft.oracle_policies`.
"""

from pathlib import Path

from recipes.stages import RecipeOutput, load_or_make, main
from recipes.webglm_data import Bootstrapper
from recipes.webglm_found import (
    MethodScores,
    RecipeData,
    list_effects,
    list_notes,
    make_figures,
    make_tables,
    score_references,
    score_threads,
)
from recipes.webglm_stages import (
    Settings,
    bootstrap_answers,
    distill_retriever,
    read_data,
    train_scorer,
)
from rookery.learn.retrieval_data import RetrievalSources, load_scored_references
from rookery.learn.reward_model import RewardModel


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Bootstrap and filter answers, distil the retriever, train the scorer, and measure
    everything."""
    world = read_data(settings, data, out / "little")
    policy = Bootstrapper(world.squad, settings.faults, settings.webglm, settings.seed)
    taught, asked = (
        bootstrap_answers(settings, policy, questions, out / f"{name}.jsonl")
        for name, questions in (("taught", world.taught), ("asked", world.asked))
    )
    retriever = distill_retriever(settings, world, taught, out)
    weighed = load_scored_references(RetrievalSources(episodes=(asked.place,)))[0]
    models = {"start": world.encoder, "distilled": retriever.model}
    ranked = load_or_make(
        out / "ranked.json", MethodScores, lambda: score_references(weighed, models)
    )
    scorer, bias = train_scorer(settings, world, out)
    given = load_or_make(
        out / "scored.json",
        MethodScores,
        lambda: score_threads(RewardModel(Path(scorer.model)), world.held, settings.longest),
    )
    seen = RecipeData(world, policy, (taught, asked), weighed, ranked, given, settings)
    return RecipeOutput(
        list_effects(settings.n),
        make_tables(seen),
        make_figures(seen),
        list_notes(retriever, scorer, bias),
    )


if __name__ == "__main__":
    main("webglm", Settings, reproduce_paper)
