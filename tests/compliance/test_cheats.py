"""SUTs that cheat, measured by the real worker and LoadGen: each is caught by the check that is
there for it, and what is not is stated.
"""

from operator import itemgetter

import pytest

from compliance import audit
from compliance import subject as tree
from compliance.audit_tests import compliance_tests
from compliance.folders import result_folders
from formats.checks import Verdict
from tests.cheats import END
from tests.support import tree as runs
from tests.support.long import first_of_each
from tests.support.mutations import record
from tests.support.rounds import loosened

# Cheat, scenario, task, compliance tests to run, the checks that fail.
CAUGHT = [
    ("Caches", "SingleStream", "predict", ["TEST04"], {"test04-performance"}),
    ("TwoFaced", "SingleStream", "predict", ["TEST01"], {"test01-answers"}),
    ("TwoFaced", "Offline", "predict", ["TEST01"], {"test01-answers"}),
    ("StopsEarly", "Offline", "generate", ["TEST01"], {"test01-answers", "output-length"}),
    ("EndsTwice", "Offline", "generate", ["TEST06"], {"test06-eos", "accuracy-score"}),
    (
        "CompletesTwice",
        "SingleStream",
        "predict",
        ["TEST01"],
        {"performance-errors", "accuracy-errors", "test01-log"},
    ),
    ("SmallBatches", "Offline", "predict", ["TEST01"], {"test01-answers"}),
    ("sleeps_less", "SingleStream", "predict", ["TEST01"], {"test01-performance"}),
]


def failing(run, of):
    """The checks that fail: the audit's, and those of the compliance tests by these rules."""
    (place,) = result_folders(run, of)
    audited = [
        check
        for check in audit.audit(run).checks_for("quick")
        if not check.id.startswith(("test", "output-length"))
    ]
    found = audited + compliance_tests.checks(tree.read(place, of))
    return {check.id for check in found if check.verdict is Verdict.FAIL}


def measured(folder, cheat, scenario, task, names, of):
    """Of samples that take so long that a busy machine's scheduler adds little to them, and so many
    that early stopping can tell.
    """
    worker = ("tests.cheats", cheat)
    run = runs.build(folder / "run", scenario, task, worker, milliseconds=1000, latency_ms=10.0)
    if cheat == "EndsTwice":
        record(end_tokens=[END])(run)
    return runs.comply(run, worker, names, of)


@pytest.mark.parametrize(
    ("cheat", "scenario", "task", "names", "checks"),
    first_of_each(CAUGHT, key=itemgetter(0)),
    ids=[f"{c[0]}-{c[1]}" for c in CAUGHT],
)
def test_a_cheat_is_caught_by_its_check(tmp_path, cheat, scenario, task, names, checks):
    of = loosened()
    assert failing(measured(tmp_path, cheat, scenario, task, names, of), of) >= checks


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_a_skipped_sample_ends_the_worker_before_there_is_a_result(tmp_path, scenario):
    words = r"has the shape \[\d, 2\] for a batch of \d samples"
    with pytest.raises(runs.WorkerFailed, match=words):
        runs.build(tmp_path / "run", scenario, worker=("tests.cheats", "Skips"))


@pytest.mark.long
def test_right_answers_that_were_not_computed_are_not_told_apart(tmp_path):
    """No file shows it: logs hold answers and times, and a fast right answer is a fast right
    answer. The source is submitted for people.
    """
    of = loosened()
    run = measured(
        tmp_path, "knows_the_answers", "SingleStream", "predict", ["TEST01", "TEST04"], of
    )
    assert failing(run, of) == set()
