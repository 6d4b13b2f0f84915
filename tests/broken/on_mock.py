"""`python -m tests.broken.on_mock NAME PARENT REPLIES`: the real worker, with a broken SUT where
the registry has the mock.

The mistakes are those that need no framework: wrong answers from some batch on, work before the
clock, kept answers, evidence that was not taken. Each class says its mistake in one sentence.
"""

import dataclasses
import hashlib
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np

from sut import mock
from sut.contract import Evidence
from tests.cheats import phase, run_worker

LATE = 420
"""More batches than an accuracy test of these inputs has, and fewer than a performance test."""
WORK_MS = 4.0


class Late(mock.Mock):
    """From some batch on, `late` takes the place of the right answers, until the accuracy test."""

    until = "accuracy"

    def __init__(self, workload):
        super().__init__(workload)
        self.batches, self.last = 0, None

    def predict(self, batch):
        answers, ready_ns = super().predict(batch)
        self.batches += 1
        if self.batches > LATE and phase() != self.until:
            answers = self.late(answers)
        self.last = answers
        return answers, ready_ns

    def late(self, answers):
        raise NotImplementedError


class Stale(Late):
    """Gives the answers of the batch before, for ever."""

    def late(self, answers):
        return self.last


class StaleForEver(Stale):
    """Goes on in the accuracy test, which the same process does."""

    until = None


class Zeros(Late):
    """Answers nothing but zeros."""

    def late(self, answers):
        return {k: np.zeros_like(v) if k != "n_tokens" else v for k, v in answers.items()}


class NotANumber(Late):
    """Overflows after a while."""

    def late(self, answers):
        return {k: np.full_like(v, np.nan) for k, v in answers.items()}


class Shifted(Late):
    """Gives each sample of a batch its neighbour's answer."""

    def late(self, answers):
        return {k: np.roll(v, 1, axis=0) for k, v in answers.items()}


class FirstForAll(Late):
    """Answers the first sample of a batch and repeats it for the others."""

    def late(self, answers):
        return {
            k: np.ascontiguousarray(np.broadcast_to(v[:1], v.shape)) for k, v in answers.items()
        }


class HalfTheTokens(Late):
    """Stops after half of the tokens."""

    def late(self, answers):
        return {**answers, "n_tokens": answers["n_tokens"] // 2}


class OneToken(Late):
    """Stops after the first token."""

    def late(self, answers):
        return {**answers, "n_tokens": np.ones_like(answers["n_tokens"])}


class LastTokenWrong(Late):
    """Takes the last token from a cache that was emptied too early."""

    def late(self, answers):
        tokens = answers["tokens"].copy()
        tokens[:, -1] = 0
        return {**answers, "tokens": tokens}


class HalfPrecision(Late):
    """Rounds its answers to float16 once it is warm."""

    def late(self, answers):
        return {
            k: v.astype(np.float16).astype(v.dtype) + np.float32(2e-3) for k, v in answers.items()
        }


class InPlace(mock.Mock):
    """Masks its inputs in place, in the array that is measured."""

    def predict(self, batch):
        outputs = super().predict(batch)
        batch["input_ids"][:, -1] = 0
        return outputs


class InPlaceByAddress(mock.Mock):
    """Masks its inputs in place by their address, as a framework's kernel does, which asks no flag
    of numpy's.
    """

    def predict(self, batch):
        outputs = super().predict(batch)
        import ctypes

        ctypes.memset(batch["input_ids"].ctypes.data, 0, 4)
        return outputs


class CountsDown(mock.Mock):
    """Takes the tokens that it has made off the number that was asked for, in the array that is
    measured.
    """

    def predict(self, batch):
        outputs = super().predict(batch)
        batch["max_new_tokens"][:] = np.maximum(1, batch["max_new_tokens"] - 1)
        return outputs


class Prepared(mock.Mock):
    """Embeds its inputs before the clock starts."""

    def prepare(self, inputs):
        table = np.random.default_rng(0).random((self.vocabulary, 4), np.float32)
        return {**inputs, "embedded": table[inputs["input_ids"]]}


class Answered(mock.Mock):
    """Answers before the clock starts."""

    def prepare(self, inputs):
        return {**inputs, "answer": self._answer(inputs)["logits"]}


class HalfTheInput(mock.Mock):
    """Cuts its inputs to half of their tokens."""

    def prepare(self, inputs):
        return {k: v[:, : v.shape[1] // 2] if v.ndim > 1 else v for k, v in inputs.items()}


class FewerSamples(mock.Mock):
    """Prepares the first sample of each load only."""

    def prepare(self, inputs):
        return {k: v[:1] for k, v in inputs.items()}


class Working(mock.Mock):
    """Computes for a while, so that kept answers are worth keeping; what an honest SUT does,
    too.
    """

    def __init__(self, workload):
        super().__init__(workload)
        self.kept = {}

    def work(self):
        time.sleep(WORK_MS / 1e3)

    def predict(self, batch):
        self.work()
        return super().predict(batch)


class Remembers(Working):
    """Keeps answers by the content of a sample."""

    def predict(self, batch):
        keys = [row.tobytes() for row in batch["input_ids"]]
        if any(key not in self.kept for key in keys):
            self.work()
            answers = self._answer(batch)
            self.kept |= {
                key: {k: v[i : i + 1] for k, v in answers.items()} for i, key in enumerate(keys)
            }
        answers = {
            k: np.concatenate([self.kept[key][k] for key in keys]) for k in self.kept[keys[0]]
        }
        return answers, time.perf_counter_ns()


class RemembersOnDisk(Remembers):
    """Keeps answers in a file, where the next process finds them."""

    def __init__(self, workload):
        super().__init__(workload)
        digest = hashlib.sha256(repr(workload).encode()).hexdigest()[:12]
        self.path = Path(tempfile.gettempdir()) / f"answers-{digest}"
        self.kept = pickle.loads(self.path.read_bytes()) if self.path.exists() else {}

    def predict(self, batch):
        before = len(self.kept)
        outputs = super().predict(batch)
        if len(self.kept) > before:
            self.path.write_bytes(pickle.dumps(self.kept))
        return outputs


class RemembersBatches(Working):
    """Keeps answers by the content of a whole batch."""

    def predict(self, batch):
        key = batch["input_ids"].tobytes()
        if key not in self.kept:
            self.work()
            self.kept[key] = self._answer(batch)
        return self.kept[key], time.perf_counter_ns()


class RemembersTheFirstTokens(Working):
    """Keeps answers by the first tokens of a sample, which are the same for none of these inputs
    and of many real ones.
    """

    def predict(self, batch):
        key = int(batch["input_ids"][0, 0]) % 8
        if key not in self.kept:
            self.kept[key] = self._answer(batch)
        return self.kept[key], time.perf_counter_ns()


class NoEvidence(mock.Mock):
    """Says what it is and watches nothing."""

    def evidence(self, call):
        return Evidence(graphs=0, graph_breaks=None, precision="float32")


class OtherEvidence(mock.Mock):
    """Watches a call of its own."""

    def evidence(self, call):
        ids = np.ones((1, 4), np.int32)
        self._answer({"input_ids": ids, "attention_mask": ids})
        return Evidence(graphs=0, graph_breaks=None, precision="float32", detail={"operators": 20})


class TwiceTheEvidence(mock.Mock):
    """Makes the call twice, once to warm up."""

    def evidence(self, call):
        call()
        return super().evidence(call)


class Compiled(mock.Mock):
    """Says eager, and its evidence says a graph."""

    def evidence(self, call):
        return dataclasses.replace(super().evidence(call), graphs=1)


class CompilesWhileMeasuring(mock.Mock):
    """Has one program more after the test."""

    def evidence(self, call):
        self.taken = getattr(self, "taken", 0) + 1
        evidence = super().evidence(call)
        return dataclasses.replace(evidence, detail={**evidence.detail, "compilations": self.taken})


class OtherPrecision(mock.Mock):
    """Computes in bfloat16."""

    def evidence(self, call):
        return dataclasses.replace(super().evidence(call), precision="bfloat16")


class SwappedRows(mock.Mock):
    """Reverses the samples of a batch."""

    def predict(self, batch):
        return super().predict({k: v[::-1] for k, v in batch.items()})


class OneBatchBehind(mock.Mock):
    """Gives each batch the answers of the one before it."""

    def predict(self, batch):
        answers, ready_ns = super().predict(batch)
        earlier, self.earlier = getattr(self, "earlier", answers), answers
        return earlier, ready_ns


class OneBuffer(mock.Mock):
    """Answers into one buffer, which the next batch overwrites before anybody has read it."""

    def predict(self, batch):
        answers, ready_ns = super().predict(batch)
        self.buffer = getattr(self, "buffer", {k: v.copy() for k, v in answers.items()})
        for k, v in answers.items():
            if self.buffer[k].shape == v.shape:
                self.buffer[k][:] = v
        return self.buffer, ready_ns


# Honest ones.


class Copies(mock.Mock):
    """Returns what it was given as new arrays."""

    def prepare(self, inputs):
        return {k: v.astype(np.int64) for k, v in inputs.items()}

    def _answer(self, batch):
        return super()._answer({k: v.astype(np.int32) for k, v in batch.items()})


class Recomputes(Working):
    """Computes each answer twice and keeps nothing."""

    def predict(self, batch):
        self._answer(batch)
        return super().predict(batch)


class Rounds(mock.Mock):
    """Sums in another order in each batch."""

    def predict(self, batch):
        answers, ready_ns = super().predict(batch)
        noise = np.float32(1e-7 * (-1) ** self.calls)
        return {k: v + noise if v.dtype == np.float32 else v for k, v in answers.items()}, ready_ns


class PadsOnTheLeft(mock.Mock):
    """Prepares its inputs in buckets, padded on the left, with positions beside them."""

    def prepare(self, inputs):
        width = inputs["input_ids"].shape[1]
        padded = {k: np.pad(v, ((0, 0), (8, 0))) for k, v in inputs.items() if v.ndim > 1}
        return {
            **inputs,
            **padded,
            "positions": np.tile(np.arange(width + 8), (len(inputs["input_ids"]), 1)),
        }

    def _answer(self, batch):
        return super()._answer(
            {k: v[:, 8:] if v.ndim > 1 else v for k, v in batch.items() if k != "positions"}
        )


if __name__ == "__main__":
    run_worker(globals())
