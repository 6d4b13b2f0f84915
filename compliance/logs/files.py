"""Reads files that may be missing, cut, of another kind or malicious. Each such problem becomes a
sentence.

Sizes are bounded, pickles are never read, and links below the audited directory are not followed.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from compliance.logs import strict_json
from compliance.logs.strict_json import Document
from formats import bounds, reading
from formats.bounds import TooLarge
from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import Result

T = TypeVar("T")

# The errors that damaged content causes in the system, the standard library's parsers, numpy and
# arithmetic.
DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    AttributeError,
    EOFError,
    SyntaxError,
    RuntimeError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tokenize.TokenError,
)
_LARGEST_BYTES = 64 << 20
_LARGEST_TEXT = 16 << 20
_BLOCK = 1 << 20
# No real submission comes near these limits.
_DEEPEST_FOLDER = 32
_MOST_ENTRIES = 200_000
# An .npz may unpack to at most so many bytes, and to at most so many times its size. The harness
# writes it uncompressed.
_LARGEST_ARRAYS = 8 << 30
_LARGEST_RATIO = 16
_LOG = "mlperf_log_"
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""The suffixes of compressed files, which are not read."""


class UnsafeInput(ValueError):
    """The error for a file that is not read at all. The message is a whole sentence."""


@dataclass(frozen=True, eq=False)
class _Confines:
    """The folder that is audited, and what was found out about the folders below it. Nobody changes
    them meanwhile, and many checks list and open the same ones.

    Attributes:
        links: folder → the first link on the way down to it.
        listings: folder → its entries.
    """

    root: Path
    links: dict[Path, Path | None] = field(default_factory=dict)
    listings: dict[Path, list[Entry]] = field(default_factory=dict)


_confines: ContextVar[_Confines | None] = ContextVar("confines", default=None)


@contextmanager
def confined(root: Path) -> Iterator[None]:
    """Within this context nothing below `root` is read through a link, because a link may lead
    anywhere. `root` itself may be a link. Folders are listed once, and the files of a run are
    parsed once. A context of the same root within it shares them.
    """
    outer = _confines.get()
    token = _confines.set(outer if outer and outer.root == root else _Confines(root))
    try:
        yield
    finally:
        _confines.reset(token)


def attempt(read: Callable[[Path], T], path: Path) -> tuple[T | None, str]:
    """(the result of `read`, "") or (None, a sentence that says why the file could not be read)."""
    try:
        return read(_ordinary(path)), ""
    except FileNotFoundError:
        return None, f"{path.name} is missing{packed(path)}"
    except OSError as e:
        return None, f"{path.name} cannot be read ({e.strerror or type(e).__name__})"
    except (UnsafeInput, TooLarge) as e:
        return None, str(e)
    except DAMAGE as e:
        return None, f"{path.name} is damaged ({_first_line(e)})"


def maybe(read: Callable[[Path], T], path: Path) -> T | None:
    """The result of `read`; None if the file could not be read."""
    return attempt(read, path)[0]


def packed(path: Path) -> str:
    """The end of a sentence about a missing file, if a compressed one is in its place, or a log
    whose name has a prefix or a suffix by LoadGen's settings.
    """
    for suffix in PACKED:
        if (other := path.with_name(path.name + suffix)).is_file():
            return f": unpack {other.name}"
    kind = path.stem.removeprefix(_LOG)
    if kind == path.stem:
        return ""
    named = re.compile(rf"(.*{_LOG})?{kind}.*|.*{kind}", re.DOTALL)
    for other in listed(path.parent):
        if other.suffix == path.suffix and named.fullmatch(other.stem) and other.is_file():
            return f": rename {other.name}, whose name has a prefix or a suffix"
    return ""


def reckon(compute: Callable[[], T]) -> tuple[T | None, str]:
    """(the result of `compute`, "") or (None, why it cannot be computed)."""
    try:
        return compute(), ""
    except DAMAGE as e:
        return None, _first_line(e)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:120]


def _ordinary(path: Path) -> Path:
    """The path itself, if it may be opened. Raises UnsafeInput for a link (see `confined`), and for
    a pipe or device.
    """
    link, is_confined = _link_above(path)
    if link:
        raise UnsafeInput(f"{path.name} is not read, because {link.name} is a link")
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            if is_confined:
                raise UnsafeInput(f"{path.name} is a link: it is not read")
            mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UnsafeInput(f"{path.name} is neither a file nor a folder")
    return path


def _link_above(path: Path) -> tuple[Path | None, bool]:
    """(the first link on the way from the confining root down to the folder of `path`, whether
    `path` is below a confining root).
    """
    confines = _confines.get()
    if confines is None or path == confines.root:
        return None, False
    parent = path.parent
    if parent not in confines.links:
        if not path.is_relative_to(confines.root):
            return None, False
        confines.links[parent] = link_to(parent)
    return confines.links[parent], True


def link_to(path: Path) -> Path | None:
    """The first link on the way from the confining root down to `path`; None if there is no link or
    no confining root.
    """
    link, is_confined = _link_above(path)
    return link or (path if is_confined and path.is_symlink() else None)


def stated_size(path: Path) -> int:
    """The bytes of a file. Raises OSError if it is not there."""
    return path.stat().st_size


def size(path: Path) -> int:
    """The bytes of a file; 0 if it is not there, or may not be read."""
    return maybe(stated_size, path) or 0


def text(path: Path, errors: str = "strict") -> str:
    """The content of a text file of at most 16 MiB, UTF-8.

    Args:
        errors: the treatment of other bytes, as in `bytes.decode`.
    """
    return _bounded(path, _LARGEST_TEXT).decode("utf-8", errors)


def whole_bytes(path: Path) -> bytes:
    """The content of a file of at most 64 MiB."""
    return _bounded(path, _LARGEST_BYTES)


def _bounded(path: Path, most: int) -> bytes:
    size = min(_ordinary(path).stat().st_size, most)
    bounds.check(path.name, size, bounds.JSON if most == _LARGEST_TEXT else bounds.PLAIN)
    with path.open("rb") as f:
        content = f.read(most + 1)
    if len(content) > most:
        raise ValueError(f"larger than {most >> 20} MiB")
    return content


def json_object(path: Path) -> Document:
    """The object in a JSON file of at most 16 MiB. Raises ValueError if the file contains none; see
    strict_json.
    """
    value = strict_json.parse(_bounded(path, _LARGEST_TEXT).decode("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def yaml_object(path: Path) -> Document:
    """The mapping in a YAML file. Raises ValueError if the file contains none; see strict_yaml."""
    from compliance.logs import strict_yaml  # most commands read no YAML

    value = strict_yaml.parse(text(path))
    if not isinstance(value, dict):
        raise ValueError("not a YAML mapping")
    return value


def record(path: Path) -> Record:
    """The content of a record.json. Raises ValueError with one sentence if it is no record."""
    return reading.convert(parsed(path), Record)


def result(path: Path) -> Result:
    """The content of a result.json. Raises ValueError with one sentence if it is no result."""
    return reading.convert(json_object(path), Result)


def job(path: Path) -> Job:
    """The content of a job.json. Raises ValueError with one sentence if it is no job."""
    return reading.convert(parsed(path), Job)


def outcome(path: Path) -> WorkerOutcome:
    """The content of an outcome.json. Raises ValueError with one sentence if it is no outcome."""
    return reading.convert(parsed(path), WorkerOutcome)


def parsed(path: Path) -> Document:
    """`json_object` of a file of a run, which many checks read. Nobody changes the value."""
    confines = _confines.get()
    return _parsed(confines, path) if confines else json_object(path)


@lru_cache(maxsize=32)  # a run directory has fewer of them
def _parsed(confines: _Confines, path: Path) -> Document:
    return json_object(path)


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz by its name. Raises ValueError for a pickle, and for a file that
    unpacks to more bytes than allowed.
    """
    # np.load leaves the file open if the archive is damaged.
    with _ordinary(path).open("rb") as f:
        with zipfile.ZipFile(f) as archive:
            most = min(_LARGEST_ARRAYS, _BLOCK + _LARGEST_RATIO * path.stat().st_size)
            bounds.check(path.name, unpacked_bytes(archive, most), bounds.ARRAYS)
        f.seek(0)
        archived = np.load(f, allow_pickle=False)
        if not isinstance(archived, np.lib.npyio.NpzFile):
            raise ValueError("not an .npz file")
        return dict(archived)


def unpacked_bytes(archive: zipfile.ZipFile, most: float = math.inf) -> int:
    """The bytes of all arrays of an .npz, as it declares them. Arrays are not unpacked for this.

    Raises ValueError if they are more than `most`, or if an array is larger than its member.
    """
    total = 0
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("it is compressed by a method that numpy does not use")
        total += member.file_size
        if total > most:
            raise ValueError(f"it unpacks to at least {total} bytes; at most {most} are allowed")
        with archive.open(member) as f:
            _check_header(f, member.file_size)
    return total


def array(path: Path) -> np.ndarray:
    """The array of an .npy. Raises ValueError for a pickle, and for a file over 8 GiB."""
    with _ordinary(path).open("rb") as f:
        size = path.stat().st_size
        if size > _LARGEST_ARRAYS:
            raise ValueError(f"{size} bytes; at most {_LARGEST_ARRAYS} are allowed")
        bounds.check(path.name, size, bounds.ARRAYS)
        _check_header(f, size)
        f.seek(0)
        loaded = np.load(f, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            raise ValueError("not an .npy file")
        return loaded


def _check_header(f: IO[bytes], size: int) -> None:
    """Raises ValueError if an array's header declares more than `size` bytes, because numpy would
    allocate them before it reads.
    """
    read = np.lib.format.read_array_header_2_0
    if np.lib.format.read_magic(f) == (1, 0):
        read = np.lib.format.read_array_header_1_0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            shape, _, dtype = read(f)
        except UserWarning:
            raise ValueError("its header is that of Python 2, which nothing here uses") from None
    count = math.prod(shape)
    if any(n < 0 for n in shape) or count * max(1, dtype.itemsize) > size:
        raise ValueError(f"an array of {dtype} {shape} is declared in {size} bytes")


def sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with _ordinary(path).open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def bounded_sha256(path: Path, most: int) -> str:
    """The sha256 of a file of at most `most` bytes. Raises UnsafeInput for a larger one, because a
    large sparse file costs its forger nothing.
    """
    if (size := path.stat().st_size) > most:
        raise UnsafeInput(
            f"{path.name} has {size} bytes; at most {most} are hashed: put the run's own file there"
        )
    return sha256(path)


def is_sha256(value: Any) -> bool:
    """Whether `value` is a sha256 in lower-case hexadecimal."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


WORKER_SOURCE = ("scenarios", "sut", "formats")


def source_digest(root: Path) -> str:
    """The sha256 over the names and bytes of the Python files below `root` that a worker runs.
    Raises OSError if one cannot be read.
    """
    paths: list[Path] = []
    for folder in WORKER_SOURCE:
        paths += [path for path in under(root / folder) if path.name.endswith(".py")]
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(f"{path.relative_to(root)}\n".encode() + whole_bytes(path))
    return total.hexdigest()


def ends(path: Path, count: int) -> tuple[bytes, bytes, int]:
    """(the first `count` bytes, the last `count` bytes, the size) of a file."""
    size = path.stat().st_size
    with _ordinary(path).open("rb") as f:
        first = f.read(count)
        f.seek(max(0, size - count))
        return first, f.read(count), size


class Entry(NamedTuple):
    """An entry of a folder. A link is no folder, wherever it leads.

    Attributes:
        size: the bytes of a file; None: it is no file.
    """

    path: Path
    is_folder: bool
    is_link: bool
    size: int | None


@dataclass(frozen=True)
class Walk:
    """The content of a folder and its subfolders.

    Attributes:
        found: every entry below the folder, sorted within each folder; links are not followed.
        problem: why `found` is not complete; else empty.
        unread: the folders that could not be listed, each with the system's reason.
    """

    found: tuple[Entry, ...]
    problem: str
    unread: tuple[tuple[Path, str], ...] = ()

    @property
    def entries(self) -> list[Path]:
        """The paths of all entries."""
        return [entry.path for entry in self.found]


def walk(folder: Path) -> Walk:
    """Lists a folder and its subfolders, at most 200,000 entries and at most 32 folders deep."""
    found: list[Entry] = []
    unread: list[tuple[Path, str]] = []
    problem = ""
    waiting = [(folder, 0)]
    while waiting:
        here, depth = waiting.pop()
        if depth == _DEEPEST_FOLDER:
            problem = f"its folders are more than {_DEEPEST_FOLDER} deep; only those were audited"
            continue
        try:
            entries = _listed(here if depth else _ordinary(here))
        except (UnsafeInput, FileNotFoundError, NotADirectoryError):
            continue
        except OSError as e:
            unread.append((here, e.strerror or type(e).__name__))
            continue
        most = _MOST_ENTRIES - len(found)
        found += entries[:most]
        if len(entries) > most:
            problem = f"it has more than {_MOST_ENTRIES} entries; only those were audited"
            return Walk(tuple(found), problem)
        waiting += [(entry.path, depth + 1) for entry in reversed(entries) if entry.is_folder]
    return Walk(tuple(found), problem, tuple(unread))


def _listed(folder: Path) -> list[Entry]:
    """The entries of a folder in order, at most one more than any walk takes."""
    confines = _confines.get()
    if confines and folder in confines.listings:
        return confines.listings[folder]
    with os.scandir(folder) as scan:
        found = sorted(islice(scan, _MOST_ENTRIES + 1), key=lambda entry: entry.name)
    entries = []
    for entry in found:
        status = entry.stat(follow_symlinks=False)
        mode = status.st_mode
        size = status.st_size if stat.S_ISREG(mode) else None
        path = folder / entry.name
        entries.append(Entry(path, stat.S_ISDIR(mode), stat.S_ISLNK(mode), size))
    if confines:
        confines.listings[folder] = entries
    return entries


def listed(folder: Path) -> list[Path]:
    """The entries of one folder, in order; empty if it cannot be listed."""
    entries = maybe(_listed, folder) or ()
    return [entry.path for entry in entries][:_MOST_ENTRIES]


def under(folder: Path) -> Iterator[Path]:
    """Every path below a folder; see `walk`."""
    return iter(walk(folder).entries)
