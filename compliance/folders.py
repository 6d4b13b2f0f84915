"""Finds what is audited in a folder: run directories, submissions, bare folders of LoadGen's logs.
Recognises the round of each, and finds the result folders of a submission and their files.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from compliance import rules
from compliance.logs import files
from compliance.logs.strict_json import lookup
from compliance.rules import Rules

_DETAIL = "mlperf_log_detail.txt"
_LOGS = ("mlperf_log_summary.txt", _DETAIL, *(_DETAIL + suffix for suffix in files.PACKED))
# The files at the top of a run directory, or of an unfinished one.
_OF_A_RUN = ("record.json", "raw", "reference.npz", "result.json")
# The files of a result of mlcommons/endpoints, below the folder of its scenario.
_OF_ENDPOINTS = (("performance", "result_summary.json"), ("accuracy", "accuracy_results.json"))
_CONFIGS = ("config.yaml", "config.yml")
_TESTS = ("performance", "accuracy")
# The seeds and LoadGen's version are within the first lines of a log.
_HEAD_BYTES = 1 << 16
_MOST_LOGS = 100
_SEED = re.compile(rb'"key": "(?:requested|effective)_(\w+_rng_seed)", "value": (\d{1,20})')
_VERSION = re.compile(rb'"key": "loadgen_version", "value": "(\d{1,3}(?:\.\d{1,3}){1,2}) @ ')


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
    names: dict[Path, set[str]] = {directory: set()}
    for path in entries:
        names.setdefault(path.parent, set()).add(path.name)
    kind = _kind(directory, names, top=True)
    if kind:
        return [Unit(kind, directory)]
    units: list[Unit] = []
    for folder in sorted(names):
        inside = any(folder.is_relative_to(unit.folder) for unit in units[-1:])
        kind = None if inside else _kind(folder, names, top=False)
        if kind:
            units.append(Unit(kind, folder))
    return units


Names = Mapping[Path, set[str]]
"""Folder → the names of its entries."""


def _kind(folder: Path, names: Names, *, top: bool) -> Kind | None:
    """What a folder is; None: nothing that is audited. In the audited directory itself (`top`) the
    name of a division or of one file of a run is enough.
    """
    own = names[folder]
    of_a_run = _OF_A_RUN if top else _OF_A_RUN[:1]
    if not own.isdisjoint(of_a_run):
        return Kind.RUN
    divisions = rules.load(rules.CURRENT).layout.divisions
    if folder.name in divisions and _has_submitters(folder, names):
        return Kind.SUBMISSION
    for name in own.intersection(divisions):
        if top or _has_submitters(folder / name, names):
            return Kind.SUBMISSION
    if _has_results(folder, names):
        return Kind.SUBMITTER
    for test, name in _OF_ENDPOINTS:
        if name in names.get(folder / test, ()):
            return Kind.ENDPOINTS
    return None if own.isdisjoint(_LOGS) else Kind.LOGS


def _has_submitters(division: Path, names: Names) -> bool:
    return any(_has_results(division / name, names) for name in names.get(division, ()))


def _has_results(folder: Path, names: Names) -> bool:
    """Whether a folder has results/<system>/<benchmark>/<scenario>/ with a folder in it."""
    level = [folder / "results"]
    for _ in range(3):
        level = [above / name for above in level for name in names.get(above, ())]
    return any(not names.get(scenario, set()).isdisjoint(_TESTS) for scenario in level)


def recognised_round(folder: Path) -> tuple[str, str]:
    """(the round of a unit's folder, how it was recognised). The round is the current one if
    neither record.json nor a log shows it.
    """
    if recorded := recorded_round(folder):
        return recorded, "by record.json"
    seeds: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    paths = list(files.under(folder))
    details = [path for path in paths if path.name == _DETAIL]
    begin = partial(files.ends, count=_HEAD_BYTES)
    read = [files.maybe(begin, path) for path in details[:_MOST_LOGS]]
    heads = b"\n".join(ends[0] for ends in read if ends)
    found = [version.decode() for version in _VERSION.findall(heads)]
    earlier = Counter(filter(rules.is_earlier, found))
    for round in rules.rounds():
        known = rules.load(round)
        versions.update(round for version in found if version in known.versions)
        for key, value in _SEED.findall(heads):
            seeds[round] += known.seeds.get(key.decode()) == int(value)
    found_by = {
        "by the seeds in the logs": +seeds,
        "by the seeds in config.yaml": _endpoints_seeds(paths),
        "by LoadGen's version in the logs": versions,
    }
    for how, votes in found_by.items():
        if votes:
            return votes.most_common(1)[0][0], how
    if earlier:
        version, _ = earlier.most_common(1)[0]
        why = f"as the earliest round that has rules, because LoadGen {version} is older"
        return rules.rounds()[0], why
    return rules.CURRENT, "as the newest round, because no log has the seeds or the LoadGen of one"


def _endpoints_seeds(paths: Iterable[Path]) -> Counter[str]:
    """Round → how many seeds in the configurations of mlcommons/endpoints are the round's."""
    votes: Counter[str] = Counter()
    configs = [path for path in paths if path.name in _CONFIGS]
    for path in configs[:_MOST_LOGS]:
        config = files.maybe(files.yaml_object, path)
        for known in map(rules.load, rules.rounds()):
            endpoints = known.endpoints
            for name, seed in endpoints.seeds.items() if known.round >= endpoints.since else ():
                stated = lookup(config, f"settings.runtime.{name}")
                votes[known.round] += stated == known.seeds[seed]
    return +votes


def recorded_round(directory: Path) -> str | None:
    """The round that a run directory's record.json names; None if it names none."""
    record = files.maybe(files.parsed, directory / "record.json")
    round = (record or {}).get("round")
    return round if round is None or isinstance(round, str) else repr(round)


@dataclass(frozen=True, kw_only=True)
class ResultFolder:
    """The folders of one scenario's results.

    Attributes:
        root: the audited directory; findings name files relative to it.
        division, system, benchmark: the names of the folders above it.
        submitter_folder: <division>/<submitter>.
        scenario: the name of its own folder, in the letter case of the rules.
        folder: results/<system>/<benchmark>/<scenario>.
        measurements: the folder of its user.conf, README.md and measurements, by the round's
            layout.
        compliance: the folder of its compliance tests.
        run: the run directory that contains the submission, with record.json and raw/; None: a bare
            submission.
    """

    root: Path
    division: str
    submitter_folder: Path
    system: str = ""
    benchmark: str = ""
    scenario: str
    folder: Path
    measurements: Path
    compliance: Path
    run: Path | None = None

    @property
    def name(self) -> str:
        """The folder's path, as findings name it."""
        return self.show(self.folder)

    def show(self, path: Path) -> str:
        """A path as findings name it: relative to the audited directory."""
        text = str(path)
        root = str(self.root)
        if text == root:
            return "."
        return text[len(root) + 1 :] if text.startswith(f"{root}/") else path.name

    def raw(self, test: str) -> Path | None:
        """The folder of a test's raw logs in the run directory; None: there is no run directory."""
        return self.run and self.run / "raw" / test


def result_folders(directory: Path, rules: Rules) -> list[ResultFolder]:
    """The result folders of a run directory, of a root that contains open/, closed/ or network/, or
    of such a division itself.
    """
    divisions = [directory / name for name in rules.layout.divisions]
    divisions = [division for division in divisions if division.is_dir()]
    around = directory
    if directory.name in rules.layout.divisions and not divisions:
        around = directory.parent
        divisions = [directory]
    run = around if any(os.path.lexists(around / name) for name in _OF_A_RUN) else None
    places: list[ResultFolder] = []
    for division in divisions:
        for submitter in subfolders(division):
            places += _submitter(around, division.name, submitter, rules, run)
    return places


def submitter_result_folders(submitter: Path, rules: Rules) -> list[ResultFolder]:
    """The result folders of one submitter's folder. Its division is the name of the folder around
    it, else the one in its system descriptions, else `open`.
    """
    names = [submitter.parent.name]
    for path in files.listed(submitter / "systems"):
        description = files.maybe(files.json_object, path)
        names.append(str((description or {}).get("division")).lower())
    division = next((name for name in names if name in rules.layout.divisions), "open")
    return list(_submitter(submitter, division, submitter, rules))


def folder_of_logs(folder: Path, conf: Path, scenario: str) -> ResultFolder:
    """A folder with the logs of one test and without a submission around it.

    Args:
        conf: the folder of its user.conf.
        scenario: the scenario in its log.
    """
    return ResultFolder(
        root=folder,
        division="open",
        submitter_folder=folder,
        scenario=scenario,
        folder=folder,
        measurements=conf,
        compliance=folder,
    )


def _submitter(
    root: Path, division: str, submitter: Path, rules: Rules, run: Path | None = None
) -> Iterator[ResultFolder]:
    """The result folders of a submitter: those three levels below results/. The letter case of a
    scenario does not matter, as in the official checker.
    """
    names = {name.lower(): name for name in rules.scenarios}
    benchmarks = [
        benchmark
        for system in subfolders(submitter / "results")
        for benchmark in subfolders(system)
    ]
    for benchmark in benchmarks:
        system = benchmark.parent.name
        for folder in subfolders(benchmark):
            where = {"system": system, "benchmark": benchmark.name, "scenario": folder.name}
            yield ResultFolder(
                root=root,
                division=division,
                submitter_folder=submitter,
                system=system,
                benchmark=benchmark.name,
                scenario=names.get(folder.name.lower(), folder.name),
                folder=folder,
                measurements=submitter / rules.layout.measurements.format(**where),
                compliance=submitter / rules.layout.compliance.format(**where),
                run=run,
            )


def subfolders(path: Path) -> list[Path]:
    """The folders in a folder, in order; none if it cannot be listed."""
    entries = files.maybe(lambda p: sorted(e for e in p.iterdir() if e.is_dir()), path)
    return entries or []


def measurements_file(place: ResultFolder, rules: Rules) -> Path:
    """The measurements file of a result folder, or the path it would have if there is none.

    Its name may begin with the system's and end with the scenario's (loader.py,
    get_measurement_path).
    """
    pattern = rules.layout.measurements_file
    matches = files.maybe(lambda folder: sorted(folder.glob(pattern)), place.measurements)
    of_system = [path for path in matches or () if path.name.startswith(place.system)]
    of_scenario = [path for path in of_system if path.stem.endswith(f"_{place.folder.name}")]
    found = [*of_scenario, *of_system, *(matches or ())]
    return found[0] if found else place.measurements / pattern.replace("*", place.system)
