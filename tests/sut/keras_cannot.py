"""Runs in an environment of KerasHub: what a SUT says to configurations that KerasHub's classes
lack, and what comes of them without it.

`python -m tests.sut.keras_cannot SPEC.json` writes told.json beside the specification.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sut.contract import Unsupported, Workload
from sut.keras3 import causal_lm, hidden_states, xlnet


def load(workload: Workload) -> Any:
    """The model, as the file of its architecture loads it."""
    return (hidden_states if workload.model == "xlnet" else causal_lm).load(workload).model


def sentence(workload: Workload) -> str:
    try:
        load(workload)
    except Unsupported as e:
        return str(e)
    return "it ran"


def itself(workload: Workload) -> str:
    checked = {module: module.check for module in (causal_lm, xlnet)}
    for module in checked:
        module.check = lambda *_: None
    try:
        model = load(workload)
    except Exception as e:  # noqa: BLE001  whatever the library says
        return f"{type(e).__name__}: {e}"
    finally:
        for module, check in checked.items():
            module.check = check
    if workload.model == "xlnet":
        return f"loaded with attn_type {workload.config['model']['attn_type']} overlooked"
    return (
        "loaded"
        f" {'with' if hasattr(model.backbone.token_embedding, 'reverse_embeddings') else 'without'}"
        " lm_head"
    )


def main(specification: Path) -> None:
    told: dict[str, Any] = {}
    for case, spec in json.loads(specification.read_text()).items():
        workload = Workload(**{**spec, "checkpoint": Path(spec["checkpoint"])})
        told[case] = [sentence(workload), itself(workload)]
    (specification.parent / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
