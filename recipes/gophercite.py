"""GopherCite: answers that rest on a verbatim quote, learnt from ratings and comparisons, reranked,
or declined (Menick and others 2022, arXiv 2203.11147).

Raters are the known answers: supported and plausible is a quote that holds an accepted one. The
articles of some questions are in no library: these questions should be declined. Run it with
`python -m recipes.gophercite tiny|small|paper`.
"""

from functools import partial
from pathlib import Path

from recipes.gophercite_data import divided, write_little
from recipes.gophercite_found import Samples, figures, findings, judged, notes
from recipes.gophercite_stages import Settings, asked, imitated, preferred, reinforced
from recipes.stages import Found, kept, main, say
from rookery.ask.squad import read_squad
from rookery.learn.rules import A2C, paper_table

BELOW = {"reinforce": paper_table(A2C)}


def play(settings: Settings, data: Path, out: Path) -> Found:
    """Imitation, comparisons, a reward model, A2C; then both policies are asked."""
    squad, climate = data / settings.squad, data / settings.climate
    if not settings.squad:
        squad, climate = write_little(out / "little")
    world = divided(read_squad(squad), settings.articles, settings.questions, settings.seed)
    sft = imitated(settings, world, out)
    reward = preferred(settings, world, climate, out, sft)
    rl = reinforced(settings, world, out, sft, reward)
    there, everything = len(world.asked), [*world.asked, *world.absent]
    found: dict[str, Samples] = {}
    for name, policy in {"SFT": sft, "RL": rl}.items():
        say(f"{name} is asked {there} questions, and {len(world.absent)} that nothing answers")
        drawn = asked(settings, world, policy, everything, settings.samples, out / f"{name}.json")
        parts = reward, everything, there, drawn, settings.prefer.context
        found[name] = kept(out / f"{name}-judged.json", Samples, partial(judged, *parts))
    shown = figures(found, world.asked, settings.seed)
    return findings(found, there), shown, notes(found, there)


if __name__ == "__main__":
    main("gophercite", Settings, play, BELOW)
