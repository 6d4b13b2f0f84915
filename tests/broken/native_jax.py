"""SUTs of native JAX, each with one mistake: `python -m tests.broken.native_jax SPEC.json`."""

from dataclasses import replace
from functools import partial
from unittest.mock import patch

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from sut.native_jax import bert, causal_lm, causal_lm_layout
from tests.broken import running


def load(w):
    return (causal_lm if w.task == "generate" else bert).load(w)


def replace_weights(sut, change):
    for name, values in sut.weights.items():
        if values.ndim == 2:
            sut.weights[name] = jnp.asarray(change(np.asarray(values)))
    return sut


def honest_ahead_of_time(w):
    """The program is compiled before it is called."""
    sut = load(w)
    inputs = running.make_inputs(w.task, 2, 1)
    sut.program = sut.program.lower(
        sut.weights, inputs["input_ids"], inputs["attention_mask"]
    ).compile()
    return sut


def honest_sorted(w):
    """JAX itself sorts the rows by their length before the program is called, and puts the answers
    back.
    """
    # Its small programs are looked at when they are compiled, and cases share a process.
    jax.clear_caches()
    sut = load(w)
    program = sut.program

    def sorted_program(weights, ids, mask):
        order = jnp.argsort(jnp.asarray(mask).sum(1))
        return program(weights, jnp.take(ids, order, 0), jnp.take(mask, order, 0))[
            jnp.argsort(order)
        ]

    sut.program = sorted_program
    return sut


def honest_two_in_flight(w):
    """Two batches are in flight."""
    return load(replace(w, options={"in_flight": "2"}))


def honest_donated(w):
    """The program may write into the inputs, which are on the device."""
    sut = load(w)
    config = w.config["model"]

    def classify(weights, ids, mask):
        return bert.logits(config, weights, ids, mask)

    program = jax.jit(classify, donate_argnames=("ids", "mask"))
    sut.program = lambda weights, *inputs: program(weights, *map(jax.device_put, inputs))
    return sut


def honest_exported(w):
    """The program is that of jax.export, as it would be read from a file."""
    sut = load(w)
    inputs = running.make_inputs(w.task, 2, 1)
    exported = jax.export.export(sut.program)(
        sut.weights, inputs["input_ids"], inputs["attention_mask"]
    )
    sut.program = jax.jit(exported.call)
    return sut


def honest_in_micro_batches(w):
    """The program computes the rows one by one, in a loop."""
    return of_rows(w, lambda one: lambda rows: jax.lax.map(one, rows))


def honest_vmapped(w):
    """The program is written for one row."""
    return of_rows(w, jax.vmap)


def of_rows(w, spread):
    sut = load(w)
    config = w.config["model"]

    def classify(weights, ids, mask):
        def one(row):
            return bert.logits(config, weights, row[0][None], row[1][None])[0]

        return spread(one)((ids, mask))

    sut.program = jax.jit(classify)
    return sut


def honest_scanned(w):
    """A layer is compiled once, and runs in a loop over the layers' weights."""
    sut = load(w)
    one = {**w.config["model"], "num_hidden_layers": 1}
    names = [name for name in sut.weights if name.startswith("bert.encoder.layer.0.")]
    count = w.config["model"]["num_hidden_layers"]

    def classify(weights, ids, mask):
        own_norm, stacked = bert.norm, {}

        def norm(w, name, x, epsilon):
            return x if name == "bert.embeddings.LayerNorm" else own_norm(w, name, x, epsilon)

        for name in names:
            every = [name.replace("layer.0", f"layer.{number}") for number in range(count)]
            stacked[name] = jnp.stack([weights[each] for each in every])

        def layer(x, of_layer):
            # The states take the place of the embeddings, whose norm is left out here.
            table = "bert.embeddings.word_embeddings.weight"
            none = {"bert.embeddings.position_embeddings.weight": jnp.zeros((x.shape[1], 1))}
            none["bert.embeddings.token_type_embeddings.weight"] = jnp.zeros((1, 1))
            places = jnp.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2])
            given = {**weights, **of_layer, **none, table: x.reshape(-1, x.shape[-1])}
            with patch.object(bert, "norm", norm):
                return bert.hidden(one, given, places, mask, 0), None

        x = bert.hidden({**one, "num_hidden_layers": 0}, weights, ids, mask, 0)
        x, _ = jax.lax.scan(layer, x, stacked)
        pooled = jnp.tanh(bert.dense(weights, "bert.pooler.dense", x[:, 0]))
        return bert.dense(weights, "classifier", pooled)

    sut.program = jax.jit(classify)
    return sut


def first_layer_kept(w):
    """What the embedding and the first layer compute is kept by the inputs."""
    sut = load(w)
    config, memo = w.config["model"], {}
    rest = [f"layer.{number}." for number in range(1, config["num_hidden_layers"])]

    @jax.jit
    def begin(weights, ids, mask):
        return bert.hidden({**config, "num_hidden_layers": 1}, weights, ids, mask, 0)

    @jax.jit
    def end(weights, x):
        for layer in rest:
            inner = bert.dense(weights, f"bert.encoder.{layer}intermediate.dense", x)
            x = x + bert.dense(weights, f"bert.encoder.{layer}output.dense", inner)
        return bert.dense(weights, "classifier", x[:, 0])

    def program(weights, ids, mask):
        key = ids.tobytes()
        if key not in memo:
            memo[key] = begin(weights, ids, mask)
        return end(weights, memo[key])

    sut.program = program
    return sut


def half_of_the_rows_kept(w):
    """Half of the rows are kept by their content."""
    # The programs of one name are told apart by those in memory, and cases share a process.
    jax.clear_caches()
    return running.keep_rows(load(w))


def prompt_kept(w):
    """The KV cache of a prompt is kept, so that only later tokens are computed again."""
    sut = load(w)
    config, memo = causal_lm_layout.read(w), {}

    @partial(jax.jit, static_argnames="new")
    def begin(weights, ids, begin, new):
        cache = causal_lm.empty_cache(config, len(ids), ids.shape[1] + new, np.float32)
        hidden, cache = causal_lm.forward(config, weights, ids, cache, 0, begin)
        return causal_lm.rate(config, weights, hidden[:, -1:]).argmax(-1), cache

    @partial(jax.jit, static_argnames=("prompt", "new"))
    def go_on(weights, token, cache, begin, prompt, new):
        def step(state, at):
            token, cache = state
            hidden, cache = causal_lm.forward(config, weights, token, cache, at, begin)
            return (causal_lm.rate(config, weights, hidden).argmax(-1), cache), token[:, 0]

        _, tokens = jax.lax.scan(step, (token, cache), prompt + jnp.arange(new))
        return tokens.T

    def program(weights, ids, left, new):
        key = np.asarray(ids).tobytes()
        if key not in memo:
            memo[key] = begin(weights, ids, left, new)
        return go_on(weights, *memo[key], left, ids.shape[1], new)

    sut.program = program
    return sut


def embedding_left_out(w):
    """The rows of the embedding are looked up before the program begins."""
    # Its small programs are looked at when they are compiled, and cases share a process.
    jax.clear_caches()
    sut = load(w)
    table, config = "bert.embeddings.word_embeddings.weight", w.config["model"]

    def classify(weights, rows, mask):
        places = jnp.arange(rows.shape[0] * rows.shape[1]).reshape(rows.shape[:2])
        return bert.logits(
            config, {**weights, table: rows.reshape(-1, rows.shape[-1])}, places, mask
        )

    program = jax.jit(classify)
    sut.program = lambda weights, ids, mask: program(weights, weights[table][ids], mask)
    return sut


def in_prepare(w):
    """prepare multiplies its inputs' embeddings by the first weights."""
    sut = load(w)
    words = sut.weights["bert.embeddings.word_embeddings.weight"]
    query = sut.weights["bert.encoder.layer.0.attention.self.query.weight"]
    first = jax.jit(lambda ids: words[ids] @ query)

    def prepare(inputs):
        sut.first = first(inputs["input_ids"])
        return inputs

    sut.prepare = prepare
    return sut


def not_compiled(w):
    """Somebody forgot jax.jit."""
    sut = load(w)
    sut.program = lambda weights, ids, mask: bert.logits(w.config["model"], weights, ids, mask)
    return sut


def jitted_anew(w):
    """Each call makes a new jax.jit of a new lambda, and compiles it."""
    sut = load(w)
    config = w.config["model"]
    sut.program = lambda *arguments: jax.jit(
        lambda weights, ids, mask: bert.logits(config, weights, ids, mask)
    )(*arguments)
    return sut


def each_token_jitted(w):
    """The loop over tokens is Python's, and each token a call of the program."""
    sut = load(w)
    config = causal_lm_layout.read(w)

    @jax.jit
    def extend(weights, ids, cache, at, begin):
        hidden, cache = causal_lm.forward(config, weights, ids, cache, at, begin)
        return causal_lm.rate(config, weights, hidden[:, -1:]).argmax(-1), cache

    def program(weights, ids, begin, new):
        prompt, tokens = ids.shape[1], []
        cache = causal_lm.empty_cache(config, len(ids), prompt + new, np.float32)
        for count in range(new):
            ids, cache = extend(weights, ids, cache, prompt + count - 1 if count else 0, begin)
            tokens.append(ids)
        return jnp.concatenate(tokens, 1)

    sut.program = program
    return sut


def with_another(sut, module, name, function):
    """The program is traced while the module has another function of that name."""
    config = sut.workload.config["model"]

    def classify(weights, ids, mask):
        with patch.object(module, name, function):
            return bert.logits(config, weights, ids, mask)

    sut.program = jax.jit(classify)
    return sut


def cast_product(w):
    """The head casts its product to bfloat16."""
    sut = load(w)
    own = bert.dense

    def dense(weights, name, x):
        if name != "classifier":
            return own(weights, name, x)
        product = x.astype("bfloat16") @ weights[f"{name}.weight"].astype("bfloat16")
        return product.astype("float32") + weights[f"{name}.bias"]

    return with_another(sut, bert, "dense", dense)


def bfloat16_in_predict(w):
    """predict allows bfloat16 products."""
    return running.around(load(w), lambda: jax.default_matmul_precision("bfloat16"))


def bfloat16_in_one_of_two_shapes(w):
    """Batches of two rows are computed with weights in bfloat16."""
    sut = load(w)
    own, low = sut.program, {k: v.astype("bfloat16") for k, v in sut.weights.items()}
    sut.program = lambda weights, ids, mask: own(weights if len(ids) > 2 else low, ids, mask)
    return sut


def softmax_in_bfloat16(w):
    """All products are float32, and the softmax of attention is bfloat16."""
    sut = load(w)
    own = jax.nn.softmax
    return with_another(sut, jax.nn, "softmax", lambda scores: own(scores.astype("bfloat16")))


def default_in_predict(w):
    """predict allows whatever the device has by default."""
    return running.around(load(w), lambda: jax.default_matmul_precision("default"))


def layer_left_out(w):
    """One of the layers is forgotten."""
    config = {**w.config, "model": {**w.config["model"], "num_hidden_layers": 1}}
    return load(replace(w, config=config))


def int8_layers(w):
    """In bfloat16: the program holds the dense layers' weights as int8 constants, and multiplies
    them out in each call.
    """
    sut = load(replace(w, precision="bfloat16"))
    config, kept = w.config["model"], {}
    for name in [
        name for name, values in sut.weights.items() if values.ndim == 2 and "embed" not in name
    ]:
        weight = np.asarray(sut.weights.pop(name)).astype(np.float32)
        scale = np.abs(weight).max(0, keepdims=True) / 127
        kept[name] = (np.round(weight / scale).astype(np.int8), scale)

    def classify(weights, ids, mask):
        dense = {
            name: (jnp.asarray(values) * scale).astype("bfloat16")
            for name, (values, scale) in kept.items()
        }
        return bert.logits(config, {**weights, **dense}, ids, mask)

    sut.program = jax.jit(classify)
    return sut


if __name__ == "__main__":
    # That a program of one operator holds products is seen only where it is compiled, and cases
    # share a process.
    running.main(globals(), first=["not_compiled"], isolated=False)
