"""Runs broken SUTs as a worker does, in the environment of their framework. It knows no framework
and no audit.

A case makes a SUT with one mistake in it; its docstring says the mistake. Each case runs in a fork
of one process that has only imported the framework, so that what a case switches or compiles is
gone with it. Where `isolated` is false they share the process: JAX compiles each small program of a
model's loading once then, which is most of a case's time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from scenarios.worker.queries.streaming import Streamed
from scenarios.worker.watching import evidence
from sut.contract import Workload
from sut.evidence import generated_files

Arrays = dict[str, np.ndarray]
Case = Callable[[Workload], Any]


def make_inputs(task: str, rows: int, seed: int) -> Arrays:
    ids = (
        np.random.default_rng(seed)
        .integers(3, 1000, (rows, 9 if task == "generate" else 16))
        .astype(np.int32)
    )
    if task != "generate":
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return {
        "input_ids": ids,
        "prompt_length": np.full(rows, 9, np.int32),
        "max_new_tokens": np.full(rows, 6, np.int32),
    }


def run_test(case: Case, workload: Workload, *rows: int) -> dict[str, Any]:
    """Warm-up, evidence, a test of other inputs of the same shapes, evidence of one batch more;
    with the answers of the test.
    """
    sut = case(workload)
    if case.__name__ in ("honest", "in_prepare"):
        unmet = make_inputs(workload.task, rows[0], 3)
        evidence.watch_prepare(sut, lambda: sut.prepare(unmet))
    synthetic, inputs = (
        [sut.prepare(make_inputs(workload.task, n, seed)) for n in rows] for seed in (1, 2)
    )
    for batch in [*synthetic, *synthetic]:
        sut.to_host(sut.predict(batch))
    watched = [evidence.Watched(batch, n) for batch, n in zip(synthetic, rows, strict=True)]
    taker = evidence.Taker(sut, lambda requests: watched)
    taker.begin()
    answers = [sut.to_host(sut.predict(batch)) for batch in inputs][0]
    before, after = taker.end()
    return {
        "before": asdict(before),
        "after": asdict(after),
        "settings": dict(getattr(sut, "workload", workload).settings),
        "answers": {k: np.asarray(v).tolist() for k, v in answers.items()},
    }


def main(cases: Mapping[str, Mapping[str, tuple[Case, ...]]], *, isolated: bool = True) -> None:
    """Runs the cases (SUT → model → cases) that the specification names.

    The specification has the SUT, and for each model its workload and the names of cases. Its
    folder gets a JSON file for each of these: "SUT model case.json". all.json has the names of all
    cases of the SUT by model.
    """
    specification = Path(sys.argv[1])
    content = json.loads(specification.read_text())
    sut, folder = content["sut"], specification.parent
    run = _fork if isolated else _run
    for model, each in cases[sut].items():
        fields = content["workloads"][model]
        workload = Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])})
        for case in each:
            if case.__name__ in content["cases"].get(model, ()):
                run(case, workload, folder / f"{sut} {model} {case.__name__}.json")
    names = {model: [case.__name__ for case in each] for model, each in cases[sut].items()}
    (folder / "all.json").write_text(json.dumps(names))


def _fork(case: Case, workload: Workload, file: Path) -> None:
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        if not file.exists():
            file.write_text(
                json.dumps({"error": f"the process ended with {os.waitstatus_to_exitcode(status)}"})
            )
        return
    _run(case, workload, file)
    generated_files.remove()
    os._exit(0)


def _run(case: Case, workload: Workload, file: Path) -> None:
    try:
        result = run_test(
            case, workload, *((2, 3) if case.__name__.endswith("two_shapes") else (2,))
        )
    except Exception as error:  # noqa: BLE001, what ends a worker is a result here
        result = {"error": f"{type(error).__name__}: {error}"}
    file.write_text(json.dumps(result))


def keep_answers(sut: Any) -> Any:
    """predict answers from a memo what it has answered before."""
    own, memo = sut.predict, dict[bytes, Any]()

    def predict(batch: Any) -> Any:
        key = b"".join(np.ascontiguousarray(v).tobytes() for v in batch.values())
        if key not in memo:
            memo[key] = own(batch)
        return memo[key]

    sut.predict = predict
    return sut


def in_micro_batches(sut: Any, join: Callable[[list[Any]], Any]) -> Any:
    """predict computes the rows one by one. `join` makes one array of the outputs of several."""
    own = sut.predict

    def predict(batch: Any) -> Any:
        rows = range(len(next(iter(batch.values()))))
        return join([own({k: v[row : row + 1] for k, v in batch.items()}) for row in rows])

    sut.predict = predict
    return sut


def padded_to_8(sut: Any) -> Any:
    """predict gives the model batches of 8 rows, and cuts the answers."""
    own, to_host = sut.predict, sut.to_host

    def predict(batch: Any) -> Any:
        count = len(next(iter(batch.values())))
        return own({k: np.resize(v, (8, *v.shape[1:])) for k, v in batch.items()}), count

    sut.predict = predict
    sut.to_host = lambda ticket: {k: v[: ticket[1]] for k, v in to_host(ticket[0]).items()}
    return sut


def sort_rows(sut: Any) -> Any:
    """predict sorts the rows by their lengths, and to_host puts the answers back."""
    own, to_host = sut.predict, sut.to_host

    def predict(batch: Any) -> Any:
        order = np.argsort(batch["attention_mask"].sum(1), kind="stable")
        return own({k: v[order] for k, v in batch.items()}), np.argsort(order)

    sut.predict = predict
    sut.to_host = lambda ticket: {
        k: np.ascontiguousarray(v[ticket[1]]) for k, v in to_host(ticket[0]).items()
    }
    return sut


def keep_rows(sut: Any) -> Any:
    """predict computes the first half of the rows, and takes those of the others from a memo if it
    has answered them before.
    """
    own, to_host, memo = sut.predict, sut.to_host, dict[bytes, Any]()

    def predict(batch: Any) -> Any:
        half = len(batch["input_ids"]) // 2
        key = batch["input_ids"][half:].tobytes()
        if key not in memo:
            memo[key] = {k: v[half:] for k, v in to_host(own(batch)).items()}
            return to_host(own(batch))
        first = to_host(own({k: v[:half] for k, v in batch.items()}))
        return {k: np.concatenate([v, memo[key][k]]) for k, v in first.items()}

    sut.predict, sut.to_host = predict, lambda answers: answers
    return sut


def around(sut: Any, context: Callable[[], Any]) -> Any:
    """Each call is made within a context of the framework."""
    own = sut.predict

    def predict(batch: Any) -> Any:
        with context():
            return own(batch)

    sut.predict = predict
    return sut


def in_a_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which runs in a new thread and is waited for."""

    def run(*given: Any, **named: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(function, *given, **named).result()

    return run


def stream_from_a_thread(sut: Any) -> Streamed:
    """A thread generates, and a queue hands over the tokens, as Transformers documents it with
    TextIteratorStreamer.
    """
    own = sut.stream

    def stream(batch: Any, on_step: Callable[[np.ndarray], bool]) -> None:
        steps = SimpleQueue[Any]()
        is_open = [True]

        def on_thread(tokens: np.ndarray) -> bool:
            steps.put(tokens.copy())
            return is_open[0]

        with ThreadPoolExecutor(1) as pool:
            generated = pool.submit(own, batch, on_thread)
            generated.add_done_callback(lambda _: steps.put(None))
            while (tokens := steps.get()) is not None:
                is_open[0] = is_open[0] and on_step(tokens)
            generated.result()

    sut.stream = stream
    return Streamed(sut, ())


def join_batches(sut: Any, count: int = 4) -> Any:
    """Keeps `count` batches in flight and computes them as one."""
    own, to_host, waiting = sut.predict, sut.to_host, list[Any]()

    def to_host_of_one(ticket: Any) -> Any:
        if not ticket[1]:
            joined = {k: np.concatenate([batch[k] for batch, _ in waiting]) for k in ticket[0]}
            answers = to_host(own(joined))
            rows = len(next(iter(answers.values()))) // len(waiting)
            for place, (_, part) in enumerate(waiting):
                part.update({k: v[place * rows : (place + 1) * rows] for k, v in answers.items()})
            waiting.clear()
        return ticket[1]

    def predict(batch: Any) -> Any:
        waiting.append((batch, {}))
        return waiting[-1]

    sut.predict, sut.to_host, sut.in_flight = predict, to_host_of_one, count
    return sut


def watch_another_call(sut: Any) -> Any:
    """evidence watches a call of its own choosing."""
    own, batch = sut.evidence, sut.prepare(make_inputs(sut.workload.task, 2, 1))
    sut.evidence = lambda call: own(lambda: sut.to_host(sut.predict(batch)))
    return sut


def watch_twice(sut: Any) -> Any:
    """evidence makes the call once to warm up and once to watch it."""
    own = sut.evidence

    def evidence(call: Any) -> Any:
        call()
        return own(call)

    sut.evidence = evidence
    return sut


def report_constants(sut: Any) -> Any:
    """evidence makes the call and reports what it saw the first time."""
    own, first = sut.evidence, list[Any]()

    def evidence(call: Any) -> Any:
        if first:
            call()
        else:
            first.append(own(call))
        return first[0]

    sut.evidence = evidence
    return sut


def to_bfloat16(weights: np.ndarray) -> np.ndarray:
    return ((np.ascontiguousarray(weights).view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


def to_int8(weights: np.ndarray) -> np.ndarray:
    scale = np.abs(weights).max() / 127
    return np.round(weights / scale).astype(np.float32) * scale
