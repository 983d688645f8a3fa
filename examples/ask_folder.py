"""Ask a question of a folder of documents: ask_folder.py FOLDER QUESTION"""

import sys

import rookery

folder, question = sys.argv[1:] or ["rookery:corvids", "Why do crows bring gifts to people?"]
answer = rookery.ask(question, folder)
if answer.declined:
    print("Declined. The closest that was found:")
print(answer.text, f"(score {answer.score})")
# Behind the verdicts on the quotes stand those on quotations that a model typed in the text.
for quote, verdict in zip(answer.quotes, rookery.verify(answer), strict=False):
    print(f"- “{quote.text}” {quote.url} [{quote.start}:{quote.end}] {verdict.outcome}")
