"""Scripted demonstrations of SQuAD questions: share correct, length, speed.

Reads ../shared/data/squad. Prints a table and writes bench/results/demonstrations.json. Episodes
are made with and without WebGPT's rule of censoring pages that share ten words in a row with the
question or an accepted answer.
"""

import statistics
import time
from collections import Counter
from random import Random

from bench import report
from bench.squad import DATA, Squad
from recipes.oracle_policies import generate_demonstrations, is_correct_demonstration
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.library.question_files import read_squad

COUNT = report.choose_size(1000, 5)
SEED = 5


def main() -> None:
    """Run the benchmark."""
    report.require_data(DATA)
    squad = read_squad(DATA)
    chosen = Random(SEED).sample(squad.questions, COUNT)
    rows = {}
    with Squad().open_library() as library:
        for name, rules in (
            ("not censored", BrowserRules(overlap=0)),
            ("censored", BrowserRules()),
        ):
            tasks = [BrowserTask(question, rules) for question in chosen]
            begun = time.process_time()
            episodes = list(generate_demonstrations(tasks, library, SEED, squad.get_paragraph))
            seconds = time.process_time() - begun
            steps = [len(episode.steps) for episode in episodes]
            said = Counter(
                step.said.text.split(" ", 1)[0] for episode in episodes for step in episode.steps
            )
            rows[name] = {
                "correct": sum(map(is_correct_demonstration, episodes)) / COUNT,
                "steps_mean": statistics.mean(steps),
                "steps_median": statistics.median(steps),
                "steps_most": max(steps),
                "searches": said["Search"] / len(episodes),
                "clicks": said["Clicked"] / len(episodes),
                "quotes": said["Quote:"] / len(episodes),
                "per_cpu_second": len(episodes) / seconds,
            }
    report.print_table(list(rows["censored"]), rows)
    report.write_results("demonstrations", {"questions": COUNT, "target": 0.97, "rows": rows})


if __name__ == "__main__":
    main()
