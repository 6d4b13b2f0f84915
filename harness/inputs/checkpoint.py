"""The one checkpoint of a (model, size), seeded and written by numpy, tensor by tensor: the same bytes for every framework.

A float32 checkpoint uses all 24 bits of a float32, so that weights which went through float16 or bfloat16 are seen. A bfloat16 checkpoint
may have billions of values: they are looked up in a table of 65,536, which takes an eighth of the time, by a thread for each core.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from harness.errors import EnvironmentFailure
from harness.inputs.models import Model, Size, Tensor
from harness.inputs.user_weights import INDEX, Folder, check_finite
from harness.locks import held

_SEED = 20240611
_FORMAT = {"F32": 2, "BF16": 3}  # how values follow from the seed
_DTYPE = {"float32": "F32", "bfloat16": "BF16"}
_ITEM_BYTES = {"F32": 4, "BF16": 2}
_CHUNK = 1 << 24  # elements made at a time: 64 MB of float32
_PART = 1 << 22  # bfloat16 elements of one stream of random bits: a part of format 3
_LOOK_UP = 1 << 18  # elements looked up at a time: with fewer the threads wait for each other's Python, with more they leave the cache
_DIGEST = "digest.json"


@dataclass(frozen=True)
class Checkpoint:
    """`path`: folder with config.json and model.safetensors, or the files its index names; a model of several parts has a folder for each,
    with a config.json of its own. `digest`: sha256 of `files` of it, one after the other, hex."""

    path: Path
    digest: str
    parameters: int
    bytes: int


NONE = Checkpoint(Path(), hashlib.sha256(b"").hexdigest(), 0, 0)
"""The checkpoint of a SUT that reads no weights."""


def files(path: Path) -> list[str]:
    """What decides the answers of a checkpoint: config.json, then the weights in the order of their names; of one of several parts both of
    each, by their paths within it. Raises FileNotFoundError where there are no weights."""
    weights = sorted(file.relative_to(path).as_posix() for file in path.rglob("*.safetensors"))
    if not weights:
        raise FileNotFoundError(f"no weights in {path}")
    return ["config.json", *sorted([*weights, *(file.relative_to(path).as_posix() for file in path.glob("*/config.json"))])]


def place(model: Model, size: Size, cache: Path) -> Path:
    """The folder of the checkpoint, which `ensure` makes where it is not there."""
    key = hashlib.sha256(json.dumps(_recipe(model, size), sort_keys=True).encode()).hexdigest()[:12]
    return cache / "checkpoints" / f"{model.name}-{size.name}-{key}"


def ensure(model: Model, size: Size, cache: Path, say: Callable[[str], None] = lambda text: None) -> Checkpoint:
    """Reuse or make the checkpoint; a half-made folder is made again, and of two processes one waits for the other.

    Raises EnvironmentFailure where the disk is too small.
    """
    path = place(model, size, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.with_name(path.name + ".lock"), lambda: say(f"waiting for another process that writes {path.name}")):
        if found := _finished(path):
            return found
        say(f"writing the checkpoint {path.name}, {size.weight_bytes(size.precision) / 1e6:,.0f} MB")
        return _make(path, model, size, _recipe(model, size))


def of_folder(folder: Folder, model: Model, cache: Path) -> Checkpoint:
    """A user's own weights: a folder of links to its files and the config.json as `user_weights.look` completed it.

    The digest is that of the user's own files, config.json first, then the weights in the order of their names: read whole each time, for
    a size and a date prove nothing.
    """
    digest = _sha256([folder.path / name for name in folder.own_files])
    configs = {"config.json": folder.size.config}
    if model.parts:
        configs |= {f"{part}/config.json": config for part, config in model.parts.configs(folder.size.config).items()}
    texts = {name: json.dumps(config, indent=1) + "\n" for name, config in configs.items()}
    links = {name: folder.path.resolve() / name for name in (*folder.files, *([INDEX] if folder.index else []))}
    told = {"config": texts, "links": {name: str(target) for name, target in links.items()}}
    key = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
    path = cache / "checkpoints" / f"{model.name}-own-{digest[:12]}-{key}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.with_name(path.name + ".lock"), lambda: None):
        if not _linked(path, texts, links):
            check_finite(folder, model)
            shutil.rmtree(path, ignore_errors=True)
            for name, text in texts.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text(text, encoding="utf-8")
            for name, target in links.items():
                (path / name).symlink_to(target)
    return Checkpoint(path, digest, folder.size.parameters, sum((folder.path / name).stat().st_size for name in folder.files))


def _linked(path: Path, texts: Mapping[str, str], links: Mapping[str, Path]) -> bool:
    """Return whether the folder holds exactly these texts and links. False for one that was half made, or changed by hand."""
    if {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_symlink() or not p.is_dir()} != {*texts, *links}:
        return False
    same = all((path / name).read_text(encoding="utf-8") == text for name, text in texts.items())
    return same and all((path / name).is_symlink() and (path / name).readlink() == target for name, target in links.items())


def _recipe(model: Model, size: Size) -> dict[str, Any]:
    """Everything that decides the files' bytes."""
    config = {"architectures": [model.native_class], **size.config, "dtype": size.precision}
    tensors = [asdict(t) for t in size.tensors]
    dtype = _DTYPE[size.precision]
    parts = {"parts": model.parts.configs(size.config)} if model.parts else {}
    return {"format": _FORMAT[dtype], "seed": _SEED, "config": config, "dtype": dtype, "tensors": tensors, **parts}


def _finished(path: Path) -> Checkpoint | None:
    """None too where the files are no longer those that were written: their bytes are hashed anew each time."""
    try:
        known = json.loads((path / _DIGEST).read_text(encoding="utf-8"))
        digest = _sha256([path / name for name in files(path)])
    except (OSError, ValueError):
        return None
    return Checkpoint(path, digest, known["parameters"], known["bytes"]) if digest == known["sha256"] else None


def _sha256(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in paths:
        with file.open("rb") as f:
            while chunk := f.read(1 << 24):
                total.update(chunk)
    return total.hexdigest()


def _make(path: Path, model: Model, size: Size, recipe: dict[str, Any]) -> Checkpoint:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    folders = _folders(model, size, recipe["config"])
    total = sum(len(_header(tensors, recipe["dtype"])) for _, file, tensors in folders.values() if file)
    total += size.parameters * _ITEM_BYTES[recipe["dtype"]]
    if (free := shutil.disk_usage(path).free) < total:
        raise EnvironmentFailure(
            f"the checkpoint {path.name} takes {total / 1e9:.1f} GB and {path.parent} has {free / 1e9:.1f} GB "
            "free: free some space, or choose a smaller --size"
        )
    written = hashlib.sha256()  # of all files, in the order of `files`
    for folder, (config, file, tensors) in folders.items():
        (path / folder).mkdir(exist_ok=True)
        text = json.dumps(config, indent=1) + "\n"
        (path / folder / "config.json").write_text(text, encoding="utf-8")
        written.update(text.encode("utf-8"))
        if file:
            with (path / folder / file).open("wb") as f:
                _write(f, written, _header(tensors, recipe["dtype"]), tensors, recipe["dtype"])
    digest = written.hexdigest()
    known = {"sha256": digest, "parameters": size.parameters, "bytes": total}
    partial = path / f"{_DIGEST}.partial"
    partial.write_text(json.dumps(known) + "\n", encoding="utf-8")
    partial.replace(path / _DIGEST)
    return Checkpoint(path, digest, size.parameters, total)


def _folders(model: Model, size: Size, config: Mapping[str, Any]) -> dict[str, tuple[Mapping[str, Any], str, tuple[Tensor, ...]]]:
    """Folder within the checkpoint → its config.json, its file of weights and their tensors.

    The first is the checkpoint itself, which holds no weights where the model has parts.
    """
    if not model.parts:
        return {"": (config, "model.safetensors", size.tensors)}
    configs = model.parts.configs(size.config)
    of_part = {part: tuple(t for t in size.tensors if t.name.startswith(f"{part}/")) for part in configs}
    return {"": (config, "", ()), **{part: (configs[part], file, of_part[part]) for part, file in sorted(model.parts.files.items())}}


def _header(tensors: tuple[Tensor, ...], dtype: str) -> bytes:
    """The header of a safetensors file: its length in 8 bytes, then JSON, filled up with spaces so that the data begin at a multiple of 8.

    https://github.com/huggingface/safetensors, "Format". Transformers refuses a file whose metadata lack "format".
    """
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        end = offset + math.prod(tensor.shape) * _ITEM_BYTES[dtype]
        entries[tensor.name.rpartition("/")[2]] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _write(f: BinaryIO, written: Any, header: bytes, tensors: tuple[Tensor, ...], dtype: str) -> None:
    """The file, and its bytes into the digest `written` too. The digest is a thread behind: it takes as long as the drawing."""
    f.write(header)
    written.update(header)
    with ThreadPoolExecutor(1) as hashing:
        behind: Future[None] | None = None
        for part in _float32_parts(tensors) if dtype == "F32" else _bfloat16_parts(tensors):
            f.write(part.data)
            if behind:
                behind.result()
            behind = hashing.submit(written.update, part.data)


def _stream(tensor: Tensor) -> list[int]:
    """What seeds a tensor's values: the seed and the tensor's name. Order and neighbours do not matter."""
    return [_SEED, *hashlib.sha256(tensor.name.encode()).digest()[:8]]


def _float32_parts(tensors: Iterable[Tensor]) -> Iterator[np.ndarray]:
    """The values of all tensors, float32, at most `_CHUNK` at a time."""
    for tensor in tensors:
        rng = np.random.default_rng(_stream(tensor))
        left = math.prod(tensor.shape)
        while left:
            part = rng.standard_normal(min(left, _CHUNK), dtype=np.float32)
            left -= len(part)
            yield part * np.float32(tensor.std) + np.float32(tensor.mean)


def _bfloat16_parts(tensors: Iterable[Tensor]) -> Iterator[np.ndarray]:
    """The same in bfloat16, as uint16: drawn by a thread for each core, in the order of the file."""
    cores = os.cpu_count() or 1
    parts = ((t, n, min(_PART, math.prod(t.shape) - n * _PART)) for t in tensors for n in range(-(-math.prod(t.shape) // _PART)))
    with ThreadPoolExecutor(cores) as pool:
        drawn: deque[Future[np.ndarray]] = deque()
        for part in parts:
            drawn.append(pool.submit(_bfloat16_part, *part))
            if len(drawn) > cores + 1:
                yield drawn.popleft().result()
        while drawn:
            yield drawn.popleft().result()


def _bfloat16_part(tensor: Tensor, number: int, count: int) -> np.ndarray:
    """Part `number` of a tensor, bfloat16 as uint16 [count]. Every 16 random bits choose one of 65,536 equally likely values."""
    table = _table(tensor.mean, tensor.std)
    source = np.random.SFC64([*_stream(tensor), number])
    values = np.empty(count, np.uint16)
    for start in range(0, count, _LOOK_UP):
        piece = values[start : start + _LOOK_UP]
        np.take(table, source.random_raw(-(-len(piece) // 4)).view("<u2")[: len(piece)], out=piece, mode="wrap")
    return values


@cache
def _table(mean: float, std: float) -> np.ndarray:
    """The values that a tensor of this mean and standard deviation is drawn from, bfloat16 as uint16 [65536]."""
    return _bfloat16_bits(_quantiles() * np.float32(std) + np.float32(mean))


@cache
def _quantiles() -> np.ndarray:
    """The standard normal distribution as 65,536 equally likely values, ascending, float32; their standard deviation is 1."""
    normal = statistics.NormalDist()
    half = np.array([normal.inv_cdf((n + 0.5) / 65536) for n in range(32768, 65536)])
    half /= math.sqrt(np.mean(half**2))
    return np.concatenate([-half[::-1], half]).astype(np.float32)


def _bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest, ties to even, as uint16."""
    import ml_dtypes  # only a bfloat16 size needs it

    return values.astype(ml_dtypes.bfloat16).view(np.uint16)
