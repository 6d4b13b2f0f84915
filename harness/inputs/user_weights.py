"""Check a user's own folder in Hugging Face's layout (`--weights DIR`) before anything is loaded.
Every error is one sentence.

The SUTs do not read DIR itself but a folder in the cache with links to the weights' files and a
completed config.json (`user_config`). So a generation_config.json, an adapter or custom code in DIR
cannot change only one framework. The libraries compare the tensors with the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from formats.workload import Config
from harness.errors import Refused, UsageError, about
from harness.inputs import architectures, tokenizer, user_config, user_folder, user_tensors
from harness.inputs.models import Model, Size
from harness.inputs.models.drawn import Parts
from harness.inputs.tokenizer import Tokenizer
from harness.inputs.user_folder import PICKLES, Document
from harness.inputs.user_tensors import INDEX, named

SINGLE = "model.safetensors"
# The exponent bits, which are all set in a number that is not finite. Testing them is faster than
# ml_dtypes.
_EXPONENTS = {
    "float32": (0x7F800000, "uint32"),
    "float16": (0x7C00, "uint16"),
    "bfloat16": (0x7F80, "uint16"),
}


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A user's folder that fits its model.

    Attributes:
        size: a size named "user". The SUTs read its `config`.
        files: the files with weights, within `path`, sorted by name. Those of a model with parts
            are called `part/file`.
        index: tensor → its file, if an index lists several files; else empty.
        names: name that the libraries read → stored name, if the parameters must be copied for
            that; else empty.
        tokenizer: that of the folder; None: it has none.
        end_tokens: ids that end an answer, from the folder's generation_config.json or else its
            config.json.
        other_end: the tokenizer's `eos_token` and its id in words, if it is not in `end_tokens`.
        notes: notes on the folder for a reader of the result.
    """

    path: Path
    size: Size
    files: tuple[str, ...]
    index: Mapping[str, str]
    tokenizer: Tokenizer | None
    end_tokens: tuple[int, ...]
    notes: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    other_end: str = ""

    @property
    def own_files(self) -> list[Path]:
        """The folder's files that decide the answers: config.json, if it has one, the files with
        weights, and the config.json of each part.
        """
        of_parts = [f"{file.partition('/')[0]}/config.json" for file in self.files if "/" in file]
        files = sorted([*self.files, *of_parts])
        if (self.path / "config.json").is_file():
            files.insert(0, "config.json")
        return [self.path / name for name in files]


def look(path: Path, model: Model) -> Folder:
    """Read the configuration, the tokenizer and the headers of the weights. Raises UsageError if
    SUTs would fail or differ.
    """
    path = user_folder.resolve(path)
    if path.suffix in PICKLES and path.is_file():
        raise _pickle(path.parent, path.name, model)
    with about(f"--weights {path}"):
        return _look(path, model)


def _look(path: Path, model: Model) -> Folder:
    user_folder.check(path)
    architecture = architectures.of(model)
    make_inputs = architecture.weights_inputs
    if make_inputs is None:
        raise Refused(f"{model.name} runs with its seeded weights only: leave it out")
    _check_links(path)
    config: Document | None = None
    notes: list[str] = []
    if architecture.weights_config is None:
        config, notes = user_config.read(path, model)
    files = _files(path, model)
    has_index = SINGLE not in files and not model.parts
    headers = user_tensors.headers(path, files)
    if has_index:
        notes += user_tensors.check_index(path, headers)
    if config is not None:
        _check_layers(config, headers)
    else:
        assert architecture.weights_config
        shapes = {name: shape for name, (shape, _) in headers.tensors.items()}
        config = architecture.weights_config(path, shapes)
    names = user_tensors.readable_names(model, config, headers)
    parameters, more_notes = user_tensors.parameters(path, config, names, headers)
    copied, copy_notes = user_tensors.copied(model, parameters, names, headers)
    notes += [*more_notes, *copy_notes]
    stored = {headers.tensors[names[each.name]][1] for each in parameters}
    user_tokenizer = _tokenizer(path, model, config)
    precision = _precision(config, stored)
    notes += _dtype_notes(config, stored, precision)
    if "vocab_size" in config:
        name = user_tokenizer.name if user_tokenizer else "none"
        notes.append(f"weights of {path}, tokenizer {name}")
    else:
        notes.append(f"weights of {path}")
    config["dtype"] = precision
    end_tokens = _end_tokens(path, config)
    # The batch sizes are those of the model's full size.
    size = replace(
        model.sizes["full"],
        name="user",
        summary="",
        published="",
        precision=precision,
        config=config,
        tensors=parameters,
        inputs=make_inputs(path, model, config, user_tokenizer),
    )
    return Folder(
        path=path,
        size=size,
        files=files,
        index=headers.files if has_index else {},
        names=copied,
        tokenizer=user_tokenizer,
        end_tokens=end_tokens,
        other_end=_other_end(user_tokenizer, end_tokens),
        notes=tuple(notes),
    )


def _check_layers(config: Config, headers: user_tensors.Headers) -> None:
    """Raises UsageError if config.json says more layers than there are tensors. A list of a billion
    layers would fill the memory.
    """
    layers = config.get("num_hidden_layers", 0)
    if layers > len(headers.tensors):
        raise Refused(
            f"config.json says num_hidden_layers {layers}, and the files have only"
            f" {len(headers.tensors)} tensors: not of one model"
        )


def _check_links(path: Path) -> None:
    """Raises UsageError for a link of the Hub's cache to a file that was removed."""
    broken = [each.name for each in path.iterdir() if each.is_symlink() and not each.exists()]
    if broken:
        raise Refused(
            f"{named(sorted(broken))} is a link to a file that is missing: download the model again"
        )


def _tokenizer(path: Path, model: Model, config: Config) -> Tokenizer | None:
    """The folder's tokenizer. Raises UsageError if it has more tokens than the model."""
    folder = path / "tokenizer" if model.parts else path
    found = tokenizer.of_folder(folder)
    if found and found.vocabulary > config.get("vocab_size", found.vocabulary):
        raise Refused(
            f"{found.name} has {found.vocabulary} tokens and config.json says vocab_size"
            f" {config['vocab_size']}: the two are not of one model"
        )
    return found


def _end_tokens(path: Path, config: Config) -> tuple[int, ...]:
    """The end tokens. As in Transformers, generation_config.json counts if it exists. Chat models
    have more end tokens there than in config.json.
    """
    end_ids = config.get("eos_token_id")
    with suppress(OSError, ValueError):
        generation = user_folder.read_json(path / "generation_config.json")
        if isinstance(generation, dict):
            end_ids = generation.get("eos_token_id", end_ids)
    each = end_ids if isinstance(end_ids, list) else [end_ids]
    vocabulary = config.get("vocab_size", 0)
    valid = {i for i in each if type(i) is int and 0 <= i < vocabulary}
    return tuple(sorted(valid))


def _other_end(found: Tokenizer | None, end_tokens: tuple[int, ...]) -> str:
    """See `Folder.other_end`. Transformers' `generate` does not read the tokenizer's mark."""
    if not (found and found.folder and found.encode_marked):
        return ""
    token = ""
    with suppress(OSError, ValueError, TypeError):
        token = tokenizer.special_tokens(found.folder).get("eos_token", "")
    ids = found.encode_marked(token)
    if len(ids) != 1 or ids[0] in end_tokens:
        return ""
    return f"{token} ({ids[0]})"


def _files(path: Path, model: Model) -> tuple[str, ...]:
    """The files with weights: a single one, or those that an index lists. If both exist, the single
    file is read, as in Transformers.
    """
    if model.parts:
        return _files_of_parts(path, model, model.parts)
    if (path / SINGLE).is_file():
        return (SINGLE,)
    if (path / INDEX).is_file() and not architectures.of(model).weights_config:
        shards = sorted(set(user_tensors.weight_map(path).values()))
        strays = [shard for shard in shards if Path(shard).name != shard]
        if strays:
            raise Refused(
                f"{INDEX} names a file outside the folder ({strays[0]}): copy it in, and name it"
                " without a path"
            )
        missing = [shard for shard in shards if not (path / shard).is_file()]
        if missing:
            raise Refused(
                f"{INDEX} names {len(shards)} files and {named(missing)} are missing: download them"
                " again"
            )
        return tuple(shards)
    pickles = sorted(p.name for p in path.iterdir() if p.suffix in PICKLES)
    if pickles:
        raise _pickle(path, pickles[0], model)
    other = sorted(p.name for p in path.glob("*.safetensors"))
    also = f" ({named(other)} is not read: rename it, or write {INDEX})" if other else ""
    raise Refused(
        f"neither {SINGLE} nor {INDEX} is in it{also}: download the weights too, or write them with"
        " model.save_pretrained(DIR)"
    )


def _files_of_parts(path: Path, model: Model, parts: Parts) -> tuple[str, ...]:
    """The file of each part, as diffusers names it. A config.json must be in the same folder."""
    files = sorted(f"{part}/{file}" for part, file in parts.files.items())
    for file in files:
        part = path / file.partition("/")[0]
        pickles = sorted(p.name for p in part.glob("*") if p.suffix in PICKLES)
        if not (path / file).is_file() and pickles:
            raise _pickle(path, f"{part.name}/{pickles[0]}", model)
        needed = ("config.json", Path(file).name)
        missing = [name for name in needed if not (part / name).is_file()]
        if missing:
            variants = sorted(p.name for p in part.glob(f"{Path(file).stem}.*.safetensors"))
            also = ""
            if variants:
                also = f" ({part.name}/{variants[0]} exists: rename it, as in the other folders)"
            raise Refused(
                f"there is no {part.name}/{missing[0]} in it{also}: give a folder that"
                f" {model.native_class}.save_pretrained wrote"
            )
    return tuple(files)


def _pickle(path: Path, name: str, model: Model) -> UsageError:
    rules = model.user_weights
    convert = rules.convert.replace("{file}", str(path / name)) if rules else ""
    if not convert and name.startswith("pytorch_model"):
        convert = user_folder.convert(path, "NEW")
    elif not convert:
        program = (
            "import sys, transformers; folder, new = sys.argv[1:];"
            f" transformers.{model.native_class}.from_pretrained(folder).save_pretrained(new)"
        )
        command = user_folder.python(program, str(path), "NEW")
        convert = f"{command} (with torch and transformers), copy the tokenizer's files into NEW"
    return UsageError(
        f"--weights {path}: {name} is a pickle, and pickles run code when opened: if you trust it,"
        f" convert it with {convert}, and give NEW"
    )


def check_finite(folder: Folder) -> None:
    """Read all parameters. Raises UsageError with the name of the first tensor that has a NaN or
    infinite value.
    """
    import ml_dtypes  # noqa: F401  safetensors needs its bfloat16
    import numpy as np

    from sut.checkpoint.weights_files import rows

    for tensor in folder.size.tensors:
        name = folder.names.get(tensor.name, tensor.name)
        for part in rows(folder.path, name):
            exponent, bits = _EXPONENTS[part.dtype.name]
            faulty = np.count_nonzero((part.view(bits) & exponent) == exponent)
            if faulty:
                raise UsageError(
                    f"--weights {folder.path}: {name} has {faulty} values that are NaN or infinite,"
                    " so every answer would be, too: save the model again from a checkpoint before"
                    " it diverged"
                )


def _precision(config: Config, stored: set[str]) -> str:
    """The precision of config.json, or that of the stored parameters if it has none. float16 is
    computed in float32 unless the user chooses float16.
    """
    dtype = config.get("dtype")
    if not dtype and len(stored) == 1:
        dtype = user_tensors.DTYPES[next(iter(stored))]
    return "bfloat16" if dtype == "bfloat16" else "float32"


def _dtype_notes(config: Config, stored: set[str], precision: str) -> list[str]:
    """A note if config.json or a stored parameter has another dtype than `precision`."""
    named = config.get("dtype")
    kinds = sorted(user_tensors.DTYPES[kind] for kind in stored)
    if {named or precision, *kinds} == {precision}:
        return []
    says = f"config.json says {named}, and " if named else ""
    note = (
        f"{says}the parameters are stored in {' and '.join(kinds)}: {precision} is used unless"
        " --precision says otherwise"
    )
    if "float16" in (named, *kinds):
        note += "; --precision float16 computes in float16"
    return [note]


def title(path: Path) -> str:
    """The name of a folder. A snapshot of the Hub's cache has that of its model."""
    if path.parent.name != "snapshots":
        return path.name
    return path.parents[1].name.removeprefix("models--").replace("--", "/")
