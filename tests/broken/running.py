"""Runs broken SUTs as a worker does, in the environment of their framework. It knows no framework
and no audit.

A case is a function of a SUT's module. It makes a SUT of a workload, with one mistake in it; its
docstring says the mistake. The cases of `SHARED` and `ROUNDED` change the SUT that the module's
`load` makes. Each case runs in a fork of one process that has only imported the framework, so that
what a case switches or compiles is gone with it. Where `isolated` is false they share the process:
JAX compiles each small program of a model's loading once then, which is most of a case's time.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from scenarios.worker.queries.streaming import Streamed
from scenarios.worker.watching import evidence
from sut.contract import Workload
from sut.evidence import generated_files


def make_inputs(task, rows, seed):
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


def run_test(name, case, workload):
    """Warm-up, evidence, a test of other inputs of the same shapes, evidence of one batch more;
    with the answers of the test.
    """
    rows = (2, 3) if name.endswith("two_shapes") else (2,)
    sut = case(workload)
    if name in ("honest", "in_prepare"):
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


def main(module, first=(), isolated=True):
    """Run the cases that the specification names.

    The specification has the SUT, and for each model its workload and the names of cases. Its
    folder gets a JSON file for each of these: "SUT model case.json".

    Args:
        module: name → case; also `load` and `replace_weights`.
        first: the cases that run before the others.
    """
    specification = Path(sys.argv[1])
    content = json.loads(specification.read_text())
    order = [*first, *SHARED, *ROUNDED, *module]
    run = _fork if isolated else _run
    for model, names in content["cases"].items():
        fields = content["workloads"][model]
        workload = Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])})
        for name in sorted(names, key=order.index):
            file = specification.with_name(f"{content['sut']} {model} {name}.json")
            run(partial(run_test, name, _case(module, name), workload), file)


def _case(module, name):
    if name in module:
        return module[name]
    load = module["load"]
    if name in ROUNDED:
        return lambda workload: module["replace_weights"](load(workload), ROUNDED[name])
    return lambda workload: SHARED[name](load(workload))


def _fork(test, file):
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        if not file.exists():
            code = os.waitstatus_to_exitcode(status)
            file.write_text(json.dumps({"error": f"the process ended with {code}"}))
        return
    _run(test, file)
    generated_files.remove()
    os._exit(0)


def _run(test, file):
    try:
        result = test()
    except Exception as error:  # noqa: BLE001, what ends a worker is a result here
        result = {"error": f"{type(error).__name__}: {error}"}
    file.write_text(json.dumps(result))


def warm(sut):
    """The SUT after its first batch."""
    sut.predict(sut.prepare(make_inputs(sut.workload.task, 2, 1)))
    return sut


def predict_in_prepare(sut):
    """prepare runs the model."""
    own = sut.prepare

    def prepare(inputs):
        prepared = own(inputs)
        sut.predict(prepared)
        return prepared

    sut.prepare = prepare
    return sut


def keep_answers(sut):
    """predict answers from a memo what it has answered before."""
    own, memo = sut.predict, {}

    def predict(batch):
        key = b"".join(np.ascontiguousarray(v).tobytes() for v in batch.values())
        if key not in memo:
            memo[key] = own(batch)
        return memo[key]

    sut.predict = predict
    return sut


def padded_to_8(sut):
    """predict gives the model batches of 8 rows, and cuts the answers."""
    own, to_host = sut.predict, sut.to_host

    def predict(batch):
        count = len(next(iter(batch.values())))
        return own({k: np.resize(v, (8, *v.shape[1:])) for k, v in batch.items()}), count

    sut.predict = predict
    sut.to_host = lambda ticket: {k: v[: ticket[1]] for k, v in to_host(ticket[0]).items()}
    return sut


def sort_rows(sut):
    """predict sorts the rows by their lengths, and to_host puts the answers back."""
    own, to_host = sut.predict, sut.to_host

    def predict(batch):
        order = np.argsort(batch["attention_mask"].sum(1), kind="stable")
        return own({k: v[order] for k, v in batch.items()}), np.argsort(order)

    sut.predict = predict
    sut.to_host = lambda ticket: {
        k: np.ascontiguousarray(v[ticket[1]]) for k, v in to_host(ticket[0]).items()
    }
    return sut


def keep_rows(sut):
    """predict computes the first half of the rows, and takes those of the others from a memo if it
    has answered them before.
    """
    own, to_host, memo = sut.predict, sut.to_host, {}

    def predict(batch):
        half = len(batch["input_ids"]) // 2
        key = batch["input_ids"][half:].tobytes()
        if key not in memo:
            memo[key] = {k: v[half:] for k, v in to_host(own(batch)).items()}
            return to_host(own(batch))
        first = to_host(own({k: v[:half] for k, v in batch.items()}))
        return {k: np.concatenate([v, memo[key][k]]) for k, v in first.items()}

    sut.predict, sut.to_host = predict, lambda answers: answers
    return sut


def around(sut, context):
    """Each call is made within a context of the framework."""
    own = sut.predict

    def predict(batch):
        with context():
            return own(batch)

    sut.predict = predict
    return sut


def stream_from_a_thread(sut):
    """A thread generates, and a queue hands over the tokens, as Transformers documents it with
    TextIteratorStreamer.
    """
    own = sut.stream

    def stream(batch, on_step):
        steps = SimpleQueue()
        is_open = [True]

        def on_thread(tokens):
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


def join_batches(sut, count=4):
    """Keeps `count` batches in flight and computes them as one."""
    own, to_host, waiting = sut.predict, sut.to_host, []

    def to_host_of_one(ticket):
        if not ticket[1]:
            joined = {k: np.concatenate([batch[k] for batch, _ in waiting]) for k in ticket[0]}
            answers = to_host(own(joined))
            rows = len(next(iter(answers.values()))) // len(waiting)
            for place, (_, part) in enumerate(waiting):
                part.update({k: v[place * rows : (place + 1) * rows] for k, v in answers.items()})
            waiting.clear()
        return ticket[1]

    def predict(batch):
        waiting.append((batch, {}))
        return waiting[-1]

    sut.predict, sut.to_host, sut.in_flight = predict, to_host_of_one, count
    return sut


def watch_another_call(sut):
    """evidence watches a call of its own choosing."""
    own, batch = sut.evidence, sut.prepare(make_inputs(sut.workload.task, 2, 1))
    sut.evidence = lambda call: own(lambda: sut.to_host(sut.predict(batch)))
    return sut


def watch_twice(sut):
    """evidence makes the call once to warm up and once to watch it."""
    own = sut.evidence

    def evidence(call):
        call()
        return own(call)

    sut.evidence = evidence
    return sut


def report_constants(sut):
    """evidence makes the call and reports what it saw the first time."""
    own, first = sut.evidence, []

    def evidence(call):
        if first:
            call()
        else:
            first.append(own(call))
        return first[0]

    sut.evidence = evidence
    return sut


def to_bfloat16(weights):
    return ((np.ascontiguousarray(weights).view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


def to_int8(weights):
    scale = np.abs(weights).max() / 127
    return np.round(weights / scale).astype(np.float32) * scale


SHARED = {
    "honest": lambda sut: sut,
    "honest_in_two_shapes": lambda sut: sut,
    "honest_streamed_from_a_thread": stream_from_a_thread,
    "honest_padded_to_8": padded_to_8,
    "honest_sorted": sort_rows,
    "memo": keep_answers,
    "joined": join_batches,
    "half_of_the_rows_kept": keep_rows,
    "another_call_watched": watch_another_call,
    "watched_twice": watch_twice,
    "constants": report_constants,
}
"""Case → the change of the SUT. A module may have another function of that name."""
ROUNDED = {"weights_through_bfloat16": to_bfloat16, "weights_through_int8": to_int8}
"""Case → how the weights were saved."""
