"""Processes of a SUT's own environment, for tests that look at real frameworks."""

import atexit
import json
import os
import select
import subprocess
from contextlib import suppress
from dataclasses import asdict

from formats.writing import write_json
from harness.execution import environments
from harness.inputs import checkpoint, models
from scenarios.worker.child import end_with_parent
from sut.contract import Workload
from sut.registry import spec_of


def workload(sut, model, size, folder, batch_size, **buckets):
    """The float32 `Workload` of a checkpoint in `folder`, as JSON. `buckets`: `prompt_buckets` and
    `new_token_buckets`.
    """
    spec = spec_of(sut)
    config = {"model": dict(size.config), "classes": dict(model.classes), **buckets}
    content = Workload(
        model=model.name,
        task=model.task,
        config=config,
        checkpoint=folder,
        precision="float32",
        batch_size=batch_size,
        device="cpu",
        backend=spec.backend,
        execution=spec.execution,
    )
    return {**asdict(content), "checkpoint": str(folder)}


def tiny_workload(sut, name, folder):
    """The `workload` of a model at size tiny: prompts of 9 tokens, 6 new ones. Its checkpoint is
    made in `folder`.
    """
    model = models.load(name)
    size = model.sizes["tiny"]
    made = checkpoint.ensure(model, size, folder).path
    return workload(sut, model, size, made, 3, prompt_buckets=[9], new_token_buckets=[6])


def run_module(python, module, sut, specification, content):
    """Write the specification as JSON and run `python -m module specification` with the variables
    of `sut`.

    The module runs in a fork of a process that has imported the framework. That process stays for
    the next call with the same interpreter and variables. A call with others ends it first, so
    there is never more than one.
    """
    write_json(specification, content)
    if _processes and not _processes[0].serves(python, sut):
        end_process()
    if not _processes:
        atexit.register(end_process)
        _processes.append(FrameworkProcess(python, sut))
    _processes[0].run(module, specification)


def answer(python, cell, sut, program="benchmarks.answers", **more):
    """Write the answers of a SUT, or of the reference, to the cell's inputs in float32. `more` is
    added to the program's specification.
    """
    precision = more.pop("precision", "float32")
    content = cell.specification(sut, precision, **more)
    run_module(python, program, sut, cell.folder / "spec.json", content)


def end_process():
    """End the process that `run_module` left, if there is one."""
    while _processes:
        _processes.pop().end()


class FrameworkProcess:
    """A process of tests.support.framework_process. It ends with the process of the tests, even if
    that is killed.
    """

    def __init__(self, python, sut):
        self.python = python
        self.variables = spec_of(sut).process_env
        self._process = subprocess.Popen(
            [str(python), "-m", "tests.support.framework_process", sut],
            cwd=environments.ROOT,
            env={**_FASTER, **os.environ, **self.variables, "PYTHONPATH": str(environments.ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        )

    def serves(self, python, sut):
        """Whether it is alive and has the interpreter and the variables of this SUT."""
        same = self.python == python and self.variables == spec_of(sut).process_env
        return same and self._process.poll() is None

    def run(self, module, specification):
        """Run the module. Raises AssertionError with the end of its output if it fails, and
        TimeoutError after ten minutes.
        """
        log = specification.with_suffix(".log")
        task = {"module": module, "specification": str(specification), "log": str(log)}
        with suppress(BrokenPipeError):  # the answer is empty then
            self._stdin.write(f"{json.dumps(task)}\n")
            self._stdin.flush()
        code = self._answer()
        if not code:
            self._process.wait()
            raise AssertionError("the process of the framework has ended")
        assert code == "0", f"exit code {code}: {log.read_text()[-3000:]}"

    def end(self):
        """End it, and what it runs."""
        self._process.kill()
        self._process.communicate()

    @property
    def _stdin(self):
        assert self._process.stdin
        return self._process.stdin

    def _answer(self):
        """The line that it writes next, or nothing if it has ended."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], _PATIENCE_S)[0]:
            self._process.kill()
            raise TimeoutError(f"no answer in {_PATIENCE_S} s")
        return self._process.stdout.readline().strip()


# XLA's compiler optimises longer than a model of size tiny computes.
_FASTER = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
_PATIENCE_S = 600
_processes = []
"""The process that `run_module` left: one or none."""
