"""The clusters of `--on`: what they need on this machine, and the programs that let them start
replicas (`formats.job.Launch`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments
from scenarios.worker.replicas.placement import NODE

SLURM = "slurm"
_RAY = "ray"
_CLIENT = "ray://"
_RAY_ENVIRONMENT = "cluster-ray"
_OPTION = re.compile(r"([a-z][a-z0-9-]*)=(.+)")
_OF_STEPS = (
    "chdir cpu-bind distribution error exclusive export gpu-bind gpus-per-task input job-name"
    " kill-on-bad-exit mpi ntasks ntasks-per-node output"
)
"""Options of srun that decide where replicas run and how they end, with spaces between."""
_OTHER_CLUSTERS = ("cluster", "clusters")


def ray_address(on: str, slurm: Sequence[str]) -> str:
    """The address of the Ray cluster that `--on` names. Empty: it names Slurm. Raises UsageError.

    `slurm`: the values of `--slurm`.
    """
    if on == SLURM:
        return ""
    if on != _RAY and not on.startswith(_CLIENT):
        raise UsageError(
            f"--on {on}: give slurm, ray (the cluster of this machine) or ray://HOST:PORT"
        )
    if slurm:
        raise UsageError(f"--slurm {slurm[0]}: is for --on slurm: leave it out")
    return "auto" if on == _RAY else on


def make_ray(cache: Path, say: environments.Say) -> None:
    """Make Ray's environment, if it is missing. Raises EnvironmentFailure."""
    lock = environments.LOCKS / f"{_RAY_ENVIRONMENT}.txt"
    directory = cache / "environments" / _RAY_ENVIRONMENT
    environments.make(directory, [lock], environments.installer(), say)


def check_slurm(*programs: str) -> None:
    """Raises EnvironmentFailure if this machine lacks one of these commands of Slurm."""
    for name in programs:
        if shutil.which(name) is None:
            raise EnvironmentFailure(
                f"--on slurm: there is no {name} on PATH: run this command where you submit jobs"
            )


def slurm_options(texts: Iterable[str], program: str, ours: str) -> dict[str, str]:
    """`partition=gpu,gpus=1` as long option of `program` → value. A part without `=` belongs to the
    value before it. Raises UsageError.

    `ours`: options that this harness sets, with spaces between.
    """
    options: dict[str, str] = {}
    for text in texts:
        for part in re.split(r",(?=[^,]*=)", text):
            option = _OPTION.fullmatch(part)
            if not option or not part.isprintable():
                raise UsageError(
                    f"--slurm {text}: give long options of {program} as NAME=VALUE, such as"
                    " partition=gpu,gpus=1"
                )
            name, value = option.groups()
            if name in ours.split():
                raise UsageError(f"--slurm {text}: {name} is set for each job: leave it out")
            if name in _OTHER_CLUSTERS:
                raise UsageError(f"--slurm {text}: jobs run only on this cluster: leave it out")
            options[name] = value
    return options


def ray_tasks(cache: Path) -> tuple[str, ...]:
    """The program `harness.cluster.ray_tasks`, in Ray's environment."""
    python = cache / "environments" / _RAY_ENVIRONMENT / "bin" / "python"
    return (str(python), "-P", "-m", "harness.cluster.ray_tasks")


def launch_command(
    on: str, slurm: Sequence[str], cache: Path, used: int, count: int, resource: str
) -> tuple[str, ...]:
    """`Launch.command` for the first `used` of `count` replicas. Each node has equally many of all.
    Raises UsageError.

    Args:
        on: the value of `--on`.
        slurm: the values of `--slurm`.
        cache: the folder of environments.
        resource: what each replica has for itself: an accelerator (GPU), cores (CPU) or nothing
            (none).
    """
    address = ray_address(on, slurm)
    if address:
        return (*ray_tasks(cache), "replicas", address, resource, f"{used}/{count}")
    options = slurm_options(slurm, "srun", _OF_STEPS)
    nodes = options.pop("nodes", os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    if not nodes.isdecimal() or not int(nodes) or count % int(nodes):
        raise UsageError(
            f"--replicas {count}: does not give each of {nodes} nodes as many replicas: give a"
            " multiple of the nodes, or --slurm nodes=N"
        )
    each = count // int(nodes)
    # The shell in which the command is typed may be a step that has all of the allocation.
    is_inside = "SLURM_JOB_ID" in os.environ
    script = f'export {NODE}="$SLURMD_NODENAME"; exec "$@" "$SLURM_PROCID" "$SLURM_LOCALID" {each}'
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
        *(["--overlap"] if is_inside else ["--exclusive", "--mem=0"]),
        *(f"--{name}={value}" for name, value in options.items()),
        *(["--gpus-per-task=1"] if resource == "GPU" else []),
        *([] if resource == "CPU" else ["--overcommit"]),
        *("sh", "-c", script, "replica"),
    )
