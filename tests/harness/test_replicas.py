"""`--replicas`: places, refusals, cells of a sweep, efficiency and the documents of a result."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from formats.job import Place
from harness import cli
from harness.comparison import partners
from harness.errors import UsageError
from harness.execution import machine
from harness.report import sections
from harness.request import plan, replicas
from results import summary
from scenarios.worker.system import cores
from sut import tuning
from sut.devices import DEVICES
from tests.support.cells import cells_of, measure, request, resolved
from tests.support.files import program, read_json
from tests.support.reports import gathered, groups
from tests.support.rounds import short_round
from tests.support.synthetic_runs import cell, write

__all__ = ["short_round"]

WORDS = ("--sut", "mock", "--model", "bert")


def real(*words):
    return resolved("--sut", "native-torch-eager", "--model", "bert", "--device", "cpu", *words)


@pytest.fixture
def topology(tmp_path, monkeypatch):
    """Five cores of two threads, of which the worker may use four and one half."""
    for core in range(5):
        for number in (core, core + 5):
            folder = tmp_path / f"cpu{number}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{core},{core + 5}\n")
    monkeypatch.setattr(cores, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(9)))


def test_replicas_on_a_cpu_get_equal_disjoint_cores(topology):
    asked = real("--scenario", "Offline", "--replicas", "2")
    assert asked.places == (Place(cores=(0, 1, 5, 6)), Place(cores=(2, 3, 7, 8)))
    assert asked.cell().replicas == "2"
    one = real("--scenario", "Offline", "--replicas", "1/2")
    assert one.places == asked.places[:1]
    assert one.cell().replicas == "1/2"
    assert one.cell().digest != asked.cell().digest


def test_fewer_cores_than_replicas_are_refused(topology):
    with pytest.raises(UsageError, match="--replicas 6: each replica needs a core of its own, and"):
        real("--scenario", "Offline", "--replicas", "6")


def test_a_scripted_sut_needs_no_cores(topology):
    asked = resolved(*WORDS, "--scenario", "Server", "--max-latency-ms", "9", "--replicas", "16")
    assert asked.places == (Place(),) * 16


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((*WORDS, "--scenario", "SingleStream"), "SingleStream has one batch at a time"),
        ((*WORDS, "--scenario", "Fit"), "Fit has one batch at a time"),
        (
            ("--sut", "endpoint", "--model", "llama", "--scenario", "Offline"),
            "start replicas of the engine instead",
        ),
    ],
)
def test_what_has_no_replicas_is_refused_by_name(words, reason, monkeypatch):
    monkeypatch.setattr(plan.engines, "check", lambda *_: [])
    with pytest.raises(UsageError, match=f"--replicas 2: .*{reason}"):
        resolved(*words, "--replicas", "2")


def test_a_switch_that_sorts_inputs_is_refused_with_replicas(topology):
    sorting = next(name for name, each in tuning.switches().items() if each.buckets)
    with pytest.raises(UsageError, match="sorts the inputs by length"):
        real("--scenario", "Offline", "--replicas", "2", "--tuned", sorting)


def test_the_advice_for_too_little_memory_looks_at_one_replica(monkeypatch):
    asked = real("--scenario", "Offline")
    asked = replace(asked, places=(Place(),) * 4)
    weights_bytes = asked.state_bytes("float32")
    monkeypatch.setattr(type(asked), "batch_bytes", lambda self, precision: 2 * weights_bytes)
    monkeypatch.setattr(plan, "available_memory_bytes", lambda: 1)
    assert "a smaller --batch-size" in plan.memory_shortage(asked, "float32")


@pytest.mark.parametrize("value", ["1", "0", "x", "1/1", "2/4", "-2"])
def test_a_number_that_gives_no_replicas_is_refused(value):
    with pytest.raises(UsageError, match="give 2 or more; a sweep also measures one"):
        resolved(*WORDS, "--scenario", "Offline", f"--replicas={value}")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--on", "ray"), "--on ray: .* give --replicas N"),
        (("--replicas", "2", "--on", "k8s"), "--on k8s: give slurm, ray"),
        (("--replicas", "2", "--on", "ray", "--slurm", "nodes=2"), "nodes=2: is for --on slurm"),
        (("--replicas", "2", "--slurm", "nodes=2"), "--slurm nodes=2: is for --on slurm"),
        (("--replicas", "2", "--interface", "127.0.0.1"), "is for --on: leave it out"),
        (("--replicas", "3", "--on", "slurm", "--slurm", "nodes=2"), "each of 2 nodes as many"),
        (("--replicas", "2", "--on", "slurm", "--slurm", "ntasks=4"), "ntasks is set for each job"),
    ],
)
def test_flags_of_a_cluster_that_do_not_fit_are_refused(words, reason):
    with pytest.raises(UsageError, match=reason):
        resolved(*WORDS, "--scenario", "Offline", *words)


def test_an_interface_is_an_address_of_this_machine():
    words = ("--scenario", "Offline", "--replicas", "2", "--on", "ray", "--interface", "192.0.2.1")
    with pytest.raises(UsageError, match="--interface 192.0.2.1: is no address of this machine"):
        replicas.prepare(resolved(*WORDS, *words).options, print)


def test_slurm_gets_a_step_in_the_allocation_or_makes_one(monkeypatch):
    words = ("--scenario", "Offline", "--on", "slurm", "--slurm", "partition=gpu,nodes=2")
    asked = real(*words, "--replicas", "4")
    assert asked.cell().cluster == "slurm" and asked.places == (Place(),) * 4
    assert asked.launch.pinned and asked.launch.interface == "127.0.0.1"
    own = {"--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--exclusive", "--partition=gpu"}
    assert own <= set(asked.launch.command)
    assert asked.launch.command[-2].endswith('"$SLURM_LOCALID" 2')
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")
    one = real(*words[:4], "--replicas", "1/8")
    assert {"--nodes=1", "--ntasks=1"} <= set(one.launch.command)
    assert "--exclusive" not in one.launch.command
    assert one.launch.command[-2].endswith('"$SLURM_LOCALID" 2')


def test_ray_starts_replicas_from_an_environment_of_its_own(tmp_path):
    words = ("--scenario", "Offline", "--replicas", "1/4", "--cache", str(tmp_path))
    asked = real(*words, "--on", "ray://head:10001")
    python, *_, kind, address, resource, numbers = asked.launch.command
    assert python == f"{tmp_path}/environments/cluster-ray/bin/python"
    assert (kind, address, resource) == ("replicas", "ray://head:10001", "CPU")
    assert numbers == "1/4"
    assert asked.cell().cluster == "ray"
    other = resolved(*WORDS, *words, "--on", "ray")
    assert other.launch.command[-3:] == ("auto", "none", "1/4")


def cards(*names):
    return [machine.Accelerator(name=name, memory_bytes=1, driver="1", cuda=None) for name in names]


def test_each_replica_sees_an_accelerator_of_its_own(monkeypatch):
    monkeypatch.setattr(machine, "accelerators", lambda: cards("A", "A", "B"))
    device = DEVICES["cuda"]
    places = replicas._on_accelerators("--replicas 2", 2, device)
    assert [place.device for place in places] == ["0", "1"]
    assert device.environment({}, ["1"])["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(UsageError, match="equal devices, and these are A and B"):
        replicas._on_accelerators("--replicas 3", 3, device)
    with pytest.raises(UsageError, match="needs a cuda device, and there are 3"):
        replicas._on_accelerators("--replicas 4", 4, device)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7, 5")
    places = replicas._on_accelerators("--replicas 2", 2, device)
    assert [place.device for place in places] == ["7", "5"]


def test_a_sweep_measures_one_of_the_replicas_too_and_in_turns():
    found = cells_of(replicas="4,1/4")
    assert [each.request.options.replicas for each in found] == ["1/4", "4"]
    assert found[0].rivals == found[1].rivals
    assert found[0].comparison != found[1].comparison


def test_the_efficiency_is_the_speed_over_that_of_as_many_single_replicas(tmp_path):
    one = cell("native-torch-eager", replicas="1/4")
    write(tmp_path, one, [100, 101, 99], sweep="s")
    write(
        tmp_path,
        cell("native-torch-eager", replicas="4"),
        [380, 384, 376],
        first_minute=1,
        sweep="s",
    )
    write(tmp_path, cell("keras3-jax", replicas="4"), [300, 301, 302], first_minute=2, sweep="s")
    ((many, partner, efficiency),) = partners.replicated(groups(tmp_path))
    assert (many.cell.replicas, partner.cell.replicas) == ("4", "1/4")
    assert efficiency.value == pytest.approx(0.95, abs=0.001)
    assert 0.93 < efficiency.low < 0.95 < efficiency.high < 0.97
    found = sections.ratios.section(gathered(tmp_path))
    (sentence,) = found.sentences
    assert ": efficiency 0.95 (0.9" in sentence and sentence.endswith(") of 4 × one replica")


def test_an_efficiency_is_of_one_node_and_those_that_hold_it_and_nodes_are_never_pooled(tmp_path):
    def measured(replicas, nodes, figures, minute):
        of = cell("native-torch-eager", replicas=replicas, cluster="ray")
        write(tmp_path, of, figures, first_minute=minute, record={"nodes": nodes}, sweep="s")

    measured("1/4", ["n1"], [100, 101, 99], 0)
    measured("4", ["n1", "n1", "n2", "n2"], [380, 384, 376], 1)
    measured("4", ["n3", "n3", "n4", "n4"], [300, 301, 302], 2)
    found = groups(tmp_path)
    assert len(found) == 3
    ((many, one, _),) = partners.replicated(found)
    assert set(many.last.nodes) == {"n1", "n2"} and one.last.nodes == ("n1",)
    assert many.last.machine.endswith("replicas on n1, n2")


def checked(result):
    """A good result of two replicas. → its `replicas`."""
    assert (result["status"], result["reason"]) == ("ok", "")
    report = result["replicas"]
    assert len(report["each"]) == len(report["accuracy_samples"]) == 2
    assert all(report["accuracy_samples"])
    assert sum(each["samples"] for each in report["each"]) == result["measured"]["samples"]
    assert report["inputs"] == "resident"
    return report


def test_a_result_of_server_says_what_each_replica_did(tmp_path, capsys):
    words = ("--scenario", "Server", "--max-latency-ms", "500", "--rate", "150")
    options = ("--batch-size", "4", "--sut-option", "latency-ms=10", "--replicas", "2")
    cli.main([*WORDS, "--duration", "1", "--json", *words, *options, "--out", str(tmp_path)])
    (found,) = json.loads(capsys.readouterr().out)["cells"]
    checked(found)
    record = read_json(Path(found["directory"]) / "record.json")
    assert record["cell"]["replicas"] == "2"


SRUN = """
while [ "${1#--}" != "$1" ]; do
    case $1 in --ntasks=*) count=${1#*=} ;; --ntasks-per-node=*) each=${1#*=} ;; esac
    shift
done
for ((task = 0; task < count; task++)); do
    export SLURM_PROCID=$task SLURM_LOCALID=$((task % each)) SLURMD_NODENAME=n$((task / each + 1))
    "$@" &
done
wait
"""
"""srun, which plays as many nodes as it is asked for."""


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """A played srun on PATH."""
    folder = program(tmp_path / "bin" / "srun", SRUN, "/bin/bash").parent
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("where", "nodes"),
    [({}, 1), ({"replicas_on": "slurm", "slurm": ("nodes=2",)}, 2)],
    ids=["here", "two-nodes"],
)
def test_a_submission_of_replicas_holds_all_levels_and_describes_them(
    where, nodes, tmp_path, short_round, srun
):
    cell = request(
        tmp_path,
        model="mistral",
        scenario="Offline",
        mode="submission",
        duration=None,
        replicas="2",
        options={"latency-ms": 0.5},
        **where,
    )
    result = measure(cell)
    report = checked(asdict(result))
    assert result.levels == ("quick", "valid", "submission")
    assert summary.replicas(result.replicas, result.cell).startswith(
        "2 on n1, n2, " if where else "2, "
    )
    assert report["idle_tail_seconds"] < 1
    (system,) = Path(result.directory).glob("open/*/systems/*.json")
    several = f"-{nodes}-nodes" if nodes > 1 else ""
    assert system.stem.endswith(f"-mock-replicas-2{several}")
    described = read_json(system)
    assert described["number_of_nodes"] == str(nodes)
    assert described["accelerators_per_node"] == "0"
    on = ", on slurm" if where else ""
    assert f"Replicas of the SUT (--replicas): 2{on}." in described["sw_notes"]
    record = read_json(Path(result.directory) / "record.json")
    assert record["nodes"] == (["n1", "n2"] if where else [])
