"""Keras on TensorFlow. The measured call is a tf.function: XLA compiles it as a whole (xla), or
TensorFlow's executor runs it (graph).
"""

from __future__ import annotations

import gc
import math
import os
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
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

# The public one writes its trace to files.
from tensorflow.python.profiler.internal._pywrap_profiler import ProfilerSession

from sut.contract import Call, Unsupported
from sut.evidence import matrix_library, matrix_rate, precision, tensorflow_flops

EXECUTIONS = ("xla", "graph")
RUNS_AHEAD = False  # see `on_jax`
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
# Function → operations of a run, NaN if not known, and whether loops count once.
_known_flops: dict[str, tuple[float, bool]] = {}
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


def compiled(
    model: Any, function: Callable[[Any, Any], Any]
) -> Callable[[], Callable[[Any, Any], Any]]:
    """Return a function that returns `function` (arguments, state) of this model, compiled as
    KerasHub compiles `generate_step`.
    """
    program = tf.function(function, jit_compile=model.jit_compile)
    return lambda: program


def product(dtype: str) -> np.ndarray:
    """Return a probe product in `dtype`, as float32."""
    a, b = [tf.cast(tf.constant(operand), dtype) for operand in precision.operands()]
    return tf.cast(a @ b, "float32").numpy()


@cache
def matrix_flops(dtype: str) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def product(side: int) -> Callable[[], object]:
        a = tf.random.uniform((side, side), dtype=dtype)
        return lambda: (a @ a)[0, 0].numpy()

    return matrix_rate.measure(product)


def watch(model: Any, call: Call) -> dict[str, Any]:
    """Return TensorFlow's observations of the call. The model's functions are those that contain
    matrix products.

    `graphs`: traced functions of the model, one for each shape; 0 if the call enters none.
    `xla_programs`: those of them that TensorFlow's runtime must hand to XLA as a whole; the runtime
    fails if XLA cannot compile such a function. `products_left_of_xla`: matrix products of the
    entered functions outside of the parts that XLA must compile. `products_left`: matrix products
    that run by themselves, outside of every function. `operators_that_compute`: operators that run
    by themselves, without those that only move values or belong to a data pipeline. `regions`: how
    often the call enters a function of the model; a model that is traced as a whole is one region a
    batch. `xla_clusters_run`: runs of the parts of a graph that TensorFlow gave to XLA by itself.
    `host_callbacks`: calls of Python in the functions. `flops`: floating-point operations of the
    products of the entered functions; None: not known. `loops_counted_once`: whether they count
    only one round of a loop, because its rounds are not known.

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
    compiled = {name for name, function in functions.items() if function.compiled}
    of_model = {name for name, function in functions.items() if function.product_bits}
    # A function that no longer exists was created only for this call, and counts as the model's.
    run = {name: n for name, n in entered.items() if name in of_model or name not in functions}
    _functions_run.update(run)
    traced = of_model | _functions_run if run else set()
    known = [functions[name] for name in run if name in functions]
    product_bits: Counter[int] = Counter()
    for function in known:
        product_bits += function.product_bits
    operators = len(_OPERATOR_RUN.findall(trace))
    return {
        "graphs": len(traced),
        "xla_programs": len(traced & compiled),
        "regions": sum(run.values()),
        "operators": operators,
        "operators_that_compute": operators - len(_MOVING.findall(trace)),
        "products_left": len(_PRODUCT_RUN.findall(trace)),
        "xla_clusters_run": len(_CLUSTER_RUN.findall(trace)),
        "host_callbacks": sum(functions[name].callbacks for name in entered if name in functions),
        "products_left_of_xla": sum(function.products_left for function in known),
        **_flops(run),
        "matrix_products": _matrix_products(trace, not compiled.isdisjoint(run)),
        "product_bits": {str(bits): n for bits, n in sorted(product_bits.items())},
        "run_functions_eagerly": tf.config.functions_run_eagerly(),
    }


def _flops(runs: Mapping[str, int]) -> dict[str, Any]:
    """The operations of so many runs of these functions."""
    if not _known_flops.keys() >= runs.keys():
        # TensorFlow has no list of the graphs of its functions.
        for each in gc.get_objects():
            if type(each) is ConcreteFunction and each.name.decode() in runs:
                _known_flops[each.name.decode()] = tensorflow_flops.of(each.graph)
    known = {name: _known_flops.get(name, (math.nan, False)) for name in runs}
    total = sum(times * known[name][0] for name, times in runs.items())
    return {
        "flops": None if math.isnan(total) else int(total),
        "loops_counted_once": any(loops for _, loops in known.values()),
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
    names = _KERNEL_RUN.findall(trace)
    of_onednn = sum(name.startswith(b"_Mkl") for name in names)
    kernels = Counter(oneDNN=of_onednn, Eigen=len(names) - of_onednn)
    # 0 means the number in this variable, or as many threads as this process may use.
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    threads = threads or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0)
    threads = threads or matrix_library.processors()
    return matrix_library.fact(matrix_library.most(+kernels), threads=threads)


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
    calls = {name: set(_called(definition)) for name, definition in definitions.items()}
    inner = set().union(*calls.values())
    outer = [name for name in definitions if name.startswith("__inference_") and name not in inner]
    return {name: _summary(name, definitions, calls) for name in outer}


def _called(definition: Any) -> Iterator[str]:
    """Yield the names of the functions that a function calls."""
    for node in definition.node_def:
        for attribute in node.attr.values():
            if attribute.HasField("func"):
                yield attribute.func.name
            for function in attribute.list.func:
                yield function.name


def _summary(name: str, definitions: Mapping[str, Any], calls: Mapping[str, set[str]]) -> _Function:
    bits: Counter[int] = Counter()
    callbacks = 0
    products_left = 0
    compiled = False
    # (name of a function, whether the runtime must compile it or a function that calls it).
    left = [(name, False)]
    done: set[tuple[str, bool]] = set()
    while left:
        each, within = left.pop()
        definition = definitions.get(each)
        if definition is None:
            continue
        within = within or definition.attr["_XlaMustCompile"].b
        if (each, within) in done:
            continue
        done.add((each, within))
        left += [(child, within) for child in calls[each]]
        compiled |= within
        for node in definition.node_def:
            callbacks += node.op in _CALLBACKS
            if node.op in tensorflow_flops.PRODUCTS:
                # A product of integers names the dtypes of its operands and of its result.
                of_operands = "T" if "T" in node.attr else "Ta"
                dtype = tf.dtypes.as_dtype(node.attr[of_operands].type)
                bits[8 * dtype.size] += 1
                products_left += not within
    return _Function(bits, callbacks, products_left, compiled)


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
    if device != "cuda":
        return None
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


def about() -> dict[str, Any]:
    """Return versions, device and settings, for the evidence."""
    devices = tf.config.get_visible_devices("GPU") or tf.config.get_visible_devices("CPU")
    details = tf.config.experimental.get_device_details(devices[0])
    return {
        "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "device": details.get("device_name", "cpu"),
        "tensorflow": tf.__version__,
    }
