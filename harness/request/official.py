"""`--benchmark`: an official benchmark of the round with the user's files. It says what an eligible
result lacks, and which division the result may enter.

What a benchmark needs is data: `workload` of compliance/rules/<round>.toml. What is special to a
kind of benchmark is in `benchmarks/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compliance.rules import Benchmark, OfficialWorkload, Rules
from harness.errors import UsageError
from harness.inputs import user_folder
from harness.inputs.dataset import UserInputs
from harness.inputs.models import Model, Size
from harness.inputs.user_weights import Folder
from harness.request.benchmarks import KINDS
from harness.request.options import Options
from results import documents
from scenarios.table import SCENARIOS
from sut.devices import DEVICES
from sut.tuning import Switch

_UNNAMED = "unofficial"


@dataclass(frozen=True, kw_only=True)
class OfficialRun:
    """An official benchmark with the user's files.

    Attributes:
        suite: the suite of the system, `edge` if the benchmark has it.
        files: name of each file that the metric needs → its content.
        other_model: how the model differs from that of the closed division, a phrase each.
        other_data: how the data set and the other files differ from those of the benchmark, a
            phrase each.
        more_lacks: what else an eligible result lacks, a phrase each.
    """

    name: str
    workload: OfficialWorkload
    row: Benchmark
    suite: str
    files: Mapping[str, bytes]
    other_model: tuple[str, ...]
    other_data: tuple[str, ...]
    more_lacks: tuple[str, ...]

    @property
    def lacks(self) -> tuple[str, ...]:
        """What an eligible result lacks, a phrase each."""
        return self.other_data + self.more_lacks

    @property
    def not_closed(self) -> tuple[str, ...]:
        """Why the result may not enter the closed division, a phrase each."""
        return self.other_model + self.other_data

    @property
    def digests(self) -> dict[str, str]:
        """Name of each file → its md5."""
        return {name: _md5(content) for name, content in self.files.items()}

    @property
    def target(self) -> str:
        """The metrics and their limits in words."""
        limits = [f"{name} at least {limit}" for name, limit in self.row.accuracy.items()]
        limits += [f"{name} at most {limit}" for name, limit in self.row.accuracy_at_most.items()]
        return ", ".join(limits)

    @property
    def scenarios(self) -> str:
        """The scenarios of the system's suite in words."""
        required = " and ".join(self.row.required[self.suite])
        either = " or ".join(self.row.optional.get(self.suite, ()))
        return f"{required}, and {either}" if either else required

    @property
    def division(self) -> str:
        """The division that the result may enter, and why."""
        if not self.other_model:
            return "closed, if the weights are those of the reference; otherwise open"
        return (
            "open, because the model is not that of the closed division"
            f" ({'; '.join(self.other_model)})"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader on the target, the division, and what an eligible result lacks."""
        target = (
            f"{self.name} requires {self.target}; a system of the suite {self.suite} needs"
            f" {self.scenarios}"
        )
        return target, f"division: {self.division}", self.eligibility

    @property
    def eligibility(self) -> str:
        """Whether the result can be eligible, and what it lacks."""
        if not self.lacks:
            return f"eligible with {self.target}, if a review by MLCommons confirms it"
        return f"not eligible: {'; '.join(self.lacks)}"


@dataclass(frozen=True)
class Chosen:
    """The benchmark of `--benchmark`. `row`, `workload`: its tables in the rules of the round."""

    options: Options
    name: str
    row: Benchmark
    workload: OfficialWorkload

    def model_of(self, model: Model) -> Model:
        """The model as the benchmark runs it. Raises UsageError if the model is not of the
        benchmark's kind.
        """
        if model.architecture != self.workload.architecture:
            raise UsageError(
                f"--benchmark {self.name}: needs {self.workload.model}, and --weights"
                f" {self.options.weights} is {model.name}"
            )
        changes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.workload.run_as.items()
        }
        return replace(model, **changes)

    def read(self, size: Size, weights: Folder | None) -> UserInputs | None:
        """The inputs of --dataset in the benchmark's own format. None: the reader of the
        architecture reads them. Raises UsageError.
        """
        assert weights
        reader = KINDS[self.workload.metric].read
        return reader(self.options, self.workload, size, weights) if reader else None

    def run(
        self,
        weights: Folder | None,
        count: int | None,
        device: str,
        system: Mapping[str, str],
        switches: Sequence[Switch],
    ) -> OfficialRun:
        """The run of the benchmark. Raises UsageError if the files are not of the benchmark's kind.

        Args:
            count: the number of the user's inputs.
        """
        options = self.options
        assert weights and options.dataset and count is not None
        row = self.row.of(options.scenario)
        workload = self.workload
        kind = KINDS[workload.metric]
        files = kind.files(options, workload, weights)
        differences = list(_differences(weights.size.config, workload))
        more = kind.other_model(workload, weights, files, differences)
        suite = _suite(row)
        partners = _without_partner(options, row, suite, switches)
        return OfficialRun(
            name=self.name,
            workload=workload,
            row=row,
            suite=suite,
            files=files,
            other_model=(*differences, *more),
            other_data=tuple(_other_data(options.dataset, row, workload, files, count)),
            more_lacks=(*_lacks(options, row, device, system), *partners),
        )


def of(options: Options, rules: Rules) -> Chosen | None:
    """The benchmark of `--benchmark`. None without the flag. Raises UsageError if flags contradict
    the benchmark, or if its files are not given.
    """
    if options.benchmark is None:
        return None
    row = rules.benchmarks[options.benchmark]
    workload = rules.workloads[row.workload]
    if options.weights is None or options.dataset is None:
        raise UsageError(f"--benchmark {options.benchmark}: needs {workload.needs}")
    suite = _suite(row)
    allowed = (*row.required[suite], *row.optional.get(suite, ()))
    if options.scenario not in allowed:
        raise UsageError(
            f"--scenario {options.scenario}: {options.benchmark} has {', '.join(allowed)} in"
            f" {rules.round}: give one of them"
        )
    KINDS[workload.metric].check(options, workload)
    return Chosen(options, options.benchmark, row, workload)


def system(path: Path | None) -> dict[str, str]:
    """The fields of the system description in a user's file. Raises UsageError."""
    if path is None:
        return {}
    try:
        document = user_folder.read_json(path)
    except (OSError, ValueError) as e:
        raise UsageError(f"--system {path}: cannot be read ({e})") from None
    if not isinstance(document, dict):
        raise UsageError(f"--system {path}: is not a JSON object of fields and their values")
    for name, value in document.items():
        if name not in documents.BY_HAND or not isinstance(value, str) or not value.strip():
            raise UsageError(
                f"--system {path}: {name}: give a text for some of {', '.join(documents.BY_HAND)}"
            )
    return document


def _suite(row: Benchmark) -> str:
    """The suite of the system: `edge` if the benchmark has it."""
    return "edge" if "edge" in row.required else next(iter(row.required))


def _differences(config: Mapping[str, Any], workload: OfficialWorkload) -> Iterator[str]:
    for name, closed in workload.closed_model.items():
        value = config.get(name, closed if workload.closed_by_default else None)
        if value != closed:
            yield f"{name} {value}, not {closed}"


def _other_data(
    dataset: Path,
    row: Benchmark,
    workload: OfficialWorkload,
    files: Mapping[str, bytes],
    count: int,
) -> Iterator[str]:
    """Yield a phrase if the samples are not all of the benchmark's, and for each other file."""
    if count != row.dataset_size:
        yield f"{count:,} of {row.dataset_size:,} samples"
    for place, (name, md5) in enumerate(workload.files.items()):
        digest = _md5(files[name])
        if digest != md5:
            given = dataset.name if place == 0 and dataset.is_file() else name
            yield f"{given} (md5 {digest}) is not the published {name} (md5 {md5})"


def _lacks(
    options: Options, row: Benchmark, device: str, system: Mapping[str, str]
) -> Iterator[str]:
    """Yield what an eligible result lacks of the mode, the submitter and the system."""
    if options.mode != "submission":
        yield f"mode {options.mode}, not submission"
    if row.token_latencies and options.stream == "off":
        yield "token latencies, which --stream off leaves out"
    if options.submitter == _UNNAMED:
        yield "no --submitter"
    unknown = [name for name in documents.BY_HAND if name not in system]
    if not DEVICES[device].accelerator:
        unknown = [name for name in unknown if not name.startswith("accelerator")]
    if unknown:
        yield f"no --system FILE with {', '.join(unknown)}"


def _without_partner(
    options: Options, row: Benchmark, suite: str, switches: Sequence[Switch]
) -> Iterator[str]:
    """Yield a phrase for each setting, of which the system has the name, that leaves out a scenario
    of the suite.
    """
    required = row.required[suite]
    either = set(row.optional.get(suite, ()))
    for each in switches:
        scenarios = each.scenarios
        others = [name for name in required if scenarios and name not in scenarios]
        if either and scenarios and not either & set(scenarios):
            others.append(" or ".join(sorted(either)))
        if others:
            yield _partner(others, each.name)
    others = [name for name in required if not SCENARIOS[name].many_at_once]
    if options.replicas is not None and others:
        yield _partner(others, "--replicas")


def _partner(scenarios: Sequence[str], what: str) -> str:
    return f"{' and '.join(scenarios)} of the same system, which cannot run with {what}"


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
