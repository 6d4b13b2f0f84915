"""Which compliance tests apply to a workload, and the settings of their audit.config."""

from dataclasses import replace
from pathlib import Path

import pytest

from compliance import rules
from compliance.audit_tests import compliance_tests
from tests.support.synthetic_runs import cell, job

V61 = rules.load("v6.1")


def buckets(prompts, new_tokens):
    return {"prompt_buckets": prompts, "new_token_buckets": new_tokens}


@pytest.mark.parametrize(
    ("name", "task", "config", "samples", "words"),
    [
        ("TEST01", "generate", {}, 64, ""),
        ("TEST06", "predict", {}, 64, "generates no tokens"),
        ("TEST06", "generate", {}, 64, ""),
        ("TEST04", "predict", {}, 64, ""),
        ("TEST04", "predict", {}, 3, "the library has 3"),
        ("TEST04", "generate", buckets([5], [45]), 64, ""),
        ("TEST04", "generate", buckets([16, 32], [45]), 64, "prompt buckets"),
        ("TEST04", "generate", buckets([5], [8, 16]), 64, "new token buckets"),
    ],
)
def test_which_tests_say_something_of_a_workload(name, task, config, samples, words):
    of = job(cell(task=task), Path("run"), **config)
    why = compliance_tests.inapplicable(name, of, samples)
    assert words in why and bool(why) == bool(words)


def test_one_sample_is_not_compared_with_all_if_batches_are_cut_to_several_lengths():
    of = job(cell(), Path("run"))
    sorted_only = replace(of, length_buckets=(128,))
    assert not compliance_tests.inapplicable("TEST04", sorted_only, 64)
    cut = replace(of, length_buckets=(32, 64, 128))
    assert "several lengths" in compliance_tests.inapplicable("TEST04", cut, 64)
