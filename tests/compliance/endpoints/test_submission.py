"""The documents and folders of a submission with results of mlcommons/endpoints: what MLCommons'
checker refuses of LoadGen's results, it refuses of these.
"""

import json
import shutil

import pytest

from compliance import audit
from formats.checks import RequiredBy, Verdict
from tests.support.endpoints import RESULTS, published, submission

CHECKER, LOGS, TEXT = RequiredBy.CHECKER, RequiredBy.LOGS, RequiredBy.RULES
MODEL = "results/sys72/deepseek-r1"


def _json(name, **values):
    """A change of a JSON file. A value of None removes its key."""

    def change(submitter):
        document = {**json.loads((submitter / name).read_text()), **values}
        kept = {key: value for key, value in document.items() if value is not None}
        (submitter / name).write_text(json.dumps(kept))

    return change


def _system(**values):
    return _json("systems/sys72.json", **values)


def _remove(*names):
    def change(submitter):
        for name in names:
            path = submitter / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def _one_more(submitter):
    shutil.copytree(submitter / MODEL / "Offline", submitter / MODEL / "SingleStream")


def _half_of_loadgen(submitter):
    folder = submitter / MODEL / "Server" / "performance" / "run_1"
    folder.mkdir()
    (folder / "mlperf_log_detail.txt").touch()


TREES = {
    "source-folder": {
        "it is missing": _remove("src"),
    },
    "files-complete": {
        "README.md is missing": _remove(f"{MODEL}/Server/README.md"),
        "performance/run_1/mlperf_log_detail.txt is empty": _half_of_loadgen,
    },
    "measurements-json": {
        "measurements.json is missing": _remove(f"{MODEL}/Server/measurements.json"),
        "'retraining' is a required property": _json(
            f"{MODEL}/Server/measurements.json", retraining=None
        ),
    },
    "system-description": {
        "sys72.json is missing": _remove("systems/sys72.json"),
        "'cooling' is a required property": _system(cooling=None),
        "submitter is missing; the folder is Someone": _system(submitter=None),
        "status is 'sold'": _system(status="sold"),
        "submitter is 'Other'; the folder is Someone": _system(submitter="Other"),
    },
    "network": {
        "requires absent": _system(is_network="True"),
    },
    "scenarios": {
        "Offline is missing": _remove(f"{MODEL}/Offline"),
        "Server or Interactive is missing": _remove(f"{MODEL}/Server", f"{MODEL}/Interactive"),
        "SingleStream is not a scenario of deepseek-r1": _one_more,
        "not a benchmark of this system": _system(system_type="edge"),
    },
    "model-mapping": {
        "deepseek_r1 is not an official benchmark": lambda submitter: (submitter / MODEL).rename(
            submitter / "results/sys72/deepseek_r1"
        ),
    },
}
"""Id of the check that fails → words of its detail → the change of the submitter's folder."""


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A submission of the published results of deepseek-r1."""
    root = tmp_path_factory.mktemp("closed")
    system = submission(root)
    for name in RESULTS:
        if name.startswith("deepseek-r1"):
            published(name).write(system / name)
    return root


@pytest.mark.parametrize(
    ("check_id", "words", "change"),
    [(check_id, *row) for check_id, changes in TREES.items() for row in changes.items()],
)
def test_a_tree_that_the_checker_refuses_does_not_pass(closed, tmp_path, check_id, words, change):
    root = tmp_path / "root"
    shutil.copytree(closed, root)
    change(root / "closed" / "Someone")
    report = audit.audit(root)
    failed = [c for c in report.checks if c.verdict is Verdict.FAIL]
    found = [c for c in failed if c.id == check_id and words in c.detail]
    assert found, [(c.id, c.detail) for c in failed]
    assert {c.required_by for c in found} == {CHECKER}
    assert not report.passes("submission", strict=False)


def test_the_whole_tree_passes(closed):
    assert audit.audit(closed).passes("submission")


def test_a_name_of_no_benchmark_is_refused_in_open_too(tmp_path):
    system = submission(tmp_path, "open")
    published("deepseek-r1/Server").write(system / "my-model" / "Server")
    report = audit.audit(tmp_path)
    failed = {c.id: c.detail for c in report.checks if c.verdict is Verdict.FAIL}
    assert "my-model is not an official benchmark, and not mapped to one" in failed["model-mapping"]
    assert not report.passes("submission", strict=False)
