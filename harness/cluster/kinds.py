"""`--on` → the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.cluster.ray import Ray
from harness.cluster.slurm import OURS, Slurm
from harness.errors import UsageError
from harness.execution import clusters
from sut.devices import DEVICES


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
    if on == clusters.SLURM:
        return Slurm(clusters.slurm_options(slurm, "sbatch", OURS))
    if slurm:
        raise UsageError(f"--slurm {slurm[0]}: is for --on slurm: leave it out")
    address = clusters.ray_address(on)
    if not address:
        raise UsageError(clusters.UNKNOWN.format(on=on))
    accelerator = any(DEVICES[device].accelerator for device in devices)
    return Ray(address, accelerator, cache, say)
