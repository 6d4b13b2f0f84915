"""What result.json and record.json say of a figure is what log, job and outcome make it; and who
reads the record of an earlier release.
"""

import json

import pytest

from compliance import audit
from formats.checks import Verdict
from harness.result import HARNESS
from tests.support import audits
from tests.support import mutations as m


def failed(run):
    return audits.failed(run, "quick", harness=HARNESS).keys()


@pytest.mark.parametrize("run", ["Offline", "tokens"], indirect=True)
def test_an_honest_result_holds(run):
    (run / "result.json").write_text(json.dumps(m.own_result(run)))
    assert not failed(run)


WORK = {
    "first": {"flops": {"matrix product": 1e6}, "weights": 1e6, "activations": 1e3, "passes": 1}
}


ROOF = {"matrix_flops": 1e13, "read_bytes_per_second": 1e13}


@pytest.mark.parametrize(("least", "names"), [(1.2e6, set()), (2e6, {"outcomes-and-result"})])
def test_counted_work_is_not_less_than_what_the_weights_need(run, least, names):
    m.record(work=WORK, roof=ROOF, least_flops=least)(run)
    assert failed(run) == names


@pytest.mark.parametrize(("rate", "names"), [(9e13, set()), (1.1e14, {"outcomes-and-result"})])
def test_kept_limits_are_not_far_below_the_workers_own_product(run, rate, names):
    m.record(work=WORK, roof=ROOF)(run)
    m.document("raw/performance/outcome.json", "evidence_after", matrix_flops=rate)(run)
    assert failed(run) == names


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_end_tokens_that_the_worker_was_not_told_of_are_seen(run):
    m.record("cell", eos="stop")(run)
    assert "record" in failed(run)
    m.record("cell", eos="ignore")(run)
    m.record(end_tokens=[2])(run)
    assert "record" in failed(run)


def test_a_record_of_an_earlier_version_is_refused_in_one_sentence_that_says_who_reads_it(run):
    m.record(schema="record-2", git={"revision": "abc123"})(run)
    (check,) = audit.audit(run).checks
    assert (check.id, check.verdict) == ("version-of-the-record", Verdict.FAIL)
    assert check.fix == "audit it with that release, at revision abc123"
