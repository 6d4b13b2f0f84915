"""The measures of limits, on a framework whose operations take exactly the time that they say."""

import time

import numpy as np
import pytest

from formats import reading
from formats.limits import Measured
from sut.limits import measures
from sut.registry import SUTS, framework_of
from tests.support.files import read_json
from tests.support.frameworks import run_module
from tests.support.long import LONG

FLOPS = 1e11
READ = 20e9
SIZES = measures.Sizes(array_bytes=1 << 20)


class Clock:
    """Stands still between operations."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Exact:
    """A framework. Its operations wait on the clock, and `calls` has their names."""

    def __init__(self, clock):
        self.clock = clock
        self.calls = []
        self.slowed = {}
        self.disturbed_from = np.inf
        self.precision = ""

    def operation(self, name, seconds):
        def run():
            self.calls.append(name)
            disturbance = 3.0 if self.clock.now >= self.disturbed_from else 1.0
            self.clock.now += seconds * disturbance * self.slowed.get(name, 1.0)
            return name

        return run

    def configure(self, device):
        pass

    def version(self):
        return "1.0"

    def use(self, precision):
        self.precision = precision

    def wait(self, result):
        pass

    def product(self, precision, rows, inner, columns):
        if precision == "float16":
            raise RuntimeError("no product\nin float16")
        kind = {1: "thin", 512: "layer" if columns == 3072 else "square"}.get(rows, "square")
        flops = 2.0 * rows * inner * columns
        return self.operation(f"{precision} {kind}", flops / FLOPS)

    def other_products(self, precision, side):
        if precision != "float32":
            return {}
        return {"other": self.operation("other", side**3 / FLOPS)}

    def about_products(self, precision, run):
        return {"library": "exact"}

    def reads(self, rows, columns):
        size = 4 * rows * columns
        return [
            (self.operation("slow read", 2 * size / READ), size),
            (self.operation("read", size / READ), size),
        ]


@pytest.fixture
def exact(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return Exact(clock)


def measured(framework, precisions=("float32", "bfloat16")):
    return measures.measure(framework, "Exact", "exact", "cpu", precisions, SIZES)


def test_rates_and_times_are_those_of_the_operations(exact):
    limits, lacking = measured(exact)
    assert [each.precision for each in limits] == ["float32", "bfloat16"]
    assert lacking == {}
    for each in limits:
        for spread in (each.matrix_flops, each.layer_flops, each.thin_flops):
            assert spread.median == pytest.approx(FLOPS)
        assert each.read_bytes_per_second.median == pytest.approx(FLOPS * 2)
        assert each.matrix_products == {"library": "exact"}
    in_float32, in_bfloat16 = limits
    assert in_float32.other_matrix_flops["other"].median == pytest.approx(2 * FLOPS)
    assert in_bfloat16.other_matrix_flops == {}
    # Each value of the matrix is used for two operations, and has four bytes or two.
    assert in_float32.thin_bytes_per_second.median == pytest.approx(2 * FLOPS)
    assert in_bfloat16.thin_bytes_per_second.median == pytest.approx(FLOPS)


def test_the_fastest_way_to_read_counts(exact):
    exact.slowed = {"float32 thin": 100.0}
    limits, _ = measured(exact, precisions=("float32",))
    assert limits[0].read_bytes_per_second.median == pytest.approx(READ)


def test_repeats_of_all_measures_alternate(exact):
    measured(exact, precisions=("float32",))
    order = [name for n, name in enumerate(exact.calls) if n == 0 or exact.calls[n - 1] != name]
    read = "float32 thin"  # the fastest way to read
    turn = [read, "float32 square", "float32 layer", "float32 thin", "other"]
    assert order[-7 * len(turn) :] == 7 * turn


def test_a_disturbance_meets_all_measures_and_no_median(exact):
    measured(exact, precisions=("float32",))
    # The repeats are the last part of the time. The disturbance lasts from their end back to a
    # time when each measure has had three repeats or more.
    exact.disturbed_from = exact.clock.now * 0.8
    exact.clock.now = 0.0
    (limits,), _ = measured(exact, precisions=("float32",))
    for spread in (limits.matrix_flops, limits.layer_flops, limits.read_bytes_per_second):
        assert spread.maximum == pytest.approx(spread.median)
        assert spread.minimum == pytest.approx(spread.median / 3)


def test_a_precision_that_the_framework_refuses_has_no_limits_but_its_words(exact):
    limits, lacking = measured(exact, precisions=("float16", "float32"))
    assert [each.precision for each in limits] == ["float32"]
    assert lacking == {"float16": "RuntimeError: no product"}


def test_another_way_that_fails_leaves_the_other_measures(exact):
    def fail():
        raise RuntimeError("not here")

    exact.other_products = lambda precision, side: {"XLA": fail}
    limits, lacking = measured(exact, precisions=("float32",))
    assert lacking == {}
    assert limits[0].absent == {"float32 through XLA": "RuntimeError: not here"}
    assert limits[0].matrix_flops.median == pytest.approx(FLOPS)


def test_a_slow_product_is_repeated_three_times(exact):
    exact.slowed = {"bfloat16 layer": 100.0}
    limits, _ = measured(exact)
    begun = 2  # calls before the repeats
    chosen = 1
    assert exact.calls.count("bfloat16 layer") == begun + chosen + 3
    assert limits[1].layer_flops.median == pytest.approx(FLOPS / 100)


@pytest.mark.parametrize(
    "sut",
    [
        "keras3-jax",
        "native-torch-eager",
        pytest.param("onnxruntime", marks=LONG),
        pytest.param("openvino", marks=LONG),
    ],
)
def test_a_framework_has_all_measures(interpreter, tmp_path, sut):
    """At a small size, where the figures mean nothing."""
    precisions = [each for each in ("float32", "bfloat16") if each in SUTS[sut].precisions]
    job = {
        "framework": framework_of(sut),
        "environment": SUTS[sut].environment,
        "device": "cpu",
        "precisions": precisions,
        "sizes": {"array_bytes": 1 << 20, "repeat_s": 1e-4, "slow_s": 1e-3},
        "file": str(tmp_path / "limits.json"),
    }
    python = interpreter(SUTS[sut].environment)
    run_module(python, "sut.limits", sut, tmp_path / "job.json", job)
    found = read_json(tmp_path / "limits.json")
    document = reading.convert({"made_with": {}, "started": "", "seconds": 1.0, **found}, Measured)
    assert document.lacking == {}
    assert [each.precision for each in document.limits] == precisions
    for each in document.limits:
        assert each.matrix_flops.minimum > 0
        assert each.read_bytes_per_second.minimum > 0
        assert each.matrix_products["library"] != "unknown"
