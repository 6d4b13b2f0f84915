"""A zoo of SUTs, each with one mistake that an author or an upgrade of a framework would make: each
is caught by the check named for it.

The mistakes are described where they are made: native_torch.py, native_jax.py, keras.py,
keras_<backend>.py, keras2.py and hf_tensorflow.py.
"""

import ast
import json
from collections import defaultdict
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from compliance import rules
from compliance.checks.run.evidence import findings, switch_faults, work_faults
from compliance.checks.run.precision import weights_faults
from compliance.scoring import accuracy
from formats.evidence import Evidence
from formats.work import MATRIX, Part, Work
from harness.inputs import models
from sut.registry import SUTS, framework_of
from tests.support.frameworks import run_module, tiny_workload
from tests.support.long import LONG, first_of_each

MODULES = {
    "native-torch-eager": "native_torch",
    "native-torch-compile": "native_torch",
    "keras3-jax": "keras_jax",
    "keras3-tensorflow": "keras_tensorflow",
    "keras3-tensorflow-graph": "keras_tensorflow",
    "keras3-torch": "keras_torch",
    "native-jax": "native_jax",
    "keras2-tensorflow": "keras2",
    "keras2-tensorflow-graph": "keras2",
    "hf-tensorflow-xla": "hf_tensorflow",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}
EAGER, COMPILE, JAX, TENSORFLOW, GRAPH, KERAS_TORCH, *OTHERS = MODULES
NATIVE_JAX, KERAS2, KERAS2_GRAPH, HF, ORT, OPENVINO = OTHERS
KERAS_BERT = ((JAX, "bert"), (TENSORFLOW, "bert"), (GRAPH, "bert"), (KERAS_TORCH, "bert"))
KERAS2_BERT = ((KERAS2, "bert"), (KERAS2_GRAPH, "bert"))
KERAS2_BOTH = ((KERAS2, "bert"), (KERAS2, "mistral"))
XLA_AND_GRAPH = ((TENSORFLOW, "bert"), (GRAPH, "bert"))
BERT = ((EAGER, "bert"), *KERAS_BERT)
RUNTIMES_BERT = ((ORT, "bert"), (OPENVINO, "bert"))
RUNTIMES = (*RUNTIMES_BERT, (ORT, "mistral"), (OPENVINO, "mistral"))
ANY_BERT = (*BERT, (NATIVE_JAX, "bert"))
# Keras' graphs on TensorFlow hold what XLA compiles there.
NOT_GRAPH = tuple(pair for pair in ANY_BERT if pair[0] != GRAPH)
EAGER_BOTH = ((EAGER, "bert"), (EAGER, "mistral"))
COMPILE_BOTH = ((COMPILE, "bert"), (COMPILE, "mistral"))
MISTRAL = ((EAGER, "mistral"), *((sut, "mistral") for sut, _ in KERAS_BERT))

HONEST = [
    *(
        (sut, model, "honest")
        for sut, model in (*ANY_BERT, *KERAS2_BERT, (HF, "bert"), *MISTRAL, (NATIVE_JAX, "mistral"))
    ),
    *((sut, model, "honest") for sut, model in RUNTIMES),
    *((sut, model, "honest_in_two_shapes") for sut, model in (*ANY_BERT, *RUNTIMES_BERT)),
    *((sut, "bert", "honest_padding") for sut in (JAX, TENSORFLOW, KERAS_TORCH)),
    (EAGER, "mistral", "honest_without_a_cache"),
    *(
        (sut, "mistral", "honest_streamed_from_a_thread")
        for sut in (EAGER, JAX, TENSORFLOW, GRAPH, KERAS_TORCH, NATIVE_JAX, ORT)
    ),
    (JAX, "bert", "honest_program"),
    (JAX, "bert", "honest_lambda"),
    *((sut, model, "honest_function") for sut, model in XLA_AND_GRAPH),
    *((sut, model, "honest_pipeline") for sut, model in XLA_AND_GRAPH),
    *(
        (NATIVE_JAX, "bert", f"honest_{case}")
        for case in (
            "ahead_of_time",
            "sorted",
            "two_in_flight",
            "donated",
            "exported",
            "in_micro_batches",
            "padded_to_8",
            "scanned",
            "vmapped",
        )
    ),
    *(
        (EAGER, "bert", f"honest_{case}")
        for case in (
            "two_in_flight",
            "exported",
            "fused",
            "in_a_warm_thread",
            "in_inference_mode",
            "in_micro_batches",
            "padded_to_8",
            "plain_attention",
            "sorted",
            "switches",
        )
    ),
    (EAGER, "mistral", "honest_static_cache"),
]

EVIDENCE = [
    # Which call ran.
    (
        "memo",
        (*EAGER_BOTH, (COMPILE, "bert"), (KERAS_TORCH, "bert"), (KERAS_TORCH, "mistral")),
        "0 forward passes of the model",
    ),
    (
        "memo",
        tuple((s, m) for s in (JAX, TENSORFLOW, GRAPH, NATIVE_JAX) for m in ("bert", "mistral")),
        "0 entries into compiled code",
    ),
    ("memo", ((KERAS2, "bert"), *RUNTIMES), "0 entries into compiled code"),
    ("prefixes_kept", ((OPENVINO, "mistral"),), "1 caches of earlier prompts"),
    ("another_provider", ((ORT, "bert"),), "operators that another device or execution provider"),
    ("another_device", ((OPENVINO, "mistral"),), "operators that another device or execution"),
    ("joined", ((EAGER, "bert"),), "2 forward passes of the model in 5 batches"),
    ("joined", ((NATIVE_JAX, "bert"),), "2 entries into compiled code in 5 batches"),
    ("eager_forward", ((COMPILE, "bert"),), "0 forward passes of the model"),
    ("wrapper_generates", ((COMPILE, "mistral"),), "0 of the forward passes ran compiled"),
    (
        "beyond_the_limit_in_two_shapes",
        ((COMPILE, "bert"),),
        "0 of the forward passes ran compiled before",
    ),
    ("compiled_beside", COMPILE_BOTH, "operators outside of compiled code"),
    ("model_called", ((JAX, "bert"),), "operators that compute and ran by themselves"),
    ("not_compiled", ((NATIVE_JAX, "bert"),), "operators that compute and ran by themselves"),
    ("model_called", XLA_AND_GRAPH, "matrix products that ran by themselves"),
    ("not_traced", ((HF, "bert"),), "matrix products that ran by themselves"),
    (
        "compiled_anew",
        ((EAGER, "bert"), (COMPILE, "bert"), (KERAS_TORCH, "bert")),
        "new graphs while measuring",
    ),
    ("jitted_anew", ((JAX, "bert"), (NATIVE_JAX, "bert")), "compilations while measuring"),
    ("traced_anew", XLA_AND_GRAPH, "2 new graphs while measuring"),
    (
        "constants",
        (*BERT, (EAGER, "mistral"), (COMPILE, "bert"), *RUNTIMES_BERT),
        "watched batches have the same counts",
    ),
    # Compiled by parts.
    ("linear_layers_compiled", ((COMPILE, "bert"),), "14 entries into compiled code"),
    ("each_layer_compiled", ((COMPILE, "bert"),), "2 entries into compiled code"),
    ("each_layer_compiled", ((COMPILE, "mistral"),), "12 entries into compiled code"),
    ("encoder_compiled", ((COMPILE, "bert"),), "operators outside of compiled code"),
    ("head_left_out", ((COMPILE, "bert"),), "operators outside of compiled code"),
    ("one_layer_compiled", EAGER_BOTH, "something was compiled"),
    ("layer_compiled", ((KERAS_TORCH, "bert"),), "something was compiled"),
    ("each_layer_jitted", ((JAX, "bert"),), "entries into compiled code"),
    ("each_token_jitted", ((NATIVE_JAX, "mistral"),), "6 entries into compiled code"),
    ("backbone_jitted", ((JAX, "bert"),), "2 entries into compiled code"),
    (
        "embedding_left_out",
        ((JAX, "bert"), (NATIVE_JAX, "bert")),
        "look-ups in a table that ran by themselves",
    ),
    ("each_layer_traced", XLA_AND_GRAPH, "2 entries into compiled code"),
    ("backbone_traced", XLA_AND_GRAPH, "1 matrix products that ran by themselves"),
    ("one_layer_under_xla", ((TENSORFLOW, "bert"),), "matrix products that XLA does not compile"),
    ("one_layer_under_xla", ((GRAPH, "bert"),), "XLA compiled a part of the model"),
    # Switches of the framework.
    ("traced", ((EAGER, "bert"), (COMPILE, "bert")), "1 entries into TorchScript"),
    ("traced_layer", ((KERAS_TORCH, "bert"),), "1 entries into TorchScript"),
    ("scripted_layer", ((EAGER, "bert"),), "1 entries into TorchScript"),
    ("scripted_function", ((EAGER, "bert"), (KERAS_TORCH, "bert")), "2 entries into TorchScript"),
    ("backend_eager", ((EAGER, "bert"),), "something was compiled"),
    ("backend_eager", ((COMPILE, "bert"),), "0 of the forward passes ran compiled"),
    ("backend_aot_eager", ((COMPILE, "bert"),), "0 of the forward passes ran compiled"),
    ("print_in_a_layer", ((COMPILE, "bert"),), "graph breaks; compile may have 0"),
    ("item_in_a_layer", ((COMPILE, "bert"),), "graph breaks; compile may have 0"),
    ("dynamo_disabled", ((COMPILE, "bert"),), "it ran eager"),
    ("stance_eager", ((COMPILE, "bert"),), "0 entries into compiled code"),
    ("run_eagerly", ((JAX, "bert"),), "operators that compute and ran by themselves"),
    ("run_eagerly", (*XLA_AND_GRAPH, *KERAS2_BERT), "it ran eager"),
    ("jit_disabled", ((JAX, "bert"),), "operators that compute and ran by themselves"),
    ("functions_run_eagerly", (*XLA_AND_GRAPH, (GRAPH, "mistral"), *KERAS2_BERT), "it ran eager"),
    ("pure_callback", ((JAX, "bert"),), "1 calls of Python from compiled code"),
    ("debug_print", ((JAX, "bert"),), "1 calls of Python from compiled code"),
    ("numpy_function", ((GRAPH, "bert"),), "1 calls of Python from compiled code"),
    ("py_function", ((GRAPH, "bert"),), "1 calls of Python from compiled code"),
    (
        "without_xla",
        ((TENSORFLOW, "bert"), (TENSORFLOW, "mistral"), *KERAS2_BOTH, (HF, "bert")),
        "XLA did not compile the model",
    ),
    (
        "xla",
        ((GRAPH, "bert"), (GRAPH, "mistral"), (KERAS2_GRAPH, "bert"), (KERAS2_GRAPH, "mistral")),
        "XLA compiled a part of the model",
    ),
    ("switches_forgotten", ((EAGER, "bert"),), "the setting to-mkldnn is not set in the worker"),
    ("dynamic_forgotten", ((COMPILE, "bert"),), "the setting dynamic is off in the worker"),
    ("auto_clustering", ((GRAPH, "bert"),), "parts compiled by TensorFlow's auto-clustering"),
]
WORK = [
    (
        "layer_left_out",
        (*ANY_BERT, *((sut, "mistral") for sut, _ in KERAS_BERT)),
    ),
    ("first_layer_kept", ((EAGER, "bert"), (NATIVE_JAX, "bert"))),
    ("prompt_kept", ((EAGER, "mistral"), (NATIVE_JAX, "mistral"), (ORT, "mistral"))),
    ("half_of_the_rows_kept", ((EAGER, "bert"), (NATIVE_JAX, "bert"))),
]
"""What runs less of the model than the watched samples take."""
PRECISION = [
    (
        "medium_in_predict",
        (*EAGER_BOTH, (COMPILE, "bert"), (KERAS_TORCH, "bert"), (KERAS_TORCH, "mistral")),
    ),
    ("mkldnn_bf16_in_predict", ((EAGER, "bert"),)),
    ("autocast_around", (*EAGER_BOTH, (COMPILE, "bert"), (KERAS_TORCH, "bert"))),
    ("autocast_in_a_layer", ((EAGER, "bert"),)),
    ("layer_in_bfloat16", ((EAGER, "bert"),)),
    ("layer_in_float16", ((EAGER, "bert"),)),
    ("cast_product", (*ANY_BERT, (COMPILE, "bert"), (HF, "bert"))),
    ("cast_product_in_a_thread", ((EAGER, "bert"),)),
    ("mixed_policy", (*KERAS_BERT, *KERAS2_BERT)),
    ("float16_policy", ((KERAS_TORCH, "bert"),)),
    ("float16_file", RUNTIMES_BERT),
    ("float16_cache", ((OPENVINO, "mistral"),)),
    ("bfloat16_in_predict", ((JAX, "bert"), (JAX, "mistral"), (NATIVE_JAX, "mistral"))),
    ("default_in_predict", ((JAX, "bert"), (NATIVE_JAX, "bert"))),
    ("default_in_a_layer", ((JAX, "bert"),)),
    ("quantized", ((JAX, "bert"),)),
    ("bfloat16_in_one_of_two_shapes", ((NATIVE_JAX, "bert"),)),
]
ACCURACY = [
    ("layer_left_out", NOT_GRAPH),
    ("weights_through_bfloat16", (*NOT_GRAPH, *RUNTIMES_BERT)),
    ("weights_through_int8", (*NOT_GRAPH, *RUNTIMES_BERT)),
    ("softmax_in_bfloat16", ((NATIVE_JAX, "bert"),)),
    ("constants_folded", ((TENSORFLOW, "bert"),)),
]
UNACCOUNTED = [("int8_layers", sut, model) for sut, model in (*EAGER_BOTH, (NATIVE_JAX, "bert"))]
"""In bfloat16: weights that are not among the parameters."""
IN_PREPARE = [
    ("in_prepare", EAGER, "look-ups in a table"),
    ("in_prepare", NATIVE_JAX, "1 entries into compiled code"),
    ("in_prepare", ORT, "1 entries into compiled code"),
    ("in_prepare", OPENVINO, "1 entries into compiled code"),
]
ERRORS = [("another_call_watched", "was given 0 times"), ("watched_twice", "was given 2 times")]
NO_SETTINGS = [("another_device", OPENVINO, "not supported property INFERENCE_PRECISION_HINT")]
UNSEEN = [("embedding_left_out", sut, model) for sut, model in XLA_AND_GRAPH]
"""What no check sees: one look-up in a table is as many operators as an honest SUT runs beside its
function.
"""

NO_CASES = {"load", "uncompiled", "cheap"}
"""Functions of a workload that cases are made of."""


@pytest.fixture(scope="session")
def ran(request, interpreter, tmp_path_factory):
    """SUT → the folder of its cases' results. One task runs those cases of a SUT that the selected
    tests need.
    """
    root = tmp_path_factory.mktemp("broken")
    needed = cases_of(request.session.items)

    def run(sut):
        folder = root / sut
        if not folder.exists():
            python = interpreter(SUTS[sut].environment)
            folder.mkdir()
            content = {
                "sut": sut,
                "workloads": {name: tiny_workload(sut, name, root) for name in ("bert", "mistral")},
                "cases": {model: sorted(cases) for model, cases in needed[sut].items()},
            }
            run_module(python, f"tests.broken.{MODULES[sut]}", sut, folder / "spec.json", content)
        return folder

    return run


def cases_of(items):
    """SUT → model → the cases that the tests of this file look at; honest ones are compared with
    others.
    """
    needed = defaultdict(lambda: defaultdict(set))
    for item in items:
        if item.path != Path(__file__) or "case" not in item.callspec.params:
            continue
        named = {"model": "bert", **item.callspec.params}
        cases = needed[named["sut"]][named["model"]]
        cases.add(named["case"])
        if (named["sut"], named["model"], "honest") in HONEST:
            cases.add("honest")
    return needed


@pytest.fixture(scope="session")
def results(ran):
    """(SUT, model, case) → what `running.run_test` returned."""
    return lambda sut, model, case: json.loads(
        (ran(sut) / f"{sut} {model} {case}.json").read_text()
    )


def complaints(sut, result):
    """What the checks of evidence and of precision find."""
    assert "error" not in result, result["error"]
    execution = SUTS[sut].execution
    watched = [Evidence(**result[when]) for when in ("before", "after")]
    found = findings(rules.load().evidence[execution], *watched, execution, framework_of(sut))
    for each in watched:
        found += map(str, switch_faults(each, result["settings"], {}))
    return found + [
        f"precision is {each.precision}" for each in watched if each.precision != "float32"
    ]


def left_out(honest, result):
    """What the check of the operations finds, by those of the honest SUT."""
    detail = honest["after"]["detail"]
    flops = {MATRIX: detail["flops"] / detail["samples"]}
    first = Part(flops=flops, weights=0, activations=0, passes=1)
    record = SimpleNamespace(work=Work(first=first), accelerator=None)
    return of_both(result, lambda seen, when: work_faults(0.8, seen, when, record))


def of_both(result, check):
    """What a check finds in the evidence from before and after the test."""
    return [
        str(fault)
        for when in ("before", "after")
        for fault in check(Evidence(**result[when]), when)
    ]


def score(honest, broken):
    """The answers of one SUT against those of the other, by the limits of float32."""
    bert = models.load("bert")
    expected, actual = (
        np.array(each["answers"]["logits"], np.float32) for each in (honest, broken)
    )
    payloads = {i: row.tobytes() for i, row in enumerate(actual)}
    limits = bert.tolerance["float32"]
    return accuracy.score(
        bert.score, payloads, {"logits": expected}, limits, bert.answer_keys, None
    )


def spread(cases):
    """(case, its SUTs and models, what else there is) → one row for each SUT and model."""
    return [(case, sut, model, *rest) for case, pairs, *rest in cases for sut, model in pairs]


def one_for_each_sut(rows):
    """Rows of a case, its SUT, …: all but the first of each SUT are long."""
    return first_of_each(rows, key=itemgetter(1))


@pytest.mark.parametrize(("sut", "model", "case"), first_of_each(HONEST, key=itemgetter(0)))
def test_an_honest_sut_has_no_findings(results, sut, model, case):
    honest, result = results(sut, model, "honest"), results(sut, model, case)
    assert complaints(sut, result) == []
    if result["after"]["detail"]["flops"] is None:  # for batches of any size, or openvino-genai
        assert framework_of(sut) in ("TensorFlow", "OpenVINO")
    else:
        assert left_out(honest, result) == []


@pytest.mark.parametrize(("case", "sut", "model"), one_for_each_sut(spread(WORK)))
def test_work_that_was_done_before_or_never_is_caught(results, case, sut, model):
    assert left_out(results(sut, model, "honest"), results(sut, model, case))


@pytest.mark.parametrize(("case", "sut", "model", "words"), one_for_each_sut(spread(EVIDENCE)))
def test_what_ran_otherwise_is_caught_by_its_evidence(results, case, sut, model, words):
    found = complaints(sut, results(sut, model, case))
    assert any(words in line for line in found), found


@pytest.mark.parametrize(("case", "sut", "model"), one_for_each_sut(spread(PRECISION)))
def test_a_lower_precision_is_caught(results, case, sut, model):
    assert "precision is mixed" in complaints(sut, results(sut, model, case))


@pytest.mark.parametrize(("case", "sut", "model"), one_for_each_sut(spread(ACCURACY)))
def test_wrong_answers_and_rounded_weights_are_caught_by_their_accuracy_alone(
    results, case, sut, model
):
    result = results(sut, model, case)
    assert complaints(sut, result) == []
    assert not score(results(sut, model, "honest"), result).passed


def unaccounted(result, model, precision):
    parameters = models.load(model).sizes["tiny"].parameters
    return of_both(result, lambda seen, when: weights_faults(seen, when, precision, parameters))


@pytest.mark.parametrize(("case", "sut", "model"), one_for_each_sut(UNACCOUNTED))
def test_weights_that_the_evidence_does_not_account_for_are_caught(results, case, sut, model):
    found = unaccounted(results(sut, model, case), model, "bfloat16")
    assert len(found) == 2
    assert all("parameters of the checkpoint" in line for line in found)


@pytest.mark.parametrize(("sut", "model", "case"), first_of_each(HONEST, key=itemgetter(0)))
def test_the_evidence_of_an_honest_sut_accounts_for_all_weights(results, sut, model, case):
    assert unaccounted(results(sut, model, case), model, "float32") == []


@pytest.mark.parametrize("sut", [EAGER, pytest.param(KERAS_TORCH, marks=LONG)])
@pytest.mark.parametrize(("case", "words"), ERRORS)
def test_evidence_that_does_not_make_the_call_once_ends_the_worker(results, sut, case, words):
    assert words in results(sut, "bert", case)["error"]


@pytest.mark.parametrize(("case", "sut", "words"), NO_SETTINGS)
def test_a_program_that_reports_no_settings_ends_the_worker(results, case, sut, words):
    assert words in results(sut, "bert", case)["error"]


@pytest.mark.parametrize(("case", "sut", "words"), IN_PREPARE)
def test_work_in_prepare_ends_the_worker(results, case, sut, words):
    error = results(sut, "bert", case)["error"]
    assert "prepare ran" in error
    assert words in error


@pytest.mark.parametrize(("case", "sut", "model"), one_for_each_sut(UNSEEN))
def test_what_no_check_sees_is_listed(results, case, sut, model):
    assert complaints(sut, results(sut, model, case)) == []


@pytest.mark.parametrize("module", ["keras", *dict.fromkeys(MODULES.values())])
def test_every_case_of_the_zoo_is_judged(module):
    """A case in no list would look as if something caught it."""
    rows = [*spread([*EVIDENCE, *WORK, *PRECISION, *ACCURACY]), *UNACCOUNTED, *UNSEEN]
    rows += [*IN_PREPARE, *NO_SETTINGS, *((case, sut) for sut, _, case in HONEST)]
    judged = {case for case, sut, *_ in rows if MODULES[sut].startswith(module)}
    body = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")).body
    cases = {
        each.name
        for each in body
        if isinstance(each, ast.FunctionDef) and [arg.arg for arg in each.args.args] == ["w"]
    }
    assert cases - NO_CASES <= judged
