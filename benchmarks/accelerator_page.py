"""The summary of benchmarks/accelerator.py, in Markdown."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from harness.sweep.cells import Series


def markdown(device: str, state: Mapping[str, Any], series: list[Series]) -> Iterator[str]:
    """Yield the summary's lines.

    Args:
        state: the content of accelerator.json.
        series: the list's cells, in its order.
    """
    entries = [(one, state["cells"].get(one.command)) for one in series]
    begun = [(one, entry) for one, entry in entries if entry]
    lacking = [(one, entry) for one, entry in begun if entry["status"] == "unsupported"]
    done = [(one, entry) for one, entry in begun if entry["status"] != "unsupported"]
    good = sum(entry["status"] == "ok" for _, entry in done)
    left = len(series) - len(begun)
    yield f"# {device}: {good} of {len(done)} cells ok, {len(lacking)} cannot run here, {left} not measured yet"
    yield ""
    yield f"`{shlex.join(['python', '-m', 'benchmarks.accelerator', *sys.argv[1:]])}` goes on. No figure here is an MLPerf result."
    yield ""
    if state["bytes_per_second"]:
        yield f"- The device copies {state['bytes_per_second'] / 1e9:,.0f} GB/s, read and written (1 GiB of float32, by torch)."
    for name, made in state["made"].items():
        yield f"- Weights of {name}: {made['bytes'] / 1e9:.2f} GB, there after {made['seconds']} s."
    yield "- Share of a large product: the model's operations a second, over those of a large matrix product of the same framework."
    yield (
        "- Share of bandwidth: the bytes of the weights that a step of decoding reads, over what the device copies. "
        "An embedding that is no head, and the cache of keys and values, are not counted. It is given for 8 new tokens and more."
    )
    yield ""
    yield (
        "| cell | status | samples/s | tokens/s | ms/step | Keras' table, A100: ms/step | share of a large product | share of bandwidth | "
        "peak GB | J/sample | MHz | accuracy | seconds |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    yield from (f"| {one.label} | {' | '.join(columns(entry))} |" for one, entry in done)
    failed = [(one, entry) for one, entry in done if entry["status"] != "ok"]
    if failed:
        yield from ("", "## Not ok", "")
        yield from (f"- `{one.command}`: {entry['status']}: {entry['reason']}" for one, entry in failed)
    if lacking:
        yield from ("", "## Cannot run here", "")
        reasons = dict.fromkeys(entry["reason"] for _, entry in lacking)
        yield from (f"- {', '.join(one.label for one, entry in lacking if entry['reason'] == reason)}: {reason}" for reason in reasons)
    if left:
        yield from ("", "## Not measured yet", "")
        yield from (f"- {one.label}" for one, entry in entries if not entry)
    yield from ("", "## The machine", "")
    yield from (f"- {line}" for line in state["doctor"])


def columns(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the table says of one cell, after its name."""
    metrics, accuracy = entry.get("metrics", {}), entry.get("accuracy")
    yield str(entry["status"])
    for name in ("samples_per_second", "tokens_per_second", "ms_per_step"):
        yield f"{metrics[name]:,.4g}" if name in metrics else ""
    yield f"{entry['published_ms_per_step']:,.4g}" if entry.get("published_ms_per_step") else ""
    yield f"{metrics['matrix_share']:.1%}" if "matrix_share" in metrics else ""
    yield f"{entry['bandwidth_share']:.1%}" if entry.get("bandwidth_share") else ""
    peak = entry.get("peak_device_bytes") or entry.get("peak_host_bytes")
    yield f"{peak / 1e9:.2f}" if peak else ""
    yield ", ".join(f"{j:.3g} {source}" for source, j in entry.get("joules_per_sample", {}).items())
    yield "–".join(str(clocks["sm_mhz"]) for clocks in entry.get("clocks", ()) if "sm_mhz" in clocks)
    yield f"{accuracy['value']:.3g} of {accuracy['threshold']:.3g}" if accuracy else ""
    yield f"{entry.get('seconds', 0):.0f}"
