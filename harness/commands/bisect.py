"""`./run.sh bisect` names the release of a package after which a cell is slower or faster, or after
which its answers are refused.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from formats.result import Result, Status
from harness import terminal
from harness.comparison import compare
from harness.comparison.runs import Run, read
from harness.comparison.statistics import COVERAGE, plural
from harness.errors import UsageError
from harness.execution import releases, rundir
from harness.request import estimate, options
from harness.request.flags import Parser, add_output
from harness.request.pins import spelt
from harness.request.request import Request
from harness.sweep import bisection, cells, journal, loop, schedule, words
from harness.sweep.bisection import Found, Trial
from harness.sweep.cells import Series
from harness.sweep.recipe import Values
from harness.sweep.schedule import RepeatPlan, Results
from results import summary

_REPEATS = 6
"""From six pairs on, a permutation test decides, which one disturbed run hardly changes."""
_CAUSE = "accuracy"
_UNDECIDED = 4


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    values = options.given(flags)
    between = _between(flags.package, flags.older, flags.newer)
    repeats = flags.repeats or (1 if flags.answers else _REPEATS)
    requests = [each.request for each in _series(values, flags.package, between) if each.request]
    reporter = terminal.Terminal(flags.quiet)
    seconds, sentences = _plan(requests, flags.package, between, repeats, flags.answers)
    for line in sentences:
        terminal.line(line) if flags.dry_run else reporter.say(line)
    if flags.dry_run:
        return 0
    words.confirm(seconds, flags.yes)
    out = requests[0].options.out
    rundir.check_writable("--out", out)
    command = shlex.join(["./run.sh", "bisect", *arguments])
    stages = _Stages(values, flags.package, command, reporter, flags.again, flags.answers)
    with reporter.progress:
        found = bisection.search(between, stages.measure, repeats, flags.answers)
    _show(found, stages.moved(found.before, found.after), flags, out)
    return 0 if found.decided else _UNDECIDED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "bisect",
        usage=(
            "./run.sh bisect --sut … --model … --scenario … --package P --from A --to B [flags]"
        ),
        description=(
            "Find the release of a package after which a cell is slower or faster. Each release"
            " has an environment of its own (--with), and is measured in turns with the two between"
            " which the step is. The same command continues after an interruption."
        ),
    )
    options.add_list_flags(parser)
    parser.add_argument("--package", metavar="P", required=True, help="such as transformers")
    parser.add_argument("--from", dest="older", metavar="A", required=True, help="a release")
    parser.add_argument(
        "--to", dest="newer", metavar="B", required=True, help="a later release, or newest"
    )
    parser.add_argument(
        "--answers",
        action="store_true",
        help="find the release after which the accuracy test refuses the answers, or no longer",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help=f"measure each release so often at first (default {_REPEATS}; 1 with --answers)",
    )
    parser.add_argument("--again", action="store_true", help="do not use runs of this command")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what it costs at most, and do nothing"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask, even if it may take more than an hour"
    )
    add_output(parser)
    return parser


def _between(package: str, older: str, newer: str) -> list[str]:
    """The two releases and those between, ascending. Raises UsageError."""
    first, last = (spelt(f"{package}=={end}").partition("==")[2] for end in (older, newer))
    low, high = map(releases.Version, (first, last))
    if not low < high:
        raise UsageError(f"--from {older} --to {newer}: --from is the older release")
    between = [str(each) for each in releases.of(package) if low < each < high]
    return [first, *between, last]


def _series(values: Values, package: str, versions: Sequence[str]) -> list[Series]:
    """A series for each release. Raises UsageError if the flags give more cells than one."""
    given = [*values.get("packages", ()), f"{package}=={','.join(versions)}"]
    series = cells.make(({**values, "packages": given},), values, control=False)
    if len(series) != len(versions):
        raise UsageError(
            f"bisect measures one cell, and the flags give {len(series) // len(versions)}: give one"
            " SUT, model and scenario, and no list"
        )
    return series


def _plan(
    requests: Sequence[Request], package: str, between: Sequence[str], repeats: int, answers: bool
) -> tuple[float, list[str]]:
    """Return (the most seconds of a search, what it costs in sentences)."""
    environments, measurements = bisection.most_trials(len(requests), repeats)
    lacking = sum(any(" with " in name for name in estimate.to_make(r)) for r in requests)
    left = min(environments, lacking)
    # Runs of the locked environment are the best guess.
    cost = estimate.of(replace(requests[0], pins=()))
    each_s, each_bytes = estimate.environment_cost(requests[0].device)
    seconds = cost.all_seconds + (measurements - 1) * cost.seconds + left * each_s
    disk_gb = (measurements * cost.disk_bytes + left * each_bytes) / 1e9
    chance = (
        f"if all releases are equally fast, a step is named in {bisection.false_alarms():.2%} of"
        f" such searches: the ends differ by chance in {1 - COVERAGE:.0%}, and new runs of the"
        " releases at the step have to agree"
    )
    if answers:
        chance = "the accuracy test decides, in which chance has no part if answers do not vary"
    return seconds, [
        f"{plural(len(between), 'release')} of {package} with a wheel for this Python:"
        f" {', '.join(between)}",
        f"at most {plural(environments, 'environment')}, of which {left} have to be made, and"
        f" {plural(measurements, 'measurement')}: about {terminal.duration(seconds)}"
        f" ({cost.basis}) and {disk_gb:.1f} GB",
        chance,
    ]


@dataclass
class _Stages:
    """Measures releases in turns, each stage in a sweep of its own.

    Attributes:
        number: of the search, which `--again` raises.
        measured: release → a run of it.
    """

    values: Values
    package: str
    command: str
    reporter: terminal.Terminal
    again: bool
    answers: bool
    number: str = ""
    measured: dict[str, Run] = field(default_factory=dict)

    def measure(self, stage: str, versions: Sequence[str], repeats: int) -> Mapping[str, Trial]:
        """The runs of each release."""
        series = _series(self.values, self.package, versions)
        self.reporter.say(f"{self.package} {', '.join(versions)}, {repeats} × each, in turns")
        out = next(each.request.options.out for each in series if each.request)
        folder = self._folder(out, stage, series)
        plan = RepeatPlan(least=repeats, most=repeats, seed=journal.seed(folder))
        sweep = replace(loop.Sweep.of(folder, series, plan, None), forks=False)
        if self.answers:  # a busy machine changes no answer
            sweep = replace(sweep, most_again=0)
        journal.write_plan(folder, self.command, series, {})
        results = loop.measure(sweep, self.reporter, fail_fast=False)
        of_series = {one.number: version for version, one in zip(versions, series, strict=True)}
        for (number, _), result in results.items():
            self.measured[of_series[number]] = read(result)
        return {
            version: _trial(one, results) for version, one in zip(versions, series, strict=True)
        }

    def moved(self, before: str, after: str) -> str:
        """The other packages that differ between the environments of two releases, in words."""
        if not before:
            return ""
        return compare.moved(self.measured[before], self.measured[after], [self.package])

    def _folder(self, out: Path, stage: str, series: Sequence[Series]) -> Path:
        """The folder of a stage's sweep. With --again the first stage gets a new number, and the
        others have that number in their names.
        """
        if stage != bisection.ENDS:
            return journal.folder(out, f"bisect-{self.number}-{stage}", series, False)
        folder = journal.folder(out, f"bisect-{stage}", series, self.again)
        self.number = folder.name.rpartition("-")[2]
        return folder


def _trial(one: Series, results: Results) -> Trial:
    """The runs of a series."""
    own = [result for (number, _), result in results.items() if number == one.number]
    wrong = next((r for r in own if r.status is Status.INVALID and r.cause == _CAUSE), None)
    speeds = schedule.figures(one.number, results)
    faults = (f"{result.status}: {result.reason}" for result in own)
    obstacle = one.obstacle or next(faults, "it was not measured")
    return Trial(
        speeds=speeds,
        wrong=_fault(wrong) if wrong else "",
        obstacle="" if speeds else obstacle,
        disturbed=sum(bool(loop.disturbed(result)) for result in own),
        runs=len(own),
    )


def _fault(result: Result) -> str:
    """Why the accuracy test refuses the answers."""
    if result.accuracy is None:
        return result.reason
    return summary.accuracy(result.accuracy).removeprefix("FAIL: ")


def _show(found: Found, moved: str, flags: argparse.Namespace, out: Path) -> None:
    """Print what was found, and the command that makes a page of all runs."""
    if flags.json:
        known = {"schema": "bisect-1", "package": flags.package, "moved": moved}
        terminal.document({**known, **asdict(found)})
        return
    terminal.line(f"{flags.package}: {found.sentence}")
    if moved:
        terminal.line(f"- other packages that moved at the step: {moved}")
    for release, why in found.wrong.items():
        terminal.line(f"- {release} computes something else: {why}")
    for release, why in found.left_out.items():
        terminal.line(f"- {release} has no figure: {why}")
    hint = f"./run.sh report {shlex.quote(terminal.near(str(out)))} --html report.html"
    terminal.line(f"\nnext  {terminal.typed_here(hint)}")
