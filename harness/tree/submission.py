"""Raw logs → open/<submitter>/…, the v6.1 layout: every file of it can be made again from record.json, reference.npz and raw/."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs
from compliance.rules import Rules
from compliance.scoring import accuracy
from formats.writing import write_json
from harness.execution.environments import ROOT
from harness.execution.machine import SOURCES
from harness.tree import compliance_folders
from sut.devices import DEVICES
from sut.registry import packages, recorded_names

LABEL = "Unofficial: not verified by MLCommons, not an MLPerf result."
_LOGS = ("mlperf_log_summary.txt", "mlperf_log_detail.txt")


Score = accuracy.Accuracy | str
"""How right the answers are, or a sentence where that cannot be told (no reference, a damaged log)."""


def write(directory: Path, rules: Rules, submitter: str) -> Score:
    """Write open/<submitter>/ anew; raw/ must hold both tests. → the score, which accuracy.txt tells."""
    record = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    cell, benchmark = record["cell"], record["benchmark"]
    root, accuracy_score = directory / "open" / submitter, score(directory, record)
    shutil.rmtree(directory / "open", ignore_errors=True)
    system = system_id(record)
    scenario = root / "results" / system / benchmark["name"] / cell["scenario"]
    for test, target in (("performance", scenario / "performance" / "run_1"), ("accuracy", scenario / "accuracy")):
        target.mkdir(parents=True)
        for name in _LOGS:
            shutil.copyfile(directory / "raw" / test / name, target / name)
    _write_accuracy(directory, accuracy_score, rules, scenario / "accuracy")
    compliance_folders.write(directory, record, rules, scenario, accuracy_score)
    shutil.copyfile(directory / "raw" / "performance" / "user.conf", scenario / "user.conf")
    write_json(scenario / "measurements.json", measurements(record))
    (scenario / "README.md").write_text(_readme(record), encoding="utf-8", errors="backslashreplace")
    write_json(root / "model_mapping.json", {benchmark["name"]: benchmark["official"]})
    (root / "systems").mkdir()
    write_json(root / "systems" / f"{system}.json", system_description(record, submitter))
    source = root / "src" / benchmark["name"]
    source.mkdir(parents=True)
    if record["mode"] == "submission":
        _copy_source(source)
    (source / "README.md").write_text(_source_readme(record), encoding="utf-8")
    return accuracy_score


def _copy_source(target: Path) -> None:
    """What anyone needs to run it again; the tests stay behind."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(ROOT / name, target / name)


def score(directory: Path, record: dict[str, Any]) -> Score:
    """The accuracy of the whole log against the reference; a sentence where it cannot be told."""
    if not (directory / "reference.npz").exists():
        return str(record["accuracy"].get("reason") or "no reference")
    raw, accuracy_record = directory / "raw" / "accuracy", record["accuracy"]
    answers = logs.read_accuracy(raw / "mlperf_log_accuracy.json")
    forced, own = (np.load(raw / name) if (raw / name).exists() else None for name in ("logits.npy", "own_logits.npy"))
    with np.load(directory / "reference.npz") as reference:
        try:
            kind, tolerance, keys = (accuracy_record[key] for key in ("score", "tolerance", "keys"))
            return accuracy.score(kind, answers.payloads, dict(reference), tolerance, keys, logits=forced, own=own)
        except ValueError as e:
            return f"not scored: {e}"


def _write_accuracy(directory: Path, accuracy_score: Score, rules: Rules, target: Path) -> None:
    """accuracy.txt with the whole log's hash, then the log cut as truncate_accuracy_log.py cuts it."""
    whole = (directory / "raw" / "accuracy" / "mlperf_log_accuracy.json").read_bytes()
    line = json.dumps({"accuracy": accuracy_score}) if isinstance(accuracy_score, str) else accuracy_score.line()
    (target / "accuracy.txt").write_text(f"{line}\nhash={hashlib.sha256(whole).hexdigest()}\n", encoding="utf-8")
    (target / "mlperf_log_accuracy.json").write_bytes(rules.truncation.cut(whole))


def system_id(record: dict[str, Any]) -> str:
    """No spaces, no host name: what matters of the machine, and the SUT, whose stack is part of the system."""
    machine = record["machine"]
    cards = _cards(record)
    host = cards[0]["name"] if cards else machine["cpu"]
    return f"{_slug(host)}-{machine['threads']}t-{record['cell']['sut']}"


def _cards(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The machine's accelerators, where the cell ran on one."""
    return list(record["machine"]["accelerators"]) if DEVICES[record["cell"]["device"]].accelerator else []


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "unknown"


def measurements(record: dict[str, Any]) -> dict[str, str]:
    """The values of measurements.json."""
    sources = {"seeded": "seeded random values", "user": f"the user's {record['digests'].get('weights_folder')}", "none": "none is read"}
    source = sources[record["digests"]["weights_source"]]
    precision = record["cell"]["precision"]
    dtype = "float32" if precision == "tf32" else precision
    products = "; matrix products in tf32" if precision == "tf32" else ""
    return {
        "input_data_types": ", ".join(sorted({array["dtype"] for array in record.get("inputs", {}).values()})) or "int32",
        "retraining": "no",
        "weight_data_types": dtype,
        "starting_weights_filename": f"safetensors ({source}, digest with config.json {record['digests']['weights']})",
        "weight_transformations": f"cast to {dtype} on loading; names and layouts mapped to the framework's own{products}",
    }


def system_description(record: dict[str, Any], submitter: str) -> dict[str, str]:
    """Every value a string. What this machine does not tell is "N/A" where the rules accept it."""
    m, cell = record["machine"], record["cell"]
    gpus = _cards(record)
    versions = record["environment"]["versions"]
    stack = ", ".join(f"{name} {versions[name]}" for name in recorded_names((*packages(), *STACK), versions).values())
    fields: dict[str, object] = {
        "division": "open",
        "submitter": submitter,
        "status": "rdi",
        "system_type": "edge",
        "system_type_detail": m["virtualisation"] and f"virtual machine ({m['virtualisation']})",
        "system_name": system_id(record),
        "number_of_nodes": 1,
        "host_processor_model_name": m["cpu"],
        "host_processors_per_node": m["sockets"] or 1,
        "host_processor_core_count": m["cores"],
        "host_processor_vcpu_count": m["threads"],
        "host_processor_frequency": m["frequency_mhz"] and f"{m['frequency_mhz']} MHz",
        "host_processor_caches": m["caches"],
        "host_processor_interconnect": None,
        "host_memory_capacity": f"{m['memory_bytes'] / 2**30:.1f} GiB",
        "host_memory_configuration": None,
        "host_storage_capacity": f"{m['disk_bytes'] / 2**30:.0f} GiB",
        "host_storage_type": m["disk_kind"],
        "host_networking": None,
        "host_networking_topology": None,
        "host_network_card_count": m["network_cards"],
        "accelerators_per_node": len(gpus[:1]),  # a cell runs on one, the first it may see
        "accelerator_model_name": gpus and gpus[0]["name"],
        "accelerator_memory_capacity": gpus and f"{gpus[0]['memory_bytes'] / 2**30:.0f} GiB",
        "accelerator_frequency": None,
        "accelerator_host_interconnect": None,
        "accelerator_interconnect": None,
        "accelerator_interconnect_topology": None,
        "accelerator_memory_configuration": None,
        "accelerator_on-chip_memories": None,
        "cooling": None,
        "framework": f"{cell['sut']}: {stack}",
        "operating_system": f"{m['operating_system']}, {m['kernel']}",
        "other_software_stack": f"Python {versions.get('python')}"
        + (f", {DEVICES[cell['device']].driver} {gpus[0]['driver']}" if gpus else ""),
        "hw_notes": f"governor {m['governor'] or 'not told'}; {m['usable_threads']} usable threads",
        "sw_notes": LABEL,
    }
    return {key: str(value) if value not in (None, [], "") else "N/A" for key, value in fields.items()}


STACK = ("numpy", "mlcommons-loadgen")
"""What stands in the system's description after the frameworks."""


def _readme(record: dict[str, Any]) -> str:
    cell, git = record["cell"], record["git"]
    return f"""# {record["benchmark"]["name"]} {cell["scenario"]} on {cell["sut"]}

{LABEL}

Repeat it, at revision {git["revision"]} of the harness{" with local changes" if git["dirty"] else ""}:

    cd {record["working_directory"]}
    {record["command"]}

Model {cell["model"]} {cell["size"]}, {cell["precision"]}, batch {cell["batch_size"]}, device {cell["device"]}.
Weights {record["digests"]["weights"]} ({record["digests"]["weights_source"]}),
the BLAKE3 of config.json and of the weights' files;
inputs sha256 {record["digests"]["inputs"]} ({record["qsl"]["samples"]} samples,
{record["qsl"]["dataset"] or record["cell"]["dataset"]}). LoadGen: {record["loadgen"]}.
Mapped to the official benchmark {record["benchmark"]["official"]} for the checkers' tables only: model and data are not its own.
"""


def _source_readme(record: dict[str, Any]) -> str:
    return f"""# Source of {record["benchmark"]["name"]}

The harness that measured it: `sut/` holds the System Under Test, `scenarios/` the LoadGen side,
`formats/` the files that both write, `environments/` the locked requirements
(sha256 of the files in `scenarios/`, `sut/` and `formats/`: {record["git"]["worker_source_sha256"]}).
The README.md of each result has its command and revision.
"""
