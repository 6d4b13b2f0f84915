"""Reading what may be missing, cut, empty or something else: the one place where the audit turns that into a sentence."""

from __future__ import annotations

import hashlib
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

# What the parsers of the standard library and numpy raise on damaged content.
_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    SyntaxError,
    RecursionError,
    NotImplementedError,
    MemoryError,
    RuntimeError,
    OverflowError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tokenize.TokenError,
)
_LARGEST_TEXT = 64 << 20
_BLOCK = 1 << 20


def attempt(read: Callable[[Path], T], path: Path) -> tuple[T | None, str]:
    """(what was read, "") or (None, why not)."""
    try:
        return read(_ordinary(path)), ""
    except FileNotFoundError:
        return None, f"{path.name} is missing"
    except OSError as e:
        return None, f"{path.name} cannot be read ({e.strerror or type(e).__name__})"
    except _DAMAGE as e:
        return None, f"{path.name} is damaged ({(str(e) or type(e).__name__).splitlines()[0][:120]})"


def _ordinary(path: Path) -> Path:
    """A pipe or a device is not opened: it might never answer, or never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path.name} is neither a file nor a folder")
    return path


def text(path: Path) -> str:
    if path.stat().st_size > _LARGEST_TEXT:
        raise ValueError("larger than 64 MiB")
    return path.read_text(encoding="utf-8")


def json_object(path: Path) -> dict[str, Any]:
    value = json.loads(text(path))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz; never a pickle."""
    with _ordinary(path).open("rb") as f:  # np.load leaves the file open where the archive is damaged
        found = np.load(f, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise ValueError("not an .npz file")
        return dict(found)


def array(path: Path) -> np.ndarray:
    with _ordinary(path).open("rb") as f:
        found = np.load(f, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise ValueError("not an .npy file")
        return found


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with _ordinary(path).open("rb") as f:
        while block := f.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


WORKER_SOURCE = ("scenarios", "sut")


def source_digest(root: Path) -> str:
    """sha256 over the names and bytes of the Python files a worker runs, below `root`. Raises OSError where one cannot be read."""
    total = hashlib.sha256()
    for path in sorted(p for folder in WORKER_SOURCE for p in (root / folder).rglob("*.py")):
        total.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return total.hexdigest()


def ends(path: Path, count: int) -> tuple[bytes, bytes, int]:
    """The first and the last `count` bytes, and the size."""
    size = path.stat().st_size
    with _ordinary(path).open("rb") as f:
        first = f.read(count)
        f.seek(max(0, size - count))
        return first, f.read(count), size


def whole_bytes(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST_TEXT:
        raise ValueError("larger than 64 MiB")
    return path.read_bytes()


def under(folder: Path) -> Iterator[Path]:
    """Every entry below, links not followed, in order; a folder that cannot be listed ends there."""
    listed, _ = attempt(lambda p: sorted(p.iterdir()), folder)
    for entry in listed or []:
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from under(entry)
