"""Language models of onnxruntime-genai, which generate greedily. Its builder makes them of the
checkpoint in the first batch (`sut.onnxruntime.build`). The measured calls are those of its
Generator, which allocates its cache when it is made.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai

from sut import converted_models, padding
from sut.contract import Batch, Call, Evidence, Workload
from sut.evidence import backend_evidence, matrix_library
from sut.evidence.onnxruntime_profile import Observed, nodes
from sut.onnxruntime import runtime
from sut.registry import QUANTIZE

_BUILD = "sut.onnxruntime.build"
_FILE = "model.onnx"


class CausalLM:
    """A language model. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1  # each token is copied to the host

    def __init__(self, workload: Workload):
        runtime.configure(workload)
        onnxruntime_genai.disable_telemetry_events()
        self.workload = workload
        self.config = workload.config["model"]
        self.end_tokens = list(workload.config.get("end_tokens", ()))
        self.padding = self._padding()
        self.profile: Path | None = None  # the folder for profiles of a watched call
        self.runs = 0
        self.held: Any = None

    def _padding(self) -> int:
        """The id that pads prompts. onnxruntime-genai takes it for padding even at the end of a
        prompt, so it is one with which prompts hardly end.
        """
        names = ("pad_token_id", "bos_token_id")
        ids = [self.config.get(name) for name in names]
        usual = [each for each in ids if type(each) is int and each >= 0]
        return next((each for each in usual if each not in self.end_tokens), 0)

    @cached_property
    def model(self) -> onnxruntime_genai.Model:
        """The model, with explicit threads and without end tokens."""
        kind = self.workload.options.get(QUANTIZE, "float32")

        def build(folder: Path) -> None:
            converted_models.run(_BUILD, self.workload, folder)

        with converted_models.folder(self.workload, f"causal_lm-{kind}", build) as folder:
            self.held = runtime.held(folder / _FILE)
            config = onnxruntime_genai.Config(str(folder))
            session = {
                "intra_op_num_threads": runtime.threads(),
                **runtime.settings(self.workload),
            }
            own = {
                "eos_token_id": [],
                "pad_token_id": self.padding,
                "decoder": {"session_options": session},
            }
            config.overlay(json.dumps({"model": own}))
            return onnxruntime_genai.Model(config)

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs unchanged. Raises ValueError if a prompt ends with the id that pads."""
        last = inputs["prompt_length"].astype(np.int64)[:, None] - 1
        ends = np.take_along_axis(inputs["input_ids"], last, axis=1)
        if (ends == self.padding).any():
            raise ValueError(
                f"a prompt ends with the token {self.padding}, which onnxruntime-genai takes for"
                " padding: leave that token out"
            )
        return inputs

    def predict(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return (new tokens, int32 [batch, new], how many each row requests)."""
        requested = batch["max_new_tokens"]
        tokens = np.zeros((len(requested), int(requested.max())), np.int32)
        is_open = np.ones(len(requested), bool)
        for step, following in enumerate(self._tokens(batch)):
            tokens[:, step] = following
            is_open &= requested > step + 1
            if self.end_tokens:
                is_open &= ~np.isin(following, self.end_tokens)
            if not is_open.any():
                break
        return tokens, requested

    def to_host(self, outputs: tuple[np.ndarray, np.ndarray]) -> Batch:
        """Return the new tokens, and how many of each row are its answer."""
        tokens, requested = outputs
        return {"tokens": tokens, "n_tokens": padding.produced(tokens, requested, self.end_tokens)}

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Hand over each token. `on_step` judges end tokens."""
        for following in self._tokens(batch):
            if not on_step(following):
                break

    def _tokens(self, batch: Batch) -> Iterator[np.ndarray]:
        """Yield the next token of each row, int32 [batch], without end."""
        generator = self._begun(batch)
        while True:
            self._watched(generator)
            generator.generate_next_token()
            yield np.array(generator.get_next_tokens(), np.int32)

    def _begun(self, batch: Batch) -> onnxruntime_genai.Generator:
        """A generator that has read the prompts, padded on the right."""
        width, new = padding.shape(batch, self.workload.config, eager=True)
        is_text = np.arange(width) < batch["prompt_length"][:, None]
        ids = np.where(is_text, batch["input_ids"][:, :width], self.padding)
        return self._reading(ids.astype(np.int32), width + new)

    def _reading(self, ids: np.ndarray, length: int) -> onnxruntime_genai.Generator:
        """A generator that has read ids, int32 [batch, width], with a cache of this length."""
        parameters = onnxruntime_genai.GeneratorParams(self.model)
        parameters.set_search_options(
            max_length=length, batch_size=len(ids), do_sample=False, num_beams=1
        )
        generator = onnxruntime_genai.Generator(self.model, parameters)
        self._watched(generator)
        generator.append_tokens(ids)
        return generator

    def _watched(self, generator: onnxruntime_genai.Generator) -> None:
        """Let the next run of a watched call write its profile to a file of its own."""
        if self.profile:
            self.runs += 1
            generator.set_runtime_option("enable_profiling", str(self.profile / f"{self.runs}-"))

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the run that reads a prompt."""
        generator = self._reading(np.ascontiguousarray(tokens, np.int32), tokens.shape[1] + 1)
        logits: np.ndarray = generator.get_output("logits")
        return np.array(logits, np.float32)

    def forced_logits(self, batch: Batch, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of a generation. After each step they are replaced, so that the
        generator takes the given token.
        """
        generator = self._begun(batch)
        rows = np.arange(len(tokens))
        steps = []
        for following in tokens.T:
            steps.append(np.array(generator.get_logits(), np.float32)[:, 0])
            chosen = np.zeros_like(steps[-1])
            chosen[rows, following] = 1.0
            generator.set_logits(chosen[:, None])
            generator.generate_next_token()
        return np.stack(steps, axis=1)

    def synchronise(self) -> None:
        """Do nothing: the processor is done on return."""

    def evidence(self, call: Call) -> Evidence:
        """See `backend_evidence.evidence`."""
        return backend_evidence.evidence(
            runtime,
            self.workload,
            "Generator.generate_next_token",
            partial(self._watch, call),
            held=self.held,
            computed=set(),
            detail={"onnxruntime_genai": onnxruntime_genai.__version__},
        )

    def _watch(self, call: Call) -> dict[str, Any]:
        """Return what the runtime itself reports of each run of the model in the call. `cache`: the
        dtype of the keys and values of earlier tokens that it reads.
        """
        observed = Observed()
        with tempfile.TemporaryDirectory() as folder:
            self.profile = Path(folder)
            try:
                call()
            finally:
                self.profile = None
            files = list(Path(folder).iterdir())
            for each in files:
                observed.add(nodes(each))
        return {
            "graphs": 1,
            "regions": len(files),
            **observed.detail(runtime.PROVIDER),
            "matrix_products": matrix_library.fact(runtime.LIBRARY, threads=observed.threads),
            "settings": {},
        }


def load(workload: Workload) -> CausalLM:
    """The checkpoint's model."""
    return CausalLM(workload)
