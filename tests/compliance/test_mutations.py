"""The audit tested by what it must see: a good run directory, one thing changed, the check that
names it. And changes that do no harm.
"""

import gzip
import json
import math
import os
import shutil
from datetime import datetime, timedelta
from functools import partial

import pytest

from compliance import audit, rules
from compliance.findings import verdict
from formats.checks import Verdict
from harness.result import HARNESS
from tests.support import mutations as m
from tests.support import tree
from tests.support.audits import checks
from tests.support.synthetic_runs import CALM
from tests.support.tree import base, change, detail, scenario_folder

TRACE = "raw/performance/mlperf_log_trace.json.gz"
performance, accuracy = (partial(m.logged, test) for test in m.BOTH)


def _later(text):
    """Twenty seconds later, as LoadGen writes it."""
    form = "%m-%d-%Y %H:%M:%S.%f"
    return f"{datetime.strptime(text, form) + timedelta(seconds=20):{form}}"[:-3]


HARMFUL = {
    "files-complete": {
        "the performance detail log is missing": m.gone(
            f"{m.SCENARIO}/performance/run_1/{m.DETAIL}"
        ),
        "the accuracy log is empty": m.written("", "accuracy", m.ANSWERS),
        "README.md is empty": m.written("", "README.md"),
        "user.conf is missing": m.gone(f"{m.SCENARIO}/user.conf"),
        "run_1 has another name": lambda run: (
            scenario_folder(run) / "performance" / "run_1"
        ).rename(scenario_folder(run) / "performance" / "run-1"),
    },
    "performance-summary": {
        "the performance summary is missing": m.gone(f"{m.SCENARIO}/performance/run_1/{m.SUMMARY}"),
        "the summary contradicts the detail log": m.replaced(
            "performance", m.SUMMARY, "Samples per second: ", "Samples per second: 9"
        ),
        "the summary says VALID and the detail log INVALID": performance(result_validity="INVALID"),
        "the summary lacks a percentile": m.replaced(
            "performance", m.SUMMARY, "99.00 percentile latency", "x"
        ),
        "the summary lacks a setting": m.replaced("performance", m.SUMMARY, "min_query_count", "x"),
        "the summary tells of an error too": m.replaced(
            "performance",
            m.SUMMARY,
            "No errors",
            "1 ERROR encountered. See detailed log.\nNo errors",
        ),
        "the summary's digits are another script's": m.changed(
            "performance",
            m.SUMMARY,
            lambda text: text.translate({48 + n: 0x660 + n for n in range(10)}),
        ),
    },
    "accuracy-detail-log": {
        "the accuracy detail log is missing": m.gone(f"{m.SCENARIO}/accuracy/{m.DETAIL}"),
        "the accuracy run's detail log is cut in a line": m.changed(
            "accuracy", m.DETAIL, lambda text: text[:-40]
        ),
        "a setting stands twice": m.put_in("accuracy", "effective_min_duration_ms", 600000),
        "a line does not say whether it is an error": m.put_in(
            "accuracy", "generic_message", "x", is_error=None
        ),
        "the accuracy run's log reports a result": m.put_in("accuracy", "result_validity", "VALID"),
    },
    "accuracy-log-size": {
        "the accuracy log is missing": m.gone(f"{m.SCENARIO}/accuracy/{m.ANSWERS}"),
        "the accuracy log is not truncated": lambda run: shutil.copy(
            run / "raw" / "accuracy" / m.ANSWERS, scenario_folder(run) / "accuracy"
        ),
    },
    "accuracy-hash": {
        "accuracy.txt is missing": m.gone(f"{m.SCENARIO}/accuracy/accuracy.txt"),
        "the hash is missing": m.hashed(""),
        "the hash is another": m.hashed("hash=" + "1" * 64 + "\n"),
        "the hash stands twice": m.hashed(("hash=" + "1" * 64 + "\n") * 2),
        "the truncated log is another run's": m.end_with(
            f"{m.SCENARIO}/accuracy/{m.ANSWERS}", b"000000000"
        ),
        "the whole accuracy log is missing": m.gone(f"raw/accuracy/{m.ANSWERS}"),
    },
    "no-other-files": {
        "a stray file lies in the scenario": m.written("x", "notes.txt"),
        "a second run lies beside run_1": lambda run: shutil.copytree(
            scenario_folder(run) / "performance" / "run_1",
            scenario_folder(run) / "performance" / "run_2",
        ),
    },
    "names-and-sizes": {
        "a file is a link": lambda run: (base(run) / "src" / "link").symlink_to("/nowhere"),
        "a hidden file lies in the tree": m.written("x", "..", ".DS_Store"),
        "a folder is empty": lambda run: (base(run) / "documentation").mkdir(),
    },
    "performance-detail-log": {
        "the detail log is cut in a line": m.changed(
            "performance", m.DETAIL, lambda text: text[:-40]
        ),
        "two runs stand in one log": m.changed("performance", m.DETAIL, lambda text: text + text),
        "a key is missing in the detail log": performance(effective_sample_index_rng_seed=None),
        "the log ends before its last entry": performance(num_errors=None),
        "the detail log is binary": lambda run: [
            path.write_bytes(b"\xff\xfe\x00" * 99)
            for path in tree.both(run, "performance", m.DETAIL)
        ],
        "a figure stands twice": m.put_in("performance", "result_samples_per_second", 1e9),
        "a line is of another process": m.put_in("performance", "generic_message", "x", pid=1),
        "a line is of no source of LoadGen": m.put_in(
            "performance", "generic_message", "x", file="forge.py"
        ),
        "the log's lines are out of order": m.changed("performance", m.DETAIL, m.moved_line),
    },
    "raw-logs": {
        "the submitted log is not the raw one": lambda run: (
            lambda p: p.write_text(p.read_text().replace("VALID", "VALID "))
        )(tree.both(run, "performance", m.SUMMARY)[1]),
    },
    "performance-errors": {
        "an error has lost its mark": m.put_in("performance", "error_runtime", "it broke"),
        "an error line stands in the performance log": m.put_in(
            "performance", "error_runtime", "it broke", is_error=True
        ),
        "errors were counted": performance(num_errors=3),
    },
    "performance-audit-settings": {
        "a warning of an audit.config has lost its mark": m.put_in(
            "performance", "warning_generic_message", "Found Audit Config file (audit.config)"
        ),
        "an audit setting was left over": performance(
            effective_performance_issue_same=True, requested_performance_issue_same=True
        ),
        "a sampling target was left over": performance(
            effective_accuracy_log_sampling_target=4096, requested_accuracy_log_sampling_target=4096
        ),
        "an audit.config was found": m.put_in(
            "performance",
            "warning_generic_message",
            "Found Audit Config file (audit.config)",
            is_warning=True,
        ),
    },
    "nothing-beside-the-scenarios": {
        "a log lies a level too high": m.beside(
            "results", tree.SYSTEM, "bert-tiny", "mlperf_log_detail.txt"
        ),
        "a stranger lies in the submitter's folder": m.beside("results.zip"),
        "a system description ends in another way": m.beside("systems", "ghost.JSON"),
        "a folder has the name of a file": m.beside("systems", "a_power.yaml", "x.bin"),
    },
    "folders-of-the-tree": {
        "another submitter has no results": m.beside("..", "other", "systems", "a.json"),
        "a division is in capitals": m.beside("..", "..", "Closed", "other", "a.txt"),
        "a scenario lies there twice": lambda run: shutil.copytree(
            scenario_folder(run), scenario_folder(run).with_name(scenario_folder(run).name.lower())
        ),
    },
    "logs-of-one-run": {
        "a second system has the first one's logs": m.another_system,
    },
    "performance-loadgen": {
        "the LoadGen version is of another round": performance(
            loadgen_version="5.1.2 @ d6147c7eb7"
        ),
        "a LoadGen source file is not the official one": m.other_hash_of_a_file("performance"),
        "LoadGen was built from changed sources": performance(
            loadgen_git_status_message=" M loadgen.cc"
        ),
    },
    "loadgen-of-both-tests": {
        "the accuracy run used another LoadGen": accuracy(loadgen_version="6.0.16 @ 2b5f63eb56"),
    },
    "accuracy-loadgen": {
        "a LoadGen source file of the accuracy run is not the official one": m.other_hash_of_a_file(
            "accuracy"
        ),
    },
    "performance-seeds": {
        "a performance seed is of another round": performance(
            effective_qsl_rng_seed=2465351861681999779
        ),
    },
    "accuracy-seeds": {
        "an accuracy seed is of another round": accuracy(requested_schedule_rng_seed=1),
    },
    "accuracy-test-and-scenario": {
        "the accuracy run ran in performance mode": accuracy(effective_test_mode="PerformanceOnly"),
        "the accuracy run is of another scenario": accuracy(effective_scenario="Server"),
    },
    "performance-test-and-scenario": {
        "the performance run ran in accuracy mode": performance(effective_test_mode="AccuracyOnly"),
        "Offline logs lie in SingleStream's folder": m.scenario_renamed,
    },
    "user-conf-keys": {
        "user.conf has a misspelt key": m.conf("min_query_count", "min_querycount"),
        "user.conf has keys of another model": m.conf("bert-tiny.", "bert."),
        "user.conf has a value that is no number": m.conf("min_duration = ", "min_duration = five"),
    },
    "performance-requested-settings": {
        "user.conf asks for another duration": m.conf("min_duration = ", "min_duration = 9"),
        "user.conf asks for another rate": m.conf("target_qps = ", "target_qps = 1"),
    },
    ("performance-requested-settings", "SingleStream"): {
        "the latency requested is not user.conf's": performance(
            requested_single_stream_expected_latency_ns=1.0
        ),
    },
    "performance-effective-settings": {
        "a setting in force is not the one requested": performance(
            effective_min_duration_ms=600001
        ),
        "fewer samples are in the query than requested": performance(
            effective_samples_per_query=100
        ),
    },
    ("performance-effective-settings", "SingleStream"): {
        "SingleStream's least count is not the one requested": performance(
            effective_min_query_count=65
        ),
    },
    "performance-sample-set": {
        "a sample is loaded twice": performance(loaded_qsl_set=lambda v: [v[1], *v[1:]]),
        "not all samples are loaded": performance(loaded_qsl_set=lambda v: v[1:]),
    },
    "accuracy-sample-set": {
        "the accuracy run takes half of the data set": accuracy(generated_samples_per_query=128),
    },
    ("minimum-duration-setting", "Offline", "valid"): {
        "a quick run's duration is asked to be valid": lambda run: None,
    },
    ("least-count", "Offline", "valid"): {
        "a quick run's counts are asked to be valid": lambda run: detail(
            run, "performance", effective_samples_per_query=20
        ),
    },
    ("equal-issue", "tokens", "valid"): {
        "a language model runs without equal issue": performance(
            effective_sample_concatenate_permutation=False,
            requested_sample_concatenate_permutation=False,
        ),
    },
    "accuracy-errors": {
        "an error line stands in the accuracy log": m.put_in(
            "accuracy", "error_runtime", "it broke", is_error=True
        ),
        "the accuracy summary tells of errors": m.replaced(
            "accuracy", m.SUMMARY, "No errors encountered", "2 ERRORS encountered"
        ),
    },
    "validity": {
        "the verdict is not what its parts say": performance(result_min_duration_met=False),
        "the minimum duration was not met and is said to be": performance(
            effective_min_duration_ms=10**9, requested_min_duration_ms=10**9
        ),
    },
    ("validity", "SingleStream"): {
        "the least count was not met and is said to be": performance(
            effective_min_query_count=10**4, effective_min_sample_count=10**4
        ),
        "early stopping was met by too few queries": performance(result_query_count=60),
    },
    ("early-stopping", "SingleStream"): {
        "the early-stopping estimate is another percentile's": performance(
            early_stopping_latency_ss=lambda v: v - 1
        ),
        "early stopping discards more than it may": performance(
            early_stopping_result=lambda v: v.replace("Would discard ", "Would discard 1")
        ),
    },
    ("loadgen-verdict", "Offline", "valid"): {
        "LoadGen says INVALID": performance(result_validity="INVALID"),
    },
    "latencies": {
        "fewer samples completed than issued": performance(
            result_samples_per_second=lambda v: v * 0.9
        ),
        "the percentiles are out of order": performance(result_50__00_percentile_latency_ns=10**12),
        "a latency is missing": performance(result_mean_latency_ns=None),
        "a latency is a text": performance(result_max_latency_ns="fast"),
    },
    "counts": {
        "more samples were generated than asked for": performance(
            generated_samples_per_query=lambda v: v + 1
        ),
        "Offline issued two queries": performance(result_query_count=2),
    },
    ("counts", "SingleStream"): {
        "more queries were issued than generated": performance(
            result_query_count=lambda v: v * 100
        ),
    },
    "duration": {
        "the run is longer than the time that passed": m.slower_than_the_clock,
        "twenty seconds passed that no figure tells of": performance(power_end=_later),
    },
    ("latencies", "SingleStream"): {
        "the rate of SingleStream is not its latency's": performance(
            result_qps_without_loadgen_overhead=lambda v: v * 1.01
        ),
    },
    ("counts", "tokens"): {
        "the rounds of equal issue are not whole": performance(
            generated_samples_per_query=lambda v: v - 1
        ),
    },
    "dates": {
        "the test is dated before LoadGen was built": performance(
            test_datetime="2019-01-01T00:00:00Z"
        ),
        "the test is dated in the future": accuracy(test_datetime="2999-01-01T00:00:00Z"),
        "the date is none": performance(test_datetime="yesterday"),
        "the power interval ends before it begins": performance(
            power_end="01-01-2020 00:00:00.000"
        ),
    },
    "digests": {
        "the reference is not the recorded one": m.record("digests", reference="1" * 64),
        "the reference is missing": m.gone("reference.npz"),
    },
    "record": {
        "the record says another data-set size": m.record("qsl", samples=10834),
        "the recorded scenario is another": m.record("cell", scenario="Server"),
        "the recorded batch is not the one that ran": m.record("cell", batch_size=7),
        "the recorded benchmark is another": m.record("benchmark", name="sam-tiny"),
        "the accuracy test answered other inputs": m.document(
            "raw/accuracy/job.json", inputs="other.npz"
        ),
    },
    "record-json": {
        "the record is cut": lambda run: os.truncate(run / "record.json", 99),
        "the record lacks the command": m.record(command=m.GONE),
    },
    "performance-evidence": {
        "another program was compiled while measuring": m.watched(
            "performance", m.seen(0, compilations=38), m.seen(0, compilations=39)
        ),
        "an eager SUT ran no operator by itself": m.watched("performance", m.seen(0, operators=0)),
        "the counts of two watched batches are those of one": m.watched(
            "performance",
            m.seen(0, operators=99, forward_passes=6, batches=1),
            m.seen(0, operators=99, forward_passes=6, batches=2),
        ),
        "eager compiled something": m.watched("performance", m.seen(1)),
        "a compiled column ran eager": m.compiled(0, 0),
        "a graph was compiled while measuring": m.compiled(1, 2),
        "the captured graph has breaks": m.compiled(2, 2, breaks=1),
        "a compiled model's measured call ran eager": m.executed(
            "compile", m.seen(2, breaks=0, share=0.0)
        ),
        "some forward passes ran eager": m.executed("compile", m.seen(2, breaks=0, share=0.98)),
        "the measured call was compiled before the test and eager after it": m.executed(
            "compile", m.seen(2, breaks=0, share=1.0), m.seen(2, breaks=0, share=0.0)
        ),
        "the measured call was eager before the test and compiled after it": m.executed(
            "compile", m.seen(2, breaks=0, share=0.0), m.seen(2, breaks=0, share=1.0)
        ),
        "the share that ran compiled is missing": m.executed("compile", m.seen(2, breaks=0)),
        "the share that ran compiled is missing before the test": m.executed(
            "compile", m.seen(2, breaks=0), m.seen(2, breaks=0, share=1.0)
        ),
        "the share that ran compiled is beyond one": m.executed(
            "compile", m.seen(2, breaks=0, share=1.5)
        ),
        "an XLA column compiled no program": m.executed("xla", m.seen(1, xla_programs=0)),
        "an XLA column's program is entered and run operator by operator": m.executed(
            "xla",
            m.seen(1, xla_programs=1, operators_that_compute=0),
            m.seen(1, xla_programs=1, operators_that_compute=414),
        ),
        "an XLA column's operators are no number": m.executed(
            "xla", m.seen(1, xla_programs=1, operators_that_compute="0")
        ),
        "an XLA column does not tell its programs": m.executed("xla", m.seen(1)),
        "an XLA column's programs are no number": m.executed("xla", m.seen(1, xla_programs="1")),
        "XLA compiled what says graph": m.executed("graph", m.seen(1, xla_programs=1)),
        "what says graph does not tell XLA's programs": m.executed("graph", m.seen(1)),
        "XLA compiled what says eager": m.executed("eager", m.seen(0, xla_programs=1)),
        "the worker left no evidence": m.outcome("performance", evidence_before=None),
        "a framework's evidence lacks its counters": m.record(framework="PyTorch"),
    },
    "accuracy-evidence": {
        "a matrix product ran beside the compiled program": m.executed(
            "xla", m.seen(1, xla_programs=1, regions=1, products_left=1)
        ),
        "XLA compiled one part of a graph": m.executed(
            "xla", m.seen(1, xla_programs=1, regions=1, products_left_of_xla=1)
        ),
        "eager compiled something in the accuracy test": m.watched("accuracy", m.seen(1)),
        "an XLA column had no program before the test": m.executed(
            "xla", m.seen(1, xla_programs=0), m.seen(1, xla_programs=1)
        ),
    },
    "trace": {
        "the trace is cut": lambda run: (run / TRACE).write_bytes((run / TRACE).read_bytes()[:-20]),
        "the trace is deleted": m.gone(TRACE),
        "the trace is another run's": m.filled(TRACE, gzip.compress(b"{}")),
    },
    "worker-outcomes": {
        "the accuracy worker failed": m.outcome("accuracy", status="error", reason="it broke"),
        "an outcome is missing": m.gone("raw/performance/outcome.json"),
    },
    ("clock", "Offline", "valid"): {
        "the calendar was set during the test": m.outcome(
            "performance", disturbance=CALM | {"clock_step_seconds": -0.5}
        ),
        "less time passed for the worker than for LoadGen": m.outcome(
            "performance", test_ns=1_000_000
        ),
    },
    "performance-precision": {
        "a framework's evidence does not count the weights": m.record(framework="PyTorch"),
        "a share in the evidence is no number": m.outcome(
            "performance", evidence_before=m.seen(0, share=math.nan)
        ),
        "another precision ran": m.outcome("performance", evidence_after=m.seen(0, "tf32")),
    },
    "accuracy-precision": {
        "another precision ran in the accuracy test": m.outcome(
            "accuracy", evidence_before=m.seen(0, "bfloat16")
        ),
    },
    "accuracy-score": {
        "the score in accuracy.txt is not the log's": m.accuracy_text(m.forged_score),
        "accuracy.txt holds no score": m.accuracy_text(lambda text: "\n" + text),
        "the answers are of other samples": m.answers(m.of_other_samples),
        "the reference is damaged": m.filled("reference.npz", b"PK\x03\x04 no archive"),
    },
    ("accuracy-score", "tokens"): {
        "a generated token is another": m.answers(m.other_token),
        "the teacher-forced logits are another run's": m.end_with(
            "raw/accuracy/logits.npy", b"\x00\x00\x80\x42"
        ),
        "the teacher-forced logits are missing": m.gone("raw/accuracy/logits.npy"),
        "the SUT's own logits rate other tokens higher": m.end_with(
            "raw/accuracy/own_logits.npy", b"\x00\x00\x80\x42\x00\x00\x00\x00" * 3
        ),
        "the SUT's own logits are missing": m.gone("raw/accuracy/own_logits.npy"),
    },
    "accuracy-log": {
        "an answer is missing": m.answers(lambda rows: [*rows[:1], *rows[2:]]),
        "an answer stands twice": m.answers(lambda rows: [*rows[:2], *rows[1:]]),
        "an answer is no hexadecimal": m.answers(
            lambda rows: [rows[0], rows[1].replace('"data" : "', '"data" : "XY'), *rows[2:]]
        ),
        "the accuracy log is cut": m.answers(lambda rows: rows[:100]),
    },
    "performance-log-of-answers": {
        "the performance run logged answers": m.filled(
            f"raw/performance/{m.ANSWERS}",
            b'[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" }\n]\n',
        ),
    },
    "system-description": {
        "the system description is missing": m.gone("open/*/systems/*.json"),
        "the system description is no JSON": m.filled("open/*/systems/*.json", b"{cut"),
        "a field of the system is missing": m.system(cooling=m.GONE),
        "a field of the system is empty": m.system(framework=" "),
        "the number of accelerators is a number": m.system(accelerators_per_node=0),
        "the number of nodes is a word": m.system(number_of_nodes="one"),
        "is_network is there": m.system(is_network="False"),
        "the system's status is none": m.system(status="retired"),
        "the submitter is not the folder's": m.system(submitter="somebody"),
        "the division is not the folder's": m.system(division="closed"),
    },
    "measurements-json": {
        "a field of measurements.json is empty": m.measurements(retraining=""),
        "measurements.json is missing": m.gone(f"{m.SCENARIO}/measurements.json"),
    },
    "model-mapping": {
        "the model is not mapped": lambda run: (base(run) / "model_mapping.json").write_text("{}"),
        "the mapped benchmark is not of the round": m.document(
            "open/*/model_mapping.json", **{"bert-tiny": "gptj-99"}
        ),
    },
    "source-folder": {
        "the source folder is missing": lambda run: shutil.rmtree(base(run) / "src"),
    },
    "derived-files": {
        "result.json says nothing": m.filled("result.json", b"{}"),
        "result.json is no JSON": m.filled("result.json", b"samples_per_second: 1e12"),
        "result.json claims another figure": m.result("metric", value=1e12),
        "result.json claims another rate": m.result("metrics", samples_per_second=1e9),
        "result.json claims another time of a step": m.result("metrics", ms_per_step=1e-6),
        "result.json claims another energy": m.result("energy", joules={"cpu": 0.1}),
        "result.json claims another peak of memory": m.result(peak_host_bytes=1),
        "result.json claims another evidence": m.result("evidence", "after", graphs=9),
        "result.json claims another verdict": m.result(loadgen="INVALID"),
        "result.json claims another mode": m.result(mode="valid"),
    },
    ("duration", "SingleStream"): {
        "twenty seconds passed that no figure tells of": performance(power_end=_later),
    },
    "trace-figures": {
        "the mean latency is a nanosecond off": performance(result_mean_latency_ns=lambda v: v + 1),
    },
    ("trace-figures", "SingleStream"): {
        "the 90th percentile is a nanosecond off": performance(
            result_90__00_percentile_latency_ns=lambda v: v + 1
        ),
        "the 99.9th percentile is a nanosecond off": performance(
            result_99__90_percentile_latency_ns=lambda v: v + 1
        ),
        "the estimate of early stopping is a nanosecond off": performance(
            early_stopping_latency_ss=lambda v: v + 1
        ),
        "the rate is a hundredth off": performance(
            result_qps_with_loadgen_overhead=lambda v: v * 1.01
        ),
        "a sample of the trace took longer": m.of_sample(3, "complete_ns", lambda v: v + 1_000_000),
    },
    ("performance-order", "SingleStream"): {
        "a sample of the trace is another": m.of_sample(3, "sample_idx", lambda v: (v + 1) % 256),
    },
    "performance-order": {
        "a sample of Offline's trace is another": m.of_sample(
            3, "sample_idx", lambda v: (v + 1) % 256
        ),
    },
    ("performance-order", "tokens"): {
        "a sample of equal issue is another": m.of_sample(3, "sample_idx", lambda v: (v + 1) % 32),
    },
    "trace-samples": {
        "a sample of the trace was not loaded": m.of_sample(3, "sample_idx", lambda v: 9999),
        "a sample was never completed": m.without_sample(3),
        "a sample was completed twice": m.of_sample(3, "sample_seq", lambda v: 4),
        "the whole trace ends early": m.retraced(lambda text: text[: len(text) // 2]),
    },
    ("trace-samples", "SingleStream"): {
        "a query is of two samples": m.of_sample(3, "query_seq", lambda v: v + 1),
    },
    ("trace-times", "SingleStream"): {
        "a query overlaps the next": m.of_sample(3, "complete_ns", lambda v: v * 1000),
    },
    "performance-loaded-set": {
        "two samples were loaded in another order": performance(
            loaded_qsl_set=lambda v: [v[1], v[0], *v[2:]]
        ),
    },
    "accuracy-loaded-set": {
        "the accuracy test loaded another order": accuracy(
            loaded_qsl_set=lambda v: [v[1], v[0], *v[2:]]
        ),
    },
    "accuracy-order": {
        "the answers are in another order": m.answers(m.swapped),
    },
}


def _parameters(table):
    return [pytest.param(each.kind, each, id=each.name) for each in m.mutations(table)]


ONLY_STRICT = {
    "a stray file lies in the scenario",
    "a second run lies beside run_1",
    "a file is a link",
    "a hidden file lies in the tree",
    "a folder is empty",
    "a log lies a level too high",
    "a stranger lies in the submitter's folder",
    "a system description ends in another way",
    "a folder has the name of a file",
    "another submitter has no results",
    "an audit.config was found",
    "user.conf has a misspelt key",
    "user.conf has a value that is no number",
    "user.conf asks for another duration",
    "user.conf asks for another rate",
    "the hash stands twice",
    "a field of the system is empty",
}
"""The mutations that only `--strict` rejects in a submission. The checker of v6.1 rejects none."""


@pytest.mark.parametrize(("run", "mutation"), _parameters(HARMFUL), indirect=["run"])
def test_the_audit_sees_that(run, mutation, tmp_path):
    mutation.do(run)
    report = audit.audit(run, harness=HARNESS)
    found = {c.key: c for c in report.checks_for(mutation.level)}
    assert found[mutation.check].verdict is Verdict.FAIL, "\n".join(
        c.line() for c in found.values() if c.verdict is not Verdict.PASS
    )
    assert not verdict.passes(list(found.values()))
    assert mutation.level not in report.levels
    theirs = tmp_path / "theirs"
    shutil.copytree(run / "open", theirs / "open", symlinks=True)
    report = audit.audit(theirs)
    rejected = not report.passes(mutation.level)
    rejected_leniently = not report.passes(mutation.level, strict=False)
    assert rejected_leniently == (rejected and mutation.name not in ONLY_STRICT)
    assert rejected or mutation.name not in ONLY_STRICT


def _lower_case(run):
    folder = scenario_folder(run)
    folder.rename(folder.with_name(folder.name.lower()))


def _submitted_trace(run):
    folder = scenario_folder(run) / "performance" / "run_1"
    content = gzip.decompress((run / TRACE).read_bytes())
    assert len(content) <= rules.load().layout.largest_file_bytes, (
        "no submission may hold a trace of that size"
    )
    (folder / "mlperf_log_trace.json").write_bytes(content)


def _commented(run):
    for test in m.BOTH:
        change(run, test, "user.conf", lambda text: "# what the calibration found\n\n" + text)


def _with_test01(run):
    (scenario_folder(run) / "TEST01").mkdir()
    (scenario_folder(run) / "TEST01" / "verify_accuracy.txt").write_text("TEST PASS\n")


def _no_reference(run):
    m.record("digests", reference="")(run)
    m.record("accuracy", reason="no reference: too little memory")(run)
    m.document("raw/*/job.json", reference=None)(run)
    (run / "reference.npz").unlink()


def _warned_at_the_end(run):
    """A logger whose buffer grew says so once all is written (logging.cc,
    CollectTlsLoggerStats).
    """

    def how(text):
        last = json.loads(text.strip().split("\n")[-1].removeprefix(":::MLLOG "))
        last |= {
            "key": "warning_generic_message",
            "value": "Logging allocation detected",
            "metadata": last["metadata"] | {"is_warning": True},
        }
        return text + ":::MLLOG " + json.dumps(last) + "\n"

    change(run, "performance", m.DETAIL, how)


HARMLESS = {
    "a warning stands behind the last entry": _warned_at_the_end,
    "a document lies in the scenario": m.written("x", "calibration_process.adoc"),
    "documents lie in the submitter's folder": lambda run: [
        m.beside(*p)(run) for p in (["LICENSE"], ["results", "README.md"])
    ],
    "the trace lies beside the logs": _submitted_trace,
    "the scenario's folder is in lower case": _lower_case,
    "user.conf has comments and empty lines": _commented,
    "an earlier attempt was set aside in raw": lambda run: shutil.copytree(
        run / "raw" / "accuracy", run / "raw" / "accuracy.attempt-1"
    ),
    "the record says more": m.record(parameters=7),
    "the system description says more": m.system(host_processor_vcpu_count="2"),
    "a compliance test lies in the scenario": _with_test01,
    "the submitter's letter case differs": lambda run: m.system(submitter=base(run).name.upper())(
        run
    ),
    "a framework does not count graph breaks": m.compiled(3, 3, breaks=None),
    "every forward pass ran compiled": m.compiled(2, 2),
    "XLA compiled the measured call": m.executed("xla", m.seen(1, xla_programs=1)),
    "what says graph has no XLA program": m.executed("graph", m.seen(1, xla_programs=0)),
    "an eager SUT counts XLA's programs and has none": m.executed(
        "eager", m.seen(0, xla_programs=0)
    ),
    "no reference could be made": _no_reference,
}


@pytest.mark.parametrize("do", HARMLESS.values(), ids=HARMLESS)
def test_the_audit_does_not_mind_that(run, do):
    do(run)
    found = audit.audit(run).checks_for("quick")
    assert verdict.passes(found), "\n".join(c.line() for c in found if c.verdict is Verdict.FAIL)
    assert audit.audit(run).levels == ("quick",)


def _verdicts(run, level="quick"):
    return {key: check.verdict for key, check in checks(run, level).items()}


def test_what_cannot_be_judged_is_left_to_people(run):
    _no_reference(run)
    found = _verdicts(run)
    assert found["accuracy-score"] is found["digests"] is Verdict.MANUAL
    assert _verdicts(run, "valid")["accuracy-judged"] is Verdict.FAIL


def test_a_bare_submission_that_says_it_failed_is_believed(run, tmp_path):
    bare = shutil.copytree(run / "open", tmp_path / "bare" / "open").parent
    assert _verdicts(bare)["accuracy-score"] is Verdict.MANUAL
    m.accuracy_text(lambda text: text.replace('"passed": true', '"passed": false'))(bare)
    assert _verdicts(bare)["accuracy-score"] is Verdict.FAIL
