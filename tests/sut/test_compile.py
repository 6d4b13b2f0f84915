"""A compiled SUT answers as the eager one does, in graphs that stay, and fails rather than run
eager.

tests/broken has what says compile and runs eager.
"""

import numpy as np
import pytest

from compliance import rules
from compliance.checks.run.evidence import findings
from formats.evidence import Evidence
from sut.registry import SUTS
from tests.support.files import read_json
from tests.support.frameworks import run_module, tiny_workload
from tests.support.long import LONG

SUT = "native-torch-compile"


@pytest.fixture(scope="session")
def run(interpreter, tmp_path_factory):
    """Whether its refusals are wanted → the folder that tests/sut/compile_cases.py left."""

    def task(refusals):
        out = tmp_path_factory.mktemp("compile")
        content = {name: tiny_workload(SUT, name, out) for name in ("bert", "mistral")}
        run_module(
            interpreter(SUTS[SUT].environment),
            "tests.sut.compile_cases",
            SUT,
            out / "spec.json",
            {**content, "refusals": refusals},
        )
        return out

    return task


@pytest.fixture(scope="session")
def told(run):
    """The cases of honest SUTs, and all answers."""
    out = run(False)
    with np.load(out / "answers.npz") as f:
        return {"cases": read_json(out / "cases.json"), "answers": dict(f)}


@pytest.fixture(scope="session")
def refused(run):
    """What an honest SUT says, by what it tries."""
    return read_json(run(True) / "cases.json")


def complaints(case, execution="compile"):
    return list(
        findings(
            rules.load().evidence[execution],
            Evidence(**case["before"]),
            Evidence(**case["after"]),
            execution,
        )
    )


@LONG
@pytest.mark.parametrize("case", ["honest generate", "honest predict", "honest wrapper"])
def test_an_honest_compiled_sut_holds_its_evidence(told, case):
    found = told["cases"][case]
    assert complaints(found) == []
    assert found["before"] == found["after"]
    assert found["after"]["compiled_share"] == 1.0
    assert found["after"]["detail"]["compile_backends"] == ["inductor"]
    assert found["after"]["detail"]["forward_passes"] > 0
    assert (
        found["after"]["detail"]["inductor_cache_hits"]
        + found["after"]["detail"]["inductor_cache_misses"]
        > 0
    )


@LONG
@pytest.mark.parametrize("which", ["after", "eager"])
def test_records_of_a_few_passes_count_what_one_record_counts(told, which):
    found = told["cases"]["honest generate"]
    assert found[which]["detail"]["forward_passes"] > 4
    assert found[which] == found[f"{which} in one record"]


@LONG
def test_a_record_is_gone_once_it_is_counted(told):
    """Each holds 5 kB for each operator."""
    assert told["cases"]["honest generate"]["records"] == {"made": 2, "left": 0}


@LONG
def test_all_prompts_of_a_bucket_share_two_graphs_padded_or_not(told):
    assert told["cases"]["honest generate"]["after"]["graphs"] == 2


@LONG
def test_teacher_forced_logits_make_no_graph(told):
    found = told["cases"]["honest generate"]
    assert found["after logits"] == found["after"]


@LONG
def test_teacher_forced_logits_are_those_of_the_measured_call(told):
    """A measured call that computes with wrong positions shows in them, from the end of the prompt
    on.
    """
    right, wrong, eager = (
        told["answers"][f"forced {name}"] for name in ("compiled", "wrong", "eager")
    )
    np.testing.assert_allclose(right, eager, atol=2e-5)
    assert (right[:, 8:] != eager[:, 8:]).any()
    np.testing.assert_array_equal(wrong[:, :8], eager[:, :8])
    assert np.abs(wrong[:, 8:] - eager[:, 8:]).max() > 0.1


@LONG
@pytest.mark.parametrize("batch", ["padded", "full", "others"])
def test_compiled_generation_gives_the_tokens_of_eager(told, batch):
    np.testing.assert_array_equal(
        told["answers"][f"{batch} compiled"], told["answers"][f"{batch} eager"]
    )


@LONG
def test_nothing_of_a_batch_stays_in_the_cache_for_the_next(told):
    np.testing.assert_array_equal(
        told["answers"]["padded first"], told["answers"]["padded compiled"]
    )


@LONG
def test_compiled_prediction_gives_the_logits_of_eager(told):
    np.testing.assert_allclose(
        told["answers"]["logits compiled"], told["answers"]["logits eager"], atol=1e-5
    )


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        ("limit", "FailOnRecompileLimitHit"),
        ("break", "Unsupported"),
        ("compiler", "Unsupported: torch.compile on cpu needs a C++ compiler; no g++ is on PATH"),
    ],
)
def test_an_honest_compiled_sut_fails_rather_than_run_eager(refused, tried, words):
    assert refused[tried].startswith(words)
