"""SUTs of native torch, each with one mistake: `python -m tests.broken.native_torch SPEC.json`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch._inductor.compile_fx

# Imported once, and not in the fork of each case.
from transformers import BertForSequenceClassification, MistralForCausalLM  # noqa: F401
from transformers.modeling_outputs import CausalLMOutputWithPast

from sut.contract import Workload
from sut.native_torch import bert, causal_lm, compiled
from tests.broken import running


def load(w: Workload) -> Any:
    return (causal_lm if w.task == "generate" else bert).load(w)


def uncompiled(w: Workload) -> Any:
    """A SUT that says compile, before anyone compiled its model."""
    sut = load(w)
    vars(sut.model).pop("forward", None)
    return sut


def compile_cheaply(function: Any, **arguments: Any) -> Any:
    """Dynamo's regions without Inductor's compilation."""
    return torch.compile(function, backend="eager", dynamic=False, **arguments)


def cheap(w: Workload) -> Any:
    """The SUT as it is, or captured without Inductor."""
    return backend_eager(w) if w.execution == "compile" else load(w)


def layers(sut: Any) -> Any:
    return sut.model.bert.encoder.layer if hasattr(sut.model, "bert") else sut.model.model.layers


def replace_weights(sut: Any, change: Callable[[Any], Any]) -> Any:
    for parameter in sut.model.parameters():
        if parameter.ndim == 2:
            parameter.data = torch.from_numpy(change(parameter.detach().numpy()))
    return sut


# Honest ones, which nothing may refuse.


def honest(w: Workload) -> Any:
    """The SUT as it is."""
    return load(w)


def honest_in_two_shapes(w: Workload) -> Any:
    """Batches of two shapes in one watched call."""
    return load(w)


def honest_two_in_flight(w: Workload) -> Any:
    """Two batches are in flight."""
    return load(replace(w, options={"in_flight": "2"}))


def honest_streamed_from_a_thread(w: Workload) -> Any:
    """A thread generates the tokens that are handed over."""
    return running.stream_from_a_thread(load(w))


def honest_switches(w: Workload) -> Any:
    """Switches of `--tuned` that this model can have."""
    return load(replace(w, settings={"cudnn-benchmark": "on"}))


def switches_forgotten(w: Workload) -> Any:
    """The SUT's file does not read the settings of its switches."""
    sut = load(w)
    sut.workload = replace(w, settings={"to-mkldnn": "on", "memory-format": "channels-last"})
    return sut


def dynamic_forgotten(w: Workload) -> Any:
    """The same, compiled by Inductor."""
    sut = load(w)
    sut.workload = replace(w, settings={"dynamic": "on", "compile-mode": compiled.MODE})
    return sut


def honest_exported(w: Workload) -> Any:
    """torch.export's program of the model runs."""
    sut = load(w)
    example = {
        k: torch.from_numpy(v) for k, v in sut.prepare(running.make_inputs(w.task, 2, 1)).items()
    }
    program = torch.export.export(sut.model, (), kwargs=example).module()
    sut.model.forward = program.forward
    return sut


def honest_fused(w: Workload) -> Any:
    """Query, key and value are one product."""
    sut = load(w)
    for layer in layers(sut):
        own = layer.attention.self
        parts = [own.query, own.key, own.value]
        fused = torch.nn.Linear(own.query.in_features, 3 * own.query.out_features)
        fused.weight.data = torch.cat([each.weight.data for each in parts])
        fused.bias.data = torch.cat([each.bias.data for each in parts])

        def of_part(place: int, fused: Any = fused) -> Any:
            def forward(x: Any) -> Any:
                if place == 0:
                    fused.answers = fused(x).chunk(3, -1)
                return fused.answers[place]

            return forward

        for place, part in enumerate(parts):
            part.forward = of_part(place)
    return sut


def honest_in_inference_mode(w: Workload) -> Any:
    """predict runs in inference mode."""
    return running.around(load(w), torch.inference_mode)


def honest_in_a_warm_thread(w: Workload) -> Any:
    """A thread that stays computes, and to_host waits for it."""
    sut = load(w)
    own, to_host, pool = sut.predict, sut.to_host, ThreadPoolExecutor(1)
    sut.predict = lambda batch: pool.submit(own, batch)
    sut.to_host = lambda answers: to_host(answers.result())
    return sut


def honest_in_micro_batches(w: Workload) -> Any:
    """The rows are computed one by one."""
    sut = load(w)
    own = sut.to_host
    sut.to_host = lambda outputs: {
        "logits": np.concatenate([own(each)["logits"] for each in outputs])
    }
    return running.in_micro_batches(sut, list)


def honest_padded_to_8(w: Workload) -> Any:
    """Each batch has 8 rows."""
    return running.padded_to_8(load(w))


def honest_plain_attention(w: Workload) -> Any:
    """Attention is two products and a softmax."""
    sut = load(w)
    sut.model.set_attn_implementation("eager")
    return sut


def honest_sorted(w: Workload) -> Any:
    """The rows are sorted by their lengths."""
    return running.sort_rows(load(w))


def honest_static_cache(w: Workload) -> Any:
    """The KV cache has the length of the whole sequence from the beginning."""
    sut = load(w)
    sut.model.generation_config.cache_implementation = "static"
    sut.model.generation_config.disable_compile = True
    return sut


def first_layer_kept(w: Workload) -> Any:
    """The first layer's outputs are kept by its inputs."""
    sut = load(w)
    own, memo = layers(sut)[0].forward, dict[bytes, Any]()

    def forward(hidden: Any, *rest: Any, **named: Any) -> Any:
        key = hidden.numpy().tobytes()
        if key not in memo:
            memo[key] = own(hidden, *rest, **named)
        return memo[key]

    layers(sut)[0].forward = forward
    return sut


def prompt_kept(w: Workload) -> Any:
    """The KV cache of a prompt is kept, so that only its last token is computed again."""
    sut = load(w)
    own, memo = sut.model.forward, dict[bytes, Any]()

    def forward(input_ids: Any = None, **named: Any) -> Any:
        if input_ids.shape[1] == 1:
            return own(input_ids=input_ids, **named)
        key = input_ids.numpy().tobytes()
        if key not in memo:
            outputs = own(input_ids=input_ids, **named)
            memo[key] = copy.deepcopy((outputs.logits, outputs.past_key_values))
            return outputs
        logits, cache = copy.deepcopy(memo[key])
        return CausalLMOutputWithPast(logits=logits, past_key_values=cache)

    sut.model.forward = forward
    return sut


def half_of_the_rows_kept(w: Workload) -> Any:
    """Half of the rows are kept by their content."""
    return running.keep_rows(load(w))


def joined(w: Workload) -> Any:
    """Four batches are computed as one."""
    return running.join_batches(load(w))


def honest_without_a_cache(w: Workload) -> Any:
    """Each step computes the whole sequence again."""
    sut = load(w)
    sut.model.generation_config.use_cache = False
    return sut


# Answers.


def memo(w: Workload) -> Any:
    """The model is entered only for inputs that are new."""
    return running.keep_answers(cheap(w))


def in_prepare(w: Workload) -> Any:
    """prepare looks up the embeddings of its inputs and keeps them for predict."""
    sut = load(w)
    words, kept = sut.model.bert.embeddings.word_embeddings, dict[bytes, Any]()
    own, look_up = sut.prepare, words.forward

    def prepare(inputs: Any) -> Any:
        prepared = own(inputs)
        for row in torch.from_numpy(prepared["input_ids"]):
            kept[row.numpy().tobytes()] = look_up(row)
        return prepared

    words.forward = lambda ids: torch.stack([kept[row.numpy().tobytes()] for row in ids])
    sut.prepare = prepare
    return sut


def layer_left_out(w: Workload) -> Any:
    """One of the layers is forgotten."""
    sut = load(w)
    del layers(sut)[0]
    return sut


# Which call ran.


def eager_forward(w: Workload) -> Any:
    """predict calls the class's forward, around the compiled one."""
    sut = load(w)
    own, kind = sut.model, type(sut.model)

    class Round:
        def __call__(self, **inputs: Any) -> Any:
            return kind.forward(own, **inputs)

        def __getattr__(self, name: str) -> Any:
            return getattr(own, name)

    predict = sut.predict

    def around(batch: Any) -> Any:
        sut.model = Round()
        try:
            return predict(batch)
        finally:
            sut.model = own

    sut.predict = around
    return sut


def wrapper_generates(w: Workload) -> Any:
    """torch.compile(model).generate() is the generate of the model that is not compiled. A call of
    the wrapper left a graph.
    """
    sut = uncompiled(w)
    sut.model = compile_cheaply(sut.model)
    with torch.no_grad():
        sut.model(input_ids=torch.ones((1, 9), dtype=torch.int64))
    return sut


def beyond_the_limit_in_two_shapes(w: Workload) -> Any:
    """Dynamo keeps one shape and runs the second eager in silence."""
    sut = uncompiled(w)
    sut.model.forward = torch.compile(sut.model.forward, dynamic=False)
    torch._dynamo.config.recompile_limit, torch._dynamo.config.fail_on_recompile_limit_hit = (
        1,
        False,
    )
    return sut


def compiled_beside(w: Workload) -> Any:
    """A compiled function runs in each forward pass, and the model is eager."""
    sut = uncompiled(w)
    forward, scale = sut.model.forward, compile_cheaply(lambda x: x * 1)

    def both(*args: Any, **named: Any) -> Any:
        scale(torch.ones(3))
        return forward(*args, **named)

    sut.model.forward = both
    return sut


def compiled_anew(w: Workload) -> Any:
    """predict resets Dynamo, so that each call compiles."""
    sut = uncompiled(w)
    sut.model.classifier.forward = compile_cheaply(sut.model.classifier.forward)
    own = sut.predict

    def predict(batch: Any) -> Any:
        torch._dynamo.reset()
        return own(batch)

    sut.predict = predict
    return sut


def another_call_watched(w: Workload) -> Any:
    """evidence watches a call of its own."""
    return running.watch_another_call(load(w))


def watched_twice(w: Workload) -> Any:
    """evidence makes the call twice."""
    return running.watch_twice(load(w))


def constants(w: Workload) -> Any:
    """evidence reports what it saw the first time."""
    return running.report_constants(cheap(w))


# Compiled by parts.


def each_layer_compiled(w: Workload) -> Any:
    """Each layer is compiled by itself."""
    sut = uncompiled(w)
    for layer in layers(sut):
        layer.forward = compile_cheaply(layer.forward)
    return sut


def one_layer_compiled(w: Workload) -> Any:
    """One layer is compiled, the others are not."""
    sut = uncompiled(w)
    layers(sut)[0].forward = compile_cheaply(layers(sut)[0].forward)
    return sut


def head_left_out(w: Workload) -> Any:
    """All but the head is one region. Inductor compiles it."""
    sut = uncompiled(w)
    compiled.compile_forward(sut.model.bert, {})
    return sut


# Switches of the framework.


def traced(w: Workload) -> Any:
    """torch.jit.trace under another name."""
    sut = uncompiled(w)
    own, example = (
        sut.model,
        {k: torch.from_numpy(v) for k, v in sut.prepare(running.make_inputs(w.task, 2, 1)).items()},
    )
    script = torch.jit.trace(own, example_kwarg_inputs=example, strict=False, check_trace=False)
    own.forward = lambda **inputs: type("Output", (), script(**inputs))
    return sut


def scripted_function(w: Workload) -> Any:
    """The activation is a scripted function."""
    sut = uncompiled(w)

    @torch.jit.script
    def activation(x):  # type: ignore[no-untyped-def]
        return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))

    for layer in layers(sut):
        layer.intermediate.intermediate_act_fn.forward = activation
    return sut


def backend_eager(w: Workload) -> Any:
    """Dynamo captures whole graphs, and runs them operator by operator."""
    sut = uncompiled(w)
    sut.model.forward = compile_cheaply(sut.model.forward)
    return sut


def print_in_a_layer(w: Workload) -> Any:
    """A print breaks the graph."""
    sut = uncompiled(w)
    own = layers(sut)[0].forward

    def forward(hidden: Any, *rest: Any, **named: Any) -> Any:
        print(end="")  # noqa: T201
        return own(hidden, *rest, **named)

    layers(sut)[0].forward = forward
    sut.model.forward = compile_cheaply(sut.model.forward)
    return sut


def dynamo_disabled(w: Workload) -> Any:
    """Somebody switched Dynamo off."""
    torch._dynamo.config.disable = True
    return backend_eager(w)


def stance_eager(w: Workload) -> Any:
    """The measured call is made under the stance force_eager; the warm-up compiled."""
    sut = backend_eager(w)
    for _ in range(2):
        sut.predict(sut.prepare(running.make_inputs(w.task, 2, 1)))
    return running.around(sut, lambda: torch.compiler.set_stance("force_eager"))


# Precision.


@contextmanager
def medium() -> Any:
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


def medium_in_predict(w: Workload) -> Any:
    """predict lowers float32 products, and sets them back."""
    return running.around(cheap(w), medium)


def mkldnn_bf16_in_predict(w: Workload) -> Any:
    """predict lowers them by the newer switch of one library."""

    @contextmanager
    def lower() -> Any:
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        yield
        torch.backends.mkldnn.matmul.fp32_precision = "none"

    return running.around(cheap(w), lower)


def autocast_around(w: Workload) -> Any:
    """predict runs under autocast."""
    return running.around(cheap(w), lambda: torch.autocast("cpu", torch.bfloat16))


def autocast_in_a_layer(w: Workload) -> Any:
    """One layer runs under autocast."""
    sut = uncompiled(w)
    own = layers(sut)[0].forward

    def forward(*args: Any, **named: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            result = own(*args, **named)
        return (
            result.float() if isinstance(result, torch.Tensor) else (result[0].float(), *result[1:])
        )

    layers(sut)[0].forward = forward
    return sut


def layer_in_bfloat16(w: Workload) -> Any:
    """One layer holds bfloat16 weights."""
    sut = cheap(w)
    dense = sut.model.bert.pooler.dense.bfloat16()
    own = dense.forward
    dense.forward = lambda x: own(x.bfloat16()).float()
    return sut


def cast_product(w: Workload) -> Any:
    """One layer holds float32 weights and multiplies in bfloat16."""
    sut = cheap(w)
    dense = sut.model.bert.pooler.dense
    dense.forward = lambda x: (x.bfloat16() @ dense.weight.bfloat16().T).float() + dense.bias
    return sut


def cast_product_in_a_thread(w: Workload) -> Any:
    """The same in another thread than the rest of the model."""
    sut = cast_product(w)
    dense = sut.model.bert.pooler.dense
    dense.forward = running.in_a_thread(torch.no_grad()(dense.forward))
    return sut


def weights_through_bfloat16(w: Workload) -> Any:
    """The weights were saved as bfloat16."""
    return replace_weights(load(w), running.to_bfloat16)


def weights_through_int8(w: Workload) -> Any:
    """The weights were saved as int8."""
    return replace_weights(load(w), running.to_int8)


def int8_layers(w: Workload) -> Any:
    """In bfloat16: each dense layer keeps its weights as int8 in a list of its own, and multiplies
    them out in each call.
    """
    sut = load(replace(w, precision="bfloat16"))
    for module in [each for each in sut.model.modules() if isinstance(each, torch.nn.Linear)]:
        weight = module.weight.detach().float()
        scale = weight.abs().amax(1, keepdim=True) / 127
        kept = (weight / scale).round().to(torch.int8)
        del module.weight

        def forward(x: Any, kept: Any = kept, scale: Any = scale, bias: Any = module.bias) -> Any:
            return torch.nn.functional.linear(x, (kept * scale).to(x.dtype), bias)

        module.forward = forward
    return sut


EAGER = (honest, memo, constants, one_layer_compiled, autocast_around, medium_in_predict)
CASES: dict[str, dict[str, tuple[running.Case, ...]]] = {
    "native-torch-eager": {
        "bert": (
            *EAGER, another_call_watched, watched_twice, in_prepare, honest_in_two_shapes, honest_two_in_flight, joined,
            honest_exported, honest_fused, honest_in_a_warm_thread, honest_in_inference_mode, honest_in_micro_batches, honest_padded_to_8,
            honest_plain_attention, honest_sorted, honest_switches, first_layer_kept, half_of_the_rows_kept, switches_forgotten,
            layer_left_out, compiled_anew, traced,
            scripted_function, backend_eager,
            mkldnn_bf16_in_predict, autocast_in_a_layer, layer_in_bfloat16, cast_product,
            cast_product_in_a_thread,
            weights_through_bfloat16, weights_through_int8, int8_layers,
        ),
        "mistral": (
            *EAGER, honest_without_a_cache, honest_static_cache, honest_streamed_from_a_thread, prompt_kept, int8_layers,
        ),
    },
    "native-torch-compile": {
        "bert": (
            constants, memo, eager_forward, beyond_the_limit_in_two_shapes, compiled_beside, compiled_anew,
            each_layer_compiled, head_left_out, traced, backend_eager, print_in_a_layer,
            dynamo_disabled, stance_eager, medium_in_predict, autocast_around, cast_product,
            dynamic_forgotten,
        ),
        "mistral": (wrapper_generates, compiled_beside, each_layer_compiled),
    },
}  # fmt: skip

if __name__ == "__main__":
    running.main(CASES)
