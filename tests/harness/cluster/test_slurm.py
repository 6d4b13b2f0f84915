"""Slurm's commands, played by programs on PATH: options, the script, states, and refusals."""

import os
import shlex
import subprocess

import pytest

from harness.cluster.array import Array
from harness.cluster.schedulers import OURS, Slurm
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import clusters
from tests.support import files

WRONG_OPTIONS = ["gpus", "=1", "partition=", "Mem=1", "exclusive=user", "nodes=2", "clusters=far"]


def planned(tmp_path, **options):
    cell = {"sut": ["mock"], "model": ["bert"]}
    return Array(
        sweep=tmp_path / "sweep-1",
        comparisons=[[cell], [cell]],
        command=["sweep", "--dataset", "two words.txt"],
        options=options,
    )


@pytest.fixture
def array(tmp_path):
    return planned(tmp_path)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Name, text of a shell script → a program of this name on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return lambda name, text: files.program(tmp_path / "bin" / name, text)


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


def test_the_script_asks_for_a_whole_node_and_calls_the_plain_command(tmp_path):
    array = planned(tmp_path, partition="gpu", comment="two words", mem="8G")
    lines = array.text([1, 2]).splitlines()
    assert {"#SBATCH --exclusive", "#SBATCH --nodes=1", "#SBATCH --array=1,2"} <= set(lines)
    assert {"#SBATCH --partition=gpu", "#SBATCH --comment='two words'"} <= set(lines)
    assert "#SBATCH --mem=8G" in lines and "#SBATCH --mem=0" not in lines
    assert "#SBATCH --mem=0" in planned(tmp_path).text([1])
    assert lines[-1].endswith("run.sh sweep --dataset 'two words.txt' --part sweep-1.$job")
    assert array.label(1) == "model bert (mock)"


def test_a_node_that_does_not_see_the_folder_writes_nothing_and_one_without_a_file_names_it(
    array, tmp_path, monkeypatch
):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    script = array.text([2])
    unshared = subprocess.run(["bash", "-s", "2"], input=script, text=True, check=False)
    assert unshared.returncode and not array.folder.exists()
    array.write([2])
    gone.rmdir()
    partly = subprocess.run(["bash", array.script, "2"], cwd=tmp_path, check=False)
    assert partly.returncode
    assert f"{shlex.quote(str(gone))}: No such file" in array.log(2).read_text()


def test_states_are_those_of_the_last_job_of_a_number_in_slurms_words(array, program):
    lines = ["7|1|TIMEOUT|TimeLimit|n1", "12|1|RUNNING|None|n2", "12|2|PENDING|Priority|"]
    program("squeue", "printf '%s\\n' " + shlex.join([lines[1], lines[0], lines[2]]))
    jobs = Slurm().jobs(array)
    assert jobs.states == {1: "RUNNING on n2", 2: ""} and jobs.live == {1, 2}
    program("squeue", f"echo '{lines[0]}'; echo '12|2|PENDING|PartitionTimeLimit|'")
    jobs = Slurm().jobs(array)
    assert jobs.states == {1: "TIMEOUT (TimeLimit) on n1", 2: "PENDING (PartitionTimeLimit)"}
    assert jobs.live == {2}
    program("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert Slurm().jobs(array) is None


def test_jobs_of_the_same_sweep_in_another_folder_are_not_its_own(tmp_path, program):
    one, two = planned(tmp_path / "a"), planned(tmp_path / "b")
    program("squeue", f"case $* in *--name={one.job_name}) echo '12|1|RUNNING|None|n2';; esac")
    assert f"#SBATCH --job-name={one.job_name}\n" in one.text([1])
    assert Slurm().jobs(one).live == {1} and not Slurm().jobs(two).live


def test_a_refusal_has_sbatchs_words(array, program):
    program("sbatch", "echo 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1")
    with pytest.raises(EnvironmentFailure, match="invalid partition specified: gpuu"):
        Slurm().submit(array, [1])


def test_variables_with_which_a_job_would_not_be_found_reach_no_command(
    array, program, tmp_path, monkeypatch
):
    hidden = ("SBATCH_JOB_NAME", "SBATCH_OUTPUT", "SLURM_CLUSTERS", "SQUEUE_PARTITION")
    for name in (*hidden, "SBATCH_PARTITION"):
        monkeypatch.setenv(name, "other")
    program("sbatch", f"env >{tmp_path}/seen")
    Slurm().submit(array, [1])
    names = [line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()]
    slurms = {name for name in names if name.startswith(("SBATCH", "SLURM", "SQUEUE"))}
    assert slurms == {"SBATCH_PARTITION"}


def test_without_slurm_the_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="no sbatch on PATH"):
        clusters.check_slurm("sbatch")
