"""This program measures the time and size of a report, on a folder of a thousand synthetic cells.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m tests.scale.report_scale RUN_DIR [--cells N] [--repeats N] [--keep DIR]

RUN_DIR is one finished run, such as one of the mock. Each cell is a copy of that run with its own
SUT, model, batch and figures. The page is made in a process of its own. The goal is 10 s and 5 MB
for 1,000 cells.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from formats.cell import Cell
from sut.registry import SUTS

_GOAL_S, _GOAL_MB = 10.0, 5.0
_PARTS = (
    "raw/performance/job.json",
    "raw/performance/mlperf_log_summary.txt",
    "raw/performance/mlperf_log_trace.json.gz",
)
_SUTS = [name for name in SUTS if name != "mock"]
_COMPILE_SECONDS = {"compile": 20.0, "xla": 4.0, "graph": 1.0}


def make(
    root: Path, template: Path, cells: int, repeats: int, size: str = "mid", spread: float = 0.02
) -> None:
    """Write `cells` synthetic cells of `repeats` interleaved runs each below `root`.

    Args:
        template: a finished run directory, whose logs every copy shares.
        size: `tiny` makes cells that are not ranked.
        spread: of the repeats of one cell, as a share.
    """
    record = json.loads((template / "record.json").read_text(encoding="utf-8"))
    result = json.loads((template / "result.json").read_text(encoding="utf-8"))
    generator = np.random.default_rng(0)
    for n, cell in enumerate(_cells(record["cell"], cells, size)):
        speed = 1000 / (1 + n % len(_SUTS)) * math.sqrt(cell.batch_size)
        for repeat in range(1, repeats + 1):
            directory = root / cell.name / f"quick-{repeat}"
            (directory / "raw" / "performance").mkdir(parents=True)
            for part in _PARTS:
                if (template / part).exists():
                    os.link(template / part, directory / part)
            started = f"2026-01-{repeat:02}T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}+0000"
            values = json.loads(json.dumps(asdict(cell)))
            _write(
                directory / "record.json",
                record
                | {
                    "cell": values,
                    "started": started,
                    "execution": SUTS[cell.sut].execution,
                },
            )
            rate = speed * float(np.exp(generator.normal(0, spread)))
            _write(directory / "result.json", _result(result, values, rate, str(directory)))


def _cells(values: dict[str, Any], count: int, size: str) -> Iterator[Cell]:
    """Every SUT at one batch of one model, then at the next batch."""
    for n in range(count):
        work, sut = divmod(n, len(_SUTS))
        changes = {
            "sut": _SUTS[sut],
            "batch_size": 1 << work % 8,
            "model": f"model-{work // 8}",
            "size": size,
            "scenario": "Offline",
        }
        yield Cell(**values | changes | {"weights": "seeded", "variables": {}})


def _result(
    result: dict[str, Any], cell: dict[str, Any], rate: float, directory: str
) -> dict[str, Any]:
    metric = {
        "name": "samples_per_second",
        "value": rate,
        "unit": "samples/s",
        "higher_is_better": True,
        "estimate": "mean",
    }
    unranked = ["size tiny only shows that a cell works"] if cell["size"] == "tiny" else []
    compiling = _COMPILE_SECONDS.get(SUTS[cell["sut"]].execution, 0.0)
    return result | {
        "cell": cell,
        "metric": metric,
        "metrics": {
            "samples_per_second": rate,
            "ms_per_step": 1000 * cell["batch_size"] / rate,
            "compile_seconds": compiling,
        },
        "ranked": not unranked,
        "unranked": unranked,
        "directory": directory,
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("template", type=Path, help="a finished run directory")
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--keep",
        type=Path,
        help="make the cells here and leave them; cells that are there are reported as they are",
    )
    flags = parser.parse_args()
    root = flags.keep or Path(tempfile.mkdtemp(prefix="report-scale-", dir=flags.template.parent))
    try:
        if not any(root.glob("*/*")):
            make(root, flags.template, flags.cells, flags.repeats)
        page = root / "report.html"
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "report", root, "--html", page, "--quiet"],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        seconds, megabytes = time.monotonic() - start, page.stat().st_size / 1e6
    finally:
        if not flags.keep:
            shutil.rmtree(root)
    print(
        f"{flags.cells} cells of {flags.repeats} runs: {seconds:.1f} s (goal {_GOAL_S:g}),"
        f" {megabytes:.1f} MB (goal {_GOAL_MB:g})"
    )
    return done.returncode or int(seconds > _GOAL_S or megabytes > _GOAL_MB)


if __name__ == "__main__":
    sys.exit(main())
