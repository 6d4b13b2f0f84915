"""`./run.sh clean` lists the contents of the cache with their sizes, and removes them with --yes.
Run directories are never touched.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from harness import locks, terminal
from harness.request.flags import Parser, add_common, known_name
from sut.devices import DEVICES

_KINDS = {
    "environments": "made again from their locks, over the network; --with is resolved again",
    "checkpoints": (
        "seeded weights are drawn again; of your own weights only links and copies are here"
    ),
    "inputs": "made again in seconds",
    "references": "computed again by the reference's framework",
    "compiled": "compiled again by JAX and torch",
    "converted": "converted again by ONNX Runtime's and OpenVINO's tools",
    "conformance": "what an interrupted `conformance` has computed",
    "user-files": "made again by Transformers, in seconds",
    "limits": "measured again by `doctor --limits`",
}
"""Folder of the cache → the cost of its removal."""
_OWN = re.compile(
    rf"dev|.+-({'|'.join(DEVICES)})|.+-[0-9a-f]{{12}}-({'|'.join(DEVICES)})\.txt"
    r"|.+-([0-9a-f]{12}(-[0-9a-f]{8})?|[0-9a-f]{16})(\..+)?"
)
"""Names that the harness gives. The folder of --cache may also contain a user's own `checkpoints`
or `inputs`.
"""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    parser = Parser(
        "clean",
        description=(
            "Show the sizes of the files in the cache, or remove them. Run directories and the"
            " environment of the harness always stay."
        ),
    )
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(_KINDS)}; default: all"
    )
    parser.add_argument("--yes", action="store_true", help="remove them")
    add_common(parser)
    flags = parser.parse_args(arguments)
    named = [known_name(kind, _KINDS, "clean") for kind in flags.kinds]
    kinds = list(dict.fromkeys(named or _KINDS))
    # No cell may be measured while they are removed.
    lock = locks.machine(terminal.Terminal(flags.quiet).warn, "./run.sh clean")
    with lock if flags.yes else nullcontext():
        return _clean(flags.cache.absolute(), kinds, flags.json, remove=flags.yes)


def _clean(cache: Path, kinds: list[str], as_json: bool, remove: bool) -> int:
    entries = [(kind, path, _bytes(path)) for kind in kinds for path in _entries(cache / kind)]
    if remove:
        for _, path, _ in entries:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    total = sum(size for _, _, size in entries)
    if as_json:
        documents = [
            {"kind": kind, "path": str(path), "bytes": size} for kind, path, size in entries
        ]
        terminal.document({"entries": documents, "bytes": total, "removed": remove})
        return 0
    entries.sort(key=lambda entry: -entry[2])
    rows = [
        [kind, path.name, f"{size / 1e6:,.1f} MB", _KINDS[kind]] for kind, path, size in entries
    ]
    terminal.table(f"Cache {cache}", ("kind", "name", "size", "what its removal costs"), rows)
    end = "removed" if remove else "nothing was removed; --yes removes them"
    terminal.line(f"{total / 1e9:.2f} GB: {end}")
    return 0


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a cache folder whose names the harness gives.

    Locks are left out, because other processes may wait at them. The core environment is left out,
    because it runs this command.
    """
    for path in sorted(folder.glob("*")):
        if path.suffix != ".lock" and _OWN.fullmatch(path.name):
            yield path


def _bytes(path: Path) -> int:
    """The bytes of a path's files. A link counts only itself, because its target is not in the
    cache.
    """
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return sum(file.lstat().st_size for file in files if file.is_symlink() or file.is_file())
