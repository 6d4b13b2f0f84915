"""Language models of onnxruntime-genai, which generate greedily. Its builder makes them of the
checkpoint in the first batch (`sut.onnxruntime.build`). The measured calls are those of its
Generator, which allocates its cache when it is made.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai

from sut import converted_models, padding
from sut.contract import AsGiven, Batch, Call, Evidence, Workload
from sut.evidence import backend_evidence, matrix_library
from sut.onnxruntime import runtime
from sut.onnxruntime.profile import Observed, nodes
from sut.registry import QUANTIZE

_BUILD = "sut.onnxruntime.build"
_FILE = "model.onnx"
_CONFIG = "genai_config.json"


class CausalLM(AsGiven):
    """A language model. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1  # each token is copied to the host

    def __init__(self, workload: Workload):
        runtime.configure(workload)
        onnxruntime_genai.disable_telemetry_events()
        self.workload = workload
        self.config = workload.config["model"]
        self.end_tokens = list(workload.config.get("end_tokens", ()))
        self.ends = self.end_tokens or [self._unlikely()]
        self.models: dict[int, onnxruntime_genai.Model] = {}
        self.profile: Path | None = None  # the folder for profiles of a watched call
        self.runs = 0
        self.held: Any = None
        self.session: dict[str, Any] = {}  # the configuration of the model's session

    def _unlikely(self) -> int:
        """The token that ends rows if no token shall. onnxruntime-genai requires one, so it is one
        that hardly any answer has. `_tokens` goes on after it.
        """
        (own,) = self._ids("bos_token_id") or [0]
        return own

    def _ids(self, name: str) -> list[int]:
        """The id of this name, if config.json has one within the vocabulary."""
        own = self.config.get(name)
        return [own] if type(own) is int and 0 <= own < self.config["vocab_size"] else []

    def _model(self, last: np.ndarray) -> tuple[int, onnxruntime_genai.Model]:
        """Return (the token that pads, the model) for sequences with these last tokens.

        onnxruntime-genai takes a last token for padding if it is the one that pads, so then another
        model is loaded.
        """
        usual = self._ids("pad_token_id")
        candidates = itertools.chain(self.models, usual, range(self.config["vocab_size"]))
        taken = {*self.ends, *last.tolist()}
        padded_by = next(each for each in candidates if each not in taken)
        if padded_by not in self.models:
            self.models[padded_by] = self._load(padded_by)
        return padded_by, self.models[padded_by]

    def _load(self, padded_by: int) -> onnxruntime_genai.Model:
        kind = self.workload.options.get(QUANTIZE, "float32")
        with (
            converted_models.folder(self.workload, f"causal_lm-{kind}", _BUILD) as folder,
            tempfile.TemporaryDirectory() as own,
        ):
            self.held = runtime.held(folder / _FILE)
            config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
            session = config["model"]["decoder"]["session_options"]
            session |= {"intra_op_num_threads": runtime.threads()}
            session |= runtime.settings(self.workload)
            config["model"] |= {"eos_token_id": self.ends, "pad_token_id": padded_by}
            self.session = session
            (Path(own) / _CONFIG).write_text(json.dumps(config), encoding="utf-8")
            for each in folder.glob(f"{_FILE}*"):
                (Path(own) / each.name).symlink_to(each)
            return onnxruntime_genai.Model(onnxruntime_genai.Config(own))

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

    def _tokens(
        self, batch: Batch, force: Callable[[onnxruntime_genai.Generator], object] = id
    ) -> Iterator[np.ndarray]:
        """Yield the next token of each row, int32 [batch], up to the most that are requested, or
        until all rows have ended. `force` may replace the logits of each step.
        """
        width, new = padding.shape(batch, self.workload.config, eager=True)
        sequences = np.zeros((len(batch["input_ids"]), width + new), np.int32)
        sequences[:, :width] = batch["input_ids"][:, :width]
        lengths = batch["prompt_length"].astype(np.int64)
        rows = np.arange(len(lengths))
        generator = self._reading(sequences, lengths, width + new)
        for left in range(new, 0, -1):
            if generator.is_done():
                return
            self._watched(generator)
            force(generator)
            generator.generate_next_token()
            following = np.array(generator.get_next_tokens(), np.int32)
            yield following
            sequences[rows, lengths] = following
            lengths += 1
            if not self.end_tokens and left > 1 and (following == self.ends[0]).any():
                generator = self._reading(sequences, lengths, width + new)

    def _reading(
        self, sequences: np.ndarray, lengths: np.ndarray, longest: int
    ) -> onnxruntime_genai.Generator:
        """A generator that has read the first `lengths` tokens of each row, with a cache for the
        longest sequence.
        """
        rows = np.arange(len(lengths))
        padded_by, model = self._model(sequences[rows, lengths - 1])
        is_text = np.arange(lengths.max()) < lengths[:, None]
        ids = np.where(is_text, sequences[:, : lengths.max()], padded_by).astype(np.int32)
        parameters = onnxruntime_genai.GeneratorParams(model)
        parameters.set_search_options(
            max_length=longest, batch_size=len(ids), do_sample=False, num_beams=1
        )
        generator = onnxruntime_genai.Generator(model, parameters)
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
        lengths = np.full(len(tokens), tokens.shape[1])
        generator = self._reading(tokens, lengths, tokens.shape[1] + 1)
        return np.array(generator.get_output("logits"), np.float32)

    def forced_logits(self, batch: Batch, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of a generation. In each step they are replaced, so that the generator
        takes the given token. They are 0 after all rows have ended.
        """
        steps: list[np.ndarray] = []

        def force(generator: onnxruntime_genai.Generator) -> None:
            steps.append(np.array(generator.get_logits(), np.float32)[:, 0])
            chosen = np.zeros_like(steps[-1])
            np.put_along_axis(chosen, tokens[:, len(steps) - 1, None], 1.0, axis=1)
            generator.set_logits(chosen[:, None])

        requested = np.full(len(tokens), tokens.shape[1], np.int32)
        for _ in self._tokens({**batch, "max_new_tokens": requested}, force):
            pass
        unused = [np.zeros_like(steps[0])] * (tokens.shape[1] - len(steps))
        return np.stack([*steps, *unused], axis=1)

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
            "settings": runtime.switches(self.session),
        }


def load(workload: Workload) -> CausalLM:
    """The checkpoint's model."""
    return CausalLM(workload)
