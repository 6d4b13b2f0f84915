"""Reads and checks the rules of a round, compliance/rules/<round>.toml. A new round is a new file,
and `compliance.CURRENT` names it.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from compliance import CURRENT
from compliance.rules.tables import Rules

_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){1,2}", re.ASCII)
_FOLDER = Path(__file__).parent


def rounds() -> list[str]:
    """The rounds with rules, in order."""
    return sorted(path.stem for path in _FOLDER.glob("v*.toml"))


def is_earlier(version: str) -> bool:
    """Whether a version of LoadGen, such as 4.1, is older than those of every round with rules."""
    earliest = load(rounds()[0])
    number = version_number(version)
    return bool(number) and number < min(map(version_number, earliest.versions))


def version_number(version: str) -> tuple[int, ...]:
    """A version such as 5.1.2 as numbers, which sort; empty if the text is no version."""
    return tuple(map(int, version.split("."))) if _VERSION.fullmatch(version) else ()


@cache
def load(round: str = CURRENT) -> Rules:
    """The rules of a round. Raises ValueError for an unknown round, and for a file with a missing,
    unknown or wrong field.
    """
    if round not in rounds():
        raise ValueError(f"round {round}: its rules are not here; there are {', '.join(rounds())}")
    try:
        return msgspec.convert(_tables(round), Rules)
    except (KeyError, msgspec.ValidationError) as e:
        raise ValueError(
            f"{round}.toml: a field is missing, unknown or of another kind: {e}"
        ) from None


def _tables(round: str) -> dict[str, Any]:
    """The tables of a round, with those of LoadGen's releases among them: `file_sha1` has the
    digests of each version.
    """
    tables = _completed(round)
    loadgen = tables.pop("loadgen")
    shared = loadgen["file_sha1"]
    differences = loadgen.pop("file_sha1_differences", {})
    file_sha1 = {}
    for version in loadgen["versions"]:
        file_sha1[version] = shared | differences.get(version, {})
    return {**tables, **loadgen, "file_sha1": file_sha1}


def _completed(round: str) -> dict[str, Any]:
    """The tables of a round's file, completed from the round it `extends`.

    A missing table is taken whole from that round. A missing benchmark or compliance test is taken
    from it too, and so is a missing field of a compliance test.
    """
    with (_FOLDER / f"{round}.toml").open("rb") as f:
        tables = tomllib.load(f)
    if "extends" not in tables:
        return tables
    base = _completed(tables.pop("extends"))
    for name in tables.pop("without_benchmarks", ()):
        base["benchmarks"].pop(name, None)
    base["benchmarks"] |= tables.pop("benchmarks", {})
    for name, changes in tables.pop("compliance_tests", {}).items():
        base["compliance_tests"][name] |= changes
    return {**base, **tables}
