"""WebGLM: a retriever distilled from citations, answers bootstrapped and filtered, and a scorer
learnt from thumbs-up (Liu and others 2023, arXiv 2306.07906).

An oracle policy that knows the accepted answers stands in for the large model that bootstraps:
`recipes.oracle_policies`.
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
from recipes.webglm_generator import (
    list_generator_effects,
    list_generator_notes,
    make_generator_figure,
    make_generator_tables,
    train_generator,
)
from recipes.webglm_stages import (
    Settings,
    bootstrap_answers,
    distill_retriever,
    read_data,
    train_scorer,
)
from rookery.evidence.evidence_model import BUNDLED_MODEL, load_evidence_model
from rookery.learn.retrieval_data import RetrievalSources, load_scored_references
from rookery.learn.reward_model import RewardModel


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Bootstrap and filter answers, distil the retriever, train the scorer, and measure
    everything."""
    world = read_data(settings, data, out / "little")
    policy = Bootstrapper(world.squad, settings.faults, settings.webglm, settings.seed)
    taught, test_questions = (
        bootstrap_answers(settings, policy, questions, out / f"{name}.jsonl")
        for name, questions in (("taught", world.taught), ("asked", world.asked))
    )
    retriever = distill_retriever(settings, world, taught, out)
    weighed = load_scored_references(RetrievalSources(episodes=(test_questions.place,)))[0]
    models = {"start": world.encoder, "distilled": retriever.model}
    ranked = load_or_make(
        out / "ranked.json", MethodScores, lambda: score_references(weighed, models)
    )
    scorer, bias = train_scorer(settings, world, out)
    scores_by_model = load_or_make(
        out / "scored.json",
        MethodScores,
        lambda: score_threads(RewardModel(Path(scorer.model)), world.held, settings.longest),
    )
    recipe_data = RecipeData(
        world, policy, (taught, test_questions), weighed, ranked, scores_by_model, settings
    )
    output = RecipeOutput(
        [*list_effects(settings.n)],
        [*make_tables(recipe_data)],
        [*make_figures(recipe_data)],
        [*list_notes(retriever, scorer, bias)],
    )
    if settings.generate is None:
        return output
    parts = taught.written, test_questions.written
    generated = train_generator(
        settings.generate, policy, parts, out, settings.seed, settings.split
    )
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    return RecipeOutput(
        [*output.effects, *list_generator_effects()],
        [*output.tables, *make_generator_tables(generated, judge)],
        [*output.figures, make_generator_figure(generated, judge)],
        [*output.notes, *list_generator_notes(generated)],
    )


if __name__ == "__main__":
    main("webglm", Settings, reproduce_paper)
