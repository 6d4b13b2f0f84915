"""The log of a training in the format of MLPerf Training (`:::MLLOG`). The harness writes it. The
audit computes it again and compares.

Keys and their order are those of the rules of the package mlperf-logging. The log describes the
timed run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from compliance.training.steps import Steps, figures
from formats.job import Job
from formats.record import Record

LABEL = "Training steps, timed by this project. It is no result of MLPerf, and no time to train."
_METRIC = (
    "exp(-mean cross-entropy) on batches that are held out: the geometric mean of the chances that"
    " the model gives to their labels"
)
_METRIC_OF_FEATURES = "exp(-mean squared error) on batches that are held out"
_METRIC_OF_LOSSES = "exp(-mean loss) on batches that are held out, by the losses {loss}"
_PRECISIONS = {"float32": "fp32", "tf32": "tf32", "bfloat16": "bfloat16", "float16": "fp16"}
_POINT, _START, _STOP = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"


def lines(steps: Steps, record: Record, job: Job) -> list[str]:
    """The lines of the log, each with its line end.

    Args:
        steps, job: of the performance test.

    Raises KeyError, TypeError or ValueError if a required value is missing or wrong.
    """
    events = _events(steps, record, job)
    return [f"{LABEL}\n", *(f":::MLLOG {json.dumps(event)}\n" for event in events)]


def accuracy(steps: Steps) -> float:
    """Compute the log's eval_accuracy: exp(-mean loss) on held-out batches. The value is between 0
    and 1; see `metric`.
    """
    return math.exp(-sum(steps.held_out) / len(steps.held_out))


def metric(record: Record) -> str:
    """Return the meaning of `accuracy` in words. If only a model's image encoder is trained, the
    loss is the mean squared error. A user's own file has its own losses.
    """
    if record.training and record.training.loss:
        return _METRIC_OF_LOSSES.format(loss=record.training.loss)
    return _METRIC_OF_FEATURES if record.training and record.training.part else _METRIC


def _events(steps: Steps, record: Record, job: Job) -> Iterator[dict[str, Any]]:
    def event(
        kind: str, at_ns: int, key: str, value: Any = None, **metadata: Any
    ) -> dict[str, Any]:
        return {
            "namespace": "",
            "time_ms": (steps.began_unix_ns + at_ns - steps.began_ns) // 1_000_000,
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": {"file": "raw/performance/steps.json", "lineno": 1, **metadata},
        }

    begun = {
        "first_epoch_num": 1,
        "epoch_count": 1,
        "samples_count": (steps.total - steps.count) * steps.batch_size,
    }
    trained = {
        "first_epoch_num": 1,
        "epoch_num": 1,
        "samples_count": steps.total * steps.batch_size,
    }
    yield event(_POINT, steps.began_ns, "cache_clear", False)
    yield event(_START, steps.began_ns, "init_start")
    for key, value in _settings(steps, record, job):
        yield event(_POINT, steps.began_ns, key, value)
    yield event(_STOP, steps.started_ns, "init_stop")  # the first two steps build and compile
    yield event(_START, steps.started_ns, "run_start")
    yield event(_START, steps.started_ns, "block_start", **begun)
    ends_ns = (*steps.marks_ns[:-1], steps.closed_ns)
    times_ns = steps.times_ns.tolist() if steps.seen else ()
    number = steps.total - steps.count
    for at_ns, step_ns in zip(ends_ns, times_ns, strict=False):
        number += 1
        step = {"step_num": number, "samples_count": number * steps.batch_size}
        yield event(_POINT, at_ns, "tracked_stats", {"step_time_ms": step_ns / 1e6}, **step)
    whole = figures(steps)
    statistics = {
        "throughput": whole["samples_per_second"],
        "step_time_ms": whole["ms_per_step"],
        "train_loss": steps.losses[-1],
    }
    yield event(
        _POINT, steps.closed_ns, "tracked_stats", statistics, step_num=steps.total, **trained
    )
    yield event(_STOP, steps.closed_ns, "block_stop", **trained)
    yield event(_START, steps.evaluation_started_ns, "eval_start", **trained)
    yield event(
        _POINT,
        steps.evaluation_ended_ns,
        "eval_accuracy",
        accuracy(steps),
        metric=metric(record),
        **trained,
    )
    yield event(_STOP, steps.evaluation_ended_ns, "eval_stop", **trained)
    yield event(_STOP, steps.evaluation_ended_ns, "run_stop", status="success", **trained)


def _settings(steps: Steps, record: Record, job: Job) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of each setting of the training. A key is mlperf-logging's constant if
    there is one.
    """
    cell, training, config = record.cell, record.training, job.workload.config
    if training is None:
        raise ValueError("record.json names no training")
    optimizer, precision = config["optimizer"], _PRECISIONS[cell.precision]
    yield "submission_org", record.submitter
    processor = record.accelerator.name if record.accelerator else record.machine.cpu
    yield "submission_platform", f"{cell.sut} on {cell.device}, {processor}"
    yield "submission_division", "open"
    yield "submission_benchmark", training.benchmark
    yield "submission_status", "research"
    yield "config_filename", "raw/performance/job.json"
    if training.seed is not None:
        yield "seed", training.seed
    yield "global_batch_size", steps.batch_size
    yield "micro_batch_size", steps.batch_size
    yield "gradient_accumulation_steps", 1
    if cell.seq_len is not None:
        yield "max_sequence_length", cell.seq_len
    yield "train_samples", steps.total * steps.batch_size
    yield "eval_samples", len(steps.held_out) * steps.batch_size
    numbers = dict(optimizer)
    kind = str(numbers.pop("name", "adamw")).lower()
    yield "opt_name", kind
    if "learning_rate" in numbers:
        yield "opt_base_learning_rate", numbers.pop("learning_rate")
    for name, value in numbers.items():
        yield f"opt_{kind}_{name}", value
    for key, value in config.get("lora", {}).items():
        yield f"lora_{key}", value
    # There is only one device, so nothing is communicated in another precision.
    for part in ("linear", "attn", "comm"):
        yield f"lowest_numerical_precision_in_{part}", precision
    for kind in ("tensor", "pipeline", "context", "expert"):
        yield f"{kind}_parallelism", 1
