"""What a compliance test comes to, by values alone: speeds, settings, LoadGen's choice of samples,
ends of answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compliance import rules
from compliance.audit_tests import compliance_tests, logged_answers, speed
from compliance.audit_tests.logged_answers import Row
from compliance.loadgen import sampling
from compliance.logs import Detail
from tests.support.synthetic_runs import cell, job

V61 = rules.load("v6.1")


@pytest.mark.parametrize(
    ("name", "task", "config", "samples", "words"),
    [
        ("TEST01", "generate", {}, 64, ""),
        ("TEST06", "predict", {}, 64, "generates no tokens"),
        ("TEST06", "generate", {}, 64, ""),
        ("TEST04", "predict", {}, 64, ""),
        ("TEST04", "predict", {}, 3, "the library has 3"),
        ("TEST04", "generate", {"prompt_buckets": [5], "new_token_buckets": [45]}, 64, ""),
        (
            "TEST04",
            "generate",
            {"prompt_buckets": [16, 32], "new_token_buckets": [45]},
            64,
            "prompt buckets",
        ),
        (
            "TEST04",
            "generate",
            {"prompt_buckets": [5], "new_token_buckets": [8, 16]},
            64,
            "new token buckets",
        ),
    ],
)
def test_which_tests_say_something_of_a_workload(
    name: str, task: str, config: dict[str, Any], samples: int, words: str
) -> None:
    workload = job(cell(task=task), Path("run"), **config).workload
    why = compliance_tests.inapplicable(name, workload, samples)
    assert words in why and bool(why) == bool(words)


def scored(scenario: str, value: float) -> Detail:
    key = "result_samples_per_second" if scenario == "Offline" else "early_stopping_latency_ss"
    return Detail({key: value, "result_validity": "VALID"}, {}, (), (), ())


@pytest.mark.parametrize(
    ("test", "scenario", "reference", "value", "holds"),
    [
        ("TEST01", "Offline", 100.0, 109.0, True),
        ("TEST01", "Offline", 100.0, 111.0, False),
        ("TEST01", "Offline", 100.0, 89.0, False),
        ("TEST04", "Offline", 100.0, 10.0, True),
        ("TEST04", "Offline", 100.0, 111.0, False),
        ("TEST01", "SingleStream", 1_000_000, 1_090_000, True),
        ("TEST01", "SingleStream", 1_000_000, 1_110_000, False),
        ("TEST01", "SingleStream", 1_000_000, 890_000, False),
        ("TEST01", "SingleStream", 200_000, 230_000, True),
        ("TEST01", "SingleStream", 200_001, 230_000, False),
        ("TEST04", "SingleStream", 1_000_000, 840_000, True),
        ("TEST04", "SingleStream", 1_000_000, 830_000, False),
        ("TEST04", "SingleStream", 1_000_000, 9_000_000, True),
    ],
)
def test_speeds_are_compared_as_the_official_scripts_do(
    test: str, scenario: str, reference: float, value: float, holds: bool
) -> None:
    found = speed.compare(
        V61.compliance_tests[test],
        scenario,
        V61,
        scored(scenario, reference),
        scored(scenario, value),
    )
    assert found is not None and found.holds is holds
    assert ("TEST PASS" in speed.verify_text(found)) is holds


def test_nothing_is_verified_beside_a_run_that_is_not_valid() -> None:
    invalid = Detail(
        {"result_samples_per_second": 100.0, "result_validity": "INVALID"}, {}, (), (), ()
    )
    found = speed.compare(
        V61.compliance_tests["TEST01"], "Offline", V61, invalid, scored("Offline", 100.0)
    )
    assert (
        found is not None
        and found.holds
        and "TEST FAIL: Invalid results" in speed.verify_text(found)
    )


def test_what_audit_config_sets_is_the_official_files() -> None:
    seed = 720381539243781796
    of = {name: rule.settings("bert-99") for name, rule in V61.compliance_tests.items()}
    assert of["TEST01"] == {
        "mode": 2,
        "accuracy_log_rng_seed": seed,
        "accuracy_log_sampling_target": 4096,
    }
    assert (
        V61.compliance_tests["TEST01"].settings("stable-diffusion-xl")[
            "accuracy_log_sampling_target"
        ]
        == 128
    )
    assert (
        V61.compliance_tests["TEST01"].settings("3d-unet-99")["accuracy_log_sampling_target"] == 64
    )
    assert of["TEST04"] == {
        "mode": 2,
        "performance_issue_unique": 0,
        "performance_issue_same": 1,
        "performance_issue_same_index": 3,
    }
    assert of["TEST06"] == {
        "mode": 2,
        "accuracy_log_rng_seed": seed,
        "accuracy_log_sampling_target": 100,
        "min_query_count": 100,
        "min_duration": 0,
        "sample_concatenate_permutation": 0,
    }


def test_end_tokens_are_counted_from_the_end_alone() -> None:
    def row(*tokens: int) -> Row:
        return Row(0, 0, np.array(tokens, np.int32).tobytes())

    ends = frozenset({2, 107})
    assert [
        logged_answers.end_tokens(r, ends)
        for r in (row(5), row(2, 5), row(5, 2), row(5, 2, 107), row(2, 2), row())
    ] == [
        0,
        0,
        1,
        2,
        2,
        0,
    ]


def test_each_different_answer_is_judged_once() -> None:
    rows = tuple(
        Row(n, index, data)
        for n, (index, data) in enumerate([(0, b"a"), (1, b"c"), (0, b"b"), (0, b"a")])
    )
    assert list(logged_answers.variants(rows)) == [{0: b"a", 1: b"c"}, {0: b"b"}]


def test_a_share_of_one_logs_every_sample_and_of_none_hardly_any() -> None:
    assert sampling.selected_samples(1000, 1.0, 720381539243781796).tolist() == list(range(1000))
    assert len(sampling.selected_samples(100_000, 0.01, 720381539243781796)) == pytest.approx(
        1000, rel=0.15
    )
    assert sampling.selected_samples(0, 1.0, 1).tolist() == []
