"""Runs KerasHub's `generate_step` one token at a time. Each token is one call of a compiled
program.

KerasHub calls its sampler with the model's next step and with the cache. The sampler of this file
makes one step, and keeps the cache for the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras_hub
import numpy as np
from keras import ops

from sut.keras3 import runtime
from sut.streaming import one_ahead


class Stepwise:
    """A language model of KerasHub that generates greedily, one token a call.

    The first call reads the prompts. If they are uneven, KerasHub begins at the end of the shortest
    one. The first call then ends when the longest prompt has its first token. Shorter prompts are
    ahead by as many tokens as they are shorter.
    """

    def __init__(self, model: Any):
        self.model = model
        self.bind = runtime.backend.compiled(model, self._step)
        self.shapes: set[tuple[int, ...]] = set()  # of the sequences that ran

    def run(
        self, inputs: Mapping[str, np.ndarray], steps: int, on_step: Callable[[np.ndarray], bool]
    ) -> None:
        """Generate at most `steps` tokens of each row. `inputs`: those of `generate`. `on_step`:
        see `sut.contract.Inference.stream`.
        """
        shape = inputs["token_ids"].shape
        tokens = self._tokens(inputs, steps)
        if runtime.backend.RUNS_AHEAD:
            tokens = one_ahead(tokens)
        for each in tokens:
            if not on_step(ops.convert_to_numpy(each)):
                break
        if shape not in self.shapes:
            self.shapes.add(shape)
            next(tokens, None)  # compiles the later steps, even if the first token was the last one

    def _tokens(self, inputs: Mapping[str, np.ndarray], steps: int) -> Iterator[Any]:
        """Yield the next token of each row, int32 [batch], on the device."""
        step = self.bind()
        fixed = {name: ops.convert_to_tensor(values) for name, values in inputs.items()}
        state = fixed.pop("token_ids"), None, None
        for _ in range(steps):
            tokens, state = step(fixed, state)
            yield tokens

    def _step(self, fixed: Mapping[str, Any], state: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        """Return (the next token of each row, int32 [batch], the next state).

        Args:
            fixed: the inputs of `generate` that do not change.
            state: (sequences, int32 [batch, prompt + new], cache or None, the column of the next
                tokens or None).
        """
        sequences, cache, at = state
        sampler = _OneStep(at)
        inputs = {"token_ids": sequences, **fixed}
        type(self.model).generate_step(_Cached(self.model, sampler, cache), inputs, None)
        sequences, cache, at = sampler.state
        lengths = ops.sum(ops.cast(fixed["padding_mask"], "int32"), axis=-1)
        columns = lengths + (at - 1 - ops.max(lengths))
        tokens = ops.take_along_axis(sequences, columns[:, None], axis=1)
        return ops.squeeze(tokens, axis=1), (sequences, cache, at)


class _Cached:
    """A model for `generate_step`, with another sampler. With a cache it reads no prompt."""

    def __init__(self, model: Any, sampler: Any, cache: Any):
        self.model = model
        self.sampler = sampler
        self.cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def _build_cache(self, *inputs: Any, **named: Any) -> tuple[Any, Any]:
        if self.cache is None:
            return self.model._build_cache(*inputs, **named)
        return None, self.cache


class _OneStep(keras_hub.samplers.GreedySampler):
    """A greedy sampler that goes on at column `at`, by one token. If that is None, it begins at the
    end of the shortest prompt, and ends after the longest one.

    Attributes:
        state: the sequences, the cache and the next column.
    """

    def __init__(self, at: Any):
        super().__init__()
        self.at = at

    def run_loop(
        self,
        cond: Any,
        body: Any,
        model: Any = None,
        loop_vars: Any = None,
        maximum_iterations: Any = None,
    ) -> Any:
        sequences, cache, index, mask = loop_vars
        if self.at is None:
            longest = ops.max(ops.sum(ops.cast(mask, "int32"), axis=-1))
            after = super().run_loop(
                cond, body, model=model, loop_vars=loop_vars, maximum_iterations=longest - index + 1
            )
        else:
            after = body(sequences, cache, self.at, mask)
        self.state = after[0], after[1], after[2]
        return after
