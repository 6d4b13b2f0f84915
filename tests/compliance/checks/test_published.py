"""What published submissions have and the checkers of their rounds accept."""

import shutil

import pytest

from compliance.checks.logs import latencies
from compliance.loadgen import schedule
from compliance.loadgen.latency_keys import PERCENTILES, SAMPLES
from compliance.logs import Detail
from formats.checks import RequiredBy, Verdict
from tests.support.audits import checks, failed
from tests.support.tree import scenario_folder


def _of_several_models(root, target="1"):
    """Let user.conf have the lines of several models, and none of the folder's name."""
    conf = scenario_folder(root) / "user.conf"
    text = conf.read_text(encoding="utf-8").replace("bert-tiny.", "bert.")
    assert "bert.Offline.target_qps = " in text
    if target != "1":
        text = text.replace("bert.Offline.target_qps = ", f"bert.Offline.target_qps = {target}")
    others = "bert-interactive.Offline.target_qps = 2\nbert-interactive.Offline.min_duration = 3\n"
    conf.write_text(others + text, encoding="utf-8")


def test_a_user_conf_may_serve_several_models(bare):
    _of_several_models(bare)
    assert not failed(bare, "quick")


def test_a_setting_that_no_model_of_user_conf_has_fails(bare):
    _of_several_models(bare, target="9")
    found = failed(bare, "quick")
    assert list(found) == ["performance-requested-settings"]
    assert "bert.Offline.target_qps" in found["performance-requested-settings"].detail


@pytest.mark.parametrize(
    "name", ["summary.html", "cpu_info.json", "performance/run_1/metadata.json"]
)
def test_files_of_the_official_tools_may_be_there(bare, name):
    (scenario_folder(bare) / name).write_text("x")
    assert not failed(bare, "quick")


def test_a_log_that_was_truncated_on_windows_is_read(bare):
    accuracy = scenario_folder(bare) / "accuracy"
    log, words = accuracy / "mlperf_log_accuracy.json", accuracy / "accuracy.txt"
    whole = log.read_bytes()
    cut = whole[:4096] + b"\n\n...\n\n" + whole[-4096:]
    for path, content in ((log, cut), (words, words.read_bytes())):
        path.write_bytes(content.replace(b"\n", b"\r\n"))
    assert not [name for name in failed(bare, "quick") if name.startswith("accuracy-")]


@pytest.mark.parametrize(
    ("old", "new", "required_by"),
    [
        ('"retraining"', '"retraining": "no",\n "retraining"', RequiredBy.RULES),
        ('"weight_data_types"', '"weight_data_typed"', RequiredBy.CHECKER),
    ],
)
def test_the_checker_reads_a_key_twice_and_misses_one_that_is_gone(bare, old, new, required_by):
    path = scenario_folder(bare) / "measurements.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert failed(bare, "quick")["measurements-json"].required_by is required_by


@pytest.mark.parametrize("folder", ["performance/run1", "perf/run_1", "Performance/run_1"])
def test_a_renamed_folder_is_named_with_the_file_that_is_missing(bare, folder):
    path = scenario_folder(bare) / folder
    path.parent.mkdir(exist_ok=True)
    (scenario_folder(bare) / "performance" / "run_1").rename(path)
    detail = failed(bare, "quick")["files-complete"].detail
    log = "mlperf_log_detail.txt"
    assert f"performance/run_1/{log} is missing: {folder}/{log} is there" in detail


def test_logs_that_stop_leave_one_failure_and_the_checks_that_need_them_unmade(bare):
    path = scenario_folder(bare) / "performance" / "run_1" / "mlperf_log_detail.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:40]), encoding="utf-8")
    found = failed(bare, "quick")
    assert [check.detail for check in found.values()] == [
        "the test did not end: the log stops at line 40"
    ]


def test_an_accuracy_log_in_the_performance_folder_is_judged_as_one_of_another_test(bare):
    folder, log = scenario_folder(bare), "mlperf_log_detail.txt"
    shutil.copy(folder / "accuracy" / log, folder / "performance" / "run_1" / log)
    assert "performance-test-and-scenario" in failed(bare, "quick")


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        ("np.float64(90.874)", "F1 is np.float64(90.874), in which MLCommons' checker finds no"),
        ("tensor(90.874)", "PyTorch prints a scalar so"),
        ("Array(90.874, dtype=float32)", "JAX prints a scalar so"),
    ],
)
def test_a_score_that_a_library_prints_as_its_scalar_is_shown_with_the_library(
    bare, printed, sentence
):
    _score(bare, f'{{"exact_match": np.float64(83.7), "f1": {printed}}}')
    eligibility = checks(bare)["eligibility"]
    assert sentence in eligibility.detail


@pytest.mark.parametrize("value", ["nan", "NaN", "np.float64(nan)", "inf", "-Infinity"])
@pytest.mark.parametrize("benchmark", ["", "something-else"])
def test_a_score_that_is_no_finite_number_fails_in_the_open_division(bare, value, benchmark):
    _score(bare, f'{{"exact_match": 83.7, "f1": {value}}}')
    if benchmark:
        folder = scenario_folder(bare).parent
        folder.rename(folder.with_name(benchmark))
    check = checks(bare)["accuracy-target"]
    assert check.verdict is Verdict.FAIL and check.faults[0].line == 1


def _score(root, line):
    path = scenario_folder(root) / "accuracy" / "accuracy.txt"
    rest = path.read_text(encoding="utf-8").splitlines()[1:]
    path.write_text("\n".join([line, *rest, ""]), encoding="utf-8")


@pytest.mark.parametrize(
    ("hashes", "required_by"), [("", RequiredBy.LOGS), ("hash=" + "1" * 64, RequiredBy.RULES)]
)
def test_published_results_have_two_hashes_and_never_none(bare, hashes, required_by):
    path = scenario_folder(bare) / "accuracy" / "accuracy.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = lines if hashes else [line for line in lines if not line.startswith("hash=")]
    path.write_text("\n".join([*kept, hashes, ""]), encoding="utf-8")
    assert failed(bare, "quick")["accuracy-hash"].required_by is required_by


def test_a_missing_accuracy_txt_is_missing(bare):
    (scenario_folder(bare) / "accuracy" / "accuracy.txt").unlink()
    found = failed(bare, "quick")
    for check in ("accuracy-hash", "accuracy-score"):
        assert found[check].detail == "accuracy.txt is missing"


def test_the_order_of_a_log_before_1_0_is_not_judged(bare):
    detail = scenario_folder(bare) / "accuracy" / "mlperf_log_detail.txt"
    detail.write_text('"pid": 442, "tid": 442, "ts": 8187ns : version : .5a1 @ 5a4803e37b\n')
    check = checks(bare)["accuracy-order"]
    assert check.verdict is Verdict.NA and "which is not judged" in check.detail


@pytest.mark.parametrize(("samples", "faults"), [(7_920_000, 0), (24_576, 1)])
def test_a_sum_of_latencies_beyond_63_bits_has_no_mean(samples, faults):
    low, high = 2_448_658_552, 1_180_000_000_000
    values = {SAMPLES.percentile.format(name): high for name in PERCENTILES}
    values |= {SAMPLES.minimum: low, SAMPLES.maximum: high, SAMPLES.mean: low - 1}
    values |= {"generated_samples_per_query": samples}
    found = latencies._latency_faults(SAMPLES, Detail(values, {}, (), (), ()))
    assert len(list(found)) == faults


@pytest.mark.parametrize(("rate", "queries"), [(650_000.0, 390_133_433), (1.0, 600)])
def test_a_schedule_too_long_to_compute_has_about_so_many_queries(rate, queries):
    """The first is a published result of dlrm-v2-99 in v5.1."""
    assert abs(schedule.about(rate, 600_000) - queries) < 2 * queries**0.5
