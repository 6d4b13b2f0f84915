"""Reads the limits of the control groups of this process: versions 1 and 2, nested, and mixed.

A limit of a group holds for all groups within it, so the tightest one of the chain counts. Linux
describes the files in https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")  # of the system; a test makes one up
_UNLIMITED_BYTES = 1 << 60  # version 1 writes 9223372036854771712 for a group without a limit


def processors() -> float | None:
    """Return how many processors the groups of this process may use. None: no group has a quota."""
    quotas = []
    for group in _chain("cpu"):
        quota, _, period = text(group / "cpu.max").partition(" ")
        if not period:
            quota = text(group / "cpu.cfs_quota_us")
            period = text(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_bytes() -> int | None:
    """Return how many bytes of memory the groups may use. None: no group has a limit."""
    limits = map(_limit_bytes, _chain("memory"))
    return min(filter(None, limits), default=None)


def available_bytes() -> int | None:
    """Return how many bytes the groups may still take. None: no group has a limit.

    Pages of files that were not read lately (`inactive_file`) count as free, because the kernel
    gives them up.
    """
    found = []
    for group in _chain("memory"):
        limit = _limit_bytes(group)
        held = _first(group, "memory.current", "memory.usage_in_bytes")
        if limit and held.isdigit():
            stat = _stat(group)
            kept = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            found.append(limit - int(held) + kept)
    return min(found, default=None)


def oom_kills() -> int:
    """Return how many processes of the own group the kernel has killed for want of memory."""
    for group in _chain("memory"):
        for line in _first(group, "memory.events", "memory.oom_control").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _limit_bytes(group: Path) -> int | None:
    """The limit of one group. None: it has none."""
    limit_text = _first(group, "memory.max", "memory.limit_in_bytes")
    if not limit_text.isdigit():
        return None
    # Version 1 also reports the limits of groups that this process does not see.
    limit = min(int(limit_text), _stat(group).get("hierarchical_memory_limit", _UNLIMITED_BYTES))
    return limit if limit < _UNLIMITED_BYTES else None


def _stat(group: Path) -> dict[str, int]:
    lines = text(group / "memory.stat").splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def _chain(controller: str) -> Iterator[Path]:
    """Yield the folders of the groups with a controller, from the own group up to the mount."""
    paths: dict[str, str] = {}
    for line in text(ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    for line in text(ROOT / "proc/self/mountinfo").splitlines():
        own, _, of_system = line.partition(" - ")
        kind, _, options = of_system.split()[:3]
        if kind == "cgroup2":
            name = ""
        elif kind == "cgroup" and controller in options.split(","):
            name = controller
        else:
            continue
        _, _, _, top, mount = own.split()[:5]
        folder = ROOT / mount.lstrip("/")
        below = _below(folder, paths.get(name, "/"), top)
        yield from (folder / below, *(folder / parent for parent in below.parents))


def _below(folder: Path, path: str, top: str) -> Path:
    """Return the own group's path below the folder at which the group `top` is mounted.

    A container may see another part of the tree than the one that `path` names. Then it is the
    longest end of the path that exists there, or the mount itself.
    """
    inside = Path(path).is_relative_to(top)
    parts = Path(path).relative_to(top if inside else "/").parts
    ends = [Path(*parts[start:]) for start in range(len(parts) + 1) if ".." not in parts[start:]]
    return next((end for end in ends if (folder / end).is_dir()), Path())


def _first(group: Path, *names: str) -> str:
    """The content of the first of these files that is there."""
    return next(filter(None, (text(group / name) for name in names)), "")


def text(path: Path) -> str:
    """The content of a file of the system. Empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
