"""Answer with a language model in a folder: local_model.py MODEL DOCUMENTS

GopherCite's method holds the model to quotes of the page while it writes, so that even a poor model
cites nothing that is not there. Needs pip install 'rookery[learn]'.
"""

import sys

import rookery

model, documents = sys.argv[1:]
models = rookery.ModelSettings(model=f"path:{model}", samples=4)
settings = rookery.Settings((documents,), method="gophercite", models=models)
(episode,) = rookery.ask_many(["Where do rooks nest?"], settings=settings)
print("ended as", episode.stop, *episode.failures)
if episode.answer is not None:
    print(episode.answer.text)
    assert all(rookery.verify(episode.answer))
