"""Runs in an environment of KerasHub: what a SUT says to configurations that KerasHub's classes
lack, and what comes of them without it.

`python -m tests.sut.keras_cannot SPEC.json` writes told.json beside the specification.
"""

import sys
from pathlib import Path

from formats.writing import write_json
from sut.contract import Unsupported
from sut.keras3 import causal_lm
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of


def sentence(workload):
    try:
        causal_lm.load(workload)
    except Unsupported as e:
        return str(e)
    return "it ran"


def itself(workload):
    check = causal_lm.check
    causal_lm.check = lambda *_: None
    try:
        model = causal_lm.load(workload).model
    except Exception as e:  # noqa: BLE001  whatever the library says
        return f"{type(e).__name__}: {e}"
    finally:
        causal_lm.check = check
    return (
        "loaded"
        f" {'with' if hasattr(model.backbone.token_embedding, 'reverse_embeddings') else 'without'}"
        " lm_head"
    )


def main(specification):
    told = {}
    for case, spec in read_json(specification).items():
        workload = workload_of(spec)
        told[case] = [sentence(workload), itself(workload)]
    write_json(specification.parent / "told.json", told)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
