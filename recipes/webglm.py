"""WebGLM: a retriever distilled from citations, and a generator that learns from those of its own
cited claims that pass the filters (Liu and others 2023, arXiv 2306.07906).

The generator points at a reference by the likelihood of the question after it, and writes a claim
from that reference alone. The paper's scorer is left out, since there are no comparisons by people
of answers with evidence that it could learn from.
"""

from collections import Counter
from pathlib import Path

from recipes.pointed_claims import make_claim_episode
from recipes.stages import ROOT, RecipeOutput, load_or_make, main
from recipes.tiny_data import write_tiny_data
from recipes.webglm_data import CitedFolder, Data, read_cited_folder, sample_paged_questions
from recipes.webglm_found import (
    list_effects,
    list_notes,
    make_claim_tables,
    make_labels_figure,
    make_ranking_tables,
)
from recipes.webglm_generator import (
    FEW_SHOT,
    FIRST_REFERENCE,
    LOT_REFERENCE,
    SURVIVES,
    TRAINED,
    GeneratedClaims,
    choose_first_reference,
    choose_random_reference,
    filter_claim,
    imitate_claims,
    load_start,
    point_at_references,
    write_claims,
)
from recipes.webglm_stages import Settings, rank_references
from rookery.library.question_files import read_squad


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Distil retrievers and train the generator, and measure them on what they have not learnt
    from."""
    world = read_data(settings, data, out)
    ranked = rank_references(settings, world, out / "retriever")
    claims = train_generator(settings, world, out / "generator")
    return RecipeOutput(
        list_effects(),
        [*make_ranking_tables(ranked, settings), *make_claim_tables(claims)],
        [make_labels_figure(ranked, settings)],
        list_notes(world, claims, settings),
    )


def read_data(settings: Settings, data: Path, out: Path) -> Data:
    """Read the data that the settings name, or make them up; the folders once, as they take a
    minute."""
    squad, root, encoder = data / settings.squad, ROOT / settings.folders, settings.retrieve.model
    if not settings.folders:
        squad, root, tiny_encoder = write_tiny_data(out / "little", settings.split)
        encoder = str(tiny_encoder)
    folders = load_or_make(
        out / "folders.json",
        list[CitedFolder],
        lambda: [read_cited_folder(each) for each in sorted(root.iterdir()) if each.is_dir()],
    )
    parts = sample_paged_questions(read_squad(squad), settings.generate.questions, settings.split)
    return Data(folders, encoder, *parts)


def train_generator(settings: Settings, data: Data, out: Path) -> GeneratedClaims:
    """Point, write, filter and imitate (section 3.2); then write claims to other questions, before
    and after."""
    how, seed = settings.generate, settings.seed
    start = load_start(how, data, out, seed)
    train_pairs = point_at_references(start, data.taught, out / "pointed-taught.json")
    bootstrapped = write_claims(
        how, start, train_pairs, out / "bootstrapped.json", seed, few_shot=True
    )
    fates = [
        filter_claim(question, answer, page, how.filters)
        for (question, page), answer in zip(data.taught, bootstrapped, strict=True)
    ]
    demonstrations = [
        make_claim_episode(*pair, answer.text)
        for pair, answer, fate in zip(train_pairs, bootstrapped, fates, strict=True)
        if answer and fate == SURVIVES
    ]
    trained = imitate_claims(how, start, demonstrations, out, seed)
    test_pairs = point_at_references(start, data.held, out / "pointed-held.json")
    by_lot = [choose_random_reference(*each, seed) for each in data.held]
    first = [choose_first_reference(*each) for each in data.held]
    answers = {
        FEW_SHOT: write_claims(how, start, test_pairs, out / "few-shot.json", seed, few_shot=True),
        TRAINED: write_claims(how, trained, test_pairs, out / "trained.json", seed),
        LOT_REFERENCE: write_claims(how, trained, by_lot, out / "by-lot.json", seed),
        FIRST_REFERENCE: write_claims(how, trained, first, out / "first.json", seed),
    }
    return GeneratedClaims(Counter(fates), test_pairs, answers)


if __name__ == "__main__":
    main("webglm", Settings, reproduce_paper)
