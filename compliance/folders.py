"""The result folders of a submission or a run directory, and the paths of their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compliance.logs import files
from compliance.rules import Rules

_OF_A_RUN = ("record.json", "raw", "reference.npz", "result.json")


@dataclass(frozen=True, kw_only=True)
class ResultFolder:
    """The folders of one scenario's results.

    Attributes:
        root: the audited directory; findings name files relative to it.
        division, system, benchmark: the names of the folders above it.
        submitter_folder: <division>/<submitter>.
        scenario: the name of its own folder, in the letter case of the rules.
        folder: results/<system>/<benchmark>/<scenario>.
        run: the run directory that contains the submission, with record.json and raw/; None: a bare
            submission.
        measurements: the folder of its user.conf, README.md and measurements, by the round's
            layout.
        compliance: the folder of its compliance tests.
    """

    root: Path
    division: str
    submitter_folder: Path
    system: str
    benchmark: str
    scenario: str
    folder: Path
    run: Path | None
    measurements: Path
    compliance: Path

    @property
    def name(self) -> str:
        """The folder's path, as findings name it."""
        return self.show(self.folder)

    def show(self, path: Path) -> str:
        """A path as findings name it: relative to the audited directory."""
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        return path.name

    def raw(self, test: str) -> Path | None:
        """The folder of a test's raw logs in the run directory; None: there is no run directory."""
        return self.run and self.run / "raw" / test


def result_folders(directory: Path, rules: Rules) -> list[ResultFolder]:
    """The result folders of a run directory, of a root that contains open/, closed/ or network/, or
    of such a division itself.
    """
    around, divisions = directory, _divisions(directory, rules)
    if directory.name in rules.layout.divisions and not divisions:
        around, divisions = directory.parent, [directory]
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
        description, _ = files.attempt(files.json_object, path)
        names.append(str((description or {}).get("division")).lower())
    divisions = [name for name in names if name in rules.layout.divisions]
    return list(_submitter(submitter, (divisions or ["open"])[0], submitter, rules))


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
        system="",
        benchmark="",
        scenario=scenario,
        folder=folder,
        run=None,
        measurements=conf,
        compliance=folder,
    )


def _divisions(directory: Path, rules: Rules) -> list[Path]:
    return [directory / name for name in rules.layout.divisions if (directory / name).is_dir()]


def _submitter(
    root: Path, division: str, submitter: Path, rules: Rules, run: Path | None = None
) -> Iterator[ResultFolder]:
    """The result folders of a submitter: those three levels below results/. The letter case of a
    scenario does not matter, as in the official checker.
    """
    names = {name.lower(): name for name in rules.scenarios}
    for system in subfolders(submitter / "results"):
        for benchmark in subfolders(system):
            for folder in subfolders(benchmark):
                where = {
                    "system": system.name,
                    "benchmark": benchmark.name,
                    "scenario": folder.name,
                }
                yield ResultFolder(
                    root=root,
                    division=division,
                    submitter_folder=submitter,
                    system=system.name,
                    benchmark=benchmark.name,
                    scenario=names.get(folder.name.lower(), folder.name),
                    folder=folder,
                    run=run,
                    measurements=submitter / rules.layout.measurements.format(**where),
                    compliance=submitter / rules.layout.compliance.format(**where),
                )


def subfolders(path: Path) -> list[Path]:
    """The folders in a folder, in order; none if it cannot be listed."""
    entries, _ = files.attempt(lambda p: sorted(e for e in p.iterdir() if e.is_dir()), path)
    return entries or []


def measurements_file(place: ResultFolder, rules: Rules) -> Path:
    """The measurements file of a result folder, or the path it would have if there is none.

    Its name may begin with the system's and end with the scenario's (loader.py,
    get_measurement_path).
    """
    pattern = rules.layout.measurements_file
    matches, _ = files.attempt(lambda folder: sorted(folder.glob(pattern)), place.measurements)
    of_system = [path for path in matches or () if path.name.startswith(place.system)]
    of_scenario = [path for path in of_system if path.stem.endswith(f"_{place.folder.name}")]
    found = [*of_scenario, *of_system, *(matches or ())]
    return found[0] if found else place.measurements / pattern.replace("*", place.system)
