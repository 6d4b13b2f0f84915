"""Settings, probes and observations of JAX, for every SUT on JAX. JAX itself reports each
compilation, and its profiler reports which programs run.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import _jax, _profiler  # the public profiler writes its trace to files

from sut.contract import Call, Unsupported
from sut.evidence import compilations, hlo, matrix_library, matrix_rate, precision, stablehlo_flops

EXECUTIONS = ("xla",)
WRONG_ROWS = "0.10.2"
"""The locked release of jaxlib. On CPUs its library YNNPACK computes wrong sums over the leading
axis of `f(M @ x.T)`, if M has 2 or 3 columns and x more than 32,768 rows (jax issue 39103).
"""
_WITHOUT_YNNPACK = "--xla_cpu_experimental_ynn_fusion_type=-reduce"  # for reductions
_COMPILED = "/jax/core/compile/backend_compile_duration"
_FOUND = "/jax/compilation_cache/cache_hits"
_NOT_FOUND = "/jax/compilation_cache/cache_misses"
_DUMP = re.compile(r"jax_ir\d+_jit_(.+)_compile\.mlir")
_CALLBACK = re.compile(r"custom_call @\w*python\w*callback")
# JAX's own names. Its default for float32 products is tf32 on an NVIDIA GPU. With JAX's
# "tensorfloat32" XLA's Triton kernels compute float32.
_MATMUL = {"float32": "highest", "tf32": "default", "bfloat16": "default", "float16": "default"}
# XLA's names of precisions, then JAX's.
_RANK = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": 2, "default": 0, "highest": 2}
_LOWER_BITS = {"HIGH": 19, "DEFAULT": 16}  # that XLA may leave of a float32 product
_DOT = re.compile(
    r"stablehlo\.(?:dot_general|convolution)\b(.*) : \(tensor<([^>]*)>, tensor<([^>]*)>\)"
)
_PRECISION = re.compile(r"\b(DEFAULT|HIGH|HIGHEST)\b")
_FLOATS = r"tensor<(?:\d+x)*(?:bf16|f\d+)>"
_ARITHMETIC = re.compile(
    r"stablehlo\.(?:add|subtract|multiply|divide|power|exponential|tanh|rsqrt|sqrt|log|logistic)\b.*"
    + _FLOATS
    + r"|chlo\.erf"
)
_GATHER = re.compile(rf'"stablehlo\.gather"\(.* : \(({_FLOATS}), .* -> ({_FLOATS})')
_RUN = re.compile(r"PjitFunction\((.+)\)")
_POOL = "tf_XLAEigen"  # the threads of XLA's CPU client, for every library
_HANDED_OVER = "stage"  # the program that hands an array over to the device
_compilations: Counter[str] = Counter()
_events: Counter[str] = Counter()  # JAX's events that are no durations
_products: Counter[tuple[str, str, str]] = Counter()  # (program, dtype, precision) of each product
_callbacks: Counter[str] = Counter()  # program → calls of Python from within it
_moving: dict[str, bool] = {}  # program → whether it only moves values
_flops: dict[str, list[int | None]] = {}  # program → operations of each of its compilations
_looking_up: set[str] = set()  # programs that take rows of a table of floats
_entered_by_now: set[str] = set()  # the model's programs, in all watched calls
# The configured precision. JAX's own configuration may show that of a context.
_set_for_all: list[str] = []
_product = jax.jit(jnp.matmul)


def _count(event: str, duration: float, **known: Any) -> None:
    if event == _COMPILED:
        name = str(known.get("fun_name")).removeprefix("jit(").removesuffix(")")
        _compilations[_plain(name)] += 1
        _read_dumps(_dumps())


def _plain(name: str) -> str:
    """Return the name of a program as it occurs in the names of dumps: a lambda's is `lambda`."""
    return re.sub(r"\W", "_", name).strip("_")


@cache
def _dumps() -> Path:
    """Return the folder for JAX's dumps of programs."""
    return Path(tempfile.mkdtemp(prefix="stablehlo-"))


def _read_dumps(folder: Path) -> None:
    """Read the dumps of the programs that were compiled just now, and remove them, because a worker
    may end without cleaning up.
    """
    for path in folder.glob("*"):
        named = _DUMP.fullmatch(path.name)
        if named:
            _read_program(_plain(named[1]), path.read_text())
    shutil.rmtree(folder, ignore_errors=True)  # JAX creates it again


def _read_program(program: str, text: str) -> None:
    """Count the products and callbacks of one compiled program, from its text in StableHLO."""
    _flops.setdefault(program, []).append(stablehlo_flops.of(text))
    _callbacks[program] += len(_CALLBACK.findall(text))
    _moving[program] = _moving.get(program, True) and not _ARITHMETIC.search(text)
    for table, rows in _GATHER.findall(text):
        if _elements(table) != _elements(rows):
            _looking_up.add(program)
    for attributes, *operands in _DOT.findall(text):
        dtypes = [operand.rpartition("x")[2] for operand in operands]
        narrowest = min(dtypes, key=_bits)
        precisions = _PRECISION.findall(attributes)
        lowest = min(precisions, key=_RANK.__getitem__, default="DEFAULT")
        _products[program, narrowest, lowest] += 1


def _elements(tensor: str) -> int:
    """Return the number of elements of a tensor, from its type in StableHLO. A reordering of rows
    does not change this number.
    """
    return math.prod(int(side) for side in re.findall(r"(\d+)x", tensor))


def _bits(dtype: str) -> int:
    """Return the bits of a dtype as StableHLO names it: f32, bf16, i8."""
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 0


@cache
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_count)
    jax.monitoring.register_event_listener(lambda event, **_: _events.update([event]))
    compilations.count_by(_compilations.total)
    compilations.count_cached_by(lambda: _events[_FOUND], lambda: _events[_NOT_FOUND])


def configure(device: str, wanted: str) -> None:
    """Choose JAX's device and the precision of float32 products, and begin to count compilations.

    Earlier counts are deleted, because they were another model's. Raises Unsupported if JAX finds
    no such device.
    """
    if importlib.metadata.version("jaxlib") == WRONG_ROWS:
        # XLA reads its flags with the first program. The user's come last, so they prevail.
        own = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{_WITHOUT_YNNPACK} {own.replace(_WITHOUT_YNNPACK, '')}".strip()
    set_precision(wanted)
    _compilations.clear()
    _products.clear()
    _callbacks.clear()
    _moving.clear()
    _looking_up.clear()
    _flops.clear()
    _entered_by_now.clear()
    # Only StableHLO shows dtype and precision of a program's products: in XLA's own text, a CPU's
    # bfloat16 products are float32.
    jax.config.update("jax_dump_ir_to", str(_dumps()))
    jax.config.update("jax_dump_ir_modes", "stablehlo")
    jax.config.update("jax_include_debug_info_in_dumps", False)
    _choose_device(device)
    _listen()


def set_precision(wanted: str) -> None:
    """Choose the precision of float32 products of the programs that are called from here on."""
    jax.config.update("jax_default_matmul_precision", _MATMUL[wanted])
    _set_for_all[:] = [_MATMUL[wanted]]


def _choose_device(device: str) -> None:
    """Make the device JAX's default. JAX skips a platform without a plugin silently, so the default
    is checked afterwards.
    """
    jax.config.update("jax_platforms", {"cpu": "cpu", "cuda": "cuda,cpu"}[device])
    try:
        found = jax.default_backend()
    except RuntimeError as e:
        found = str(e).splitlines()[0]
    if found != {"cpu": "cpu", "cuda": "gpu"}[device]:
        raise Unsupported(
            f"--device {device}: JAX finds no such device (no driver, no GPU, or a build without"
            f" it: {found}); --device cpu runs"
        )


def synchronise() -> None:
    """Wait for the programs that still run. An array is ready when the program that computes it is
    done.
    """
    jax.block_until_ready(jax.live_arrays())


def product(dtype: str) -> np.ndarray:
    """Return a probe product in `dtype`, as float32."""
    a, b = (jnp.asarray(x.astype(jnp.dtype(dtype))) for x in precision.operands())
    return np.asarray(_product(a, b)).astype(np.float32)


@cache
def matrix_flops(dtype: str) -> float:
    """See `Evidence.matrix_flops`; measured once in a process."""

    def product(side: int) -> Callable[[], object]:
        a = jax.random.uniform(jax.random.key(0), (side, side), jnp.dtype(dtype))
        return lambda: _product(a, a).block_until_ready()

    return matrix_rate.measure(product)


def watch(call: Call) -> dict[str, Any]:
    """Return what JAX reports of the call. The model's programs are those with matrix products.

    `graphs` and `xla_programs`: compilations of the model's programs that this call or an earlier
    one enters, one for each shape; 0 if this call enters none. `regions`: how often the call enters
    these programs; a model that is compiled as a whole is one region a batch. `operators`: how
    often the call runs other programs; a call that runs eagerly, or with JAX's jit disabled,
    consists of them. `operators_that_compute`: the operators that calculate with floats; the others
    move values, as a sort does. `table_lookups`: the operators that take rows of a table.
    `host_callbacks`: calls of Python in the programs that the call runs. `flops`: floating-point
    operations of the products of the model's programs.
    """
    trace = _trace(call)
    run = Counter(_entered(trace))
    programs = {name for name, _, _ in _products} & set(run)
    _entered_by_now.update(programs)
    # Calls of batches of other shapes may enter other programs of the model.
    of_model = _entered_by_now if programs else ()
    compiled = {name: _compilations[name] for name in sorted(of_model)}
    others = set(run) - programs - {_HANDED_OVER}
    operators = {name: run[name] for name in others}
    computing = [n for name, n in operators.items() if not _moving.get(name)]
    looking_up = [n for name, n in operators.items() if name in _looking_up]
    return {
        "graphs": sum(compiled.values()),
        "xla_programs": sum(compiled.values()),
        "programs": compiled,
        "regions": sum(run[name] for name in programs),
        "operators": sum(operators.values()),
        "operators_that_compute": sum(computing),
        "table_lookups": sum(looking_up),
        "compilations": sum(_compilations.values()),
        "host_callbacks": sum(_callbacks[name] for name in run),
        "flops": _flops_of({name: run[name] for name in programs}, trace),
        "matrix_products": _matrix_products(programs),
        **_precisions(programs),
    }


def _flops_of(runs: Mapping[str, int], trace: Any) -> int | None:
    """Return the floating-point operations of so many runs of these programs. None: not known.

    If a program was compiled for several shapes, the profile of a CPU shows which one ran. Without
    it, a run counts as one of the largest.
    """
    known = {name: [flops for flops in _flops[name] if flops is not None] for name in runs}
    if any(len(known[name]) < len(_flops[name]) for name in runs):
        return None
    of_numbers = _flops_by_number({name: each for name, each in known.items() if len(each) > 1})
    seen = _runs(trace) if of_numbers else ()
    total = 0
    for name, times in runs.items():
        ran = [of_numbers[each[:2]] for each in seen if each[0] == name and each[:2] in of_numbers]
        total += sum(ran) if len(ran) == times else times * max(known[name])
    return total


def _runs(trace: Any) -> set[tuple[str, int, int]]:
    """Return (name, number of the program in XLA, number of the run) of each run of a program."""
    runs = set()
    for plane in trace.planes:
        for line in plane.lines:
            for event in line.events:
                facts = dict(event.stats)
                if "program_id" in facts and "run_id" in facts:
                    name = _plain(str(facts["hlo_module"]).removeprefix("jit_"))
                    runs.add((name, facts["program_id"], facts["run_id"]))
    return runs


def _flops_by_number(several: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], int]:
    """Return (name, number of the program in XLA) → its operations. A name is left out if its
    programs in memory are not those that were compiled.

    XLA's own costs, which count a loop once, say which of these programs are larger.

    Args:
        several: name → operations of each of its programs.
    """
    costs: dict[str, dict[int, float]] = {name: {} for name in several}
    client = jax.devices()[0].client
    for executable in client.live_executables() if several else ():
        for module in executable.hlo_modules():
            name = _plain(module.name.removeprefix("jit_"))
            if name in several:
                number = hlo.number_of(module.as_serialized_hlo_module_proto())
                cost = _jax.hlo_module_cost_analysis(client, module)
                costs[name][number] = cost.get("flops", 0.0)
    return {
        (name, number): flops
        for name, of_name in costs.items()
        if len(of_name) == len(several[name])
        for number, flops in zip(
            sorted(of_name, key=of_name.__getitem__), sorted(several[name]), strict=True
        )
    }


def _matrix_products(programs: Set[str]) -> dict[str, Any]:
    """Return `matrix_library.fact` of these programs, as XLA compiled them.

    XLA hands a product to YNNPACK. YNNPACK uses the widest instructions that it knows for the
    processor, and does not report them. XLA's own target does not show them. A build whose programs
    cannot be read leaves the library unknown.
    """
    products = Counter[str]()
    with suppress(Exception):  # no figure depends on it
        for executable in jax.devices()[0].client.live_executables():
            for module in executable.hlo_modules():
                if _plain(module.name.removeprefix("jit_")) in programs:
                    products += matrix_library.of_hlo(module.to_string())
    threads = matrix_library.pool(_POOL) if jax.default_backend() == "cpu" else None
    return matrix_library.fact(matrix_library.most(products), threads=threads)


def _trace(call: Call) -> Any:
    """Run the call under JAX's profiler, and return its `ProfileData`."""
    options = _profiler.ProfileOptions()
    options.host_tracer_level = 1
    options.python_tracer_level = 0
    # On a GPU the device's own tracer starts too. Nothing is read from it, and it may not be
    # permitted. A trace without the host's events shows no program, and then the checks fail.
    options.raise_error_on_start_failure = jax.default_backend() == "cpu"
    session = _profiler.ProfilerSession(options)
    call()
    synchronise()
    return session.stop_and_get_profile_data()


def _entered(trace: Any) -> Iterator[str]:
    """Yield the name of each program entered. The names come from JAX's own events, which are the
    same on every device. JAX marks an entry twice, one event within the other.
    A program that was compiled ahead of its call is named `jit(name)`.
    """
    for plane in trace.planes:
        for line in plane.lines:
            yield from _entered_by(line)


def _entered_by(thread: Any) -> Iterator[str]:
    end_of: dict[str, float] = {}  # name of a program → end of its last outer event
    for event in sorted(thread.events, key=lambda event: event.start_ns):
        found = _RUN.match(event.name)
        if found and event.start_ns >= end_of.get(found[1], 0.0):
            end_of[found[1]] = event.start_ns + event.duration_ns
            yield _plain(found[1].removeprefix("jit(").removesuffix(")"))


def _precisions(programs: Set[str]) -> dict[str, Any]:
    """Return bits of the operands of the programs' products → number of products, over all
    compilations. A loop's body counts once. A product with a lower precision than `configure` set
    for all counts as the bits that XLA may leave of it.
    """
    products: Counter[tuple[str, str]] = Counter()
    for (name, dtype, wanted), n in _products.items():
        if name in programs:
            products[dtype, wanted] += n
    bits: Counter[str] = Counter()
    for (dtype, wanted), n in products.items():
        width = _bits(dtype)
        if width == 32 and _RANK[wanted] < _RANK[_set_for_all[0]]:
            width = _LOWER_BITS[wanted]
        bits[str(width)] += n
    return {
        "product_bits": dict(sorted(bits.items())),
        "products": {" ".join(key): n for key, n in sorted(products.items())},
    }


def peak_device_bytes(device: str) -> int | None:
    """Return the most bytes used on the GPU. None on a CPU, or if the allocator that the user chose
    does not count.
    """
    statistics = jax.devices()[0].memory_stats() if device == "cuda" else None
    return int(statistics["peak_bytes_in_use"]) if statistics else None


def about() -> dict[str, Any]:
    """Return versions, device and settings, for the evidence."""
    return {
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
