"""SUTs of OpenVINO, each with one mistake: `python -m tests.broken.openvino SPEC.json`."""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import openvino
from openvino import opset16

from sut.openvino import bert, causal_lm, runtime
from tests.broken import running

_KEPT = Path(os.environ.get("TMPDIR", "/tmp")) / f"openvino-{os.getpid()}"


def load(w):
    """The SUT. All cases of a model share its converted model."""
    kept = replace(w, converted=_KEPT / w.model)
    return (causal_lm if w.task == "generate" else bert).load(kept)


def honest(w):
    """The SUT after its first batch, in which the model is converted."""
    return running.warm(load(w))


def in_prepare(w):
    """prepare runs the model."""
    return running.predict_in_prepare(honest(w))


def with_file(sut, change):
    """The programs are of a changed file, which `change` writes."""
    own_load, program = sut.load, runtime.Program

    def changed(path, *rest):
        other = path.with_name(f"changed-{os.getpid()}.xml")
        change(openvino.Core().read_model(path), other)
        return program(other, *rest)

    def load_changed(*arguments):
        with patch.object(runtime, "Program", changed):
            return own_load(*arguments)

    sut.load = load_changed
    return sut


def float16_file(w):
    """Weights are float16 under the name of float32, as OpenVINO saves them by default."""
    return with_file(load(w), openvino.save_model)


def replace_weights(sut, change):
    """The programs are of a file with other matrices."""

    def changed(model, path):
        for each in model.get_ordered_ops():
            if each.get_type_name() != "Constant" or len(each.shape) != 2:
                continue
            if each.get_element_type() == openvino.Type.f32:
                values = opset16.constant(change(np.array(each.data)))
                openvino.utils.replace_node(each, values)
        openvino.save_model(model, path, compress_to_fp16=False)

    return with_file(sut, changed)


def float16_cache(w):
    """The cache is float16 under the name of float32, which is OpenVINO's default."""
    sut = load(w)
    sut.settings = lambda: {
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f16",
        "INFERENCE_NUM_THREADS": runtime.settings()["INFERENCE_NUM_THREADS"],
    }
    return sut


def another_device(w):
    """The programs are compiled for AUTO, OpenVINO's own choice of a device."""
    runtime.DEVICE = "AUTO"
    return load(w)


def prefixes_kept(w):
    """The pipeline keeps what it has computed of earlier prompts, which is its default."""
    sut = load(w)
    own = sut.scheduler

    def scheduler():
        kept = own()
        kept.enable_prefix_caching = True
        return kept

    sut.scheduler = scheduler
    return sut


if __name__ == "__main__":
    running.main(globals())
