"""This program measures how many batches a second the dispatcher of replicas hands out, without
LoadGen and without a SUT. Another process plays all replicas, which answer at once.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m tests.scale.dispatcher_scale

`CPU` is the processor time of the dispatcher's process, `counted` what a result calls
`dispatcher_us_per_batch`. The last columns are arithmetic: how long a batch has to take for a
dispatcher with a processor of its own to feed 1,000 such replicas, and the bytes that it then sends
and takes.
"""

from __future__ import annotations

import argparse
import os
import selectors
import tempfile
import time
from dataclasses import asdict, replace
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import numpy as np

from formats.job import Job, Place
from formats.writing import write_json
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.queries.streaming import Responder
from scenarios.worker.replicas import link
from scenarios.worker.replicas.dispatcher import Replicated
from scenarios.worker.watch import Watch
from sut.contract import Evidence
from tests.support import mock_job

_COUNTS = (1, 2, 4, 8, 16, 64, 256, 1000)
_MANY = 1000
_EVIDENCE = asdict(Evidence(graphs=0, graph_breaks=None, precision="float32"))


class Played:
    """A placement of replicas that one other process plays.

    Attributes:
        row_bytes: the bytes of a sample's answer.
    """

    def __init__(self, count: int, row_bytes: int):
        self.count = count
        self.row_bytes = row_bytes

    def start(self, address: tuple[str, int], secret: bytes) -> None:
        """Start the other process, which ends when the dispatcher closes a connection."""
        if os.fork():
            return
        try:
            self._play(address, secret)
        finally:
            os._exit(0)

    def _play(self, address: tuple[str, int], secret: bytes) -> None:
        selector = selectors.DefaultSelector()
        for number in range(self.count):
            connection = Client(address, authkey=secret)
            link.send(connection, {"replica": number})
            selector.register(connection, selectors.EVENT_READ, connection)
        while True:
            for key, _ in selector.select():
                message = link.receive(key.data)
                header, arrays = self._answer(message)
                link.send(key.data, {"number": message.header["number"], **header}, arrays)

    def _answer(self, message: link.Message) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        do = message.header["do"]
        if do == link.ANSWER:
            indices = message.arrays["indices"]
            rows = np.zeros((len(indices), self.row_bytes), np.uint8)
            places = list(range(len(indices)))
            return {"places": places, "lengths": None, "in_one_part": 0}, {
                "rows": rows,
                "indices": indices,
            }
        replies: dict[str, dict[str, Any]] = {
            "load": {"versions": {}, "device": "", "slowest_ns": 1e6, "in_flight": 1},
            "open": {"count": mock_job.SAMPLES},
            "end": {"evidence": [_EVIDENCE] * 2, "busy_ns": 0, "peak_host_bytes": 0},
        }
        return replies.get(do, {}), {}

    def ended(self, number: int, seconds: float = 0) -> str:
        """Return nothing."""
        return ""

    def failed(self) -> str:
        """Return nothing."""
        return ""

    def stop(self, seconds: float = 0) -> None:
        """Wait for the end of the other process."""
        os.wait()


def main() -> None:
    """Print a line of a table for each number of replicas and each size of a batch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--row-bytes", type=int, default=180)
    flags = parser.parse_args()
    print(
        f"| replicas | batches/s | CPU, µs a batch | counted, µs a batch | bytes a batch |"
        f" ms of a batch for {_MANY:,} replicas | MB/s then |\n|---|---|---|---|---|---|---|"
    )
    for count in _COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            job = replace(mock_job.make(Path(folder), batch=flags.batch), places=(Place(),) * count)
            write_json(job.log_dir / "job.json", job)
            print(_row(job, count, flags.seconds, flags.row_bytes), flush=True)


def _row(job: Job, count: int, seconds: float, row_bytes: int) -> str:
    beat = Heartbeat(job.log_dir / "heartbeat")
    beat.enter("test", 600)
    sut = Replicated(job, beat, Played(count, row_bytes))  # type: ignore[arg-type]
    library = sut.library(job.inputs)
    respond = Responder(lambda ids, payload, indices: None, lambda ids, tokens: None)
    submit = sut.pulling(respond, Watch())
    size = job.workload.batch_size
    ids = list(range(size))
    rows = library.batch(ids, size)
    sut.begin()
    start_s, cpu_s, batches = time.monotonic(), time.process_time(), 0
    while time.monotonic() < start_s + seconds:
        submit(rows, ids, ids)
        batches += 1
    sut.drain()
    wall_us = (time.monotonic() - start_s) / batches * 1e6
    cpu_us = (time.process_time() - cpu_s) / batches * 1e6
    sut.end()
    report = sut.report()
    sut.close()
    per_batch = report.bytes_per_second * wall_us / 1e6
    return (
        f"| {count} | {1e6 / wall_us:,.0f} | {cpu_us:.0f} |"
        f" {report.dispatcher_us_per_batch:.0f} | {per_batch:,.0f} |"
        f" {_MANY * cpu_us / 1e3:.0f} | {per_batch / cpu_us:.1f} |"
    )


if __name__ == "__main__":
    main()
