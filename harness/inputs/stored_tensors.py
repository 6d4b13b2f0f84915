"""Tensors in safetensors files: the names that people's programs give them, and a copy of them
under the names that the libraries read.

A model is saved inside a wrapper (`module.` of DataParallel, `_orig_mod.` of torch.compile), as a
part of a larger one, or without the name of its body. `safetensors.torch.save_model` stores one of
several shared tensors, and names the others only in the file's metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WRAPPERS = ("module.", "_orig_mod.", "model.", "transformer.", "language_model.")
_NEVER_A_BODY = ("module.", "_orig_mod.", "language_model.")
"""The wrappers that no language model of Transformers has in its own names."""
_FORMATS = ("pt", "tf", "flax", "mlx")


@dataclass(frozen=True)
class Place:
    """Where a tensor is stored. `start`: in bytes from the beginning of the file."""

    file: Path
    start: int
    bytes: int
    dtype: str
    shape: tuple[int, ...]


def readable_names(
    stored: Collection[str], shared: Mapping[str, str], kind: str, known: Collection[str] = ()
) -> dict[str, str]:
    """Name that the libraries read → stored name, of all stored tensors and of the names that only
    the metadata has.

    A wrapper is removed if all names begin with it, and if the model's own names cannot. A name
    that lacks its body gets it, if the model's names are known.

    Args:
        shared: name that only the metadata has → the stored name of the same tensor.
        kind: the `model_type`, which is also the name of some bodies.
        known: the names of the model's tensors, if it is a listed one.
    """
    names = {**shared, **{name: name for name in stored}}
    after = (*_WRAPPERS, f"{kind}.")
    while names:
        common = [each for each in _WRAPPERS if all(name.startswith(each) for name in names)]
        wrapper = next((each for each in common if _is_wrapper(each, names, after)), None)
        if wrapper is None:
            break
        names = {name.removeprefix(wrapper): source for name, source in names.items()}
    bodies = {f"{name.partition('.')[0]}." for name in known}
    return {_of_body(name, bodies, known): source for name, source in names.items()}


def _is_wrapper(beginning: str, names: Iterable[str], after: tuple[str, ...]) -> bool:
    """Whether a common beginning of all names is no name of a body. A body's name comes once."""
    rest = (name.removeprefix(beginning) for name in names)
    return beginning in _NEVER_A_BODY or any(name.startswith(after) for name in rest)


def _of_body(name: str, bodies: Iterable[str], known: Collection[str]) -> str:
    """The name with its body. It stays if the model has no tensor of that name."""
    if name in known:
        return name
    return next((body + name for body in bodies if body + name in known), name)


def is_readable(metadata: Mapping[str, str] | None) -> bool:
    """Whether Transformers opens a file with this metadata. It does if there is none."""
    return not metadata or metadata.get("format") in _FORMATS


def header(tensors: Iterable[tuple[str, str, tuple[int, ...], int]]) -> bytes:
    """The header of a safetensors file: its length in 8 bytes, then JSON, padded with spaces so
    that the data start at a multiple of 8.

    Source: https://github.com/huggingface/safetensors, "Format". Transformers refuses metadata
    without "format".

    Args:
        tensors: (name, dtype, shape, bytes), in the order of the data.
    """
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dtype, shape, size in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def copy(files: Iterable[Path], names: Mapping[str, str], target: Path) -> None:
    """Write tensors of some files to one file, under other names. Raises OSError.

    Args:
        names: name in the new file → stored name.
    """
    stored = {name: place for file in files for name, place in _places(file)}
    places = {name: stored[source] for name, source in names.items()}
    # Readers need float32 at a multiple of 4 bytes, also after a 2-byte tensor of odd length.
    order = sorted(places, key=lambda name: places[name].dtype != "F32")
    with target.open("wb") as f:
        f.write(header((n, places[n].dtype, places[n].shape, places[n].bytes) for n in order))
        f.flush()
        for name in order:
            _append(f.fileno(), places[name])


def _places(file: Path) -> Iterator[tuple[str, Place]]:
    """Yield (stored name, place) of each tensor of a whole safetensors file."""
    with file.open("rb") as f:
        length = int.from_bytes(f.read(8), "little")
        entries = json.loads(f.read(length))
    for name, entry in entries.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            shape = tuple(entry["shape"])
            yield name, Place(file, 8 + length + start, end - start, entry["dtype"], shape)


def _append(target: int, place: Place) -> None:
    with place.file.open("rb") as source:
        at = place.start
        end = place.start + place.bytes
        while at < end:
            sent = os.sendfile(target, source.fileno(), at, end - at)
            if not sent:
                raise OSError(f"{place.file} became shorter while it was copied")
            at += sent
