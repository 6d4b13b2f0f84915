"""The procedure `serve`: answers requests with a warm SUT until the parent ends the worker. The
parent is the HTTP server of `./run.sh serve`.

Each request is a connection to the socket SOCKET in the job's folder. Documents are JSON, one a
line. The parent sends one of

    {"prompts": [[5, 9, 12]], "new": 16, "ends": [2]}   generate at most 16 tokens after each
                                                        prompt, and none after the token 2
    {"prompts": [[5, 9, 12]], "top": 1}                 score the tokens of each prompt

and ends the connection when it needs no more. The worker sends [prompt, content, end]. `end` is
null until the last one of this prompt:

    [0, [31], null]                                     further tokens of the first prompt's answer
    [0, [2], "stop"]                                    "stop": at an end token; else "length"
    [0, {"chosen": [...], "top": [[[ids], [log probabilities]], ...]}, "length"]
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from time import perf_counter_ns as _clock
from typing import Any

import numpy as np

from formats.job import Job
from formats.outcome import Fields
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat, hang_limit_s
from scenarios.worker.queries.answers import largest
from scenarios.worker.queries.batching import Batcher, Policy
from sut import padding
from sut.contract import Batch, Inference
from sut.devices import DEVICES

SOCKET = "serve.sock"
_WARM_TOKENS = 3
_IDLE_LIMIT_S = 1 << 40
_SEED = 20240611


@dataclass(slots=True, eq=False)
class Asked:
    """A prompt of a request.

    Attributes:
        index: the place of the prompt in its request.
        ids: the tokens of the prompt.
        client: the connection of the request; None: its shape is warmed up.
        new: the most tokens of the answer.
        ends: the tokens at which the answer ends.
        top: for scores: so many of the likeliest tokens of each position; None: an answer is
            generated.
        count: the tokens of the answer so far.
        is_over: whether the answer has ended, or nobody waits for it any more.
    """

    index: int
    ids: Sequence[int]
    client: socket.socket | None = None
    new: int = 0
    ends: Sequence[int] = ()
    top: int | None = None
    count: int = 0
    is_over: bool = False

    def cut(self, tokens: Iterable[int]) -> tuple[list[int], str | None]:
        """Return (those of the further tokens that belong to the answer, how it ended or None)."""
        kept = []
        for token in tokens:
            kept.append(token)
            self.count += 1
            if token in self.ends:
                return kept, "stop"
            if self.count == self.new:
                return kept, "length"
        return kept, None


class _Listener(ThreadingUnixStreamServer):
    """The socket, with a thread for each request."""

    daemon_threads = True
    request_queue_size = 1024


def serve(job: Job, sut: Inference, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Warm up, and answer requests. The job has no inputs. Raises any error of the SUT, because
    nothing is known of its state after it.
    """
    server = _Server(job, sut, beat)
    server.warm_up()

    class Request(StreamRequestHandler):
        def handle(self) -> None:
            server.take(self.rfile, self.connection)

    with _Listener(SOCKET, Request) as listener:  # the worker's directory is that of the job
        beat.enter("serve", _IDLE_LIMIT_S)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            server.batcher.work()
            server.batcher.drain()
        finally:
            listener.shutdown()
    return {}


class _Server:
    """The SUT behind the socket. The thread that loaded the SUT answers requests."""

    def __init__(self, job: Job, sut: Inference, beat: Heartbeat):
        self.job = job
        self.config = job.workload.config
        self.sut = sut
        self.beat = beat
        wait_ns = int((job.cell.max_wait_ms or 0) * 1e6)
        self.batcher = Batcher(self._answer, Policy(sizes=job.batch_sizes, wait_ns=wait_ns))
        self.sending = threading.Lock()
        self.slowest_ns = 0

    def warm_up(self) -> None:
        """Generate answers in each shape, or in the largest one if nothing is compiled, which shows
        that the memory is enough.
        """
        shapes = list(product(self.job.batch_sizes, self.config["prompt_buckets"]))
        if self.job.workload.execution == "eager":
            shapes = shapes[-1:]
        # A GPU records its graphs in the second run.
        runs = 2 if DEVICES[self.job.workload.device].accelerator else 1
        new = min(_WARM_TOKENS, self.config["new_token_buckets"][-1])
        random = np.random.default_rng(_SEED)
        self.beat.enter("warm-up", LOAD_LIMIT_S, len(shapes))
        for size, length in shapes:
            ids = random.integers(0, self.config["model"]["vocab_size"], length).tolist()
            for _ in range(runs):
                start = _clock()
                self._generate([Asked(row, ids, new=new) for row in range(size)])
            self.slowest_ns = max(self.slowest_ns, _clock() - start)
        self.sut.synchronise()

    def take(self, lines: Iterable[bytes], client: socket.socket) -> None:
        """Let a request be answered, until its connection ends."""
        taken = []
        try:
            with suppress(ConnectionError):  # the parent left before the end of the answer
                for line in lines:
                    document = json.loads(line)
                    for index, ids in enumerate(document.pop("prompts")):
                        taken.append(Asked(index, ids, client, **document))
                        self.batcher.put(taken[-1])
        finally:
            with self.sending:
                for asked in taken:
                    asked.is_over = True

    def _answer(self, batch: list[Asked]) -> None:
        """Answer the requests of one batch."""
        self.beat.allow(hang_limit_s(self.slowest_ns))
        waiting = [asked for asked in batch if not asked.is_over]
        generated = [asked for asked in waiting if asked.top is None]
        for asked in waiting:
            if asked.top is not None:
                self._score(asked, asked.top)
        if generated:
            self._generate(generated)
        self.beat.allow(_IDLE_LIMIT_S)

    def _generate(self, batch: list[Asked]) -> None:
        """Send the answers, token by token if the SUT streams."""
        prepared = self.sut.prepare(self._arrays(batch))
        if not hasattr(self.sut, "stream"):
            answers = self.sut.to_host(self.sut.predict(prepared))
            self._send_tokens(batch, answers["tokens"])
        else:
            self.sut.stream(prepared, lambda tokens: self._send_tokens(batch, tokens[:, None]))
        if not all(asked.is_over for asked in batch):
            raise ValueError("the SUT stopped before its answers had ended")

    def _send_tokens(self, batch: list[Asked], tokens: np.ndarray) -> bool:
        """Send further tokens [rows, tokens]. Return whether an answer has not ended."""
        self.beat.bump()
        for asked, row in zip(batch, tokens.tolist(), strict=False):
            if not asked.is_over:
                self._send(asked, *asked.cut(row))
        return not all(asked.is_over for asked in batch)

    def _arrays(self, batch: list[Asked]) -> Batch:
        """The prompts, padded to a bucket, and to a size of batches with copies of the last one."""
        size = next(size for size in self.job.batch_sizes if size >= len(batch))
        padded = [*batch, *([batch[-1]] * (size - len(batch)))]
        lengths = np.array([len(asked.ids) for asked in padded], np.int32)
        ids = np.zeros((size, self._width(int(lengths.max()))), np.int32)
        for row, asked in enumerate(padded):
            ids[row, : len(asked.ids)] = asked.ids
        new = np.array([asked.new for asked in padded], np.int32)
        return {"input_ids": ids, "prompt_length": lengths, "max_new_tokens": new}

    def _width(self, count: int) -> int:
        return padding.bucket(count, self.config["prompt_buckets"])

    def _score(self, asked: Asked, top: int) -> None:
        """Send the log probability of each token but the first, given those before it, and the
        `top` likeliest tokens of these positions and of the next one.
        """
        count = len(asked.ids)
        tokens = np.zeros((1, self._width(count)), np.int32)
        tokens[0, :count] = asked.ids
        with self.beat.within(LOAD_LIMIT_S):  # a program for logits has no warm-up
            logits = self.sut.logits(tokens)[0, :count]
        self.beat.bump()
        chosen = []
        likeliest = []
        for place, row in enumerate(logits, 1):  # all positions at once may be gigabytes
            # Logits [vocabulary] → the logarithms of the tokens' probabilities, float64.
            wide = row.astype(np.float64)
            wide -= wide.max()
            scores = wide - np.log(np.exp(wide).sum())
            ids = largest(scores, max(1, top))
            likeliest.append([ids.tolist(), scores[ids].tolist()])
            if place < count:
                chosen.append(float(scores[asked.ids[place]]))
        self._send(asked, {"chosen": chosen, "top": likeliest}, "length")

    def _send(self, asked: Asked, content: Any, end: str | None) -> None:
        line = json.dumps([asked.index, content, end], separators=(",", ":")) + "\n"
        with self.sending:
            if asked.client is not None and not asked.is_over:
                with suppress(OSError):  # it has just left
                    asked.client.sendall(line.encode())
            asked.is_over = asked.is_over or end is not None
