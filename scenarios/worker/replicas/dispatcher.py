"""One SUT in front of several replicas of it. A replica that is free gets the next batch, and
batches are reported in the order in which they are done.

Every request has a number, and a batch also the indices of its samples. An answer that belongs to
no request of its replica ends the test.
"""

from __future__ import annotations

import functools
import itertools
import secrets
import selectors
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty
from time import perf_counter_ns as _clock
from typing import Any

import numpy as np

from formats.figures import TOKEN_BYTES
from formats.job import PERFORMANCE, Job
from formats.outcome import Replica, Replicas, WorkerOutcome
from scenarios.worker import heartbeat
from scenarios.worker.failures import Reported
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Beat, Heartbeat
from scenarios.worker.queries.answers import Ids, Indices
from scenarios.worker.queries.streaming import Responder, TokenTimes
from scenarios.worker.replicas import gate, link, nodes
from scenarios.worker.replicas.gate import Gate
from scenarios.worker.replicas.library import Library, Rows
from scenarios.worker.replicas.link import Arrays, Header, Message
from scenarios.worker.replicas.placement import (
    CLUSTER_LOG,
    KILLED,
    LOG,
    Launched,
    Placement,
    Subprocesses,
    folder,
)
from scenarios.worker.replicas.turns import Turns
from scenarios.worker.system import host_memory
from sut.contract import Evidence

SHORT_S = 0.1
"""A batch that takes less is handed to a replica before the replica is free."""
_EARLIER_S = 10.0
"""A hang is reported so many seconds before the limit of this process's phase."""
_STILL_S = 60.0
"""A message of which no further byte comes for so long has lost its replica."""
_TICK_S = 0.25
_END_S = 2.0
_COMPARED = ("versions", "device")
"""The values of a loaded replica that all replicas must share, because they decide a figure."""
_OUT_OF_MEMORY = ("out of memory", "outofmemory")
"""The words of Slurm and Ray for a process that was killed for want of memory, in lower case."""
_CONNECT_S = LOAD_LIMIT_S - 60
"""A cluster may take so long to start the replicas."""

Submit = Callable[[Rows, Ids, Indices], None]
"""(batch, ids, indices of the samples): hand the batch to a free replica. It returns when there is
a free replica for the next batch.
"""


@dataclass
class _Batch:
    """A batch that a replica holds.

    Attributes:
        respond, times: those of the test or trial that submitted it.
        left: the places of the samples that are not answered.
    """

    respond: Responder
    times: TokenTimes
    ids: Ids
    indices: Indices
    begun_ns: int
    left: set[int]
    first_ns: int = 0


@dataclass
class _Request:
    """A request that a replica has not answered.

    Attributes:
        name: in words.
        batch: None: it is no batch.
        reply: the answer, if it is no batch.
    """

    name: str
    batch: _Batch | None = None
    reply: Message | None = None


@dataclass
class _Replica:
    """A connected replica.

    Attributes:
        node: the node on which a cluster started it; empty: no cluster did.
        cores: the logical processors of that node to which it is pinned.
        requests: number → a request that it has not answered.
        since_ns: when it got its first request or showed progress, whichever is later. Progress is
            a reply, and outside a batch also a change of its heartbeat.
        beat: its heartbeat when that was last read.
        samples, batches: the numbers that it answered in this test.
        last_ns: when it answered the last batch.
    """

    number: int
    connection: Connection
    node: str = ""
    cores: Sequence[int] = ()
    requests: dict[int, _Request] = field(default_factory=dict)
    since_ns: int = 0
    beat: Beat | None = None
    samples: int = 0
    batches: int = 0
    last_ns: int = 0

    @property
    def held(self) -> str:
        """The oldest request in words. Empty: it holds none."""
        return next((request.name for request in self.requests.values()), "")


class Replicated:
    """A SUT that runs as several replicas. The scenarios hand it batches of a `Library`.

    Attributes:
        in_flight: the batches that Offline keeps submitted, at all replicas together.
        loaded: what each replica reported when it had loaded the SUT: the fields of
            `scenarios.worker.__main__.Loaded`, `in_flight`, `versions` and `device`.
        slowest_ns: the time of the slowest batch so far.
        peak_host_bytes: the most memory that the replicas used, the sum over all.
    """

    def __init__(self, job: Job, beat: Heartbeat, placement: Placement | None = None):
        """Start the replicas and let each load the job's SUT and warm it up. Raises Reported.

        Args:
            beat: this process's progress, which includes that of its replicas.
        """
        self.count = len(job.places)
        self.peak_host_bytes = 0
        self.slowest_ns = 0.0
        self._job = job
        self._folders = [folder(job, number) for number in range(self.count)]
        self._beat = beat
        self._oom_kills = host_memory.kernel_oom_kills()
        self._placement = placement or (Launched(job) if job.launch else Subprocesses(job))
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._closed = False
        self._numbers = itertools.count(1)
        self._slots = 1
        # Each is counted by one thread: batches are submitted by one, and answers taken by another.
        self._sent_bytes = self._taken_bytes = 0
        self._submitting_ns = self._taking_ns = 0
        self._begun_ns = 0
        self._ended: list[Message] = []
        self._replicas: list[_Replica] = []
        try:
            self._connect()
            self._turns = Turns(self._replicas)
            threading.Thread(target=self._receive, name="replicas", daemon=True).start()
            self.loaded = [reply.header for reply in self.ask("load")]
            first = self.loaded[0]
            for number, other in enumerate(self.loaded):
                for name in _COMPARED:
                    self._check_same(number, name, other[name], first[name])
        except BaseException:
            self.close()
            raise
        self._each = int(self.loaded[0]["in_flight"])
        self.in_flight = self._each * self.count
        self.slowest_ns = max(loaded["slowest_ns"] for loaded in self.loaded)
        self._is_short = self.slowest_ns < SHORT_S * 1e9
        for replica in self._replicas:
            gate.limit_waiting(replica.connection, _STILL_S)

    def _connect(self) -> None:
        """Start the replicas and wait for their connections. Raises Reported if one ends before, or
        if a node differs from this machine.
        """
        launch = self._job.launch
        with closing(Gate(self.count, launch.interface if launch else gate.HOST)) as opened:
            self._placement.start(opened.address, opened.secret)
            here = nodes.facts(self._job) if launch else {}
            self._accept(opened, here)
        for replica in self._replicas:
            counts = (len(replica.cores), len(self._replicas[0].cores))
            self._check_same(replica.number, "processors to run on:", *counts)

    def _accept(self, opened: Gate, here: dict[str, str]) -> None:
        """Take the connection of each replica. `here`: what its node must share."""
        found: dict[int, _Replica] = {}
        end_s = time.monotonic() + _CONNECT_S
        while len(found) < self.count:
            try:
                connection = opened.arrived.get(timeout=_TICK_S)
                facts = link.receive(connection).header
            except (Empty, EOFError, OSError):
                self._check_started(found, end_s)
                continue
            replica = _Replica(facts["replica"], connection, facts.get("node", ""))
            replica.cores = facts.get("cores", self._job.places[replica.number].cores)
            found[replica.number] = replica
            self._replicas = [found[number] for number in sorted(found)]
            self._check_same(replica.number, "", facts.get("machine", {}), here, "this machine")

    def _check_started(self, connected: dict[int, _Replica], end_s: float) -> None:
        """Raises Reported if a replica ended before it connected, or did not connect in time."""
        missing = [number for number in range(self.count) if number not in connected]
        for number in missing:
            if how := self._placement.ended(number):
                raise self._fault(number, f"{how} before it connected")
        self._check_placement()
        if time.monotonic() > end_s:
            raise self._fault(missing[0], f"did not connect within {_CONNECT_S / 60:.0f} minutes")

    def _check_placement(self) -> None:
        """Raises Reported if no replica can go on."""
        if why := self._placement.failed():
            raise Reported(WorkerOutcome("error", why))

    def _check_same(
        self, number: int, name: str, other: Any, first: Any, who: str = "replica 0"
    ) -> None:
        """Raises Reported if a value of a replica is not that of the first one, or of `who`."""
        if other != first:
            raise self._fault(number, _difference(name, other, first, who))

    def close(self) -> None:
        """End all replicas."""
        self._closed = True
        for replica in self._replicas:
            replica.connection.close()
        self._placement.stop(_END_S)

    def library(self, path: Path, start: int = 0) -> Library:
        """The samples of a file, from row `start` on."""
        return Library(self.ask, next(self._numbers), path, start)

    def take(self, job: Job, beat: Heartbeat) -> None:
        """Tell the replicas which job they work for. `beat`: as in `__init__`."""
        self._job = job
        self._beat = beat
        self._oom_kills = host_memory.kernel_oom_kills()
        beat.allow(LOAD_LIMIT_S)
        self.ask("job", path=str(job.log_dir / "job.json"))

    def answering(self, respond: Responder, keys: Sequence[str], times: TokenTimes) -> Submit:
        """Return the function that submits a batch. A replica holds one batch at a time. Batches of
        an earlier trial are waited for first.

        Args:
            respond, times: as in `scenarios.worker.queries.streaming.answering`.
            keys: not used, because replicas send the bytes of answers.
        """
        self.drain()
        self._slots = 1
        self._turns.begin(1)
        return functools.partial(self._submit, respond, times)

    def pulling(self, respond: Responder, times: TokenTimes) -> Submit:
        """The same, but a replica holds as many batches as the SUT keeps in flight. If they are
        several, or shorter than SHORT_S, it holds twice as many. Then the next ones are there when
        `to_host` returns, and the SUT does not wait for a message. Long batches are not handed out
        before a replica is free, because another one may be free earlier at the end of a test.
        Streamed batches are not either, because the time to the first token would include the wait.
        """
        submit = self.answering(respond, (), times)
        self._turns.begin(self._each)
        is_ahead = (self._each > 1 or self._is_short) and not self._job.stream
        self._slots = (1 + is_ahead) * self._each
        return submit

    def drain(self) -> None:
        """Wait until every batch is answered. Raises the error of a replica."""
        with self._changed:
            while any(replica.requests for replica in self._replicas):
                self._raise()
                self._changed.wait()
            self._raise()

    def ask(
        self,
        do: str,
        arrays: Arrays | None = None,
        one: int | None = None,
        **values: Any,
    ) -> list[Message]:
        """Let all replicas do something (`do_…` of `scenarios.worker.replica.Replica`), and return
        their replies in the order of their numbers. Raises the error of a replica.

        Args:
            one: the only replica that does it.
            values: JSON values for the action.
        """
        asked = [self._replicas[one]] if one is not None else self._replicas
        requests = []
        for replica in asked:
            requests.append(_Request(f"the request {do!r}"))
            self._send(replica, requests[-1], {"do": do, **values}, arrays)
        with self._changed:
            while not all(request.reply for request in requests):
                self._raise()
                self._changed.wait()
        return [request.reply for request in requests if request.reply]

    def of_one(self, do: str, **values: Any) -> Header:
        """Let one replica do something, and return its reply. The replica is drawn at random, so
        that no replica knows that it is the one that is looked at.
        """
        (reply,) = self.ask(do, one=secrets.randbelow(self.count), **values)
        return reply.header

    def begin(self) -> None:
        """Take the evidence before a test, at every replica, and count from here on."""
        self.ask("begin")
        for replica in self._replicas:
            replica.samples = replica.batches = replica.last_ns = 0
        self._sent_bytes = self._taken_bytes = 0
        self._submitting_ns = self._taking_ns = 0
        self._begun_ns = 0

    def end(self, requests: Iterable[int] = ()) -> tuple[Evidence, Evidence]:
        """Take the evidence after a test (`evidence.Taker.end`). Return that of the first replica,
        from before and after the test. Raises Reported if a replica may have run on processors of
        others, or if the replicas ran in different precisions, or with different numbers of
        compiled graphs.
        """
        self._ended = self.ask("end", requests=list(requests))
        found = [[Evidence(**each) for each in reply.header["evidence"]] for reply in self._ended]
        before, after = found[0]
        # In later tests, one replica has also computed logits, which may compile another graph.
        names = ("precision", "graphs") if self._job.test == PERFORMANCE else ("precision",)
        for number, (_, other) in enumerate(found):
            self._check_cores(number)
            for name in names:
                self._check_same(number, name, getattr(other, name), getattr(after, name))
            self._check_same(number, "bytes of its shards", _of_shards(other), _of_shards(after))
        self.peak_host_bytes = sum(reply.header["peak_host_bytes"] for reply in self._ended)
        return before, after

    def _check_cores(self, number: int) -> None:
        """Raises Reported if a thread of a replica may run on processors that are not its own."""
        own = set(self._replicas[number].cores)
        others = set(self._ended[number].header["cores"]) - own
        if own and others:
            what = f"may run on processors {sorted(others)}, and its own are {sorted(own)}:"
            raise self._fault(number, f"{what} the SUT changed the affinity of a thread")

    def report(self) -> Replicas:
        """What the replicas did in the test that `end` ended."""
        batches = sum(replica.batches for replica in self._replicas)
        spent_ns = self._submitting_ns + self._taking_ns
        # A replica without a batch was idle from the beginning.
        ends_ns = [replica.last_ns or self._begun_ns for replica in self._replicas]
        test_ns = max(1, max(ends_ns) - self._begun_ns)
        bytes_of_test = self._sent_bytes + self._taken_bytes
        each = []
        for replica, (header, _, _) in zip(self._replicas, self._ended, strict=True):
            after = header["evidence"][1]
            of_replica = Replica(
                samples=replica.samples,
                batches=replica.batches,
                busy=min(1.0, header["busy_ns"] / test_ns),
                node=replica.node,
                cores=tuple(replica.cores),
                device=self.loaded[replica.number]["device"],
                precision=after["precision"],
                graphs=after["graphs"],
                peak_device_bytes=after["peak_device_bytes"],
                peak_host_bytes=header["peak_host_bytes"],
            )
            each.append(of_replica)
        return Replicas(
            inputs="resident",
            idle_tail_seconds=(max(ends_ns) - min(ends_ns)) / 1e9,
            bytes_per_second=bytes_of_test * 1e9 / test_ns,
            dispatcher_us_per_batch=spent_ns / 1e3 / max(1, batches),
            each=tuple(each),
        )

    def _submit(
        self,
        respond: Responder,
        times: TokenTimes,
        rows: Rows,
        ids: Ids,
        indices: Indices,
    ) -> None:
        replica = self._free()
        begun_ns = _clock()
        self._begun_ns = self._begun_ns or begun_ns
        batch = _Batch(
            respond=respond,
            times=times,
            ids=ids,
            indices=indices,
            begun_ns=begun_ns,
            left=set(range(len(ids))),
        )
        header = {"do": link.ANSWER, "library": rows.library, "size": rows.size}
        arrays = {"indices": np.asarray(rows.indices, np.int64)}
        self._send(replica, _Request("a batch", batch), header, arrays)
        self._submitting_ns += _clock() - begun_ns
        self._free()

    def _free(self) -> _Replica:
        """Wait for a replica that may get a batch. Raises the error of a replica."""
        with self._changed:
            while True:
                self._raise()
                replica = self._replicas[self._turns.next()]
                if len(replica.requests) < self._slots:
                    return replica
                self._changed.wait()

    def _send(
        self,
        replica: _Replica,
        request: _Request,
        header: Header,
        arrays: Arrays | None,
    ) -> None:
        number = next(self._numbers)
        with self._changed:
            self._raise()
            if not replica.requests:
                replica.since_ns = _clock()
            replica.requests[number] = request
            self._turns.note(replica)
        try:
            size = link.send(replica.connection, {"number": number, **header}, arrays)
        except OSError as e:
            self.fail(self._lost(replica, e))
            self._raise()
        if request.batch:
            self._sent_bytes += size

    def _receive(self) -> None:
        """Take the messages of all replicas, until `close` or an error."""
        selector = selectors.DefaultSelector()
        for replica in self._replicas:
            selector.register(replica.connection, selectors.EVENT_READ, replica)
        checked_s = time.monotonic()
        try:
            while not self._is_over:
                for key, _ in selector.select(_TICK_S):
                    if not self._is_over:
                        self._take(key.data)
                if time.monotonic() - checked_s > _TICK_S:
                    checked_s = time.monotonic()
                    self._check_placement()
                    self._check_time()
        # The error is passed on to the threads that wait for answers.
        except Exception as e:  # noqa: BLE001
            self.fail(e)

    @property
    def _is_over(self) -> bool:
        """Whether no answer may be reported any more. LoadGen is undefined after an error."""
        return self._closed or self._error is not None

    def _take(self, replica: _Replica) -> None:
        """Take a message of a replica. Raises Reported for one that it may not send, and for an
        error that it reports.
        """
        begun_ns = _clock()
        try:
            message = link.receive(replica.connection)
        except (EOFError, OSError) as e:
            raise self._lost(replica, e) from None
        header = message.header
        number = header.get("number", 0)
        request = replica.requests.get(number)
        if request is None:
            what = f"answered request {number}, which it does not hold"
            raise self._fault(replica.number, what)
        if "status" in header:
            reason = header["reason"]
            if header["status"] in ("error", "oom"):
                reason = f"{self._named(replica.number)}: {reason}"
            raise Reported(WorkerOutcome(header["status"], reason))
        is_last = True
        if request.batch is None:
            request.reply = message
        else:
            self._taken_bytes += message.size
            self.slowest_ns = max(self.slowest_ns, begun_ns - replica.since_ns)
            is_last = self._answered(replica, request.batch, message)
        with self._changed:
            replica.since_ns = _clock()
            if is_last:
                del replica.requests[number]
                self._changed.notify_all()
            self._turns.note(replica)
        if request.batch:
            self._taking_ns += _clock() - begun_ns

    def _answered(self, replica: _Replica, batch: _Batch, message: Message) -> bool:
        """Report the answers in a message. → whether the batch is complete."""
        header, arrays, _ = message
        if arrays["indices"].tolist() != list(batch.indices):
            raise self._fault(replica.number, "answered other samples than those of its batch")
        if "first" in arrays:
            batch.first_ns = _clock()
            batch.respond.first(batch.ids, arrays["first"])
            batch.times.first_ns.extend([batch.first_ns - batch.begun_ns] * len(batch.ids))
            return False
        places = header["places"]
        if not batch.left.issuperset(places):
            raise self._fault(replica.number, "answered a sample of its batch twice")
        end_ns = _clock()
        batch.left.difference_update(places)
        ids = [batch.ids[place] for place in places]
        indices = [batch.indices[place] for place in places]
        lengths = header["lengths"]
        batch.respond.complete(ids, (arrays["rows"], lengths), indices)
        replica.samples += len(ids)
        if batch.first_ns and lengths[0] > TOKEN_BYTES:
            later = lengths[0] // TOKEN_BYTES - 1
            batch.times.later_ns.extend([(end_ns - batch.first_ns) / later] * len(ids))
        if batch.left:
            return False
        batch.times.in_one_part += header["in_one_part"]
        replica.batches += 1
        replica.last_ns = end_ns
        return True

    def _check_time(self) -> None:
        """Raises Reported if a replica holds a request for too long without progress."""
        hang_s = (self._beat.limit_s or LOAD_LIMIT_S) - _EARLIER_S
        for replica in self._replicas:
            with self._changed:
                requests = list(replica.requests.values())
            if not requests:
                continue
            if not any(request.batch for request in requests):
                self._read_beat(replica)
            with self._changed:
                silent_s = (_clock() - replica.since_ns) / 1e9
            if silent_s > hang_s:
                what = f"hung: no answer within {hang_s:.1f} s while it held {requests[0].name}"
                raise self._fault(replica.number, what)

    def _read_beat(self, replica: _Replica) -> None:
        """Pass the progress of a replica on to the parent of this process."""
        beat = heartbeat.read(self._folders[replica.number] / "heartbeat")
        if beat == replica.beat:
            return
        replica.beat = beat
        with self._changed:
            replica.since_ns = _clock()
            self._turns.note(replica)
        self._beat.bump()

    def _lost(self, replica: _Replica, error: Exception) -> Reported:
        """The fault of a replica with whose connection there was an error."""
        held = f" while it held {replica.held}" if replica.held else ""
        if isinstance(error, BlockingIOError):
            return self._fault(replica.number, f"stopped in the middle of a message{held}")
        if isinstance(error, TimeoutError):
            return self._fault(replica.number, f"is not reachable any more{held}")
        how = self._placement.ended(replica.number, _END_S)
        why = self._placement.failed()
        if why and not how:
            return Reported(WorkerOutcome("error", why))
        how = how or "closed its connection"
        is_oom = how == KILLED and host_memory.kernel_oom_kills() > self._oom_kills
        if is_oom or any(words in how.lower() for words in _OUT_OF_MEMORY):
            named = self._named(replica.number)
            reason = (
                f"{named} was killed for want of memory{held}: choose a smaller --size or"
                " --batch-size, or fewer --replicas"
            )
            return Reported(WorkerOutcome("oom", reason))
        return self._fault(replica.number, how + held)

    def _fault(self, number: int, what: str) -> Reported:
        log = self._folders[number] / LOG
        if not log.exists():
            log = log.parent.parent / CLUSTER_LOG
        return Reported(WorkerOutcome("error", f"{self._named(number)} {what}; see {log}"))

    def _named(self, number: int) -> str:
        """A replica and its node, in words."""
        node = next((each.node for each in self._replicas if each.number == number), "")
        return f"replica {number} on {node}" if node else f"replica {number}"

    def fail(self, error: Exception) -> None:
        """Report no further answer, and raise this error in every thread that waits."""
        with self._changed:
            if not self._closed:
                self._error = self._error or error
            self._changed.notify_all()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def _difference(name: str, other: Any, first: Any, who: str) -> str:
    """How a value of a replica differs from that of `who`, in words."""
    if isinstance(first, dict):
        names = sorted(first.keys() | other.keys())
        name = next(each for each in names if first.get(each) != other.get(each))
        other = other.get(name, "none")
        first = first.get(name, "none")
    return f"has {name} {other}, and {who} has {first}: all must be equal"


def _of_shards(evidence: Evidence) -> list[int]:
    """The bytes of each shard, in ascending order, whatever the devices are called."""
    return sorted(size for _, size in evidence.shards)
