"""Answer the questions of a file, one a line: answer_batch.py QUESTIONS PLACE OUT.jsonl"""

import sys
from pathlib import Path

import rookery

questions, place, out = sys.argv[1:]
lines = Path(questions).read_text(encoding="utf-8").splitlines()
counts = {"answered": 0, "declined": 0, "failed": 0}
with Path(out).open("w", encoding="utf-8") as answers:
    for episode in rookery.ask_many([line for line in lines if line.strip()], place):
        answers.write(episode.to_json() + "\n")
        if episode.answer is None:
            counts["failed"] += 1
            print(episode.question.text, *episode.failures, sep="\n  ", file=sys.stderr)
        else:
            counts["declined" if episode.answer.declined else "answered"] += 1
print(*(f"{number} {outcome}" for outcome, number in counts.items()), sep=", ")
