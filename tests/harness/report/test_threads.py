"""SUTs that multiplied matrices with different numbers of threads."""

import pytest

from harness.report import answer
from harness.report.sections.computing import product_sentences
from tests.support.reports import gathered
from tests.support.synthetic_runs import cell, write


def compared(root, variables, **threads):
    """The comparison of SUTs with these threads; None: not reported."""
    for minute, (sut, count) in enumerate(threads.items()):
        products = {} if count is None else {"matrix_products": {"threads": count}}
        of = cell(sut.replace("_", "-"), variables=variables)
        figures = [100 + 50 * minute + noise for noise in (0, 1, 2)]
        evidence = {"after": {"detail": products}}
        write(root, of, figures, first_minute=minute, evidence=evidence)
    (comparison,) = gathered(root).comparisons
    return comparison


def test_a_variable_that_only_some_suts_obey_leaves_the_comparison_open(tmp_path):
    variables = {"OMP_NUM_THREADS": "1"}
    found = compared(tmp_path, variables, native_torch_eager=1, native_jax=2)
    assert "not all SUTs obey OMP_NUM_THREADS=1" in answer.sentence(found)
    assert "(native-jax 2, native-torch-eager 1)" in answer.sentence(found)
    assert not found.decided


def test_other_threads_by_the_choice_of_a_framework_are_in_the_answer(tmp_path):
    found = compared(tmp_path, {}, native_torch_eager=4, native_jax=8)
    assert answer.sentence(found).startswith("native-jax is fastest")
    assert "different numbers of threads: native-jax 8, native-torch-eager 4" in answer.sentence(
        found
    )


@pytest.mark.parametrize("of_jax", [1, None])
def test_equal_and_unreported_threads_are_not_named(tmp_path, of_jax):
    variables = {"OMP_NUM_THREADS": "1"}
    found = compared(tmp_path, variables, native_torch_eager=1, native_jax=of_jax)
    assert found.decided and "threads" not in answer.sentence(found)


@pytest.mark.parametrize("name", ["threads", "variables"])
def test_products_of_other_threads_are_not_pooled(tmp_path, name):
    for threads in (1, 2):
        value = threads if name == "threads" else {"OMP_NUM_THREADS": str(threads)}
        for sut in ("native-jax", "native-torch-eager"):
            evidence = {"after": {"matrix_flops": threads * 1e9}}
            write(tmp_path, cell(sut, **{name: value}), [100], evidence=evidence)
    one, two = product_sentences(gathered(tmp_path).current)
    where = "threads " if name == "threads" else "OMP_NUM_THREADS="
    assert one.startswith(f"large matrix products in float32 on cpu, {where}1: PyTorch 1 GFLOP/s,")
    assert f"{where}2: PyTorch 2 GFLOP/s, JAX 2 GFLOP/s;" in two
