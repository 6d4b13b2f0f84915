"""Compare the tensors in a user's files (`--weights`) with those of the model. Only the headers of
the files are read, and the values of tied tensors.
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
from harness.inputs.models import Model
from harness.inputs.models.drawn import Shape, Tensor

INDEX = "model.safetensors.index.json"
"""The file that names the file of each tensor."""
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""dtype of a parameter, as safetensors names it → as Transformers names it."""
Stored = Mapping[str, tuple[Shape, str]]
"""Name of a tensor in a file → (its shape, its dtype)."""
_NAMED = 3
_POINTER = b"version https://git-lfs"


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
            if _is_pointer(path / name):
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


def _is_pointer(file: Path) -> bool:
    """Whether git left a pointer in place of a large file."""
    with file.open("rb") as f:
        return f.read(len(_POINTER)) == _POINTER


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
    if model.like:
        return stored_tensors.unwrapped_names(headers.tensors, headers.shared)
    known = {tensor.name for tensor in model.tensors(config)} | model.user_weights.tied.keys()
    return stored_tensors.readable_names(
        headers.tensors, headers.shared, known, lambda name: todays_name(name, model)
    )


def copied(
    model: Model, expected: Iterable[Tensor], names: Mapping[str, str], headers: Headers
) -> tuple[dict[str, str], list[str]]:
    """Return (name that the libraries read → stored name, notes) of the parameters, if they must be
    copied for that. Else both are empty.

    Args:
        names: those of `readable_names`.
    """
    parameters = {tensor.name for tensor in expected}
    read = {
        name: stored for name, stored in names.items() if todays_name(name, model) in parameters
    }
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


def expected(model: Model, config: Config, tensors: Stored) -> tuple[Tensor, ...]:
    """The tensors that a folder must contain, and the optional ones that it contains."""
    if model.like:
        return _stored(model, config, tensors)
    there = {todays_name(name, model) for name in tensors}
    optional = model.user_weights.optional
    every = model.tensors(config)
    return tuple(t for t in every if t.name in there or not t.name.endswith(optional))


def _stored(model: Model, config: Config, tensors: Stored) -> tuple[Tensor, ...]:
    """The parameters of an unlisted model's folder. A head tied to the embedding is not one."""
    ignored = model.user_weights.ignored
    ties = model.user_weights.tied if config.get("tie_word_embeddings") else {}
    tied = [name for name, other in ties.items() if other in tensors]
    return tuple(
        Tensor(name=name, shape=shape, mean=0.0, std=0.0)
        for name, (shape, _) in tensors.items()
        if name not in tied and not name.endswith(ignored)
    )


def compare(
    path: Path,
    model: Model,
    expected: Iterable[Tensor],
    tensors: Stored,
    names: Mapping[str, str],
) -> tuple[set[str], list[str]]:
    """Return (dtypes of the parameters, notes). Raises UsageError with the first names that are
    missing, unknown or of another shape.

    Args:
        names: name in `tensors` → stored name.
    """
    found = {todays_name(name, model): (name, *header) for name, header in tensors.items()}
    shapes = {t.name: t.shape for t in expected}
    missing = [name for name in shapes if name not in found]
    if missing:
        raise Refused(
            f"lacks {named(missing)}, of the {len(shapes)} tensors that {model.name} has:"
            f" {_advice(model)}"
        )
    rules = model.user_weights
    unexpected = set(found) - set(shapes)
    ignored = {name for name in unexpected if name.endswith(rules.ignored)}
    tied = {name for name in unexpected if name in rules.tied}
    head = {name for name in unexpected - ignored if _of_head(found[name][0], tensors, model)}
    extra = sorted(unexpected - ignored - tied - head)
    if extra:
        raise Refused(f"contains {named(extra)}, which {model.name} lacks: {_advice(model)}")
    wrong = [name for name, shape in shapes.items() if found[name][1] != shape]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise Refused(
            f"{first}{more} is {list(found[first][1])} and config.json makes it"
            f" {list(shapes[first])}: not of one model"
        )
    others = [name for name in shapes if found[name][2] not in DTYPES]
    if others:
        raise Refused(
            f"{others[0]} is stored as {found[others[0]][2]}: quantised weights are not supported,"
            " only F32, F16 and BF16; give the folder from which it was made"
        )
    for name in tied:
        stored = names[found[name][0]]
        other = names[found[rules.tied[name]][0]]
        if stored != other:
            _check_equal(path, stored, other)
    notes = []
    if ignored:
        notes.append(f"tensors without parameters, not read: {named(sorted(ignored))}")
    if head:
        of_head = named(sorted(found[name][0] for name in head))
        notes.append(f"tensors of a head, which {model.name} here lacks, not read: {of_head}")
    for name in sorted(tied):
        notes.append(f"{name} equals {rules.tied[name]}, with which it is tied: not read")
    return {found[name][2] for name in shapes}, notes


def _of_head(name: str, names: Iterable[str], model: Model) -> bool:
    """Return whether a tensor belongs to a head that is not read, in a folder of a model that takes
    any head (`any_head`).

    If some names begin with the body's prefix, the names without it belong to the head.
    """
    rules = model.user_weights
    if not rules.any_head or name.startswith(rules.prefix):
        return False
    return any(each.startswith(rules.prefix) for each in names)


def todays_name(name: str, model: Model) -> str:
    """The name in the model's table of a tensor of the user's."""
    prefix = model.user_weights.prefix
    if prefix:
        name = name.removeprefix(prefix)
        if model.weights[0].name.startswith(prefix):
            name = prefix + name
    for old, new in model.user_weights.prefixes.items():
        if name.startswith(old) and not name.startswith(new):
            name = new + name.removeprefix(old)
    for old, new in model.user_weights.renamed.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


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


def _advice(model: Model) -> str:
    if architectures.of(model).weights_config and not model.parts:
        return "give the checkpoint as it was published"
    kind = model.native_class
    return (
        f"save the folder again with {kind}.from_pretrained(DIR).save_pretrained(NEW), whose"
        " warnings say what is wrong"
    )


def named(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
