"""SUTs of OpenVINO, each with one mistake: `python -m tests.broken.openvino SPEC.json`."""

import os
from dataclasses import replace
from pathlib import Path

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


def warm(w):
    """The SUT after its first batch, in which the model is converted."""
    sut = load(w)
    sut.predict(sut.prepare(running.make_inputs(w.task, 2, 1)))
    return sut


def honest(w):
    """The SUT as it is."""
    return warm(w)


def honest_in_two_shapes(w):
    """Batches of two shapes in one watched call."""
    return load(w)


def memo(w):
    """predict answers from a memo what it has answered before."""
    return running.keep_answers(load(w))


def constants(w):
    """evidence reports what it saw the first time."""
    return running.report_constants(load(w))


def with_file(sut, change):
    """The programs are of a changed file, which `change` writes."""
    own_load, program = sut.load, runtime.Program

    def changed(path, *rest):
        other = path.with_name(f"changed-{os.getpid()}.xml")
        change(openvino.Core().read_model(path), other)
        return program(other, *rest)

    def load_changed(*arguments):
        runtime.Program = changed
        try:
            return own_load(*arguments)
        finally:
            runtime.Program = program

    sut.load = load_changed
    return sut


def float16_file(w):
    """Weights are float16 under the name of float32, as OpenVINO saves them by default."""
    return with_file(load(w), openvino.save_model)


def of_weights(change):
    """Change each matrix of a file."""

    def changed(model, path):
        for each in model.get_ordered_ops():
            if each.get_type_name() != "Constant" or len(each.shape) != 2:
                continue
            if each.get_element_type() == openvino.Type.f32:
                values = opset16.constant(change(np.array(each.data)))
                openvino.utils.replace_node(each, values)
        openvino.save_model(model, path, compress_to_fp16=False)

    return changed


def weights_through_bfloat16(w):
    """Weights were rounded to bfloat16 before."""
    return with_file(load(w), of_weights(running.to_bfloat16))


def weights_through_int8(w):
    """Weights were rounded to 8 bits before."""
    return with_file(load(w), of_weights(running.to_int8))


def in_prepare(w):
    """prepare runs the model."""
    sut = warm(w)
    own = sut.prepare

    def prepare(inputs):
        prepared = own(inputs)
        sut.predict(prepared)
        return prepared

    sut.prepare = prepare
    return sut


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


BERT = (
    honest,
    honest_in_two_shapes,
    memo,
    constants,
    another_device,
    float16_file,
    weights_through_bfloat16,
    weights_through_int8,
    in_prepare,
)
MISTRAL = (honest, memo, another_device, float16_cache, prefixes_kept)
CASES = {"openvino": {"bert": BERT, "mistral": MISTRAL}}

if __name__ == "__main__":
    running.main(CASES)
