"""The stages of the WebGPT recipe that are about rewards, each made once: prefer, reinforce.

It knows nothing of what is found.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from msgspec.structs import replace

from recipes.stages import kept, say
from recipes.webgpt_data import Settings, is_right
from recipes.webgpt_stages import answered, taught, written
from rookery.draft.offered import offered
from rookery.learn.encoder import MINILM
from rookery.learn.offers import Offering
from rookery.learn.played import World
from rookery.learn.prefer import Preferred, prefer
from rookery.learn.quoted import once
from rookery.learn.reinforce import Reinforced, reinforce
from rookery.learn.scorer import Scorer
from rookery.learn.warm import write_warm
from rookery.learn.worlds import BrowserWorld
from rookery.learn.worlds_speech import speech_of
from rookery.records import Answer, Comparison, Library, Question


def preferred(
    settings: Settings,
    asked: Sequence[Question],
    library: Library,
    policy: Path,
    out: Path,
    seed: int,
) -> Preferred:
    """A reward model, learnt from comparisons of samples and of what a demonstrator says."""
    place = out / "compared.json"
    samples = answered(settings, asked, library, policy, settings.compared, seed, place)
    shown = taught(settings, asked, library, out)
    said = {episode.question.id: episode.answer for episode in shown}
    pairs = zip(asked, samples, strict=True)
    made = [each for one, some in pairs for each in compared(one, [*some, said.get(one.id)])]
    named = settings.prefer.trained.model
    start = out / MINILM if named == MINILM else Path(named or policy)
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=str(out / "comparisons.jsonl"),
        seed=seed,
    )

    def learn() -> Preferred:
        if named == MINILM:
            write_warm(start)
        written(out / "comparisons.jsonl", made)
        return prefer(whole, out / "run")

    done = kept(out / "preferred.json", Preferred, learn)
    agreed = done.after.credit if done.after else 0.5
    say(f"a reward learnt from {done.comparisons} comparisons foretells {agreed:.1%} of others")
    return done


def compared(question: Question, answers: Sequence[Answer | None]) -> Iterator[Comparison]:
    """Each answer with each other one: who is right is preferred, and else they tie."""
    different = list(dict.fromkeys(answer for answer in answers if answer is not None))
    for pair in combinations(different, 2):
        good = [is_right(question, answer) for answer in pair]
        first = 0.5 + (good[0] - good[1]) / 2
        yield Comparison(question, pair, (first, 1 - first), "the known answers")


def reinforced(
    settings: Settings,
    asked: Sequence[Question],
    library: Library,
    policy: Path,
    reward: Preferred,
    out: Path,
) -> Reinforced:
    """PPO with more answers to each browsing (section 3.2, appendix E)."""
    given = settings.reinforce
    whole = replace(given, policy=replace(given.policy, model=str(policy)))

    def learn() -> Reinforced:
        speech = speech_of(policy, whole.sampling.tokens, chat=False)
        scores = once(Scorer(Path(reward.model)).scores)
        world: World = BrowserWorld(asked, library, scores, speech, settings.browsing)
        if settings.held:
            world = Offering(world, speech, offered)
        return reinforce(whole, world, out / "ppo")

    done = kept(out / "reinforced.json", Reinforced, learn)
    say(f"PPO ends with the reward {done.reward:.2f}, {done.kl:.2f} nats away {done.faults}")
    return done
