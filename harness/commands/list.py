"""`./run.sh list`: what there is to run. Imports no framework."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from compliance.rules import CURRENT
from harness import terminal
from harness.cell import MODES, PRECISIONS
from harness.execution.environments import made_for
from harness.inputs import models
from harness.request.flags import Parser, add_common
from scenarios.table import SCENARIOS
from sut.registry import ALIASES, SUTS


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` may have read enough
    parser = Parser(prog="./run.sh list", description="The SUTs, models, sizes and scenarios there are.", allow_abbrev=False)
    add_common(parser)
    flags = parser.parse_args(arguments)
    catalogue = gather(flags.cache.absolute(), CURRENT)
    terminal.document(catalogue) if flags.json else show(catalogue)
    return 0


def gather(cache: Path, round_: str) -> dict[str, Any]:
    """Everything there is, as the JSON document has it."""
    return {
        "suts": [
            {
                "name": name,
                "execution": spec.execution,
                "backend": spec.backend,
                "environment": spec.environment,
                "devices": list(spec.devices),
                "made": made_for(cache, spec.environment, round_),
                "summary": spec.summary,
                "aliases": [alias for alias, of in ALIASES.items() if of == name],
                "options": {option: text for option, (_, text) in spec.options.items()},
            }
            for name, spec in SUTS.items()
        ],
        "models": [
            {
                "name": m.name,
                "family": m.family,
                "task": m.task,
                "benchmark": dict(m.benchmark),
                "sizes": [
                    {
                        "name": s.name,
                        "parameters": s.parameters,
                        "precision": s.precision,
                        "batch_size": dict(s.batch_size),
                        "summary": s.summary,
                    }
                    for s in m.sizes.values()
                ],
            }
            for m in map(models.load, models.names())
        ],
        "scenarios": list(SCENARIOS),
        "modes": list(MODES),
        "precisions": list(PRECISIONS),
        "round": round_,
    }


def show(catalogue: dict[str, Any]) -> None:
    """The same as tables."""
    terminal.table(
        "SUTs",
        ("name", "execution", "environment", "made", "what it is"),
        ([s["name"], s["execution"], s["environment"], ", ".join(s["made"]) or "on first use", _named(s)] for s in catalogue["suts"]),
    )
    terminal.table(
        "Models",
        ("name", "family", "task", "size", "parameters", "precision", "batch\n" + " /\n".join(SCENARIOS), "what it is"),
        (
            [
                m["name"],
                m["family"],
                m["task"],
                s["name"],
                _millions(s["parameters"]),
                s["precision"],
                " / ".join(str(s["batch_size"].get(scenario, 1)) for scenario in SCENARIOS),
                s["summary"],
            ]
            for m in catalogue["models"]
            for s in m["sizes"]
        ),
    )
    terminal.table(
        "Options of a SUT (--sut-option NAME=VALUE)",
        ("SUT", "option", "what it does"),
        ([s["name"], option, text] for s in catalogue["suts"] for option, text in s["options"].items()),
    )
    terminal.table(
        "Flags",
        ("flag", "values"),
        [
            ("--scenario", ", ".join(catalogue["scenarios"])),
            ("--mode", ", ".join(catalogue["modes"])),
            ("--precision", ", ".join(catalogue["precisions"])),
        ],
    )


def _named(sut: dict[str, Any]) -> str:
    return sut["summary"] + "".join(f" (also called {alias})" for alias in sut["aliases"])


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:,.1f} M"
