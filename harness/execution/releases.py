"""The releases of a package that this Python can install: those on the registry, and the wheels in
folders of PIP_FIND_LINKS.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from platform import python_version

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from harness.errors import EnvironmentFailure, UsageError
from harness.execution import wheels

_REGISTRY = "https://pypi.org/simple"
_AS_JSON = {"Accept": "application/vnd.pypi.simple.v1+json"}
_PATIENCE_S = 60
_MOST_BYTES = 1 << 28


@lru_cache
def of(package: str) -> tuple[Version, ...]:
    """The releases of a package, ascending: without pre-releases, without those that were yanked,
    and only those with a wheel for this Python and system.

    Raises UsageError if there is none, and EnvironmentFailure if the registry does not answer.
    """
    name = canonicalize_name(package)
    files = list(_on_registry(name))
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        files += [path.name for path in Path(folder).glob("*.whl")]
    found = {version for file in files if (version := _release(file, name))}
    if not found:
        raise UsageError(
            f"the registry has no release of {package} with a wheel for Python {python_version()}"
        )
    return tuple(sorted(found))


def newest(package: str) -> Version:
    """The newest release."""
    return of(package)[-1]


def _release(file: str, name: str) -> Version | None:
    """The release of a wheel of this package. None: it is another file, or does not run here."""
    try:
        of_file, version, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    runs = of_file == name and not version.is_prerelease and not tags.isdisjoint(sys_tags())
    return Version(version.public) if runs else None


def _on_registry(name: str) -> Iterator[str]:
    """The files of a package by the registry's JSON (PEP 691), without those that were yanked or
    are for other Pythons.
    """
    if wheels.no_index():
        return
    base = os.environ.get("PIP_INDEX_URL", _REGISTRY).rstrip("/")
    request = urllib.request.Request(f"{base}/{name}/", headers=_AS_JSON)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            files = json.loads(answer.read(_MOST_BYTES))["files"]
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return
        raise EnvironmentFailure(f"the registry {base} refuses {name} ({e})") from None
    except (OSError, ValueError, KeyError) as e:
        raise EnvironmentFailure(f"the registry {base} does not answer with JSON ({e})") from None
    for file in files:
        if not file.get("yanked") and _is_for_here(file.get("requires-python")):
            yield file["filename"]


def _is_for_here(required: str | None) -> bool:
    try:
        return SpecifierSet(required or "").contains(python_version())
    except InvalidSpecifier:
        return True
