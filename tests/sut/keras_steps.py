"""How many steps KerasHub's loop makes of uneven prompts, in the environment of keras3-jax.

`python -m tests.sut.keras_steps SPEC.json` writes steps.json beside the specification.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sut.contract import Workload
from sut.keras3 import causal_lm

LENGTHS, NEW = np.array([3, 5, 9], np.int32), 8


def generated(workload: Workload) -> dict[str, Any]:
    """The tokens of three prompts, and how often a next one was chosen."""
    sut, chosen = causal_lm.load(workload), list[int]()
    own = sut.model.sampler.get_next_token

    def get_next_token(probabilities: Any) -> Any:
        jax.debug.callback(lambda: chosen.append(1))
        return own(probabilities)

    sut.model.sampler.get_next_token = get_next_token
    ids = np.random.default_rng(7).integers(3, workload.config["model"]["vocab_size"], (3, 16)).astype(np.int32)
    batch = {"input_ids": ids, "prompt_length": LENGTHS, "max_new_tokens": np.full(3, NEW, np.int32)}
    tokens = sut.to_host(sut.predict(sut.prepare(batch)))["tokens"]
    jax.effects_barrier()
    return {"tokens": tokens.tolist(), "steps": len(chosen)}


def main(specification: Path) -> None:
    told = {}
    for case, spec in json.loads(specification.read_text()).items():
        told[case] = generated(Workload(**{**spec, "checkpoint": Path(spec["checkpoint"])}))
    (specification.parent / "steps.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
