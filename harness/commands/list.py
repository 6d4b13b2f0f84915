"""`./run.sh list`: what there is to run. Imports no framework."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import output
from harness.cell import MODES, PRECISIONS, SCENARIOS
from harness.execution.environments import is_made, made_for
from harness.inputs import models
from sut.registry import ALIASES, SUTS

if TYPE_CHECKING:
    from harness.plan import Request  # it imports numpy, and `list` answers at once


def gather(cache: Path, round_: str) -> dict[str, Any]:
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


def planned(request: Request, prompts: int | None, refused: str | None, no_reference: str | None) -> dict[str, Any]:
    """What a run would do, for --dry-run: nothing is made for it, so weights and inputs have no digest yet."""
    limits = request.limits(request.samples if prompts is None else prompts)
    environments = dict.fromkeys((request.spec.environment, SUTS[request.spec.reference].environment))
    missing = [name for name in environments if not is_made(request.cache, name, request.device, request.rules.round)]
    return {
        "sut": request.sut,
        "model": request.model.name,
        "size": request.size.name,
        "task": request.model.task,
        "scenario": request.scenario,
        "mode": request.mode,
        "precision": request.precision,
        "batch_size": request.batch_size,
        "device": request.device,
        "benchmark": f"{request.benchmark} (mapped to {request.official})",
        "samples": request.samples if prompts is None else prompts,
        "min_duration_s": limits.min_duration_ms / 1e3,
        "min_query_count": limits.min_query_count,
        "weights": f"{request.size.parameters / 1e6:,.1f} M parameters, {request.size.weight_bytes(request.precision) / 1e6:,.1f} MB"
        + (f", of {request.weights.path}" if request.weights else ""),
        "environments_to_make": ", ".join(missing) or "none",
        "reference": f"{request.spec.reference} in float32; {no_reference or 'made on first use of these inputs'}",
        "refused": refused or "no",
        "out": str(request.out),
        "why": "; ".join(request.reasons),
    }


def show(found: dict[str, Any]) -> None:
    output.table(
        "SUTs",
        ("name", "execution", "environment", "made", "what it is"),
        ([s["name"], s["execution"], s["environment"], ", ".join(s["made"]) or "on first use", _named(s)] for s in found["suts"]),
    )
    output.table(
        "Models",
        ("name", "family", "task", "size", "parameters", "precision", "batch Offline / SingleStream", "what it is"),
        (
            [
                m["name"],
                m["family"],
                m["task"],
                s["name"],
                _millions(s["parameters"]),
                s["precision"],
                f"{s['batch_size']['Offline']} / {s['batch_size']['SingleStream']}",
                s["summary"],
            ]
            for m in found["models"]
            for s in m["sizes"]
        ),
    )
    output.table(
        "Options of a SUT (--sut-option NAME=VALUE)",
        ("SUT", "option", "what it does"),
        ([s["name"], option, text] for s in found["suts"] for option, text in s["options"].items()),
    )
    output.table(
        "Flags",
        ("flag", "values"),
        [
            ("--scenario", ", ".join(found["scenarios"])),
            ("--mode", ", ".join(found["modes"])),
            ("--precision", ", ".join(found["precisions"])),
        ],
    )


def _named(sut: dict[str, Any]) -> str:
    return sut["summary"] + "".join(f" (also called {alias})" for alias in sut["aliases"])


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:,.1f} M"
