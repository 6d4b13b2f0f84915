"""Sessions of ONNX Runtime, and what they report. It has the functions that
`sut.evidence.backend_evidence` needs of a backend.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from sut import converted_models
from sut.contract import Call, Unsupported, Workload
from sut.devices import HOST
from sut.evidence import matrix_library, matrix_rate, precision, supported
from sut.onnxruntime.profile import Observed, nodes

PROVIDER = "CPUExecutionProvider"
LIBRARY = "MLAS"
SPINNING = "spinning"
"""The setting of `--tuned` that lets idle threads sleep (`sut/tuning.toml`)."""
_ALLOW_SPINNING = "session.intra_op.allow_spinning"
_DTYPES = {
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.DOUBLE: "float64",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
}
"""The dtypes of weights. Initializers of other types are shapes and indices."""
_PACKED = "MatMulNBits"
"""The operator whose second operand is packed: bytes [outputs, blocks, bytes of a block]."""
_ROTARY = {"GroupQueryAttention": 7, "RotaryEmbedding": 2}
"""Operator → the place of its two tables of rotary positions among its inputs."""
_own_run = onnxruntime.InferenceSession.run


def configure(workload: Workload) -> None:
    """Raises Unsupported if the runtime has no way for this workload. Nothing is sent about the use
    of the runtime.
    """
    supported.check(workload, f"{workload.model} on ONNX Runtime", ("runtime",))
    if workload.device != HOST:
        raise Unsupported(f"--device {workload.device}: this ONNX Runtime is built for processors")
    onnxruntime.disable_telemetry_events()
    converted_models.count()


def threads() -> int:
    """Return the number of threads of a session. ONNX Runtime's own default is the number of cores
    of the machine, and its threads leave the processors of this process.
    """
    return matrix_library.processors() or os.cpu_count() or 1


def settings(workload: Workload) -> dict[str, str]:
    """Return the session's settings by ONNX Runtime's names."""
    is_off = workload.settings.get(SPINNING) == "off"
    return {_ALLOW_SPINNING: "0"} if is_off else {}


def session(
    path: Path | str,
    workload: Workload,
    providers: tuple[str, ...] = (PROVIDER,),
    profile: str = "",
) -> onnxruntime.InferenceSession:
    """Return a session of a model's file. `profile`: the beginning of the name of the file to which
    it writes its profile; empty: it has none.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    for name, value in settings(workload).items():
        options.add_session_config_entry(name, value)
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    return onnxruntime.InferenceSession(path, options, providers=list(providers))


def held(path: Path | str) -> Counter[str]:
    """Return dtype → elements of the weights of a model's file. Packed weights of fewer than 8 bits
    count by their bits. Tables of rotary positions are no weights.
    """
    graph = onnx.load(path, load_external_data=False).graph
    bits = {}
    tables = set[str]()
    for node in graph.node:
        if node.op_type == _PACKED:
            bits[node.input[1]] = {each.name: each.i for each in node.attribute}["bits"]
        first = _ROTARY.get(node.op_type, len(node.input))
        tables |= set(node.input[first : first + 2])
    found: Counter[str] = Counter()
    for each in graph.initializer:
        if each.data_type in _DTYPES and each.name not in tables:
            count = int(np.prod(each.dims, dtype=np.int64))
            width = bits.get(each.name, 8)
            dtype = _DTYPES[each.data_type] if width == 8 else f"int{width}"
            found[dtype] += count * 8 // width
    return found


def watch(workload: Workload, sessions: int, call: Call) -> dict[str, Any]:
    """Return the runtime's observations of a call that runs sessions. `graphs`: the sessions of the
    SUT. `regions`: runs of sessions. The other counts are those of `Observed`.

    ONNX Runtime profiles a session from its beginning to its end. So a second session of the same
    file, with the same providers, runs the same inputs once more, under the profiler.
    """
    runs: list[tuple[onnxruntime.InferenceSession, Mapping[str, np.ndarray]]] = []

    def run(own: Any, names: Any, feeds: Mapping[str, np.ndarray], *rest: Any) -> Any:
        runs.append((own, feeds))
        return _own_run(own, names, feeds, *rest)

    onnxruntime.InferenceSession.run = run
    try:
        call()
    finally:
        onnxruntime.InferenceSession.run = _own_run
    observed = _profiled(workload, runs)
    given = sorted({each for own, _ in runs for each in own.get_providers()})
    detail = observed.detail(PROVIDER)
    if given not in ([], [PROVIDER]):
        detail["nodes_elsewhere"] = observed.providers.total()
    return {
        "graphs": sessions,
        "regions": len(runs),
        **detail,
        "session_providers": given,
        "matrix_products": matrix_library.fact(LIBRARY, threads=observed.threads),
        "settings": _found_settings(runs[0][0]) if runs else {},
    }


def _found_settings(own: onnxruntime.InferenceSession) -> dict[str, str]:
    """Return the switches of `--tuned` as the session has them."""
    try:
        spins = own.get_session_options().get_session_config_entry(_ALLOW_SPINNING)
    except RuntimeError:  # it was not set, and the default is that threads spin
        return {}
    return switches({_ALLOW_SPINNING: spins})


def switches(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the switches of `--tuned` that a session's configuration contains."""
    return {SPINNING: "off"} if entries.get(_ALLOW_SPINNING) == "0" else {}


def _profiled(
    workload: Workload, runs: list[tuple[onnxruntime.InferenceSession, Mapping[str, np.ndarray]]]
) -> Observed:
    """Run the inputs of each shape once, under the profiler."""
    observed = Observed()
    alike: dict[tuple[Any, ...], list[Any]] = {}
    for own, feeds in runs:
        shapes = tuple((name, values.shape) for name, values in feeds.items())
        alike.setdefault((own._model_path, *shapes), []).append((own, feeds))
    for (path, *_), same in alike.items():
        own, feeds = same[0]
        with tempfile.TemporaryDirectory() as folder:
            prefix = str(Path(folder) / "run")
            again = session(path, workload, tuple(own.get_providers()), profile=prefix)
            _own_run(again, None, feeds)
            observed.add(nodes(Path(again.end_profiling())), times=len(same))
    return observed


def product(dtype: str) -> np.ndarray:
    """Return a probe product in float32."""
    a, b = precision.operands()
    multiplied: np.ndarray = _product(len(a)).run(None, {"a": a, "b": b})[0]
    return multiplied


@cache
def matrix_flops(dtype: str) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def multiply(side: int) -> Callable[[], object]:
        rng = np.random.default_rng(0)
        feeds = {name: rng.random((side, side), np.float32) for name in "ab"}
        own = _product(side)
        return lambda: _own_run(own, None, feeds)

    return matrix_rate.measure(multiply)


@cache
def _product(side: int) -> onnxruntime.InferenceSession:
    """A session that multiplies two matrices [side, side]."""
    return program(helper.make_node("MatMul", ["a", "b"], ["c"]), a=[side, side], b=[side, side])


def program(node: onnx.NodeProto, *weights: onnx.TensorProto, **inputs: list[int]) -> Any:
    """Return a session of one operator with the output `c`, on float32 inputs of these shapes."""
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    result = helper.make_tensor_value_info("c", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "product", values, [result], initializer=list(weights))
    opset = helper.make_opsetid("", 20)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[PROVIDER])


def peak_device_bytes(device: str) -> int | None:
    """Return None: a processor has no memory of its own."""
    return None


def about() -> dict[str, Any]:
    """Return versions and the device, for the evidence."""
    return {"device": onnxruntime.get_device().lower(), "onnxruntime": onnxruntime.__version__}
