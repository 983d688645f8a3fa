"""Ask a question of a web site, which is crawled once a day: ask_site.py ADDRESS QUESTION"""

import sys

import rookery

address, question = sys.argv[1:]
# Addresses of this machine and of private networks are refused unless they are allowed.
settings = rookery.Settings(private=address.startswith("http://127.0.0.1"))


def show_progress(done: int, total: int, name: str) -> None:
    print(f"{done}/{total} {name}", file=sys.stderr)


try:
    answer = rookery.ask(question, address, settings=settings, progress=show_progress)
except rookery.Failed as failed:
    sys.exit(f"no answer: {failed}")
print(answer.text)
for quote in answer.quotes:
    print(f"- {quote.title}: {quote.url}")
