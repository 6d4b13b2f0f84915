"""The procedure `serve`: answers requests of the parent with a warm SUT until the parent ends the
connection. The parent is the HTTP server of `./run.sh serve`.

Both write JSON documents, one a line, into the socket SOCKET of the job's folder. The first two are
the `settings` of the parent and the worker's `ready`. Then the parent sends

    {"id": 7, "ids": [5, 9, 12], "new": 16}    generate at most 16 tokens after these
    {"id": 8, "ids": [5, 9, 12], "top": 2}     score these tokens
    {"leave": 7}                               nobody waits for this answer any more

and the worker sends

    {"rows": [[7, [31], null]]}                further tokens of an answer; null: it has not ended,
                                               "stop": by an end token, "length": by its number
    {"scores": 8, "chosen": [...], "top": [[[ids], [log probabilities]], ...]}
    {"refused": 7, "why": "..."}               the queue is full
    {"compiled": 1}                            programs were compiled after the warm-up
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from formats.job import Job
from scenarios.worker.batching import Batcher, Overload, Policy
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat, hang_limit_s
from sut import padding
from sut.contract import Batch, Inference
from sut.devices import DEVICES
from sut.evidence import compilations

SOCKET = "serve.sock"
STOP, LENGTH = "stop", "length"
"""Why an answer ended: at an end token, or after as many tokens as were requested."""

_clock = time.perf_counter_ns
_WARM_TOKENS = 3
_IDLE_LIMIT_S = 1 << 40
_SEED = 20240611


@dataclass(slots=True, eq=False)
class Asked:
    """One request.

    Attributes:
        ids: the tokens of the prompt.
        new: the most tokens of the answer.
        top: for scores: so many of the likeliest tokens of each position; None: an answer is
            generated.
        left: nobody waits for the answer any more.
    """

    id: int
    ids: Sequence[int]
    new: int = 0
    top: int | None = None
    left: bool = False


def serve(job: Job, sut: Inference, beat: Heartbeat, slowest_ns: float) -> dict[str, Any]:
    """Warm up, and answer requests until the parent closes the socket. The job has no inputs.

    Raises any error of the SUT. It ends the procedure, because nothing is known of its state.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)  # the worker's directory is that of the job
        server = _Server(job, sut, beat, connection)
        with connection.makefile("r", encoding="utf-8") as requests:
            settings = json.loads(next(requests))
            server.warm_up(settings["shapes"], settings["scores"])
            server.answer(requests, settings)
    return {}


class _Server:
    """The SUT behind the socket. One thread reads requests. The thread that loaded the SUT answers
    them.
    """

    def __init__(self, job: Job, sut: Inference, beat: Heartbeat, connection: socket.socket):
        self.sut = sut
        self.config = job.workload.config
        self.sizes = job.batch_sizes
        self.most_new = self.config["new_token_buckets"][-1]
        self.accelerated = DEVICES[job.workload.device].accelerator
        self.streams = hasattr(sut, "stream")
        self.beat = beat
        self.connection = connection
        self.sending = threading.Lock()
        self.requests: dict[int, Asked] = {}
        self.compiled = 0
        self.slowest_ns = 0

    def warm_up(self, shapes: Sequence[tuple[int, int]], scores: Sequence[int]) -> None:
        """Run the shapes.

        Args:
            shapes: (requests of a batch, tokens of their prompts).
            scores: tokens of the prompts whose scores are computed.
        """
        self.beat.enter("warm-up", LOAD_LIMIT_S, len(shapes) + len(scores))
        for size, tokens in shapes:
            batch = [Asked(-1, self._random(tokens), self.most_new) for _ in range(size)]
            self._warm(partial(self._run, batch, _WARM_TOKENS))
        for tokens in scores:
            self._warm(partial(self.sut.logits, np.array([self._random(tokens)], np.int32)))
        self.sut.synchronise()

    def _random(self, count: int) -> list[int]:
        vocabulary = self.config["model"]["vocab_size"]
        ids: list[int] = np.random.default_rng(_SEED).integers(0, vocabulary, count).tolist()
        return ids

    def _warm(self, call: Callable[[], object]) -> None:
        """Run one shape. A GPU records its graphs in the second run."""
        start = _clock()
        call()
        if self.accelerated:
            start = _clock()
            call()
        self.slowest_ns = max(self.slowest_ns, _clock() - start)

    def answer(self, requests: Any, settings: Mapping[str, Any]) -> None:
        """Answer until there are no more `requests`. Raises an error of the SUT."""
        policy = Policy(
            sizes=self.sizes,
            wait_ns=int(settings["max_wait_ms"] * 1e6),
            most_waiting=settings["max_queue"],
        )
        batcher = Batcher(self._answer, policy)
        self.compiled = compilations.count() or 0
        self.beat.enter("serve", _IDLE_LIMIT_S)
        self._send({"ready": {"streams": self.streams}})
        reading = threading.Thread(target=self._read, args=(batcher, requests))
        reading.start()
        try:
            batcher.work()
            batcher.drain()
        finally:
            reading.join()

    def _read(self, batcher: Batcher[Asked], requests: Any) -> None:
        """Take requests until the parent, or an error of the SUT, ends the connection."""
        # After an error `put` raises it, too; `drain` reports it.
        with suppress(Exception):
            for line in requests:
                document = json.loads(line)
                if "leave" in document:
                    self._leave(batcher, document["leave"])
                else:
                    self._take(batcher, Asked(**document))
        batcher.close()

    def _take(self, batcher: Batcher[Asked], asked: Asked) -> None:
        self.requests[asked.id] = asked
        try:
            batcher.put(asked)
        except Overload as e:
            del self.requests[asked.id]
            self._send({"refused": asked.id, "why": str(e)})

    def _leave(self, batcher: Batcher[Asked], number: int) -> None:
        asked = self.requests.get(number)
        if asked is None:  # its answer has just ended
            return
        asked.left = True
        if batcher.withdraw(asked):
            del self.requests[number]

    def _answer(self, batch: list[Asked]) -> None:
        """Answer the requests of one batch. An error of the SUT also ends the reading of
        requests.
        """
        self.beat.allow(hang_limit_s(self.slowest_ns))
        try:
            self._answer_all(batch)
        except BaseException:
            self.connection.shutdown(socket.SHUT_RD)
            raise
        for asked in batch:
            del self.requests[asked.id]
        compiled = compilations.count() or 0
        if compiled > self.compiled:
            self._send({"compiled": compiled - self.compiled})
            self.compiled = compiled
        self.beat.allow(_IDLE_LIMIT_S)

    def _answer_all(self, batch: list[Asked]) -> None:
        for asked in batch:
            if asked.top is not None and not asked.left:
                self._score(asked)
        generated = [asked for asked in batch if asked.top is None and not asked.left]
        if generated:
            self._run(generated, self.most_new)

    def _run(self, batch: list[Asked], most: int) -> None:
        """Generate the answers, and at most so many tokens if the SUT streams."""
        prepared = self.sut.prepare(self._arrays(batch))
        if not self.streams:
            answers = self.sut.to_host(self.sut.predict(prepared))
            self.beat.bump(1)
            self._send_whole(batch, answers)
            return
        ends = set(self.config.get("end_tokens", ()))
        rows = dict(enumerate(batch))
        steps = 0

        def on_step(tokens: np.ndarray) -> bool:
            nonlocal steps
            steps += 1
            self.beat.bump(1)
            sent = []
            for row, asked in list(rows.items()):
                token = int(tokens[row])
                reason = _reason(token, steps, asked.new, ends)
                if reason or asked.left:
                    del rows[row]
                sent.append([asked.id, [token], reason])
            self._send_rows(sent)
            return bool(rows) and steps < most

        self.sut.stream(prepared, on_step)
        if rows and steps < most:
            raise ValueError(f"the SUT stopped after {steps} tokens, before its answers had ended")

    def _send_whole(self, batch: list[Asked], answers: Batch) -> None:
        ends = set(self.config.get("end_tokens", ()))
        sent = []
        for row, asked in enumerate(batch):
            tokens = answers["tokens"][row, : answers["n_tokens"][row]].tolist()
            reason = _reason(tokens[-1], len(tokens), len(tokens), ends)
            sent.append([asked.id, tokens, reason])
        self._send_rows(sent)

    def _send_rows(self, rows: list[list[Any]]) -> None:
        if rows and rows[0][0] >= 0:  # else it is a warm-up
            self._send({"rows": rows})

    def _arrays(self, batch: list[Asked]) -> Batch:
        """The prompts, padded to a bucket, and to a size of batches with copies of the last one."""
        size = next(size for size in self.sizes if size >= len(batch))
        padded = [*batch, *([batch[-1]] * (size - len(batch)))]
        lengths = np.array([len(asked.ids) for asked in padded], np.int32)
        width = padding.bucket(int(lengths.max()), self.config["prompt_buckets"])
        ids = np.zeros((size, width), np.int32)
        for row, asked in enumerate(padded):
            ids[row, : len(asked.ids)] = asked.ids
        new = np.array([asked.new for asked in padded], np.int32)
        return {"input_ids": ids, "prompt_length": lengths, "max_new_tokens": new}

    def _score(self, asked: Asked) -> None:
        """Send the log probability of each token but the first, given those before it, and the
        likeliest tokens of these positions and of the next one.
        """
        count = len(asked.ids)
        tokens = np.zeros((1, padding.bucket(count, self.config["prompt_buckets"])), np.int32)
        tokens[0, :count] = asked.ids
        logits = self.sut.logits(tokens)[0, :count]
        self.beat.bump(1)
        chosen = []
        top = []
        for position, row in enumerate(logits):  # all positions at once may be gigabytes
            scores = _log_probabilities(row)
            likeliest = _largest(scores, max(1, asked.top or 0))
            top.append([likeliest.tolist(), scores[likeliest].tolist()])
            if position + 1 < count:
                chosen.append(float(scores[asked.ids[position + 1]]))
        self._send({"scores": asked.id, "chosen": chosen, "top": top})

    def _send(self, document: Mapping[str, Any]) -> None:
        line = json.dumps(document, separators=(",", ":")) + "\n"
        with self.sending:
            self.connection.sendall(line.encode())


def _log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Logits [vocabulary] → the logarithms of the tokens' probabilities, float64."""
    wide = logits.astype(np.float64)
    wide -= wide.max()
    return wide - np.log(np.exp(wide).sum())


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest values, in descending order."""
    places = np.argpartition(-values, count - 1)[:count]
    return places[np.argsort(-values[places], kind="stable")]


def _reason(token: int, count: int, most: int, ends: set[int]) -> str | None:
    if token in ends:
        return STOP
    return LENGTH if count >= most else None
