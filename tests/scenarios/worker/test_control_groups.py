"""The limits of control groups, in made-up trees of both versions."""

import pytest

from scenarios.worker import preflight
from scenarios.worker.system import control_groups

V1 = "32 31 0:29 {top} {mount} rw - cgroup cgroup rw,{controller}"
V2 = "41 31 0:38 {top} {mount} rw - cgroup2 cgroup2 rw"
UNLIMITED = "9223372036854771712"


def v2(top="/", mount="/sys/fs/cgroup"):
    return V2.format(top=top, mount=mount)


def v1(controller, top="/"):
    return V1.format(top=top, mount=f"/sys/fs/cgroup/{controller}", controller=controller)


def quota(group, quota_us, period_us):
    """The files of a quota of version 1."""
    values = {"quota": quota_us, "period": period_us}
    return {f"{group}/cpu.cfs_{name}_us": value for name, value in values.items()}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Makes a system from the lines of /proc/self/cgroup and mountinfo, and from its other
    files.
    """
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)

    def make(groups, mounts, files):
        of_process = {"proc/self/cgroup": groups, "proc/self/mountinfo": "\n".join(mounts)}
        folders = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in {**of_process, **folders}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    return make


QUOTAS = {
    "version 2": ("0::/", [v2()], {"cpu.max": "150000 100000"}, 1.5),
    "no quota": ("0::/", [v2()], {"cpu.max": "max 100000"}, None),
    "the parent's is tighter": (
        "0::/a/b",
        [v2()],
        {"a/b/cpu.max": "400000 100000", "a/cpu.max": "50000 100000"},
        0.5,
    ),
    "only the own": (
        "0::/a/b",
        [v2()],
        {"a/b/cpu.max": "100000 100000", "a/cpu.max": "max 100000"},
        1,
    ),
    "outside of the namespace": ("0::/../b", [v2()], {"cpu.max": "100000 100000"}, 1),
    "a container's mount": ("0::/docker/c", [v2("/docker/c")], {"cpu.max": "100000 100000"}, 1),
    "a path of the host": ("0::/host/pod/c", [v2()], {"c/cpu.max": "100000 50000"}, 2),
    "version 1, mixed": (
        "1:cpu,cpuacct:/a/b\n0::/",
        [v1("cpu"), v2(mount="/sys/fs/cgroup/unified")],
        quota("cpu/a/b", -1, 100_000) | quota("cpu/a", 100_000, 50_000),
        2,
    ),
    "version 1, a container's mount": (
        "1:cpu:/docker/c",
        [v1("cpu", "/docker/c")],
        quota("cpu", 70_000, 100_000),
        0.7,
    ),
    "another group's": (
        "4:memory:/m\n1:cpu:/",
        [v1("memory"), v1("cpu")],
        quota("cpu/m", 1, 1),
        None,
    ),
    "no control groups": ("", [], {}, None),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_the_tightest_quota_of_the_chain_counts(tree, case):
    *system, expected = QUOTAS[case]
    tree(*system)
    assert control_groups.processors() == expected


def v1_memory(limit, usage, stat):
    return {"limit_in_bytes": limit, "usage_in_bytes": usage, "stat": stat}


MEMORY = {
    "version 2": (
        "0::/a/b",
        v2(),
        {"max": "4096000", "current": "3000000", "stat": "anon 1\ninactive_file 2000000"},
        {"max": "5000000", "current": "4900000", "stat": "inactive_file 0"},
        (4_096_000, 100_000),
    ),
    "no limit": ("0::/a/b", v2(), {"max": "max", "current": "1"}, {"max": "max"}, (None, None)),
    "version 1": (
        "4:memory:/a/b",
        v1("memory"),
        v1_memory("9000000", "3000000", "inactive_file 1\ntotal_inactive_file 500000"),
        v1_memory(UNLIMITED, "4000000", f"hierarchical_memory_limit {UNLIMITED}"),
        (9_000_000, 6_500_000),
    ),
    "version 1, of a group that is not seen": (
        "4:memory:/a/b",
        v1("memory"),
        v1_memory(UNLIMITED, "3000000", "hierarchical_memory_limit 7000000"),
        {},
        (7_000_000, 4_000_000),
    ),
}


@pytest.mark.parametrize("case", MEMORY)
def test_the_tightest_memory_limit_counts_and_what_a_group_keeps_of_files_is_free(tree, case):
    line, mount, of_own, of_parent, expected = MEMORY[case]
    base = "memory/" if "memory" in mount else ""
    files = {f"{base}a/b/memory.{name}": text for name, text in of_own.items()}
    files |= {f"{base}a/memory.{name}": text for name, text in of_parent.items()}
    tree(line, [mount], files)
    found = control_groups.memory_bytes(), control_groups.available_bytes()
    assert found == expected


@pytest.mark.parametrize(
    ("line", "mount", "file", "text"),
    [
        ("0::/a", v2(), "a/memory.events", "oom 4\noom_kill 3"),
        ("4:memory:/a", v1("memory"), "memory/a/memory.oom_control", "under_oom 0\noom_kill 3"),
    ],
)
def test_the_kernels_kills_in_the_own_group_are_counted(tree, line, mount, file, text):
    tree(line, [mount], {file: text})
    assert control_groups.oom_kills() == 3


def test_the_available_memory_is_the_lesser_of_the_machines_and_the_groups(monkeypatch):
    monkeypatch.setattr(control_groups, "available_bytes", lambda: 1000)
    assert preflight.available_memory_bytes() == 1000
    monkeypatch.setattr(control_groups, "available_bytes", lambda: 1 << 60)
    assert 1000 < preflight.available_memory_bytes() < 1 << 60
