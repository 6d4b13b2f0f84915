"""The operations of a JAX program that was compiled for several shapes."""

import os
import subprocess

from harness.execution.environments import ROOT
from sut.registry import SUTS

_SCRIPT = """
import sys
import jax
import numpy as np
from sut.evidence import jax_programs

folder, *widths = sys.argv[1:]
jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax_programs.configure("cpu", "float32")
classify = jax.jit(lambda x: x @ x.T)
inputs = {int(width): np.ones((64, int(width)), np.float32) for width in widths}
for each in inputs.values():
    classify(each).block_until_ready()
found = jax_programs.watch(lambda: classify(inputs[32]).block_until_ready())
print(found["flops"])
"""


def test_a_program_that_was_found_on_disk_is_not_taken_for_a_smaller_one(interpreter, tmp_path):
    python = str(interpreter(SUTS["native-jax"].environment))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    flops = []
    for widths in (["32"], ["8", "16", "24", "32"]):
        command = [python, "-c", _SCRIPT, str(tmp_path / "cache"), *widths]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        flops.append(float(done.stdout.splitlines()[-1]))
    assert flops == [2 * 64 * 64 * 32] * 2
