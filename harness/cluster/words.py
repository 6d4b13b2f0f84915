"""The end of a sweep on a cluster, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness import terminal
from harness.cluster import progress
from harness.cluster.follow import Followed
from harness.report import content, exports, sections

_COLUMNS = ("comparison", "work", "node", "outcome")


def show(followed: Sequence[Followed], out: Path, as_json: bool) -> bool:
    """Print what was measured, and how each job ended. → whether all cells have a good result."""
    results = progress.results(out, [one.job for one in followed])
    report = content.of_results(results, terminal.near(str(out)))
    sentences = sections.sentences(sections.of(report))
    if as_json:
        jobs = [
            {
                "name": one.job.name,
                "work": one.job.label,
                "node": one.node,
                "complete": one.complete,
                "outcome": one.outcome,
            }
            for one in followed
        ]
        cells = [terminal.result_as_json(result) for result in results]
        terminal.document(
            {
                "preface": report.preface,
                "answer": [report.headline, *sentences],
                "jobs": jobs,
                "cells": cells,
            }
        )
    else:
        rows = [
            [f"{number}", one.job.label, one.node, one.outcome]
            for number, one in enumerate(followed, 1)
        ]
        terminal.table("Comparisons", _COLUMNS, rows)
        cells_ = exports.cells(report)
        terminal.report(
            report.setting, report.headline, sentences, report.suts, cells_, report.advice
        )
        hint = f"./run.sh report {shlex.quote(terminal.near(str(out)))} --html report.html"
        terminal.line(f"\nnext  {terminal.typed_here(hint)}")
    good = all(result.status in ("ok", "unsupported") for result in results)
    return good and all(one.complete for one in followed)
