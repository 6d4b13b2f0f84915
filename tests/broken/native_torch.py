"""SUTs of native torch, each with one mistake: `python -m tests.broken.native_torch SPEC.json`."""

import copy
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch
import torch._inductor.compile_fx

# Imported once, and not in the fork of each case.
from transformers import BertForSequenceClassification, MistralForCausalLM  # noqa: F401
from transformers.modeling_outputs import CausalLMOutputWithPast

from sut.native_torch import bert, causal_lm, compiled
from tests.broken import on_torch, running


def load(w):
    return (causal_lm if w.task == "generate" else bert).load(w)


def uncompiled(w):
    """A SUT that says compile, before anyone compiled its model."""
    sut = load(w)
    vars(sut.model).pop("forward", None)
    return sut


def compile_cheaply(function, **arguments):
    """Dynamo's regions without Inductor's compilation."""
    return torch.compile(function, backend="eager", dynamic=False, **arguments)


def cheap(w):
    """The SUT as it is, or captured without Inductor."""
    return backend_eager(w) if w.execution == "compile" else load(w)


def layers(sut):
    return sut.model.bert.encoder.layer if hasattr(sut.model, "bert") else sut.model.model.layers


def replace_weights(sut, change):
    for parameter in sut.model.parameters():
        if parameter.ndim == 2:
            parameter.data = torch.from_numpy(change(parameter.detach().numpy()))
    return sut


# Honest ones, which nothing may refuse.


def honest_two_in_flight(w):
    """Two batches are in flight."""
    return load(replace(w, options={"in_flight": "2"}))


def honest_switches(w):
    """Switches of `--tuned` that this model can have."""
    return load(replace(w, settings={"cudnn-benchmark": "on"}))


def switches_forgotten(w):
    """The SUT's file does not read the settings of its switches."""
    sut = load(w)
    sut.workload = replace(w, settings={"to-mkldnn": "on", "memory-format": "channels-last"})
    return sut


def dynamic_forgotten(w):
    """The same, compiled by Inductor."""
    sut = load(w)
    sut.workload = replace(w, settings={"dynamic": "on", "compile-mode": compiled.MODE})
    return sut


def honest_exported(w):
    """torch.export's program of the model runs."""
    sut = load(w)
    example = {
        k: torch.from_numpy(v) for k, v in sut.prepare(running.make_inputs(w.task, 2, 1)).items()
    }
    program = torch.export.export(sut.model, (), kwargs=example).module()
    sut.model.forward = program.forward
    return sut


def honest_fused(w):
    """Query, key and value are one product."""
    sut = load(w)
    for layer in layers(sut):
        own = layer.attention.self
        parts = [own.query, own.key, own.value]
        fused = torch.nn.Linear(own.query.in_features, 3 * own.query.out_features)
        fused.weight.data = torch.cat([each.weight.data for each in parts])
        fused.bias.data = torch.cat([each.bias.data for each in parts])

        def of_part(place, fused=fused):
            def forward(x):
                if place == 0:
                    fused.answers = fused(x).chunk(3, -1)
                return fused.answers[place]

            return forward

        for place, part in enumerate(parts):
            part.forward = of_part(place)
    return sut


def honest_in_inference_mode(w):
    """predict runs in inference mode."""
    return running.around(load(w), torch.inference_mode)


def honest_in_a_warm_thread(w):
    """A thread that stays computes, and to_host waits for it."""
    sut = load(w)
    own, to_host, pool = sut.predict, sut.to_host, ThreadPoolExecutor(1)
    sut.predict = lambda batch: pool.submit(own, batch)
    sut.to_host = lambda answers: to_host(answers.result())
    return sut


def honest_in_micro_batches(w):
    """The rows are computed one by one."""
    sut = load(w)
    own, to_host = sut.predict, sut.to_host

    def predict(batch):
        rows = range(len(batch["input_ids"]))
        return [own({k: v[row : row + 1] for k, v in batch.items()}) for row in rows]

    def joined(outputs):
        return {"logits": np.concatenate([to_host(each)["logits"] for each in outputs])}

    sut.predict, sut.to_host = predict, joined
    return sut


def honest_plain_attention(w):
    """Attention is two products and a softmax."""
    sut = load(w)
    sut.model.set_attn_implementation("eager")
    return sut


def honest_static_cache(w):
    """The KV cache has the length of the whole sequence from the beginning."""
    sut = load(w)
    sut.model.generation_config.cache_implementation = "static"
    sut.model.generation_config.disable_compile = True
    return sut


def first_layer_kept(w):
    """The first layer's outputs are kept by its inputs."""
    sut = load(w)
    own, memo = layers(sut)[0].forward, {}

    def forward(hidden, *rest, **named):
        key = hidden.numpy().tobytes()
        if key not in memo:
            memo[key] = own(hidden, *rest, **named)
        return memo[key]

    layers(sut)[0].forward = forward
    return sut


def prompt_kept(w):
    """The KV cache of a prompt is kept, so that only its last token is computed again."""
    sut = load(w)
    own, memo = sut.model.forward, {}

    def forward(input_ids=None, **named):
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


def honest_without_a_cache(w):
    """Each step computes the whole sequence again."""
    sut = load(w)
    sut.model.generation_config.use_cache = False
    return sut


# Answers.


def memo(w):
    """The model is entered only for inputs that are new."""
    return running.keep_answers(cheap(w))


def in_prepare(w):
    """prepare looks up the embeddings of its inputs and keeps them for predict."""
    sut = load(w)
    words, kept = sut.model.bert.embeddings.word_embeddings, {}
    own, look_up = sut.prepare, words.forward

    def prepare(inputs):
        prepared = own(inputs)
        for row in torch.from_numpy(prepared["input_ids"]):
            kept[row.numpy().tobytes()] = look_up(row)
        return prepared

    words.forward = lambda ids: torch.stack([kept[row.numpy().tobytes()] for row in ids])
    sut.prepare = prepare
    return sut


def layer_left_out(w):
    """One of the layers is forgotten."""
    sut = load(w)
    del layers(sut)[0]
    return sut


# Which call ran.


def eager_forward(w):
    """predict calls the class's forward, around the compiled one."""
    sut = load(w)
    own, kind = sut.model, type(sut.model)

    class Round:
        def __call__(self, **inputs):
            return kind.forward(own, **inputs)

        def __getattr__(self, name):
            return getattr(own, name)

    return running.around(sut, lambda: patch.object(sut, "model", Round()))


def wrapper_generates(w):
    """torch.compile(model).generate() is the generate of the model that is not compiled. A call of
    the wrapper left a graph.
    """
    sut = uncompiled(w)
    sut.model = compile_cheaply(sut.model)
    with torch.no_grad():
        sut.model(input_ids=torch.ones((1, 9), dtype=torch.int64))
    return sut


def beyond_the_limit_in_two_shapes(w):
    """Dynamo keeps one shape and runs the second eager in silence."""
    sut = uncompiled(w)
    sut.model.forward = torch.compile(sut.model.forward, dynamic=False)
    torch._dynamo.config.recompile_limit, torch._dynamo.config.fail_on_recompile_limit_hit = (
        1,
        False,
    )
    return sut


def compiled_beside(w):
    """A compiled function runs in each forward pass, and the model is eager."""
    sut = uncompiled(w)
    forward, scale = sut.model.forward, compile_cheaply(lambda x: x * 1)

    def both(*args, **named):
        scale(torch.ones(3))
        return forward(*args, **named)

    sut.model.forward = both
    return sut


def compiled_anew(w):
    """predict resets Dynamo, so that each call compiles."""
    sut = uncompiled(w)
    sut.model.classifier.forward = compile_cheaply(sut.model.classifier.forward)
    return on_torch.anew(sut)


def constants(w):
    """evidence reports what it saw the first time."""
    return running.report_constants(cheap(w))


# Compiled by parts.


def linear_layers_compiled(w):
    """Only the matrix products are compiled, each by itself."""
    sut = uncompiled(w)
    for module in sut.model.modules():
        if isinstance(module, torch.nn.Linear):
            module.forward = compile_cheaply(module.forward)
    return sut


def each_layer_compiled(w):
    """Each layer is compiled by itself."""
    sut = uncompiled(w)
    for layer in layers(sut):
        layer.forward = compile_cheaply(layer.forward)
    return sut


def one_layer_compiled(w):
    """One layer is compiled, the others are not."""
    sut = uncompiled(w)
    layers(sut)[0].forward = compile_cheaply(layers(sut)[0].forward)
    return sut


def encoder_compiled(w):
    """All layers are one region, without the embedding, the pooler and the head. Inductor compiles
    it.
    """
    sut = uncompiled(w)
    compiled.compile_forward(sut.model.bert.encoder, {})
    return sut


def head_left_out(w):
    """All but the head is one region. Inductor compiles it."""
    sut = uncompiled(w)
    compiled.compile_forward(sut.model.bert, {})
    return sut


# Switches of the framework.


def traced(w):
    """torch.jit.trace under another name."""
    sut = uncompiled(w)
    own, example = (
        sut.model,
        {k: torch.from_numpy(v) for k, v in sut.prepare(running.make_inputs(w.task, 2, 1)).items()},
    )
    script = torch.jit.trace(own, example_kwarg_inputs=example, strict=False, check_trace=False)
    own.forward = lambda **inputs: type("Output", (), script(**inputs))
    return sut


def scripted_layer(w):
    """One small module is scripted."""
    sut = uncompiled(w)
    sut.model.classifier = torch.jit.script(sut.model.classifier)
    return sut


def scripted_function(w):
    """The activation is a scripted function."""
    sut, activation = uncompiled(w), on_torch.scripted_activation()
    for layer in layers(sut):
        layer.intermediate.intermediate_act_fn.forward = activation
    return sut


def backend_eager(w):
    """Dynamo captures whole graphs, and runs them operator by operator."""
    sut = uncompiled(w)
    sut.model.forward = compile_cheaply(sut.model.forward)
    return sut


def backend_aot_eager(w):
    """The same, after AOTAutograd."""
    sut = uncompiled(w)
    sut.model.forward = torch.compile(sut.model.forward, backend="aot_eager", dynamic=False)
    return sut


def print_in_a_layer(w):
    """A print breaks the graph."""
    return _in_a_layer(w, lambda x: print(end=""))  # noqa: T201


def item_in_a_layer(w):
    """A look at a value breaks the graph."""
    return _in_a_layer(w, lambda x: x.abs().max().item() > 1e9 and print("large"))  # noqa: T201


def _in_a_layer(w, look):
    sut = uncompiled(w)
    own = layers(sut)[0].forward

    def forward(hidden, *rest, **named):
        look(hidden)
        return own(hidden, *rest, **named)

    layers(sut)[0].forward = forward
    sut.model.forward = compile_cheaply(sut.model.forward)
    return sut


def dynamo_disabled(w):
    """Somebody switched Dynamo off."""
    torch._dynamo.config.disable = True
    return backend_eager(w)


def stance_eager(w):
    """The measured call is made under the stance force_eager; the warm-up compiled."""
    sut = backend_eager(w)
    for _ in range(2):
        sut.predict(sut.prepare(running.make_inputs(w.task, 2, 1)))
    return running.around(sut, lambda: torch.compiler.set_stance("force_eager"))


# Precision.


def medium_in_predict(w):
    """predict lowers float32 products, and sets them back."""
    return running.around(cheap(w), on_torch.medium)


def mkldnn_bf16_in_predict(w):
    """predict lowers them by the newer switch of one library."""

    @contextmanager
    def lower():
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        yield
        torch.backends.mkldnn.matmul.fp32_precision = "none"

    return running.around(cheap(w), lower)


def autocast_around(w):
    """predict runs under autocast."""
    return running.around(cheap(w), lambda: torch.autocast("cpu", torch.bfloat16))


def autocast_in_a_layer(w):
    """One layer runs under autocast."""
    sut = uncompiled(w)
    own = layers(sut)[0].forward

    def forward(*args, **named):
        with torch.autocast("cpu", torch.bfloat16):
            result = own(*args, **named)
        return (
            result.float() if isinstance(result, torch.Tensor) else (result[0].float(), *result[1:])
        )

    layers(sut)[0].forward = forward
    return sut


def _dense_in(w, dtype):
    sut = cheap(w)
    dense = sut.model.bert.pooler.dense.to(dtype)
    own = dense.forward
    dense.forward = lambda x: own(x.to(dtype)).float()
    return sut


def layer_in_bfloat16(w):
    """One layer holds bfloat16 weights."""
    return _dense_in(w, torch.bfloat16)


def layer_in_float16(w):
    """One layer holds float16 weights."""
    return _dense_in(w, torch.float16)


def cast_product(w):
    """One layer holds float32 weights and multiplies in bfloat16."""
    sut = cheap(w)
    dense = sut.model.bert.pooler.dense
    dense.forward = lambda x: (x.bfloat16() @ dense.weight.bfloat16().T).float() + dense.bias
    return sut


def cast_product_in_a_thread(w):
    """The same in another thread than the rest of the model."""
    sut = cast_product(w)
    dense = sut.model.bert.pooler.dense
    own = torch.no_grad()(dense.forward)

    def forward(x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(own, x).result()

    dense.forward = forward
    return sut


def int8_layers(w):
    """In bfloat16: each dense layer keeps its weights as int8 in a list of its own, and multiplies
    them out in each call.
    """
    sut = load(replace(w, precision="bfloat16"))
    for module in [each for each in sut.model.modules() if isinstance(each, torch.nn.Linear)]:
        weight = module.weight.detach().float()
        scale = weight.abs().amax(1, keepdim=True) / 127
        kept = (weight / scale).round().to(torch.int8)
        del module.weight

        def forward(x, kept=kept, scale=scale, bias=module.bias):
            return torch.nn.functional.linear(x, (kept * scale).to(x.dtype), bias)

        module.forward = forward
    return sut


if __name__ == "__main__":
    running.main(globals())
