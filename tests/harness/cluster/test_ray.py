"""Ray without Ray: the process that talks to it is played by a script, and its modules by a few
functions. Nodes, resources, variables, and faults.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.cluster.array import Array
from harness.cluster.schedulers import Ray
from harness.errors import EnvironmentFailure
from harness.execution import clusters
from tests.support import files


@pytest.fixture
def planned(tmp_path):
    planned = Array(sweep=tmp_path / "sweep-1", comparisons=[[], []], command=[], options={})
    planned.write([1, 2])
    return planned


def cluster(tmp_path, script):
    """Ray with a driver that runs a shell script."""
    files.program(Path(clusters.ray_tasks(tmp_path)[0]), script)
    return Ray("auto", False, tmp_path)


def test_the_states_are_those_that_the_driver_prints_and_it_ends_with_the_command(
    tmp_path, planned, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    ray = cluster(tmp_path, 'echo "task 1: $* $CUDA_VISIBLE_DEVICES"; exec sleep 60')
    assert not ray.jobs(planned).live
    ray.submit(planned, [1, 2])
    while not (jobs := ray.jobs(planned)).states:
        assert jobs.live == {1, 2}
    words = f"array auto CPU 1,2 /bin/bash {planned.script} "
    assert jobs.states[1].endswith(words) and jobs.live == {1, 2}
    ray.cancel(planned)
    assert ray.driver.poll() is not None


def test_a_cluster_that_does_not_answer_is_named_in_rays_words(tmp_path, planned):
    words = "ConnectionError: Could not find any running Ray instance."
    ray = cluster(tmp_path, f"echo Traceback; echo '{words}'; exit 1")
    ray.submit(planned, [1])
    with pytest.raises(EnvironmentFailure, match="any running Ray instance"):
        while ray.jobs(planned).live:
            pass


class Reference:
    """The reference of a played task."""

    def __init__(self, function, arguments, number):
        self.function = function
        self.arguments = arguments
        self.number = number


class Task:
    """A task of the played Ray, which records its options."""

    given = []

    def __init__(self, function):
        self.function = function

    def options(self, **options):
        Task.given.append(options)
        return self

    def remote(self, *arguments):
        return Reference(self.function, arguments, len(Task.given))


@pytest.fixture
def played(monkeypatch):
    """A Ray of two nodes, and a head without processors, in which each task ends at once."""

    def get(reference):
        if reference.number == 2:
            raise exceptions.RayError("the node n2 died. More")
        return reference.function(*reference.arguments)

    def node(name, **resources):
        facts = {"NodeID": f"id-{name}", "NodeManagerHostname": name, "Alive": True}
        facts |= {"NodeName": "10.0.0.1", "NodeManagerAddress": "10.0.0.1"}
        return {**facts, "Resources": resources}

    nodes = [node("n1", CPU=4.0, GPU=1.0), node("n2", CPU=2.0), node("head", memory=1.0)]
    exceptions = ModuleType("ray.exceptions")
    exceptions.RayError = type("RayError", (Exception,), {})
    strategies = ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: (node, soft)
    ray = ModuleType("ray")
    ray.nodes = lambda: nodes
    ray.remote = Task
    ray.wait = lambda references, timeout: (references[:1], references[1:])
    ray.get = get
    Task.given = []
    modules = {"ray": ray, "ray.util": ModuleType("ray.util")}
    modules |= {"ray.exceptions": exceptions, "ray.util.scheduling_strategies": strategies}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return ray


@pytest.fixture
def program(played, monkeypatch, tmp_path):
    """The module that imports the played Ray, for one test."""
    monkeypatch.chdir(tmp_path)
    name = "harness.cluster.ray_tasks"
    yield importlib.import_module(name)
    del sys.modules[name]


@pytest.fixture
def tasks(program, monkeypatch):
    """Tasks of a cluster whose head answers."""
    found = program.Tasks(["/bin/sh", "-c", "test $0 != 3"], {}, "ray://127.0.0.1:1")
    monkeypatch.setattr(found, "head_answers", lambda: True)
    return found


def test_each_job_has_all_of_one_node_and_a_lost_node_is_named_in_rays_words(
    program, tasks, capsys
):
    program.array(tasks, "CPU", "1,2,3")
    assert capsys.readouterr().out.splitlines() == [
        "task 1: runs on n1",
        "task 2: runs on n2",
        "task 1: ended (n1)",
        "task 3: runs on n1",
        "task 2: Ray ended it on n2, RayError: the node n2 died (n2)",
        "task 3: code 1 (n1)",
    ]
    assert [(each["num_cpus"], each["num_gpus"]) for each in Task.given] == [(4, 1), (2, 0), (4, 1)]
    assert [each["scheduling_strategy"][0] for each in Task.given] == ["id-n1", "id-n2", "id-n1"]
    assert {each["max_retries"] for each in Task.given} == {0}


def test_jobs_for_an_accelerator_wait_for_a_node_with_one_and_say_so(
    program, tasks, played, monkeypatch, capsys
):
    nodes = played.nodes()
    monkeypatch.setattr(played, "nodes", lambda: nodes[1:])
    monkeypatch.setattr(program.time, "sleep", lambda s: setattr(played, "nodes", lambda: nodes))
    program.array(tasks, "GPU", "1")
    assert capsys.readouterr().out.splitlines()[:2] == [
        "task 1: waits: no node has a GPU",
        "task 1: runs on n1",
    ]


def test_replicas_are_spread_over_as_many_nodes_as_get_an_equal_number(program, played):
    def names(count, resource):
        found = program.spread(count, resource, played.nodes())
        return [program.name(node) for node in found]

    assert names(4, "CPU") == ["n1", "n2"]
    assert names(3, "CPU") == ["n1"]
    assert names(6, "CPU") == []
    assert names(1, "GPU") == ["n1"]
    assert names(2, "GPU") == []
    assert names(3, "none") == ["head", "n1", "n2"]
    assert program.name({**played.nodes()[0], "NodeName": "given"}) == "given"


def test_a_node_runs_its_replicas_and_says_how_one_ended(program, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    script = 'echo "$@" $CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS; test $1 = 2 || kill -9 $$'
    command = ["/bin/sh", "-c", f"{script}; exec sleep 9", "sh"]
    environment = {"REPLICA_NODE": "n2", "PATH": "/bin:/usr/bin"}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    devices = "CUDA_VISIBLE_DEVICES"
    end = program.run(command, environment, str(tmp_path), [2, 3], 2, devices)
    assert end == (3, "killed by signal SIGKILL")
    log = tmp_path / "cluster.log"
    assert sorted(log.read_text().splitlines()) == ["2 0 2 4", "3 1 2 6"]
    log.unlink()
    command[2] = script
    assert program.run(command, environment, str(tmp_path), [2], 1, devices) == (2, "")
    assert log.read_text() == "2 0 1 4,6\n"
    end = program.run(["true"], environment, str(tmp_path), [2, 3], 2, "")
    assert end == (2, "node n2 does not see true")


def test_a_node_that_leaves_is_named_in_rays_words_for_each_of_its_replicas(
    program, tasks, played, capsys
):
    played.wait = lambda references, timeout: (references[1:], references[:1])
    with pytest.raises(SystemExit):
        program.replicas(tasks, "CPU", "4/4")
    assert [given["num_cpus"] for given in Task.given] == [4.0, 2.0]
    words = "Ray ended it on n2, RayError: the node n2 died"
    assert capsys.readouterr().out == f"task 2: {words}\ntask 3: {words}\n"


def test_a_head_that_does_not_answer_ends_the_replicas(program, tasks, played, monkeypatch, capsys):
    played.wait = lambda references, timeout: ([], references)
    monkeypatch.setattr(tasks, "head_answers", lambda: False)
    with pytest.raises(SystemExit):
        program.replicas(tasks, "none", "1/2")
    ((_, numbers),) = tasks.running.values()
    assert list(numbers) == [0]
    words = "the head of the Ray cluster at 127.0.0.1:1 does not answer\n"
    assert capsys.readouterr().out == words
