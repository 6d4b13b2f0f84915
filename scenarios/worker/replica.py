"""`python -m scenarios.worker.replica PARENT_ID HOST PORT NUMBER JOB`, run by the SUT's
interpreter: one replica. It connects to the LoadGen process, loads and warms up the job's SUT as a
worker does, and answers requests until the connection is closed. If HOST is INHERITED, PORT is the
file descriptor of a connection, and the replica may be on another node.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter_ns as _clock
from typing import Any

import numpy as np

from formats.job import Job, read_job
from scenarios.worker import __main__ as worker
from scenarios.worker import failures, procedures
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.queries.answers import Payload, pack
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Responder, Streamed, answering
from scenarios.worker.replicas import gate, link, nodes
from scenarios.worker.replicas.link import ANSWER, Arrays, Header, Message
from scenarios.worker.replicas.placement import INHERITED, folder, node
from scenarios.worker.system import cores, counters, host_memory
from scenarios.worker.watch import Watch
from scenarios.worker.watching import evidence, fresh_inputs
from sut.evidence import generated_files


def main(argv: list[str]) -> None:
    """Serve and end the process. `argv`: see the module."""
    _, parent, host, port, number, path = argv
    worker.die_with_parent(int(parent))
    connection = Connection(int(port)) if host == INHERITED else gate.dial((host, int(port)))
    serve(connection, int(number), read_job(Path(path)))
    generated_files.remove()
    # Frameworks' threads may never end.
    os._exit(0)


def serve(connection: Connection, number: int, job: Job) -> None:
    """Say which replica this is, and of a cluster what its LoadGen process must know. Then do what
    is requested until the connection is closed.
    """
    facts: Header = {"replica": number}
    if job.launch:
        processors = sorted(os.sched_getaffinity(0))
        facts |= {"node": node(), "cores": processors, "machine": nodes.facts(job)}
    link.send(connection, facts)
    replica = Replica(connection, number, job)
    try:
        replica.run()
    except (EOFError, OSError):
        return


class Replica:
    """The state of a replica. A method `do_NAME` is what it does at the request NAME. ANSWER is the
    only other request.

    Attributes:
        busy_ns: nanoseconds since the last `begin` in which it held a batch.
    """

    def __init__(self, connection: Connection, number: int, job: Job):
        self.connection = connection
        self.job = job
        directory = folder(job, number)
        directory.mkdir(exist_ok=True)
        self.beat = Heartbeat(directory / "heartbeat")
        self.sut: Any = None
        self.libraries: dict[int, Qsl] = {}
        self.evidence: evidence.Taker | None = None
        self.busy_ns = 0
        self._pending: deque[tuple[Message, int, Any]] = deque()

    def run(self) -> None:
        """Do what is requested. Raises EOFError or OSError when the connection is closed."""
        while True:
            message = link.receive(self.connection)
            begun_ns = _clock()
            self._take(message)
            while self._pending:
                may_begin_another = len(self._pending) < self.sut.in_flight
                if may_begin_another and self.connection.poll():
                    self._take(link.receive(self.connection))
                else:
                    self._guarded(self._pending[0][0], self._finish)
            if message.header["do"] == ANSWER:
                self.busy_ns += _clock() - begun_ns

    def _take(self, message: Message) -> None:
        do = message.header["do"]
        if do == ANSWER:
            self._guarded(message, lambda: self._answer(message))
            return
        while self._pending:
            self._guarded(self._pending[0][0], self._finish)
        self._guarded(message, lambda: self._reply(message, getattr(self, f"do_{do}")(message)))

    def _guarded(self, message: Message, call: Callable[[], None]) -> None:
        """Report an error instead of an answer. The LoadGen process then ends the test."""
        try:
            call()
        except (EOFError, ConnectionError):
            raise
        # Whatever a framework raises becomes a status. The traceback stays in worker.log.
        except Exception as e:  # noqa: BLE001
            traceback.print_exc()
            outcome = failures.outcome_of(e, self.job.sut, self.job.workload.device)
            self._pending.clear()
            self._reply(message, {"status": outcome.status, "reason": outcome.reason})

    def _reply(self, message: Message, reply: Header, arrays: Arrays | None = None) -> None:
        link.send(self.connection, {"number": message.header["number"], **reply}, arrays)

    def _answer(self, message: Message) -> None:
        header = message.header
        indices = message.arrays["indices"]
        batch = self.libraries[header["library"]].batch(indices.tolist(), header["size"])
        if isinstance(self.sut, Streamed):
            watch = Watch()
            respond = Responder(self._completing(message, watch), self._first(message))
            answer = answering(self.sut, respond, self.job.answer, watch)
            places = range(len(indices))
            answer(batch, places, places)
            return
        self._pending.append((message, len(indices), self.sut.predict(batch)))

    def _finish(self) -> None:
        """Send the answers of the oldest pending batch."""
        message, count, outputs = self._pending[0]
        payload = pack(self.sut.to_host(outputs), self.job.answer)
        self._pending.popleft()
        self._completing(message, Watch())(range(count), payload, range(count))

    def _completing(self, message: Message, watch: Watch) -> Callable[..., None]:
        """The function that sends answers, by the places of their samples in the batch, and how
        many of the batch came in one part so far.
        """

        def complete(places: Sequence[int], payload: Payload, _: Sequence[int]) -> None:
            rows, lengths = payload
            count = len(places)
            of_bytes = np.ascontiguousarray(rows[:count]).reshape(count, -1).view(np.uint8)
            reply: Header = {
                "places": list(places),
                "lengths": lengths and list(lengths[:count]),
                "in_one_part": watch.in_one_part,
            }
            self._reply(message, reply, {"rows": of_bytes, **message.arrays})

        return complete

    def _first(self, message: Message) -> Callable[..., None]:
        def first(_: Sequence[int], tokens: np.ndarray) -> None:
            self._reply(message, {}, {"first": tokens, **message.arrays})

        return first

    def do_load(self, message: Message) -> Header:
        """Load the SUT and warm it up."""
        loaded = worker.load_and_warm_up(self.job, self.beat)
        self.sut = loaded.sut
        return {
            "fields": loaded.fields,
            "slowest_ns": loaded.slowest_ns,
            "in_flight": loaded.sut.in_flight,
            "versions": worker.versions(),
            "device": counters.device_name(self.job.workload.device),
        }

    def do_job(self, message: Message) -> Header:
        """Work for another job, without the samples of earlier ones."""
        self.libraries.clear()
        self.job = read_job(Path(message.header["path"]))
        return {}

    def do_open(self, message: Message) -> Header:
        """Read the samples of a file."""
        header = message.header
        qsl = Qsl(Path(header["path"]), self.sut.prepare, header["start"])
        self.libraries[header["library"]] = qsl
        return {"count": qsl.count}

    def do_rows(self, message: Message) -> Header:
        """Prepare samples."""
        self.libraries[message.header["library"]].load(message.arrays["indices"].tolist())
        return {}

    def do_drop(self, message: Message) -> Header:
        """Drop samples."""
        qsl = self.libraries[message.header["library"]]
        qsl.unload(message.arrays["indices"].tolist())
        return {"changed": qsl.changed}

    def do_close(self, message: Message) -> Header:
        """Free the samples of a file."""
        del self.libraries[message.header["library"]]
        return {}

    def do_begin(self, message: Message) -> Header:
        """Take the evidence before a test."""
        self.evidence = evidence.taker(self.job, self.sut, self.beat, LOAD_LIMIT_S)
        self.evidence.begin()
        self.busy_ns = 0
        return {}

    def do_end(self, message: Message) -> Header:
        """Take the evidence after a test."""
        busy_ns = self.busy_ns
        assert self.evidence
        both = self.evidence.end(message.header["requests"])
        return {
            "busy_ns": busy_ns,
            "evidence": [dataclasses.asdict(each) for each in both],
            "cores": sorted(cores.of_process()),
            "peak_host_bytes": host_memory.peak_bytes() + worker.bytes_of_others(self.sut),
        }

    def do_fresh(self, message: Message) -> Header:
        """Compare fresh inputs with those of the data set."""
        known = Qsl(self.job.inputs, self.sut.prepare)
        requests = message.header["requests"]
        compared = fresh_inputs.compare(
            self.job, self.sut, known, self.beat, LOAD_LIMIT_S, requests
        )
        return {"fresh": dataclasses.asdict(compared)}

    def do_logits(self, message: Message) -> Header:
        """Write the logits of some answers into the job's folder."""
        procedures.write_logits(self.job, self.sut, self.beat)
        return {}


if __name__ == "__main__":
    main(sys.argv)
