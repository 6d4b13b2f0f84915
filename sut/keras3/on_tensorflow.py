"""Keras on TensorFlow: the measured call is a tf.function, which XLA compiles as a whole (xla) or TensorFlow's executor runs (graph)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.profiler.internal._pywrap_profiler import ProfilerSession  # the public one writes its trace to files

from sut import precision
from sut.contract import Unsupported

EXECUTIONS = ("xla", "graph")
# Where Keras and KerasHub keep the tf.function of each measured call.
_FUNCTIONS = {"predict_on_batch": "predict_function", "generate": "generate_function"}
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
_TRACE = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 0}
# TensorFlow names a traced function so. What else is run from Python is a single operator; constants are arguments that are handed over.
_FUNCTION_RUN = re.compile(rb"EagerLocalExecute: __inference_")
_OPERATOR_RUN = re.compile(rb"EagerLocalExecute: (?!__inference_|_EagerConst|Identity)")
_XLA_RUN = re.compile(rb"[CG]puExecutable::ExecuteAsyncOnStream")


def configure(device: str, target: str) -> None:
    """Choose the device and the precision of float32 products. Raises Unsupported where TensorFlow finds no such device."""
    gpus = tf.config.list_physical_devices("GPU")
    if device == "cuda" and not gpus:
        raise Unsupported("--device cuda: TensorFlow finds no such device (no driver, no GPU, or a build without it); --device cpu runs")
    tf.config.set_visible_devices(gpus[:1] if device == "cuda" else [], "GPU")
    if device == "cuda":
        tf.config.experimental.set_memory_growth(gpus[0], True)  # without it TensorFlow takes all memory at its start
    tf.config.experimental.enable_tensor_float_32_execution(target == "tf32")


def synchronise(model: Any) -> None:
    """Wait for all devices."""
    tf.test.experimental.sync_devices()


def product(dtype: str) -> np.ndarray:
    """A probe product in `dtype`, as float32."""
    a, b = (tf.cast(tf.constant(x), dtype) for x in precision.operands())
    return tf.cast(a @ b, "float32").numpy()


def watch(model: Any, call: str, again: Callable[[], Any]) -> dict[str, Any]:
    """`graphs`: traces of the measured call's tf.function, as long as one more call really enters it. `xla_programs`: those of them that
    TensorFlow's runtime must hand to XLA as a whole: it runs such a function no other way, and fails if XLA cannot.

    Executions of XLA programs alone would not tell: some of Keras' operators (`ops.slice_update`) are small XLA programs in a graph, too.
    """
    function = getattr(model, _FUNCTIONS[call])
    traces = list(_traces(function))
    session = ProfilerSession()
    session.start("", _TRACE)
    again()
    synchronise(model)
    trace = session.stop()
    runs = len(_FUNCTION_RUN.findall(trace))
    return {
        "graphs": len(traces) if runs else 0,
        "xla_programs": sum(_compiled_whole(each) for each in traces) if runs else 0,
        "functions_run": runs,
        "operators": len(_OPERATOR_RUN.findall(trace)),
        "xla_programs_run": len(_XLA_RUN.findall(trace)),
        "product_bits": _product_bits(traces),
        "run_functions_eagerly": tf.config.functions_run_eagerly(),
    }


def _traces(function: Any) -> Iterator[Any]:
    """The concrete functions of a tf.function; a function that is not one (Keras' run_eagerly) has none."""
    if hasattr(function, "experimental_get_tracing_count") and function.experimental_get_tracing_count():
        yield from function._list_all_concrete_functions()


def _compiled_whole(trace: Any) -> bool:
    """Whether the function, or the one it wraps (Keras' predict does), carries the runtime's order to compile it."""
    inner = trace.graph.as_graph_def().library.function
    return any(f.attr["_XlaMustCompile"].b for f in (trace.function_def, *inner))


def _product_bits(traces: list[Any]) -> dict[str, int]:
    """Bits of the operands of the traces' matrix products → how many products there are; a loop's body counts once."""
    bits: Counter[str] = Counter()
    for trace in traces:
        graph = trace.graph.as_graph_def()
        for node in (*graph.node, *(node for f in graph.library.function for node in f.node_def)):
            if node.op in _PRODUCTS:
                bits[str(8 * tf.dtypes.as_dtype(node.attr["T"].type).size)] += 1
    return dict(sorted(bits.items()))


def peak_device_bytes(device: str) -> int | None:
    """Most bytes held on the GPU; None on a CPU."""
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"]) if device == "cuda" else None


def about() -> dict[str, Any]:
    """Versions, device and settings, for the evidence."""
    device = tf.config.get_visible_devices("GPU") or tf.config.get_visible_devices("CPU")
    return {
        "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "device": tf.config.experimental.get_device_details(device[0]).get("device_name", "cpu"),
        "tensorflow": tf.__version__,
    }
