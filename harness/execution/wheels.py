"""Find and check the wheels of a bundle before anything is installed. `./run.sh bundle` writes a
bundle for a machine without a network.

Standard library only: run.sh makes the core environment from a bundle before any package is
installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formats.writing import read_json
from harness.errors import EnvironmentFailure

MANIFEST = "bundle.json"
FOLDER = "wheels"
BESIDE = "beside"
"""The environment of a bundle that adds packages to a user's own interpreter."""


def bundle(root: Path) -> Path | None:
    """The bundle in use: the source tree itself if it is one, else the first folder of
    PIP_FIND_LINKS that is one. None: there is none.
    """
    folders = [root, *map(Path, os.environ.get("PIP_FIND_LINKS", "").split())]
    return next((folder for folder in folders if (folder / MANIFEST).is_file()), None)


def no_index() -> bool:
    """Return whether pip's variable PIP_NO_INDEX forbids a package index."""
    return os.environ.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes", "on")


def manifest(folder: Path) -> dict[str, Any]:
    """The content of bundle.json. Raises EnvironmentFailure if it cannot be read."""
    try:
        document: dict[str, Any] = read_json(folder / MANIFEST)
    except (OSError, ValueError) as e:
        raise EnvironmentFailure(
            f"{folder / MANIFEST} cannot be read ({e}): make the bundle again"
        ) from None
    return document


def check(folder: Path, environment: str) -> None:
    """Raises EnvironmentFailure with one sentence if this environment cannot be made from the
    bundle here.

    The bundle may be for another machine or Python, it may lack the environment, or a wheel may be
    missing or damaged. For the wheels of other environments only the sizes are checked, so that an
    incomplete copy is reported before the first environment is made.
    """
    document = manifest(folder)
    for name in document.get("without", ()) if environment != BESIDE else ():
        if importlib.util.find_spec(name) is None:
            raise EnvironmentFailure(
                f"the bundle {folder} leaves {name} to {sys.executable}, which lacks it: make one"
                " without --without"
            )
    again = "make the bundle again with the same command, which mends it"
    if reason := _misfit(document):
        raise EnvironmentFailure(f"the bundle {folder} {reason}")
    if environment not in document["environments"]:
        there = ", ".join(document["environments"])
        flag = "add --tests" if environment == "dev" else "name its SUT with --sut"
        raise EnvironmentFailure(
            f"the bundle {folder} holds {there} and not {environment}: {flag} when you make it"
        )
    own = document["environments"][environment]
    for name in dict.fromkeys(
        name for names in (own, *document["environments"].values()) for name in names
    ):
        path = folder / FOLDER / name
        file = document["files"][f"{FOLDER}/{name}"]
        if not path.is_file():
            raise EnvironmentFailure(f"the bundle {folder} lacks the wheel {name}: {again}")
        if path.stat().st_size != file["bytes"] or (name in own and sha256(path) != file["sha256"]):
            raise EnvironmentFailure(
                f"the wheel {path} is damaged (it is not the file that bundle.json names): {again}"
            )


def distributions(folder: Path, environment: str) -> set[str]:
    """The names of the bundle's packages for an environment, as an index spells them. Empty if it
    lacks the environment.
    """
    return {
        wheel.partition("-")[0].lower().replace("_", "-")
        for wheel in manifest(folder)["environments"].get(environment, ())
    }


def _misfit(document: Mapping[str, Any]) -> str | None:
    """Why the wheels do not fit this machine and this Python. None: they fit."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if document["python"] != version:
        return (
            f"is for Python {document['python']} and this is Python {version}: make one with"
            f" --python {version}"
        )
    here = f"{platform.machine()} with {' '.join(platform.libc_ver()) or 'an unknown C library'}"
    if not any(map(_runs, document["platforms"])):
        return (
            f"is for {' and '.join(document['platforms'])} and this machine is {here}: make one"
            " with --platform"
        )
    return None


def _runs(tag: str) -> bool:
    """Return whether wheels of a platform such as manylinux_2_28_x86_64 run here.

    They do if this machine has the same processor, and a glibc that is at least as new.
    """
    _, major, minor, processor = tag.split("_", 3)
    name, version = platform.libc_ver()
    own = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return name == "glibc" and processor == platform.machine() and own >= (int(major), int(minor))


def sha256(path: Path) -> str:
    """The SHA-256 of a file as hex digits."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def unpack_uv(folder: Path, directory: Path) -> str:
    """Unpack uv from its wheel into `directory`. → its path. Raises EnvironmentFailure if the
    bundle has no wheel of uv for this machine.
    """
    for wheel in sorted((folder / FOLDER).glob(f"uv-*{platform.machine()}.whl")):
        with zipfile.ZipFile(wheel) as archive:
            program = directory / "uv"
            program.write_bytes(
                archive.read(
                    next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
                )
            )
        program.chmod(0o755)
        return str(program)
    raise EnvironmentFailure(
        f"the bundle {folder} has no wheel of uv for {platform.machine()}: make it again"
    )
