"""Runs in native torch's environment: the answers of native-torch-eager with one thing changed at a
time, one .npz for each.

`python -m tests.sut.mistakes SPEC.json`: the specification of benchmarks.answers, with "changes"
and "folder".
"""

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers.cache_utils import Cache

from benchmarks import answers
from tests.support.files import read_json


def main(specification):
    spec = read_json(specification)
    for name in spec["changes"]:
        sut = answers.load(spec)
        with CHANGES[name](sut):
            np.savez(Path(spec["folder"]) / f"{name}.npz", **answers.answers(spec, sut))


def parameters(change):
    @contextmanager
    def changed(sut):
        for parameter in sut.model.parameters():
            parameter.data = change(parameter.data)
        yield

    return changed


def modules(attribute, value):
    @contextmanager
    def changed(sut):
        hit = [
            module
            for module in sut.model.modules()
            if attribute in vars(module) or attribute in getattr(module, "_modules", {})
        ]
        assert hit
        for module in hit:
            setattr(module, attribute, value)
        yield

    return changed


def cache(change):
    """The key-value cache holds what `change` makes of keys and values."""

    @contextmanager
    def changed(sut):
        whole = Cache.update
        Cache.update = lambda self, keys, values, *rest, **named: whole(
            self, change(keys), change(values), *rest, **named
        )
        try:
            yield
        finally:
            Cache.update = whole

    return changed


def generation(**settings):
    @contextmanager
    def changed(sut):
        torch.manual_seed(1)
        sut.model.generation_config.update(**settings)
        yield

    return changed


def int8(values):
    """Rounded to 8 bits, with one scale for each head and position."""
    scale = values.float().abs().amax(-1, keepdim=True) / 127
    return ((values.float() / scale).round() * scale).to(values.dtype)


@contextmanager
def other_order(sut):
    """Every matrix product sums from its last input to its first."""
    for module in sut.model.modules():
        if isinstance(module, torch.nn.Linear):
            # Of its own: a head may be tied to the embedding.
            module.weight = torch.nn.Parameter(module.weight.data.flip(1).contiguous())
            module.register_forward_pre_hook(lambda _, inputs: (inputs[0].flip(-1).contiguous(),))
    yield


@contextmanager
def other_buckets(sut):
    """Prompts padded to 12 tokens, and more new tokens than any row asks for."""
    own = sut.predict
    sut.workload = replace(
        sut.workload,
        config={**sut.workload.config, "prompt_buckets": [12], "new_token_buckets": [50]},
    )

    def predict(batch):
        ids = np.pad(batch["input_ids"], ((0, 0), (0, 12 - batch["input_ids"].shape[1])))
        tokens, asked = own({**batch, "input_ids": ids})
        return tokens[:, : int(asked.max())], asked

    sut.predict = predict
    yield


CHANGES = {
    "exact GELU for its tanh form": modules("intermediate_act_fn", torch.nn.GELU()),
    "epsilon 1e-5 for 1e-12": modules("eps", 1e-5),
    "epsilon 1e-6 for 1e-12": modules("eps", 1e-6),
    "epsilon 1e-6 for 1e-5": modules("variance_epsilon", 1e-6),
    "epsilon 1e-5 for 1e-6": modules("eps", 1e-5),
    "weights rounded to float16": parameters(lambda p: p.half().to(p.dtype)),
    "weights rounded to int8": parameters(lambda p: int8(p) if p.ndim == 2 else p),
    "float16 cache": cache(lambda x: x.half().to(x.dtype)),
    "int8 cache": cache(int8),
    "sampling at temperature 0.3": generation(do_sample=True, temperature=0.3, top_k=0),
    "sampling at temperature 0.1": generation(do_sample=True, temperature=0.1, top_k=0),
    "no cache": generation(use_cache=False),
    "other order of summation": other_order,
    "other buckets": other_buckets,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
