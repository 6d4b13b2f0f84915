"""Keras on TensorFlow. The measured call is a tf.function: XLA compiles it as a whole (xla), or
TensorFlow's executor runs it (graph).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

# The list of all traced functions has no public name.
from tensorflow.python.eager import context as tf_context

# The public one writes its trace to files.
from tensorflow.python.profiler.internal._pywrap_profiler import ProfilerSession

from sut.contract import Unsupported
from sut.evidence import matrix_library, matrix_rate, precision

EXECUTIONS = ("xla", "graph")
_PRODUCTS = (
    "MatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Einsum",
    "Conv2D",
    "Conv2DBackpropInput",
    "Conv3D",
    "DepthwiseConv2dNative",
)
_TRACE = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 0}
# The name of a traced function in TensorFlow. Everything else that is run from Python is a single
# operator, except constants, which are arguments.
_FUNCTION_RUN = re.compile(rb"EagerLocalExecute: (__inference_[\w<>]*_\d+)")
_OPERATOR_RUN = re.compile(rb"EagerLocalExecute: (?!__inference_|_EagerConst|Identity|SyncDevice)")
# The single operators that only move values or belong to a data pipeline.
_MOVING = re.compile(
    rb"EagerLocalExecute: (?:\w*Dataset\w*|\w*Iterator\w*|\w*Option\w*|Gather\w*|ResourceGather\w*|"
    rb"Cast|Reshape|StridedSlice|Slice|Concat\w*|ExpandDims|Squeeze|Transpose|Pack|Unpack|Split\w*|"
    rb"Tile|Shape|Range|Fill|TopK\w*|ReadVariableOp|VarHandleOp|DestroyResourceOp|Assign\w*)\b"
)
_PRODUCT_RUN = re.compile(
    rb"EagerLocalExecute: (?:MatMul|BatchMatMul|Einsum|Conv2D|Conv3D|DepthwiseConv2d)"
)
# Runs of the parts of a graph that TensorFlow's auto-clustering gives to XLA.
_CLUSTER_RUN = re.compile(rb"_XlaRun|XlaLaunch")
# An operator within a graph.
_KERNEL_RUN = re.compile(rb":(_Mkl\w*MatMul\w*|_?(?:Fused|Batch)?MatMul\w*|Einsum)\b")
_CALLBACKS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_functions_run: set[str] = set()  # those with products, in all watched calls of this process


def configure(device: str, wanted: str) -> None:
    """Choose the device and the precision of float32 products. Raises Unsupported if TensorFlow
    finds no such device.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if device == "cuda" and not gpus:
        raise Unsupported(
            "--device cuda: TensorFlow finds no such device (no driver, no GPU, or a build without"
            " it); --device cpu runs"
        )
    tf.config.set_visible_devices(gpus[:1] if device == "cuda" else [], "GPU")
    if device == "cuda":
        # Without this setting TensorFlow takes all memory at its start.
        tf.config.experimental.set_memory_growth(gpus[0], True)
    tf.config.experimental.enable_tensor_float_32_execution(wanted == "tf32")


def synchronise(model: Any) -> None:
    """Wait for all devices."""
    tf.test.experimental.sync_devices()


def product(dtype: str) -> np.ndarray:
    """Return a probe product in `dtype`, as float32."""
    a, b = (tf.cast(tf.constant(x), dtype) for x in precision.operands())
    return tf.cast(a @ b, "float32").numpy()


@cache
def matrix_flops(dtype: str) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def product(side: int) -> Callable[[], object]:
        a = tf.random.uniform((side, side), dtype=dtype)
        return lambda: (a @ a)[0, 0].numpy()

    return matrix_rate.measure(product)


def watch(model: Any, call: Callable[[], Any]) -> dict[str, Any]:
    """Return TensorFlow's observations of the call. The model's functions are those that contain
    matrix products. `graphs`: traced functions of the model, one for each shape; 0 if the call
    enters none. `xla_programs`: those of them that TensorFlow's runtime must hand to XLA as a
    whole; the runtime fails if XLA cannot compile such a function. `products_left_of_xla`: matrix
    products of the entered functions outside of the parts that XLA must compile. `products_left`:
    matrix products that run by themselves, outside of every function. `operators_that_compute`:
    operators that run by themselves, without those that only move values or belong to a data
    pipeline. `regions`: how often the call enters a function of the model; a model that is traced
    as a whole is one region a batch. `xla_clusters_run`: runs of the parts of a graph that
    TensorFlow gave to XLA by itself. `host_callbacks`: calls of Python in the functions.

    The number of XLA programs that run would not be sufficient. Some of Keras' operators
    (`ops.slice_update`) are small XLA programs in a graph, too.
    """
    session = ProfilerSession()
    session.start("", _TRACE)
    call()
    synchronise(model)
    trace = session.stop()
    entered = Counter(name.decode() for name in _FUNCTION_RUN.findall(trace))
    functions = _functions()
    # A function that no longer exists was created only for this call, and counts as the model's.
    run = {
        name: n
        for name, n in entered.items()
        if name not in functions or functions[name].product_bits
    }
    _functions_run.update(run)
    product_bits = sum(
        (functions[name].product_bits for name in run if name in functions), Counter[int]()
    )
    traced = (
        {name for name, f in functions.items() if f.product_bits} | _functions_run if run else set()
    )
    return {
        "graphs": len(traced),
        "xla_programs": sum(name in functions and functions[name].compiled for name in traced),
        "regions": sum(run.values()),
        "operators": (operators := len(_OPERATOR_RUN.findall(trace))),
        "operators_that_compute": operators - len(_MOVING.findall(trace)),
        "products_left": len(_PRODUCT_RUN.findall(trace)),
        "xla_clusters_run": len(_CLUSTER_RUN.findall(trace)),
        "host_callbacks": sum(functions[name].callbacks for name in entered if name in functions),
        "products_left_of_xla": sum(
            functions[name].products_left for name in run if name in functions
        ),
        "matrix_products": _matrix_products(
            trace, any(name in functions and functions[name].compiled for name in run)
        ),
        "product_bits": {str(bits): n for bits, n in sorted(product_bits.items())},
        "run_functions_eagerly": tf.config.functions_run_eagerly(),
    }


def _matrix_products(trace: bytes, compiled: bool) -> dict[str, Any]:
    """Return `matrix_library.fact` of the watched call.

    TensorFlow rewrites a graph's products into operators of oneDNN, whose instructions it does not
    report. (oneDNN would print them if ONEDNN_VERBOSE were set before it is first used.) Neither
    the trace nor the text of a program shows which library XLA uses.
    """
    if tf.config.get_visible_devices("GPU"):
        return matrix_library.fact()
    if compiled:
        return matrix_library.fact(threads=matrix_library.pool("tf_XLAEigen"))
    kernels = Counter(
        "oneDNN" if name.startswith(b"_Mkl") else "Eigen" for name in _KERNEL_RUN.findall(trace)
    )
    # 0 means as many threads as this process may use.
    threads = tf.config.threading.get_intra_op_parallelism_threads() or matrix_library.processors()
    return matrix_library.fact(matrix_library.most(kernels), threads=threads)


@dataclass(frozen=True)
class _Function:
    """A traced function, with all functions that it calls.

    Attributes:
        product_bits: bits of operands → number of its matrix products; a loop's body counts once.
        callbacks: operators that call Python.
        products_left: its matrix products outside of functions that the runtime must compile.
        compiled: whether the runtime must compile it, or a function that it wraps (Keras' predict
            wraps one).
    """

    product_bits: Counter[int]
    callbacks: int
    products_left: int
    compiled: bool


def _functions() -> dict[str, _Function]:
    """Return the functions of this process that no other function calls."""
    known = tf_context.context()
    definitions = {
        name: known.get_function_def(name)
        for name in known.list_function_names()
        if not name.startswith("__wrapped__")
    }
    calls = {
        name: {child for node in d.node_def for child in _called(node)}
        for name, d in definitions.items()
    }
    inner = set().union(*calls.values())
    return {
        name: _summary(name, definitions, calls)
        for name in definitions
        if name.startswith("__inference_") and name not in inner
    }


def _called(node: Any) -> Iterator[str]:
    for attribute in node.attr.values():
        if attribute.HasField("func"):
            yield attribute.func.name
        yield from (each.name for each in attribute.list.func)


def _summary(name: str, definitions: Mapping[str, Any], calls: Mapping[str, set[str]]) -> _Function:
    bits: Counter[int] = Counter()
    callbacks, products_left, compiled = 0, 0, False
    left, done = [(name, False)], set[tuple[str, bool]]()
    while left:
        each, within = left.pop()
        if (
            each not in definitions
            or (each, within := within or definitions[each].attr["_XlaMustCompile"].b) in done
        ):
            continue
        done.add((each, within))
        left += [(child, within) for child in calls[each]]
        compiled |= within
        for node in definitions[each].node_def:
            callbacks += node.op in _CALLBACKS
            if node.op in _PRODUCTS:
                bits[8 * tf.dtypes.as_dtype(node.attr["T"].type).size] += 1
                products_left += not within
    return _Function(bits, callbacks, products_left, compiled)


def dense(gradient: Any) -> Any:
    """Return an embedding's gradient with one row for each row of the embedding. TensorFlow
    computes one row for each token. Other gradients stay unchanged.
    """
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def pipeline(rows: Iterable[Any]) -> tf.data.Dataset:
    """Return the rows (nested arrays of the same shapes) as a data pipeline.

    The pipeline fetches one row ahead, as Keras does with a generator. It has no thread that tunes
    it, because the end of an epoch would wait up to ten seconds for that thread.
    """
    left = iter(rows)
    first = next(left)
    signature = tf.nest.map_structure(lambda array: tf.TensorSpec(array.shape, array.dtype), first)
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_generator(
        lambda: chain([first], left), output_signature=signature
    )
    return dataset.prefetch(1).with_options(options)


def peak_device_bytes(device: str) -> int | None:
    """Return the most bytes used on the GPU; None on a CPU."""
    return (
        int(tf.config.experimental.get_memory_info("GPU:0")["peak"]) if device == "cuda" else None
    )


def about() -> dict[str, Any]:
    """Return versions, device and settings, for the evidence."""
    device = tf.config.get_visible_devices("GPU") or tf.config.get_visible_devices("CPU")
    return {
        "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "device": tf.config.experimental.get_device_details(device[0]).get("device_name", "cpu"),
        "tensorflow": tf.__version__,
    }
