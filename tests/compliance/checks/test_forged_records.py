"""What record.json, the tree and result.json claim of themselves: a good run or submission, one
claim changed, the check that sees it.
"""

import json
import os
import shutil
from dataclasses import replace
from fnmatch import fnmatch

import pytest

from compliance import rules
from compliance.logs import files
from formats.checks import Verdict
from formats.job import Limits
from harness.inputs import models
from harness.request.request import _PACE
from harness.result import HARNESS
from harness.submission import inference
from results import documents
from scenarios.worker import loadgen, preflight
from tests.support import audits, mock_job, tree
from tests.support import mutations as m
from tests.support.mutations import ANSWERS, SUMMARY
from tests.support.tree import base, detail, scenario_folder

PASS, FAIL, MANUAL, NA = Verdict.PASS, Verdict.FAIL, Verdict.MANUAL, Verdict.NA
MACHINE = {
    "cpu": "Processor (R) 9",
    "sockets": 1,
    "cores": 2,
    "threads": 4,
    "usable_threads": 4,
    "frequency_mhz": None,
    "governor": None,
    "caches": "L2 2048K",
    "memory_bytes": 25276502016,
    "disk_bytes": 270553174016,
    "disk_kind": "virtual disk (vda)",
    "network_cards": 1,
    "operating_system": "Debian",
    "kernel": "Linux 6",
    "virtualisation": None,
    "accelerators": [{"name": "NVIDIA H200", "memory_bytes": 150 << 30, "driver": "1"}],
}


def _checks(directory):
    return audits.checks(directory, harness=HARNESS)


def _told(directory, name):
    check = _checks(directory)[name]
    return check.verdict, check.detail


def _bare(run):
    return shutil.copytree(run / "open", run.parent / "bare" / "open").parent


@pytest.fixture
def described(run):
    """The good run with a whole machine in its record, a tree as the harness makes it of that, and
    a result.json.
    """
    m.record(machine=MACHINE, submitter=tree.SUBMITTER)(run)
    versions = {"python": "3.11.7", "numpy": "2.4.6"}
    m.record("environment", versions=versions)(run)
    m.outcome("performance", versions=versions)(run)
    record = files.record(run / "record.json")
    _describe(run)
    _write(scenario_folder(run) / "measurements.json", documents.measurements(record))
    _write(run / "result.json", m.own_result(run))
    return run


def _describe(run):
    """Describe the one system of the tree as the harness does."""
    record = files.record(run / "record.json")
    name = documents.system_id(record)
    (path,) = (base(run) / "systems").iterdir()
    path.unlink()
    _write(path.with_name(f"{name}.json"), inference.system_description(record, tree.SUBMITTER))
    (base(run) / "results" / path.stem).rename(base(run) / "results" / name)


def _write(path, value):
    path.write_text(json.dumps(value))


# The tree and the outcomes against the record.


def test_a_tree_as_the_harness_makes_it_holds(described):
    found = _checks(described)
    assert not [
        check.line() for check in found.values() if check.verdict is FAIL and check.level == "quick"
    ]
    names = ("system-of-the-record", "measurements-of-the-record", "outcomes-and-result")
    assert {found[name].verdict for name in (*names, "derived-files")} == {PASS}
    assert not {*names} & _checks(_bare(described)).keys()


def test_without_a_record_that_can_be_read_nothing_is_compared(described):
    (described / "record.json").write_text("[]")
    found = _checks(described)
    assert "outcomes-and-result" not in found
    assert found["record"].verdict is found["record-json"].verdict is FAIL


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("number_of_nodes", "2"),
        ("host_processor_model_name", "AMD EPYC 9965"),
        ("host_processor_core_count", "384"),
        ("host_memory_capacity", "2048.0 GiB"),
        ("accelerators_per_node", "8"),
        ("accelerator_model_name", "NVIDIA H200"),
        ("framework", "TensorRT 10"),
        ("framework", "mock: numpy 3.0"),
        ("operating_system", "Another"),
        ("system_name", "DGX"),
    ],
)
def test_a_system_that_is_not_the_recorded_machine_fails(described, key, value):
    m.system(**{key: value})(described)
    outcome, told = _told(described, "system-of-the-record")
    assert outcome is FAIL and told.startswith(f"{key} is {value!r}; record.json says ")


def test_a_gpu_is_described_as_it_was_recorded(described):
    m.record("cell", device="cuda")(described)
    outcome, told = _told(described, "system-of-the-record")
    assert outcome is FAIL
    assert "accelerator_model_name is 'N/A'; record.json says 'NVIDIA H200'" in told
    _describe(described)
    assert _told(described, "system-of-the-record")[0] is PASS


def test_another_system_folder_fails(described):
    (system,) = (base(described) / "results").iterdir()
    system.rename(system.with_name("DGX"))
    (path,) = (base(described) / "systems").iterdir()
    path.rename(path.with_name("DGX.json"))
    assert _told(described, "system-of-the-record") == (
        FAIL,
        "the system's folder is DGX; by machine and SUT of record.json it is Processor-R-9-4t-mock",
    )


def test_another_submitter_fails(described):
    m.system(submitter="another")(described)
    base(described).rename(described / "open" / "another")
    assert _told(described, "system-of-the-record") == (
        FAIL,
        "the submitter's folder is another; record.json says nobody",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weight_data_types", "int4"),
        ("input_data_types", "fp8"),
        ("starting_weights_filename", "bert-large (sha256 0000)"),
    ],
)
def test_measurements_that_are_not_of_the_record_fail(described, key, value):
    m.measurements(**{key: value})(described)
    outcome, told = _told(described, "measurements-of-the-record")
    assert outcome is FAIL and told.startswith(f"{key} is {value!r}; ")


def test_input_types_are_those_the_record_tells(described):
    shapes = {
        "image": {"dtype": "float32", "shape": [8, 8, 3]},
        "points": {"dtype": "int32", "shape": [2]},
    }
    m.record(inputs=shapes)(described)
    told = "input_data_types is 'int32'; the run has 'float32, int32'"
    assert _told(described, "measurements-of-the-record") == (FAIL, told)
    m.measurements(input_data_types="float32, int32")(described)
    assert _told(described, "measurements-of-the-record")[0] is PASS


def test_answers_that_are_not_those_that_were_judged_fail(described):
    m.record(answers={"boxes": {"dtype": "float32", "shape": [4]}})(described)
    outcome, told = _told(described, "record")
    assert outcome is FAIL
    assert "accuracy.keys is ['logits']; the worker answered ['boxes']" in told


@pytest.mark.parametrize(
    ("stated", "outcome"),
    [
        ({"mask_mean_iou": 0.999, "box_error": 1e-4}, PASS),
        ({"mask_mean_iou": 0.5, "box_error": 1e-4}, FAIL),
        ({"mask_mean_iou": 0.999, "box_error": 1e-2}, FAIL),
        ({"box_error": None}, FAIL),
    ],
)
def test_a_tolerance_of_arrays_is_held_to_the_rounds_limits(described, stated, outcome):
    m.record("accuracy", score="arrays", keys=["mask", "box"], tolerance=stated)(described)
    assert _told(described, "tolerance")[0] is outcome


@pytest.mark.parametrize("test", ["performance", "accuracy"])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"answered": 1}, "in answered"),
        ({"answered": {"samples": 7, "payload_bytes": 56}}, "answered.samples is 7"),
        ({"test_ns": 5}, "test_ns is 5"),
        ({"test_ns": 10**15}, "test_ns"),
        ({"test_ns": None}, "in test_ns"),
    ],
)
def test_an_outcome_that_is_not_of_the_log_fails(run, test, change, word):
    m.outcome(test, **change)(run)
    outcome, told = _told(run, "outcomes-and-result")
    assert outcome is FAIL and told.startswith(f"{test}: ") and word in told


def test_a_result_that_passes_where_the_accuracy_did_not_fails(described):
    m.accuracy_text(lambda text: text.replace('"passed": true', '"passed": false'))(described)
    assert "accuracy.passed is True" in _told(described, "derived-files")[1]


def test_a_result_that_is_not_written_yet_claims_nothing(described):
    (described / "result.json").unlink()
    assert "derived-files" not in _checks(described)


@pytest.mark.parametrize(
    ("change", "word"),
    [({}, "is of the test 'performance'"), ({"architecture": "other"}, "architecture differs")],
)
def test_the_job_of_a_compliance_test_is_its_own(run, change, word):
    shutil.copytree(run / "raw" / "performance", run / "raw" / "TEST01")
    m.document("raw/TEST01/job.json", **change)(run)
    outcome, told = _told(run, "record")
    assert outcome is FAIL and word in told


@pytest.mark.parametrize(
    ("tests", "word"),
    [
        (["performance"], "length_buckets differs between the performance and the accuracy test"),
        (
            ["performance", "accuracy"],
            "length_buckets is (8, 16); the cell's switches request none",
        ),
    ],
)
def test_batches_are_cut_only_by_a_switch_of_the_cell(run, tests, word):
    for test in tests:
        m.document(f"raw/{test}/job.json", length_buckets=[8, 16])(run)
    outcome, told = _told(run, "record")
    assert outcome is FAIL and word in told


# What the record may not choose.


@pytest.mark.parametrize("run", ["Offline", "tokens"], indirect=True)
def test_a_recorded_tolerance_above_the_rounds_fails(run):
    assert _told(run, "tolerance")[0] is PASS
    m.record("accuracy", "tolerance", logit_error=1e9)(run)
    tree.resubmit_answers(run)
    outcome, told = _told(run, "tolerance")
    assert outcome is FAIL
    assert "accuracy.tolerance.logit_error is 1000000000.0; " in told
    assert "at most 0.001" in told


@pytest.mark.parametrize(
    ("keys", "value"), [(("accuracy",), {"score": "none"}), (("cell",), {"precision": "int4"})]
)
def test_a_score_or_a_precision_without_a_tolerance_fails(run, keys, value):
    m.record(*keys, **value)(run)
    assert "has no tolerance for" in _told(run, "tolerance")[1]


def test_a_sut_of_a_known_precision_is_no_engine(run):
    m.record(execution="engine")(run)
    outcome, told = _told(run, "performance-evidence")
    assert outcome is FAIL
    assert "the precision float32; that of an engine is unknown, and no other is" in told
    m.record("cell", precision="unknown")(run)
    m.record(framework="PyTorch")(run)
    assert "PyTorch computes in the worker" in _told(run, "performance-evidence")[1]


def test_the_rounds_tolerances_are_the_largest_of_the_harness():
    for round in rules.rounds():
        limits = rules.load(round).project_limits.tolerance
        for model in map(models.load, models.names()):
            for precision, tolerance in model.tolerance.items():
                limit = limits[model.score][precision]
                bounds = [
                    (sign, *item)
                    for sign, of in ((1, limit.at_most), (-1, limit.at_least))
                    for item in of.items()
                ]
                for name, value in tolerance.items():
                    ((sign, bound),) = [
                        (sign, bound) for sign, pattern, bound in bounds if fnmatch(name, pattern)
                    ]
                    assert sign * value <= sign * bound
                assert all("*" in pattern or pattern in tolerance for _, pattern, _ in bounds)


@pytest.mark.parametrize("run", ["Offline", "SingleStream"], indirect=True)
@pytest.mark.parametrize(
    ("logged", "outcome", "words"),
    [
        ({}, FAIL, "only a trace above 34 MB is left out"),
        ({"generated_samples_per_query": 100_000, "result_query_count": 100_000}, NA, "too large"),
        # Half of those that would be too many: the SUT was slower than it was calibrated.
        ({"generated_samples_per_query": 60_000, "result_query_count": 60_000}, NA, "too large"),
        # No quick run requests so long a duration.
        (
            {"generated_samples_per_query": 100_000, "requested_min_duration_ms": 600_000},
            FAIL,
            "is left out",
        ),
    ],
)
def test_only_a_trace_that_would_be_large_may_be_missing(run, logged, outcome, words):
    (run / "raw" / "performance" / "mlperf_log_trace.json.gz").unlink()
    m.record("digests", trace=None)(run)
    m.document("raw/performance/outcome.json", "plan", trace=False)(run)
    if logged:
        detail(run, "performance", **logged)
    found, told = _told(run, "trace")
    assert found is outcome and words in told


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_the_trace_limit_is_the_harness_own(scenario, tmp_path):
    own = rules.load().project_limits
    assert own.trace_bytes == {mode: pace.trace_bytes for mode, pace in _PACE.items()}
    for mode, most in own.trace_bytes.items():
        fits = most // own.trace_sample_bytes[scenario]
        for count, written in ((fits, True), (fits + 1, False)):
            job = replace(
                mock_job.make(tmp_path / f"{mode}-{count}", scenario=scenario),
                limits=Limits(
                    min_duration_ms=1,
                    min_query_count=count,
                    performance_sample_count=1,
                    trace_bytes=most,
                ),
            )
            settings = loadgen.settings(job, {"target_qps": 1.0, "target_latency": 1e9})
            planned = preflight.performance(job, settings, 1e12)
            assert planned.trace is written, mode


# Dates.


def test_performance_and_accuracy_at_the_same_time_fail(run):
    at = {
        "test_datetime": "2026-11-21T11:00:00Z",
        "power_begin": "11-21-2026 11:00:00.000",
        "power_end": "11-21-2026 11:00:30.000",
    }
    detail(run, "performance", **at)
    detail(run, "accuracy", **(at | {"power_end": "11-21-2026 11:00:05.000"}))
    assert "performance and accuracy test ran 5 s at the same time" in _told(_bare(run), "dates")[1]
    later = {
        "test_datetime": "2026-11-21T11:00:30Z",
        "power_begin": "11-21-2026 11:00:30.000",
        "power_end": "11-21-2026 11:00:35.000",
    }
    detail(run, "accuracy", **later)
    shutil.rmtree(run.parent / "bare")
    assert _told(_bare(run), "dates")[0] is PASS


@pytest.mark.parametrize(
    ("begin", "end", "outcome"),
    [
        ("10-21-2026 16:30:00.200", "10-21-2026 16:30:00.500", PASS),  # India
        ("10-21-2026 11:45:00.200", "10-21-2026 11:45:00.500", PASS),
        ("10-21-2026 11:07:00.200", "10-21-2026 11:07:00.500", FAIL),
        ("10-21-2026 10:54:00.200", "10-21-2026 10:54:00.500", FAIL),
        ("10-23-2026 11:00:00.200", "10-23-2026 11:00:00.500", FAIL),
        ("10-21-2026 11:00:00.500", "10-21-2026 11:00:00.200", FAIL),
    ],
)
@pytest.mark.parametrize("test", ["performance", "accuracy"])
def test_the_local_dates_are_of_a_time_zone(run, test, begin, end, outcome):
    for name, second in (("performance", 0), ("accuracy", 1)):
        at, local = f"2026-10-21T11:00:0{second}Z", f"10-21-2026 11:00:0{second}"
        detail(run, name, test_datetime=at, power_begin=f"{local}.200", power_end=f"{local}.500")
    detail(run, test, power_begin=begin, power_end=end)
    found, told = _told(_bare(run), "dates")
    assert found is outcome, told
    assert outcome is PASS or told.startswith(f"{test}: power_")


@pytest.mark.parametrize("zone", ["IST-5:30", pytest.param("PST8", marks=pytest.mark.long)])
def test_a_run_may_be_measured_anywhere(tmp_path, monkeypatch, zone):
    """LoadGen's test_datetime is local time that says Z."""
    monkeypatch.setenv("TZ", zone)
    run = tree.build(tmp_path / "quick-1")
    monkeypatch.setenv("TZ", "UTC")  # those of another shell
    found = _checks(tree.comply(run, names=("TEST01",)))
    assert found["dates"].verdict is PASS, found["dates"].detail
    assert found["test01-loadgen"].verdict is PASS, found["test01-loadgen"].detail


def test_a_date_at_the_end_of_time_is_a_finding(run):
    for test in ("performance", "accuracy"):
        detail(
            run,
            test,
            test_datetime="9999-12-31T23:59:59Z",
            power_begin="01-01-0001 00:00:00.000",
            power_end="12-31-9999 23:59:59.999",
        )
    assert _told(run, "dates")[0] is FAIL


# What others may do with a reason, and we may not.


@pytest.mark.parametrize(
    ("changed", "version", "outcome"),
    [
        ({"/mlperf_conf.h": "", "/tests/basic.cc": "a" * 40}, "", MANUAL),
        ({"/loadgen.cc": "a" * 40}, "{} @ b66003e1c2", MANUAL),
        ({"/loadgen.cc": "a" * 40}, "", FAIL),
        ({}, "5.0.0 @ b66003e1c2", FAIL),
    ],
    ids=["from a checkout", "another tag", "altered", "another version"],
)
def test_a_loadgen_that_is_not_the_wheel(run, changed, version, outcome):
    def sha1(old):
        return {name: value for name, value in {**old, **changed}.items() if value}

    for test in m.BOTH:
        detail(run, test, loadgen_file_sha1=sha1)
        if version:
            detail(run, test, loadgen_version=lambda old: version.format(old.split(" @ ")[0]))
    assert _told(run, "performance-loadgen")[0] is FAIL
    check = _checks(_bare(run))["accuracy-loadgen"]
    assert check.verdict is outcome
    assert outcome is FAIL or "those of a tag of mlcommons/inference" in check.fix


def test_loadgen_built_again_between_the_tests(run):
    detail(run, "accuracy", loadgen_build_date_utc="2026-01-01T00:00:00")
    assert _told(run, "loadgen-of-both-tests")[0] is FAIL
    assert _told(_bare(run), "loadgen-of-both-tests")[0] is MANUAL


def test_more_than_a_session_between_the_tests(run):
    span = {"power_begin": "11-01-2026 11:00:00.200", "power_end": "11-01-2026 11:00:00.500"}
    detail(run, "accuracy", test_datetime="2026-11-01T11:00:00Z", **span)
    assert _told(run, "dates")[0] is FAIL
    outcome, told = _told(_bare(run), "dates")
    assert outcome is MANUAL and "in one session at most 7" in told


# The stated accuracy.


def _score(run, how):
    m.accuracy_text(how)(run)
    return _bare(run)


@pytest.mark.parametrize(
    "how",
    [
        lambda text: text.replace('"passed": true', '"passed": "no"'),
        lambda text: text.replace('"passed": true', '"passed": null'),
        lambda text: text.replace('"passed": true', '"passed": 1'),
        lambda text: "\ufeff" + text.replace('"passed": true', '"passed": false'),
        lambda text: " \n" + text.replace('"passed": true', '"passed": false'),
        lambda text: text + '{"passed": false}\n',
    ],
)
def test_an_accuracy_that_does_not_say_it_passed_fails(run, how):
    outcome, told = _told(_score(run, how), "accuracy-score")
    assert outcome is FAIL and "says that the score did not pass" in told
    assert _told(run, "accuracy-score")[0] is FAIL


@pytest.mark.parametrize(
    "how",
    [lambda text: text.split("\n", 1)[1], lambda text: "\ufeff\n \n" + text.split("\n", 1)[1]],
)
def test_an_accuracy_without_a_score_fails(run, how):
    assert _told(_score(run, how), "accuracy-score") == (FAIL, "accuracy.txt has no score")


def test_the_hash_may_come_first(run):
    bare = _score(run, lambda text: "\r\n".join(reversed(text.splitlines())) + "\r\n")
    assert (_told(bare, "accuracy-score")[0], _told(bare, "accuracy-hash")[0]) == (MANUAL, MANUAL)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"exact_match": nan, "f1": -3}', "nan"),
        ('{"exact_match": 80.0, "f1": -3}', "-3"),
        ('{"exact_match": 80.0, "f1": 12345.6}', "12345.6"),
        ('{"exact_match": 80.0, "f1": inf}', "inf"),
        ('{"exact_match": 80.0, "f1": 9e1000}', "9e1000"),
        ('{"exact_match": 80.0, "f1": 9.0.9}', "9.0.9"),
    ],
)
def test_a_metric_that_cannot_be_fails_in_the_open_division_too(run, line, found):
    bare = _score(run, lambda text: f"{line}\n{text}")
    assert _told(bare, "accuracy-target") == (
        FAIL,
        f"F1: accuracy.txt says {found}; it must be a number from 0 to 100",
    )


def test_a_metric_that_can_be_is_nothing_to_the_open_division(run):
    bare = _score(run, lambda text: '{"exact_match": 0.0, "f1": 1.5}\n' + text)
    assert _told(bare, "accuracy-target")[0] is NA


# Sizes.


@pytest.mark.parametrize(
    ("file", "size", "check", "words"),
    [
        (f"raw/accuracy/{ANSWERS}", (64 << 20) + 1, "accuracy-hash", "at most 67108864 are hashed"),
        (f"raw/performance/{SUMMARY}", 1 << 40, "raw-logs", f"{SUMMARY} has 1099511627776 bytes"),
        ("reference.npz", 1 << 40, "digests", "reference.npz has 1099511627776 bytes"),
    ],
)
def test_a_file_of_any_size_is_not_hashed(run, file, size, check, words):
    os.truncate(run / file, size)
    outcome, told = _told(run, check)
    assert outcome is FAIL and words in told


# Source, README, descriptions.


@pytest.mark.parametrize(
    "files", [{"LICENSE": "x"}, {"COPYING": "x", "README.rst": "x"}, {"main.py": ""}]
)
def test_a_source_without_a_program_fails(bare, files):
    folder = base(bare) / "src" / "bert-tiny"
    for name, text in files.items():
        (folder / name).write_text(text)
    outcome, told = _told(bare, "submitted-source")
    assert outcome is FAIL and told.startswith("it has no program, only text")
    (folder / "Makefile").write_text("all:\n")
    assert _told(bare, "submitted-source")[0] is PASS


@pytest.mark.parametrize("text", ["\n", " \t\r\n", "\u200b\n"])
def test_a_readme_that_says_nothing_fails(run, text):
    assert _told(run, "readme")[0] is PASS
    (scenario_folder(run) / "README.md").write_text(text)
    assert _told(run, "readme")[0] is FAIL


NUMBERS = {"number_of_nodes": 1, "accelerators_per_node": 8}
NUMBERS |= {"host_processor_core_count": 32, "host_processors_per_node": 2}
OTHERS = {"status": "Available", "host_network_card_count": 2, "accelerator_frequency": None}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (NUMBERS, PASS),
        (OTHERS, PASS),
        ({"accelerators_per_node": 0}, FAIL),
        ({"accelerators_per_node": -8}, FAIL),
        ({"accelerators_per_node": "eight"}, FAIL),
        ({"host_memory_capacity": 0}, FAIL),
        ({"status": "soon"}, FAIL),
        ({"cooling": "\u200b"}, FAIL),
        ({"framework": " \u2060\u3164"}, FAIL),
        ({"framework": ""}, FAIL),
    ],
)
def test_a_system_description_is_filled_as_the_official_checker_takes_it(bare, change, outcome):
    m.system(**change)(bare)
    assert _told(bare, "system-description")[0] is outcome


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (["fp8", "int8"], PASS),
        ("fp8", PASS),
        ([], FAIL),
        ([""], FAIL),
        ("", FAIL),
        ("\u200b", FAIL),
        (None, FAIL),
        ([1], FAIL),
    ],
)
def test_measurements_may_be_lists_that_say_something(bare, value, outcome):
    m.measurements(input_data_types=value, notes="")(bare)
    assert _told(bare, "measurements-json")[0] is outcome


def test_a_benchmark_of_another_suite_is_a_reason_against_eligibility(run):
    assert "is not a benchmark" not in _told(run, "eligibility")[1]
    m.system(system_type="datacenter")(run)
    outcome, told = _told(run, "eligibility")
    assert outcome is MANUAL
    assert "bert-99 is not a benchmark of this system's suite 'datacenter'" in told


# Closed and network.


def _in_division(run, division, **system):
    root = run.parent / division / "tree"
    shutil.copytree(run / "open", root / division)
    m.document(f"{division}/*/systems/*.json", division=division, **system)(root)
    return root


@pytest.mark.parametrize(
    ("stated", "outcome"),
    [
        ("no", PASS),
        ("No.", PASS),
        ("N/A", PASS),
        (["none"], PASS),
        ("yes, on the validation set", MANUAL),
        (["no", "yes"], MANUAL),
    ],
)
def test_retraining_is_for_a_person_to_judge_in_the_closed_division(run, stated, outcome):
    m.measurements(retraining=stated)(run)
    assert _told(_in_division(run, "closed"), "retraining")[0] is outcome
    assert _told(run, "retraining")[0] is NA


@pytest.mark.parametrize(
    "name", ["calibration.md", "documentation/calibration.md", "documentation/calibration.adoc"]
)
def test_a_closed_submission_describes_its_calibration(run, name):
    closed = _in_division(run, "closed")
    assert _told(closed, "calibration")[0] is MANUAL
    path = closed / "closed" / tree.SUBMITTER / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n")
    assert _told(closed, "calibration")[0] is MANUAL
    path.write_text("Nothing is quantised.\n")
    assert _told(closed, "calibration") == (PASS, name)


def test_the_network_division_is_of_networks(run):
    outcome, told = _told(_in_division(run, "network"), "network")
    assert outcome is FAIL
    assert told.startswith(
        'is_network is absent; the network division requires "true"; sut_name is '
    )
    for test in ("performance", "accuracy"):
        detail(run, test, sut_name="PyFastSUT Network SUT")
    shutil.rmtree(run.parent / "network")
    assert _told(_in_division(run, "network", is_network="true"), "network")[0] is PASS


def test_the_closed_division_is_of_none(run):
    assert _told(_in_division(run, "closed"), "network")[0] is PASS
    shutil.rmtree(run.parent / "closed")
    assert _told(_in_division(run, "closed", is_network="true"), "network")[0] is FAIL
