"""Check a user's own folder in Hugging Face's layout (`--weights DIR`) before anything is loaded.
Every error is one sentence.

The SUTs do not read DIR itself but a folder in the cache with links to the weights' files and a
config.json in which every default is written out. So a generation_config.json, an adapter or custom
code in DIR cannot change only one framework, and all libraries have the same values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.inputs import architectures, tokenizer, user_config
from harness.inputs.models import Model, Size
from harness.inputs.models.drawn import Parts, Tensor
from harness.inputs.tokenizer import Tokenizer

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
# The exponent bits, which are all set in a number that is not finite. Testing them is faster than
# ml_dtypes.
_EXPONENTS = {
    "float32": (0x7F800000, "uint32"),
    "float16": (0x7C00, "uint16"),
    "bfloat16": (0x7F80, "uint16"),
}
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A user's folder that fits its model.

    Attributes:
        size: a size named "user". The SUTs read its `config`.
        files: the files with weights, within `path`, sorted by name. Those of a model with parts
            are called `part/file`. `index`: whether an index lists them.
        tokenizer: that of the folder; None: it has none.
        end_tokens: ids that end an answer, from the folder's generation_config.json or else its
            config.json.
        notes: notes on the folder for a reader of the result.
    """

    path: Path
    size: Size
    files: tuple[str, ...]
    index: bool
    tokenizer: Tokenizer | None
    end_tokens: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def own_files(self) -> tuple[str, ...]:
        """The folder's files that decide the answers: config.json, if it has one, the files with
        weights, and the config.json of each part.
        """
        of_parts = [f"{file.partition('/')[0]}/config.json" for file in self.files if "/" in file]
        return (
            *(["config.json"] if (self.path / "config.json").is_file() else []),
            *sorted([*self.files, *of_parts]),
        )


def look(path: Path, model: Model) -> Folder:
    """Read the configuration, the tokenizer and the headers of the weights. Raises UsageError if
    SUTs would fail or differ.
    """
    if path.suffix in _PICKLES and path.is_file():
        raise _pickle(path.parent, path.name, model)
    if not path.is_dir():
        why = (
            "is not a directory"
            if path.exists()
            else "there is no such directory (names of the Hub are not downloaded)"
        )
        raise UsageError(f"--weights {path}: {why}; give {_layout(model)}")
    architecture = architectures.of(model)
    make_inputs = architecture.weights_inputs
    if make_inputs is None:
        raise UsageError(
            f"--weights {path}: {model.name} runs with its seeded weights only: leave it out"
        )
    _check_whole(path)
    config, notes = (
        (None, list[str]()) if architecture.weights_config else user_config.read(path, model)
    )
    files, index = _files(path, model)
    tensors = _tensors(path, files, index)
    if config is None:
        assert architecture.weights_config
        config = architecture.weights_config(
            path, {name: shape for name, (shape, _) in tensors.items()}
        )
    expected = _expected(model, config, tensors)
    stored, extra = _compare(path, model, expected, tensors)
    notes = [*notes, *extra]
    user_tokenizer = tokenizer.of_folder(
        path / "tokenizer" if model.parts else path, model.user_weights.adds
    )
    if user_tokenizer and user_tokenizer.vocabulary > config.get(
        "vocab_size", user_tokenizer.vocabulary
    ):
        raise UsageError(
            f"--weights {path}: {user_tokenizer.name} has {user_tokenizer.vocabulary} tokens and"
            f" config.json says vocab_size {config['vocab_size']}: the two are not of one model"
        )
    precision = _precision(config, stored)
    if "F16" in stored:
        notes.append(
            f"stored in float16, which no SUT computes in: {precision}, unless --precision says"
            " otherwise"
        )
    words = (
        f", tokenizer {user_tokenizer.name if user_tokenizer else 'none'}"
        if "vocab_size" in config
        else ""
    )
    notes.append(f"weights of {path}{words}")
    config["dtype"] = precision
    return Folder(
        path=path,
        size=_size(
            path,
            model,
            config,
            precision,
            expected,
            make_inputs(path, model, config, user_tokenizer),
        ),
        files=files,
        index=index,
        tokenizer=user_tokenizer,
        end_tokens=_end_tokens(path, config),
        notes=tuple(notes),
    )


def _layout(model: Model) -> str:
    """The files that a folder of weights needs, in a few words."""
    if model.parts:
        return (
            f"the folder that {model.native_class}.save_pretrained writes, with a folder for each"
            " part"
        )
    return (
        f"a folder with {SINGLE}"
        if architectures.of(model).weights_config
        else f"a folder with config.json and {SINGLE}"
    )


def _end_tokens(path: Path, config: Mapping[str, Any]) -> tuple[int, ...]:
    """The end tokens. As in Transformers, generation_config.json counts if it exists. Chat models
    have more end tokens there than in config.json.
    """
    end_ids = config.get("eos_token_id")
    with suppress(OSError, ValueError):
        generation = json.loads((path / "generation_config.json").read_text(encoding="utf-8"))
        end_ids = (
            generation.get("eos_token_id", end_ids) if isinstance(generation, dict) else end_ids
        )
    each = end_ids if isinstance(end_ids, list) else [end_ids]
    return tuple(
        sorted(
            {
                i
                for i in each
                if isinstance(i, int) and not isinstance(i, bool) and 0 <= i < config["vocab_size"]
            }
        )
    )


def _check_whole(path: Path) -> None:
    """Raises UsageError for a folder with only an adapter (such as LoRA), which is not a whole
    model.
    """
    adapter = (path / "adapter_config.json").is_file() or any(path.glob("adapter_model.*"))
    if adapter and not any((path / name).is_file() for name in (SINGLE, INDEX)):
        raise UsageError(
            f"--weights {path}: holds an adapter alone (LoRA or the like), which is no whole model;"
            " merge it first: PeftModel.from_pretrained(model,"
            " DIR).merge_and_unload().save_pretrained(NEW), copy the tokenizer's files there, and"
            " give NEW"
        )


def _files(path: Path, model: Model) -> tuple[tuple[str, ...], bool]:
    """The files with weights, and whether an index lists them. If both exist, the single file is
    read, as in Transformers.
    """
    if model.parts:
        return _files_of_parts(path, model, model.parts), False
    if (path / SINGLE).is_file():
        return (SINGLE,), False
    if (path / INDEX).is_file() and not architectures.of(model).weights_config:
        shards = sorted(set(_weight_map(path).values()))
        if strays := [s for s in shards if Path(s).name != s]:
            raise UsageError(
                f"--weights {path}: {INDEX} names a file outside the folder ({strays[0]}): copy it"
                " in, and name it without a path"
            )
        if missing := [s for s in shards if not (path / s).is_file()]:
            raise UsageError(
                f"--weights {path}: {INDEX} names {len(shards)} files and {_named(missing)} are"
                " missing: download them again"
            )
        return tuple(shards), True
    if pickles := sorted(p.name for p in path.iterdir() if p.suffix in _PICKLES):
        raise _pickle(path, pickles[0], model)
    other = sorted(p.name for p in path.glob("*.safetensors"))
    also = f" ({_named(other)} is not read: rename it, or write {INDEX})" if other else ""
    raise UsageError(
        f"--weights {path}: neither {SINGLE} nor {INDEX} is in it{also}: download the weights too,"
        " or write them with model.save_pretrained(DIR)"
    )


def _files_of_parts(path: Path, model: Model, parts: Parts) -> tuple[str, ...]:
    """The file of each part, as diffusers names it. A config.json must be in the same folder."""
    files = sorted(f"{part}/{file}" for part, file in parts.files.items())
    for file in files:
        part = path / file.partition("/")[0]
        pickles = sorted(p.name for p in part.glob("*") if p.suffix in _PICKLES)
        if not (path / file).is_file() and pickles:
            raise _pickle(path, f"{part.name}/{pickles[0]}", model)
        if missing := [
            f"{part.name}/{name}"
            for name in ("config.json", Path(file).name)
            if not (part / name).is_file()
        ]:
            variants = sorted(p.name for p in part.glob(f"{Path(file).stem}.*.safetensors"))
            also = (
                f" ({part.name}/{variants[0]} is there: rename it, and so in the other folders)"
                if variants
                else ""
            )
            raise UsageError(
                f"--weights {path}: there is no {missing[0]} in it{also}: give a folder that"
                f" {model.native_class}.save_pretrained wrote"
            )
    return tuple(files)


def _pickle(path: Path, name: str, model: Model) -> UsageError:
    convert = (
        model.user_weights.convert
        or f"{model.native_class}.from_pretrained(DIR).save_pretrained(NEW)"
    )
    tokenizer_too = "" if model.user_weights.convert else ", copy the tokenizer's files into NEW"
    return UsageError(
        f"--weights {path}: {name} is a pickle, and pickles run code when opened: convert it where"
        f" you trust it, with {convert.replace('{file}', str(path / name))}{tokenizer_too}, and"
        " give NEW"
    )


def _weight_map(path: Path) -> dict[str, str]:
    try:
        files = json.loads((path / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return {str(k): str(v) for k, v in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"--weights {path}: {INDEX} is not JSON with a `weight_map` of tensor names and files:"
            " download it again"
        ) from None


def _tensors(
    path: Path, files: Iterable[str], index: bool
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Name → (shape, dtype) from the files' headers."""
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, tuple[tuple[int, ...], str]] = {}
    held: dict[str, str] = {}
    for name in files:
        before = name[: name.find("/") + 1]
        try:
            with safe_open(path / name, framework="np") as f:
                for inside in f.keys():  # noqa: SIM118  not a dict
                    part, key = f.get_slice(inside), before + inside
                    tensors[key], held[key] = (tuple(part.get_shape()), part.get_dtype()), name
        except (SafetensorError, OSError) as e:
            raise UsageError(
                f"--weights {path}: {name} is not a whole safetensors file ({e}): download or save"
                " it again"
            ) from None
    if index and (strays := sorted(set(held.items()) ^ set(_weight_map(path).items()))):
        raise UsageError(
            f"--weights {path}: {INDEX} and its files do not agree on where {strays[0][0]} is: save"
            " the folder again"
        )
    return tensors


def _expected(
    model: Model, config: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], str]]
) -> tuple[Tensor, ...]:
    """The tensors that a folder must contain, and the optional ones that it contains."""
    if model.like:
        return _stored(model, config, tensors)
    there = {_today(name, model) for name in tensors}
    return tuple(
        t
        for t in model.tensors(config)
        if t.name in there or not t.name.endswith(model.user_weights.optional)
    )


def _stored(
    model: Model, config: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], str]]
) -> tuple[Tensor, ...]:
    """The parameters of an unlisted model's folder. A head tied to the embedding is not one."""
    ignored = model.user_weights.ignored
    ties = model.user_weights.tied if config.get("tie_word_embeddings") else {}
    tied = [name for name, other in ties.items() if other in tensors]
    return tuple(
        Tensor(name=name, shape=shape, mean=0.0, std=0.0)
        for name, (shape, _) in tensors.items()
        if name not in tied and not name.endswith(ignored)
    )


def _compare(
    path: Path,
    model: Model,
    expected: Iterable[Tensor],
    tensors: Mapping[str, tuple[tuple[int, ...], str]],
) -> tuple[set[str], list[str]]:
    """Return (dtypes of the parameters, notes). Raises UsageError with the first names that are
    missing, unknown or of another shape.
    """
    today = {_today(name, model): (name, *header) for name, header in tensors.items()}
    shapes = {t.name: t.shape for t in expected}
    if missing := [n for n in shapes if n not in today]:
        raise UsageError(
            f"--weights {path}: lacks {_named(missing)}, of the {len(shapes)} tensors that"
            f" {model.name} has: {_advice(model)}"
        )
    ignored = {n for n in today if n not in shapes and n.endswith(model.user_weights.ignored)}
    tied = {n for n in today if n in model.user_weights.tied and n not in shapes}
    head = {
        n
        for n, (name, *_) in today.items()
        if n not in shapes and n not in ignored and _of_head(name, tensors, model)
    }
    if extra := sorted(set(today) - set(shapes) - ignored - tied - head):
        raise UsageError(
            f"--weights {path}: holds {_named(extra)}, which {model.name} has not: {_advice(model)}"
        )
    if wrong := [n for n, shape in shapes.items() if today[n][1] != shape]:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise UsageError(
            f"--weights {path}: {first}{more} is {list(today[first][1])} and config.json makes it"
            f" {list(shapes[first])}: not of one model"
        )
    if others := [n for n in shapes if today[n][2] not in _DTYPES]:
        raise UsageError(
            f"--weights {path}: {others[0]} is stored as {today[others[0]][2]}: quantised weights"
            " are not served, only F32, F16 and BF16; give the folder it was made from"
        )
    for name in tied:
        _check_equal(path, today[name][0], today[model.user_weights.tied[name]][0])
    notes = (
        [f"tensors that hold no parameter, not read: {_named(sorted(ignored))}"] if ignored else []
    )
    notes += (
        [
            f"tensors of a head, which {model.name} here has not, not read:"
            f" {_named(sorted(today[n][0] for n in head))}"
        ]
        if head
        else []
    )
    notes += [
        f"{name} equals {model.user_weights.tied[name]}, with which it is tied: not read"
        for name in sorted(tied)
    ]
    return {today[n][2] for n in shapes}, notes


def check_finite(folder: Folder, model: Model) -> None:
    """Read all parameters. Raises UsageError with the name of the first tensor that has a NaN or
    infinite value.
    """
    import numpy as np

    from sut.checkpoint.weights_files import rows

    parameters = {tensor.name for tensor in folder.size.tensors}
    for name in _tensors(folder.path, folder.files, folder.index):
        if _today(name, model) not in parameters:
            continue
        for part in rows(folder.path, name):
            exponent, bits = _EXPONENTS[part.dtype.name]
            faulty = np.count_nonzero((part.view(bits) & exponent) == exponent)
            if faulty:
                raise UsageError(
                    f"--weights {folder.path}: {name} holds {faulty} values that are NaN or"
                    " infinite, and every answer would be: save the model anew from a checkpoint"
                    " before it diverged"
                )


def _of_head(name: str, names: Iterable[str], model: Model) -> bool:
    """Return whether a tensor belongs to a head that is not read, in a folder of a model that takes
    any head (`any_head`).

    If some names begin with the body's prefix, the names without it belong to the head.
    """
    rules = model.user_weights
    return (
        rules.any_head
        and not name.startswith(rules.prefix)
        and any(each.startswith(rules.prefix) for each in names)
    )


def _today(name: str, model: Model) -> str:
    """The name in the model's table of a tensor of the user's."""
    if prefix := model.user_weights.prefix:
        name = name.removeprefix(prefix)
        name = prefix + name if model.weights[0].name.startswith(prefix) else name
    for old, new in model.user_weights.prefixes.items():
        name = (
            name
            if name.startswith(new) or not name.startswith(old)
            else new + name.removeprefix(old)
        )
    for old, new in model.user_weights.renamed.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _check_equal(path: Path, name: str, other: str) -> None:
    """Raises UsageError if two tensors differ. They are read row by row, because an embedding may
    have gigabytes.
    """
    import numpy as np

    from sut.checkpoint.weights_files import rows

    if any(not np.array_equal(a, b) for a, b in zip_longest(rows(path, name), rows(path, other))):
        raise UsageError(
            f"--weights {path}: {name} differs from {other}, with which this model ties it: one of"
            " the two would be lost"
        )


def _advice(model: Model) -> str:
    if architectures.of(model).weights_config and not model.parts:
        return "give the checkpoint as it was published"
    kind = model.native_class
    return (
        f"save the folder anew with {kind}.from_pretrained(DIR).save_pretrained(NEW), whose"
        " warnings say what is wrong"
    )


def _precision(config: Mapping[str, Any], stored: set[str]) -> str:
    """The precision of config.json, or that of the stored parameters if it has none. float16 is
    computed in float32.
    """
    dtype = config.get("dtype") or (_DTYPES[next(iter(stored))] if len(stored) == 1 else "float32")
    return "bfloat16" if dtype == "bfloat16" else "float32"


def _size(
    path: Path,
    model: Model,
    config: dict[str, Any],
    precision: str,
    tensors: tuple[Tensor, ...],
    inputs: Mapping[str, Any],
) -> Size:
    """The size of the user's weights. Its batch sizes are those of the model's full size."""
    return replace(
        model.sizes["full"],
        name="user",
        summary=(
            f"{path.name}: {config['num_hidden_layers']} layers of {config['hidden_size']},"
            f" {_extent(config)}"
        ),
        precision=precision,
        config=config,
        tensors=tensors,
        inputs=inputs,
    )


def _extent(config: Mapping[str, Any]) -> str:
    return (
        f"image {config['image_size']} x {config['image_size']}"
        if "image_size" in config
        else f"vocabulary {config['vocab_size']}"
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
