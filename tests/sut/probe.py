"""Runs in a SUT's environment: load it, answer, break the loaded model on purpose, answer again.
Knows frameworks; the tests do not.

`python -m tests.sut.probe SPEC.json` writes <case>.npz for each case and evidence.json into the
specification's "out".
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from formats.writing import write_json
from scenarios.worker.queries.teacher_forcing import forced_logits, own_logits
from scenarios.worker.reference import write_reference
from scenarios.worker.watching.evidence import watch
from sut.contract import Unsupported
from sut.registry import REFERENCE, SUTS, load_module, unsupported
from tests.support.files import read_json
from tests.sut.one_mistake import arrays, workload_of


def main(specification):
    spec = read_json(specification)
    out = Path(spec["out"])
    workload, inputs = workload_of(spec["workload"]), arrays(spec["inputs"])
    module = load_module(spec["sut"], spec["architecture"])
    sut = module.load(workload)
    reference = Path(spec["reference"])
    if spec["make_reference"]:
        write_reference(
            reference,
            load_module(REFERENCE, spec["architecture"]).load(workload),
            inputs,
            prepared=[inputs],
            batch_size=workload.batch_size,
            logits_rows=spec["logits_rows"],
            on_batch=lambda: None,
        )
    with np.load(reference) as f:
        forced = {"tokens": f["tokens"][: spec["logits_rows"]]} if "tokens" in f else None

    def save(case, tested, given=inputs):
        answers = dict(answer(tested, given))
        if forced:
            rows = {k: v[: spec["logits_rows"]] for k, v in inputs.items()}
            answers["forced"] = forced_logits(tested, rows, forced, workload.batch_size)
            answers["own"] = own_logits(tested, inputs, answers["tokens"], workload.batch_size)
        np.savez(out / f"{case}.npz", **answers)

    save("intact", sut)
    told = {"before": seen(sut, inputs)}
    answer(sut, inputs)
    told["after"] = seen(sut, inputs)
    # Each shape is seconds of Inductor: tests/sut/test_compile.py has what a new one shows, and
    # prompts of uneven length.
    few_shapes = workload.execution == "compile"
    if not few_shapes and workload.model in ("bert", "mistral"):
        few = {k: v[:3] for k, v in inputs.items()}
        answer(sut, few)
        told["new shape"] = seen(sut, few)
        told["two shapes"] = seen(sut, inputs, few)
    for case, change in INPUT_BREAKAGES.items():
        save(case, sut, change(inputs))
    if forced and not few_shapes:
        np.savez(out / "uneven.npz", **uneven(sut, workload))
    if spec["sut"] in ("native-jax", "hf-tensorflow", "keras2-tensorflow") and forced:
        with np.load(reference) as f:
            ends = [int(token) for token in f["tokens"][:, 10]]
        ending = module.load(replace(workload, config={**workload.config, "end_tokens": ends}))
        np.savez(out / "ended.npz", **answer(ending, inputs), ends=np.array(ends))
    framework = BREAKAGES[SUTS[spec["sut"]].classes]
    framework.zero_layer(getattr(sut, "model", sut))
    save("zeroed layer", sut)
    if forced:
        whole = module.load(workload)
        framework.drop_cache(getattr(whole, "model", whole))
        save("dropped cache", whole)
        framework.restore_cache()
    cell = {"model": workload.model, "architecture": spec["architecture"], "task": workload.task}
    lacks_bfloat16 = unsupported(spec["sut"], **cell, precision="bfloat16", device="cpu")
    # Two graphs more, a third of its time; the classifier's one shows bfloat16 compiled.
    if not (few_shapes and forced or lacks_bfloat16):
        half = module.load(replace(workload, precision="bfloat16"))
        save("bfloat16", half)
        told["bfloat16"] = seen(half, inputs)
    refused = {
        "tf32": {"precision": "tf32"},
        "cuda": {"device": "cuda"},
        "script": {"execution": "script"},
    }
    if workload.model == "gpt2":
        refused["positions"] = {"config": {**workload.config, "prompt_buckets": [1000]}}
    told_so = {k: refusal(module, replace(workload, **v)) for k, v in refused.items()}
    write_json(out / "refused.json", told_so)
    if spec["sut"] == "keras2-tensorflow":
        from tests.sut import keras2_lacks

        tried = other_configurations(module, workload) if forced else keras2_lacks.tried()
        write_json(out / "lacks.json", {**tried, "variables": len(sut.model.weights)})
    if spec["sut"] == "hf-tensorflow":
        write_json(out / "lacks.json", lacks_of_hf_tensorflow(module, workload, inputs))
    write_json(out / "evidence.json", {k: asdict(v) for k, v in told.items()})


def answer(sut, inputs):
    return sut.to_host(sut.predict(sut.prepare(inputs)))


def seen(sut, *given):
    """What the harness has watched of these batches, which ran before."""
    return watch(sut, [sut.prepare(inputs) for inputs in given])


def refusal(module, workload):
    """What `load` says when it cannot; these environments hold the CPU builds, whatever the machine
    has.
    """
    try:
        module.load(workload)
    except Unsupported as e:
        return str(e)
    return "loaded"


def lacks_of_hf_tensorflow(module, mistral, inputs):
    """What comes of what the registry calls unsupported, and what the SUT says to other
    configurations.
    """
    import transformers

    told = {
        name: hasattr(transformers, f"TF{name.title()}ForCausalLM")
        for name in ("gemma", "llama", "mistral", "qwen3", "gemma3")
    }
    for precision in ("bfloat16", "float16"):
        try:
            answer(module.load(replace(mistral, precision=precision)), inputs)
        except TypeError as e:
            told[f"mistral/{precision}"] = str(e)
    single = replace(mistral, config={**mistral.config, "new_token_buckets": [1]})
    told["one token"] = [refusal(module, single)]
    one = {**inputs, "max_new_tokens": np.ones_like(inputs["max_new_tokens"])}
    try:
        answer(module.TensorFlowCausalLM(single), one)
    except ValueError as e:
        told["one token"].append(str(e))
    return {**told, **other_configurations(module, mistral, sliding_window=7)}


def other_configurations(module, mistral, **more):
    """What the SUT says to configurations that its library's Mistral has not."""
    changes = {"tie_word_embeddings": True, "rope_scaling": {"rope_type": "linear"}, "head_dim": 3}
    changes |= more
    model = mistral.config["model"]
    return {
        k: refusal(module, replace(mistral, config={**mistral.config, "model": {**model, k: v}}))
        for k, v in changes.items()
    }


def zero_position(inputs):
    ids = inputs["input_ids"].copy()
    ids[:, 0] = 0
    return {**inputs, "input_ids": ids}


def ignore_padding(inputs):
    """Padding is read as if it were text."""
    key = "prompt_length" if "prompt_length" in inputs else "attention_mask"
    return {**inputs, key: np.full_like(inputs[key], inputs[key].max())}


INPUT_BREAKAGES = {
    "permuted rows": lambda inputs: {k: np.roll(v, 1, axis=0) for k, v in inputs.items()},
    "reversed tokens": lambda inputs: {
        **inputs,
        "input_ids": np.ascontiguousarray(inputs["input_ids"][:, ::-1]),
    },
    "zeroed position": zero_position,
    "padding ignored": ignore_padding,
}


def uneven(sut, workload):
    """Rows of 3 and 9 prompt tokens in one batch (`together`), and each alone (`alone`); what is
    not a row's own is -1.
    """
    lengths, counts = np.array([3, 9], np.int32), np.array([6, 8], np.int32)
    words = workload.config["model"]["vocab_size"]
    ids = np.random.default_rng(7).integers(3, words, (2, 9)).astype(np.int32)
    ids *= np.arange(9) < lengths[:, None]
    batch = {"input_ids": ids, "prompt_length": lengths, "max_new_tokens": counts}
    alone = [answer(sut, {k: v[row : row + 1] for k, v in batch.items()}) for row in range(2)]
    found = {
        "together": answer(sut, batch)["tokens"],
        "alone": [row for each in alone for row in each["tokens"]],
    }
    rows = {name: np.full((2, counts.max()), -1, np.int32) for name in found}
    for name, tokens in found.items():
        for row, count in enumerate(counts):
            rows[name][row, :count] = tokens[row][:count]
    return rows


LAYER_ENDS = (
    "layers.0.self_attn.o_proj",
    "layers.0.mlp.down_proj",
    "layer.0.attention.output.dense",
    "layer.0.output.dense",
    "h.0.attn.c_proj",
    "h.0.mlp.c_proj",
)
"""Beginnings of the names of the tensors by which layer 0 adds to the residual."""


def torch_zero_layer(model):
    """What layer 0 adds to the residual: nothing."""
    hit = [p for n, p in model.named_parameters() if any(name in n for name in LAYER_ENDS)]
    assert len(hit) in (2, 4)
    for parameter in hit:
        parameter.data.zero_()


def torch_drop_cache(model):
    """When one new token is fed, the cache gives back that token's own keys and values only, at
    each of its positions.
    """
    import torch
    from transformers.cache_utils import Cache

    whole = Cache.update

    def update(self, keys, values, *rest, **named):
        found = whole(self, keys, values, *rest, **named)
        if keys.shape[2] != 1:
            return found
        return tuple(own.expand_as(x) for own, x in zip((keys, values), found, strict=True))

    _UPDATE.append(whole)
    Cache.update = update
    # Or graphs of a model that ran before, and guard no method, would answer for this one.
    torch._dynamo.reset()


def torch_restore_cache():
    import torch
    from transformers.cache_utils import Cache

    Cache.update = _UPDATE.pop()
    torch._dynamo.reset()


_UPDATE = []


def jax_zero_layer(sut):
    hit = [name for name in sut.weights if any(end in name for end in LAYER_ENDS)]
    assert len(hit) in (2, 4)
    for name in hit:
        sut.weights[name] = 0 * sut.weights[name]


def jax_drop_cache(sut):
    """When one new token is fed, it may look at its own column of the cache only."""
    import jax.numpy as jnp

    from sut.native_jax import causal_lm

    whole = causal_lm.visible

    def visible(columns, begin, length, window):
        mask = whole(columns, begin, length, window)
        return mask & (jnp.arange(length) == columns) if len(columns) == 1 else mask

    _VISIBLE.append(whole)
    causal_lm.visible = visible


def jax_restore_cache():
    from sut.native_jax import causal_lm

    causal_lm.visible = _VISIBLE.pop()


_VISIBLE = []


def keras_zero_layer(model):
    layers = getattr(model.backbone, "transformer_layers", None) or [
        model.backbone.get_layer("transformer_layer_0")
    ]
    names = ("attention_output", "feedforward_output", "ffw_linear")
    own = [v for v in layers[0].weights if "norm" not in v.path]
    hit = [v for v in own if any(name in v.path for name in names)]
    assert len(hit) in (2, 4), [v.path for v in layers[0].weights]
    zero(hit)


def zero(variables):
    for variable in variables:
        variable.assign(np.zeros(variable.shape, np.float32))


def keras2_drop_cache(model):
    import tensorflow as tf

    keras_drop_cache(model, tf.range)


def keras2_zero_layer(model):
    layer = model.backbone.transformer_layers[0]
    for dense in (layer._self_attention_layer._output_dense, layer._feedforward_output_dense):
        zero(dense.weights)


def keras3_drop_cache(model):
    from keras import ops

    keras_drop_cache(model, ops.arange)


def keras_drop_cache(model, arange):
    """When one new token is fed, it may look at its own position of the cache only."""
    for layer in model.backbone.transformer_layers:
        # KerasHub's name for it, but for Gemma.
        attention = getattr(layer, "_self_attention_layer", None) or layer.attention

        def call(*given, own=attention.call, **named):
            cache = named.get("cache")
            hidden_states = given[0] if given else named.get("query", named.get("hidden_states"))
            if cache is not None and hidden_states.shape[1] == 1:
                # Gemma 3 has two tensors for it, others have one.
                length = cache[0].shape[1] if isinstance(cache, tuple) else cache.shape[2]
                own_place = arange(length) == named["cache_update_index"]
                named["attention_mask"] = own_place[None, None]
            return own(*given, **named)

        attention.call = call


def tensorflow_zero_layer(model):
    ends = ("h_._0/attn/c_proj", "h_._0/mlp/c_proj")
    ends += ("layers.0/self_attn/o_proj", "layers.0/mlp/down_proj")
    hit = [v for v in model.weights if any(end in v.name for end in ends)]
    assert len(hit) in (2, 4), [v.name for v in model.weights]
    zero(hit)


def tensorflow_drop_cache(model):
    """The cache gives back zeros."""
    import tensorflow as tf

    for layer in model.transformer.h if hasattr(model, "transformer") else model.model.layers:
        attention = getattr(layer, "attn", None) or layer.self_attn

        def call(*given, own=attention.call, **named):
            for past in {"layer_past", "past_key_value"} & named.keys():
                if named[past] is not None:
                    named[past] = tf.nest.map_structure(tf.zeros_like, named[past])
            return own(*given, **named)

        attention.call = call


class Breakage(NamedTuple):
    """How the models of one library are broken."""

    zero_layer: Callable
    drop_cache: Callable
    restore_cache: Callable = lambda: None


BREAKAGES = {
    "transformers": Breakage(torch_zero_layer, torch_drop_cache, torch_restore_cache),
    "keras_hub": Breakage(keras_zero_layer, keras3_drop_cache),
    "keras_nlp": Breakage(keras2_zero_layer, keras2_drop_cache),
    "hf_tensorflow": Breakage(tensorflow_zero_layer, tensorflow_drop_cache),
    "": Breakage(jax_zero_layer, jax_drop_cache, jax_restore_cache),
}
"""By `SutSpec.classes`; models of SUTs without one are written out in JAX."""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
