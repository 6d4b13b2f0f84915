"""The frameworks that compute in a worker: the facts that the harness, its SUTs and the audit need.

A new framework is a row here, the modules that the row names, and its packages in .importlinter.
"""

from __future__ import annotations

from dataclasses import dataclass

ENGINE = "engine"
"""The execution of a SUT that sends its requests to an engine, of which nothing else is known."""


@dataclass(frozen=True, kw_only=True)
class Framework:
    """The facts about one framework.

    Attributes:
        package: the package of Python that computes. A SUT's framework is the first row whose
            package it has.
        profiler: the module whose `record` runs a call under the framework's profiler.
        limits: the module with the functions of `sut.limits.framework.Framework`.
        keeps_programs: whether compiled programs (`sut.variables.keeping_kernels`) or converted
            models (`sut.converted_models`) are kept on disk.
        counters: the counters that its evidence always contains. Those that an execution is judged
            by must be there; evidence without them was not taken by the framework.
    """

    package: str
    profiler: str
    limits: str
    keeps_programs: bool = False
    counters: tuple[str, ...]


FRAMEWORKS = {
    # The runtimes are before PyTorch, from which they convert models.
    "ONNX Runtime": Framework(
        package="onnxruntime",
        profiler="sut.onnxruntime.timeline",
        limits="sut.limits.on_onnxruntime",
        keeps_programs=True,
        counters=("regions", "nodes_elsewhere", "flops"),
    ),
    "OpenVINO": Framework(
        package="openvino",
        profiler="sut.evidence.openvino_timeline",
        limits="sut.limits.on_openvino",
        counters=("regions", "flops"),
    ),
    "JAX": Framework(
        package="jax",
        profiler="sut.evidence.jax_timeline",
        limits="sut.limits.on_jax",
        keeps_programs=True,
        counters=("regions", "operators_that_compute", "host_callbacks", "flops"),
    ),
    "TensorFlow": Framework(
        package="tensorflow",
        profiler="sut.evidence.tensorflow_timeline",
        limits="sut.limits.on_tensorflow",
        counters=(
            "regions",
            "operators_that_compute",
            "products_left",
            "products_left_of_xla",
            "xla_clusters_run",
            "host_callbacks",
            "flops",
        ),
    ),
    "PyTorch": Framework(
        package="torch",
        profiler="sut.evidence.torch_timeline",
        limits="sut.limits.on_torch",
        keeps_programs=True,
        counters=("regions", "script_calls", "forward_passes", "flops"),
    ),
}
"""Name of a framework, as record.json has it → its facts."""
