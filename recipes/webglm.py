"""WebGLM: a retriever distilled from what answers cite, answers bootstrapped and filtered, and a
scorer learnt from thumbs-up (Liu and others 2023, arXiv 2306.07906).

The model that bootstraps is a stand-in that knows the accepted answers: `rookery.draft.adopt`.
"""

from pathlib import Path

from recipes.stages import Found, kept, main
from recipes.webglm_data import Bootstrapper
from recipes.webglm_found import Given, Seen, figures, findings, notes, rankings, scores
from recipes.webglm_stages import Settings, bootstrapped_in, distilled, preferred, read_data
from rookery.learn.referred import Sources, read_weighed
from rookery.learn.scorer import Scorer


def play(settings: Settings, data: Path, out: Path) -> Found:
    """Bootstraps and filters answers, distils the retriever, learns the scorer, measures all."""
    world = read_data(settings, data, out / "little")
    policy = Bootstrapper(world.squad, settings.faults, settings.webglm, settings.seed)
    taught, asked = (
        bootstrapped_in(settings, policy, questions, out / f"{name}.jsonl")
        for name, questions in (("taught", world.taught), ("asked", world.asked))
    )
    retriever = distilled(settings, world, taught, out)
    weighed = read_weighed(Sources(episodes=(asked.place,)))[0]
    models = {"start": world.encoder, "distilled": retriever.model}
    ranked = kept(out / "ranked.json", Given, lambda: rankings(weighed, models))
    scorer, bias = preferred(settings, world, out)
    given = kept(
        out / "scored.json",
        Given,
        lambda: scores(Scorer(Path(scorer.model)), world.held, settings.longest),
    )
    seen = Seen(world, policy, (taught, asked), weighed, ranked, given, settings)
    return findings(seen), figures(seen), notes(retriever, scorer, bias)


if __name__ == "__main__":
    main("webglm", Settings, play)
