"""Cells → an array of jobs: comparisons stay together, and a job measures exactly its cells."""

import pytest

from harness.cluster import array
from harness.errors import UsageError
from harness.sweep.recipe import Recipe


def grid(**flags):
    return {name: value.split(";") for name, value in flags.items()}


def test_suts_with_the_same_work_are_one_job_and_other_work_is_another():
    suts = "native-jax,keras3-jax"
    grids = [grid(sut=suts, model="bert,mistral", scenario="Offline,SingleStream")]
    groups = array.comparisons(grids)
    assert [len(group) for group in groups] == [2, 2, 2, 2]
    assert [cell["model"] for cell in groups[0]] == [["bert"], ["bert"]]
    assert [cell["sut"] for cell in groups[0]] == [["native-jax"], ["keras3-jax"]]


def test_options_of_a_sut_and_replicas_do_not_separate_rivals():
    plain = grid(sut="native-jax", model="bert", replicas="2")
    other = grid(sut="mock", model="bert", sut_option="latency-ms=1;seed=2")
    (group,) = array.comparisons([plain, other])
    assert [cell.get("replicas") for cell in group] == [["1/2"], ["2"], None]
    assert group[2]["sut_option"] == ["latency-ms=1", "seed=2"]


def test_a_default_may_be_the_value_of_a_rival_so_both_are_on_one_node():
    each = grid(sut="mock", model="bert", batch_size="32,1", scenario="Offline")
    assert [len(group) for group in array.comparisons([each])] == [1, 1]
    default = grid(sut="native-jax", model="bert", scenario="Offline")
    assert [len(group) for group in array.comparisons([each, default])] == [3]


def test_a_job_measures_its_comparison_and_another_number_is_refused():
    grids = (grid(sut="mock", model="bert,mistral", scenario="Offline"),)
    recipe = Recipe(name="sweep", grids=grids, missing={"a": "b"})
    part = array.part(recipe, "sweep-1.2")
    assert part.name == "sweep-1.2" and part.missing == {"a": "b"}
    assert [cell["model"] for cell in part.grids] == [["mistral"]]
    for name in ("sweep-1.0", "sweep-1.3", "sweep-1", "../sweep-1.2"):
        with pytest.raises(UsageError, match=r"--part .*: give a name, a dot and a number from 1"):
            array.part(recipe, name)
