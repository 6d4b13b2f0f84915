"""Evidence shows what ran: the same before and after an honest test, other when something was
compiled in between.

tests/broken has the SUTs that run otherwise than they are named.
"""

from pathlib import Path

import pytest

from compliance import rules
from compliance.checks.run.evidence import findings
from formats.evidence import Evidence
from sut.registry import SUTS, framework_of
from tests.support.files import read_json
from tests.support.long import LONG
from tests.sut.conftest import EAGER_OR_XLA, IN_BFLOAT16, KERAS2, NAMES, PAIRS

KERAS = [name for name in (*NAMES, *KERAS2) if SUTS[name].classes.startswith("keras")]
TENSORFLOW = [
    (sut, model)
    for model in ("bert", "mistral")
    for sut in ("keras3-tensorflow", "keras3-tensorflow-graph")
]
TENSORFLOW += [*((sut, "bert") for sut in KERAS2), ("keras2-tensorflow", "mistral")]


def judged(sut, before, after):
    """What the audit's rules find wrong with the evidence of a SUT from before and after one
    test.
    """
    execution = SUTS[sut].execution
    round, framework = rules.load("v6.1"), framework_of(sut)
    return findings(
        round.evidence[execution], Evidence(**before), Evidence(**after), execution, framework
    )


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_evidence_of_an_honest_run_is_the_same_before_and_after(probed, sut, model):
    evidence = probed(sut, model).evidence
    assert evidence["before"] == evidence["after"]
    assert judged(sut, evidence["before"], evidence["after"]) == []


@pytest.mark.parametrize(("sut", "model"), [pair for pair in EAGER_OR_XLA if pair[1] == "mistral"])
def test_two_shapes_in_one_watched_call_are_honest(probed, sut, model):
    evidence = probed(sut, model).evidence["two shapes"]
    assert evidence["detail"]["batches"] == 2
    assert judged(sut, evidence, evidence) == []


@pytest.mark.parametrize(("sut", "model"), IN_BFLOAT16)
def test_the_precision_is_read_off_a_product(probed, sut, model):
    evidence = probed(sut, model).evidence
    assert [evidence[when]["precision"] for when in ("before", "bfloat16")] == [
        "float32",
        "bfloat16",
    ]
    assert evidence["bfloat16"]["detail"]["parameter_dtypes"] == ["bfloat16"]


@pytest.mark.parametrize(
    ("sut", "model"), [pair for pair in IN_BFLOAT16 if pair[0] in (*KERAS, "native-jax")]
)
def test_the_products_of_the_measured_call_are_counted_by_their_bits(probed, sut, model):
    bits = {
        when: probed(sut, model).evidence[when]["detail"]["product_bits"]
        for when in ("before", "bfloat16")
    }
    assert list(bits["before"]) == ["32"]
    assert max(bits["bfloat16"], key=lambda b: bits["bfloat16"][b]) == "16"


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_the_library_of_matrix_products_is_named_with_its_threads_as_far_as_the_framework_shows_it(
    probed, sut, model
):
    told = probed(sut, model).evidence["before"]["detail"]["matrix_products"]
    named = {
        ("PyTorch", "eager"): ("MKL", "oneDNN"),
        ("PyTorch", "compile"): ("MKL", "oneDNN"),
        ("JAX", "xla"): ("YNNPACK", "oneDNN"),
        ("TensorFlow", "graph"): ("oneDNN", "Eigen"),
        ("TensorFlow", "xla"): ("unknown",),  # XLA's choice is in neither the trace nor the program
    }
    assert told["library"] in named[framework_of(sut), SUTS[sut].execution]
    assert told["threads"] > 0
    if framework_of(sut) == "PyTorch":
        assert told["instructions"] != "unknown"
        assert sum(told["operators"].values()) > 0


@pytest.mark.skipif(
    "avx512bw" not in Path("/proc/cpuinfo").read_text(),
    reason="torch calls oneDNN in bfloat16 with AVX-512 only",
)
@pytest.mark.parametrize(
    ("sut", "model"), [pair for pair in IN_BFLOAT16 if pair[0].startswith("native-torch")]
)
def test_torch_multiplies_in_bfloat16_by_onednn(probed, sut, model):
    assert (
        probed(sut, model).evidence["bfloat16"]["detail"]["matrix_products"]["library"] == "oneDNN"
    )


@pytest.mark.parametrize(
    ("sut", "model", "program"),
    [
        ("keras3-jax", "bert", "predict_step"),
        ("keras3-jax", "mistral", "compiled_generate_function"),
        ("native-jax", "bert", "classify"),
        ("native-jax", "mistral", "generate"),
    ],
)
def test_jax_compiles_the_measured_call_once_and_again_for_a_new_shape(probed, sut, model, program):
    evidence = probed(sut, model).evidence
    assert [evidence[when]["graphs"] for when in ("before", "new shape")] == [1, 2]
    assert [evidence[when]["detail"]["xla_programs"] for when in ("before", "new shape")] == [1, 2]
    assert evidence["before"]["detail"]["programs"] == {program: 1}
    assert evidence["before"]["detail"].get("jit_compile") == (
        True if sut.startswith("keras") else None
    )
    assert [evidence["before"]["detail"][key] for key in ("regions", "operators")] == [1, 0]


@pytest.mark.parametrize(("sut", "model"), TENSORFLOW)
def test_tensorflow_traces_the_measured_call_once_and_again_for_a_new_shape(probed, sut, model):
    evidence = probed(sut, model).evidence
    # A language model's, which rates tokens, is a function of its own.
    forward_pass = model != "bert"
    assert [evidence[when]["graphs"] for when in ("before", "new shape")] == [
        1 + forward_pass,
        2 + forward_pass,
    ]
    assert judged(sut, evidence["before"], evidence["new shape"]) == [
        "1 new graphs while measuring; 0 are allowed"
    ]


@pytest.mark.parametrize(("sut", "model"), TENSORFLOW)
def test_xla_compiles_whole_calls_of_the_xla_sut_and_none_of_the_graph_sut(probed, sut, model):
    seen = [probed(sut, model).evidence[when]["detail"] for when in ("before", "new shape")]
    assert seen[1]["xla_programs"] - seen[0]["xla_programs"] == (SUTS[sut].execution == "xla")
    assert (seen[0]["xla_programs"] > 0) == (SUTS[sut].execution == "xla")
    assert [each["regions"] for each in seen] == [1, 1]
    assert [each["operators"] for each in seen] == [0, 0]


@pytest.mark.parametrize("model", ["bert", "mistral"])
@pytest.mark.parametrize("sut", ["native-torch-eager", "keras3-torch"])
def test_eager_has_no_graph_and_dispatches_its_operators_one_by_one(probed, sut, model):
    evidence = probed(sut, model).evidence["new shape"]
    assert evidence["graphs"] == 0
    assert evidence["detail"]["operators"] > 100
    assert evidence["detail"]["regions"] == 0


REFUSALS = {"tf32": "--precision tf32", "cuda": "--device cuda", "script": "execution script"}


@pytest.mark.parametrize(
    ("sut", "model", "case"), [(*pair, case) for pair in PAIRS for case in REFUSALS]
)
def test_what_cannot_run_is_refused_with_a_sentence(probed, sut, model, case):
    told = read_json(probed(sut, model).out / "refused.json")[case]
    assert told.startswith(REFUSALS[case])
    assert "\n" not in told


@LONG
@pytest.mark.parametrize("sut", ["keras3-jax", "keras2-tensorflow-graph"])
def test_keras_refuses_a_padded_batch_that_is_longer_than_gpt2s_table_of_positions(probed, sut):
    told = read_json(probed(sut, "gpt2").out / "refused.json")["positions"]
    assert told.startswith(
        "prompts and answers are padded to 1045 tokens, and GPT-2 has 1024 positions"
    )
