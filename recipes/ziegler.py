"""Fine-tuning language models from human preferences (Ziegler and others, 2019): continuations of
novels that are positive, learnt from a labeller's comparisons and from the labeller's own reward,
beside the best of n and the optimum at equal KL."""

from pathlib import Path
from statistics import fmean, pstdev

from recipes.rewards import MockLabeller, list_answer_pairs
from recipes.sentiment_judges import (
    LABELLER,
    choose_canned_sentence,
    make_pairs,
    read_reviews,
    train_judges,
)
from recipes.stages import RecipeOutput, main
from recipes.ziegler_data import read_novels, write_tiny_data
from recipes.ziegler_found import (
    LAST_TOKEN,
    ONLINE,
    Measurements,
    PolicyScores,
    Rows,
    list_effects,
    list_notes,
    make_figures,
    make_tables,
)
from recipes.ziegler_stages import Settings, StagedRun
from rookery.learn.online_labelling import ComparisonQuestion
from rookery.learn.retrieval_training import MINILM_MODEL
from rookery.learn.rollout_environments import BatchRewardFunction

LAST_TOKEN_SAMPLES = 8
"""Samples of a beginning that the paper's own reward model reads: it takes ten times as long."""
Rewards = dict[str, BatchRewardFunction]


def reproduce_paper(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Run all stages: reference, labels, reward models, policies, and measure them."""
    encoder = MINILM_MODEL
    if not settings.model:
        data = out / "data"
        encoder = write_tiny_data(data)
    novels = read_novels(data, settings.passage, settings.excerpt, settings.split)
    judges = train_judges(read_reviews(data), encoder, settings.split)
    labeller = judges.scores[LABELLER]
    mock = MockLabeller(lambda question, answer: labeller([(question, answer)])[0])
    run = StagedRun(settings, out, novels, encoder)
    beginnings = novels.training[: settings.labelled]
    texts = run.sample_texts("labelled", run.reference, beginnings, 4)
    compared = list_answer_pairs(beginnings, [[each.text for each in four] for four in texts])
    rewards = _train_rewards(run, compared, mock)
    reference_scores = _score_reference(run, judges.scores | rewards)
    trained = _train_policies(run, {LABELLER: labeller, **rewards}, reference_scores)
    total = settings.online[1]
    online = run.train_policy_online(ONLINE, compared, mock, dict(settings.labels)[total])
    trained[ONLINE] = (online, f"{total:,} labels", settings.targets[-1])
    policies = {}
    for name, (model, reward, target) in trained.items():
        samples = run.sample_texts(name, model, run.held, settings.each)
        readers = judges.scores | {reward: (judges.scores | rewards)[reward]}
        scores = {
            each: run.score_samples(f"{name} by {each}", readers[each], samples) for each in readers
        }
        kls = [[each.kl for each in texts] for texts in samples]
        batches = [labeller(make_pairs(texts)) for texts in run.read_batches(name)]
        policies[name] = PolicyScores(kls, scores, reward, target, batches)
    canned = choose_canned_sentence(labeller, novels.passages)
    measured = Measurements(
        tuple(question.id for question in run.held),
        reference_scores,
        policies,
        {name: score(make_pairs([canned]))[0] for name, score in judges.scores.items()},
        dict(zip(rewards, [*dict(settings.labels), settings.last_token_labels], strict=True)),
    )
    notes, figures = list_notes(measured, judges.accuracies, canned), make_figures(measured)
    return RecipeOutput(list_effects(measured), make_tables(measured), figures, notes)


def _train_rewards(
    run: StagedRun, compared: list[ComparisonQuestion], labeller: MockLabeller
) -> Rewards:
    """Train reward models on ever more labels, and the paper's own."""
    counts, own = dict(run.settings.labels), run.settings.last_token_labels
    labels = list(labeller.compare_answers(compared[: max(counts)]))
    rewards = {
        f"{count:,} labels": run.train_reward(f"{count:,} labels", labels[:count], passes)
        for count, passes in counts.items()
    }
    name = f"{LAST_TOKEN}{own:,} labels"
    return rewards | {name: run.train_reward(name, labels[:own], 1, last_token=True)}


def _score_reference(run: StagedRun, scores: Rewards) -> dict[str, Rows]:
    """Score the reference's samples on the held-out beginnings."""
    samples = run.sample_texts("reference", run.reference, run.held, run.settings.drawn)
    some = [each[:LAST_TOKEN_SAMPLES] for each in samples]
    return {
        name: run.score_samples(name, score, some if LAST_TOKEN in name else samples)
        for name, score in scores.items()
    }


def _train_policies(
    run: StagedRun, rewards: Rewards, scores: dict[str, Rows]
) -> dict[str, tuple[str, str, float]]:
    """Train policies; return the folder of each, the name of its reward and its KL target."""
    far = run.settings.targets[-1]
    plans = [(f"known reward, {kl:g} nats", LABELLER, kl) for kl in run.settings.targets]
    plans += [(f"from {each:,} labels", f"{each:,} labels", far) for each in run.settings.learnt]
    trained = {}
    for name, reward, kl in plans:
        spread = fmean(map(pstdev, scores[reward]))
        trained[name] = (run.train_policy(name, rewards[reward], kl, spread), reward, kl)
    return trained


if __name__ == "__main__":
    main("ziegler", Settings, reproduce_paper)
