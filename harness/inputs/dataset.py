"""The inputs of a cell → one .npz that every SUT reads, and synthetic inputs of the same shapes to
warm up with.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from formats.record import ArrayKind
from harness.errors import UsageError, about
from harness.inputs import architectures
from harness.inputs.architectures import Architecture, Arrays, Counted, Description, UserFile
from harness.inputs.models import Model, Size

# Streams of random values. The inputs use stream 0, and the warm-up rows of the synthetic
# inputs use the stream after theirs.
_SYNTHETIC = 1
_OTHERS = 3
_FRESH = 33
_FRESH_BYTES = 1 << 28
# Batches that are held out from a training to judge the trained model. With few batches of a user
# one is held out.
_HELD_OUT = 4
_HELD_OUT_SHARE = 5


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs that every SUT of a cell reads.

    Attributes:
        path, synthetic: .npz files with the same arrays. `synthetic` starts with `warmup_rows` rows
            that have each shape once.
        fresh: .npz with further values, which no SUT reads before the end of a test. For a
            training: the held-out samples.
        digest: sha256 of names, dtypes, shapes and bytes of the arrays, hex.
        count: the number of samples.
        arrays: name → its kind.
        description: the architecture's description of them.
        least_flops: average of a sample; None: not known.
        notes: notes on the user's file for a reader of the result.
    """

    path: Path
    synthetic: Path
    fresh: Path
    warmup_rows: int
    digest: str
    count: int
    arrays: Mapping[str, ArrayKind]
    description: Description
    least_flops: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class UserInputs:
    """The inputs of a user's file or folder.

    Attributes:
        notes: for a reader of the result.
    """

    arrays: Arrays
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of samples."""
        return _rows(self.arrays)


def read(given: UserFile, trains: bool = False) -> UserInputs:
    """Read a user's file or folder. Raises UsageError if it does not fit.

    Args:
        trains: whether the inputs are for a training. Then they have a `label`.
    """
    read_file = architectures.reader(given.model, trains)
    with about(f"--dataset {given.path}"):
        return UserInputs(*read_file(given))


def prepare(
    model: Model,
    size: Size,
    samples: int,
    dataset: Path | None,
    cache: Path,
    batch_size: int = 1,
    trains: bool = False,
    standard: str | None = None,
    given: UserInputs | None = None,
) -> Inputs:
    """Write the inputs of a cell to a folder in cache/inputs/ that is named by their content.
    Raises UsageError if the user's file does not fit.

    Args:
        samples: the number of samples if there is no data set.
        dataset: the user's file.
        batch_size: fresh inputs are enough for at least 16 batches, or 4 batches of large inputs.
        trains: whether the inputs are for a training. Then they have a `label`, and there are
            `samples` of them for any file.
        standard: `synthetic` or `uneven`, if there is no file; None: the architecture's own.
        given: the inputs of the user's file, if they were read before, as those of text are.
    """
    architecture = architectures.of(model, trains)
    notes: tuple[str, ...] = ()
    draw = architectures.drawn(model, standard or architecture.standard, trains)
    if dataset is None:
        arrays = draw(size, samples, 0)
    else:
        given = given or read(UserFile(path=dataset, model=model, size=size), trains)
        arrays = given.arrays
        notes = given.notes
    if trains:
        held_out = draw(size, _HELD_OUT * batch_size, _OTHERS)
        if dataset is not None:
            arrays, held_out, note = _split(arrays, dataset, samples, batch_size)
            notes = (*notes, note)
        synthetic = fresh = held_out
        warmup_rows = 1
        renamed = {f"held_out_{name}": values for name, values in held_out.items()}
        digest = digest_of(arrays | renamed)
    else:
        synthetic, warmup_rows = _synthetic_like(architecture, arrays, size, _SYNTHETIC)
        fresh = _fresh(architecture, arrays, size, batch_size)
        digest = digest_of(arrays)
    least_flops = architecture.least_flops
    directory = cache / "inputs" / f"{model.name}-{size.name}-{digest[:12]}"
    return Inputs(
        path=_write(directory / "inputs.npz", arrays),
        synthetic=_write(directory / "synthetic.npz", synthetic),
        fresh=_write(directory / f"fresh-{_rows(fresh)}.npz", fresh),
        warmup_rows=warmup_rows,
        digest=digest,
        count=_rows(arrays),
        arrays=_kinds(arrays),
        description=architecture.describe(arrays),
        least_flops=least_flops(size, arrays) if least_flops else None,
        notes=notes,
    )


def _rows(arrays: Arrays) -> int:
    """The number of samples."""
    return len(next(iter(arrays.values())))


def _kinds(arrays: Arrays) -> dict[str, ArrayKind]:
    return {
        name: ArrayKind(dtype=array.dtype.name, shape=array.shape[1:])
        for name, array in arrays.items()
    }


def _split(arrays: Arrays, path: Path, samples: int, batch_size: int) -> tuple[Arrays, Arrays, str]:
    """Split a user's inputs into (`samples` to train on, held-out inputs, a note for a reader). The
    former are whole batches in the file's order, repeated. Raises UsageError if the file has fewer
    than two batches.
    """
    rows = _rows(arrays)
    batches = rows // batch_size
    if batches < 2:
        raise UsageError(
            f"--dataset {path}: {rows} inputs make {batches} batches of {batch_size}. A training"
            " needs at least two, of which one is held out: give more inputs, or a smaller"
            " --batch-size"
        )
    held_out = max(1, min(_HELD_OUT, batches // _HELD_OUT_SHARE))
    trained = (batches - held_out) * batch_size
    end = batches * batch_size
    used = min(trained, samples)
    times = f" {samples / used:.3g} times" if samples > used else ""
    place = "after them" if used == trained else f"from its {trained + 1}th on"
    note = (
        f"{path.name}: trained on its first {used} inputs{times}, {held_out * batch_size}"
        f" {place} held out"
    )
    if rows > end:
        note += f", {rows - end} at its end not used, because they fill no batch"
    order = np.arange(samples) % trained
    repeated = {name: values[order] for name, values in arrays.items()}
    kept = {name: values[trained:end] for name, values in arrays.items()}
    return repeated, kept, note


def _synthetic_like(architecture: Architecture, arrays: Arrays, size: Size, stream: int) -> Counted:
    if architecture.synthetic_like:
        return architecture.synthetic_like(arrays, size, stream)
    return architecture.synthetic(size, _rows(arrays) + 1, stream), 1


def _fresh(architecture: Architecture, arrays: Arrays, size: Size, batch_size: int) -> Arrays:
    row_bytes = sum(array[:1].nbytes for array in arrays.values())
    enough = max(_FRESH, 16 * batch_size)
    affordable = _FRESH_BYTES // row_bytes
    rows = max(4 * batch_size, min(enough, affordable))
    repeated = {name: np.resize(array, (rows, *array.shape[1:])) for name, array in arrays.items()}
    synthetic, warmup_rows = _synthetic_like(architecture, repeated, size, _OTHERS)
    return {name: array[warmup_rows:] for name, array in synthetic.items()}


def digest_of(arrays: Arrays) -> str:
    """sha256 of names, dtypes, shapes and bytes of the arrays. The bytes of the .npz are not used,
    because its container may change.
    """
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        total.update(np.ascontiguousarray(arrays[name]).tobytes())
    return total.hexdigest()


def _write(path: Path, arrays: Arrays) -> Path:
    """Write the .npz, even if it exists, so that its content has the digest of its name. Writing is
    atomic, so that another process may do the same.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as f:
        np.savez(f, allow_pickle=False, **arrays)
    partial.replace(path)
    return path
