"""`--threads`: the cores of a SUT, refusals, and the evidence of a run."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from compliance import audit as audits
from compliance.checks.run.evidence import thread_faults
from formats.evidence import Evidence
from formats.job import Place
from harness import cli
from harness.errors import UsageError
from harness.execution import limits as machine_limits
from harness.execution import machine
from harness.measurement import record
from harness.request import plan
from scenarios.worker.system import control_groups, cores
from sut import variables
from tests.support import cells
from tests.support.cells import cells_of, measure, request
from tests.support.files import edit_json
from tests.support.synthetic_runs import cell

OFFLINE = ("--model", "bert", "--scenario", "Offline", "--device", "cpu")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    """The tests run with few threads (`tests/conftest.py`)."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def resolved(*words, sut="native-torch-eager"):
    return cells.resolved("--sut", sut, *OFFLINE, *words)


@pytest.fixture
def topology(tmp_path, monkeypatch):
    """Four cores of two threads, all usable, without a quota."""
    for number in range(8):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number // 2}\n")
    monkeypatch.setattr(cores, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(control_groups, "processors", lambda: None)


def test_each_thread_has_a_core_of_its_own(topology):
    asked = resolved("--threads", "3")
    assert asked.places == (Place(cores=(0, 2, 4)),)
    assert asked.cell().threads == 3 and "threads 3" in asked.label


def test_auto_makes_no_other_cell(topology):
    assert resolved("--threads", "auto").cell() == resolved().cell()
    assert resolved().places == () and "threads" not in resolved().label


def test_each_replica_has_as_many_threads(topology):
    both = (Place(cores=(0,)), Place(cores=(4,)))
    assert resolved("--threads", "1", "--replicas", "2").places == both
    assert resolved("--threads", "1", "--replicas", "1/2").places == both[:1]
    launch = resolved("--threads", "1", "--replicas", "2", "--on", "slurm").launch
    assert (launch.pinned, launch.threads) == (True, 1)


@pytest.mark.parametrize(
    ("quota", "processors"),
    [(None, tuple(range(8))), (0.5, (0,)), (2.5, (0, 2, 4)), (99, tuple(range(8)))],
)
def test_auto_is_the_mask_and_at_most_the_quota_rounded_up(
    topology, monkeypatch, quota, processors
):
    monkeypatch.setattr(control_groups, "processors", lambda: quota)
    assert cores.available() == processors


@pytest.mark.parametrize(
    ("words", "quota", "why"),
    [
        (("--threads", "5"), None, "each thread needs a core, and the SUT has 4"),
        (("--threads", "2"), 1.0, "each thread needs a core, and the SUT has 1"),
        (
            ("--threads", "3", "--replicas", "2"),
            None,
            "each thread needs a core, and each of 2 replicas has 2",
        ),
        (("--threads", "0"), None, "give a number from 1 on, or auto"),
    ],
)
def test_more_threads_than_cores_are_refused(topology, monkeypatch, words, quota, why):
    monkeypatch.setattr(control_groups, "processors", lambda: quota)
    with pytest.raises(UsageError, match=f"--threads {words[1]}: {why}"):
        resolved(*words)


@pytest.mark.parametrize(
    ("sut", "name", "value"),
    [
        ("native-torch-eager", "OMP_NUM_THREADS", "1"),
        ("keras3-tensorflow", "TF_NUM_INTRAOP_THREADS", "1"),
        ("native-jax", "XLA_FLAGS", "--intra_op_parallelism_threads=1"),
        ("native-jax", "NPROC", "1"),
    ],
)
def test_a_variable_that_sets_threads_too_is_refused(monkeypatch, sut, name, value):
    monkeypatch.setenv(name, value)
    assert resolved(sut=sut).variables[name] == value
    with pytest.raises(UsageError, match=f"--threads 1: {name}={value} is set"):
        resolved("--threads", "1", sut=sut)


def test_other_variables_go_with_threads(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    assert variables.of_threads(resolved("--threads", "1").variables) == []


def test_an_engine_has_no_threads_here(monkeypatch):
    monkeypatch.setattr(plan.engines, "check", lambda *_: [])
    words = "--sut endpoint --model llama --scenario Offline --threads 1"
    with pytest.raises(UsageError, match="--threads 1: endpoint does not start its engine"):
        cells.resolved(*words.split())


def test_a_sweep_compares_suts_with_equal_threads(topology):
    found = cells_of(threads="1,auto")
    assert [each.request.cell().threads for each in found] == [1, None]
    assert found[0].comparison != found[1].comparison


def test_the_evidence_of_a_run_shows_its_threads_and_other_ones_make_it_invalid(tmp_path, capsys):
    found = measure(request(tmp_path, threads="1"))
    directory = Path(found.directory)
    assert found.status == "ok", found.reason
    unknown = (
        "mock does not report the threads of its matrix products; it was pinned to 1 processor"
    )
    assert unknown in found.warnings
    assert cli.main(["show", found.directory]) == 0
    assert "  threads 1" in capsys.readouterr().out.splitlines()[0]
    edit_json(
        directory / "raw/performance/outcome.json",
        lambda outcome: outcome["evidence_after"]["detail"].update(processors=2),
    )
    edit_json(
        directory / "raw/performance/job.json", lambda job: job["places"][0].update(cores=[0, 1])
    )
    faults = {c.id: c.detail for c in audits.audit(directory, "v6.1").checks if c.verdict == "FAIL"}
    assert "processors of the SUT: 2; the cell says threads 1" in faults["performance-evidence"]
    assert "cell.threads is 1; raw/performance/job.json gives [2]" in faults["record"]


@pytest.mark.parametrize(
    ("detail", "faults"),
    [
        ({"processors": 2, "matrix_products": {"threads": 2}}, []),
        ({"processors": 2, "matrix_products": {"threads": "unknown"}}, []),
        ({}, ["processors of the SUT: missing; the cell says threads 2"]),
        (
            {"processors": 2, "matrix_products": {"threads": 1}},
            ["threads of its matrix products: 1; the cell says threads 2"],
        ),
    ],
)
def test_threads_of_the_products_are_those_of_the_cell(detail, faults):
    found = thread_faults(Evidence(0, None, "float32", detail), cell(threads=2))
    assert [str(fault) for fault in found] == faults
    assert not list(thread_faults(Evidence(0, None, "float32", {"processors": 9}), cell()))


def test_limits_are_measured_and_looked_up_with_the_threads_of_the_cell(monkeypatch, capsys):
    asked = resolved("--threads", "1")
    here = replace(machine.describe(), usable_threads=8)
    attempt = SimpleNamespace(request=asked, cell=asked.cell(), machine=here)
    looked_up = []
    monkeypatch.setattr(machine_limits, "known", lambda *places: looked_up.append(places[2]))
    record._roof(attempt, None)
    assert looked_up[0].usable_threads == 1
    most = len(cores.usable())
    assert cli.main(["doctor", "--limits", "--threads", str(most + 1)]) == 2
    assert f"a framework has {most} (" in capsys.readouterr().err
