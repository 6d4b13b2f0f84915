"""Runs in the environment of ONNX Runtime: see tests/sut/test_onnxruntime.py."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from formats.writing import write_json
from scenarios.worker.queries.teacher_forcing import forced_logits
from sut.evidence import compilations
from sut.onnxruntime import bert, build, causal_lm
from tests.broken.running import make_inputs
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of

_CHANGES = [
    {"model_type": "llama", "rope_scaling": {"rope_type": "linear"}},
    {"sliding_window": 8},
    {"vocab_size": 256},
    {"model_type": "phi3", "vocab_size": 512},
    {"head_dim": 12},
    {"model_type": "olmo"},
]


def folders(kept):
    return sorted(each.name.partition("-")[0] for each in kept.iterdir() if each.is_dir())


def conversions(workload, kept):
    """Of the same model, three times."""
    found = {}
    batch = make_inputs("predict", 2, 1)
    for name in ("first", "second"):
        sut = bert.load(replace(workload, converted=kept))
        sut.predict(sut.prepare(batch))
        counts = {"hits": compilations.hits(), "misses": compilations.misses()}
        found[name] = {**counts, "folders": folders(kept)}
    (whole,) = kept.glob("bert-????????")
    partial = shutil.move(whole, f"{whole}.partial")
    (Path(partial) / "model.onnx").unlink()
    sut = bert.load(replace(workload, converted=kept))
    sut.predict(sut.prepare(batch))
    misses = compilations.misses() - found["second"]["misses"]
    found["after a killed one"] = {"misses": misses, "folders": folders(kept)}
    return found


def answer(sut, batch):
    return sut.to_host(sut.predict(sut.prepare(batch)))["tokens"].tolist()


def generations(workload):
    batch = make_inputs("generate", 2, 1)
    batch["prompt_length"] = np.array([9, 5], np.int32)
    sut = causal_lm.load(workload)
    tokens = answer(sut, batch)
    found = {"usual": described(sut, batch, tokens)}
    token = tokens[0][2]
    for name, key in (("ends", "bos_token_id"), ("pads", "pad_token_id")):
        config = {**workload.config["model"], key: token}
        other = replace(workload, config={**workload.config, "model": config})
        sut = causal_lm.load(other)
        found[name] = {"token": token, **described(sut, batch, answer(sut, batch))}
    found["stopped"] = stopped(workload, batch, tokens)
    first = next(iter(sut.models))
    batch["input_ids"][1, 4] = first  # the end of the second prompt
    padded = answer(sut, batch)[1]
    second = {name: values[1:] for name, values in batch.items()}
    config = {**workload.config["model"], "pad_token_id": first + 1}
    other = causal_lm.load(replace(workload, config={**workload.config, "model": config}))
    found["prompt"] = {"padded": padded, "alone": answer(other, second)[0]}
    return found


def stopped(workload, batch, tokens):
    """Both rows end at the third token of the first one, which is an end token of the cell."""
    sut = causal_lm.load(
        replace(workload, config={**workload.config, "end_tokens": [tokens[0][2]]})
    )
    twice = {name: values[[0, 0]] for name, values in batch.items()}
    answers = sut.to_host(sut.predict(sut.prepare(twice)))
    forced = described(sut, twice, [tokens[0]] * 2)["largest"]
    return {"counts": answers["n_tokens"].tolist(), "largest": forced}


def described(sut, batch, tokens):
    prompts = {name: batch[name] for name in ("input_ids", "prompt_length")}
    logits = forced_logits(sut, prompts, {"tokens": np.array(tokens, np.int32)}, 2)
    return {"tokens": tokens, "largest": logits.max(-1).tolist()}


def main(specification):
    content = read_json(specification)
    root = Path(content["folder"])
    workloads = {name: workload_of(fields) for name, fields in content["workloads"].items()}
    found = conversions(workloads["bert"], root / "converted")
    mistral = replace(workloads["mistral"], converted=root / "converted")
    found |= generations(mistral)
    found["faults of mistral"] = list(build.faults(mistral))
    found["faults"] = []
    for changes in _CHANGES:
        config = {**mistral.config, "model": {**mistral.config["model"], **changes}}
        found["faults"].append((changes, list(build.faults(replace(mistral, config=config)))))
    write_json(root / "found.json", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
