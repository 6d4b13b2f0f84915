"""Packages of a SUT's environment in other versions, or of the user's own builds (`--with`) → an
environment of its own, which uv resolves once and locks with hashes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from environments import lock as locking
from formats.writing import json_digest
from harness.errors import EnvironmentFailure
from harness.execution import environments
from harness.execution.environments import Environment, Say
from harness.locks import held
from scenarios.worker.child import end_with_parent
from sut.devices import HOST
from sut.registry import CPU_BUILDS

NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
DIGITS = 12
_NO_SOLUTION = "No solution found"
_OF_INSTALLING = "--no-verify-hashes"  # `uv pip compile` has no such flag
_MOST_IN_A_NAME = 60


class Unresolvable(EnvironmentFailure):
    """There is no environment of the SUT with these packages. The message is uv's reason."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """A package that is not as the lock of the SUT's environment has it.

    Attributes:
        name: the distribution, in the normal form.
        version: of a release or a wheel; empty: of a source folder, which is not built yet.
        path: the wheel or the source folder; None: the package comes from the registry.
        digest: the first hex digits of the sha256 of the wheel or of all source files.
    """

    name: str
    version: str = ""
    path: Path | None = None
    digest: str = ""

    @property
    def text(self) -> str:
        """`jax==0.10.1`, `jax==0.10.1@3f2a91c04d5e` or `jax@3f2a91c04d5e`, as `Cell.packages` has
        it.
        """
        version = f"=={self.version}" if self.version else ""
        return f"{self.name}{version}{f'@{self.digest}' if self.digest else ''}"


def words(pins: Iterable[Pin]) -> str:
    """`jax==0.10.1 and keras==3.14.0`."""
    return " and ".join(pin.text for pin in pins)


def is_made(cache: Path, name: str, device: str, pins: Sequence[Pin]) -> bool:
    """Return True if the environment exists."""
    if not pins:
        return environments.is_made(cache, name, device)
    return (_directory(cache, name, device, pins) / "lock.txt").exists()


def ensure(
    cache: Path,
    name: str,
    device: str,
    pins: Sequence[Pin],
    say: Say,
) -> Environment:
    """Return the environment of a SUT with these packages. At first use it is resolved, locked and
    made; later it is the same, even if there are newer releases.

    Raises Unresolvable if there is none, and EnvironmentFailure.
    """
    if not pins:
        return environments.ensure(cache, name, device, say)
    directory = _directory(cache, name, device, pins)
    directory.parent.mkdir(parents=True, exist_ok=True)
    own, loadgen = environments.lock_files(name, device)
    lock = directory.with_suffix(".txt")
    with held(
        directory.with_suffix(".lock"),
        lambda: say(f"waiting for another process that makes {directory.name}"),
    ):
        if not lock.exists():
            say(f"resolving {name} with {words(pins)} (first use)")
            lock_text = _resolved(own, pins, directory.parent, device == HOST)
            partial = lock.with_suffix(".partial")
            partial.write_text(lock_text, encoding="utf-8")
            partial.replace(lock)
    environments.make(directory, [lock, loadgen], environments.installer(), say, bytecode=True)
    return environments.made(directory, f"{name} with {words(pins)}", _moved(own, lock, pins))


def _directory(cache: Path, name: str, device: str, pins: Sequence[Pin]) -> Path:
    """The folder of the environment. Its name has a digest of everything that decides what is
    resolved, except for the registry.
    """
    texts = [lock.read_text("utf-8") for lock in environments.lock_files(name, device)]
    here = [sys.version_info[:2], sysconfig.get_platform()]
    parts = [*here, texts, [[pin.text, str(pin.path)] for pin in pins]]
    key = json_digest(parts, DIGITS)
    slug = re.sub(r"\W+", "-", "-".join(pin.text.partition("@")[0] for pin in pins))
    # The device is last, as in the names of all locks (`environments.sources`).
    return cache / "environments" / f"{name}-with-{slug[:_MOST_IN_A_NAME]}-{key}-{device}"


def _resolved(lock: Path, pins: Sequence[Pin], cache: Path, cpu: bool) -> str:
    """The text of the lock of an environment with these pins. All other packages keep the versions
    of its own lock if they can. The SUT's own requirements move only if there is no other way.

    Raises Unresolvable.
    """
    with tempfile.TemporaryDirectory(dir=cache, prefix=".resolving-") as name:
        folder = Path(name)
        wanted, overrides, found = (folder / each for each in ("in", "overrides", "lock.txt"))
        overrides.write_text(locking.overrides(lock.stem), encoding="utf-8")
        shutil.copyfile(lock, found)  # uv prefers the versions that it finds in its output
        command = [*environments.installer(), "pip", "compile", "-q", "--no-header"]
        command += ["--no-annotate", "--generate-hashes", "--prerelease", "explicit"]
        command += ["--python", sys.executable, "--override", str(overrides), "-o", str(found)]
        for pin in pins:  # a build from source would not be the release that others have
            command += ["--only-binary", pin.name]
        command += [flag for flag in environments.sources([lock]) if flag != _OF_INSTALLING]
        what = f"{lock.stem} with {words(pins)}"
        for fixed in (True, False):
            lines = _requirements(lock, pins, cache, fixed)
            wanted.write_text("\n".join(lines), encoding="utf-8")
            try:
                _uv([*command, str(wanted)], what)
                break
            except Unresolvable:
                if not fixed:
                    raise
        if lacking := locking.lacking(found.read_text(encoding="utf-8")):
            lines += lacking
            wanted.write_text("\n".join(lines), encoding="utf-8")
            _uv([*command, str(wanted)], what)
        blocks = [locking.kept(block, cpu) for block in environments.lock_blocks(found)]
    return f"# {lock.stem} with {words(pins)}\n" + "".join(blocks)


def _uv(command: Sequence[str], what: str) -> None:
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=end_with_parent
    )
    if _NO_SOLUTION in process.stderr:
        cause = process.stderr.partition("cause: ")[2].partition("\nhint:")[0]
        reason = " ".join(cause.split())
        raise Unresolvable(f"uv finds no environment {what}: {reason[:1].lower()}{reason[1:]}")
    environments.check_done(process, what)


def _requirements(lock: Path, pins: Sequence[Pin], cache: Path, fixed: bool) -> list[str]:
    """The requirements of an environment, with those of the pins in place of its own.

    `fixed`: whether the others have the versions of the file. A distribution with builds for the
    CPU always has: another version of it may be gigabytes.
    """
    lines = environments.required(lock)
    if not fixed:
        for name in lines.keys() - CPU_BUILDS.keys():
            lines[name] = lines[name].partition("==")[0]
    for pin in pins:
        extras = re.match(rf"{NAME}(\[[^]]*\])?", lines.get(pin.name, pin.name))
        name = f"{pin.name}{extras[1] or '' if extras else ''}"
        if pin.path:
            lines[pin.name] = f"{name} @ {_wheel(pin, cache).as_uri()}"
        else:
            lines[pin.name] = f"{name}=={pin.version}"
    return [*lines.values()]


def _moved(own: Path, lock: Path, pins: Sequence[Pin]) -> Iterator[str]:
    """Yield a note for each package that has another version than in the SUT's own lock, and for
    one that a moved one imports.
    """
    before, after = map(_versions, (own, lock))
    for name in sorted(locking.IMPORTED_BEFORE.keys() & after.keys() - before.keys()):
        yield f"--with added {name}, which that KerasHub imports"
    for name in sorted(before.keys() & after.keys() - {pin.name for pin in pins}):
        if after[name] <= before[name]:
            continue
        here, there = (" or ".join(sorted(versions)) for versions in (after[name], before[name]))
        yield f"--with moved {name} to {here}; the lock has {there}"


def _versions(lock: Path) -> dict[str, set[str]]:
    """Distribution → its versions in a lock, which may have several for several Pythons."""
    found: dict[str, set[str]] = {}
    for block in environments.lock_blocks(lock):
        for name, version in re.findall(rf"^({NAME})==([^\s;]+)", block):
            found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def name_of(requirement: str) -> str:
    """The distribution that a requirement names, in the normal form."""
    match = re.match(NAME, requirement)
    assert match
    return str(canonicalize_name(match[0]))


def _wheel(pin: Pin, cache: Path) -> Path:
    """The wheel of a build. A source folder is built once for each state of its files."""
    assert pin.path
    if pin.path.is_file():
        return pin.path
    folder = cache / f"{pin.name}-wheel-{pin.digest}"
    if not any(folder.glob("*.whl")):
        build = [*environments.installer(), "build", "-q", "--wheel", "-o", str(folder)]
        _uv([*build, str(pin.path)], f"the wheel of {pin.path}")
    return next(folder.glob("*.whl"))
