"""Finds the parts of a folder that are audited one by one: run directories, submissions, bare
folders of LoadGen's logs. Recognises the round of each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from compliance import rules
from compliance.logs import files

_DETAIL = "mlperf_log_detail.txt"
_LOGS = ("mlperf_log_summary.txt", _DETAIL, *(_DETAIL + suffix for suffix in files.PACKED))
# The files at the top of a run directory, or of an unfinished one.
_OF_A_RUN = ("record.json", "raw", "reference.npz", "result.json")
# The files of a result of mlcommons/endpoints, below the folder of its scenario.
_OF_ENDPOINTS = ("performance/result_summary.json", "accuracy/accuracy_results.json")
# The seeds and LoadGen's version are within the first lines of a log.
_HEAD_BYTES = 1 << 16
_MOST_LOGS = 100
_SEED = re.compile(rb'"key": "(?:requested|effective)_(\w+_rng_seed)", "value": (\d{1,20})')
_VERSION = re.compile(rb'"key": "loadgen_version", "value": "(\d{1,3}(?:\.\d{1,3}){1,2}) @')


class Kind(StrEnum):
    """What a folder is."""

    RUN = "a run directory"
    SUBMISSION = "a submission"
    SUBMITTER = "a submitter's folder"
    ENDPOINTS = "a result of mlcommons/endpoints"
    LOGS = "a folder of LoadGen's logs"


@dataclass(frozen=True)
class Unit:
    """A folder that is audited as a whole."""

    kind: Kind
    folder: Path


def find(directory: Path, entries: Iterable[Path]) -> list[Unit]:
    """The units of a directory: itself, or the outermost ones below it, in order.

    Args:
        entries: every path below the directory (`files.walk`).
    """
    paths = {directory, *entries}
    units: list[Unit] = []
    for folder in sorted(_candidates(directory, paths)):
        inside = any(folder.is_relative_to(unit.folder) for unit in units[-1:])
        kind = None if inside else _kind(folder, paths, top=folder == directory)
        if kind:
            units.append(Unit(kind, folder))
    return units


def _candidates(directory: Path, paths: set[Path]) -> set[Path]:
    """Every folder around a path, down from `directory`."""
    around = {directory}
    for path in paths - {directory}:
        around.add(path.parent)
    return around


def _kind(folder: Path, paths: set[Path], *, top: bool) -> Kind | None:
    divisions = rules.load(rules.CURRENT).layout.divisions
    if folder / "record.json" in paths:
        return Kind.RUN
    if top and any(folder / name in paths for name in _OF_A_RUN):
        return Kind.RUN
    own = folder.name in divisions and any(_has_results(path, paths) for path in _below(folder))
    if own or any(_is_division(folder / name, paths, top) for name in divisions):
        return Kind.SUBMISSION
    if _has_results(folder, paths):
        return Kind.SUBMITTER
    if any(folder / name in paths for name in _OF_ENDPOINTS):
        return Kind.ENDPOINTS
    if any(folder / name in paths for name in _LOGS):
        return Kind.LOGS
    return None


def _is_division(folder: Path, paths: set[Path], top: bool) -> bool:
    """Whether a folder with the name of a division is one. In the audited directory itself the name
    is enough.
    """
    if folder not in paths:
        return False
    return top or any(_has_results(path, paths) for path in _below(folder))


def _has_results(folder: Path, paths: set[Path]) -> bool:
    """Whether a folder has results/<system>/<benchmark>/<scenario>/ with a folder in it."""
    if folder / "results" not in paths:
        return False
    tests = ("performance", "accuracy")
    return any(
        scenario / test in paths
        for system in _below(folder / "results")
        for benchmark in _below(system)
        for scenario in _below(benchmark)
        for test in tests
    )


def _below(folder: Path) -> list[Path]:
    return files.listed(folder)


def recognised_round(unit: Unit) -> tuple[str, str]:
    """(the round of a unit, how it was recognised). The round is the current one if neither
    record.json nor a log shows it.
    """
    recorded = recorded_round(unit.folder)
    if recorded:
        return recorded, "by record.json"
    seeds: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    earlier: Counter[str] = Counter()
    for path in _details(unit.folder):
        head, _ = files.attempt(lambda path: files.ends(path, _HEAD_BYTES)[0], path)
        seeds.update(_rounds_of_seeds(head or b""))
        versions.update(_rounds_of_version(head or b""))
        earlier.update(filter(rules.is_earlier, _versions(head or b"")))
    for how, votes in (("by the seeds", seeds), ("by LoadGen's version", versions)):
        if votes:
            return votes.most_common(1)[0][0], f"{how} in the logs"
    if earlier:
        version, _ = earlier.most_common(1)[0]
        why = f"as the earliest round that has rules, because LoadGen {version} is older"
        return rules.rounds()[0], why
    return rules.CURRENT, "as the newest round, because no log has the seeds or the LoadGen of one"


def recorded_round(directory: Path) -> str | None:
    """The round that a run directory's record.json names; None if it names none."""
    record, _ = files.attempt(files.json_object, directory / "record.json")
    round = (record or {}).get("round")
    return round if round is None or isinstance(round, str) else repr(round)


def _details(folder: Path) -> list[Path]:
    paths = [path for path in files.under(folder) if path.name == _DETAIL]
    return paths[:_MOST_LOGS]


def _rounds_of_seeds(head: bytes) -> Iterator[str]:
    for key, value in _SEED.findall(head):
        for round in rules.rounds():
            if rules.load(round).seeds.get(key.decode()) == int(value):
                yield round


def _rounds_of_version(head: bytes) -> Iterator[str]:
    """Yield the round that released the log's version of LoadGen."""
    for version in _versions(head):
        for round in rules.rounds():
            if version in rules.load(round).versions:
                yield round


def _versions(head: bytes) -> list[str]:
    return [version.decode() for version in _VERSION.findall(head)]
