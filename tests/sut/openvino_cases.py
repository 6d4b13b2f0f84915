"""Runs in the environment of OpenVINO: see tests/sut/test_openvino.py."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from formats.writing import write_json
from scenarios.worker.queries.teacher_forcing import forced_logits
from sut.contract import Unsupported
from sut.evidence import openvino_timeline
from sut.exported import modules
from sut.openvino import bert, build, causal_lm, sam
from tests.broken.running import make_inputs
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of


def generations(workload):
    """Answers of two uneven prompts, and of each alone, whole and streamed."""
    sut = causal_lm.load(workload)
    batch = make_inputs("generate", 2, 1)
    batch["prompt_length"] = np.array([9, 5], np.int32)
    tokens = sut.to_host(sut.predict(batch))["tokens"]
    streamed = []
    for row in range(2):
        steps = []
        one = {name: values[row : row + 1] for name, values in batch.items()}
        sut.stream(one, lambda token, steps=steps: steps.append(int(token[0])) or True)
        streamed.append(steps)
    stopped = []
    sut.stream(one, lambda token: stopped.append(int(token[0])) or len(stopped) < 2)
    prompts = {name: batch[name] for name in ("input_ids", "prompt_length")}
    logits = forced_logits(sut, prompts, {"tokens": tokens}, 2)
    return {
        "tokens": tokens.tolist(),
        "streamed": streamed,
        "stopped": stopped,
        "several": refusal(lambda: sut.stream(batch, lambda token: True)),
        "likeliest": logits.argmax(-1).tolist(),
        "settings": sut.reported,
    }


def masks(workload):
    """How far the masks of Segment Anything are from those of the module that is converted."""
    rng = np.random.default_rng(1)
    sut = sam.load(workload)
    side = workload.config["model"]["image_size"]
    inputs = {
        "image": rng.random((2, side, side, 3), np.float32),
        "points": rng.random((2, 2, 2), np.float32) * side,
        "labels": np.array([[1, 0], [1, 1]], np.int32),
    }
    batch = sut.prepare(inputs)
    logits, scores = sut.predict(batch).values()
    with torch.no_grad():
        tensors = {name: torch.from_numpy(each) for name, each in batch.items()}
        expected, rated = modules.of(workload, "sam").eval()(tensors)
    assert workload.converted
    return {
        "logits": float(np.abs(logits - expected.numpy()).max() / expected.std()),
        "scores": float(np.abs(scores - rated.numpy()).max()),
        "files": sorted(each.name for each in workload.converted.glob("*/*")),
    }


def profiled(workloads, batches):
    """The operators of BERT, and the words with which a profile of a language model is refused."""
    openvino_timeline.prepare()
    suts = {"bert": bert.load(workloads["bert"]), "mistral": causal_lm.load(workloads["mistral"])}
    traces = {}

    def trace(name):
        sut, batch = suts[name], batches[name]
        sut.predict(batch)

        def call(window):
            with window():
                sut.predict(batch)

        traces[name] = openvino_timeline.record(call)

    refused = {name: refusal(partial(trace, name)) for name in suts}
    return {"refused": refused, "kinds": sorted({each.kind for each in traces["bert"].spans})}


def refusal(call):
    """The words with which a call is refused."""
    try:
        call()
    except Unsupported as e:
        return str(e)
    return ""


def main(specification):
    content = read_json(specification)
    root = Path(content["folder"])
    workloads = {}
    for name, fields in content["workloads"].items():
        workloads[name] = workload_of(fields, converted=root / name)
    sut = bert.load(workloads["bert"])
    batch = sut.prepare(make_inputs("predict", 2, 1))
    sut.predict(batch)
    evidence = sut.evidence(lambda: sut.predict(batch))
    found = {"bert": {"precision": evidence.precision, **evidence.detail}}
    mistral = workloads["mistral"]
    found["mistral"] = generations(mistral)
    found["faults of mistral"] = list(build.faults(mistral))
    config = {**mistral.config, "model": {**mistral.config["model"], **content["changes"]}}
    found["faults"] = list(build.faults(replace(mistral, config=config)))
    found["sam"] = masks(workloads["sam"])
    batches = {"bert": batch, "mistral": make_inputs("generate", 2, 1)}
    found["profile"] = profiled(workloads, batches)
    write_json(root / "found.json", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
