"""Ray without Ray: the process that talks to it is played by a script, and its modules by a few
functions. Nodes, resources, variables, and faults.
"""

import importlib
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from harness.cluster import jobs
from harness.cluster.ray import Ray
from harness.errors import EnvironmentFailure
from harness.execution import clusters


@pytest.fixture
def planned(tmp_path):
    each = [("--sut", "mock", "--model", model) for model in ("bert", "gemma", "llama")]
    planned = jobs.of(each, tmp_path / "sweep-1", [])
    for job in planned:
        job.write("./run.sh sweep …")
    return planned


def cluster(tmp_path, script):
    """Ray with a driver that runs a shell script. $3 of it is the file of the states."""
    python = clusters.ray_python(tmp_path)
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nshift\n{script}\n")
    python.chmod(0o755)
    return Ray("auto", False, tmp_path, print)


def test_the_states_are_those_that_the_driver_writes_and_it_ends_with_the_command(
    tmp_path, planned
):
    state = {"sweep-1.1": {"id": "sweep-1.1", "live": True, "words": "runs", "node": "n1"}}
    script = f"cat >/dev/null; echo '{json.dumps(state)}' >\"$3\"; exec sleep 60"
    ray = cluster(tmp_path, script)
    ray.submit(planned)
    while (states := ray.states(planned))["sweep-1.1"].queued:
        assert states["sweep-1.1"].live
    assert states["sweep-1.1"].words == "runs" and states["sweep-1.1"].live
    ray.cancel([])
    assert ray.driver.poll() is None
    ray.cancel(planned[:1])
    assert ray.driver.poll() is not None


def test_a_cluster_that_does_not_answer_is_told_in_rays_words(tmp_path, planned):
    words = "ConnectionError: Could not find any running Ray instance."
    ray = cluster(tmp_path, f"echo Traceback; echo '{words}'; exit 1")
    ray.submit(planned)
    with pytest.raises(EnvironmentFailure, match="any running Ray instance"):
        while ray.states(planned)["sweep-1.1"].queued:
            pass


def test_tasks_end_with_the_driver(tmp_path, planned):
    state = {"id": "sweep-1.1", "live": True, "words": "assigned", "node": "n1"}
    document = json.dumps({"sweep-1.1": state})
    ray = cluster(tmp_path, f"cat >/dev/null; echo '{document}' >\"$3\"")
    ray.submit(planned)
    ray.driver.wait()
    state = ray.states(planned)["sweep-1.1"]
    assert not state.live and state.words == "the process that talks to Ray was ended"


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


def imported(name):
    """A module that imports the played Ray, for one test."""
    yield importlib.import_module(name)
    del sys.modules[name]


@pytest.fixture
def driver(played):
    """The module that gives jobs to Ray."""
    yield from imported("harness.cluster.ray_driver")


@pytest.fixture
def replicas(played):
    """The module that starts replicas."""
    yield from imported("harness.cluster.ray_replicas")


def document(planned, command, **changes):
    one = [
        {
            "name": job.name,
            "command": command,
            "log": str(job.log),
            "place": str(job.folder),
            "needed": [str(job.recipe)],
        }
        for job in planned
    ]
    return {"jobs": one, "variables": {}, "accelerator": False, **changes}


def test_each_job_has_all_of_one_node_and_a_lost_node_is_told_in_rays_words(
    driver, planned, tmp_path
):
    path = tmp_path / "ray.json"
    driver.Driver(document(planned, ["true"]), path).run()
    states = json.loads(path.read_text())
    assert [(s["node"], s["words"], s["live"]) for s in states.values()] == [
        ("n1", "exit code 0", False),
        ("n2", "RayError: the node n2 died", False),
        ("n1", "exit code 0", False),
    ]
    first, second, third = (SimpleNamespace(**given) for given in Task.given)
    assert (first.num_cpus, first.num_gpus) == (4.0, 1.0)
    assert (second.num_cpus, second.num_gpus) == (2.0, 0)
    assert first.scheduling_strategy == third.scheduling_strategy == ("id-n1", False)
    assert first.max_retries == 0


def test_jobs_for_an_accelerator_go_to_nodes_with_one(driver, planned, tmp_path):
    path = tmp_path / "ray.json"
    driver.Driver(document(planned[:1] * 2, ["true"], accelerator=True), path).run()
    assert {given["scheduling_strategy"][0] for given in Task.given} == {"id-n1"}


def test_a_job_that_no_node_fits_waits_and_says_so(driver, planned, tmp_path, monkeypatch):
    path = tmp_path / "ray.json"
    nodes = driver.ray.nodes()
    seen = []

    def sleep(seconds):
        seen.append(json.loads(path.read_text())["sweep-1.1"])
        monkeypatch.setattr(driver.ray, "nodes", lambda: nodes)

    monkeypatch.setattr(driver.ray, "nodes", lambda: nodes[1:])
    monkeypatch.setattr(driver.time, "sleep", sleep)
    driver.Driver(document(planned[:1], ["true"], accelerator=True), path).run()
    (waiting,) = seen
    assert waiting["words"] == "waits: no node has a GPU" and not waiting["queued"]
    assert json.loads(path.read_text())["sweep-1.1"]["words"] == "exit code 0"


def test_the_command_sees_the_variables_of_the_users_shell_and_none_of_rays(
    driver, planned, monkeypatch
):
    for name in ("OMP_NUM_THREADS", "RAY_RAYLET_PID", "PYTHONPATH", "RAY_JOB_ID"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (job,) = document(planned[:1], ["env"])["jobs"]
    assert driver.measure(job, {"XLA_FLAGS": "--xla_dump"}) == "exit code 0"
    lines = planned[0].log.read_text().splitlines()
    assert "XLA_FLAGS=--xla_dump" in lines and "RAY_JOB_ID=1" in lines
    left = ("OMP_NUM", "RAY_R", "PYTHON", "CUDA_VISIBLE")
    assert not [line for line in lines if line.startswith(left)]


def test_a_node_that_does_not_see_the_folder_says_so(driver, planned):
    (job,) = document(planned[:1], ["true"])["jobs"]
    planned[0].recipe.unlink()
    assert driver.measure(job, {}).endswith(f"does not see {planned[0].recipe}")


def test_replicas_are_spread_over_as_many_nodes_as_get_an_equal_number(replicas, played):
    def names(count, resource):
        found = replicas.spread(count, resource, played.nodes())
        return [replicas.name(node) for node in found]

    assert names(4, "CPU") == ["n1", "n2"]
    assert names(3, "CPU") == ["n1"]
    assert names(6, "CPU") == []
    assert names(1, "GPU") == ["n1"]
    assert names(2, "GPU") == []
    assert names(3, "none") == ["head", "n1", "n2"]
    assert replicas.name({**played.nodes()[0], "NodeName": "given"}) == "given"


def test_a_node_runs_its_replicas_and_says_how_one_ended(replicas, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    script = 'echo "$@" $CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS; test $1 = 2 || kill -9 $$'
    command = ["/bin/sh", "-c", f"{script}; exec sleep 9", "sh"]
    environment = {"REPLICA_NODE": "n2", "PATH": "/bin:/usr/bin"}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    node = (str(tmp_path), [2, 3], 2, "CUDA_VISIBLE_DEVICES")
    assert replicas.run(command, environment, *node) == "task 3: killed by signal SIGKILL"
    log = (tmp_path / "cluster.log").read_text()
    assert sorted(log.splitlines()) == ["2 0 2 4", "3 1 2 6"]
    assert replicas.run(["true"], environment, *node).endswith("node n2 does not see true")


def test_a_node_that_leaves_is_named_in_rays_words_for_each_of_its_replicas(replicas, played):
    found = replicas.Replicas(["/bin/true"], {})
    found.start(played.nodes()[:2], used=4, count=4, resource="CPU")
    assert [given["num_cpus"] for given in Task.given] == [4.0, 2.0]
    del found.running[next(iter(found.running))]
    words = "Ray ended it on n2, RayError: the node n2 died"
    assert found.wait(("127.0.0.1", 1)) == f"task 2: {words}\ntask 3: {words}"


def test_a_head_that_does_not_answer_ends_the_replicas(replicas, played, monkeypatch):
    monkeypatch.setattr(played, "wait", lambda references, timeout: ([], references))
    found = replicas.Replicas(["/bin/true"], {})
    found.start(played.nodes()[:1], used=1, count=2, resource="none")
    ((_, numbers),) = found.running.values()
    assert list(numbers) == [0]
    words = "the head of the Ray cluster at 127.0.0.1:1 does not answer"
    assert found.wait(("127.0.0.1", 1)) == words
