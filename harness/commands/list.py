"""`./run.sh list` shows the SUTs, models, sizes and scenarios. Imports no framework."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from compliance import CURRENT
from formats.cell import MODES, PRECISIONS
from harness import terminal
from harness.execution.environments import made_for
from harness.inputs import models
from harness.inputs.models import Model, Size
from harness.request.flags import Parser, add_common
from scenarios.table import SCENARIOS
from sut import known_differences
from sut.devices import HOST
from sut.registry import ALIASES, FIT, SUTS, streams, unsupported

Document = dict[str, Any]
"""A part of what `--json` prints."""


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` may have read enough
    parser = Parser(
        "list",
        description="The SUTs, models, sizes and scenarios there are.",
    )
    add_common(parser)
    parser.add_argument("--matrix", action="store_true", help="only which SUT runs which model")
    flags = parser.parse_args(arguments)
    if flags.matrix:
        rows = matrix()
        terminal.document({"matrix": rows}) if flags.json else show_matrix(rows)
        return 0
    catalogue = gather(flags.cache.absolute())
    terminal.document(catalogue) if flags.json else show(catalogue)
    return 0


def matrix() -> list[dict[str, str]]:
    """One row for each SUT that reads weights and each task of each model, including `fit`:
    `sut`, `model`, `task`, `status`, `reason`, `known`. `reason`: why it is unsupported, or empty.
    `known`: what the SUT's library is known to compute differently for this type of model.
    """
    loaded = [models.load(name) for name in models.names()]
    works = [(models.load(model.name, task), task) for model in loaded for task in model.tasks]
    works += [(model, FIT) for model in loaded if model.fit]
    rows = []
    for sut, (model, task) in product(SUTS, works):
        if not SUTS[sut].runs_models:
            continue
        reason = unsupported(
            sut,
            model=model.name,
            architecture=model.architecture,
            task=task,
            precision="float32",
            device=HOST,
        )
        status = "unsupported" if reason else "supported"
        row = {"sut": sut, "model": model.name, "task": task}
        known = known_differences.of_model(sut, model.config.get("model_type", ""))
        row |= {"status": status, "reason": reason or "", "known": "; ".join(known)}
        rows.append(row)
    return rows


def show_matrix(rows: Sequence[Mapping[str, str]]) -> None:
    """Print a line for each model and status: the SUTs with it, and the reason."""
    suts: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        known = "" if row["reason"] else row["known"]
        key = (f"{row['model']} {row['task']}", row["status"], row["reason"] or known)
        suts.setdefault(key, []).append(row["sut"])
    lines = []
    for (work, status, reason), named in sorted(suts.items(), key=lambda item: item[0][0]):
        because = f" ({reason})" if reason else ""
        lines.append([work, status, ", ".join(named) + because])
    terminal.table("Which SUT runs which model", ("model", "status", "SUTs"), lines)


def gather(cache: Path) -> Document:
    """The JSON document of everything that can be run."""
    return {
        "suts": [_sut(name, cache) for name in SUTS],
        "models": [_model(models.load(name)) for name in models.names()],
        "scenarios": list(SCENARIOS),
        "modes": list(MODES),
        "precisions": list(PRECISIONS),
        "round": CURRENT,
    }


def _sut(name: str, cache: Path) -> Document:
    spec = SUTS[name]
    return {
        "name": name,
        "execution": spec.execution,
        "backend": spec.backend,
        "environment": spec.environment,
        "devices": list(spec.devices),
        "made": made_for(cache, spec.environment),
        "streams": any(streams(name, models.load(model).architecture) for model in models.names()),
        "summary": spec.summary,
        "aliases": [alias for alias, of in ALIASES.items() if of == name],
        "options": {option: text for option, (_, text) in spec.options.items()},
    }


def _model(model: Model) -> Document:
    return {
        "name": model.name,
        "architecture": model.architecture,
        "task": model.task,
        "tasks": list(model.tasks),
        "benchmark": dict(model.benchmark),
        "sizes": [_size(size) for size in model.sizes.values()],
    }


def _size(size: Size) -> Document:
    return {
        "name": size.name,
        "parameters": size.parameters,
        "precision": size.precision,
        "batch_size": dict(size.batch_size),
        "summary": ", ".join(filter(None, (size.published, size.extent, size.summary))),
    }


_WITH_BATCHES = [name for name, of in SCENARIOS.items() if not of.serves and not of.samples_a_query]
"""Scenarios whose batch depends on the size. Server has that of Offline."""


def show(catalogue: Document) -> None:
    """Print the catalogue as tables."""
    columns: tuple[str, ...] = ("name", "execution", "environment", "made", "what it is")
    suts = catalogue["suts"]
    terminal.table("SUTs", columns, map(_sut_row, suts))
    batches = "batch\n" + " /\n".join(_WITH_BATCHES)
    columns = ("name", "task", "size", "parameters", "precision", batches, "what it is")
    rows = [_size_row(model, size) for model in catalogue["models"] for size in model["sizes"]]
    terminal.table("Models", columns, rows)
    columns = ("SUT", "option", "what it does")
    rows = [[sut["name"], *option] for sut in suts for option in sut["options"].items()]
    terminal.table("Options of a SUT (--sut-option NAME=VALUE)", columns, rows)
    flags = ("scenario", "mode", "precision")
    rows = [[f"--{flag}", ", ".join(catalogue[f"{flag}s"])] for flag in flags]
    terminal.table("Flags", ("flag", "values"), rows)


def _sut_row(sut: Document) -> list[str]:
    made = ", ".join(sut["made"]) or "on first use"
    summary = sut["summary"]
    if sut["streams"]:
        summary += "; it streams tokens"
    for alias in sut["aliases"]:
        summary += f" (also called {alias})"
    return [sut["name"], sut["execution"], sut["environment"], made, summary]


def _size_row(model: Document, size: Document) -> list[str]:
    batches = []
    for name in _WITH_BATCHES:
        default = 1 if SCENARIOS[name].loadgen else "-"
        batches.append(str(size["batch_size"].get(name, default)))
    return [
        model["name"],
        ", ".join(model["tasks"]),
        size["name"],
        f"{size['parameters'] / 1e6:,.1f} M",
        size["precision"],
        " / ".join(batches),
        size["summary"],
    ]
