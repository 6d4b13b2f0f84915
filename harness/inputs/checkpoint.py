"""The seeded checkpoint of a (model, size), written by numpy with the same bytes for every
framework.

A float32 checkpoint uses all 24 bits of a float32, so that the accuracy test detects weights that
were rounded to float16 or bfloat16. A bfloat16 checkpoint may have billions of values. They are
taken from a table of 65,536, which needs an eighth of the time. All cores draw, write and hash.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from formats.workload import Config
from harness.errors import EnvironmentFailure
from harness.inputs import keras_file, stored_tensors
from harness.inputs.models import Model, Size, Tensor
from harness.inputs.user_folder import Document
from harness.inputs.user_tensors import INDEX
from harness.inputs.user_weights import SINGLE, Folder, check_finite
from harness.locks import held

_SEED = 20240611
_FORMAT = {"F32": 2, "BF16": 3}  # version of how values follow from the seed
_DTYPE = {"float32": "F32", "bfloat16": "BF16"}
_ITEM_BYTES = {"F32": 4, "BF16": 2}
_CHUNK = 1 << 20  # float32 elements made at a time
_PART = 1 << 22  # bfloat16 elements of one random stream, a part of format 3
# Elements looked up at a time. With fewer, threads wait for the interpreter lock; with more, they
# do not fit into the cache.
_LOOK_UP = 1 << 18
_DIGEST = "digest.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk.

    Attributes:
        path: a folder with config.json and model.safetensors, or the files of its index. A model
            with parts has a folder for each, with its config.json.
        digest: `digest_of` its `files`.
    """

    path: Path
    digest: str
    parameters: int
    bytes: int


NONE = Checkpoint(Path(), blake3().hexdigest(), 0, 0)
"""The checkpoint of a SUT that reads no weights."""


def files(path: Path) -> list[str]:
    """The files that decide the answers of a checkpoint: config.json, then the weights sorted by
    name. With parts, the config.json and weights of all parts are sorted by path. A user's own
    model in a .keras file is one file.
    """
    if (path / "model.keras").exists():
        return ["model.keras"]
    found = [*path.rglob("*.safetensors"), *path.glob("*/config.json")]
    return ["config.json", *sorted(file.relative_to(path).as_posix() for file in found)]


def place(model: Model, size: Size, cache: Path) -> Path:
    """The folder of the checkpoint. `ensure` writes it if it is missing."""
    key = _sha256_of(_recipe(model, size))[:12]
    return cache / "checkpoints" / f"{model.name}-{size.name}-{key}"


def _locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
    """Lock the folder of a checkpoint for this process. `on_wait`: see `held`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return held(path.with_name(path.name + ".lock"), on_wait)


def _sha256_of(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def ensure(
    model: Model, size: Size, cache: Path, say: Callable[[str], None] = lambda text: None
) -> Checkpoint:
    """Reuse or write the checkpoint. An incomplete folder is written again. Of two processes one
    waits for the other.

    Raises EnvironmentFailure if the disk is too small.
    """
    path = place(model, size, cache)
    waiting = f"waiting for another process that writes {path.name}"
    with _locked(path, lambda: say(waiting)):
        if known := _known(path, files(path)):
            return Checkpoint(path, known["digest"], known["parameters"], known["bytes"])
        size_mb = size.weight_bytes(size.precision) / 1e6
        say(f"writing the checkpoint {path.name}, {size_mb:,.0f} MB")
        return _make(path, model, size, _recipe(model, size))


def of_folder(folder: Folder, model: Model, cache: Path) -> Checkpoint:
    """The checkpoint of a user's weights: a folder with links to its files, or a copy of them if
    their names must change, and the config.json completed by `user_weights.look`.

    The digest is that of the user's files: config.json, then the weights sorted by name. They are
    read whole each time, because size and date prove nothing.
    """
    digest = digest_of(folder.own_files)
    configs = {"config.json": folder.size.config}
    if model.parts:
        for part, config in model.parts.configs(folder.size.config).items():
            configs[f"{part}/config.json"] = config
    if folder.index and not folder.names:
        configs[INDEX] = {"metadata": {}, "weight_map": folder.index}
    texts = {name: json.dumps(config, indent=1) + "\n" for name, config in configs.items()}
    links = {name: str(folder.path.resolve() / name) for name in folder.files}
    recipe = {"config": texts, "links": links}
    if folder.names:
        recipe["names"] = dict(folder.names)
        links = {}
    key = _sha256_of(recipe)[:8]
    path = cache / "checkpoints" / f"{model.name}-own-{digest[:12]}-{key}"
    size_bytes = sum((folder.path / name).stat().st_size for name in folder.files)
    with _locked(path):
        copied = (SINGLE, _DIGEST) if folder.names else ()
        if not _linked(path, texts, links, copied):
            check_finite(folder)
            shutil.rmtree(path, ignore_errors=True)
            for name, text in texts.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text(text, encoding="utf-8")
            for name, target in links.items():
                (path / name).symlink_to(target)
            if folder.names:
                _copy(folder, path, size_bytes)
                if digest_of(folder.own_files) != digest:
                    shutil.rmtree(path)
    return Checkpoint(path, digest, folder.size.parameters, size_bytes)


def _copy(folder: Folder, path: Path, size_bytes: int) -> None:
    """Copy a user's tensors under other names, and write the copy's digest.

    Raises EnvironmentFailure if the disk is too small.
    """
    _check_space(path, size_bytes, "free some space, or give another --cache")
    sources = [folder.path / name for name in folder.files]
    stored_tensors.copy(sources, folder.names, path / SINGLE)
    known = {"digest": digest_of([path / SINGLE])}
    (path / _DIGEST).write_text(json.dumps(known) + "\n", encoding="utf-8")


def _check_space(path: Path, need: int, advice: str) -> None:
    """Raises EnvironmentFailure if the disk has fewer bytes free."""
    free = shutil.disk_usage(path).free
    if free < need:
        raise EnvironmentFailure(
            f"the checkpoint {path.name} takes {need / 1e9:.1f} GB and {path.parent} has"
            f" {free / 1e9:.1f} GB free: {advice}"
        )


def of_file(model: Model, cache: Path) -> Checkpoint:
    """The checkpoint of a user's own file: a folder with copies of the file and of the code of its
    custom layers, named by their digests. So a file that was moved does not end a measurement.

    The digest is that of the user's file. The copy is read whole each time.
    """
    assert model.file
    file = model.file
    code = f"-{file.code_digest}" if file.code_digest else ""
    digest = file.digest
    path = cache / "checkpoints" / f"{model.name}-own-{digest[:12]}{code}"
    copy = path / "model.keras"
    with _locked(path):
        if not copy.exists() or digest_of([copy]) != digest:
            keras_file.check_weights(file.path)
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            if file.code is not None:
                (path / "custom.py").write_bytes(file.code)
            partial_copy = copy.with_suffix(".partial")
            shutil.copyfile(file.path, partial_copy)
            partial_copy.replace(copy)
    return Checkpoint(path, digest, model.sizes["user"].parameters, copy.stat().st_size)


def _linked(
    path: Path, texts: Mapping[str, str], links: Mapping[str, str], copied: Sequence[str]
) -> bool:
    """Return whether the folder contains exactly these texts, links and copied files. False if it
    is incomplete or was changed by hand.

    Args:
        copied: the copy and the file with its digest; empty: nothing is copied.
    """
    files = [file for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]
    if {file.relative_to(path).as_posix() for file in files} != {*texts, *links, *copied}:
        return False
    if copied and not _known(path, [SINGLE]):
        return False
    for name, text in texts.items():
        if (path / name).read_text(encoding="utf-8") != text:
            return False
    return all(
        (path / name).is_symlink() and str((path / name).readlink()) == target
        for name, target in links.items()
    )


def _recipe(model: Model, size: Size) -> Document:
    """Everything that decides the files' bytes."""
    config = {"architectures": [model.native_class], **size.config, "dtype": size.precision}
    tensors = [asdict(t) for t in size.tensors]
    dtype = _DTYPE[size.precision]
    parts = {"parts": model.parts.configs(size.config)} if model.parts else {}
    return {
        "format": _FORMAT[dtype],
        "seed": _SEED,
        "config": config,
        "dtype": dtype,
        "tensors": tensors,
        **parts,
    }


def _known(path: Path, names: Iterable[str]) -> Document | None:
    """What the checkpoint's file with its digest says. None if there is none, or if the files have
    changed: their bytes are hashed each time.
    """
    try:
        known: Document = json.loads((path / _DIGEST).read_text(encoding="utf-8"))
        digest = digest_of([path / name for name in names])
    except (OSError, ValueError):
        return None
    return known if digest == known.get("digest") else None


def digest_of(paths: Iterable[Path]) -> str:
    """Return the BLAKE3 of the files' bytes, one file after another, as 64 hex digits. All cores
    hash. Raises OSError.
    """
    total = blake3(max_threads=blake3.AUTO)
    for path in paths:
        total.update_mmap(path)
    return total.hexdigest()


def _make(path: Path, model: Model, size: Size, recipe: Document) -> Checkpoint:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    dtype = recipe["dtype"]
    folders = _folders(model, size, recipe["config"])
    headers = [_header(tensors, dtype) for _, file, tensors in folders.values() if file]
    parameters = size.parameters
    total = sum(map(len, headers)) + parameters * _ITEM_BYTES[dtype]
    _check_space(path, total, "free some space, or choose a smaller --size")
    for folder, (config, file, tensors) in folders.items():
        (path / folder).mkdir(exist_ok=True)
        text = json.dumps(config, indent=1) + "\n"
        (path / folder / "config.json").write_text(text, encoding="utf-8")
        if file:
            _write(path / folder / file, tensors, dtype)
    digest = digest_of([path / name for name in files(path)])
    known = {"digest": digest, "parameters": parameters, "bytes": total}
    partial = path / f"{_DIGEST}.partial"
    partial.write_text(json.dumps(known) + "\n", encoding="utf-8")
    partial.replace(path / _DIGEST)
    return Checkpoint(path, digest, parameters, total)


_Contents = tuple[Mapping[str, Any], str, tuple[Tensor, ...]]
"""config.json, file of weights, its tensors."""


def _folders(model: Model, size: Size, config: Config) -> dict[str, _Contents]:
    """Folder within the checkpoint → its config.json, its file of weights and their tensors.

    The first is the checkpoint itself, which has no weights if the model has parts.
    """
    parts = model.parts
    if not parts:
        return {"": (config, "model.safetensors", size.tensors)}
    configs = parts.configs(size.config)
    folders: dict[str, _Contents] = {"": (config, "", ())}
    for part, file in sorted(parts.files.items()):
        tensors = tuple(t for t in size.tensors if t.name.startswith(f"{part}/"))
        folders[part] = (configs[part], file, tensors)
    return folders


def _header(tensors: tuple[Tensor, ...], dtype: str) -> bytes:
    """The header of a file with these tensors, all of one dtype."""
    item_bytes = _ITEM_BYTES[dtype]
    return stored_tensors.header(
        (t.name.rpartition("/")[2], dtype, t.shape, math.prod(t.shape) * item_bytes)
        for t in tensors
    )


def _write(path: Path, tensors: tuple[Tensor, ...], dtype: str) -> None:
    """Write the file. Its space is allocated first, then each thread draws parts and writes them to
    their places.
    """
    header = _header(tensors, dtype)
    values = sum(math.prod(t.shape) for t in tensors)
    with path.open("wb") as f, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        os.posix_fallocate(f.fileno(), 0, len(header) + values * _ITEM_BYTES[dtype])
        f.write(header)
        f.flush()
        starts, drawn = zip(*_parts(tensors, dtype), strict=True)
        places = [len(header) + start for start in starts]
        for _ in pool.map(partial(_write_at, f.fileno()), places, drawn):
            pass  # an error of a thread is raised here


def _write_at(file: int, start: int, drawn: Iterable[np.ndarray]) -> None:
    for values in drawn:
        left = values.data.cast("B")
        while left:
            written = os.pwrite(file, left, start)
            left = left[written:]
            start += written


def _parts(tensors: Iterable[Tensor], dtype: str) -> Iterator[tuple[int, Iterator[np.ndarray]]]:
    """(start in the data in bytes, values) of the parts of all tensors. The values are drawn
    lazily.
    """
    start = 0
    for tensor in tensors:
        count = math.prod(tensor.shape)
        if dtype == "F32":
            yield start, _float32_values(tensor, count)
        else:
            for number, first in enumerate(range(0, count, _PART)):
                values = _bfloat16_values(tensor, number, min(_PART, count - first))
                yield start + first * _ITEM_BYTES[dtype], values
        start += count * _ITEM_BYTES[dtype]


def _stream(tensor: Tensor) -> list[int]:
    """The seed of a tensor's values, from `_SEED` and the tensor's name. It does not depend on
    other tensors.
    """
    return [_SEED, *hashlib.sha256(tensor.name.encode()).digest()[:8]]


def _float32_values(tensor: Tensor, count: int) -> Iterator[np.ndarray]:
    """The values of a tensor, float32, at most `_CHUNK` at a time."""
    rng = np.random.default_rng(_stream(tensor))
    for first in range(0, count, _CHUNK):
        values = rng.standard_normal(min(_CHUNK, count - first), dtype=np.float32)
        yield values * np.float32(tensor.std) + np.float32(tensor.mean)


def _bfloat16_values(tensor: Tensor, number: int, count: int) -> Iterator[np.ndarray]:
    """Part `number` of a tensor, bfloat16 as uint16, at most `_LOOK_UP` at a time.

    Every 16 random bits choose one of 65,536 equally likely values.
    """
    table = _table(tensor.mean, tensor.std)
    source = np.random.SFC64([*_stream(tensor), number])
    values = np.empty(_LOOK_UP, np.uint16)
    for first in range(0, count, _LOOK_UP):
        some = values[: min(_LOOK_UP, count - first)]
        bits = source.random_raw(-(-len(some) // 4)).view("<u2")
        yield np.take(table, bits[: len(some)], out=some, mode="wrap")


@cache
def _table(mean: float, std: float) -> np.ndarray:
    """The values from which a tensor of this mean and standard deviation is drawn, bfloat16 as
    uint16 [65536].
    """
    import ml_dtypes  # only a bfloat16 size needs it

    values = _quantiles() * np.float32(std) + np.float32(mean)
    return values.astype(ml_dtypes.bfloat16).view(np.uint16)


@cache
def _quantiles() -> np.ndarray:
    """The standard normal distribution as 65,536 equally likely values, ascending, float32; their
    standard deviation is 1.
    """
    normal = statistics.NormalDist()
    half = np.array([normal.inv_cdf((n + 0.5) / 65536) for n in range(32768, 65536)])
    half /= math.sqrt(np.mean(half**2))
    return np.concatenate([-half[::-1], half]).astype(np.float32)
