"""This module finds and fetches the wheels of a bundle: those that environments need, for one Python and one platform.

uv, which also installs the environments, resolves each lock for the target. It names every file, its size and its sha256. This module
fetches the files itself, so that a download that was broken off goes on where it was.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging import tags
from packaging.utils import parse_wheel_filename

from harness.errors import EnvironmentFailure
from harness.execution import wheels
from harness.execution.environments import block_name, blocks_of, installer, lock_blocks, sources
from sut.registry import COMES_WITH_TORCH

_CHUNK = 1 << 20
_TIMEOUT_S = 60
_TRIES = 5
_GLIBC_OF = {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5)}

# What a machine that only measures can do without: figures of a report, and the hub that the harness never downloads from.
_NOT_FOR_MEASURING = frozenset(
    ("matplotlib", "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "python-dateutil", "tzdata", "hf-xet")
)

_AT_ONCE, _HEAD_S = 8, 10


@dataclass(frozen=True)
class Wheel:
    """A file that an index or a folder has. `bytes` 0: the index does not tell."""

    filename: str
    url: str
    bytes: int
    sha256: str

    @property
    def local(self) -> Path | None:
        """The file itself, where it lies on this machine."""
        parts = urlsplit(self.url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None


def for_measuring(lock: Path, without: Iterable[str] = ()) -> str:
    """A lock without what only reports need, and without what the Python there has."""
    return "".join(block for block in lock_blocks(lock) if block_name(block) not in {*_NOT_FOR_MEASURING, *without})


def shared(locks: Sequence[Path], without: Iterable[str] = ()) -> str:
    """Return what several locks have in common, as a lock. For the Keras 3 environments this is Keras' own part, without a framework."""
    names = set.intersection(*({block_name(block) for block in lock_blocks(lock)} for lock in locks))
    return "".join(block for block in lock_blocks(locks[0]) if block_name(block) in names - {*_NOT_FOR_MEASURING, *without})


def beside_torch(lock: Path, there: str, without: Iterable[str] = ()) -> str:
    """Return a PyTorch lock without PyTorch itself, its own requirements, and what another lock's text (`there`) names."""
    named = {block_name(block) for block in blocks_of(there)} | {*_NOT_FOR_MEASURING, *without}
    left = [block for block in lock_blocks(lock) if block_name(block) not in named]
    return "".join(block for block in left if not block_name(block).startswith(COMES_WITH_TORCH))


def resolve(locks: Sequence[Path], python: str, platform: str) -> list[Wheel]:
    """The wheels of an environment, one of each package that the target needs.

    Args:
        python: such as "3.12".
        platform: such as "manylinux_2_28_x86_64".

    Raises EnvironmentFailure where a package has no wheel for the target, or one whose hash its lock does not name.
    """
    fitting = _tags(python, platform)
    _, major, minor, processor = platform.split("_", 3)
    command = [*installer(), "pip", "compile", "-q", "--no-deps", "--only-binary", ":all:", "--no-header", "--format", "pylock.toml"]
    command += ["--python-version", python, "--python-platform", f"{processor}-manylinux_{major}_{minor}", *sources(list(locks))]
    process = subprocess.run([*command, *map(str, locks)], capture_output=True, text=True, check=False)
    if process.returncode:
        words = " ".join(process.stderr.split())
        raise EnvironmentFailure(f"no wheels for Python {python} on {platform}: {words}")
    hashes: dict[str, str] = {}
    for block in (block for lock in locks for block in lock_blocks(lock)):
        hashes[block_name(block)] = hashes.get(block_name(block), "") + block
    result = []
    for package in tomllib.loads(process.stdout)["packages"]:
        candidates = [(rank, w) for w in package.get("wheels", ()) if (rank := _rank(_filename(w), fitting)) is not None]
        if not candidates:
            raise EnvironmentFailure(f"{package['name']} {package['version']} has no wheel for Python {python} on {platform}")
        wheel = _wheel(min(candidates, key=lambda c: c[0])[1])
        block = hashes[package["name"]]
        if "--hash" in block and wheel.sha256 not in block:
            raise EnvironmentFailure(f"{wheel.filename}: its sha256 is not in the lock, so it is another file than the one that was locked")
        result.append(wheel)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_sized, result))


def _sized(wheel: Wheel) -> Wheel:
    """The wheel with its size, which its server is asked for where the index does not tell."""
    if wheel.bytes or wheel.local:
        return wheel
    request = urllib.request.Request(wheel.url, method="HEAD", headers=_credentials(wheel.url))
    try:
        with urllib.request.urlopen(request, timeout=_HEAD_S) as answer:
            return replace(wheel, bytes=int(answer.headers.get("Content-Length") or 0))
    except (OSError, ValueError):
        return wheel


def _filename(wheel: Any) -> str:
    return unquote(str(wheel.get("url") or wheel.get("path")).rpartition("/")[2])


def _wheel(entry: Any) -> Wheel:
    url = entry.get("url") or Path(entry["path"]).absolute().as_uri()
    wheel = Wheel(_filename(entry), url, entry.get("size", 0), entry.get("hashes", {}).get("sha256", ""))
    if not wheel.sha256:
        raise EnvironmentFailure(f"{wheel.filename}: the index that has it names no sha256, so nobody could tell a damaged file")
    return Wheel(wheel.filename, url, wheel.local.stat().st_size, wheel.sha256) if wheel.local else wheel


def _tags(python: str, platform: str) -> dict[tags.Tag, int]:
    """The tags of wheels that the target takes → their rank; the first is the best."""
    version = tuple(int(part) for part in python.split("."))
    _, major, minor, processor = platform.split("_", 3)
    names = [f"manylinux_{major}_{n}_{processor}" for n in range(int(minor), 4, -1)]
    names += [f"{name}_{processor}" for name, glibc in _GLIBC_OF.items() if glibc <= (int(major), int(minor))]
    every = [*tags.cpython_tags(version, platforms=names), *tags.compatible_tags(version, platforms=names)]
    return {tag: rank for rank, tag in enumerate(every)}


def _rank(filename: str, fitting: dict[tags.Tag, int]) -> int | None:
    return min((fitting[tag] for tag in parse_wheel_filename(filename)[3] if tag in fitting), default=None)


def missing(folder: Path, files: Iterable[Wheel]) -> list[Wheel]:
    """The wheels that are not in the folder yet, by their hashes."""
    return [wheel for wheel in files if not _there(folder / wheel.filename, wheel)]


def _there(path: Path, wheel: Wheel) -> bool:
    return path.is_file() and path.stat().st_size == (wheel.bytes or path.stat().st_size) and wheels.sha256(path) == wheel.sha256


def fetch(wheel: Wheel, folder: Path, advance: Callable[[int], None]) -> None:
    """Put the wheel into the folder. `advance` is told the bytes that came. A download that was broken off goes on.

    Raises EnvironmentFailure where it cannot be had, or where its bytes are not those that its hash names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{wheel.filename}.partial"
    if wheel.local:
        shutil.copyfile(wheel.local, partial)
        advance(wheel.bytes)
    else:
        _download(wheel, partial, advance)
    if wheels.sha256(partial) != wheel.sha256:
        partial.unlink()
        raise EnvironmentFailure(f"{wheel.filename}: what came is not the file of this sha256: the same command loads it anew")
    partial.replace(folder / wheel.filename)


def _download(wheel: Wheel, partial: Path, advance: Callable[[int], None]) -> None:
    advance(partial.stat().st_size if partial.exists() else 0)
    for tries_left in range(_TRIES - 1, -1, -1):
        try:
            for count in _append(wheel, partial):
                advance(count)
            return
        except (OSError, urllib.error.URLError) as e:
            if isinstance(e, urllib.error.HTTPError) and e.code == 416:  # nothing is left to send
                return
            if not tries_left:
                raise EnvironmentFailure(f"{wheel.filename} cannot be loaded ({e}): the same command goes on from here") from None


def _append(wheel: Wheel, partial: Path) -> Iterator[int]:
    """Ask for what is not there yet, and append it. → the size of each piece. A server that sends all from the start is obeyed."""
    there = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(wheel.url, headers={**({"Range": f"bytes={there}-"} if there else {}), **_credentials(wheel.url)})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        left = int(answer.headers.get("Content-Length") or 0)
        with partial.open("ab" if answer.status == 206 else "wb") as f:
            while piece := answer.read(_CHUNK):
                f.write(piece)
                left -= len(piece)
                yield len(piece)
        if left > 0:  # the library takes an answer that broke off for a short one
            raise OSError(f"the connection ended {left} bytes too early")


def _credentials(url: str) -> dict[str, str]:
    """Name and password of PIP_INDEX_URL, for files of the same host."""
    index = urlsplit(os.environ.get("PIP_INDEX_URL", ""))
    if not index.username or index.hostname != urlsplit(url).hostname:
        return {}
    word = f"{unquote(index.username)}:{unquote(index.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(word.encode()).decode()}"}
