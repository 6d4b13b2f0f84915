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
    "no source": (_remove("src"), "source-folder", "it is missing"),
    "no README": (
        _remove(f"{MODEL}/Server/README.md"),
        "files-complete",
        "README.md is missing",
    ),
    "no measurements": (
        _remove(f"{MODEL}/Server/measurements.json"),
        "measurements-json",
        "measurements.json is missing",
    ),
    "measurements without a field": (
        _json(f"{MODEL}/Server/measurements.json", retraining=None),
        "measurements-json",
        "'retraining' is a required property",
    ),
    "no system description": (
        _remove("systems/sys72.json"),
        "system-description",
        "sys72.json is missing",
    ),
    "system without a field": (
        _system(cooling=None),
        "system-description",
        "'cooling' is a required property",
    ),
    "system without a submitter": (
        _system(submitter=None),
        "system-description",
        "submitter is missing; the folder is Someone",
    ),
    "status that is none": (_system(status="sold"), "system-description", "status is 'sold'"),
    "another submitter": (
        _system(submitter="Other"),
        "system-description",
        "submitter is 'Other'; the folder is Someone",
    ),
    "a network system in closed": (_system(is_network="True"), "network", "requires absent"),
    "no Offline": (_remove(f"{MODEL}/Offline"), "scenarios", "Offline is missing"),
    "neither Server nor Interactive": (
        _remove(f"{MODEL}/Server", f"{MODEL}/Interactive"),
        "scenarios",
        "Server or Interactive is missing",
    ),
    "a scenario of other benchmarks": (
        _one_more,
        "scenarios",
        "SingleStream is not a scenario of deepseek-r1",
    ),
    "an edge system": (_system(system_type="edge"), "scenarios", "not a benchmark of this system"),
    "no benchmark of this name": (
        lambda submitter: (submitter / MODEL).rename(submitter / "results/sys72/deepseek_r1"),
        "model-mapping",
        "deepseek_r1 is not an official benchmark",
    ),
    "an empty detail log beside the result": (
        _half_of_loadgen,
        "files-complete",
        "performance/run_1/mlperf_log_detail.txt is empty",
    ),
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A submission of the published results of deepseek-r1."""
    root = tmp_path_factory.mktemp("closed")
    system = submission(root)
    for name in RESULTS:
        if name.startswith("deepseek-r1"):
            published(name).write(system / name)
    return root


@pytest.mark.parametrize("name", TREES)
def test_a_tree_that_the_checker_refuses_does_not_pass(closed, tmp_path, name):
    change, check_id, words = TREES[name]
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
