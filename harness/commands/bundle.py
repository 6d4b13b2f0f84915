"""`./run.sh bundle DIR` writes all that a machine without a network needs into one folder.

After an interruption the same command continues.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compliance import CURRENT
from harness import terminal
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import bundle, environments, machine, wheels
from harness.execution.bundle import Package
from harness.execution.environments import ROOT
from harness.request.flags import Parser, add_common, known_name, sut_name
from sut.devices import DEVICES, HOST
from sut.registry import LIBRARIES_OF_FILES, REFERENCE, SUTS, spec_of

_UNFINISHED = f"{wheels.MANIFEST}.partial"
_PYTHONS = ("3.11", "3.12", "3.13")
_LEFT_TO_PYTHON = ("numpy", "scipy")  # half of the size of --core
_BECAUSE = {
    "without": "the environments of SUTs are complete. Use --core.",
    "reference": "--sut brings the environment of the reference. Leave --reference out.",
    "tests": "the tests need complete environments. Use --sut.",
}
_OF_CACHE = (
    "the other machine draws the same weights; references can be copied (docs/use/offline.md)"
)
_EPILOG = """\
Copy DIR to the other machine and call DIR/run.sh there. It makes its environments from DIR and uses
no network. With --core only the harness itself is bundled, for an interpreter that has its
frameworks: DIR/run.sh --python PATH …"""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    options = _parser().parse_args(arguments)
    _check(options)
    with tempfile.TemporaryDirectory() as scratch:
        locks = _locks(options, Path(scratch))
        target = (options.python, options.platform)
        plan = {name: bundle.packages(files, *target) for name, files in locks.items()}
        sources = _sources(options)
        if options.core:
            sources["environments/core.txt"] = locks["core"][1]
        summary = {
            "python": options.python,
            "platforms": options.platform,
            "device": options.device,
            "environments": {name: sorted(map(str, set(each))) for name, each in plan.items()},
            "source_bytes": sum(path.stat().st_size for path in sources.values()),
        }
        if not options.dry_run:
            summary["bytes"] = _write(options, plan, sources)
    if options.json:
        terminal.document(summary)
    elif options.dry_run:
        _show(summary)
    else:
        folder = options.folder
        size_mb = summary["bytes"] / 1e6
        terminal.line(f"{folder}: {size_mb:,.1f} MB; on the other machine: {folder.name}/run.sh …")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "bundle",
        usage=(
            "./run.sh bundle DIR --sut A,B|all [flags]\n       ./run.sh bundle DIR --core [flags]"
        ),
        description="Write all that a machine without a network needs into one folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        gone=dict.fromkeys(("--model", "--size"), _OF_CACHE),
    )
    here = f"manylinux_2_28_{os.uname().machine}"
    own = f"3.{sys.version_info.minor}"
    parser.add_argument("folder", metavar="DIR", type=Path, help="a new folder, or a bundle")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--sut", metavar="A,B", type=_suts, default=[], help="SUTs, or all")
    what.add_argument("--core", action="store_true", help="only the harness, for --python PATH")

    def add(flag: str, words: str, **settings: Any) -> None:
        parser.add_argument(flag, help=words, **settings)

    there = f"with --core: packages that the Python there has, of {', '.join(_LEFT_TO_PYTHON)}"
    libraries = "with --core: the reference's libraries without PyTorch, such as Transformers"
    machine_there = f"the oldest glibc there, and the processor (default {here})"
    add("--without", there, metavar="A,B", type=_without, default=[])
    add("--reference", libraries, action="store_true")
    add("--tests", "with --sut: what ./run.sh test needs", action="store_true")
    add("--device", f"the device there (default {HOST})", choices=tuple(DEVICES), default=HOST)
    add("--python", f"the Python there (default {own})", choices=_PYTHONS, default=own)
    add("--platform", machine_there, metavar="TAG,TAG", type=_platforms, default=[here])
    add("--dry-run", "list the packages, and write nothing", action="store_true")
    add_common(parser)
    return parser


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _suts(text: str) -> list[str]:
    return list(SUTS) if text == "all" else list(map(sut_name, _words(text)))


def _without(text: str) -> list[str]:
    return [known_name(word, _LEFT_TO_PYTHON, "--without") for word in _words(text)]


def _platforms(text: str) -> list[str]:
    for tag in _words(text):
        if not re.fullmatch(r"manylinux_\d+_\d+_\w+", tag):
            raise UsageError(f"--platform {tag}: write it as manylinux_2_28_x86_64 (glibc 2.28)")
    return _words(text)


def _check(options: argparse.Namespace) -> None:
    """Raise UsageError if flags contradict each other, or if DIR has files of the user's own.

    The path of DIR becomes absolute.
    """
    for flag, other in (("without", "sut"), ("reference", "sut"), ("tests", "core")):
        if getattr(options, flag) and getattr(options, other):
            raise UsageError(f"--{flag} cannot be combined with --{other}: {_BECAUSE[flag]}")
    folder = options.folder.absolute()
    options.folder = folder
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    is_bundle = any((folder / name).exists() for name in (wheels.MANIFEST, _UNFINISHED))
    if folder == ROOT or not (is_new or is_bundle):
        raise UsageError(f"{folder}: the folder is not empty and not a bundle. Name a new folder.")


def _locks(options: argparse.Namespace, scratch: Path) -> dict[str, list[Path]]:
    """Return environment → its locks. Those of `--core` are written to `scratch`."""
    core, loadgen = environments.lock_files("core", HOST)
    if options.core:
        texts = bundle.parts(options.device, options.without, options.reference)
        names = ("core", wheels.BESIDE)
        for name, text in zip(names, texts, strict=True):
            (scratch / f"{name}.txt").write_text(text, encoding="utf-8")
        return {name: [loadgen, scratch / f"{name}.txt"] for name in names}
    locks = {"core": [loadgen, core]}  # LoadGen first: it has wheels for the fewest machines
    specs = [SUTS[name] for name in options.sut]
    reads_weights = any(spec.reads_weights for spec in specs)
    if reads_weights:
        specs.append(spec_of(REFERENCE))
    reads_files = reads_weights or options.tests
    for library in LIBRARIES_OF_FILES if reads_files else ():
        locks[f"{library}-{HOST}"] = environments.lock_files(library, HOST)
    for name in {spec.environment: None for spec in specs if spec.environment != "core"}:
        locks[f"{name}-{options.device}"] = environments.lock_files(name, options.device)
    if options.tests:
        locks["dev"] = environments.locks_of_tests()
    return locks


def _sources(options: argparse.Namespace) -> dict[str, Path]:
    """Return path in the bundle → file, of the files of this checkout that git does not ignore.

    The tests are left out with `--core`.
    """
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    command += ["--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode or wheels.bundle(ROOT) == ROOT:
        raise EnvironmentFailure(f"{ROOT} is not a git checkout. Make the bundle in a checkout.")
    sources = {}
    for word in listing.stdout.split(b"\0"):
        name = os.fsdecode(word)
        path = ROOT / name
        if not path.is_file() or options.folder in path.parents:
            continue
        if options.core and name.startswith("tests/"):
            continue
        sources[name] = path
    return sources


def _show(summary: Mapping[str, Any]) -> None:
    rows = []
    for environment, packages in summary["environments"].items():
        rows += [[environment, *package.split("==")] for package in packages]
    terminal.table("Bundle (nothing was written)", ("environment", "package", "version"), rows)
    packages = {package for _, package, _ in rows}
    terminal.line(
        f"{len(packages)} packages; source {summary['source_bytes'] / 1e6:.1f} MB. The locks have"
        " no sizes of wheels: docs/use/offline.md shows those of some bundles."
    )


def _write(
    options: argparse.Namespace,
    plan: Mapping[str, Sequence[Package]],
    sources: Mapping[str, Path],
) -> int:
    """Write the wheels, the source, the manifest and finally run.sh, which uses them.

    Returns the bytes of all files.
    """
    reporter = terminal.Terminal(options.quiet or options.json)
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / _UNFINISHED
    partial.touch()
    for name in (wheels.MANIFEST, "run.sh"):
        (folder / name).unlink(missing_ok=True)
    target = (options.python, options.device)
    found = bundle.download(plan, *target, folder / wheels.FOLDER, reporter.say)
    paths = dict(sources)
    for name in {name for each in found.values() for name in each}:
        paths[f"{wheels.FOLDER}/{name}"] = folder / wheels.FOLDER / name
    _remove_others(folder, paths, sources)
    files: dict[str, Any] = {}
    for name, path in sorted(paths.items()):
        files[name] = {"bytes": path.stat().st_size, "sha256": wheels.sha256(path)}
        if name in sources and name != "run.sh":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, folder / name)
    git = machine.git()
    manifest = {
        "schema": "bundle-1",
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "revision": git.revision,
        "dirty": git.dirty,
        "round": CURRENT,
        "python": options.python,
        "platforms": options.platform,
        "device": options.device,
        "core": options.core,
        "without": options.without,
        "suts": options.sut,
        "environments": found,
        "files": files,
    }
    partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    partial.replace(folder / wheels.MANIFEST)
    shutil.copy2(sources["run.sh"], folder / "run.sh")
    return sum(file["bytes"] for file in files.values())


def _remove_others(folder: Path, names: Container[str], sources: Iterable[str]) -> None:
    """Remove the wheels and modules of an earlier bundle. Other files are kept, because they may be
    the user's.
    """
    paths = list((folder / wheels.FOLDER).iterdir())
    for top in {name.partition("/")[0] for name in sources}:
        paths += (folder / top).rglob("*.py")
    for path in paths:
        if path.relative_to(folder).as_posix() not in names:
            path.unlink()
