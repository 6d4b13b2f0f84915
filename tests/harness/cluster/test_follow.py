"""A sweep on a cluster from the command line. The cluster is played in this process: a job is the
plain command, which measures the mock.
"""

import contextlib
import io
import json
import signal

import pytest

from harness import cli
from harness.cluster import follow, schedulers
from harness.cluster.schedulers import Jobs
from harness.execution import clusters
from harness.sweep import loop
from tests.conftest import CACHE

FAST = ["--duration", "0.2", "--repeats", "1", "--cache", str(CACHE)]
TWO = ["--sut", "mock", "--scenario", "Offline", "--model", "bert,mistral", *FAST, "--on", "slurm"]


class Played:
    """A cluster with one node.

    Attributes:
        faults: number of a job → the words of a job that the scheduler ends before it measures.
        running: numbers of jobs that another command submitted, and that never end.
    """

    def __init__(self):
        self.submitted = []
        self.cancelled = False
        self.faults = {}
        self.writes = True
        self.running = set()
        self.states = {}

    def submit(self, array, numbers):
        for number in numbers:
            self.submitted.append(number)
            self.states[number] = self.faults.get(number, "COMPLETED") + " on n1"
            if self.writes:
                array.log(number).write_text("node n1\n")
            if number not in self.faults:
                with contextlib.redirect_stdout(io.StringIO()):
                    cli.main([*array.command, "--part", array.name(number)])

    def jobs(self, array):
        running = dict.fromkeys(self.running, "RUNNING on n1")
        return Jobs(self.states | running, self.running)

    def cancel(self, array):
        self.cancelled = True


@pytest.fixture
def cluster(monkeypatch):
    played = Played()
    monkeypatch.setattr(schedulers, "Slurm", lambda: played)
    monkeypatch.setattr(clusters, "check_slurm", lambda *programs: None)
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
    assert code == 1 and cluster.submitted == [1, 2]
    assert "comparison 2 is not complete: TIMEOUT (TimeLimit) on n1; the same command" in said
    assert "its last line: node n1 (" in said
    assert "comparison 1: mock bert tiny Offline float32 batch 4, repeat 1: ok: " in said
    cluster.faults = {}
    code, out, said = sweep(*TWO, "--json")
    document = json.loads(out)
    assert code == 0 and cluster.submitted == [1, 2, 2]
    assert [job["fault"] for job in document["jobs"]] == ["", ""]
    assert [cell["cell"]["model"] for cell in document["cells"]] == ["bert", "mistral"]
    assert "comparison 2: mock mistral tiny" in said and "mock bert tiny" not in said
    code, _, _ = sweep(*TWO)
    assert code == 0 and len(cluster.submitted) == 3


def test_a_job_that_runs_is_followed_and_not_doubled_and_ctrl_c_cancels_it(
    cluster, sweep, monkeypatch
):
    cluster.running = {1}
    looks = []
    on_sigterm = []

    def interrupted(seconds):
        looks.append(seconds)
        on_sigterm.append(signal.getsignal(signal.SIGTERM))
        if len(looks) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(follow.time, "sleep", interrupted)
    cluster.faults = {2: "NODE_FAIL"}
    code, _, said = sweep(*TWO)
    assert code == 130 and "comparison 1: RUNNING on n1" in said
    assert "comparison 2: NODE_FAIL on n1" in said
    assert cluster.submitted == [2]
    assert cluster.cancelled and set(on_sigterm) == {signal.SIG_DFL}


def test_a_job_without_a_line_in_its_log_may_not_see_the_folder(cluster, sweep):
    cluster.faults = {1: "FAILED (NonZeroExitCode)", 2: "CANCELLED"}
    cluster.writes = False
    code, _, said = sweep(*TWO)
    assert code == 1 and "comparison 1 is not complete: FAILED (NonZeroExitCode) on n1;" in said
    assert "wrote nothing to " in said and "its node does not see this folder" in said


def test_print_shows_the_script_and_submits_nothing(cluster, sweep):
    code, out, said = sweep(*TWO, "--print")
    (script,) = sweep.out.glob("sweeps/*/jobs/array.sh")
    assert code == 0 and not cluster.submitted and "nothing was submitted" in said
    assert out.strip() == script.read_text().strip()
    assert "#SBATCH --array=1,2\n" in out and " --on" not in out and "--print" not in out


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
