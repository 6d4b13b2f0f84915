"""What result.json and record.json say of a figure is what log, job and outcome make it; and who
reads the record of an earlier release.
"""

import json

import pytest

from compliance import audit
from formats.checks import Verdict
from harness.result import HARNESS
from tests.support.mutations import own_result
from tests.support.tree import edit_json


def failed(run):
    return {
        check.key
        for check in audit.audit(run, harness=HARNESS).checks_for("quick")
        if check.verdict is Verdict.FAIL
    }


def forge(run, *path, value):
    found = inner = own_result(run)
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    (run / "result.json").write_text(json.dumps(found))


@pytest.mark.parametrize("run", ["Offline", "tokens"], indirect=True)
def test_an_honest_result_holds(run):
    (run / "result.json").write_text(json.dumps(own_result(run)))
    assert not failed(run)


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("measured", "tokens"), 7),
        (("measured", "passes"), 0.5),
        (("measured", "padding_fraction"), 0.25),
        (("metrics", "tokens_per_second"), 1e9),
        (("ranked",), True),
    ],
)
def test_a_figure_that_nothing_makes_is_seen(run, path, value):
    forge(run, *path, value=value)
    assert failed(run) == {"derived-files"}


@pytest.mark.parametrize(("factor", "names"), [(1, set()), (1.01, {"derived-files"})])
@pytest.mark.parametrize("name", ["flops_per_second", "matrix_share"])
def test_operations_a_second_are_those_of_record_and_log(run, name, factor, names):
    edit_json(run / "record.json", lambda d: {**d, "least_flops": 1e6, "architecture": "bert"})
    for test in ("performance", "accuracy"):
        edit_json(run / "raw" / test / "job.json", lambda d: {**d, "architecture": "bert"})
    path = run / "raw" / "performance" / "outcome.json"
    edit_json(
        path, lambda d: {**d, "evidence_after": {**d["evidence_after"], "matrix_flops": 1e13}}
    )
    flops = 1e6 * own_result(run)["metrics"]["samples_per_second"]
    forge(
        run, "metrics", name, value=factor * (flops if name == "flops_per_second" else flops / 1e13)
    )
    assert failed(run) == names
    edit_json(run / "record.json", lambda d: {**d, "least_flops": None})
    assert failed(run) == {"derived-files"}


WORK = {
    "first": {"flops": {"matrix product": 1e6}, "weights": 1e6, "activations": 1e3, "passes": 1}
}


def with_work(run):
    """Write counted work and limits into the record. Return samples a second."""
    roof = {"matrix_flops": 1e13, "read_bytes_per_second": 1e13}
    edit_json(run / "record.json", lambda d: {**d, "work": WORK, "roof": roof})
    return own_result(run)["metrics"]["samples_per_second"]


@pytest.mark.parametrize(("factor", "names"), [(1, set()), (1.01, {"derived-files"})])
@pytest.mark.parametrize("name", ["matrix_share", "bandwidth_share", "flops_per_byte"])
def test_shares_of_the_machine_are_those_of_counted_work_and_kept_limits(run, name, factor, names):
    rate = with_work(run)
    measured = own_result(run)["measured"]
    moved = 4 * (1e6 * measured["batches"] / measured["samples"] + 1e3)
    values = {
        "matrix_share": 1e6 * rate / 1e13,
        "bandwidth_share": moved * rate / 1e13,
        "flops_per_byte": 1e6 / moved,
    }
    forge(run, "metrics", name, value=factor * values[name])
    assert failed(run) == names


@pytest.mark.parametrize(("limit", "names"), [("neither", set()), ("memory", {"derived-files"})])
def test_no_limit_binds_if_both_shares_are_small(run, limit, names):
    with_work(run)
    forge(run, "binds", value=limit)
    assert failed(run) == names


@pytest.mark.parametrize(("least", "names"), [(1.2e6, set()), (2e6, {"outcomes-and-result"})])
def test_counted_work_is_not_less_than_what_the_weights_need(run, least, names):
    with_work(run)
    edit_json(run / "record.json", lambda d: {**d, "least_flops": least})
    assert failed(run) == names


@pytest.mark.parametrize(("rate", "names"), [(9e13, set()), (1.1e14, {"outcomes-and-result"})])
def test_kept_limits_are_not_far_below_the_workers_own_product(run, rate, names):
    with_work(run)
    path = run / "raw" / "performance" / "outcome.json"
    edit_json(
        path, lambda d: {**d, "evidence_after": {**d["evidence_after"], "matrix_flops": rate}}
    )
    assert failed(run) == names


@pytest.mark.parametrize(("value", "names"), [(500.5, set()), (500.0, {"derived-files"})])
def test_operators_for_a_batch_are_those_of_the_outcome(run, value, names):
    detail = {"operators_called": 1001, "batches": 2}
    path = run / "raw" / "performance" / "outcome.json"
    edit_json(path, lambda d: {**d, "evidence_after": {**d["evidence_after"], "detail": detail}})
    forge(run, "metrics", "operators_per_batch", value=value)
    assert failed(run) == names


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_end_tokens_that_the_worker_was_not_told_of_are_seen(run):
    edit_json(run / "record.json", lambda d: {**d, "cell": {**d["cell"], "eos": "stop"}})
    assert "record" in failed(run)
    edit_json(
        run / "record.json",
        lambda d: {**d, "cell": {**d["cell"], "eos": "ignore"}, "end_tokens": [2]},
    )
    assert "record" in failed(run)


def test_a_record_of_an_earlier_version_is_refused_in_one_sentence_that_says_who_reads_it(run):
    edit_json(
        run / "record.json", lambda d: {**d, "schema": "record-2", "git": {"revision": "abc123"}}
    )
    (check,) = audit.audit(run).checks
    assert (check.id, check.verdict) == ("version-of-the-record", Verdict.FAIL)
    assert check.fix == "audit it with that release, at revision abc123"
