"""The table of flags in docs/use/options.md, made from the help of `run`. After a change of a flag:

PYTHONPATH=. .cache/environments/dev/bin/python -m tests.options_document
"""

from __future__ import annotations

import argparse
import re

from harness.commands.run import run_parser
from harness.execution.environments import ROOT

DOCUMENT = ROOT / "docs" / "use" / "options.md"
_BEGIN, _END = "<!-- made by tests.options_document -->", "<!-- end -->"
_SEE = {
    "scenario": "[serving.md](serving.md), [fit.md](fit.md)",
    "model": "[hf-2019.md](../measured/hf-2019.md), [your-model.md](your-model.md)",
    "benchmark": "[benchmarks.md](benchmarks.md)",
    "stream": "[serving.md](serving.md#token-latencies)",
    "max_latency_ms": "[serving.md](serving.md)",
    "max_ttft_ms": "[serving.md](serving.md)",
    "max_tpot_ms": "[serving.md](serving.md)",
    "max_wait_ms": "[serving.md](serving.md)",
    "rate": "[serving.md](serving.md)",
    "lora": "[fit.md](fit.md)",
    "dataset": "[inputs.md](inputs.md), [your-model.md](your-model.md#inputs)",
    "chat": "[inputs.md](inputs.md#chat)",
    "weights": "[inputs.md](inputs.md)",
    "custom": "[your-model.md](your-model.md#custom-layers)",
    "duration": "[below](#how-long-a-test-lasts)",
    "sut_option": "[8 bits](#weights-of-8-bits), [shards](scale.md#models-larger-than-one-device)",
    "replicas": "[scale.md](scale.md)",
    "replicas_on": "[scale.md](scale.md#on-a-cluster)",
    "threads": "[below](#threads)",
    "packages": "[releases.md](releases.md)",
    "tuned": "[slow.md](slow.md#what-tuning-buys)",
    "system": "[benchmarks.md](benchmarks.md#the-system-description)",
}
"""Name of a flag → links for its row."""


def current(text: str) -> str:
    """The document with today's table. Raises ValueError if it has no place for one."""
    before, begin, rest = text.partition(f"{_BEGIN}\n")
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"docs/use/options.md lacks {_BEGIN} or {_END}")
    rows = [_row(action) for action in run_parser()._actions if action.dest != "help"]
    table = "\n".join(["| flag | what it does, and its default | see |", "|---|---|---|", *rows])
    return f"{before}{begin}{table}\n{end}{after}"


def _row(action: argparse.Action) -> str:
    value = action.metavar or ""
    if action.nargs == "?":
        value = f"[{value or action.const}]"
    flags = [f"`{flag} {value}`".replace(" `", "`") for flag in action.option_strings]
    text = (action.help or "").replace("%%", "%").replace("|", "\\|")
    text = re.sub(r"(?<!\S)--[a-z][a-z-]*(?: [A-Z]+\b)?", r"`\g<0>`", text)
    return f"| {', '.join(flags)} | {text} | {_SEE.get(action.dest, '')} |"


if __name__ == "__main__":
    DOCUMENT.write_text(current(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
