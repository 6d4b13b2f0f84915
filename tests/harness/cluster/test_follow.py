"""A sweep on a cluster from the command line. The cluster is played in this process: a job is the
plain command, which measures the mock.
"""

import contextlib
import io
import json
import signal

import pytest

from harness import cli
from harness.cluster import follow, kinds
from harness.cluster.jobs import State
from harness.sweep import loop
from tests.conftest import CACHE

pytestmark = pytest.mark.usefixtures("made_environment")

FAST = ["--duration", "0.2", "--repeats", "1", "--cache", str(CACHE)]
TWO = ["--sut", "mock", "--scenario", "Offline", "--model", "bert,mistral", *FAST, "--on", "slurm"]


class Played:
    """A cluster with one node.

    Attributes:
        faults: number of a submitted job, from 1 → the words of a job that the scheduler ends
            before it begins.
        running: names of jobs that another command submitted, and that never end.
    """

    def __init__(self):
        self.submitted = []
        self.cancelled = []
        self.faults = {}
        self.writes = True
        self.running = set()
        self.ends = {}

    def check(self):
        pass

    def text(self, job):
        return f"script of {job.name}"

    def submit(self, jobs):
        for job in jobs:
            self.submitted.append(job)
            words = self.faults.get(len(self.submitted), "COMPLETED")
            self.ends[job.name] = words
            if self.writes:
                job.log.write_text("node n1\n")
            if words == "COMPLETED":
                with contextlib.redirect_stdout(io.StringIO()):
                    cli.main(job.command[1:])

    def states(self, jobs):
        states = {}
        for job in jobs:
            live = job.name in self.running
            words = "RUNNING" if live else self.ends.get(job.name)
            if words:
                exited = words.startswith(("COMPLETED", "FAILED"))
                states[job.name] = State(id="7", live=live, words=words, node="n1", exited=exited)
        return states

    def cancel(self, jobs):
        self.cancelled += [job.name for job in jobs]


@pytest.fixture
def cluster(monkeypatch):
    played = Played()
    monkeypatch.setattr(kinds, "Slurm", lambda options: played)
    monkeypatch.setattr(follow, "POLL_S", 0.01)
    monkeypatch.setattr(loop, "AGAIN_A_REPEAT", 0)
    return played


@pytest.fixture
def sweep(tmp_path, capsys):
    def run(*arguments):
        code = cli.main(["sweep", *arguments, "--out", str(tmp_path / "runs")])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.out = tmp_path / "runs"
    return run


def test_a_job_that_the_scheduler_ended_is_submitted_again_and_a_finished_one_is_not(
    cluster, sweep
):
    cluster.faults = {2: "TIMEOUT (TimeLimit)"}
    code, _, said = sweep(*TWO, "--json")
    assert code == 1 and len(cluster.submitted) == 2
    assert "comparison 2 is not complete: TIMEOUT (TimeLimit) on n1; the same command" in said
    assert "[1/2] mock bert tiny Offline batch 4 float32, repeat 1, node n1: ok: " in said
    code, out, said = sweep(*TWO, "--json")
    document = json.loads(out)
    assert code == 0 and [job.name[-2:] for job in cluster.submitted] == [".1", ".2", ".2"]
    assert [job["outcome"] for job in document["jobs"]] == [
        "finished by an earlier command",
        "complete",
    ]
    assert [cell["cell"]["model"] for cell in document["cells"]] == ["bert", "mistral"]
    assert "repeat 1, node n1: ok" in said and "mock bert tiny" not in said
    code, _, _ = sweep(*TWO)
    assert code == 0 and len(cluster.submitted) == 3


def test_a_job_that_runs_is_followed_and_not_doubled_and_ctrl_c_cancels_it(
    cluster, sweep, monkeypatch
):
    sweep(*TWO, "--print")
    (folder,) = sweep.out.glob("sweeps/*/jobs")
    name = f"{folder.parent.name}.1"
    cluster.running = {name}
    looks = []
    on_sigterm = []

    def interrupted(seconds):
        looks.append(seconds)
        on_sigterm.append(signal.getsignal(signal.SIGTERM))
        if len(looks) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(follow.time, "sleep", interrupted)
    cluster.faults = {1: "NODE_FAIL"}
    code, _, said = sweep(*TWO)
    assert code == 130 and "the same command continues" in said
    assert "comparison 1 is job 7 of an earlier command: RUNNING on n1" in said
    assert [job.name for job in cluster.submitted] == [f"{folder.parent.name}.2"]
    assert cluster.cancelled == [name] and set(on_sigterm) == {signal.SIG_DFL}


def test_a_command_that_ended_without_a_log_did_not_see_the_folder(cluster, sweep):
    cluster.faults = {1: "FAILED (NonZeroExitCode)", 2: "CANCELLED"}
    cluster.writes = False
    sweep(*TWO, "--print")
    for log in sweep.out.glob("sweeps/*/jobs/*.log"):
        log.write_text("a job of an earlier command")
    code, _, said = sweep(*TWO)
    assert code == 1
    assert "wrote nothing to its log, so n1 does not see" in said and "share (FAILED" in said
    assert "comparison 2 is not complete: CANCELLED on n1; the same command continues" in said


def test_a_command_that_ended_too_early_has_its_last_line(cluster, sweep):
    cluster.faults = {1: "FAILED (NonZeroExitCode)", 2: "FAILED (NonZeroExitCode)"}
    code, _, said = sweep(*TWO)
    assert code == 1 and "FAILED (NonZeroExitCode) on n1; its last line: node n1 (" in said


def test_print_shows_each_job_and_submits_nothing(cluster, sweep):
    code, out, said = sweep(*TWO, "--print")
    assert code == 0 and not cluster.submitted
    assert out.count("script of sweep-") == 2 and "nothing was submitted" in said
    assert len([*sweep.out.glob("sweeps/*/jobs/*.toml")]) == 2
    logs = [*sweep.out.glob("sweeps/*/jobs/*.log")]
    for log in logs:
        log.write_text("a job runs\n")
    sweep(*TWO, "--print")
    assert [log.read_text() for log in logs] == ["a job runs\n"] * 2


def test_devices_of_a_node_are_not_sought_here_and_make_another_sweep(cluster, sweep, monkeypatch):
    words = ["--sut", "native-jax", *TWO[2:]]
    on_cuda = [*words, "--device", "cuda"]
    for number, given in enumerate((words, on_cuda, [*on_cuda, "--replicas", "512"]), 1):
        code, _, said = sweep(*given, "--print")
        assert code == 0 and len([*sweep.out.glob("sweeps/*")]) == number, said
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    sweep(*on_cuda, "--print")
    sweep(*on_cuda, "--print")
    assert len([*sweep.out.glob("sweeps/*")]) == 4


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--on", "pbs"], "give slurm, ray"),
        (["--on", "ray", "--slurm", "time=1"], "is for --on slurm"),
        (["--print"], "give --on too"),
        (["--on", "slurm", "--batch-size", "0"], "at least 1"),
    ],
)
def test_flags_that_no_cluster_takes_are_refused_before_a_job(sweep, flags, words):
    code, _, said = sweep(*TWO[:-2], *flags)
    assert code == 2 and words in said and not sweep.out.exists()
