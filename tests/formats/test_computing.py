"""Operations and bytes a second, their shares of the machine's speed, and which limit binds."""

from dataclasses import asdict, replace

import pytest

from formats import reading
from formats.evidence import Evidence
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.work import ATTENTION, MATRIX, Part, Roof, Work
from results import computing
from tests.support.synthetic_runs import cell, record_json

FIRST = Part(flops={MATRIX: 90.0, ATTENTION: 10.0}, weights=1000.0, activations=40.0, passes=1)
TOKEN = Part(flops={MATRIX: 18.0, ATTENTION: 2.0}, weights=1000.0, activations=5.0, passes=1)
ROOF = Roof(matrix_flops=1e4, read_bytes_per_second=1e5)


def record(work=None, roof=None, precision="float32", **changes):
    content = record_json(cell(precision=precision)) | changes
    read = reading.convert(content, Record)
    return replace(read, work=work, roof=roof)


def figures(of, rate=10.0, batch=4, tokens=None, passes=1, **evidence):
    return computing.of(
        of,
        WorkerOutcome("ok", evidence_after=Evidence(0, None, "float32", **evidence)),
        samples_per_second=rate,
        batch=batch,
        tokens=tokens,
        passes=passes,
    )


def test_a_batch_reads_its_weights_once_and_each_sample_has_its_own_activations():
    found = figures(record(Work(first=FIRST), ROOF))
    moved = 4 * (1000 / 4 + 40)
    assert found.metrics == pytest.approx(
        {
            "flops_per_second": 1000,
            "bytes_per_second": 10 * moved,
            "flops_per_byte": 100 / moved,
            "matrix_share": 0.1,
            "bandwidth_share": 10 * moved / 1e5,
        }
    )
    assert found.exceeded == {}


def test_each_token_after_the_first_reads_the_weights_again():
    found = figures(record(Work(first=FIRST, token=TOKEN), ROOF), batch=1, tokens=3.5)
    assert found.metrics["flops_per_second"] == pytest.approx(10 * (100 + 2.5 * 20))
    elements = 1000 + 40 + 2.5 * 1005
    assert found.metrics["bytes_per_second"] == pytest.approx(10 * 4 * elements)


def test_an_element_of_quantised_weights_has_one_byte():
    of = record(Work(first=FIRST))
    of = replace(of, cell=replace(of.cell, quantized="int8"))
    assert figures(of, batch=1).metrics["bytes_per_second"] == 10 * (1000 + 4 * 40)


@pytest.mark.parametrize(
    ("precision", "item_bytes"), [("float32", 4), ("tf32", 4), ("bfloat16", 2), ("float16", 2)]
)
def test_an_element_has_the_bytes_of_the_precision(precision, item_bytes):
    found = figures(record(Work(first=FIRST), precision=precision), batch=1)
    assert found.metrics["bytes_per_second"] == 10 * item_bytes * 1040


def test_a_share_above_1_is_left_out_and_reported_as_exceeded():
    slow = Roof(matrix_flops=500.0, read_bytes_per_second=10.0)
    found = figures(record(Work(first=FIRST), slow))
    assert not found.metrics.keys() & computing.BINDING.keys()
    assert found.exceeded == pytest.approx({"matrix_share": 2.0, "bandwidth_share": 1160.0})
    assert computing.binds(found.metrics) == ""


def test_one_of_several_replicas_on_a_cpu_has_no_share_of_the_whole_machine():
    of = record(Work(first=FIRST), ROOF)
    part = replace(of, cell=replace(of.cell, replicas="1/4"))
    found = figures(part, matrix_flops=4000.0)
    assert found.metrics["matrix_share"] == 0.25
    assert "bandwidth_share" not in found.metrics


def test_without_kept_limits_the_workers_own_product_counts_and_no_bandwidth_is_known():
    found = figures(record(Work(first=FIRST)), matrix_flops=4000.0)
    assert found.metrics["matrix_share"] == 0.25
    assert "bandwidth_share" not in found.metrics
    assert computing.binds(found.metrics) == ""


def test_without_counted_work_the_least_operations_are_used():
    of = record(least_flops=50.0)
    assert figures(of, passes=3, matrix_flops=3000.0).metrics == {
        "flops_per_second": 1500.0,
        "matrix_share": 0.5,
    }
    assert figures(of, passes=None, matrix_flops=3000.0).metrics == {}


def test_a_sut_without_weights_has_no_figures():
    digests = record_json(cell())["digests"] | {"weights_source": "none"}
    assert figures(record(Work(first=FIRST), ROOF, digests=digests)).metrics == {}


@pytest.mark.parametrize(
    ("matrix", "memory", "limit"),
    [
        (0.5, 0.2, "matrix products"),
        (0.1, 0.2, "memory"),
        (0.1, 0.01, "matrix products"),
        (0.09, 0.01, "neither"),
    ],
)
def test_the_larger_share_binds_if_it_is_a_tenth_or_more(matrix, memory, limit):
    assert computing.binds({"matrix_share": matrix, "bandwidth_share": memory}) == limit


def test_work_and_roof_are_read_back_from_a_record():
    of = record(Work(first=FIRST, token=TOKEN), ROOF)
    assert (
        reading.convert({**record_json(of.cell), "work": asdict(of.work)}, Record).work == of.work
    )
    assert reading.convert({**record_json(of.cell), "roof": asdict(ROOF)}, Record).roof == ROOF
