"""The parameters that each device holds, in the evidence of a model that is split on several."""

from __future__ import annotations

from formats.evidence import Evidence


def parts(evidence: Evidence) -> list[tuple[str, int]]:
    """(device, bytes of its parameters) of each shard. Empty if the evidence has no such list."""
    shards = evidence.detail.get("shards")
    if not isinstance(shards, list):
        return []
    found = []
    for each in shards:
        size = each.get("bytes") if isinstance(each, dict) else None
        if type(size) is not int or size < 0:
            return []
        found.append((str(each.get("device")), size))
    return found


def at_once(evidence: Evidence, count: int) -> int:
    """How many of `count` shards multiply with processors or a device of their own. The host
    devices of JAX (`cpu:0`, `cpu:1`, …) share all threads.
    """
    share_threads = any(device.startswith("cpu:") for device, _ in parts(evidence))
    return 1 if share_threads else count


def words(evidence: Evidence) -> str:
    """The number of devices that hold parameters, and the bytes of each, in words."""
    found = parts(evidence)
    sizes = ", ".join(f"{size / 1e6:.4g} MB" for _, size in found)
    return f"{len(found)} devices ({sizes})"
