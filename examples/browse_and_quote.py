"""Drive the text browser by commands, as WebGPT does, and print what was quoted."""

import rookery

QUOTE = "Quote: Crows can recognise individual human faces"

library = rookery.open_library("rookery:corvids")
session = rookery.browse("Can crows recognise human faces?", library)
print(next(session).text)
commands = ["Search crows recognise human faces", "Clicked on link 0", QUOTE, "End: Answer"]
try:
    for command in commands:
        observation = session.send(command)
        print(f"\n=== {command}\n{observation.text[:1500]}")
    session.send("They remember a face for years [1].")
except StopIteration as ended:
    for quote in ended.value.quotes:
        print(f"“{quote.text}”\n  {quote.url}")
library.close()
