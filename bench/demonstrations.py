"""Scripted demonstrations of SQuAD questions: how many are correct, how long they are, how fast.

Reads ../shared/data/squad. Prints a table and writes bench/results/demonstrations.json. Episodes
are made with WebGPT's rule that pages which share ten words in a row with the question or an
accepted answer are censored, and without it.
"""

import statistics
import time
from collections import Counter
from random import Random

from bench import report
from bench.squad import DATA, Squad
from rookery.ask.squad import read_squad
from rookery.browse.rules import Rules, Task
from rookery.draft.demonstrate import demonstrations, is_correct

COUNT = report.sized(1000, 5)
SEED = 5


def main() -> None:
    report.require(DATA)
    squad = read_squad(DATA)
    chosen = Random(SEED).sample(squad.questions, COUNT)
    rows = {}
    with Squad().open_library() as library:
        for name, rules in (("not censored", Rules(overlap=0)), ("censored", Rules())):
            tasks = [Task(question, rules) for question in chosen]
            begun = time.process_time()
            episodes = list(demonstrations(tasks, library, SEED, squad.paragraph))
            seconds = time.process_time() - begun
            steps = [len(episode.steps) for episode in episodes]
            said = Counter(
                step.said.text.split(" ", 1)[0] for episode in episodes for step in episode.steps
            )
            rows[name] = {
                "correct": sum(map(is_correct, episodes)) / COUNT,
                "steps_mean": statistics.mean(steps),
                "steps_median": statistics.median(steps),
                "steps_most": max(steps),
                "searches": said["Search"] / len(episodes),
                "clicks": said["Clicked"] / len(episodes),
                "quotes": said["Quote:"] / len(episodes),
                "per_cpu_second": len(episodes) / seconds,
            }
    report.show(list(rows["censored"]), rows)
    report.write("demonstrations", {"questions": COUNT, "target": 0.97, "rows": rows})


if __name__ == "__main__":
    main()
