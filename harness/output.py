"""Everything that is printed: chatter and progress on standard error; on standard output the result, or --json's one document."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from compliance.findings.check import Check, Verdict, escape
from compliance.findings.verdict import Audit
from harness.cell import Result, Status
from scenarios.table import SCENARIOS
from scenarios.worker.heartbeat import Beat

_ESTIMATES = {
    "early stopping": " (90th percentile, early-stopping estimate)",
    "percentile": " (90th percentile, too few queries for an early-stopping estimate)",
}
_TOLD = ("same_class_fraction", "equal_fraction", "compared_fraction", "logit_gap", "argmax_fraction")
_COLOURS = {Status.OK: "green", Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.MANUAL: "yellow", Verdict.NA: "dim"}

_ORDER = (Verdict.PASS, Verdict.NA, Verdict.MANUAL, Verdict.FAIL)


class Terminal:
    """Progress of one command. Off a terminal: a line a phase, no bar; `quiet`: errors alone."""

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}{task.fields[of]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            auto_refresh=False,  # no thread that draws beside the measurement: it is drawn when the heartbeat is looked at
            disable=quiet or not self.console.is_terminal,
        )

    def say(self, text: str) -> None:
        """One line of chatter, unless quiet."""
        if not self.quiet:
            self.console.print(Text(text))

    def planned(self, test: str, plan: Mapping[str, Any]) -> None:
        """What the test is going to cost, once it is calibrated."""
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + plan["seconds"]))
        self.say(
            f"{test}: {plan['samples']:,} samples, {counted(plan['batches'], 'batch')}, in about {duration(plan['seconds'])}, until {end}; "
            f"{plan['memory_bytes'] / 1e6:.0f} MB for LoadGen, {plan['log_bytes'] / 1e6:.0f} MB of logs"
        )

    def watch(self, what: str) -> Callable[[Beat], None]:
        """→ what draws the progress of a worker, called with each new heartbeat."""
        state: dict[str, Any] = {"phase": None, "task": None}

        def seen(beat: Beat) -> None:
            if beat.phase != state["phase"]:
                self._enter(state, what, beat)
            if state["task"] is not None:
                self.progress.update(state["task"], completed=beat.completed, refresh=True)

        return seen

    def _enter(self, state: dict[str, Any], what: str, beat: Beat) -> None:
        state["phase"] = beat.phase
        if self.progress.disable:
            self.say(f"{what}: {beat.phase}")
            return
        if state["task"] is not None:
            self.progress.remove_task(state["task"])
        task: TaskID = self.progress.add_task(
            f"{what}: {beat.phase}", total=beat.expected or None, of=f"/{beat.expected}" if beat.expected else ""
        )
        state["task"] = None if beat.phase == "done" else task
        if beat.phase == "done":
            self.progress.remove_task(task)


def document(value: Mapping[str, Any]) -> None:
    """The one JSON document of --json."""
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def error(text: str) -> None:
    """One sentence on standard error, in red."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"error: {text}", style="red"))


def result_as_json(result: Result) -> dict[str, Any]:
    """A result as result.json holds it."""
    return asdict(result)


def result(found: Result, hint: str) -> None:
    """What a reader wants to know first: did it work, how fast, is it right, what ran, where does it lie, what next."""
    console = Console(highlight=False, soft_wrap=True)
    c = found.cell
    console.print(
        Text(f"{c.sut}  {c.model} {c.size}  {c.task}  {c.scenario}  {c.precision}  batch {c.batch_size}  {c.device}", style="bold")
    )
    for name, text in [*rows(found), ("next", hint)]:
        style = _COLOURS.get(found.status, "red") if name == "status" else "strike" if name == "speed" and found.cause else ""
        console.print(Text.assemble((f"{name:<11}", "dim"), (text, style)))


def rows(found: Result) -> Iterable[tuple[str, str]]:
    """(name, text) of each line of a result."""
    cause = f" ({found.cause})" if found.cause else ""
    yield "status", f"{found.status}{cause}{': ' + found.reason if found.reason else ''}"
    if found.loadgen:
        yield "LoadGen", f"{found.loadgen}, mode {found.mode}"
    if found.metric:
        yield "speed", speed(found) + (" (struck out: invalid)" if found.cause else "")
    if found.measured:
        yield "measured", measured(found)
    if found.accuracy:
        yield "accuracy", accuracy(found)
    if found.evidence:
        yield "evidence", str(found.evidence["sentence"])
    if found.seconds:
        yield "time", _times(found.seconds)
    if found.peak_host_bytes:
        device = f", {found.peak_device_bytes / 1e9:.2f} GB on the accelerator" if found.peak_device_bytes is not None else ""
        yield "memory", f"{found.peak_host_bytes / 1e9:.2f} GB at most in the worker{device}"
    if found.energy:
        yield "energy", _energy(found)
    if found.audit:
        yield "audit", ", ".join(f"{n} {name}" for name, n in found.audit.items()) + f"; holds: {', '.join(found.levels) or 'no level'}"
    if found.metric:
        yield "ranked", "yes" if found.ranked else f"no, because {'; '.join(found.unranked)}"
    for warning in found.warnings:
        yield "note", warning
    if found.directory:
        yield "directory", near(found.directory)


def near(directory: str) -> str:
    """As the reader would type it: relative where it lies below the current directory."""
    path = Path(directory)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else directory


def speed(found: Result) -> str:
    """The figures of a result in one line, the scenario's own first."""
    m, one = found.metrics, found.metric
    assert one is not None
    parts = [f"{one.value:,.4g} {one.unit}{_ESTIMATES.get(one.estimate, '')}"]
    if "latency_p50_ms" in m:
        parts.append(f"median {m['latency_p50_ms']:.4g} ms")
    if "tokens_per_second" in m:
        parts.append(f"{m['tokens_per_second']:,.4g} tokens/s")
    if "ms_per_step" in m:
        parts.append(f"{m['ms_per_step']:.4g} ms/step")
    return " · ".join(parts)


def measured(found: Result) -> str:
    """What the figure rests on."""
    m, batch, scenario = found.measured, found.cell.batch_size, SCENARIOS[found.cell.scenario]
    batches = f" in {counted(m['batches'], 'batch')} of {batch}" if not scenario.one_sample_a_query else ""
    padding = f", {m['padding_fraction']:.2%} of their rows padding" if m["padding_fraction"] else ", no padding" if batch > 1 else ""
    told = [f"{m['samples']:,} samples{batches}{padding}"]
    if "passes" in m:
        whole = scenario.one_query or float(m["passes"]).is_integer()
        over = f"{m['passes']:,.4g} passes over" if whole else "drawn from"
        lengths = f" of {found.cell.seq_len} tokens" if found.cell.seq_len else ""
        told.append(f"{over} {round(m['samples'] / m['passes']):,} inputs{lengths}")
    if "tokens" in m:
        end = {"stop": "answers end at an end token", "ignore": "end tokens ignored"}.get(found.cell.eos or "", "")
        told.append(f"{m['tokens']:,} tokens, {m['tokens'] / m['samples']:.4g} a sample{', ' if end else ''}{end}")
    return "; ".join(told)


def accuracy(found: Result) -> str:
    """Whether the answers are right, how far off they are and what the limit is, in one line."""
    a = found.accuracy
    assert a is not None
    extra = "".join(f", {name.replace('_', ' ')} {a['detail'][name]:.4g}" for name in _TOLD if name in a["detail"])
    return f"{'pass' if a['passed'] else 'FAIL'}: {a['metric']} {a['value']:.3g} (limit {a['threshold']:g}){extra}"


def _energy(found: Result) -> str:
    """Joules of the performance test; where there are none, why."""
    told = [f"{source} {j:,.1f} J" for source, j in found.energy["joules"].items()]
    return "; ".join([*told, *(f"{source} not measured: {why}" for source, why in found.energy["absent"].items())])


def _times(seconds: Mapping[str, float]) -> str:
    first = [f"{seconds['until_measuring']:.1f} s until measuring"] if "until_measuring" in seconds else []
    return ", ".join([*first, *(f"{name} {s:.1f}" for name, s in seconds.items() if name != "until_measuring" and s >= 0.05)])


def counted(number: float, noun: str) -> str:
    """A number and its noun: 1 batch, 2 batches."""
    return f"{number:,} {noun}{'' if number == 1 else 'es'}"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def checks(found: Iterable[Check], quiet: bool) -> None:
    """One line a finding, what fails last; `quiet`: those that fail or that a person has to judge. The last line counts."""
    console, place = Console(highlight=False, soft_wrap=True), ""
    ordered = sorted(found, key=lambda check: _ORDER.index(check.verdict))
    for check in ordered:
        if quiet and check.verdict not in (Verdict.FAIL, Verdict.MANUAL):
            continue
        if check.place != place:
            place = check.place
            console.print(Text(escape(place), style="bold"))
        console.print(Text(replace(check, place="").line(), style=_COLOURS[check.verdict]))
        if check.verdict is Verdict.FAIL and check.fix:
            console.print(Text(f"       {check.fix}"))
    counts = [(sum(check.verdict is verdict for check in ordered), verdict) for verdict in Verdict]
    console.print(Text(", ".join(f"{n} {verdict.value}" for n, verdict in counts), style="bold"))


def audited(found: Audit, level: str, quiet: bool) -> None:
    """The findings, what was claimed, and whether the level holds."""
    checks(found.checks_for(level), quiet)
    console = Console(highlight=False, soft_wrap=True)
    for result in found.results if not quiet else ():
        console.print(Text(escape(result.sentence)))
    console.print(Text(found.sentence(level), style="bold"))


def advice(check: Check) -> None:
    """What to do about a finding."""
    Console(highlight=False, soft_wrap=True).print(Text(f"{check.name}: {check.fix}"))


def table(title: str, columns: Iterable[str], lines: Iterable[Iterable[str]]) -> None:
    """A table on standard output."""
    shown = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for n, column in enumerate(columns):
        shown.add_column(column, no_wrap=n == 0, overflow="fold")
    for line in lines:
        shown.add_row(*map(Text, line))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    console.print(shown)
    console.print()
