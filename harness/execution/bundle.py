"""List the packages of a bundle, and download or build their wheels for another Python with pip.

Markers are evaluated here, because pip evaluates them for the Python that runs it.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from harness.errors import EnvironmentFailure
from harness.execution.environments import Say, block_name, folders_with, lock_blocks, lock_files
from scenarios.worker.child import end_with_parent
from sut.devices import HOST
from sut.registry import COMES_WITH_TORCH, CPU_INDEXES, REFERENCE, SUTS, spec_of

# Packages for the figures of a report, and those of the Hugging Face hub, from which the harness
# never downloads.
_FIGURES = frozenset(("contourpy", "cycler", "fonttools", "kiwisolver", "matplotlib", "pyparsing"))
_NOT_FOR_MEASURING = _FIGURES | {"hf-xet", "python-dateutil", "tzdata"}
_FILE = re.compile(r"^\s*(?:Saved|File was already downloaded) .*?([^/\n]+\.whl)$", re.M)


@dataclass(frozen=True)
class Package:
    """A package of a lock for one platform. `hashes`: `--hash=…` of its files; torch has none."""

    name: str
    version: str
    hashes: tuple[str, ...]
    platform: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def parts(device: str, without: Sequence[str], reference: bool) -> tuple[str, str]:
    """Return the texts of the two locks that `--core` bundles for an interpreter with a framework.

    The first is the core environment without figures. The second adds packages to that interpreter:
    those that Keras needs with all its frameworks and, with `reference`, the reference's libraries
    without PyTorch. Both leave out the packages `without`.
    """
    left_out = _NOT_FOR_MEASURING.union(without)
    core = lock_files("core", HOST)[0]
    environments: dict[str, set[str]] = {}
    for spec in SUTS.values():
        if spec.classes and device in spec.devices:
            environments.setdefault(spec.classes, set()).add(spec.environment)
    on_several_frameworks = max(environments.values(), key=len)
    locks = [lock_files(name, device)[0] for name in sorted(on_several_frameworks)]
    common = set.intersection(*map(_names, locks))
    beside = _only(locks[0], common - left_out)
    if reference:
        lock = lock_files(spec_of(REFERENCE).environment, device)[0]
        others = {name for name in _names(lock) if not name.startswith(COMES_WITH_TORCH)}
        beside += _only(lock, others - common - left_out)
    return _only(core, _names(core) - left_out), beside


def _names(lock: Path) -> set[str]:
    return set(map(block_name, lock_blocks(lock)))


def _only(lock: Path, names: set[str]) -> str:
    return "".join(block for block in lock_blocks(lock) if block_name(block) in names)


def packages(locks: Sequence[Path], python: str, platforms: Sequence[str]) -> list[Package]:
    """Return the packages of locks that a machine needs, for each of the platforms.

    Args:
        python: such as "3.12".
        platforms: such as "manylinux_2_28_x86_64".
    """
    result = []
    for platform, lock in itertools.product(platforms, locks):
        machine = {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": platform.split("_", 3)[3],
            "sys_platform": "linux",
        }
        for block in lock_blocks(lock):
            requirement = Requirement(block.splitlines()[0].rstrip(" \\"))
            if requirement.marker is None or requirement.marker.evaluate(machine):
                version = str(requirement.specifier).removeprefix("==")
                hashes = tuple(re.findall(r"--hash=\S+", block))
                result.append(Package(requirement.name, version, hashes, platform))
    return result


def download(
    plan: Mapping[str, Sequence[Package]],
    python: str,
    device: str,
    folder: Path,
    say: Say,
) -> dict[str, list[str]]:
    """Download the wheels of environments into the folder, each once. Wheels that exist are kept.

    Returns environment → the names of its files. Raises EnvironmentFailure with pip's words.
    """
    folder.mkdir(exist_ok=True)
    files = dict.fromkeys(itertools.chain.from_iterable(plan.values()), "")
    for number, package in enumerate(files, 1):
        say(f"[{number}/{len(files)}] {package}")
        files[package] = _download(package, python, device, folder)
    return {name: sorted({files[package] for package in each}) for name, each in plan.items()}


def _download(package: Package, python: str, device: str, folder: Path) -> str:
    text = str(package)
    flags = [f"--platform={tag}" for tag in _tags(package.platform)]
    hashes = package.hashes
    if not hashes:
        for path in folder.glob(f"{package.name}-*.whl"):
            if not zipfile.is_zipfile(path):  # an interrupted copy, which pip cannot detect
                path.unlink()
    if package.name in CPU_INDEXES and device != HOST:
        text += f",!={package.version}+cpu"  # it would count as newer than the build for GPUs
    elif package.name in CPU_INDEXES and not folders_with(package.name):
        flags.append(f"--extra-index-url={CPU_INDEXES[package.name]}")
    flags += ["--implementation=cp", "--only-binary=:all:", f"--python-version={python}"]
    try:
        output = _pip("download", text, [f"--dest={folder}", *flags], hashes)
    except EnvironmentFailure as e:
        reason = f"no wheel of {package} for Python {python} on {package.platform}: {e}"
        if len(hashes) != 1:
            raise EnvironmentFailure(reason) from None
        return _build(package, folder, reason)
    return _FILE.findall(output)[0]


def _build(package: Package, folder: Path, reason: str) -> str:
    """Build the wheel of a package that is published only as a source, which is its one file.

    Returns the name of the wheel. Raises EnvironmentFailure with the `reason` why it has no wheel
    if the build fails, or if the wheel is not pure Python: this Python may not be the one there.
    """
    with tempfile.TemporaryDirectory() as scratch:
        flags = [f"--no-binary={package.name}", "--use-pep517", f"--wheel-dir={scratch}"]
        try:
            _pip("wheel", str(package), flags, package.hashes)
        except EnvironmentFailure as e:
            raise EnvironmentFailure(f"{reason} Its source cannot be built either: {e}") from None
        [wheel] = Path(scratch).iterdir()
        if not wheel.name.endswith("py3-none-any.whl"):
            raise EnvironmentFailure(f"{reason} {wheel.name}, built here, is not pure Python.")
        shutil.copy(wheel, folder)
    return wheel.name


def _pip(command: str, requirement: str, flags: Sequence[str], hashes: Sequence[str]) -> str:
    """Run a command of pip on one requirement. → its output. Raises EnvironmentFailure with pip's
    words.
    """
    start = [sys.executable, "-m", "pip", command, "--disable-pip-version-check", "--no-deps"]
    process = subprocess.run(
        [*start, "--requirement=/dev/stdin", *(["--require-hashes"] if hashes else []), *flags],
        input=" ".join([requirement, *hashes]),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=end_with_parent,
    )
    if process.returncode == 0:
        return process.stdout
    words = " ".join(re.findall("^ERROR: (.*)", process.stderr, re.M)) or process.stderr.strip()
    if words.endswith("No module named pip"):
        words = f"pip is missing here. Install it: {sys.executable} -m ensurepip"
    raise EnvironmentFailure(words)


def _tags(platform: str) -> list[str]:
    """Return the platform tags of the wheels that run on a machine, the newest glibc first."""
    _, major, newest, processor = platform.split("_", 3)
    minors = range(int(newest), 4, -1)
    tags = [f"manylinux_{major}_{minor}_{processor}" for minor in minors]
    if 17 in minors:
        tags.append(f"manylinux2014_{processor}")  # pip adds manylinux2010 and manylinux1
    return tags
