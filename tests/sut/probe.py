"""Runs in a SUT's environment: load it, answer, break the loaded model on purpose, answer again.
Knows frameworks; the tests do not.

`python -m tests.sut.probe SPEC.json` writes <case>.npz for each case and evidence.json into the
specification's "out".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker.queries.teacher_forcing import forced_logits, own_logits
from scenarios.worker.reference import write_reference
from scenarios.worker.watching.evidence import watch
from sut.contract import Evidence, Inference, Unsupported, Workload
from sut.registry import REFERENCE, SUTS, load_module, unsupported

Arrays = dict[str, np.ndarray]


def main(specification: Path) -> None:
    spec = json.loads(specification.read_text())
    out = Path(spec["out"])
    workload = Workload(**{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])})
    module = load_module(spec["sut"], spec["architecture"])
    with np.load(spec["inputs"]) as f:
        inputs = dict(f)
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

    def save(case: str, tested: Inference, given: Arrays = inputs) -> None:
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
    framework["zero_layer"](getattr(sut, "model", sut))
    save("zeroed layer", sut)
    if forced:
        whole = module.load(workload)
        framework["drop_cache"](getattr(whole, "model", whole))
        save("dropped cache", whole)
        framework["restore_cache"]()
    cell = {
        "model": workload.model,
        "architecture": spec["architecture"],
        "task": workload.task,
        "precision": "bfloat16",
        "device": "cpu",
    }
    lacks_bfloat16 = unsupported(spec["sut"], **cell)
    # Two graphs more, a third of its time; the classifier's one shows bfloat16 compiled.
    if not (few_shapes and forced or lacks_bfloat16):
        half = module.load(replace(workload, precision="bfloat16"))
        save("bfloat16", half)
        told["bfloat16"] = seen(half, inputs)
    refused: dict[str, Any] = {
        "tf32": {"precision": "tf32"},
        "cuda": {"device": "cuda"},
        "script": {"execution": "script"},
    }
    if workload.model == "gpt2":
        refused["positions"] = {"config": {**workload.config, "prompt_buckets": [1000]}}
    (out / "refused.json").write_text(
        json.dumps({k: refusal(module, replace(workload, **v)) for k, v in refused.items()})
    )
    if spec["sut"] == "keras2-tensorflow":
        from tests.sut import keras2_lacks

        tried = other_configurations(module, workload) if forced else keras2_lacks.tried()
        (out / "lacks.json").write_text(json.dumps({**tried, "variables": len(sut.model.weights)}))
    if spec["sut"] == "hf-tensorflow":
        (out / "lacks.json").write_text(
            json.dumps(lacks_of_hf_tensorflow(module, workload, inputs))
        )
    (out / "evidence.json").write_text(json.dumps({k: asdict(v) for k, v in told.items()}))


def answer(sut: Inference, inputs: Arrays) -> Mapping[str, np.ndarray]:
    return sut.to_host(sut.predict(sut.prepare(inputs)))


def seen(sut: Inference, *given: Arrays) -> Evidence:
    """What the harness has watched of these batches, which ran before."""
    return watch(sut, [sut.prepare(inputs) for inputs in given])


def refusal(module: Any, workload: Workload) -> str:
    """What `load` says when it cannot; these environments hold the CPU builds, whatever the machine
    has.
    """
    try:
        module.load(workload)
    except Unsupported as e:
        return str(e)
    return "loaded"


def lacks_of_hf_tensorflow(module: Any, mistral: Workload, inputs: Arrays) -> dict[str, Any]:
    """What comes of what the registry calls unsupported, and what the SUT says to other
    configurations.
    """
    import transformers

    told: dict[str, Any] = {
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
    try:
        answer(
            module.TensorFlowCausalLM(single),
            {**inputs, "max_new_tokens": np.ones_like(inputs["max_new_tokens"])},
        )
    except ValueError as e:
        told["one token"].append(str(e))
    return {**told, **other_configurations(module, mistral, sliding_window=7)}


def other_configurations(module: Any, mistral: Workload, **more: int) -> dict[str, str]:
    """What the SUT says to configurations that its library's Mistral has not."""
    changes = {
        "tie_word_embeddings": True,
        "rope_scaling": {"rope_type": "linear"},
        "head_dim": 3,
        **more,
    }
    model = mistral.config["model"]
    return {
        k: refusal(module, replace(mistral, config={**mistral.config, "model": {**model, k: v}}))
        for k, v in changes.items()
    }


def zero_position(inputs: Arrays) -> Arrays:
    ids = inputs["input_ids"].copy()
    ids[:, 0] = 0
    return {**inputs, "input_ids": ids}


def ignore_padding(inputs: Arrays) -> Arrays:
    """Padding is read as if it were text."""
    key = "prompt_length" if "prompt_length" in inputs else "attention_mask"
    return {**inputs, key: np.full_like(inputs[key], inputs[key].max())}


INPUT_BREAKAGES: dict[str, Callable[[Arrays], Arrays]] = {
    "permuted rows": lambda inputs: {k: np.roll(v, 1, axis=0) for k, v in inputs.items()},
    "reversed tokens": lambda inputs: {
        **inputs,
        "input_ids": np.ascontiguousarray(inputs["input_ids"][:, ::-1]),
    },
    "zeroed position": zero_position,
    "padding ignored": ignore_padding,
}


def uneven(sut: Inference, workload: Workload) -> Arrays:
    """Rows of 3 and 9 prompt tokens in one batch (`together`), and each alone (`alone`); what is
    not a row's own is -1.
    """
    lengths, counts = np.array([3, 9], np.int32), np.array([6, 8], np.int32)
    ids = (
        np.random.default_rng(7)
        .integers(3, workload.config["model"]["vocab_size"], (2, 9))
        .astype(np.int32)
    )
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
    *(
        "layers.0.self_attn.o_proj",
        "layers.0.mlp.down_proj",
        "layer.0.attention.output.dense",
        "layer.0.output.dense",
    ),
    *("h.0.attn.c_proj", "h.0.mlp.c_proj"),
)
"""Beginnings of the names of the tensors by which layer 0 adds to the residual."""


def torch_zero_layer(model: Any) -> None:
    """What layer 0 adds to the residual: nothing."""
    hit = [p for n, p in model.named_parameters() if any(name in n for name in LAYER_ENDS)]
    assert len(hit) in (2, 4)
    for parameter in hit:
        parameter.data.zero_()


def torch_drop_cache(model: Any) -> None:
    """When one new token is fed, the cache gives back that token's own keys and values only, at
    each of its positions.
    """
    import torch
    from transformers.cache_utils import Cache

    whole = Cache.update

    def update(self: Any, keys: Any, values: Any, *rest: Any, **named: Any) -> Any:
        found = whole(self, keys, values, *rest, **named)
        return (
            tuple(own.expand_as(x) for own, x in zip((keys, values), found, strict=True))
            if keys.shape[2] == 1
            else found
        )

    _UPDATE.append(whole)
    Cache.update = update
    # Or graphs of a model that ran before, and guard no method, would answer for this one.
    torch._dynamo.reset()


def torch_restore_cache() -> None:
    import torch
    from transformers.cache_utils import Cache

    Cache.update = _UPDATE.pop()
    torch._dynamo.reset()


_UPDATE: list[Any] = []


def jax_zero_layer(sut: Any) -> None:
    hit = [name for name in sut.weights if any(end in name for end in LAYER_ENDS)]
    assert len(hit) in (2, 4)
    for name in hit:
        sut.weights[name] = 0 * sut.weights[name]


def jax_drop_cache(sut: Any) -> None:
    """When one new token is fed, it may look at its own column of the cache only."""
    import jax.numpy as jnp

    from sut.native_jax import causal_lm

    whole = causal_lm.visible

    def visible(columns: Any, begin: Any, length: int, window: Any) -> Any:
        mask = whole(columns, begin, length, window)
        return mask & (jnp.arange(length) == columns) if len(columns) == 1 else mask

    _VISIBLE.append(whole)
    causal_lm.visible = visible


def jax_restore_cache() -> None:
    from sut.native_jax import causal_lm

    causal_lm.visible = _VISIBLE.pop()


_VISIBLE: list[Any] = []


def keras_zero_layer(model: Any) -> None:
    layers = getattr(model.backbone, "transformer_layers", None) or [
        model.backbone.get_layer("transformer_layer_0")
    ]
    names = ("attention_output", "feedforward_output", "ffw_linear")
    hit = [
        v
        for v in layers[0].weights
        if any(name in v.path for name in names) and "norm" not in v.path
    ]
    assert len(hit) in (2, 4), [v.path for v in layers[0].weights]
    for variable in hit:
        variable.assign(np.zeros(variable.shape, np.float32))


def keras2_drop_cache(model: Any) -> None:
    import tensorflow as tf

    keras_drop_cache(model, tf.range)


def keras2_zero_layer(model: Any) -> None:
    layer = model.backbone.transformer_layers[0]
    for variable in (
        *layer._self_attention_layer._output_dense.weights,
        *layer._feedforward_output_dense.weights,
    ):
        variable.assign(np.zeros(variable.shape, np.float32))


def keras3_drop_cache(model: Any) -> None:
    from keras import ops

    keras_drop_cache(model, ops.arange)


def keras_drop_cache(model: Any, arange: Callable[[int], Any]) -> None:
    """When one new token is fed, it may look at its own position of the cache only."""
    for layer in model.backbone.transformer_layers:
        # KerasHub's name for it, but for Gemma.
        attention = getattr(layer, "_self_attention_layer", None) or layer.attention

        def call(*given: Any, own: Any = attention.call, **named: Any) -> Any:
            cache, hidden_states = (
                named.get("cache"),
                (given[0] if given else named.get("query", named.get("hidden_states"))),
            )
            if cache is not None and hidden_states.shape[1] == 1:
                # Gemma 3 has two tensors for it, others have one.
                length = cache[0].shape[1] if isinstance(cache, tuple) else cache.shape[2]
                named["attention_mask"] = (arange(length) == named["cache_update_index"])[
                    None, None
                ]
            return own(*given, **named)

        attention.call = call


def tensorflow_zero_layer(model: Any) -> None:
    ends = (
        "h_._0/attn/c_proj",
        "h_._0/mlp/c_proj",
        "layers.0/self_attn/o_proj",
        "layers.0/mlp/down_proj",
    )
    hit = [v for v in model.weights if any(end in v.name for end in ends)]
    assert len(hit) in (2, 4), [v.name for v in model.weights]
    for variable in hit:
        variable.assign(np.zeros(variable.shape, np.float32))


def tensorflow_drop_cache(model: Any) -> None:
    """The cache gives back zeros."""
    import tensorflow as tf

    for layer in model.transformer.h if hasattr(model, "transformer") else model.model.layers:
        attention = getattr(layer, "attn", None) or layer.self_attn

        def call(*given: Any, own: Any = attention.call, **named: Any) -> Any:
            for past in {"layer_past", "past_key_value"} & named.keys():
                named[past] = (
                    None
                    if named[past] is None
                    else tf.nest.map_structure(tf.zeros_like, named[past])
                )
            return own(*given, **named)

        attention.call = call


TORCH: dict[str, Callable[..., None]] = {
    "zero_layer": torch_zero_layer,
    "drop_cache": torch_drop_cache,
    "restore_cache": torch_restore_cache,
}
KERAS: dict[str, Callable[..., None]] = {
    "zero_layer": keras_zero_layer,
    "drop_cache": keras3_drop_cache,
    "restore_cache": lambda: None,
}
TENSORFLOW = {
    "zero_layer": tensorflow_zero_layer,
    "drop_cache": tensorflow_drop_cache,
    "restore_cache": lambda: None,
}
KERAS2 = {
    "zero_layer": keras2_zero_layer,
    "drop_cache": keras2_drop_cache,
    "restore_cache": lambda: None,
}
JAX: dict[str, Callable[..., None]] = {
    "zero_layer": jax_zero_layer,
    "drop_cache": jax_drop_cache,
    "restore_cache": jax_restore_cache,
}
BREAKAGES = {
    "transformers": TORCH,
    "keras_hub": KERAS,
    "keras_nlp": KERAS2,
    "hf_tensorflow": TENSORFLOW,
    "": JAX,
}
"""Library of a SUT's classes (`SutSpec.classes`) → how its models are broken; those without one are
written out in JAX.
"""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
