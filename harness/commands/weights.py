"""`./run.sh weights SOURCE DIR` makes a folder for `--weights` of weights in another form."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from formats import bounds
from harness import terminal
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments
from harness.request.flags import Parser, add_common
from scenarios.worker.child import end_with_parent
from sut.devices import HOST
from sut.registry import REFERENCE, spec_of

_PACKAGES = {"smollm2": ("gguf", "*/*.gguf"), "minilm": ("minilm", "*/model.zip")}
"""Name of real weights in a package → (kind of conversion, where its file is)."""
_ADAPTER = "adapter_config.json"
_LAST_LINES = 3


_Conversion = tuple[str, Path, Path | None]
"""A kind of conversion of `sut.conversion`, the file or folder with the weights, and for a LoRA the
folder of its base.
"""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    reporter = terminal.Terminal(flags.quiet)
    cache = flags.cache.absolute()
    folder = flags.folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"weights {flags.folder}: exists; give a new folder")
    source = flags.source
    name = str(source).lower()
    if name in _PACKAGES and not Path(source).exists():
        kind, where = _PACKAGES[name]
        packed = next(_packages(name, cache, reporter).glob(where))
        conversion: _Conversion = (kind, packed, None)
    else:
        conversion = _brought(source, flags.base)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        notes = _convert(conversion, partial, cache, reporter)
    except BaseException:
        shutil.rmtree(partial)
        raise
    partial.replace(folder)
    size_mb = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    near = terminal.near(str(folder))
    if flags.json:
        size_bytes = round(1e6 * size_mb)
        terminal.document({"folder": str(folder), "bytes": size_bytes, "notes": notes})
    else:
        for note in notes:
            terminal.line(note)
        terminal.line(
            terminal.typed_here(
                f"{near}: {size_mb:,.0f} MB, for --weights; next: ./run.sh choose {near} [PROMPTS]"
            )
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "weights",
        description="Make a folder for --weights of weights in another form.",
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help=(
            "a .gguf file, a folder with pytorch_model.bin, a folder with a LoRA, or the name of"
            f" real weights to try: {', '.join(_PACKAGES)}"
        ),
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the new folder")
    parser.add_argument(
        "--base", type=Path, metavar="DIR", help="the folder of the model to which a LoRA is added"
    )
    add_common(parser)
    return parser


def _packages(name: str, cache: Path, reporter: terminal.Terminal) -> Path:
    """The folder of the packages of environments/weights-<name>.txt, which are installed first."""
    directory = cache / "environments" / f"weights-{name}"
    lock = environments.LOCKS / f"weights-{name}.txt"
    environments.make(directory, [lock], environments.installer(), reporter.say)
    return next(directory.glob("lib/*/site-packages"))


def _brought(name: str, base: Path | None) -> _Conversion:
    """The conversion of a user's file or folder. Raises UsageError."""
    source = Path(name)
    if source.suffix.lower() == ".gguf" and source.is_file():
        return "gguf", source.absolute(), None
    if (source / _ADAPTER).is_file():
        return "lora", source.absolute(), _base(source, base)
    if adapters := sorted(path.parent.name for path in source.glob(f"*/{_ADAPTER}")):
        raise UsageError(
            f"weights {name}: has adapters in its folders; give one of them: {', '.join(adapters)}"
        )
    if files := list(source.glob("pytorch_model*.bin")):
        for each in files:
            bounds.check(source, each.stat().st_size, bounds.COPIED)
        return "pickle", source.absolute(), None
    if any(source.glob("*.safetensors")):
        raise UsageError(f"weights {name}: holds safetensors: give it to --weights as it is")
    fault = "there is no such file" if not source.exists() else "is none of these"
    raise UsageError(
        f"weights {name}: {fault}; give a .gguf file, a folder with pytorch_model.bin, a folder"
        f" with {_ADAPTER}, or {' or '.join(_PACKAGES)}"
    )


def _base(source: Path, base: Path | None) -> Path:
    """The folder of the model to which a LoRA is added. Raises UsageError."""
    if base is None:
        named = _value(source / _ADAPTER, "base_model_name_or_path") or ""
        base = Path(named or source)
        if not (base / "config.json").is_file():
            wanted = f" ({named})" if named else ""
            raise UsageError(
                f"weights {source}: is a LoRA: name the folder of its base{wanted} with --base"
            )
    if not (base / "config.json").is_file():
        raise UsageError(f"--base {base}: has no config.json; give the folder of the base model")
    if _value(base / "config.json", "quantization_config"):
        raise UsageError(
            f"--base {base}: its weights are quantised, so much of what the adapter learnt would be"
            " lost to rounding: give the folder of the model from which they were made"
        )
    if not any(source.glob("adapter_model.safetensors")):
        raise UsageError(f"weights {source}: has no adapter_model.safetensors")
    size_bytes = sum(file.stat().st_size for file in base.glob("*.safetensors"))
    bounds.check(base, size_bytes, bounds.MERGED)
    return base.absolute()


def _value(path: Path, key: str) -> Any:
    """The value of a key of a JSON file. None: it has none."""
    try:
        return json.loads(bounds.content(path, bounds.JSON))[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _convert(
    conversion: _Conversion, folder: Path, cache: Path, reporter: terminal.Terminal
) -> list[str]:
    """Run the conversion in the reference's environment. Return sentences about the folder. Raises
    UsageError with its reason if it refuses the source, and EnvironmentFailure with its last words.
    """
    name = spec_of(REFERENCE).environment
    torch = environments.ensure(cache, name, HOST, reporter.say)
    kind, source, base = conversion
    paths = [str(environments.ROOT)]
    if kind == "gguf":
        paths.append(str(_packages("gguf", cache, reporter)))
    # Few variables of this process, and no access to the Hub.
    variables = {
        each: os.environ[each] for each in ("PATH", "HOME", "TMPDIR") if each in os.environ
    }
    variables |= {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
    words = [kind, str(source), str(folder), str(base or ""), str(bounds.available_bytes() or "")]
    reporter.say(f"converting {source}")
    done = subprocess.run(
        [str(torch.python), "-P", "-m", "sut.conversion", *words],
        capture_output=True,
        text=True,
        errors="replace",
        env=variables,
        preexec_fn=end_with_parent,
        check=False,
    )
    said = done.stderr.strip().splitlines()
    if done.returncode == UsageError.exit_code:
        raise UsageError(f"weights {source}: {said[-1]}")
    if done.returncode:
        raise EnvironmentFailure(f"weights {source}: {' '.join(said[-_LAST_LINES:])}")
    notes: list[str] = json.loads(done.stdout.splitlines()[-1])
    return notes
