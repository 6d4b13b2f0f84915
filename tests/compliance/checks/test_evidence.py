"""What the evidence must hold: the counters of its framework, and all weights in the precision of
the cell.
"""

from types import SimpleNamespace

import pytest

from compliance import rules
from compliance.checks.run import evidence
from compliance.checks.run.evidence import findings
from compliance.checks.run.precision import shards_faults, weights_faults
from formats.evidence import Evidence
from formats.work import ATTENTION, MATRIX, Part, Work

RULES = rules.load().evidence
COUNTED = {
    ("eager", "PyTorch"): {"regions": 0, "script_calls": 0, "forward_passes": 1, "flops": 8},
    ("xla", "JAX"): {"regions": 1, "operators_that_compute": 0, "table_lookups": 0, "host_callbacks": 0, "flops": 8, "xla_programs": 1},
    ("graph", "TensorFlow"): {
        "regions": 1, "operators_that_compute": 0, "products_left": 0, "host_callbacks": 0, "xla_clusters_run": 0, "xla_programs": 0,
        "flops": 8,
    },
}  # fmt: skip


def seen(graphs, **detail):
    return Evidence(graphs, None, "float32", detail)


def held(**elements):
    weights = {dtype: {"elements": n, "bytes": 2 * n} for dtype, n in elements.items()}
    return seen(0, weights=weights)


def faults(evidence, precision="bfloat16", parameters=1000):
    return [str(fault) for fault in weights_faults(evidence, "before", precision, parameters)]


@pytest.mark.parametrize(("execution", "framework"), COUNTED)
def test_evidence_with_all_counters_of_its_framework_has_no_findings(execution, framework):
    evidence = seen(int(execution != "eager"), **COUNTED[execution, framework])
    assert findings(RULES[execution], evidence, evidence, execution, framework) == []


@pytest.mark.parametrize(("execution", "framework"), COUNTED)
def test_a_counter_that_the_framework_has_may_not_be_missing(execution, framework):
    whole = COUNTED[execution, framework]
    for name in whole.keys() - {"xla_programs", "table_lookups"}:
        counted = {key: count for key, count in whole.items() if key != name}
        evidence = seen(int(execution != "eager"), **counted)
        found = findings(RULES[execution], evidence, evidence, execution, framework)
        assert len(found) == 2
        assert all(f"{framework} counts them" in text for text in found)
        assert findings(RULES[execution], evidence, evidence, execution) == []


@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_operators_that_only_move_values_may_be_any_number(execution):
    programs = int(execution == "xla")
    sorting = seen(1, regions=1, operators=500, operators_that_compute=4, xla_programs=programs)
    computing = seen(1, regions=1, operators=500, operators_that_compute=5, xla_programs=programs)
    assert findings(RULES[execution], sorting, sorting, execution) == []
    assert len(findings(RULES[execution], computing, computing, execution)) == 2


@pytest.mark.parametrize("regions", [1, 11, 12, 13, 14, 24])
def test_each_streamed_token_is_one_entry_into_compiled_code(regions):
    """One more may be begun in each batch."""
    evidence = seen(2, **{**COUNTED["xla", "JAX"], "regions": regions}, batches=1, steps=12)
    found = findings(RULES["xla"], evidence, evidence, "xla")
    assert bool(found) == (regions not in (12, 13))
    assert not found or found[0] == (
        f"{regions} entries into compiled code in 12 streamed tokens watched before the test; xla"
        " has 1 in each streamed token"
    )


def test_fewer_graphs_after_a_test_than_before_it_are_no_negative_number():
    before, after = (seen(n, **COUNTED["xla", "JAX"]) for n in (2, 1))
    assert findings(RULES["xla"], before, after, "xla", "JAX") == [
        "2 graphs before and 1 after the test: the watched calls did not use the same graphs"
    ]


@pytest.mark.parametrize(
    ("precision", "stored"), [("float32", "float32"), ("tf32", "float32"), ("bfloat16", "bfloat16")]
)
def test_weights_that_are_all_there_in_the_precision_of_the_cell_pass(precision, stored):
    assert faults(held(**{stored: 1000}), precision) == []
    assert faults(held(**{stored: 901}), precision) == []


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn", "float16"])
def test_weights_of_another_dtype_fail(dtype):
    found = faults(held(**{"bfloat16": 400, dtype: 600}))
    assert found == [
        f"600 elements of the weights are {dtype} before the test; bfloat16 stores bfloat16"
    ]


def test_weights_that_are_not_accounted_for_fail():
    assert faults(held(bfloat16=400)) == [
        "the evidence from before the test accounts for 400 of 1000 parameters of the checkpoint"
    ]


@pytest.mark.parametrize(
    "weights",
    [None, 7, {"bfloat16": 7}, {"bfloat16": {"elements": "7"}}, {"bfloat16": {"elements": -7}}],
)
def test_evidence_that_does_not_count_the_weights_fails(weights):
    assert faults(seen(0, weights=weights)) == [
        "the evidence from before the test does not count the weights by dtype"
    ]


def quantized(int8, **others):
    evidence = held(int8=int8, **others)
    found = weights_faults(evidence, "before", "float32", 1000, quantized="int8")
    return [str(fault) for fault in found]


def test_quantised_weights_have_8_bits_and_their_scales_the_precision():
    assert quantized(900, float32=110) == []
    (few,) = quantized(400, float32=600)
    assert few == "400 of 1000 elements of the weights are int8 before the test"
    (other,) = quantized(900, float32=60, bfloat16=50)
    assert other.startswith("50 elements of the weights are bfloat16")
    assert faults(held(int8=900, float32=110), "float32")


def split(count, *parts, elements=250):
    shards = [{"device": device, "bytes": size} for device, size in parts]
    evidence = seen(0, **held(float32=elements).detail, shards=shards)
    return [str(fault) for fault in shards_faults(evidence, "before", count)]


def test_each_device_of_a_split_model_holds_about_an_equal_part():
    assert split(2, ("cpu:0", 520), ("cpu:1", 520)) == []
    assert split(2, ("cpu:0", 500), ("cpu:1", 600)) == []


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ([], "0 devices hold parameters before the test; the cell has 2"),
        ([("cpu:0", 1000)], "1 devices hold parameters before the test; the cell has 2"),
        ([("cpu:0", 500)] * 2, "1 devices hold parameters before the test; the cell has 2"),
        (
            [("cpu:0", 1000), ("cpu:1", 1000)],
            "one of 2 devices holds 1000 of 1000 bytes before the test",
        ),
        ([("cpu:0", 500), ("cpu:1", 400)], "2 devices hold 900 of 1000 bytes before the test"),
    ],
    ids=str,
)
def test_a_model_that_is_not_split_fails(parts, fault):
    assert split(2, *parts) == [fault]


@pytest.mark.parametrize(
    "shards", [None, 7, [7], [{"device": "a"}], [{"device": "a", "bytes": -1}]]
)
def test_evidence_that_lists_no_devices_fails(shards):
    evidence = seen(0, shards=shards)
    (fault,) = shards_faults(evidence, "after", 2)
    assert str(fault) == "0 devices hold parameters after the test; the cell has 2"


@pytest.mark.parametrize(
    ("execution", "max_tpot_ms", "share", "is_fault"),
    [
        ("eager", None, 0.98, True),
        ("engine", 50.0, 0.98, True),
        ("engine", None, 0.98, False),  # only a note
        ("eager", 50.0, 0.1, False),
    ],
)
def test_a_time_per_token_that_is_not_seen_has_no_limit(execution, max_tpot_ms, share, is_fault):
    test = SimpleNamespace(outcome=SimpleNamespace(in_one_part=share))
    cell = SimpleNamespace(max_tpot_ms=max_tpot_ms)
    record = SimpleNamespace(execution=execution, cell=cell)
    found = list(evidence._in_one_part(test, record))
    sentence = "time per token cannot be seen: 98% of the answers came in one part"
    assert found == [sentence] * is_fault


MATRICES = Part(flops={MATRIX: 90.0, ATTENTION: 10.0}, weights=0, activations=0, passes=1)
LATER = Part(flops={MATRIX: 5.0}, weights=0, activations=0, passes=1)


@pytest.mark.parametrize(
    ("work", "least_flops", "accelerator", "flops", "is_fault"),
    [
        (Work(first=MATRICES), None, None, 320, False),
        (Work(first=MATRICES), None, None, 319, True),
        (Work(first=MATRICES), None, "a GPU", 288, False),  # fused attention is not seen
        (Work(first=MATRICES, token=LATER), None, None, 352, False),
        (Work(first=MATRICES, token=LATER), None, None, 351, True),
        (None, 100.0, None, 319, True),
        (None, None, None, 1, False),
        (Work(first=MATRICES), None, None, None, False),  # the framework does not report it
    ],
)
def test_a_watched_call_runs_most_of_the_operations_that_its_samples_take(
    work, least_flops, accelerator, flops, is_fault
):
    record = SimpleNamespace(work=work, least_flops=least_flops, accelerator=accelerator)
    later_tokens = 8 if work and work.token else 0
    watched = seen(0, flops=flops, samples=4.0, rows=4, later_tokens=later_tokens)
    found = [str(fault) for fault in evidence.work_faults(0.8, watched, "after", record)]
    assert len(found) == is_fault
    assert all("a part of the model did not run" in line for line in found)
