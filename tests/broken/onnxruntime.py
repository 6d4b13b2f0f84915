"""SUTs of ONNX Runtime, each with one mistake: `python -m tests.broken.onnxruntime SPEC.json`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from sut.onnxruntime import bert, causal_lm, runtime
from tests.broken import running

_KEPT = Path(os.environ.get("TMPDIR", "/tmp")) / f"onnxruntime-{os.getpid()}"


def load(w):
    """The SUT. All cases of a model share its converted model."""
    kept = replace(w, converted=_KEPT / w.model)
    return (causal_lm if w.task == "generate" else bert).load(kept)


def with_session(sut, session):
    """The SUT makes its sessions by this function."""
    own, own_load = runtime.session, sut.load

    def load_changed(*arguments):
        runtime.session = session
        try:
            return own_load(*arguments)
        finally:
            runtime.session = own

    sut.load = load_changed
    return sut


def with_file(sut, change):
    """The sessions are of a changed file."""
    own = runtime.session

    def session(path, *rest, **named):
        changed = Path(path).with_name(f"changed-{os.getpid()}.onnx")
        onnx.save(change(onnx.load(path)), changed)
        return own(changed, *rest, **named)

    return with_session(sut, session)


def of_weights(change):
    """Change each matrix of a file."""

    def changed(model):
        for each in model.graph.initializer:
            if each.data_type == TensorProto.FLOAT and len(each.dims) == 2:
                values = change(numpy_helper.to_array(each))
                each.CopyFrom(numpy_helper.from_array(values, each.name))
        return model

    return changed


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


def honest_streamed_from_a_thread(w):
    """A thread generates the tokens that are handed over."""
    return running.stream_from_a_thread(load(w))


def memo(w):
    """predict answers from a memo what it has answered before."""
    return running.keep_answers(load(w))


def constants(w):
    """evidence reports what it saw the first time."""
    return running.report_constants(load(w))


def another_provider(w):
    """The sessions are made for another execution provider, which leaves all to the processor."""
    own = runtime.session

    def session(path, workload, *rest, **named):
        return own(path, workload, ("AzureExecutionProvider", runtime.PROVIDER), **named)

    return with_session(load(w), session)


def float16_file(w):
    """Weights are float16 under the name of float32. ONNX Runtime computes with them in float32."""

    def halved(model):
        return convert_float_to_float16(model, keep_io_types=True, disable_shape_infer=True)

    return with_file(load(w), halved)


def weights_through_bfloat16(w):
    """Weights were rounded to bfloat16 before."""
    return with_file(load(w), of_weights(running.to_bfloat16))


def weights_through_int8(w):
    """Weights were rounded to 8 bits before."""
    return with_file(load(w), of_weights(running.to_int8))


def prompt_kept(w):
    """The answers of a prompt go on where an earlier generator of the same prompt has stopped."""
    sut = load(w)
    own, kept = sut._reading, dict[bytes, Any]()

    class Kept:
        """A generator that only hands over again what another one has generated."""

        def __init__(self, generator):
            self.generator, self.tokens, self.at = generator, list[np.ndarray](), 0

        def is_done(self):
            return self.at == len(self.tokens) and self.generator.is_done()

        def generate_next_token(self):
            if self.at == len(self.tokens):
                self.generator.generate_next_token()
                self.tokens.append(np.array(self.generator.get_next_tokens()))
            self.at += 1

        def get_next_tokens(self):
            return self.tokens[self.at - 1]

        def set_runtime_option(self, *words):
            self.generator.set_runtime_option(*words)

    def reading(sequences, lengths, longest):
        key = sequences.tobytes()
        if key not in kept:
            kept[key] = Kept(own(sequences, lengths, longest))
        kept[key].at = 0
        return kept[key]

    sut._reading = reading
    return sut


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


BERT = (
    honest,
    honest_in_two_shapes,
    memo,
    constants,
    another_provider,
    float16_file,
    weights_through_bfloat16,
    weights_through_int8,
    in_prepare,
)
MISTRAL = (honest, honest_streamed_from_a_thread, memo, prompt_kept)
CASES = {"onnxruntime": {"bert": BERT, "mistral": MISTRAL}}

if __name__ == "__main__":
    running.main(CASES)
