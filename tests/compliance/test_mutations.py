"""The audit tested by what it must see: a good run directory, one thing changed, the check that
names it. And changes that do no harm.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compliance import audit, rules
from compliance.findings import verdict
from formats.checks import Verdict
from harness.result import HARNESS
from tests.support import tree
from tests.support.mutations import (
    ANSWERS,
    DETAIL,
    SUMMARY,
    Mutation,
    another_system,
    answers,
    beside,
    compiled,
    conf,
    cut_in_a_line,
    emptied,
    end_with,
    executed,
    forged_score,
    hashed,
    logged,
    of_sample,
    on_framework,
    other_hash_of_a_file,
    other_token,
    out_of_order,
    outcome,
    put_in,
    record,
    removed,
    replaced,
    result,
    retraced,
    scenario_renamed,
    seen,
    slower_than_the_clock,
    swapped_answers,
    system,
    twice,
    without_sample,
    written,
)
from tests.support.synthetic_runs import CALM
from tests.support.tree import base, change, detail, edit_json, scenario_folder

_POWER = "%m-%d-%Y %H:%M:%S.%f"
FILES = [
    Mutation(
        "the performance detail log is missing",
        "files-complete",
        removed("performance", "run_1", DETAIL),
    ),
    Mutation(
        "the performance summary is missing",
        "performance-summary",
        removed("performance", "run_1", SUMMARY),
    ),
    Mutation(
        "the accuracy detail log is missing", "accuracy-detail-log", removed("accuracy", DETAIL)
    ),
    Mutation("the accuracy log is missing", "accuracy-log-size", removed("accuracy", ANSWERS)),
    Mutation("the accuracy log is empty", "files-complete", emptied("accuracy", ANSWERS)),
    Mutation("accuracy.txt is missing", "accuracy-hash", removed("accuracy", "accuracy.txt")),
    Mutation("README.md is empty", "files-complete", emptied("README.md")),
    Mutation("user.conf is missing", "files-complete", removed("user.conf")),
    Mutation("a stray file lies in the scenario", "no-other-files", written("x", "notes.txt")),
    Mutation(
        "a second run lies beside run_1",
        "no-other-files",
        lambda run: shutil.copytree(
            scenario_folder(run) / "performance" / "run_1",
            scenario_folder(run) / "performance" / "run_2",
        ),
    ),
    Mutation(
        "run_1 has another name",
        "files-complete",
        lambda run: (scenario_folder(run) / "performance" / "run_1").rename(
            scenario_folder(run) / "performance" / "run-1"
        ),
    ),
    Mutation(
        "a file is a link",
        "names-and-sizes",
        lambda run: (base(run) / "src" / "link").symlink_to("/nowhere"),
    ),
    Mutation("a hidden file lies in the tree", "names-and-sizes", written("x", "..", ".DS_Store")),
    Mutation(
        "a folder is empty", "names-and-sizes", lambda run: (base(run) / "documentation").mkdir()
    ),
    Mutation(
        "the detail log is cut in a line", "performance-detail-log", cut_in_a_line("performance")
    ),
    Mutation(
        "the accuracy run's detail log is cut in a line",
        "accuracy-detail-log",
        cut_in_a_line("accuracy"),
    ),
    Mutation("two runs stand in one log", "performance-detail-log", twice("performance")),
    Mutation(
        "a key is missing in the detail log",
        "performance-detail-log",
        logged("performance", effective_sample_index_rng_seed=None),
    ),
    Mutation(
        "the log ends before its last entry",
        "performance-detail-log",
        logged("performance", num_errors=None),
    ),
    Mutation(
        "the detail log is binary",
        "performance-detail-log",
        lambda run: [
            p.write_bytes(b"\xff\xfe\x00" * 99) for p in tree.both(run, "performance", DETAIL)
        ],
    ),
    Mutation(
        "the summary contradicts the detail log",
        "performance-summary",
        lambda run: change(
            run,
            "performance",
            SUMMARY,
            lambda t: t.replace("Samples per second: ", "Samples per second: 9"),
        ),
    ),
    Mutation(
        "the summary says VALID and the detail log INVALID",
        "performance-summary",
        logged("performance", result_validity="INVALID"),
    ),
    Mutation(
        "the submitted log is not the raw one",
        "raw-logs",
        lambda run: (lambda p: p.write_text(p.read_text().replace("VALID", "VALID ")))(
            tree.both(run, "performance", SUMMARY)[1]
        ),
    ),
]
STRUCTURE = [
    Mutation(
        "a figure stands twice",
        "performance-detail-log",
        put_in("performance", "result_samples_per_second", 1e9),
    ),
    Mutation(
        "a setting stands twice",
        "accuracy-detail-log",
        put_in("accuracy", "effective_min_duration_ms", 600000),
    ),
    Mutation(
        "an error has lost its mark",
        "performance-errors",
        put_in("performance", "error_runtime", "it broke"),
    ),
    Mutation(
        "a warning of an audit.config has lost its mark",
        "performance-audit-settings",
        put_in("performance", "warning_generic_message", "Found Audit Config file (audit.config)"),
    ),
    Mutation(
        "a line is of another process",
        "performance-detail-log",
        put_in("performance", "generic_message", "x", pid=1),
    ),
    Mutation(
        "a line is of no source of LoadGen",
        "performance-detail-log",
        put_in("performance", "generic_message", "x", file="forge.py"),
    ),
    Mutation(
        "a line does not say whether it is an error",
        "accuracy-detail-log",
        put_in("accuracy", "generic_message", "x", is_error=None),
    ),
    Mutation("the log's lines are out of order", "performance-detail-log", out_of_order),
    Mutation(
        "the accuracy run's log reports a result",
        "accuracy-detail-log",
        put_in("accuracy", "result_validity", "VALID"),
    ),
    Mutation(
        "the summary lacks a percentile",
        "performance-summary",
        replaced("performance", SUMMARY, "99.00 percentile latency", "x"),
    ),
    Mutation(
        "the summary lacks a setting",
        "performance-summary",
        replaced("performance", SUMMARY, "min_query_count", "x"),
    ),
    Mutation(
        "the summary tells of an error too",
        "performance-summary",
        replaced(
            "performance", SUMMARY, "No errors", "1 ERROR encountered. See detailed log.\nNo errors"
        ),
    ),
    Mutation(
        "the summary's digits are another script's",
        "performance-summary",
        lambda run: change(
            run,
            "performance",
            SUMMARY,
            lambda t: t.translate({ord(c): 0x660 + int(c) for c in "0123456789"}),
        ),
    ),
    Mutation(
        "a log lies a level too high",
        "nothing-beside-the-scenarios",
        beside("results", tree.SYSTEM, "bert-tiny", "mlperf_log_detail.txt"),
    ),
    Mutation(
        "a stranger lies in the submitter's folder",
        "nothing-beside-the-scenarios",
        beside("results.zip"),
    ),
    Mutation(
        "a system description ends in another way",
        "nothing-beside-the-scenarios",
        beside("systems", "ghost.JSON"),
    ),
    Mutation(
        "a folder has the name of a file",
        "nothing-beside-the-scenarios",
        beside("systems", "a_power.yaml", "x.bin"),
    ),
    Mutation(
        "another submitter has no results",
        "folders-of-the-tree",
        beside("..", "other", "systems", "a.json"),
    ),
    Mutation(
        "a division is in capitals",
        "folders-of-the-tree",
        beside("..", "..", "Closed", "other", "a.txt"),
    ),
    Mutation("a second system has the first one's logs", "logs-of-one-run", another_system),
    Mutation(
        "a scenario lies there twice",
        "folders-of-the-tree",
        lambda run: shutil.copytree(
            scenario_folder(run), scenario_folder(run).with_name(scenario_folder(run).name.lower())
        ),
    ),
]
SETTINGS = [
    Mutation(
        "the LoadGen version is of another round",
        "performance-loadgen",
        logged("performance", loadgen_version="5.1.2 @ d6147c7eb7"),
    ),
    Mutation(
        "the accuracy run used another LoadGen",
        "loadgen-of-both-tests",
        logged("accuracy", loadgen_version="6.0.16 @ 2b5f63eb56"),
    ),
    Mutation(
        "a LoadGen source file is not the official one",
        "performance-loadgen",
        lambda run: other_hash_of_a_file(run, "performance"),
    ),
    Mutation(
        "a LoadGen source file of the accuracy run is not the official one",
        "accuracy-loadgen",
        lambda run: other_hash_of_a_file(run, "accuracy"),
    ),
    Mutation(
        "LoadGen was built from changed sources",
        "performance-loadgen",
        logged("performance", loadgen_git_status_message=" M loadgen.cc"),
    ),
    Mutation(
        "a performance seed is of another round",
        "performance-seeds",
        logged("performance", effective_qsl_rng_seed=2465351861681999779),
    ),
    Mutation(
        "an accuracy seed is of another round",
        "accuracy-seeds",
        logged("accuracy", requested_schedule_rng_seed=1),
    ),
    Mutation(
        "the accuracy run ran in performance mode",
        "accuracy-test-and-scenario",
        logged("accuracy", effective_test_mode="PerformanceOnly"),
    ),
    Mutation(
        "the performance run ran in accuracy mode",
        "performance-test-and-scenario",
        logged("performance", effective_test_mode="AccuracyOnly"),
    ),
    Mutation(
        "the accuracy run is of another scenario",
        "accuracy-test-and-scenario",
        logged("accuracy", effective_scenario="Server"),
    ),
    Mutation(
        "Offline logs lie in SingleStream's folder",
        "performance-test-and-scenario",
        scenario_renamed,
    ),
    Mutation(
        "an audit setting was left over",
        "performance-audit-settings",
        logged(
            "performance",
            effective_performance_issue_same=True,
            requested_performance_issue_same=True,
        ),
    ),
    Mutation(
        "a sampling target was left over",
        "performance-audit-settings",
        logged(
            "performance",
            effective_accuracy_log_sampling_target=4096,
            requested_accuracy_log_sampling_target=4096,
        ),
    ),
    Mutation(
        "an audit.config was found",
        "performance-audit-settings",
        put_in(
            "performance",
            "warning_generic_message",
            "Found Audit Config file (audit.config)",
            is_warning=True,
        ),
    ),
    Mutation(
        "user.conf has a misspelt key", "user-conf-keys", conf("min_query_count", "min_querycount")
    ),
    Mutation("user.conf has keys of another model", "user-conf-keys", conf("bert-tiny.", "bert.")),
    Mutation(
        "user.conf has a value that is no number",
        "user-conf-keys",
        conf("min_duration = ", "min_duration = five"),
    ),
    Mutation(
        "user.conf asks for another duration",
        "performance-requested-settings",
        conf("min_duration = ", "min_duration = 9"),
    ),
    Mutation(
        "user.conf asks for another rate",
        "performance-requested-settings",
        conf("target_qps = ", "target_qps = 1"),
    ),
    Mutation(
        "the latency requested is not user.conf's",
        "performance-requested-settings",
        logged("performance", requested_single_stream_expected_latency_ns=1.0),
        "SingleStream",
    ),
    Mutation(
        "a setting in force is not the one requested",
        "performance-effective-settings",
        logged("performance", effective_min_duration_ms=600001),
    ),
    Mutation(
        "fewer samples are in the query than requested",
        "performance-effective-settings",
        logged("performance", effective_samples_per_query=100),
    ),
    Mutation(
        "SingleStream's least count is not the one requested",
        "performance-effective-settings",
        logged("performance", effective_min_query_count=65),
        "SingleStream",
    ),
    Mutation(
        "a sample is loaded twice",
        "performance-sample-set",
        logged("performance", loaded_qsl_set=lambda v: [v[1], *v[1:]]),
    ),
    Mutation(
        "not all samples are loaded",
        "performance-sample-set",
        logged("performance", loaded_qsl_set=lambda v: v[1:]),
    ),
    Mutation(
        "the accuracy run takes half of the data set",
        "accuracy-sample-set",
        logged("accuracy", generated_samples_per_query=128),
    ),
    Mutation(
        "the record says another data-set size",
        "accuracy-sample-set",
        record(lambda d: {**d, "qsl": {**d["qsl"], "samples": 10834}}),
    ),
    Mutation(
        "a quick run's duration is asked to be valid",
        "minimum-duration-setting",
        lambda run: None,
        level="valid",
    ),
    Mutation(
        "a quick run's counts are asked to be valid",
        "least-count",
        lambda run: detail(run, "performance", effective_samples_per_query=20),
        level="valid",
    ),
    Mutation(
        "a language model runs without equal issue",
        "equal-issue",
        logged(
            "performance",
            effective_sample_concatenate_permutation=False,
            requested_sample_concatenate_permutation=False,
        ),
        "tokens",
        "valid",
    ),
]
VALIDITY = [
    Mutation(
        "an error line stands in the performance log",
        "performance-errors",
        put_in("performance", "error_runtime", "it broke", is_error=True),
    ),
    Mutation(
        "an error line stands in the accuracy log",
        "accuracy-errors",
        put_in("accuracy", "error_runtime", "it broke", is_error=True),
    ),
    Mutation("errors were counted", "performance-errors", logged("performance", num_errors=3)),
    Mutation(
        "the accuracy summary tells of errors",
        "accuracy-errors",
        replaced("accuracy", SUMMARY, "No errors encountered", "2 ERRORS encountered"),
    ),
    Mutation(
        "the verdict is not what its parts say",
        "validity",
        logged("performance", result_min_duration_met=False),
    ),
    Mutation(
        "the minimum duration was not met and is said to be",
        "validity",
        logged("performance", effective_min_duration_ms=10**9, requested_min_duration_ms=10**9),
    ),
    Mutation(
        "the least count was not met and is said to be",
        "validity",
        logged("performance", effective_min_query_count=10**6, effective_min_sample_count=10**6),
        "SingleStream",
    ),
    Mutation(
        "early stopping was met by too few queries",
        "validity",
        logged("performance", result_query_count=60),
        "SingleStream",
    ),
    Mutation(
        "the early-stopping estimate is another percentile's",
        "early-stopping",
        logged("performance", early_stopping_latency_ss=lambda v: v - 1),
        "SingleStream",
    ),
    Mutation(
        "early stopping discards more than it may",
        "early-stopping",
        logged(
            "performance",
            early_stopping_result=lambda v: v.replace("Would discard ", "Would discard 1"),
        ),
        "SingleStream",
    ),
    Mutation(
        "LoadGen says INVALID",
        "loadgen-verdict",
        logged("performance", result_validity="INVALID"),
        level="valid",
    ),
    Mutation(
        "fewer samples completed than issued",
        "latencies",
        logged("performance", result_samples_per_second=lambda v: v * 0.9),
    ),
    Mutation(
        "more samples were generated than asked for",
        "counts",
        logged("performance", generated_samples_per_query=lambda v: v + 1),
    ),
    Mutation("Offline issued two queries", "counts", logged("performance", result_query_count=2)),
    Mutation(
        "more queries were issued than generated",
        "counts",
        logged("performance", result_query_count=lambda v: v * 100),
        "SingleStream",
    ),
    Mutation(
        "the percentiles are out of order",
        "latencies",
        logged("performance", result_50__00_percentile_latency_ns=10**12),
    ),
    Mutation(
        "a latency is missing", "latencies", logged("performance", result_mean_latency_ns=None)
    ),
    Mutation(
        "a latency is a text", "latencies", logged("performance", result_max_latency_ns="fast")
    ),
    Mutation("the run is longer than the time that passed", "duration", slower_than_the_clock),
    Mutation(
        "the rate of SingleStream is not its latency's",
        "latencies",
        logged("performance", result_qps_without_loadgen_overhead=lambda v: v * 1.01),
        "SingleStream",
    ),
    Mutation(
        "the rounds of equal issue are not whole",
        "counts",
        logged("performance", generated_samples_per_query=lambda v: v - 1),
        "tokens",
    ),
]
PROVENANCE = [
    Mutation(
        "the test is dated before LoadGen was built",
        "dates",
        logged("performance", test_datetime="2019-01-01T00:00:00Z"),
    ),
    Mutation(
        "the test is dated in the future",
        "dates",
        logged("accuracy", test_datetime="2999-01-01T00:00:00Z"),
    ),
    Mutation("the date is none", "dates", logged("performance", test_datetime="yesterday")),
    Mutation(
        "the power interval ends before it begins",
        "dates",
        logged("performance", power_end="01-01-2020 00:00:00.000"),
    ),
    Mutation(
        "the reference is not the recorded one",
        "digests",
        record(lambda d: {**d, "digests": {**d["digests"], "reference": "1" * 64}}),
    ),
    Mutation("the reference is missing", "digests", lambda run: (run / "reference.npz").unlink()),
    Mutation(
        "the recorded scenario is another",
        "record",
        record(lambda d: {**d, "cell": {**d["cell"], "scenario": "Server"}}),
    ),
    Mutation(
        "the recorded batch is not the one that ran",
        "record",
        record(lambda d: {**d, "cell": {**d["cell"], "batch_size": 7}}),
    ),
    Mutation(
        "the recorded benchmark is another",
        "record",
        record(lambda d: {**d, "benchmark": {"name": "sam-tiny", "official": "bert-99"}}),
    ),
    Mutation(
        "the accuracy test answered other inputs",
        "record",
        lambda run: edit_json(
            run / "raw" / "accuracy" / "job.json", lambda d: {**d, "inputs": "other.npz"}
        ),
    ),
    Mutation(
        "the record is cut",
        "record-json",
        lambda run: (run / "record.json").write_text((run / "record.json").read_text()[:99]),
    ),
    Mutation(
        "the record lacks the command",
        "record-json",
        record(lambda d: {k: v for k, v in d.items() if k != "command"}),
    ),
    Mutation(
        "another program was compiled while measuring",
        "performance-evidence",
        outcome(
            "performance",
            evidence_before=seen(0, compilations=38),
            evidence_after=seen(0, compilations=39),
        ),
    ),
    Mutation(
        "an eager SUT ran no operator by itself",
        "performance-evidence",
        outcome(
            "performance", evidence_before=seen(0, operators=0), evidence_after=seen(0, operators=0)
        ),
    ),
    Mutation(
        "the counts of two watched batches are those of one",
        "performance-evidence",
        outcome(
            "performance",
            evidence_before=seen(0, operators=99, forward_passes=6, batches=1),
            evidence_after=seen(0, operators=99, forward_passes=6, batches=2),
        ),
    ),
    Mutation(
        "a matrix product ran beside the compiled program",
        "accuracy-evidence",
        executed("xla", *[seen(1, xla_programs=1, regions=1, products_left=1)] * 2),
    ),
    Mutation(
        "XLA compiled one part of a graph",
        "accuracy-evidence",
        executed("xla", *[seen(1, xla_programs=1, regions=1, products_left_of_xla=1)] * 2),
    ),
    Mutation(
        "the trace is cut",
        "trace",
        lambda run: _trace(run).write_bytes(_trace(run).read_bytes()[:-20]),
    ),
    Mutation("the trace is deleted", "trace", lambda run: _trace(run).unlink()),
    Mutation(
        "the trace is another run's",
        "trace",
        lambda run: _trace(run).write_bytes(gzip.compress(b"{}")),
    ),
    Mutation(
        "the accuracy worker failed",
        "worker-outcomes",
        outcome("accuracy", status="error", reason="it broke"),
    ),
    Mutation(
        "the calendar was set during the test",
        "clock",
        outcome("performance", disturbance=CALM | {"clock_step_seconds": -0.5}),
        level="valid",
    ),
    Mutation(
        "less time passed for the worker than for LoadGen",
        "clock",
        outcome("performance", test_ns=1_000_000),
        level="valid",
    ),
    Mutation(
        "an outcome is missing",
        "worker-outcomes",
        lambda run: (run / "raw" / "performance" / "outcome.json").unlink(),
    ),
    Mutation(
        "eager compiled something",
        "performance-evidence",
        outcome("performance", evidence_before=seen(1), evidence_after=seen(1)),
    ),
    Mutation(
        "eager compiled something in the accuracy test",
        "accuracy-evidence",
        outcome("accuracy", evidence_before=seen(1), evidence_after=seen(1)),
    ),
    Mutation("a compiled column ran eager", "performance-evidence", compiled(0, 0)),
    Mutation("a graph was compiled while measuring", "performance-evidence", compiled(1, 2)),
    Mutation("the captured graph has breaks", "performance-evidence", compiled(2, 2, breaks=1)),
    Mutation(
        "a compiled model's measured call ran eager",
        "performance-evidence",
        executed("compile", *[seen(2, breaks=0, share=0.0)] * 2),
    ),
    Mutation(
        "some forward passes ran eager",
        "performance-evidence",
        executed("compile", *[seen(2, breaks=0, share=0.98)] * 2),
    ),
    Mutation(
        "the measured call was compiled before the test and eager after it",
        "performance-evidence",
        executed("compile", seen(2, breaks=0, share=1.0), seen(2, breaks=0, share=0.0)),
    ),
    Mutation(
        "the measured call was eager before the test and compiled after it",
        "performance-evidence",
        executed("compile", seen(2, breaks=0, share=0.0), seen(2, breaks=0, share=1.0)),
    ),
    Mutation(
        "the share that ran compiled is missing",
        "performance-evidence",
        executed("compile", *[seen(2, breaks=0)] * 2),
    ),
    Mutation(
        "the share that ran compiled is missing before the test",
        "performance-evidence",
        executed("compile", seen(2, breaks=0), seen(2, breaks=0, share=1.0)),
    ),
    Mutation(
        "the share that ran compiled is beyond one",
        "performance-evidence",
        executed("compile", *[seen(2, breaks=0, share=1.5)] * 2),
    ),
    Mutation(
        "an XLA column compiled no program",
        "performance-evidence",
        executed("xla", *[seen(1, xla_programs=0)] * 2),
    ),
    Mutation(
        "an XLA column had no program before the test",
        "accuracy-evidence",
        executed("xla", seen(1, xla_programs=0), seen(1, xla_programs=1)),
    ),
    Mutation(
        "an XLA column's program is entered and run operator by operator",
        "performance-evidence",
        executed(
            "xla",
            seen(1, xla_programs=1, operators_that_compute=0),
            seen(1, xla_programs=1, operators_that_compute=414),
        ),
    ),
    Mutation(
        "an XLA column's operators are no number",
        "performance-evidence",
        executed("xla", *[seen(1, xla_programs=1, operators_that_compute="0")] * 2),
    ),
    Mutation(
        "an XLA column does not tell its programs",
        "performance-evidence",
        executed("xla", *[seen(1)] * 2),
    ),
    Mutation(
        "an XLA column's programs are no number",
        "performance-evidence",
        executed("xla", *[seen(1, xla_programs="1")] * 2),
    ),
    Mutation(
        "XLA compiled what says graph",
        "performance-evidence",
        executed("graph", *[seen(1, xla_programs=1)] * 2),
    ),
    Mutation(
        "what says graph does not tell XLA's programs",
        "performance-evidence",
        executed("graph", *[seen(1)] * 2),
    ),
    Mutation(
        "XLA compiled what says eager",
        "performance-evidence",
        executed("eager", *[seen(0, xla_programs=1)] * 2),
    ),
    Mutation(
        "the worker left no evidence",
        "performance-evidence",
        outcome("performance", evidence_before=None),
    ),
    Mutation(
        "a framework's evidence lacks its counters", "performance-evidence", on_framework("PyTorch")
    ),
    Mutation(
        "a framework's evidence does not count the weights",
        "performance-precision",
        on_framework("PyTorch"),
    ),
    Mutation(
        "a share in the evidence is no number",
        "performance-precision",
        outcome("performance", evidence_before=seen(0, share=math.nan)),
    ),
    Mutation(
        "another precision ran",
        "performance-precision",
        outcome("performance", evidence_after=seen(0, "tf32")),
    ),
    Mutation(
        "another precision ran in the accuracy test",
        "accuracy-precision",
        outcome("accuracy", evidence_before=seen(0, "bfloat16")),
    ),
]
ACCURACY = [
    Mutation("the hash is missing", "accuracy-hash", lambda run: hashed(run, "")),
    Mutation(
        "the hash is another", "accuracy-hash", lambda run: hashed(run, "hash=" + "1" * 64 + "\n")
    ),
    Mutation(
        "the hash stands twice",
        "accuracy-hash",
        lambda run: hashed(run, ("hash=" + "1" * 64 + "\n") * 2),
    ),
    Mutation(
        "the truncated log is another run's",
        "accuracy-hash",
        lambda run: end_with(scenario_folder(run) / "accuracy" / ANSWERS, b"000000000"),
    ),
    Mutation(
        "the accuracy log is not truncated",
        "accuracy-log-size",
        lambda run: shutil.copyfile(
            run / "raw" / "accuracy" / ANSWERS, scenario_folder(run) / "accuracy" / ANSWERS
        ),
    ),
    Mutation(
        "the whole accuracy log is missing",
        "accuracy-hash",
        lambda run: (run / "raw" / "accuracy" / ANSWERS).unlink(),
    ),
    Mutation("the score in accuracy.txt is not the log's", "accuracy-score", forged_score),
    Mutation(
        "accuracy.txt holds no score",
        "accuracy-score",
        lambda run: written(
            "\n" + (scenario_folder(run) / "accuracy" / "accuracy.txt").read_text(),
            "accuracy",
            "accuracy.txt",
        )(run),
    ),
    Mutation(
        "the answers are of other samples",
        "accuracy-score",
        answers(
            lambda rows: [
                r.replace('"qsl_idx" : 1,', '"qsl_idx" : X,')
                .replace('"qsl_idx" : 2,', '"qsl_idx" : 1,')
                .replace('"qsl_idx" : X,', '"qsl_idx" : 2,')
                for r in rows
            ]
        ),
    ),
    Mutation(
        "a generated token is another",
        "accuracy-score",
        answers(lambda rows: [rows[0], other_token(rows[1]), *rows[2:]]),
        "tokens",
    ),
    Mutation(
        "the teacher-forced logits are another run's",
        "accuracy-score",
        lambda run: end_with(run / "raw" / "accuracy" / "logits.npy", b"\x00\x00\x80\x42"),
        "tokens",
    ),
    Mutation(
        "the teacher-forced logits are missing",
        "accuracy-score",
        lambda run: (run / "raw" / "accuracy" / "logits.npy").unlink(),
        "tokens",
    ),
    Mutation(
        "the SUT's own logits rate other tokens higher",
        "accuracy-score",
        lambda run: end_with(
            run / "raw" / "accuracy" / "own_logits.npy", b"\x00\x00\x80\x42\x00\x00\x00\x00" * 3
        ),
        "tokens",
    ),
    Mutation(
        "the SUT's own logits are missing",
        "accuracy-score",
        lambda run: (run / "raw" / "accuracy" / "own_logits.npy").unlink(),
        "tokens",
    ),
    Mutation(
        "the reference is damaged",
        "accuracy-score",
        lambda run: (run / "reference.npz").write_bytes(b"PK\x03\x04 no archive"),
    ),
    Mutation("an answer is missing", "accuracy-log", answers(lambda rows: [*rows[:1], *rows[2:]])),
    Mutation(
        "an answer stands twice", "accuracy-log", answers(lambda rows: [*rows[:2], *rows[1:]])
    ),
    Mutation(
        "an answer is no hexadecimal",
        "accuracy-log",
        answers(lambda rows: [rows[0], rows[1].replace('"data" : "', '"data" : "XY'), *rows[2:]]),
    ),
    Mutation("the accuracy log is cut", "accuracy-log", answers(lambda rows: rows[:100])),
    Mutation(
        "the performance run logged answers",
        "performance-log-of-answers",
        lambda run: (run / "raw" / "performance" / ANSWERS).write_text(
            '[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" }\n]\n'
        ),
    ),
]
METADATA = [
    Mutation(
        "the system description is missing",
        "system-description",
        lambda run: (base(run) / "systems" / f"{tree.SYSTEM}.json").unlink(),
    ),
    Mutation(
        "the system description is no JSON",
        "system-description",
        lambda run: (base(run) / "systems" / f"{tree.SYSTEM}.json").write_text("{cut"),
    ),
    Mutation("a field of the system is missing", "system-description", system(cooling=None)),
    Mutation("a field of the system is empty", "system-description", system(framework=" ")),
    Mutation(
        "the number of accelerators is a number",
        "system-description",
        system(accelerators_per_node=0),
    ),
    Mutation("the number of nodes is a word", "system-description", system(number_of_nodes="one")),
    Mutation("is_network is there", "system-description", system(is_network="False")),
    Mutation("the system's status is none", "system-description", system(status="retired")),
    Mutation(
        "the submitter is not the folder's", "system-description", system(submitter="somebody")
    ),
    Mutation("the division is not the folder's", "system-description", system(division="closed")),
    Mutation(
        "a field of measurements.json is empty",
        "measurements-json",
        lambda run: edit_json(
            scenario_folder(run) / "measurements.json", lambda d: {**d, "retraining": ""}
        ),
    ),
    Mutation("measurements.json is missing", "measurements-json", removed("measurements.json")),
    Mutation(
        "the model is not mapped",
        "model-mapping",
        lambda run: (base(run) / "model_mapping.json").write_text("{}"),
    ),
    Mutation(
        "the mapped benchmark is not of the round",
        "model-mapping",
        lambda run: edit_json(base(run) / "model_mapping.json", lambda d: {"bert-tiny": "gptj-99"}),
    ),
    Mutation(
        "the source folder is missing",
        "source-folder",
        lambda run: shutil.rmtree(base(run) / "src"),
    ),
]
RESULT = [
    Mutation(
        "result.json says nothing",
        "derived-files",
        lambda run: (run / "result.json").write_text("{}"),
    ),
    *(
        Mutation(f"result.json claims another {name}", "derived-files", result(*path, value=value))
        for name, path, value in (
            ("figure", ("metric", "value"), 1e12),
            ("rate", ("metrics", "samples_per_second"), 1e9),
            ("time of a step", ("metrics", "ms_per_step"), 1e-6),
            ("energy", ("energy", "joules"), {"cpu": 0.1}),
            ("peak of memory", ("peak_host_bytes",), 1),
            ("evidence", ("evidence", "after", "graphs"), 9),
            ("verdict", ("loadgen",), "INVALID"),
            ("mode", ("mode",), "valid"),
        )
    ),
]
CLOCKS = [
    Mutation(
        "twenty seconds passed that no figure tells of",
        "duration",
        logged(
            "performance",
            power_end=lambda text: (
                f"{datetime.strptime(text, _POWER) + timedelta(seconds=20):{_POWER}}"[:-3]
            ),
        ),
        kind,
    )
    for kind in ("Offline", "SingleStream")
]
RECOMPUTED = [
    *(
        Mutation(
            f"the {name} is a nanosecond off",
            "trace-figures",
            logged("performance", **{key: lambda v: v + 1}),
            kind,
        )
        for kind, name, key in (
            ("Offline", "mean latency", "result_mean_latency_ns"),
            ("SingleStream", "90th percentile", "result_90__00_percentile_latency_ns"),
            ("SingleStream", "99.9th percentile", "result_99__90_percentile_latency_ns"),
            ("SingleStream", "estimate of early stopping", "early_stopping_latency_ss"),
        )
    ),
    Mutation(
        "the rate is a hundredth off",
        "trace-figures",
        logged("performance", result_qps_with_loadgen_overhead=lambda v: v * 1.01),
        "SingleStream",
    ),
    Mutation(
        "a sample of the trace took longer",
        "trace-figures",
        retraced(of_sample(3, "complete_ns", lambda v: v + 1_000_000)),
        "SingleStream",
    ),
    Mutation(
        "a sample of the trace is another",
        "performance-order",
        retraced(of_sample(3, "sample_idx", lambda v: (v + 1) % 256)),
        "SingleStream",
    ),
    Mutation(
        "a sample of Offline's trace is another",
        "performance-order",
        retraced(of_sample(3, "sample_idx", lambda v: (v + 1) % 256)),
    ),
    Mutation(
        "a sample of equal issue is another",
        "performance-order",
        retraced(of_sample(3, "sample_idx", lambda v: (v + 1) % 32)),
        "tokens",
    ),
    Mutation(
        "a sample of the trace was not loaded",
        "trace-samples",
        retraced(of_sample(3, "sample_idx", lambda v: 9999)),
    ),
    Mutation("a sample was never completed", "trace-samples", retraced(without_sample(3))),
    Mutation(
        "a sample was completed twice",
        "trace-samples",
        retraced(of_sample(3, "sample_seq", lambda v: 4)),
    ),
    Mutation(
        "a query is of two samples",
        "trace-samples",
        retraced(of_sample(3, "query_seq", lambda v: v + 1)),
        "SingleStream",
    ),
    Mutation(
        "a query overlaps the next",
        "trace-times",
        retraced(of_sample(3, "complete_ns", lambda v: v * 1000)),
        "SingleStream",
    ),
    Mutation(
        "the whole trace ends early", "trace-samples", retraced(lambda text: text[: len(text) // 2])
    ),
    Mutation(
        "two samples were loaded in another order",
        "performance-loaded-set",
        logged("performance", loaded_qsl_set=lambda v: [v[1], v[0], *v[2:]]),
    ),
    Mutation(
        "the accuracy test loaded another order",
        "accuracy-loaded-set",
        logged("accuracy", loaded_qsl_set=lambda v: [v[1], v[0], *v[2:]]),
    ),
    Mutation("the answers are in another order", "accuracy-order", answers(swapped_answers)),
]
HARMFUL = (
    FILES
    + STRUCTURE
    + SETTINGS
    + VALIDITY
    + CLOCKS
    + RESULT
    + RECOMPUTED
    + PROVENANCE
    + ACCURACY
    + METADATA
)


def _parameters(mutations: list[Mutation]) -> list[Any]:
    return [pytest.param(m.kind, m, id=m.name) for m in mutations]


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
def test_the_audit_sees_that(run: Path, mutation: Mutation, tmp_path: Path) -> None:
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


def _trace(run: Path) -> Path:
    return run / "raw" / "performance" / "mlperf_log_trace.json.gz"


def _lower_case(run: Path) -> None:
    folder = scenario_folder(run)
    folder.rename(folder.with_name(folder.name.lower()))


def _submitted_trace(run: Path) -> None:
    folder = scenario_folder(run) / "performance" / "run_1"
    content = gzip.decompress(_trace(run).read_bytes())
    assert len(content) <= rules.load().layout.largest_file_bytes, (
        "no submission may hold a trace of that size"
    )
    (folder / "mlperf_log_trace.json").write_bytes(content)


def _commented(run: Path) -> None:
    for test in ("performance", "accuracy"):
        change(run, test, "user.conf", lambda text: "# what the calibration found\n\n" + text)


def _with_test01(run: Path) -> None:
    (scenario_folder(run) / "TEST01").mkdir()
    (scenario_folder(run) / "TEST01" / "verify_accuracy.txt").write_text("TEST PASS\n")


def _no_reference(run: Path) -> None:
    edit_json(
        run / "record.json",
        lambda d: {
            **d,
            "digests": {**d["digests"], "reference": ""},
            "accuracy": {**d["accuracy"], "reason": "no reference: too little memory"},
        },
    )
    (run / "reference.npz").unlink()


def _warned_at_the_end(run: Path) -> None:
    """A logger whose buffer grew says so once all is written (logging.cc,
    CollectTlsLoggerStats).
    """

    def how(text: str) -> str:
        last = json.loads(text.strip().split("\n")[-1].removeprefix(":::MLLOG "))
        last |= {
            "key": "warning_generic_message",
            "value": "Logging allocation detected",
            "metadata": last["metadata"] | {"is_warning": True},
        }
        return text + ":::MLLOG " + json.dumps(last) + "\n"

    change(run, "performance", DETAIL, how)


HARMLESS = [
    Mutation("a warning stands behind the last entry", "", _warned_at_the_end),
    Mutation("a document lies in the scenario", "", written("x", "calibration_process.adoc")),
    Mutation(
        "documents lie in the submitter's folder",
        "",
        lambda run: [beside(*p)(run) for p in (["LICENSE"], ["results", "README.md"])],
    ),
    Mutation("the trace lies beside the logs", "", _submitted_trace),
    Mutation("the scenario's folder is in lower case", "", _lower_case),
    Mutation("user.conf has comments and empty lines", "", _commented),
    Mutation(
        "an earlier attempt was set aside in raw",
        "",
        lambda run: shutil.copytree(run / "raw" / "accuracy", run / "raw" / "accuracy.attempt-1"),
    ),
    Mutation("the record says more", "", record(lambda d: {**d, "parameters": 7})),
    Mutation("the system description says more", "", system(host_processor_vcpu_count="2")),
    Mutation("a compliance test lies in the scenario", "", _with_test01),
    Mutation(
        "the submitter's letter case differs",
        "",
        lambda run: system(submitter=base(run).name.upper())(run),
    ),
    Mutation("a framework does not count graph breaks", "", compiled(3, 3, breaks=None)),
    Mutation("every forward pass ran compiled", "", compiled(2, 2)),
    Mutation("XLA compiled the measured call", "", executed("xla", *[seen(1, xla_programs=1)] * 2)),
    Mutation(
        "what says graph has no XLA program", "", executed("graph", *[seen(1, xla_programs=0)] * 2)
    ),
    Mutation(
        "an eager SUT counts XLA's programs and has none",
        "",
        executed("eager", *[seen(0, xla_programs=0)] * 2),
    ),
    Mutation("no reference could be made", "", _no_reference),
]


@pytest.mark.parametrize(("run", "mutation"), _parameters(HARMLESS), indirect=["run"])
def test_the_audit_does_not_mind_that(run: Path, mutation: Mutation) -> None:
    mutation.do(run)
    found = audit.audit(run).checks_for("quick")
    assert verdict.passes(found), "\n".join(c.line() for c in found if c.verdict is Verdict.FAIL)
    assert audit.audit(run).levels == ("quick",)


def test_what_cannot_be_judged_is_left_to_people(run: Path) -> None:
    _no_reference(run)
    outcomes = {c.key: c.verdict for c in audit.audit(run).checks_for("quick")}
    assert outcomes["accuracy-score"] is outcomes["digests"] is Verdict.MANUAL


def test_a_bare_submission_that_says_it_failed_is_believed(run: Path) -> None:
    for name in ("raw", "record.json", "reference.npz"):
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    text = next(run.rglob("accuracy.txt"))
    assert {c.key: c.verdict for c in audit.audit(run).checks_for("quick")}[
        "accuracy-score"
    ] is Verdict.MANUAL
    text.write_text(text.read_text().replace('"passed": true', '"passed": false'))
    assert {c.key: c.verdict for c in audit.audit(run).checks_for("quick")}[
        "accuracy-score"
    ] is Verdict.FAIL


def test_accuracy_that_was_not_judged_holds_no_valid_level(run: Path) -> None:
    _no_reference(run)
    assert {c.key: c.verdict for c in audit.audit(run).checks_for("valid")}[
        "accuracy-judged"
    ] is Verdict.FAIL
