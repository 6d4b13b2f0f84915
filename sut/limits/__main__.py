"""The worker of `doctor --limits`: `python -m sut.limits JOB` measures one framework on one device.

JOB is a JSON file with the fields of `Job`.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from formats.frameworks import FRAMEWORKS
from formats.writing import write_json
from sut.limits import measures
from sut.limits.framework import Framework


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the worker measures.

    Attributes:
        framework: its name.
        environment: the name of the environment, for the result.
        sizes: the fields of `measures.Sizes`.
        file: the worker writes `limits` and `lacking` there (see `measures.measure`).
    """

    framework: str
    environment: str
    device: str
    precisions: list[str]
    sizes: dict[str, float]
    file: str


def main(path: Path) -> None:
    """Measure what the job at this path says, and write its file."""
    job = Job(**json.loads(path.read_text(encoding="utf-8")))
    framework = cast(Framework, importlib.import_module(FRAMEWORKS[job.framework].limits))
    limits, lacking = measures.measure(
        framework,
        job.framework,
        job.environment,
        job.device,
        job.precisions,
        measures.Sizes(**job.sizes),  # type: ignore[arg-type]
    )
    found = {"limits": [asdict(each) for each in limits], "lacking": lacking}
    write_json(Path(job.file), found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
