"""The tensors in a user's files (`--weights`). Only the headers of the files are read, and the
values of tied tensors. The libraries compare them with the model when they load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from formats import bounds
from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.inputs import architectures, stored_tensors, user_folder
from harness.inputs.models import Model, drawn
from harness.inputs.models.drawn import Shape, Tensor

INDEX = "model.safetensors.index.json"
"""The file that names the file of each tensor."""
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""dtype of a parameter, as safetensors names it → as Transformers names it."""
Stored = Mapping[str, tuple[Shape, str]]
"""Name of a tensor in a file → (its shape, its dtype)."""
_BUFFERS = (
    ".rotary_emb.inv_freq",
    ".attention.bias",
    ".attn.bias",
    ".masked_bias",
    "position_ids",
    ".num_batches_tracked",
    ".relative_position_index",
)
"""The ends of the names of tensors without parameters, which old releases of Transformers saved."""
_HEAD = "lm_head.weight"
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight")
"""The ends of the names of the embeddings with which a head may be tied."""
_NAMED = 3
_POINTER = b"version https://git-lfs"
"""The beginning of the file that git leaves in place of a large one."""


@dataclass(frozen=True)
class Headers:
    """The headers of all files with weights.

    Attributes:
        tensors: stored name → (shape, dtype).
        files: stored name → its file.
        shared: name that only the metadata has → the stored name of the same tensor.
        readable: whether Transformers opens the files.
    """

    tensors: Stored
    files: Mapping[str, str]
    shared: Mapping[str, str]
    readable: bool


def headers(path: Path, files: Iterable[str]) -> Headers:
    """Read the headers. Raises UsageError if a file is damaged."""
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, tuple[Shape, str]] = {}
    file_of: dict[str, str] = {}
    metadata: dict[str, str] = {}
    readable = True
    for name in files:
        before = name[: name.find("/") + 1]
        _check_header(path / name)
        try:
            with safe_open(path / name, framework="np") as f:
                for inside in f.keys():  # noqa: SIM118  not a dict
                    part = f.get_slice(inside)
                    tensors[before + inside] = (tuple(part.get_shape()), part.get_dtype())
                    file_of[before + inside] = name
                metadata |= f.metadata() or {}
                readable = readable and stored_tensors.is_readable(f.metadata())
        except (SafetensorError, OSError) as e:
            advice = "download or save it again"
            with (path / name).open("rb") as f:
                is_pointer = f.read(len(_POINTER)) == _POINTER
            if is_pointer:
                advice = "it is a pointer of git-lfs, so run `git lfs pull` in the folder"
            raise UsageError(
                f"--weights {path}: {name} is not a whole safetensors file ({e}): {advice}"
            ) from None
    shared = {
        name: other for name, other in metadata.items() if other in tensors and name not in tensors
    }
    return Headers(tensors, file_of, shared, readable)


def _check_header(file: Path) -> None:
    """Raises TooLarge if the header, whose length is in the first 8 bytes, may not fit."""
    with file.open("rb") as f:
        length = int.from_bytes(f.read(8), "little")
    bounds.check(file, min(length, file.stat().st_size), bounds.JSON)


def check_index(path: Path, headers: Headers) -> list[str]:
    """Return notes on an index that names more tensors than there are. Raises UsageError if a
    tensor is in another file than the index says.
    """
    listed = weight_map(path)
    strays = sorted(name for name, file in headers.files.items() if listed.get(name) != file)
    if strays:
        raise Refused(
            f"{INDEX} and its files do not agree on the place of {strays[0]}: save the folder again"
        )
    more = sorted(listed.keys() - headers.files.keys())
    return [f"{INDEX} names tensors that are in no file: {named(more)}"] if more else []


def readable_names(model: Model, config: Config, headers: Headers) -> dict[str, str]:
    """Name that the libraries read → stored name, of all tensors. Models whose configuration
    follows from their tensors, or with parts, are read as they are stored.
    """
    if model.parts or architectures.of(model).weights_config:
        return {name: name for name in headers.tensors}
    known: set[str] = set()
    if not model.like:
        for row in model.weights:
            known.update(drawn.expanded(row.name, config))
    kind = str(config.get("model_type"))
    return stored_tensors.readable_names(headers.tensors, headers.shared, kind, known)


def copied(
    model: Model, parameters: Iterable[Tensor], names: Mapping[str, str], headers: Headers
) -> tuple[dict[str, str], list[str]]:
    """Return (name that the libraries read → stored name, notes) of the parameters, if they must be
    copied for that. Else both are empty.

    Args:
        names: those of `readable_names`.
    """
    read = {each.name: names[each.name] for each in parameters}
    renamed = sorted(name for name, stored in read.items() if name != stored)
    if renamed:
        first = renamed[0]
        return read, [
            (
                "the weights are copied to the cache under the names that the libraries read:"
                f" {names[first]} is {first}"
            )
        ]
    if headers.readable or model.parts or architectures.of(model).weights_config:
        return {}, []
    return read, [
        (
            "the weights are copied to the cache: their file has metadata without a format, which"
            " Transformers refuses"
        )
    ]


def weight_map(path: Path) -> dict[str, str]:
    """Name of a tensor → name of its file, from the index. Raises UsageError if it is damaged."""
    try:
        files = user_folder.read_json(path / INDEX)["weight_map"]
        return {str(k): str(v) for k, v in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise Refused(
            f"{INDEX} is not JSON with a `weight_map` of tensor names and files: download it again"
        ) from None


def parameters(
    path: Path, config: Config, names: Mapping[str, str], headers: Headers
) -> tuple[tuple[Tensor, ...], list[str]]:
    """Return (the parameters of a folder, notes). A head tied to the embedding is not one. Raises
    UsageError if one is quantised, or if a tied head differs from its embedding.

    Args:
        names: those of `readable_names`.
    """
    found = []
    ignored = []
    notes = []
    embedding = next((name for name in names if name.endswith(_EMBEDDINGS)), None)
    is_tied = bool(embedding and config.get("tie_word_embeddings"))
    for name, stored in names.items():
        shape, dtype = headers.tensors[stored]
        if name.endswith(_BUFFERS):
            ignored.append(name)
        elif is_tied and embedding and name == _HEAD:
            if stored != names[embedding]:
                _check_equal(path, stored, names[embedding])
            notes.append(f"{name} equals {embedding}, with which it is tied: not read")
        elif dtype not in DTYPES:
            raise Refused(
                f"{name} is stored as {dtype}: quantised weights are not supported, only F32, F16"
                " and BF16; give the folder from which it was made"
            )
        else:
            found.append(Tensor(name=name, shape=shape, mean=0.0, std=0.0))
    if ignored:
        notes.insert(0, f"tensors without parameters, not read: {named(sorted(ignored))}")
    return tuple(found), notes


def _check_equal(path: Path, name: str, other: str) -> None:
    """Raises UsageError if two tensors differ. They are read row by row, because an embedding may
    have gigabytes.
    """
    import ml_dtypes  # noqa: F401  safetensors needs its bfloat16
    import numpy as np

    from sut.checkpoint.weights_files import rows

    for one, another in zip_longest(rows(path, name), rows(path, other)):
        if not np.array_equal(one, another):
            raise Refused(
                f"{name} differs from {other}, with which this model ties it: one of the two would"
                " be lost"
            )


def named(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
