"""Language models of openvino-genai, which generate greedily. optimum-intel exports them of the
checkpoint in the first batch (`sut.openvino.build`). The measured call is `LLMPipeline.generate`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import openvino
import openvino_genai

from sut import converted_models, padding
from sut.contract import AsGiven, Batch, Call, Evidence, Unsupported, Workload
from sut.evidence import backend_evidence, matrix_library
from sut.openvino import runtime
from sut.registry import QUANTIZE

_BUILD = "sut.openvino.build"
_FILE = "openvino_model.xml"
_ALL_AT_ONCE = 2**31 - 1
_LEVEL = "OPENVINO_LOG_LEVEL"
_PREFIXES = "enable_prefix_caching"
_COMPUTES = ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION")
_own_generate = openvino_genai.LLMPipeline.generate


class _HandsOver(openvino_genai.StreamerBase):
    """Hands over each token of one prompt."""

    def __init__(self, on_step: Callable[[np.ndarray], bool]):
        super().__init__()
        self.on_step = on_step

    def write(self, tokens: Any) -> Any:
        """Take one token, or several. Returns whether to go on."""
        for token in tokens if isinstance(tokens, list) else [tokens]:
            if not self.on_step(np.array([token], np.int32)):
                return openvino_genai.StreamingStatus.STOP
        return openvino_genai.StreamingStatus.RUNNING

    def end(self) -> None:
        """Do nothing: `write` had all tokens."""


class CausalLM(AsGiven):
    """A language model. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1  # `generate` returns the answers

    def __init__(self, workload: Workload):
        runtime.configure(workload)
        self.workload = workload
        self.end_tokens = list(workload.config.get("end_tokens", ()))
        self.pipeline: Any = None
        self.stepwise: Any = None  # the same file, whose logits are read
        self.held: Counter[str] = Counter()
        self.reported: dict[str, str] = {}  # the settings of the pipeline's program

    def _loaded(self) -> Any:
        """The pipeline. The first call exports and compiles it."""
        if self.pipeline is None:
            kind = self.workload.options.get(QUANTIZE, "float32")
            with converted_models.folder(self.workload, f"causal_lm-{kind}", _BUILD) as folder:
                model = openvino.Core().read_model(folder / _FILE)
                self.held = runtime.held(model)
                self.stepwise = _Stepwise(model, self.workload)
                with _printed() as lines:
                    self.pipeline = openvino_genai.LLMPipeline(
                        str(folder),
                        runtime.DEVICE,
                        scheduler_config=self.scheduler(),
                        **self.settings(),
                    )
            self.reported = _settings_in(lines)
        return self.pipeline

    def settings(self) -> dict[str, Any]:
        """Return the settings of the pipeline's program."""
        return runtime.settings()

    def scheduler(self) -> Any:
        """Return the configuration of the scheduler. Without one, the pipeline keeps what it has
        computed of earlier prompts. A prompt is read at once, as without one.
        """
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = _ALL_AT_ONCE
        return scheduler

    def predict(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return (new tokens, int32 [batch, new], how many each row requests)."""
        requested = batch["max_new_tokens"]
        rows = self._generate(batch).tokens
        tokens = np.zeros((len(requested), int(requested.max())), np.int32)
        for row, answer in enumerate(rows):
            tokens[row, : len(answer)] = answer[: tokens.shape[1]]
        return tokens, requested

    def _generate(self, batch: Batch, *streamer: Any) -> Any:
        """Run the measured call on prompts that are padded on the right."""
        width, _ = padding.shape(batch, self.workload.config, eager=True)
        ids = np.ascontiguousarray(batch["input_ids"][:, :width], np.int64)
        mask = (np.arange(width) < batch["prompt_length"][:, None]).astype(np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(mask))
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = int(batch["max_new_tokens"].max())
        config.do_sample = False
        config.ignore_eos = not self.end_tokens
        config.stop_token_ids = set(self.end_tokens)
        # Otherwise it is the folder's, or -1, which is refused.
        config.set_eos_token_id(self.end_tokens[0] if self.end_tokens else 0)
        return self._loaded().generate(inputs, config, *streamer)

    def to_host(self, outputs: tuple[np.ndarray, np.ndarray]) -> Batch:
        """Return the new tokens, and how many of each row are its answer."""
        tokens, requested = outputs
        return {"tokens": tokens, "n_tokens": padding.produced(tokens, requested, self.end_tokens)}

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Hand over each token. Raises Unsupported in the library's words for several prompts."""
        self._loaded()
        try:
            self._generate(batch, _HandsOver(on_step))
        except RuntimeError as e:
            if len(batch["input_ids"]) == 1:
                raise
            words = str(e).strip().splitlines()[-1]
            raise Unsupported(
                f"openvino-genai hands over the tokens of one prompt at a time ({words}): take"
                " --batch-size 1, or leave --stream out"
            ) from e

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the run that reads a prompt."""
        self._loaded()
        logits: np.ndarray = self.stepwise.read(tokens, np.ones(tokens.shape, np.int64))
        return logits

    def forced_logits(self, batch: Batch, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the same file with the same settings, which reads `tokens` one by
        one through its cache. LLMPipeline returns no logits.
        """
        self._loaded()
        width = int(batch["prompt_length"].max())
        ids, mask = padding.left_align(batch["input_ids"][:, :width], batch["prompt_length"])
        steps = [self.stepwise.read(ids, mask)[:, -1]]
        for token in tokens.T[:-1]:
            mask = np.concatenate([mask, np.ones((len(mask), 1), np.int64)], axis=1)
            steps.append(self.stepwise.go_on(token[:, None], mask)[:, -1])
        return np.stack(steps, axis=1)

    def synchronise(self) -> None:
        """Do nothing: the processor is done on return."""

    def evidence(self, call: Call) -> Evidence:
        """See `backend_evidence.evidence`."""
        self._loaded()
        computed = {
            runtime.DTYPES.get(self.reported.get(name, ""), "unknown") for name in _COMPUTES
        }
        return backend_evidence.evidence(
            runtime,
            self.workload,
            "LLMPipeline.generate",
            partial(self._watch, call),
            held=self.held,
            computed=computed,
            detail={"openvino_genai": openvino_genai.get_version()},
        )

    def _watch(self, call: Call) -> dict[str, Any]:
        """Return what the pipeline reports of its generations in the call. It does not report
        operations.
        """
        runs = list[int]()

        def counted(pipeline: Any, *arguments: Any, **named: Any) -> Any:
            results = _own_generate(pipeline, *arguments, **named)
            runs.append(len(results.perf_metrics.raw_metrics.token_infer_durations))
            return results

        openvino_genai.LLMPipeline.generate = counted
        try:
            call()
        finally:
            openvino_genai.LLMPipeline.generate = _own_generate
        is_here = self.reported.get("EXECUTION_DEVICES") == runtime.DEVICE
        threads = int(self.reported.get("INFERENCE_NUM_THREADS", 0))
        return {
            "graphs": 1,
            "regions": sum(runs),
            "flops": None,
            "nodes_elsewhere": 0 if is_here else sum(runs),
            "prompts_kept": int(self.reported.get(_PREFIXES) != "false"),
            "matrix_products": matrix_library.fact(matrix_library.UNKNOWN, threads=threads),
            "openvino_settings": self.reported,
        }


class _Stepwise:
    """A language model that keeps its cache as a state of OpenVINO, compiled with the settings of
    the pipeline.
    """

    def __init__(self, model: Any, workload: Workload):
        self.model = model
        self.request: Any = None
        self.names = {name for each in model.inputs for name in each.names}

    def read(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the logits of prompts padded on the left, float32 [batch, length, vocabulary]."""
        if self.request is None:
            compiled = openvino.Core().compile_model(self.model, runtime.DEVICE, runtime.settings())
            self.request = compiled.create_infer_request()
        self.request.reset_state()
        return self.go_on(ids, mask)

    def go_on(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the logits of the next tokens. `mask`: that of all tokens so far."""
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -ids.shape[1] :]
        inputs = {
            "input_ids": ids.astype(np.int64),
            "attention_mask": mask,
            "position_ids": positions,
            "beam_idx": np.arange(len(ids), dtype=np.int32),
        }
        given = {name: values for name, values in inputs.items() if name in self.names}
        return np.array(self.request.infer(given)["logits"], np.float32)


@contextmanager
def _printed() -> Iterator[list[str]]:
    """A context in which openvino-genai prints the settings of its scheduler and of the programs
    that it compiles. They are in the list after it.
    """
    lines = list[str]()
    before = os.environ.get(_LEVEL)
    os.environ[_LEVEL] = "3"
    sys.stdout.flush()
    own = os.dup(1)
    try:
        with tempfile.TemporaryFile("w+") as file:
            os.dup2(file.fileno(), 1)
            try:
                yield lines
            finally:
                os.dup2(own, 1)
            file.seek(0)
            lines += file.read().splitlines()
    finally:
        os.close(own)
        if before is None:
            del os.environ[_LEVEL]
        else:
            os.environ[_LEVEL] = before


def _settings_in(lines: list[str]) -> dict[str, str]:
    """Return the settings that openvino-genai printed, by name."""
    pairs = (line.strip().partition(": ") for line in lines)
    return {
        name: value.strip() for name, _, value in pairs if name in (*runtime.REPORTED, _PREFIXES)
    }


def load(workload: Workload) -> CausalLM:
    """The checkpoint's model."""
    return CausalLM(workload)
