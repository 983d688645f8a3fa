"""Made-up questions, documents and an encoder: data of the tiny size of the WebGLM recipe."""

import json
from pathlib import Path
from random import Random
from typing import Any

from recipes.random_models import write_tiny_encoder

BIRDS = ("owl", "finch", "heron", "swift", "wren", "crane")
FOODS = ("mice", "seeds", "frogs", "flies", "worms", "fish", "beetles", "berries")


def write_tiny_data(folder: Path, seed: int = 0) -> tuple[Path, Path, Path]:
    """Write a made-up SQuAD file, a folder with four folders of documents and an encoder, and
    return their paths. One word decides which line answers a question."""
    chance = Random(f"{seed} little")
    folder.mkdir(parents=True, exist_ok=True)
    articles = [_make_article(number, chance) for number in range(30)]
    squad = folder / "squad.json"
    squad.write_text(json.dumps({"data": articles}))
    for number in range(4):
        _write_documents(folder / "folders", f"valley{number}", articles[number])
    paragraphs = [each for article in articles for each in article["paragraphs"]]
    texts = [text for each in paragraphs for text in (each["context"], each["qas"][0]["question"])]
    write_tiny_encoder(folder / "encoder", [*texts, "valley 0 1 2 3"], seed=seed)
    return squad, folder / "folders", folder / "encoder"


def _make_article(number: int, chance: Random) -> dict[str, Any]:
    paragraphs = []
    for bird in chance.sample(BIRDS, 4):
        eaten, watched, fled = chance.sample(FOODS, 3)
        lines = [
            f"The {bird} of the hill eats {eaten} in spring",
            f"The {bird} of the hill is seen beside {watched} in spring",
            f"The {bird} of the hill flees from {fled} in spring",
        ]
        chance.shuffle(lines)
        questions = {
            "id": f"{number}-{bird}",
            "question": f"What food does the {bird} of the hill like in spring, number {number}?",
            "answers": [{"text": eaten}],
        }
        paragraphs.append({"context": ". ".join(lines) + ".", "qas": [questions]})
    return {"title": f"Hill {number}", "paragraphs": paragraphs}


def _write_documents(root: Path, name: str, article: dict[str, Any]) -> None:
    """Write a page for each sentence of an article, and the questions about them."""
    (root / name).mkdir(parents=True, exist_ok=True)
    lines = []
    for each in article["paragraphs"]:
        question = each["qas"][0]
        for number, sentence in enumerate(each["context"].rstrip(".").split(". ")):
            page = f"{question['id']}-{number}.txt"
            (root / name / page).write_text(f"{sentence}.\n")
            if " eats " in sentence:
                facts = {"accepted": [page], "facts": [question["answers"][0]["text"]]}
                about = {"id": f"{name}-{question['id']}", "kind": "fact", "site": name}
                lines.append({**about, "text": question["question"], **facts})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (root / f"questions_{name}.jsonl").write_text(text)
