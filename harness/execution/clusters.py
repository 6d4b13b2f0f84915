"""The clusters of `--on`: their names, options of Slurm, and the programs that let a cluster start
replicas (`formats.job.Launch`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments
from scenarios.worker.replicas.placement import NODE

SLURM = "slurm"
_RAY, _CLIENT = "ray", "ray://"
UNKNOWN = "--on {on}: give slurm, ray (the cluster of this machine) or ray://HOST:PORT"
_RAY_ENVIRONMENT = "cluster-ray"
_OF_STEPS = (
    "chdir",
    "cpu-bind",
    "distribution",
    "error",
    "exclusive",
    "export",
    "gpu-bind",
    "gpus-per-task",
    "input",
    "job-name",
    "kill-on-bad-exit",
    "mpi",
    "ntasks",
    "ntasks-per-node",
    "output",
)
"""Options of srun that decide where replicas run and how they end."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")


def ray_address(on: str) -> str:
    """The address of the Ray cluster that `--on` names. Empty: it names none."""
    if on == _RAY:
        return "auto"
    return on if on.startswith(_CLIENT) else ""


def ray_python(cache: Path) -> Path:
    """The interpreter of Ray's environment."""
    return cache / "environments" / _RAY_ENVIRONMENT / "bin" / "python"


def make_ray(cache: Path, say: Callable[[str], None]) -> None:
    """Make Ray's environment, if it is missing. Raises EnvironmentFailure."""
    directory = cache / "environments" / _RAY_ENVIRONMENT
    lock = environments.LOCKS / f"{_RAY_ENVIRONMENT}.txt"
    environments.make(directory, [lock], environments.installer(), say)


def check_programs(names: Iterable[str], machine: str) -> None:
    """Raises EnvironmentFailure if this machine lacks a command of Slurm.

    `machine`: which machines have them.
    """
    for name in names:
        if shutil.which(name) is None:
            raise EnvironmentFailure(
                f"--on slurm: there is no {name} on PATH: run this command on {machine}"
            )


def slurm_options(texts: Iterable[str], program: str, ours: Collection[str]) -> dict[str, str]:
    """`partition=gpu,gpus=1` as long option of `program` → value. A part without `=` belongs to the
    value before it. Raises UsageError.

    `ours`: options that this harness sets.
    """
    options: dict[str, str] = {}
    for text in texts:
        last = ""
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals and last:
                options[last] += f",{part}"
                continue
            if not _NAME.fullmatch(name) or not value or not value.isprintable():
                raise UsageError(
                    f"--slurm {text}: give long options of {program} as NAME=VALUE, such as"
                    " partition=gpu,gpus=1"
                )
            if name in ours:
                raise UsageError(f"--slurm {text}: {name} is set for each job: leave it out")
            if name in ("cluster", "clusters"):
                raise UsageError(f"--slurm {text}: jobs run only on this cluster: leave it out")
            last = name
            options[last] = value
    return options


class OfReplicas(Protocol):
    """A cluster that starts replicas."""

    def check(self, say: Callable[[str], None]) -> None:
        """Make what is missing. Raises EnvironmentFailure if that is impossible."""

    def command(self, used: int, count: int, *, accelerator: bool, pinned: bool) -> tuple[str, ...]:
        """`Launch.command` for the first `used` of `count` replicas. Each node has equally many of
        all. Raises UsageError.

        Args:
            accelerator: whether each gets an accelerator of its own.
            pinned: whether each gets cores of its own.
        """


def of_replicas(on: str, slurm: Sequence[str], cache: Path) -> OfReplicas:
    """The cluster that `--on` names. Raises UsageError.

    Args:
        slurm: the values of `--slurm`.
        cache: the folder of environments.
    """
    if on == SLURM:
        return _Steps(slurm_options(slurm, "srun", _OF_STEPS), os.environ)
    if slurm:
        raise UsageError(f"--slurm {slurm[0]}: is for --on slurm: leave it out")
    address = ray_address(on)
    if not address:
        raise UsageError(UNKNOWN.format(on=on))
    return _Tasks(address, cache)


class _Steps:
    """A step of Slurm: in the allocation in which the command runs, or in one that srun makes."""

    def __init__(self, options: Mapping[str, str], variables: Mapping[str, str]):
        """`variables`: the environment, which has the facts of an allocation."""
        self._options = options
        self._nodes = variables.get("SLURM_JOB_NUM_NODES", "1")
        # The shell in which the command is typed may be a step that has all of the allocation.
        is_inside = "SLURM_JOB_ID" in variables
        self._whole = ("--overlap",) if is_inside else ("--exclusive", "--mem=0")

    def check(self, say: Callable[[str], None]) -> None:
        """See `OfReplicas`."""
        check_programs(["srun"], "a node of the cluster, or where you submit jobs")

    def command(self, used: int, count: int, *, accelerator: bool, pinned: bool) -> tuple[str, ...]:
        """See `OfReplicas`. The words that are added: see `scenarios.worker.replicas.step`."""
        given = self._options.get("nodes", self._nodes)
        if not given.isdecimal() or not int(given) or count % int(given):
            raise UsageError(
                f"--replicas {count}: does not give each of {given} nodes as many replicas: give a"
                " multiple of the nodes, or --slurm nodes=N"
            )
        each = count // int(given)
        others = {name: value for name, value in self._options.items() if name != "nodes"}
        script = f'export {NODE}="$SLURMD_NODENAME"; exec "$@" "$SLURM_PROCID" "$SLURM_LOCALID"'
        return (
            "srun",
            f"--nodes={-(-used // each)}",
            f"--ntasks={used}",
            f"--ntasks-per-node={min(used, each)}",
            "--distribution=block",
            "--job-name=replicas",
            "--cpu-bind=none",
            "--mpi=none",
            "--export=ALL",
            "--input=none",
            "--kill-on-bad-exit=1",
            *self._whole,
            *(f"--{name}={value}" for name, value in others.items()),
            *(["--gpus-per-task=1"] if accelerator else []),
            *([] if pinned else ["--overcommit"]),
            *("sh", "-c", f"{script} {each}", "replica"),
        )


class _Tasks:
    """Tasks of Ray, one on each node."""

    def __init__(self, address: str, cache: Path):
        self._address = address
        self._cache = cache

    def check(self, say: Callable[[str], None]) -> None:
        """See `OfReplicas`."""
        make_ray(self._cache, say)

    def command(self, used: int, count: int, *, accelerator: bool, pinned: bool) -> tuple[str, ...]:
        """See `OfReplicas`, and `harness.cluster.ray_replicas`."""
        resource = "none"
        if accelerator:
            resource = "GPU"
        elif pinned:
            resource = "CPU"
        program = (str(ray_python(self._cache)), "-P", "-m", "harness.cluster.ray_replicas")
        return (*program, self._address, str(used), str(count), resource)
