"""Earlier rounds: their layout is read, and what their LoadGen leaves out of its logs."""

import json
import shutil
from pathlib import Path

import pytest

from compliance import audit, logs, rules
from compliance import subject as tree
from compliance.checks.logs import sample_order
from formats.checks import Verdict
from tests.support import tree as runs
from tests.support.tree import base, scenario_folder

V51 = rules.load("v5.1")
_LOADED = [26, 8, 16, 36, 29, 33, 5, 21, 34, 30, 6, 11, 4, 19, 35, 28, 12, 2, 1, 31]


@pytest.fixture
def v51_tree(run, tmp_path):
    """The good tree in the layout of v5.1, without its run directory. Its logs stay those of the
    current LoadGen.
    """
    folder = scenario_folder(run)
    system, benchmark, scenario = folder.parts[-3:]
    submitter = base(run)
    measurements = submitter / "measurements" / system / benchmark / scenario
    measurements.mkdir(parents=True)
    for name in V51.layout.scenario_files:
        (folder / name).rename(measurements / name)
    (folder / "measurements.json").rename(measurements / f"{system}_{scenario}.json")
    (submitter / "src").rename(submitter / "code")
    return shutil.copytree(run / "open", tmp_path / "submission" / "open").parent


def found(directory, round):
    return {check.key: check for check in audit.audit(directory, round).checks}


ELSEWHERE = ("files-complete", "measurements-json", "source-folder", "user-conf-keys")
"""What another round looks for in other places."""


def test_the_layout_of_v51_is_read(v51_tree):
    checks = found(v51_tree, "v5.1")
    passed = {name for name, check in checks.items() if check.verdict is Verdict.PASS}
    assert passed >= {*ELSEWHERE, "no-other-files", "names-and-sizes"}
    assert "performance-requested-settings" in passed, "user.conf lies among the measurements"
    for name in ("performance-seeds", "performance-loadgen"):
        assert checks[name].verdict is Verdict.FAIL, "they are of another round"


def test_of_another_round_the_same_tree_lacks_files(v51_tree):
    checks = found(v51_tree, "v6.1")
    assert not [name for name in ELSEWHERE if checks[name].verdict is Verdict.PASS]


def test_what_lies_among_the_compliance_tests_is_looked_at(v51_tree):
    measurements = next(v51_tree.rglob("measurements/*/*/*/user.conf")).parent
    folder = Path(str(measurements).replace("measurements", "compliance")) / "TEST99"
    folder.mkdir(parents=True)
    (folder / "stray.bin").write_bytes(b"x")
    detail = found(v51_tree, "v5.1")["no-other-files"].detail
    assert "TEST99/stray.bin does not belong there" in detail


def test_what_its_loadgen_leaves_unsaid_is_filled_in(tmp_path):
    """As 5.1.2 logs it: no effective_accuracy_sample_count, and a loaded set drawn from the whole
    library of 37.
    """
    entry = {"time_ms": 0.0, "metadata": {"is_error": False, "is_warning": False}}
    values = {
        "qsl_reported_total_count": 37,
        "effective_performance_sample_count": 20,
        "effective_qsl_rng_seed": V51.seeds["qsl_rng_seed"],
        "loaded_qsl_set": _LOADED,
    }
    log = tmp_path / "mlperf_log_detail.txt"
    lines = (json.dumps({"key": key, "value": value, **entry}) for key, value in values.items())
    log.write_text("".join(f":::MLLOG {line}\n" for line in lines))
    detail = tree._completed(logs.read_detail(log), V51)
    assert detail.get("effective_accuracy_sample_count") == 37
    assert detail.get("requested_accuracy_sample_count_override") == 0
    test = runs.performance_run(tmp_path, detail)
    assert list(sample_order._loaded(test, V51)) == []
    assert list(sample_order._loaded(test, rules.load())) != []
