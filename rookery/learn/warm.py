"""A sentence encoder as what a reward model begins as: it knows words, and few labels teach it the
rest.

It knows nothing of rewards.
"""

from pathlib import Path
from typing import Any

from transformers import AutoModel, AutoTokenizer

from rookery.learn.encoder import MINILM, _folder
from rookery.learn.models import _silently, _worded, write_model


def write_warm(folder: Path, model: str = MINILM) -> None:
    """Writes the encoder, which is that of the `dense` extra or another folder's, so that `prefer`
    can begin as it: with the tokens that its texts begin and end with named as such.

    Its rewards are read at the first token, which sees all others. Raises Failed: no_model,
    bad_model.
    """
    source = _folder(model)
    here: dict[str, Any] = {"local_files_only": True}
    with _worded(source), _silently():
        plain = AutoTokenizer.from_pretrained(source, **here)
        marks = {"bos_token": plain.cls_token, "eos_token": plain.sep_token}
        tokenizer = AutoTokenizer.from_pretrained(source, **marks, **here)
        encoder: Any = AutoModel.from_pretrained(source, use_safetensors=True, **here)
    write_model(encoder, tokenizer, folder)
