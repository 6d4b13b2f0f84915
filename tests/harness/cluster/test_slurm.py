"""Slurm's commands, played by programs on PATH: options, the script, states, and refusals."""

import os
import subprocess

import pytest

from harness.cluster import jobs
from harness.cluster.slurm import OURS, Slurm
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import clusters

WRONG_OPTIONS = ["gpus", "=1", "partition=", "Mem=1", "exclusive=user", "nodes=2", "clusters=far"]


@pytest.fixture
def job(tmp_path):
    (job,) = jobs.of([("--sut", "mock", "--model", "bert")], tmp_path / "sweep-1", [])
    return job


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Name, text of a shell script → a program of this name on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def make(name, text):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return make


def test_options_are_those_of_sbatch_and_a_value_may_have_commas():
    given = ["partition=gpu,nodelist=n1,n2,time=2:00:00", "gres=gpu:a100:2"]
    assert clusters.slurm_options(given, "sbatch", OURS) == {
        "partition": "gpu",
        "nodelist": "n1,n2",
        "time": "2:00:00",
        "gres": "gpu:a100:2",
    }


@pytest.mark.parametrize("text", WRONG_OPTIONS)
def test_an_option_that_sbatch_does_not_know_or_that_is_ours_is_refused(text):
    with pytest.raises(UsageError, match="--slurm"):
        clusters.slurm_options([text], "sbatch", OURS)


def test_the_script_asks_for_a_whole_node_and_calls_the_plain_command(job):
    text = Slurm({"partition": "gpu", "comment": "two words"}).text(job)
    lines = text.splitlines()
    assert {"#SBATCH --exclusive", "#SBATCH --nodes=1", "#SBATCH --mem=0"} <= set(lines)
    assert {"#SBATCH --partition=gpu", "#SBATCH --comment='two words'"} <= set(lines)
    assert lines[-1] == f"exec {jobs.script_line(job.command)}"
    assert "#SBATCH --mem=8G" in Slurm({"mem": "8G"}).text(job)
    assert "--mem=0" not in Slurm({"mem": "8G"}).text(job)


def test_a_node_that_does_not_see_the_folder_writes_nothing_and_one_without_a_file_names_it(job):
    script = Slurm({}).text(job)
    unshared = subprocess.run(["bash"], input=script, text=True, check=False)
    assert unshared.returncode == 73 and not job.folder.exists()
    job.write("./run.sh sweep …")
    job.recipe.unlink()
    partly = subprocess.run(["bash"], input=script, text=True, check=False)
    assert partly.returncode == 73
    assert f"does not see {job.recipe}" in job.log.read_text()


def test_states_are_those_of_the_last_job_of_a_name_in_slurms_words(job, program):
    lines = ["sweep-1.1|7|TIMEOUT|TimeLimit|n1", "sweep-1.1|12|RUNNING|None|n2"]
    program("squeue", f"printf '{lines[1]}\\n{lines[0]}\\n'")
    state = Slurm({}).states([job])["sweep-1.1"]
    assert (state.id, state.live, state.words, state.node) == ("12", True, "RUNNING", "n2")
    program("squeue", f"echo '{lines[0]}'")
    state = Slurm({}).states([job])["sweep-1.1"]
    assert (state.live, state.words, state.node) == (False, "TIMEOUT (TimeLimit)", "n1")
    assert not state.exited and not state.queued
    program("squeue", "echo 'sweep-1.1|8|PENDING|Priority|'")
    assert Slurm({}).states([job])["sweep-1.1"].queued
    program("squeue", "echo 'sweep-1.1|8|FAILED|NonZeroExitCode|n1'")
    assert Slurm({}).states([job])["sweep-1.1"].exited


def test_a_scheduler_that_does_not_answer_has_no_states(job, program):
    program("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert Slurm({}).states([job]) is None


def test_a_refusal_has_sbatchs_words(job, program):
    program("sbatch", "echo 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1")
    with pytest.raises(EnvironmentFailure, match="invalid partition specified: gpuu"):
        Slurm({"partition": "gpuu"}).submit([job])


def test_a_refusal_counts_the_jobs_that_were_submitted_before(job, program, tmp_path):
    mark = tmp_path / "submitted"
    program("sbatch", f"[ -e {mark} ] && echo 'limit reached' >&2 && exit 1; touch {mark}")
    with pytest.raises(EnvironmentFailure, match="limit reached; already submitted: 1 job, which"):
        Slurm({}).submit([job, job])


def test_variables_with_which_a_job_would_not_be_found_reach_no_command(
    job, program, tmp_path, monkeypatch
):
    for name in ("SBATCH_JOB_NAME", "SLURM_CLUSTERS", "SQUEUE_PARTITION", "SBATCH_PARTITION"):
        monkeypatch.setenv(name, "other")
    program("sbatch", f"env >{tmp_path}/seen")
    Slurm({}).submit([job])
    names = [line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()]
    slurms = {name for name in names if name.startswith(("SBATCH", "SLURM", "SQUEUE"))}
    assert slurms == {"SBATCH_PARTITION"}


def test_without_slurm_the_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="no sbatch on PATH"):
        Slurm({}).check()
