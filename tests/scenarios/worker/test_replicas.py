"""Replicas of the mock: what the dispatcher reports, and how it ends at every fault. The replicas
of most tests are threads that speak to the dispatcher over real connections.
"""

import ast
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

from formats.job import Launch, Place, Serving
from formats.writing import write_json
from harness.execution import process
from harness.execution.process import Worker
from results import notes
from scenarios import offline, server
from scenarios.worker import __main__ as worker_program
from scenarios.worker import procedures
from scenarios.worker.failures import Reported
from scenarios.worker.heartbeat import Heartbeat, read
from scenarios.worker.queries import batching
from scenarios.worker.queries.streaming import Responder
from scenarios.worker.replica import Replica
from scenarios.worker.replicas import dispatcher, gate, link
from scenarios.worker.replicas.dispatcher import Replicated
from scenarios.worker.replicas.placement import Launched
from scenarios.worker.system import cores, host_memory
from scenarios.worker.watch import Watch
from tests.support import mock_job
from tests.support.faulty_replicas import (
    Dies,
    Hangs,
    HangsOutside,
    Killed,
    LoadsSlowly,
    OtherGraphs,
    OtherPrecision,
    OtherRequest,
    OtherSamples,
    OtherVersion,
    OtherWeights,
    OutsideOfItsCores,
    Raises,
    Slow,
    Stops,
    Twice,
)
from tests.support.processes import assert_all_end_with_the_worker, both_tests, gone, of_job, run

SAMPLES = mock_job.SAMPLES


@pytest.fixture(autouse=True)
def _headers_of_arrays_are_read_one_by_one(monkeypatch):
    """Real replicas are processes. As threads they may read files at the same time, and Python
    3.11's `ast.literal_eval`, which reads the header of an array, then fails at times.
    """
    evaluate, lock = ast.literal_eval, threading.Lock()

    def one_by_one(text):
        with lock:
            return evaluate(text)

    monkeypatch.setattr(ast, "literal_eval", one_by_one)


class Kept(Replica):
    """Can be looked into."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        Kept.last = self


class Threads:
    """A placement whose replicas are threads. The last one may be of another kind."""

    def __init__(self, job, last=Replica):
        self.job = job
        self.kinds = [Replica] * (len(job.places) - 1) + [last]

    def start(self, address, secret):
        for number in range(len(self.job.places)):
            arguments = (number, address, secret)
            threading.Thread(target=self._run, args=arguments, daemon=True).start()

    def _run(self, number, address, secret):
        connection = Client(address, authkey=secret)
        link.send(connection, {"replica": number})
        try:
            self.kinds[number](connection, number, self.job).run()
        except (EOFError, OSError):
            return

    def ended(self, number, seconds=0):
        return ""

    def failed(self):
        return ""

    def stop(self, seconds=0):
        pass


def job_of(tmp_path, count=2, scenario="Offline", **options):
    options = {"latency_ms": 1.0, **options}
    job = mock_job.make(tmp_path, scenario=scenario, batch=4, **options)
    job = replace(job, places=(Place(),) * count)
    write_json(job.log_dir / "job.json", job)
    return job


def server_job(tmp_path, latency_ms, sizes):
    serving = Serving(max_wait_ms=0, percentile=90, max_latency_ms=100.0)
    job = job_of(tmp_path, scenario="Server", latency_ms=latency_ms)
    return mock_job.changed(job, serving, batch_sizes=sizes)


def on_cluster(job, last=Replica):
    """The job on a played cluster, which gives each replica a node. `last`: the last replica."""
    count = str(len(job.places))
    command = (sys.executable, "-P", "-m", "tests.support.played_cluster", last.__name__, count)
    job = replace(job, launch=Launch(command=command, interface="127.0.0.1", pinned=False))
    write_json(job.log_dir / "job.json", job)
    return job


def started(job, last=Replica, limit_s=1800):
    """Replicas of a job: of a cluster if the job has one, and else threads."""
    beat = Heartbeat(job.log_dir / "heartbeat")
    beat.enter("load", limit_s)
    return Replicated(job, beat, None if job.launch else Threads(job, last))


def taken(sut, job):
    """Let the replicas work for the job."""
    sut.take(job, Heartbeat(job.log_dir / "heartbeat"))


def loaded(sut, job):
    """The library of the inputs, all of them loaded."""
    library = sut.library(job.inputs)
    library.load(range(SAMPLES))
    return library


class Answers:
    """Keeps what is reported to LoadGen."""

    def __init__(self):
        self.payloads = {}
        self.first = []
        self.respond = Responder(self._complete, lambda ids, tokens: self.first.extend(ids))

    def _complete(self, ids, payload, indices):
        rows, lengths = payload
        for place, number in enumerate(ids):
            assert number not in self.payloads
            content = rows[place].tobytes()
            self.payloads[number] = content if lengths is None else content[: lengths[place]]


def offline_run(job, sut, count=48):
    """Issue `count` samples in one query. → their answers."""
    answers = Answers()
    library = loaded(sut, job)
    issue, _ = offline.callbacks(sut, library, answers.respond, job, Watch())
    issue(list(range(100, 100 + count)), [n % SAMPLES for n in range(count)])
    library.unload(range(SAMPLES))
    return answers


def opened(job, sut, scenario=server):
    """(issue, flush, answers, watch) of a test of all inputs."""
    answers, watch = Answers(), Watch()
    issue, flush = scenario.callbacks(sut, loaded(sut, job), answers.respond, job, watch)
    return issue, flush, answers, watch


def logits(samples):
    """The mock's answers to the inputs, in order."""
    arrays = mock_job.arrays("predict", SAMPLES, 0)
    positions = np.arange(1, mock_job.WIDTH + 1)
    state = (arrays["input_ids"].astype(np.int64) * positions).sum(1)
    rows = np.stack([np.sin(state), np.cos(state)], 1).astype(np.float32)
    return {100 + n: rows[n % SAMPLES].tobytes() for n in range(samples)}


def test_each_sample_is_answered_once_and_by_its_own_answer(tmp_path):
    job = job_of(tmp_path, count=3)
    sut = started(job)
    assert sut.in_flight == 3 * 2
    taken(sut, job)
    sut.begin()
    answers = offline_run(job, sut)
    before, after = sut.end()
    report = sut.report()
    not_full = offline_run(job, sut, count=7)
    sut.close()
    assert answers.payloads == logits(48)
    assert not_full.payloads == logits(7)
    assert before.precision == after.precision == "float32"
    assert sum(each.samples for each in report.each) == 48
    assert all(each.batches >= 2 for each in report.each)
    assert all(0 < each.busy < 1 for each in report.each)
    assert report.bytes_per_second > 48 * 8
    assert report.dispatcher_us_per_batch > 0


def test_requests_over_time_are_answered_by_all_replicas(tmp_path):
    job = server_job(tmp_path, latency_ms=5.0, sizes=(1, 2, 4))
    sut = started(job)
    taken(sut, job)
    sut.begin()
    issue, flush, answers, watch = opened(job, sut)

    def requests():
        for number in range(24):
            issue([100 + number], [number % SAMPLES])
            time.sleep(0.002)
        flush()

    batching.answer_while(watch.queue, requests)
    sut.end()
    each = sut.report().each
    sut.close()
    assert answers.payloads == logits(24)
    assert min(one.samples for one in each) >= 4
    assert watch.limited.answered == 24


def test_late_answers_of_a_trial_belong_to_that_trial(tmp_path):
    job = server_job(tmp_path, latency_ms=60.0, sizes=(1, 2, 4))
    sut = started(job)
    library = loaded(sut, job)
    trials = []
    for start in (100, 100):
        answers, watch = Answers(), Watch()
        issue, _ = server.callbacks(sut, library, answers.respond, job, watch)

        def requests(issue=issue, start=start):
            for number in range(2):
                issue([start + number], [number])
                time.sleep(0.01)

        batching.answer_while(watch.queue, requests)
        trials.append((answers, watch))
    sut.drain()
    sut.close()
    for answers, watch in trials:
        assert answers.payloads == logits(2)
        assert watch.limited.answered == 2


def test_only_the_time_between_the_first_batch_and_the_last_answer_counts(tmp_path):
    job = job_of(tmp_path, latency_ms=20.0)
    sut = started(job)
    sut.begin()
    time.sleep(1)
    offline_run(job, sut, count=32)
    time.sleep(1)
    sut.end()
    report = sut.report()
    assert min(each.busy for each in report.each) > 0.25
    sut.begin()
    offline_run(job, sut, count=4)
    sut.end()
    shares = sorted(each.busy for each in sut.report().each)
    assert shares[0] == 0
    assert shares[1] > 0.25
    assert 0.015 < sut.report().idle_tail_seconds < 0.5
    sut.close()


def test_the_time_to_the_first_token_has_no_wait_behind_another_batch(tmp_path):
    job = mock_job.changed(job_of(tmp_path, task="generate", latency_ms=200.0), stream=True)
    write_json(job.log_dir / "job.json", job)
    sut = started(job)
    issue, _, _, watch = opened(job, sut, offline)
    issue(list(range(SAMPLES)), list(range(SAMPLES)))
    sut.close()
    assert len(watch.first_ns) == SAMPLES
    assert max(watch.first_ns) < 175e6


@pytest.mark.parametrize("wrong", [{}, {"wrong": "at-once"}])
def test_streamed_answers_have_their_first_tokens(tmp_path, wrong):
    job = mock_job.changed(job_of(tmp_path, task="generate", latency_ms=40.0, **wrong), stream=True)
    job = replace(job, places=(Place(),) * 2)
    write_json(job.log_dir / "job.json", job)
    sut = started(job)
    issue, _, answers, watch = opened(job, sut, offline)
    issue(list(range(100, 100 + SAMPLES)), list(range(SAMPLES)))
    sut.close()
    requested = mock_job.arrays("generate", SAMPLES, 0)["max_new_tokens"]
    lengths = [len(answers.payloads[100 + n]) for n in range(SAMPLES)]
    assert lengths == (4 * requested).tolist()
    assert sorted(answers.first) == list(range(100, 100 + SAMPLES))
    assert len(watch.first_ns) == SAMPLES
    assert len(watch.later_ns) == (requested > 1).sum()
    assert (watch.share_in_one_part > 0.5) == bool(wrong)


FAULTS = [
    (Twice, "answered request .*, which it does not hold", "error"),
    (OtherSamples, "answered other samples than those of its batch", "error"),
    (OtherRequest, "answered request .*, which it does not hold", "error"),
    (Dies, "closed its connection while it held a batch", "error"),
    (Hangs, r"hung: no answer within \d+.\d s while it held a batch", "error"),
    (Stops, "stopped in the middle of a message while it held a batch", "error"),
    (Raises, "MemoryError: no room", "oom"),
]


@pytest.mark.parametrize(("kind", "words", "status"), FAULTS)
def test_a_fault_ends_the_test_with_its_reason(kind, words, status, tmp_path, monkeypatch):
    monkeypatch.setattr(dispatcher, "_STILL_S", 2.0)
    ends_with(job_of(tmp_path), kind, f"replica 1:? {words}", status)


@pytest.mark.parametrize(
    ("kind", "words", "status"),
    [*FAULTS, (Killed, r"ended \(SIGKILL\) while it held a batch", "error")],
)
def test_a_fault_on_a_node_ends_the_test_and_all_replicas(
    kind, words, status, tmp_path, monkeypatch
):
    monkeypatch.setattr(dispatcher, "_STILL_S", 2.0)
    job = on_cluster(job_of(tmp_path), kind)
    ends_with(job, kind, f"replica 1 on n2:? {words}", status)
    assert gone(job.log_dir)


def ends_with(job, kind, words, status):
    """Check that a test ends with a reason."""
    sut = started(job, kind)
    sut._beat.allow(12)  # a hang is reported ten seconds earlier
    with pytest.raises(Reported, match=words) as found:
        offline_run(job, sut)
        sut.end()
    sut.close()
    assert found.value.outcome.status == status


def test_a_hang_outside_a_batch_names_the_replica(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatcher, "_EARLIER_S", 0.7)
    job = job_of(tmp_path)
    sut = started(job, HangsOutside)
    sut._beat.allow(1)
    with pytest.raises(Reported, match="replica 1 hung: no answer within 0.3 s .* 'begin'; see"):
        sut.begin()
    sut.close()


def test_progress_of_a_replica_is_progress_of_the_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatcher, "_EARLIER_S", 0.5)
    monkeypatch.setattr(dispatcher, "_TICK_S", 0.05)
    job = job_of(tmp_path)
    sut = started(job, LoadsSlowly, limit_s=1)
    sut.close()
    assert read(job.log_dir / "heartbeat").completed > 4


def test_nothing_is_reported_after_an_overload(tmp_path, monkeypatch):
    job = server_job(tmp_path, latency_ms=60.0, sizes=(4,))
    monkeypatch.setattr(server, "policy", lambda job: batching.Policy(sizes=(4,), most_waiting=4))
    sut = started(job)
    issue, _, answers, watch = opened(job, sut)

    def requests():
        for number in range(SAMPLES):
            issue([100 + number], [number])
            time.sleep(0.001)

    with pytest.raises(batching.Overload):
        batching.answer_while(watch.queue, requests)
    time.sleep(0.15)
    sut.close()
    assert not answers.payloads


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OtherVersion, "has numpy 0.1, and replica 0 has [1-9]"),
        (OtherWeights, r"has weights /weights \(sha256 other\), and this machine has "),
    ],
)
def test_a_node_with_other_files_is_refused_by_name(kind, words, tmp_path):
    job = on_cluster(job_of(tmp_path), kind)
    with pytest.raises(Reported, match=f"replica 1 on n2 {words}"):
        started(job)
    assert gone(job.log_dir)


def test_an_answer_says_the_node_of_each_replica_and_no_command_line_has_the_secret(tmp_path):
    job = on_cluster(job_of(tmp_path))
    sut = started(job)
    taken(sut, job)
    sut.begin()
    answers = offline_run(job, sut)
    environments = [environment_of(process) for process in of_job(job.log_dir)]
    (secret,) = {each.get(gate.SECRET.encode()) for each in environments} - {None}
    words = [Path(f"/proc/{process}/cmdline").read_bytes() for process in of_job(job.log_dir)]
    sut.end()
    sut.close()
    assert answers.payloads == logits(48)
    assert [each.node for each in sut.report().each] == ["n1", "n2"]
    assert len(words) == 5 and not any(secret in each for each in words)
    assert gone(job.log_dir)


def test_without_the_program_of_the_cluster_the_test_ends_and_all_replicas(tmp_path):
    job = on_cluster(job_of(tmp_path, latency_ms=50.0))
    sut = started(job)
    threading.Timer(0.3, sut._placement._process.kill).start()
    with pytest.raises(Reported, match="does not run the replicas any more|ended|closed"):
        offline_run(job, sut, count=4000)
    sut.close()
    assert gone(job.log_dir)


def test_a_program_of_a_cluster_that_ended_has_its_words_on_a_replica_and_not_later_ones(tmp_path):
    script = "echo 'srun: error: n2: task 1: Killed'; echo 'raylet: terminated'; exit 1"
    job = on_cluster(job_of(tmp_path))
    job = replace(job, launch=replace(job.launch, command=("sh", "-c", script)))
    launched = Launched(job)
    launched.start(("127.0.0.1", 1), b"secret")
    launched._process.wait()
    assert "any more: task 1: Killed; see " in launched.failed()


def test_a_replica_that_hangs_ends_with_the_link(tmp_path):
    job = on_cluster(job_of(tmp_path), Hangs)
    sut = started(job)
    library = loaded(sut, job)
    submit = sut.answering(Answers().respond, (), Watch())
    for number in range(2):  # the second one goes to the second replica
        submit(library.batch([number], 4), [number], [number])
    for replica in sut._replicas:
        replica.connection.close()
    assert gone(job.log_dir, 5)
    sut.close()


def test_a_node_that_does_not_reach_the_interface_says_which_flag_helps(tmp_path, monkeypatch):
    job = on_cluster(job_of(tmp_path))

    class Elsewhere(gate.Gate):
        def __init__(self, count, host):
            super().__init__(count, host)
            self.close()

    monkeypatch.setattr(dispatcher, "Gate", Elsewhere)
    with pytest.raises(Reported, match="n[12]: cannot reach 127.0.0.1 port .* give --interface"):
        started(job)
    assert gone(job.log_dir)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OtherPrecision, "replica 1 has precision float16, and replica 0 has float"),
        (OtherGraphs, "replica 1 has graphs 3, and replica 0 has 0"),
        (OutsideOfItsCores, r"replica 1 may run on processors \[4095\], and its own are"),
    ],
)
def test_replicas_with_different_evidence_or_processors_of_others_are_refused(
    kind, words, tmp_path
):
    job = job_of(tmp_path)
    everywhere = Place(cores=tuple(cores.of_process()))
    sut = started(replace(job, places=(everywhere,) * 2), kind)
    sut.begin()
    with pytest.raises(Reported, match=words):
        sut.end()
    sut.close()


@pytest.mark.parametrize("last", [Replica, Slow])
def test_a_replica_that_is_far_slower_than_another_is_reported(tmp_path, last):
    job = job_of(tmp_path, latency_ms=20.0)
    sut = started(job, last)
    sut.begin()
    offline_run(job, sut)
    sut.end()
    report = sut.report()
    sut.close()
    words = [line.partition(" times")[0].rpartition(" ")[0] for line in notes.uneven(report)]
    assert words == ["replica 1 worked"] * (last is Slow)
    first, second = report.each
    report = replace(report, each=(first, replace(second, samples=0)))
    assert list(notes.uneven(report)) == ["replica 1 answered no sample of the performance test"]


def test_the_processors_of_a_process_are_those_of_all_its_threads_and_children():
    program = """
import os, subprocess, threading
from scenarios.worker.system import cores
everywhere = os.sched_getaffinity(0)
os.sched_setaffinity(0, [min(everywhere)])
assert cores.of_process() == {min(everywhere)}
child = subprocess.Popen(["sleep", "9"])
os.sched_setaffinity(child.pid, everywhere)
assert cores.of_process() == everywhere
child.kill()
child.wait()
assert cores.of_process() == {min(everywhere)}
def elsewhere():
    os.sched_setaffinity(0, everywhere)
    assert cores.of_process() == everywhere
    done.append(True)
done = []
threading.Thread(target=elsewhere).start()
while not done and threading.active_count() > 1: pass
assert done
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_replica_that_the_kernel_killed_for_want_of_memory_is_oom(tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory, "kernel_oom_kills", itertools.count().__next__)
    job = job_of(tmp_path)
    sut = started(job, Dies)
    monkeypatch.setattr(sut._placement, "ended", lambda *_: "was killed by signal SIGKILL")
    with pytest.raises(
        Reported, match="replica 1 was killed for want of memory .* batch: "
    ) as found:
        offline_run(job, sut)
    sut.close()
    assert found.value.outcome.status == "oom"


def test_a_replica_frees_the_samples_of_the_calibration_and_of_earlier_tests(tmp_path):
    job = job_of(tmp_path)
    sut = started(job, Kept)
    beat = Heartbeat(job.log_dir / "heartbeat")
    procedures.calibrate(job, sut, offline, beat, 1e6)
    assert not Kept.last.libraries
    sut.library(job.inputs)
    assert Kept.last.libraries
    taken(sut, job)
    assert not Kept.last.libraries
    sut.close()


def test_replicas_are_closed_if_the_first_job_fails(tmp_path, monkeypatch):
    job = job_of(tmp_path)
    sut = started(job)
    loaded = worker_program.Loaded(job.test, sut, 1.0, {})
    monkeypatch.setattr(worker_program, "_replicated", lambda job, beat: loaded)
    monkeypatch.setitem(procedures.PROCEDURES, "loadgen", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        worker_program.measure(job, Heartbeat(job.log_dir / "heartbeat"))
    assert all(replica.connection.closed for replica in sut._replicas)


def test_a_connection_without_the_secret_is_closed(monkeypatch):
    opened = gate.Gate(1)
    monkeypatch.setenv(gate.SECRET, "00" * 32)
    with pytest.raises(AuthenticationError):
        gate.dial(opened.address)
    assert opened.arrived.empty()
    monkeypatch.setenv(gate.SECRET, opened.secret.hex())
    connection = gate.dial(opened.address)
    assert gate.SECRET not in os.environ
    arrays = {"rows": np.arange(6, dtype=np.float16).reshape(2, 3), "mask": np.array([True])}
    link.send(connection, {"a": [1]}, arrays)
    message = link.receive(opened.arrived.get(timeout=5))
    assert message.header == {"a": [1]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(message.arrays[name], array)
        assert message.arrays[name].dtype == array.dtype
    connection.close()
    opened.close()


def test_a_connection_that_says_nothing_keeps_no_replica_out(monkeypatch):
    monkeypatch.setattr(gate, "_PROOF_S", 0.1)
    opened = gate.Gate(1)
    with socket.create_connection(opened.address):
        monkeypatch.setenv(gate.SECRET, opened.secret.hex())
        connection = gate.dial(opened.address)
        link.send(connection, {"replica": 0})
        assert link.receive(opened.arrived.get(timeout=2)).header == {"replica": 0}
    connection.close()
    opened.close()


def environment_of(process):
    """The environment with which a process was started."""
    pairs = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return dict(pair.split(b"=", 1) for pair in pairs if pair)


def test_processes_answer_the_timed_and_the_judged_test(tmp_path):
    job = job_of(tmp_path, milliseconds=200)
    timed, judged = both_tests(job)
    assert timed.plan.batches % 4 == 0
    each = timed.replicas.each
    assert sum(one.samples for one in each) == timed.answered["samples"]
    assert sum(one.samples for one in judged.replicas.each) == SAMPLES
    assert judged.loaded_for == "performance"
    assert gone(job.log_dir)


def test_a_killed_replica_ends_the_test_and_leaves_no_process(tmp_path):
    job = job_of(tmp_path, milliseconds=200, kill_at=40)
    with Worker(Path(sys.executable), {}) as worker:
        outcome = run(worker, job)
    assert outcome.status == "error"
    assert "was killed by signal SIGKILL while it held a batch" in outcome.reason
    assert gone(job.log_dir)


def test_replicas_end_with_the_process_that_drives_them(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_LOOK_S", 0.05)
    assert_all_end_with_the_worker(job_of(tmp_path, milliseconds=30_000, latency_ms=5.0))
