"""`./run.sh choose MODEL [DATA]` finds out within a time which SUT is the fastest for a model."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from formats.outcome import PUT_OFF
from harness import terminal
from harness.commands.pages import drawing, write_page
from harness.errors import UsageError
from harness.execution import machine, rundir
from harness.execution.pins import is_made
from harness.inputs import keras_file
from harness.report import content, exports, sections
from harness.report.content import Content
from harness.request import options
from harness.request.flags import Parser, add_output, without
from harness.sweep import cells, journal, loop, room, schedule, words
from harness.sweep.cells import Series
from harness.sweep.deadline import Deadline
from harness.sweep.loop import Sweep
from harness.sweep.schedule import RepeatPlan, Results
from results import disturbance
from sut.devices import DEVICES
from sut.registry import SUTS, spec_of

_WITHIN = "10min"
_SCENARIOS, _DURATION_S = "Offline,SingleStream", "3"
_NEW_TOKENS = "16"
"""The tokens of an answer to a user's prompt on a CPU, on which 128 take ten minutes a SUT."""
_LEAST, _MOST = 3, 10
_PAGE = "report.html"
_LOOK_S = 1.0
_SAVED_MODEL = "saved_model.pb"  # a model of TensorFlow; --model refuses it with advice


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)

    deadline = Deadline.after("--within", flags.within)
    values = _values(flags)
    series = cells.make((values,), values, control=False)
    shortened = "new_tokens" not in values and any(map(_answers_prompts, series))
    if shortened:
        values["new_tokens"] = [_NEW_TOKENS]
        series = cells.make((values,), values, control=False)
    out = next(s.request.options.out for s in series if s.request)
    folder = journal.folder(out, "choose", series, flags.again)
    repeats = RepeatPlan(
        least=_LEAST,
        most=_MOST,
        as_listed=True,
        decisive=True,
        later=_without_environment(series),
    )
    sweep = replace(loop.Sweep.of(folder, series, repeats, deadline), lengthens=True)
    summary = words.summary(sweep, {})
    if shortened:
        summary["notes"].append(
            f"an answer has at most {_NEW_TOKENS} tokens, so that all SUTs are measured within"
            " minutes; --new-tokens 128 measures longer answers, in more time"
        )
    if flags.dry_run:
        terminal.document(summary) if flags.json else words.show_plan(summary)
        return 0
    reporter = terminal.Terminal(flags.quiet)
    reporter.say(
        f"within {terminal.duration(deadline.seconds)}: all SUTs once, those with an"
        " environment first; then again those that may be the fastest, until it is known which"
        " one is"
    )
    for line in words.announcement(summary):
        reporter.say(line)
    share = disturbance.now(_LOOK_S)
    if share:
        reporter.warn(
            f"other programs take {share:.0%} of a processor now: runs that they disturb show"
            " nothing, so end them first, or measure later"
        )
    rundir.check_writable("--out", out)
    command = shlex.join(["./run.sh", "choose", *arguments])
    journal.write_plan(folder, command, series, {})
    with reporter.progress:
        results = loop.measure(sweep, reporter, fail_fast=False)
    continued = [word for word in arguments if word != "--again"]
    _show(sweep, results, flags.json, shlex.join(["./run.sh", "choose", *continued]))
    has_figure = any(result.status == "ok" for result in results.values())
    return 0 if has_figure else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "choose",
        usage="./run.sh choose MODEL [DATA] [--within TIME] [flags]",
        description=(
            "Find the SUT that is fastest for a model: all SUTs once in each scenario, then repeats"
            " where they decide. A SUT that is less than two thirds as fast in its"
            " calibration is measured at the end. The same command continues."
        ),
    )
    parser.add_argument(
        "of",
        metavar="MODEL",
        help="a Hugging Face folder, a .keras file, or the name of a model (see list)",
    )
    parser.add_argument(
        "data", nargs="?", metavar="DATA", help="your prompts, pictures or arrays; see --dataset"
    )
    parser.add_argument(
        "--within",
        metavar="TIME",
        default=_WITHIN,
        help=f"90s, 10m or 1h (default {_WITHIN})",
    )
    options.add_list_flags(parser)
    parser.add_argument("--again", action="store_true", help="do not use the runs of this command")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be measured, and do nothing"
    )
    add_output(parser)
    return parser


def _values(flags: argparse.Namespace) -> dict[str, list[str]]:
    """Name of a flag → its values. Raises UsageError if the model or the data is named twice."""

    values = options.given(flags)
    path = Path(flags.of)
    is_folder = path.is_dir() and not (path / _SAVED_MODEL).exists()
    flag = "weights" if is_folder else "model"
    for name, value in ((flag, flags.of), ("dataset", flags.data)):
        if value is not None and name in values:
            raise UsageError(f"choose {value}: leave out {options.flag(name)}, which also names it")
        if value is not None:
            values[name] = [value]
    # What is slow is put off earlier if what is ready soon comes first: Keras is traced in Python,
    # and Inductor may take minutes.
    current = sorted(
        (name for name, spec in SUTS.items() if spec.current),
        key=lambda name: (SUTS[name].execution == "compile", SUTS[name].backend is not None),
    )
    defaults = {"sut": current, "scenario": [_SCENARIOS], "duration": [_DURATION_S]}
    if flag == "model" and not keras_file.is_path(flags.of) and not machine.accelerators():
        defaults["size"] = ["mid"]
    return defaults | values


def _answers_prompts(one: Series) -> bool:
    """Return whether a cell generates answers to a user's prompts on a CPU."""
    request = one.request
    if request is None or DEVICES[request.device].accelerator:
        return False
    own = request.options.dataset is not None and request.weights is not None
    return own and request.architecture.generates_tokens


def _without_environment(series: Sequence[Series]) -> frozenset[int]:
    """The numbers of the cells whose environment has to be made first. That of the reference is
    needed by all cells, so it does not count.
    """

    found = set()
    for each in series:
        request = each.request
        if request is None or request.options.python:
            continue
        name = request.spec.environment
        needed = [spec_of(reference).environment for reference in request.references]
        place = (request.options.cache, name, request.device, request.pins)
        if (request.pins or name not in needed) and not is_made(*place):
            found.add(each.number)
    return frozenset(found)


def _next(sweep: Sweep, results: Results, report: Content, command: str) -> str:
    """The command that continues, or that measures all again if nothing is decided because the
    machine was busy, or if all is decided the one that measures the fastest SUT.

    `command`: the typed one, without --again.
    """

    causes = {cause for _, cause in room.missing(sweep, results)}
    if causes - {PUT_OFF} and sweep.deadline:
        minutes = math.ceil(2 * sweep.deadline.seconds / 60)
        longer = f"{without(command, '--within')} --within {minutes}m"
        return f"{longer}  (continues, with twice the time)"
    compared = report.with_rivals
    if any(c.doubt for c in compared) and not any(c.decided for c in compared):
        return f"{command} --again  (measures all again: end other programs first)"
    if causes or schedule.next_step(sweep.series, results, sweep.repeats):
        return f"{command}  (continues, for a surer answer)"
    for one in sweep.series:
        rivals = [s for s in sweep.series if s.comparison == one.comparison]
        leaders = schedule.contenders(rivals, results)
        if leaders:
            return f"{leaders[0].command}  (measures the fastest one by itself)"
    return "./run.sh list --matrix  (which SUT runs which model)"


def _show(sweep: Sweep, results: Results, as_json: bool, command: str) -> None:
    """Write the page, and print the answer, a table, the page's path and the next command."""

    path = sweep.folder / _PAGE
    report = content.of_results(list(results.values()), terminal.near(str(sweep.folder)))
    no_room = [*room.sentences(room.missing(sweep, results))]
    report = replace(report, no_room=no_room, not_measured=words.obstacles(sweep))
    parts = sections.of(report)
    page = drawing("choose")
    html = page.render(report, parts, datetime.now().astimezone())
    write_page("choose", path, "a report", page.BEGINNING, html)
    if as_json:
        terminal.document(exports.document(report, parts))
        return
    exports.show(report, sections.sentences(parts))
    terminal.line(f"\npage  {terminal.near(str(path))}")
    hint = _next(sweep, results, report, command)
    terminal.line(f"next  {terminal.typed_here(hint)}")
