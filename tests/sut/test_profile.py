"""The profilers of two frameworks show what BERT runs."""

import pytest

from formats import reading
from formats.profile import OTHER, StepProfile
from sut.registry import SUTS
from tests.support.frameworks import run_module, tiny_workload

NORM, PRODUCT = "normalisation", "matrix product"
NORMS = 5  # of BERT at size tiny


@pytest.mark.parametrize("sut", ["native-torch-eager", "native-jax"])
def test_what_bert_runs_is_in_a_class(interpreter, tmp_path, sut):
    content = {"sut": sut, "workload": tiny_workload(sut, "bert", tmp_path)}
    python = interpreter(SUTS[sut].environment)
    run_module(python, "tests.sut.profile_cases", sut, tmp_path / "spec.json", content)
    step = reading.from_file(tmp_path / f"{sut}.json", StepProfile)
    assert step.shares[OTHER] < 0.02
    assert step.seconds[PRODUCT] > 0 and step.seconds[NORM] > 0
    assert step.kernels > 20
    if sut == "native-torch-eager":
        calls = {each.name: each.calls for each in step.operations}
        assert calls["aten::native_layer_norm"] == NORMS
