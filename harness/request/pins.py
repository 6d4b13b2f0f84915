"""`--with`: the packages of a cell's environment, and those of each cell of a sweep."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments, releases
from harness.execution.pins import DIGITS, NAME, Pin, name_of
from sut.registry import SUTS

_FLAG = "--with"
_FORMS = "give PACKAGE==VERSION, FILE.whl, or PACKAGE@PATH of a wheel or a source folder"
_LOCKED, _NEWEST = "locked", "newest"
"""Versions: that of the lock, and the newest release on the registry."""
_SOURCES = ("pyproject.toml", "setup.py")
_WRITTEN = re.compile(r"\..*|build|__pycache__|.*\.egg-info")
"""Hidden files, and folders that building and importing write."""


def spelt(text: str) -> str:
    """A value of `--with` in one spelling: `jax==0.10.1`, or `toy@/absolute/path`. Empty for the
    version `locked`. Raises UsageError.
    """
    if release := re.fullmatch(rf"({NAME})==([^/]+)", text):
        name, version = canonicalize_name(release[1]), release[2].strip()
        if version == _LOCKED:
            return ""
        if version == _NEWEST:
            return f"{name}=={releases.newest(name)}"
        try:
            return f"{name}=={Version(version)}"
        except InvalidVersion:
            raise UsageError(f"{_FLAG} {text}: {version} is no version, such as 3.15.1") from None
    if build := re.fullmatch(rf"({NAME})@(.+)", text):
        return f"{canonicalize_name(build[1])}@{Path(build[2]).absolute()}"
    if text.endswith(".whl"):
        return f"{_of_wheel(Path(text))[0]}@{Path(text).absolute()}"
    raise UsageError(f"{_FLAG} {text}: {_FORMS}")


def spelt_all(texts: Iterable[str]) -> tuple[str, ...]:
    """The values of one cell, sorted. Raises UsageError if a package is named twice."""
    values = sorted(filter(None, map(spelt, texts)))
    names = [name_of(value) for value in values]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{_FLAG} {name}: is given twice; a list in one flag, {_FLAG} {name}==A,B, gives a"
                " cell for each version"
            )
    return tuple(values)


def combinations(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """The values of each cell of a sweep. Each text is a list of versions or builds, and several
    lists give all combinations.
    """
    lists = []
    for text in texts:
        values = list[str]()
        for each in text.split(","):
            release = re.match(rf"({NAME})==", values[-1] if values else "")
            is_version = not re.search(r"==|@|\.whl$", each)
            values.append(f"{release[1]}=={each}" if release and is_version else each.strip())
        lists.append(values)
    return list(dict.fromkeys(map(spelt_all, product(*lists))))


def of_cell(texts: Iterable[str], python: str | None, sut: str, device: str) -> tuple[Pin, ...]:
    """The pins of a cell. A release must be of a package of the SUT's environment. A build may be a
    new package, because the user's own code may import it.

    `python`: the interpreter of --python. Raises UsageError.
    """
    pins = tuple(map(_pin, texts))
    if not pins:
        return ()
    spec = SUTS[sut]
    if python or spec.remote:
        why = "--python has packages of its own" if python else "an engine has its own"
        raise UsageError(f"{_FLAG} {pins[0].text}: {why}: leave {_FLAG} out")
    try:
        lock = environments.lock_files(spec.environment, device)[0]
    except EnvironmentFailure as e:
        raise UsageError(f"{_FLAG} {pins[0].text}: {e}") from None
    there = {environments.block_name(block) for block in environments.lock_blocks(lock)}
    for pin in pins:
        if pin.name not in there and pin.path is None:
            requirements = ", ".join(environments.required(lock))
            raise UsageError(
                f"{_FLAG} {pin.text}: the environment of {sut} has no {pin.name}, so its version"
                f" would change nothing: leave it out (it requires {requirements})"
            )
    return pins


def _pin(text: str) -> Pin:
    """The pin of a spelt value. Raises UsageError for a build that cannot be read."""
    name, at, path = text.partition("@")
    if at:
        return _of_build(name, Path(path))
    name, _, version = text.partition("==")
    return Pin(name=name, version=version)


def _of_wheel(path: Path) -> tuple[str, str]:
    """(name, version) of a wheel. Raises UsageError."""
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as e:
        raise UsageError(f"{_FLAG} {path}: {e}") from None
    return str(name), str(version)


def _of_build(name: str, path: Path) -> Pin:
    """The pin of a wheel or a source folder. Raises UsageError."""
    said = f"{_FLAG} {name}@{path}"
    if path.is_dir():
        if not any((path / each).exists() for each in _SOURCES):
            raise UsageError(f"{said}: the folder has no {' and no '.join(_SOURCES)}")
        return Pin(name=name, path=path, digest=_digest_of_folder(path))
    if not path.is_file():
        raise UsageError(f"{said}: there is no such file or folder")
    of_file, version = _of_wheel(path)
    if of_file != name:
        raise UsageError(f"{said}: is a wheel of {of_file}: give {of_file}@{path}")
    digest = _digest_of_file(path, path.stat().st_mtime_ns)
    return Pin(name=name, version=version, path=path, digest=digest)


@lru_cache
def _digest_of_file(path: Path, changed_ns: int) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()[:DIGITS]


def _digest_of_folder(path: Path) -> str:
    """The digest of the names and contents of all source files: no hidden ones, nothing that
    building or importing wrote.
    """
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        if file.is_file() and not any(map(_WRITTEN.fullmatch, parts)):
            digest.update(f"{'/'.join(parts)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]
