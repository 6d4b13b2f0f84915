"""`--on` → the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.cluster.ray import Ray
from harness.cluster.slurm import Slurm, read_options
from harness.errors import UsageError
from sut.devices import DEVICES

SLURM = "slurm"
_RAY, _CLIENT = "ray", "ray://"


def named(
    on: str,
    slurm: Sequence[str],
    devices: Sequence[str],
    cache: Path,
    say: Callable[[str], None],
) -> Slurm | Ray:
    """Return the cluster that `--on` names. Raises UsageError.

    Args:
        slurm: the values of `--slurm`.
        devices: the values of `--device`, if there are any.
        cache: the folder of environments.
        say: prints what is made.
    """
    if on == SLURM:
        return Slurm(read_options(slurm))
    if slurm:
        raise UsageError(f"--slurm {slurm[0]}: is for --on slurm: leave it out")
    if on == _RAY or on.startswith(_CLIENT):
        accelerator = any(DEVICES[device].accelerator for device in devices)
        return Ray("auto" if on == _RAY else on, accelerator, cache, say)
    raise UsageError(f"--on {on}: give slurm, ray (the cluster of this machine) or ray://HOST:PORT")
