"""The documents of a submission that are computed from record.json: the system description and
measurements.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from formats.cell import INT8, SHARDS, UNKNOWN, Cell
from formats.record import Record

LABEL = "Unofficial: not verified by MLCommons, not an MLPerf result."
NOT_REPORTED = "N/A"
STACK = ("numpy", "mlcommons-loadgen")
"""Packages that the system description lists after the frameworks."""
BY_HAND = (
    "host_processor_interconnect",
    "host_memory_configuration",
    "host_networking",
    "host_networking_topology",
    "cooling",
    "accelerator_frequency",
    "accelerator_host_interconnect",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "accelerator_memory_configuration",
    "accelerator_on-chip_memories",
)
"""The fields of the system description that no program knows. `--system` gives them."""
_HELD = {"tf32": "float32"}
"""Precision → the dtype of its weights, if that has another name."""
_WEIGHT_FILES = {"keras_file": "a .keras file"}
"""Architecture → the format of its weights, if that is not safetensors."""
_SOURCES = {"seeded": "seeded random values", "none": "none is read"}


def system_id(record: Record) -> str:
    """The name of the system, without spaces and host name. It contains the accelerator or
    processor, the threads, and the SUT with its packages, replicas, threads, shards and switches,
    because the SUT's stack is part of the system.
    """
    host = record.accelerator.name if record.accelerator else record.machine.cpu
    slug = re.sub(r"[^A-Za-z0-9]+", "-", host).strip("-") or "unknown"
    cell = record.cell
    parts = [slug, f"{record.machine.threads}t", cell.sut]
    parts += [re.sub(r"[^A-Za-z0-9.]+", "-", text) for text in cell.packages]
    if cell.replicas:
        parts.append(f"replicas-{cell.replicas.replace('/', '-of-')}")
    if record.node_count > 1:
        parts.append(f"{record.node_count}-nodes")
    if cell.threads:
        parts.append(f"threads-{cell.threads}")
    if cell.shard_count > 1:
        parts.append(f"shards-{cell.shard_count}")
    if cell.tuned:
        parts += ["tuned", *cell.switches]
    return "-".join(parts)


def _copies(cell: Cell) -> str:
    """Sentences on the packages, the switches, the replicas and the shards. Empty if there are
    none.
    """
    text = ""
    if cell.packages:
        text += f" Packages (--with): {', '.join(cell.packages)}."
    if cell.tuned:
        text += f" Switches (--tuned): {', '.join(cell.switches)}."
    if cell.replicas:
        on = f", on {cell.cluster}" if cell.cluster else ""
        text += f" Replicas of the SUT (--replicas): {cell.replicas.replace('/', ' of ')}{on}."
    if cell.shard_count > 1:
        count = f"{cell.shard_count}, on {cell.device_count} devices"
        text += f" Shards of the model (--sut-option {SHARDS}): {count}."
    return text


def measurements(record: Record) -> dict[str, str]:
    """The values of measurements.json."""
    digests = record.digests
    cell = record.cell
    precision = cell.precision
    source = _SOURCES.get(
        digests.weights_source or "seeded", f"the user's {digests.weights_folder}"
    )
    quantized = cell.quantized
    dtype = INT8 if quantized else _HELD.get(precision, precision)
    cast = f"cast to {dtype} on loading; names and layouts mapped to the framework's own"
    if precision == UNKNOWN:
        cast = "those of the engine, which are not known"
    products = "; matrix products in tf32" if precision == "tf32" else ""
    if quantized:
        products = f"; quantised by the framework's own function ({quantized})"
    kind = _WEIGHT_FILES.get(record.architecture, "safetensors")
    input_types = sorted({array.dtype for array in record.inputs.values()})
    return {
        "input_data_types": ", ".join(input_types) or "int32",
        "retraining": "no",
        "weight_data_types": dtype,
        "starting_weights_filename": (
            f"{kind} ({source}, digest with config.json {digests.weights})"
        ),
        "weight_transformations": f"{cast}{products}",
    }


def system_description(
    record: Record, submitter: str, stack: Iterable[str] = (), driver: str = ""
) -> dict[str, str]:
    """The values of the system description, all of them strings. A value that this machine does not
    report is "N/A", if the rules accept it.

    Args:
        stack: the packages of `environment.versions` to name.
        driver: the kind of the accelerator's driver, in words.
    """
    m = record.machine
    gpu = record.accelerator
    versions = record.environment.versions
    packages = ", ".join(f"{name} {versions[name]}" for name in stack)
    threads = f"{m.usable_threads} usable threads"
    if m.group_limits:
        threads += f"; limited to {m.group_limits}"
    cell = record.cell
    if cell.threads:
        threads += f"; --threads {cell.threads}"
    fields: dict[str, object] = {
        "division": "open",
        "submitter": submitter,
        "status": "rdi",
        "system_type": record.official.suite if record.official else "edge",
        "system_type_detail": m.virtualisation and f"virtual machine ({m.virtualisation})",
        "system_name": system_id(record),
        "number_of_nodes": record.node_count,
        "host_processor_model_name": m.cpu,
        "host_processors_per_node": m.sockets or 1,
        "host_processor_core_count": m.cores,
        "host_processor_vcpu_count": m.threads,
        "host_processor_frequency": m.frequency_mhz and f"{m.frequency_mhz:.0f} MHz",
        "host_processor_caches": m.caches,
        "host_memory_capacity": m.memory_bytes and f"{m.memory_bytes / 2**30:.1f} GiB",
        "host_storage_capacity": m.disk_bytes and f"{m.disk_bytes / 2**30:.0f} GiB",
        "host_storage_type": m.disk_kind,
        "host_network_card_count": m.network_cards,
        # A cell runs on the first one that it may see, each replica on one of its own, and each
        # shard, too. Nodes have equally many replicas.
        "accelerators_per_node": cell.device_count // record.node_count if gpu else 0,
        "accelerator_model_name": gpu and gpu.name,
        "accelerator_memory_capacity": gpu and f"{gpu.memory_bytes / 2**30:.0f} GiB",
        "framework": f"{cell.sut}: {packages}",
        "operating_system": m.kernel and f"{m.operating_system}, {m.kernel}",
        "other_software_stack": (
            f"Python {versions.get('python')}" + (f", {driver} {gpu.driver}" if gpu else "")
        ),
        "hw_notes": f"governor {m.governor or 'not told'}; {threads}",
        "sw_notes": f"{LABEL}{_copies(cell)}",
        **{name: record.system.get(name) for name in BY_HAND},
    }
    return {
        key: NOT_REPORTED if value in (None, "") else str(value) for key, value in fields.items()
    }
