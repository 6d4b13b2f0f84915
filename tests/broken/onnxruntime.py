"""SUTs of ONNX Runtime, each with one mistake: `python -m tests.broken.onnxruntime SPEC.json`."""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

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


def honest(w):
    """The SUT after its first batch, in which the model is converted."""
    return running.warm(load(w))


def in_prepare(w):
    """prepare runs the model."""
    return running.predict_in_prepare(honest(w))


def with_session(sut, session):
    """The SUT makes its sessions by this function."""
    own_load = sut.load

    def load_changed(*arguments):
        with patch.object(runtime, "session", session):
            return own_load(*arguments)

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


def replace_weights(sut, change):
    """The sessions are of a file with other matrices."""

    def changed(model):
        for each in model.graph.initializer:
            if each.data_type == TensorProto.FLOAT and len(each.dims) == 2:
                values = change(numpy_helper.to_array(each))
                each.CopyFrom(numpy_helper.from_array(values, each.name))
        return model

    return with_file(sut, changed)


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


def prompt_kept(w):
    """The answers of a prompt go on where an earlier generator of the same prompt has stopped."""
    sut = load(w)
    own, kept = sut._reading, {}

    class Kept:
        """A generator that only hands over again what another one has generated."""

        def __init__(self, generator):
            self.generator, self.tokens, self.at = generator, [], 0

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


if __name__ == "__main__":
    running.main(globals())
