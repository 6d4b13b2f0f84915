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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import _jax, _profiler  # the public profiler writes its trace to files

from sut.contract import Call, Unsupported
from sut.evidence import compilations, hlo, matrix_library, matrix_rate, precision, stablehlo_flops
from sut.evidence.stablehlo_flops import sides

EXECUTIONS = ("xla",)
WRONG_ROWS = "0.10.2"
"""The locked release of jaxlib. On CPUs its library YNNPACK computes wrong sums over the leading
axis of `f(M @ x.T)`, if M has 2 or 3 columns and x more than 32,768 rows (jax issue 39103).
"""
_WITHOUT_YNNPACK = "--xla_cpu_experimental_ynn_fusion_type=-reduce"  # for reductions
_COMPILED = "/jax/core/compile/backend_compile_duration"
_FOUND = "/jax/compilation_cache/cache_hits"
_NOT_FOUND = "/jax/compilation_cache/cache_misses"
_DUMP = re.compile(r"jax_ir\d+_(jit_.+)_compile\.mlir")
_JIT = re.compile(r"^(jit_+)+")
_CALLBACK = re.compile(r"custom_call @\w*python\w*callback")
# JAX's own names. Its default for float32 products is tf32 on an NVIDIA GPU. With JAX's
# "tensorfloat32" XLA's Triton kernels compute float32.
_MATMUL = {"float32": "highest", "tf32": "default", "bfloat16": "default", "float16": "default"}
# XLA's names of precisions, then JAX's.
_RANK = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": 2, "default": 0, "highest": 2}
_LOWER_BITS = {"HIGH": 19, "DEFAULT": 16}  # that XLA may leave of a float32 product
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
# The configured precision. JAX's own configuration may show that of a context.
_set_for_all: list[str] = []
_product = jax.jit(jnp.matmul)


@dataclass
class _Program:
    """The content of a program, from the texts of all its compilations in StableHLO.

    Attributes:
        products: (dtype, precision) → number of matrix products.
        callbacks: calls of Python from within it.
        computes: whether it calculates with floats; others only move values.
        looks_up: whether it takes rows of a table of floats.
        flops: floating-point operations of each compilation.
        counted_once: whether `flops` counts only one round of a loop that has no known end.
        entered: whether a watched call ran it.
    """

    products: Counter[tuple[str, str]] = field(default_factory=Counter)
    callbacks: int = 0
    computes: bool = False
    looks_up: bool = False
    flops: list[float] = field(default_factory=list)
    counted_once: bool = False
    entered: bool = False


_programs: defaultdict[str, _Program] = defaultdict(_Program)


def _count(event: str, duration: float, **known: Any) -> None:
    if event == _COMPILED:
        _compilations[_plain(str(known.get("fun_name")))] += 1
        # Read the dumps of the programs that were compiled just now, and remove them, because a
        # worker may end without cleaning up.
        folder = _dumps()
        for path in folder.glob("*"):
            named = _DUMP.fullmatch(path.name)
            if named:
                _read_program(_programs[_plain(named[1])], path.read_text())
        shutil.rmtree(folder, ignore_errors=True)  # JAX creates it again


def _plain(name: str) -> str:
    """Return the name of a program's function, of which a module and an event have the form
    `jit_name` or `jit(name)`. A lambda's is `lambda`.
    """
    return _JIT.sub("", re.sub(r"\W", "_", name).strip("_"))


@cache
def _dumps() -> Path:
    """Return the folder for JAX's dumps of programs."""
    return Path(tempfile.mkdtemp(prefix="stablehlo-"))


def _read_program(program: _Program, text: str) -> None:
    """Add one compilation, from its text in StableHLO."""
    flops = stablehlo_flops.of(text)
    program.counted_once |= math.isnan(flops)
    program.flops.append(stablehlo_flops.of(text, rounds=1) if math.isnan(flops) else flops)
    program.callbacks += len(_CALLBACK.findall(text))
    program.computes |= bool(_ARITHMETIC.search(text))
    for table, rows in _GATHER.findall(text):  # a reordering of rows has as many elements
        program.looks_up |= math.prod(sides(table)) != math.prod(sides(rows))
    for attributes, *operands, _ in stablehlo_flops.PRODUCT.findall(text):
        dtypes = [operand.rpartition("x")[2] for operand in operands]
        narrowest = min(dtypes, key=_bits)
        precisions = _PRECISION.findall(attributes)
        lowest = min(precisions, key=_RANK.__getitem__, default="DEFAULT")
        program.products[narrowest, lowest] += 1


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
    _programs.clear()
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
    operations of the products of the model's programs. `loops_counted_once`: whether they count
    only one round of a loop, because it has no known end.
    """
    trace = _trace(call)
    run = Counter(_entered(trace))
    programs = {name for name in run if _programs[name].products}
    for name in programs:
        _programs[name].entered = True
    # Calls of batches of other shapes may enter other programs of the model.
    of_model = [name for name, each in _programs.items() if each.entered and programs]
    compiled = {name: _compilations[name] for name in sorted(of_model)}
    others = run.keys() - programs - {_HANDED_OVER}
    moving = {name for name, each in _programs.items() if each.flops and not each.computes}
    looking_up = {name for name, each in _programs.items() if each.looks_up}
    return {
        "graphs": sum(compiled.values()),
        "xla_programs": sum(compiled.values()),
        "programs": compiled,
        "regions": sum(run[name] for name in programs),
        "operators": sum(run[name] for name in others),
        "operators_that_compute": sum(run[name] for name in others - moving),
        "table_lookups": sum(run[name] for name in others & looking_up),
        "compilations": sum(_compilations.values()),
        "host_callbacks": sum(_programs[name].callbacks for name in run),
        "flops": _flops({name: run[name] for name in programs}, trace),
        "loops_counted_once": any(_programs[name].counted_once for name in programs),
        "matrix_products": _matrix_products(programs),
        **_precisions(programs),
    }


def _flops(runs: Mapping[str, int], trace: Any) -> float:
    """Return the floating-point operations of so many runs of these programs.

    If a program was compiled for several shapes, the profile of a CPU shows which one ran, unless a
    program was found on disk. Then a run counts as one of the largest.
    """
    known = {name: _programs[name].flops for name in runs}
    several = [name for name in runs if len(known[name]) > 1]
    # A program from the disk is shown with the number that it had when it was compiled, which
    # another one may have now.
    numbers = _numbers(trace) if several and not _events[_FOUND] else {}
    total: float = 0
    for name, times in runs.items():
        of_number = _flops_by_number(name) if name in several else {}
        ran = [of_number[each] for each, _ in numbers.get(name, ()) if each in of_number]
        total += sum(ran) if len(ran) == times else times * max(known[name])
    return total


def _numbers(trace: Any) -> dict[str, set[tuple[int, int]]]:
    """Return name of a program → (its number in XLA, number of the run) of each run."""
    numbers: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for plane in trace.planes:
        for line in plane.lines:
            for event in line.events:
                facts = dict(event.stats)
                if "program_id" in facts and "run_id" in facts:
                    name = _plain(str(facts["hlo_module"]))
                    numbers[name].add((facts["program_id"], facts["run_id"]))
    return numbers


def _flops_by_number(name: str) -> dict[int, float]:
    """Return number in XLA → operations, of all programs of this name. It is empty if those in
    memory are not those that were compiled.

    XLA's own costs, which count a loop once, say which of these programs are larger.
    """
    client = jax.devices()[0].client
    costs: dict[int, float] = {}
    for module in _in_memory({name}):
        number = hlo.number_of(module.as_serialized_hlo_module_proto())
        costs[number] = _jax.hlo_module_cost_analysis(client, module).get("flops", 0.0)
    flops = sorted(_programs[name].flops)
    if len(costs) != len(flops):
        return {}
    return dict(zip(sorted(costs, key=costs.__getitem__), flops, strict=True))


def _in_memory(programs: Set[str]) -> Iterator[Any]:
    """Yield these programs, as XLA compiled them."""
    for executable in jax.devices()[0].client.live_executables():
        for module in executable.hlo_modules():
            if _plain(module.name) in programs:
                yield module


def _matrix_products(programs: Set[str]) -> dict[str, Any]:
    """Return `matrix_library.fact` of these programs, as XLA compiled them.

    XLA hands a product to YNNPACK. YNNPACK uses the widest instructions that it knows for the
    processor, and does not report them. XLA's own target does not show them. A build whose programs
    cannot be read leaves the library unknown.
    """
    products = Counter[str]()
    with suppress(Exception):  # no figure depends on it
        for module in _in_memory(programs):
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
            yield _plain(found[1])


def _precisions(programs: Set[str]) -> dict[str, Any]:
    """Return bits of the operands of the programs' products → number of products, over all
    compilations. A loop's body counts once. A product with a lower precision than `configure` set
    for all counts as the bits that XLA may leave of it.
    """
    products = sum((_programs[name].products for name in programs), Counter[tuple[str, str]]())
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
