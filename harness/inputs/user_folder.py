"""Find a user's folder of weights (`--weights DIR`), refuse formats that no SUT reads, and read the
folder's JSON files, which may be damaged or hostile.
"""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path
from typing import Any

from formats import bounds
from harness.errors import Refused, UsageError

Document = dict[str, Any]
"""A JSON object."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
"""Endings of files that run code when they are opened."""
LARGEST_JSON = 64_000_000
"""Bytes. The index of the largest models has some megabytes."""


def python(program: str, *arguments: str) -> str:
    """A command that runs a Python program, for a shell."""
    return shlex.join(["python3", "-c", program, *arguments])


def convert(source: Path, *more: str) -> str:
    """The command that makes a folder for `--weights` of a file or folder, for a shell."""
    return shlex.join(["./run.sh", "weights", str(source), *more])


def check(path: Path) -> None:
    """Raises UsageError if a path is no folder, or one without any weights that are read. The
    ending of a file says what it is.
    """
    is_folder = path.is_dir()
    folder = path if is_folder else path.parent
    names = sorted(each.name for each in path.iterdir()) if is_folder else [path.name]
    weights = [name for name in names if name.endswith(".safetensors") and not _of_adapter(name)]
    if is_folder and weights:
        return
    if any(_of_adapter(name) for name in names):
        raise Refused(
            "contains only an adapter (such as LoRA) and not a whole model: give NEW after"
            f" {convert(path, 'NEW', '--base', 'FOLDER_OF_THE_BASE_MODEL')}"
        )
    for name in names:
        if name.endswith(".gguf"):
            raise Refused(
                f"{name} is a GGUF file of quantised weights: give the folder from which it was"
                " made. Or write its weights in float32, and give NEW:"
                f" {convert(folder / name, 'NEW')}"
            )
        if name.endswith(".keras"):
            raise Refused(f"{name} is a whole model: give it as --model")
    if any(name.endswith(".onnx") for name in names) or list(path.glob("onnx/*.onnx")):
        pickles = any(name.endswith(".bin") for name in names)
        if not pickles:
            raise Refused(
                "contains an ONNX graph, which no SUT reads: give the folder of safetensors from"
                " which it was exported"
            )
    if path.suffix in PICKLES and path.is_file():
        raise Refused("is a pickle, and pickles run code when opened: give its folder")
    if not is_folder:
        raise Refused(
            "is not a directory (names of the Hub are not downloaded: `hf download NAME` prints the"
            " folder to give); give a folder with model.safetensors"
        )


def _of_adapter(name: str) -> bool:
    return name == "adapter_config.json" or name.startswith("adapter_model.")


def resolve(path: Path) -> Path:
    """The snapshot in a folder `models--…` of the Hub's cache: that of refs/main, or the only one.
    Any other path is returned unchanged.

    Raises UsageError if there are several snapshots and refs/main names none of them.
    """
    snapshots = path / "snapshots"
    if not snapshots.is_dir() or (path / "config.json").exists():
        return path
    found = sorted(each for each in snapshots.iterdir() if each.is_dir())
    main = path / "refs" / "main"
    newest = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    chosen = [each for each in found if each.name == newest] or found
    if len(chosen) != 1:
        raise UsageError(
            f"--weights {path}: {len(found)} snapshots are in it, and refs/main names none of them:"
            f" give one of {snapshots}, or download the model again"
        )
    return chosen[0]


def read_text(file: Path) -> str:
    """The text of a small file. Raises OSError if it cannot be read. Raises ValueError if it is not
    UTF-8, a device or a pipe, or too large.
    """
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > LARGEST_JSON:
        raise ValueError(
            f"it has {status.st_size / 1e6:.0f} MB, and at most {LARGEST_JSON / 1e6:.0f} MB are"
            " read"
        )
    return bounds.content(file, bounds.JSON).decode("utf-8")


def read_json(file: Path) -> Any:
    """The value of a small JSON file. Raises OSError and ValueError as `read_text` does, and
    ValueError as `parse_json` does.
    """
    return parse_json(read_text(file))


def parse_json(text: str) -> Any:
    """The value of a JSON text. As in Transformers, numbers may be infinite.

    Raises ValueError if the text is not JSON, if an object has a key twice, or if a number is NaN.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> Document:
    """Libraries do not agree on which value counts of a key that is there twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return value


def _constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("a number is NaN")
    return float(name)
