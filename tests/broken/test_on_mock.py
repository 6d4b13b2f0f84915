"""Mistakes that need no framework are caught in quick mode, each by the check that is there for it;
honest variants stay ok.
"""

from operator import itemgetter

import pytest

from compliance import audit
from formats.checks import Verdict
from tests.support import tree
from tests.support.long import first_of_each

BOTH = ("Offline", "SingleStream")
TASKS = {"Offline": ("predict", "generate"), "SingleStream": ("predict", "generate")}
WATCHED, SCORE, FRESH = "answers-while-measuring", "accuracy-score", "fresh-inputs"
# SUT, scenario, task, the check that fails.
JUDGED = [
    *(("Stale", scenario, task, WATCHED) for scenario in BOTH for task in TASKS[scenario]),
    ("StaleForEver", "Offline", "predict", SCORE),
    ("Zeros", "Offline", "generate", WATCHED),
    ("NotANumber", "SingleStream", "predict", WATCHED),
    ("Shifted", "Offline", "predict", WATCHED),
    ("Shifted", "Offline", "generate", WATCHED),
    ("FirstForAll", "Offline", "predict", WATCHED),
    ("HalfTheTokens", "Offline", "generate", WATCHED),
    ("OneToken", "Offline", "generate", WATCHED),
    ("LastTokenWrong", "Offline", "generate", WATCHED),
    ("HalfPrecision", "SingleStream", "predict", WATCHED),
    ("Remembers", "Offline", "predict", FRESH),
    ("Remembers", "Offline", "generate", FRESH),
    ("RemembersOnDisk", "SingleStream", "predict", FRESH),
    ("RemembersBatches", "SingleStream", "generate", FRESH),
    ("RemembersTheFirstTokens", "SingleStream", "predict", SCORE),
    ("Compiled", "Offline", "predict", "performance-evidence"),
    ("CompilesWhileMeasuring", "Offline", "predict", "performance-evidence"),
    ("OtherPrecision", "Offline", "predict", "performance-precision"),
    ("SwappedRows", "Offline", "predict", SCORE),
    ("OneBatchBehind", "SingleStream", "generate", SCORE),
    ("OneBuffer", "Offline", "generate", SCORE),
]
REFUSED = [
    ("InPlace", "SingleStream", "predict", "read-only"),
    ("InPlaceByAddress", "SingleStream", "predict", "wrote into its inputs"),
    ("CountsDown", "SingleStream", "generate", "read-only"),
    ("Prepared", "Offline", "predict", "prepare computed `embedded`"),
    ("Answered", "Offline", "predict", "prepare computed `answer`"),
    ("HalfTheInput", "Offline", "predict", "prepare computed `input_ids`"),
    ("FewerSamples", "Offline", "predict", "prepare returned"),
    ("NoEvidence", "Offline", "predict", "0 times"),
    ("OtherEvidence", "Offline", "predict", "0 times"),
    ("TwiceTheEvidence", "SingleStream", "predict", "2 times"),
]
HONEST = [
    ("Copies", "Offline", "predict"),
    ("Recomputes", "SingleStream", "generate"),
    ("Rounds", "Offline", "predict"),
]
HONEST += [
    ("PadsOnTheLeft", "SingleStream", "generate"),
    ("Working", "Offline", "generate"),
    ("Working", "SingleStream", "predict"),
]


def measured(folder, name, scenario, task):
    return tree.build(
        folder / "run", scenario, task, ("tests.broken.on_mock", name), milliseconds=1000
    )


def failing(run):
    return {
        check.id for check in audit.audit(run).checks_for("quick") if check.verdict is Verdict.FAIL
    }


@pytest.mark.parametrize(
    ("name", "scenario", "task", "check"),
    first_of_each(JUDGED, key=itemgetter(0)),
    ids=["-".join(case[:3]) for case in JUDGED],
)
def test_a_mistake_is_caught_by_its_check(tmp_path, monkeypatch, name, scenario, task, check):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert check in failing(measured(tmp_path, name, scenario, task))


@pytest.mark.parametrize(
    ("name", "scenario", "task", "words"), REFUSED, ids=["-".join(case[:3]) for case in REFUSED]
)
def test_a_mistake_ends_the_worker_with_a_sentence(tmp_path, name, scenario, task, words):
    with pytest.raises(tree.WorkerFailed, match=words):
        measured(tmp_path, name, scenario, task)


@pytest.mark.parametrize(
    ("name", "scenario", "task"), HONEST, ids=["-".join(case) for case in HONEST]
)
def test_an_honest_variant_fails_no_check(tmp_path, name, scenario, task):
    assert failing(measured(tmp_path, name, scenario, task)) == set()
