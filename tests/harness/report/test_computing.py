"""The sentences on how fast frameworks multiply matrices, by which library, and what that means for
another processor.
"""

import pytest

from formats.evidence import Evidence
from formats.result import Result, Seen
from harness.comparison import tables
from harness.comparison.runs import find
from harness.report.sections import computing
from results.summary import rows
from tests.support.synthetic_runs import MACHINE, cell, write

AMD = MACHINE | {"cpu": "AMD EPYC", "cpu_flags": ["avx2", "avx512f"]}
MEANING = "; a model that spends its time in such products is about as much faster or slower"


def fact(library, instructions="unknown", threads=2):
    return {"library": library, "instructions": instructions, "threads": threads}


RUNS = {
    "native-torch-eager": (200e9, fact("MKL", "AVX2")),
    "native-jax": (460e9, fact("YNNPACK")),
    "hf-tensorflow": (440e9, fact("oneDNN")),
}


def sentences(root, machine=AMD, runs=RUNS):
    for sut, (rate, told) in runs.items():
        after = {"matrix_flops": rate, "detail": {"matrix_products": told} if told else {}}
        evidence = {"sentence": "", "after": after}
        write(root, cell(sut), [40, 41, 39], evidence=evidence, record={"machine": machine})
    return computing.product_sentences(tables.grouped(find(root)[0]))


def test_the_library_its_instructions_and_threads_stand_beside_each_rate_and_mkl_on_amd_is_explained(
    tmp_path,
):
    rates, meaning = sentences(tmp_path)
    assert (
        rates == "large matrix products in float32 on cpu: JAX 460 GFLOP/s (YNNPACK, 2 threads),"
        " TensorFlow 440 GFLOP/s (oneDNN, 2 threads), PyTorch 200 GFLOP/s (MKL, AVX2, 2"
        f" threads){MEANING}"
    )
    assert (
        meaning
        == "PyTorch multiplies float32 matrices with MKL, which takes its AVX2 path on this AMD"
        " processor although it has AVX-512; JAX and TensorFlow multiply 2.3 and 2.2 times as"
        " fast, so PyTorch's figures here say little about an Intel processor"
    )


@pytest.mark.parametrize(
    ("machine", "torch"),
    [
        (AMD | {"cpu": "Intel(R) Xeon(R)"}, RUNS["native-torch-eager"]),
        (AMD | {"cpu_flags": ["avx2"]}, RUNS["native-torch-eager"]),
        (AMD, (200e9, fact("MKL", "AVX-512"))),
        (AMD, (200e9, fact("MKL"))),
        (AMD, (200e9, fact("oneDNN", "AVX2"))),
        (AMD, (500e9, fact("MKL", "AVX2"))),
        (AMD, (400e9, fact("MKL", "AVX2"))),
        (MACHINE, RUNS["native-torch-eager"]),
    ],
)
def test_nothing_is_said_of_intel_unless_mkl_leaves_instructions_of_an_amd_processor_unused(
    tmp_path, machine, torch
):
    assert len(sentences(tmp_path, machine, RUNS | {"native-torch-eager": torch})) == 1


def test_a_library_that_a_framework_does_not_report_is_said_to_be_unreported(tmp_path):
    unknown = {"keras3-tensorflow": 440e9, "native-jax": 460e9}
    runs = RUNS | {sut: (rate, fact("unknown")) for sut, rate in unknown.items()}
    rates, _ = sentences(tmp_path, runs=runs)
    jax, tensorflow = "JAX 460 GFLOP/s (library not reported)", "440 GFLOP/s (oneDNN, 2 threads)"
    assert f"{jax}, TensorFlow {tensorflow}, PyTorch" in rates


def test_a_run_that_recorded_no_library_has_its_rate_only(tmp_path):
    runs = {"native-torch-eager": (200e9, None), "native-jax": (400e9, None)}
    (sentence,) = sentences(tmp_path, AMD, runs)
    rates = "JAX 400 GFLOP/s, PyTorch 200 GFLOP/s"
    assert sentence == f"large matrix products in float32 on cpu: {rates}{MEANING}"


def test_the_line_of_one_result_names_library_instructions_and_threads():
    after = Evidence(0, None, "float32", {"matrix_products": fact("MKL", "AVX2", 1)})
    result = Result(
        cell=cell(),
        mode="quick",
        round="v6.1",
        status="ok",
        directory="",
        metrics={"flops_per_second": 52.14e9},
        evidence=Seen(sentence="", after=after),
    )
    assert dict(rows(result))["compute"] == "52.1 GFLOP/s at least; by MKL, AVX2, 1 thread"
