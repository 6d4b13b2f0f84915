"""Makes what the worker of a SUT needs (`prepare`), and runs a job in one (`launch`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from formats.job import Job
from formats.outcome import WorkerOutcome
from harness.errors import EnvironmentFailure
from harness.execution import environments, pins
from harness.execution.environments import Environment
from harness.execution.loadgen_run import Reporter
from harness.execution.process import Worker
from harness.inputs import checkpoint, dataset, used_files
from harness.measurement import trained_file
from harness.measurement.attempt import Attempt
from harness.request import replicas
from harness.request.request import Request
from scenarios.worker.heartbeat import OnBeat
from sut.registry import spec_of

Seconds = dict[str, float]
"""Step → its seconds."""


def prepare(
    request: Request,
    reporter: Reporter,
    setup: Seconds,
    inputs: dataset.Inputs | None = None,
    started_monotonic_ns: int = 0,
) -> Attempt:
    """Make environment, weights and inputs of a cell, unless they exist. Raises HarnessError.

    Args:
        setup: gets the seconds of each step.
        inputs: those of the cell, if they are made already.
    """
    environment = environment_of(request, request.spec.environment, reporter, setup)
    if request.launch:
        with timed(setup, "cluster"):
            replicas.prepare(request.options, reporter.say)
    with timed(setup, "checkpoint"):
        weights = _checkpoint(request, reporter)
    if inputs is None:
        # The labels of a .keras file are known only when its framework has loaded it.
        if request.model.file and request.trains:
            with timed(setup, "description"):
                request = trained_file.described(request, weights, environment)
        with timed(setup, "inputs"):
            inputs = inputs_of(request)
    cell = request.cell(
        inputs.digest[:12] if request.options.dataset else None,
        weights.digest[:12],
        inputs.description.seq_len,
    )
    return Attempt(
        request=request,
        cell=cell,
        environment=environment,
        inputs=inputs,
        checkpoint=weights,
        setup_seconds=setup,
        started_monotonic_ns=started_monotonic_ns,
    )


def worker(prepared: Attempt) -> Worker:
    """A worker of the SUT."""
    return Worker(prepared.environment.python, prepared.process_env, prepared.zygotes)


def launch(prepared: Attempt, job: Job, watch: OnBeat) -> WorkerOutcome:
    """Run a job in a worker of its own."""
    with worker(prepared) as process:
        return process.run(job, watch)


def inputs_of(request: Request) -> dataset.Inputs:
    """Make the inputs of a cell, unless they exist. Raises HarnessError."""
    inputs = dataset.prepare(
        request.model,
        request.size,
        samples=request.samples,
        dataset=request.options.dataset,
        cache=request.options.cache,
        batch_size=request.batch_size,
        trains=request.trains,
        standard=request.inputs,
        given=request.given,
    )
    used_files.check(request.used)
    return inputs


def _checkpoint(request: Request, reporter: Reporter) -> checkpoint.Checkpoint:
    """Make the weights of a cell, unless they exist. Raises HarnessError."""
    if not request.spec.reads_weights:
        return checkpoint.NONE
    cache = request.options.cache
    if request.model.file:
        weights = checkpoint.of_file(request.model, cache)
    elif request.weights:
        weights = checkpoint.of_folder(request.weights, request.model, cache)
    else:
        weights = checkpoint.ensure(request.model, request.size, cache, reporter.say)
    used_files.check(request.used)
    return weights


def environment_of(request: Request, name: str, reporter: Reporter, setup: Seconds) -> Environment:
    """Make the environment of this name, unless it exists, or adopt the interpreter of --python.
    The seconds go into `setup`. Raises EnvironmentFailure.
    """
    if request.options.python and name != "core":
        environment = environments.adopt(
            request.options.python, name, request.device, request.options.cache
        )
        for note in environment.notes:
            reporter.say(f"--python: {note}")
        return environment
    place = (request.options.cache, name, request.device)
    with timed(setup, f"environment {name}"):
        return pins.ensure(*place, request.pins, reporter.say)


def reference_environment(
    request: Request,
    reference: str,
    environment: Environment,
    reporter: Reporter,
    setup: Seconds,
) -> Environment:
    """Return the environment of a reference, or `environment`, which is that of the SUT, if it is
    the same. It is the interpreter of --python if that has the needed packages. It never has
    packages of --with.
    """
    name = spec_of(reference).environment
    if name == request.spec.environment and not request.pins:
        return environment
    request = replace(request, pins=())
    try:
        return environment_of(request, name, reporter, setup)
    except EnvironmentFailure:
        if request.options.python is None:
            raise
        return environment_of(
            replace(request, options=replace(request.options, python=None)), name, reporter, setup
        )


@contextmanager
def timed(durations: Seconds, name: str) -> Iterator[None]:
    """Add the seconds of the block to `durations`, without those timed within it under another
    name.
    """
    start = time.monotonic()
    before = sum(durations.values())
    yield
    durations[name] = round(time.monotonic() - start - (sum(durations.values()) - before), 3)
