"""The audit tested by what it must see: a good run directory, one thing changed, the check that
names it. And changes that do no harm.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Callable, Iterable
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
    Table,
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
    mutations,
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
HARMFUL: Table = {
    "files-complete": {
        "the performance detail log is missing": removed("performance", "run_1", DETAIL),
        "the accuracy log is empty": emptied("accuracy", ANSWERS),
        "README.md is empty": emptied("README.md"),
        "user.conf is missing": removed("user.conf"),
        "run_1 has another name": lambda run: (
            scenario_folder(run) / "performance" / "run_1"
        ).rename(scenario_folder(run) / "performance" / "run-1"),
    },
    "performance-summary": {
        "the performance summary is missing": removed("performance", "run_1", SUMMARY),
        "the summary contradicts the detail log": lambda run: change(
            run,
            "performance",
            SUMMARY,
            lambda t: t.replace("Samples per second: ", "Samples per second: 9"),
        ),
        "the summary says VALID and the detail log INVALID": logged(
            "performance", result_validity="INVALID"
        ),
        "the summary lacks a percentile": replaced(
            "performance", SUMMARY, "99.00 percentile latency", "x"
        ),
        "the summary lacks a setting": replaced("performance", SUMMARY, "min_query_count", "x"),
        "the summary tells of an error too": replaced(
            "performance", SUMMARY, "No errors", "1 ERROR encountered. See detailed log.\nNo errors"
        ),
        "the summary's digits are another script's": lambda run: change(
            run,
            "performance",
            SUMMARY,
            lambda t: t.translate({ord(c): 0x660 + int(c) for c in "0123456789"}),
        ),
    },
    "accuracy-detail-log": {
        "the accuracy detail log is missing": removed("accuracy", DETAIL),
        "the accuracy run's detail log is cut in a line": cut_in_a_line("accuracy"),
        "a setting stands twice": put_in("accuracy", "effective_min_duration_ms", 600000),
        "a line does not say whether it is an error": put_in(
            "accuracy", "generic_message", "x", is_error=None
        ),
        "the accuracy run's log reports a result": put_in("accuracy", "result_validity", "VALID"),
    },
    "accuracy-log-size": {
        "the accuracy log is missing": removed("accuracy", ANSWERS),
        "the accuracy log is not truncated": lambda run: shutil.copyfile(
            run / "raw" / "accuracy" / ANSWERS, scenario_folder(run) / "accuracy" / ANSWERS
        ),
    },
    "accuracy-hash": {
        "accuracy.txt is missing": removed("accuracy", "accuracy.txt"),
        "the hash is missing": lambda run: hashed(run, ""),
        "the hash is another": lambda run: hashed(run, "hash=" + "1" * 64 + "\n"),
        "the hash stands twice": lambda run: hashed(run, ("hash=" + "1" * 64 + "\n") * 2),
        "the truncated log is another run's": lambda run: end_with(
            scenario_folder(run) / "accuracy" / ANSWERS, b"000000000"
        ),
        "the whole accuracy log is missing": lambda run: (
            run / "raw" / "accuracy" / ANSWERS
        ).unlink(),
    },
    "no-other-files": {
        "a stray file lies in the scenario": written("x", "notes.txt"),
        "a second run lies beside run_1": lambda run: shutil.copytree(
            scenario_folder(run) / "performance" / "run_1",
            scenario_folder(run) / "performance" / "run_2",
        ),
    },
    "names-and-sizes": {
        "a file is a link": lambda run: (base(run) / "src" / "link").symlink_to("/nowhere"),
        "a hidden file lies in the tree": written("x", "..", ".DS_Store"),
        "a folder is empty": lambda run: (base(run) / "documentation").mkdir(),
    },
    "performance-detail-log": {
        "the detail log is cut in a line": cut_in_a_line("performance"),
        "two runs stand in one log": twice("performance"),
        "a key is missing in the detail log": logged(
            "performance", effective_sample_index_rng_seed=None
        ),
        "the log ends before its last entry": logged("performance", num_errors=None),
        "the detail log is binary": lambda run: [
            p.write_bytes(b"\xff\xfe\x00" * 99) for p in tree.both(run, "performance", DETAIL)
        ],
        "a figure stands twice": put_in("performance", "result_samples_per_second", 1e9),
        "a line is of another process": put_in("performance", "generic_message", "x", pid=1),
        "a line is of no source of LoadGen": put_in(
            "performance", "generic_message", "x", file="forge.py"
        ),
        "the log's lines are out of order": out_of_order,
    },
    "raw-logs": {
        "the submitted log is not the raw one": lambda run: (
            lambda p: p.write_text(p.read_text().replace("VALID", "VALID "))
        )(tree.both(run, "performance", SUMMARY)[1]),
    },
    "performance-errors": {
        "an error has lost its mark": put_in("performance", "error_runtime", "it broke"),
        "an error line stands in the performance log": put_in(
            "performance", "error_runtime", "it broke", is_error=True
        ),
        "errors were counted": logged("performance", num_errors=3),
    },
    "performance-audit-settings": {
        "a warning of an audit.config has lost its mark": put_in(
            "performance", "warning_generic_message", "Found Audit Config file (audit.config)"
        ),
        "an audit setting was left over": logged(
            "performance",
            effective_performance_issue_same=True,
            requested_performance_issue_same=True,
        ),
        "a sampling target was left over": logged(
            "performance",
            effective_accuracy_log_sampling_target=4096,
            requested_accuracy_log_sampling_target=4096,
        ),
        "an audit.config was found": put_in(
            "performance",
            "warning_generic_message",
            "Found Audit Config file (audit.config)",
            is_warning=True,
        ),
    },
    "nothing-beside-the-scenarios": {
        "a log lies a level too high": beside(
            "results", tree.SYSTEM, "bert-tiny", "mlperf_log_detail.txt"
        ),
        "a stranger lies in the submitter's folder": beside("results.zip"),
        "a system description ends in another way": beside("systems", "ghost.JSON"),
        "a folder has the name of a file": beside("systems", "a_power.yaml", "x.bin"),
    },
    "folders-of-the-tree": {
        "another submitter has no results": beside("..", "other", "systems", "a.json"),
        "a division is in capitals": beside("..", "..", "Closed", "other", "a.txt"),
        "a scenario lies there twice": lambda run: shutil.copytree(
            scenario_folder(run), scenario_folder(run).with_name(scenario_folder(run).name.lower())
        ),
    },
    "logs-of-one-run": {
        "a second system has the first one's logs": another_system,
    },
    "performance-loadgen": {
        "the LoadGen version is of another round": logged(
            "performance", loadgen_version="5.1.2 @ d6147c7eb7"
        ),
        "a LoadGen source file is not the official one": lambda run: other_hash_of_a_file(
            run, "performance"
        ),
        "LoadGen was built from changed sources": logged(
            "performance", loadgen_git_status_message=" M loadgen.cc"
        ),
    },
    "loadgen-of-both-tests": {
        "the accuracy run used another LoadGen": logged(
            "accuracy", loadgen_version="6.0.16 @ 2b5f63eb56"
        ),
    },
    "accuracy-loadgen": {
        "a LoadGen source file of the accuracy run is not the official one": lambda run: (
            other_hash_of_a_file(run, "accuracy")
        ),
    },
    "performance-seeds": {
        "a performance seed is of another round": logged(
            "performance", effective_qsl_rng_seed=2465351861681999779
        ),
    },
    "accuracy-seeds": {
        "an accuracy seed is of another round": logged("accuracy", requested_schedule_rng_seed=1),
    },
    "accuracy-test-and-scenario": {
        "the accuracy run ran in performance mode": logged(
            "accuracy", effective_test_mode="PerformanceOnly"
        ),
        "the accuracy run is of another scenario": logged("accuracy", effective_scenario="Server"),
    },
    "performance-test-and-scenario": {
        "the performance run ran in accuracy mode": logged(
            "performance", effective_test_mode="AccuracyOnly"
        ),
        "Offline logs lie in SingleStream's folder": scenario_renamed,
    },
    "user-conf-keys": {
        "user.conf has a misspelt key": conf("min_query_count", "min_querycount"),
        "user.conf has keys of another model": conf("bert-tiny.", "bert."),
        "user.conf has a value that is no number": conf("min_duration = ", "min_duration = five"),
    },
    "performance-requested-settings": {
        "user.conf asks for another duration": conf("min_duration = ", "min_duration = 9"),
        "user.conf asks for another rate": conf("target_qps = ", "target_qps = 1"),
    },
    ("performance-requested-settings", "SingleStream"): {
        "the latency requested is not user.conf's": logged(
            "performance", requested_single_stream_expected_latency_ns=1.0
        ),
    },
    "performance-effective-settings": {
        "a setting in force is not the one requested": logged(
            "performance", effective_min_duration_ms=600001
        ),
        "fewer samples are in the query than requested": logged(
            "performance", effective_samples_per_query=100
        ),
    },
    ("performance-effective-settings", "SingleStream"): {
        "SingleStream's least count is not the one requested": logged(
            "performance", effective_min_query_count=65
        ),
    },
    "performance-sample-set": {
        "a sample is loaded twice": logged("performance", loaded_qsl_set=lambda v: [v[1], *v[1:]]),
        "not all samples are loaded": logged("performance", loaded_qsl_set=lambda v: v[1:]),
    },
    "accuracy-sample-set": {
        "the accuracy run takes half of the data set": logged(
            "accuracy", generated_samples_per_query=128
        ),
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
        "a language model runs without equal issue": logged(
            "performance",
            effective_sample_concatenate_permutation=False,
            requested_sample_concatenate_permutation=False,
        ),
    },
    "accuracy-errors": {
        "an error line stands in the accuracy log": put_in(
            "accuracy", "error_runtime", "it broke", is_error=True
        ),
        "the accuracy summary tells of errors": replaced(
            "accuracy", SUMMARY, "No errors encountered", "2 ERRORS encountered"
        ),
    },
    "validity": {
        "the verdict is not what its parts say": logged(
            "performance", result_min_duration_met=False
        ),
        "the minimum duration was not met and is said to be": logged(
            "performance", effective_min_duration_ms=10**9, requested_min_duration_ms=10**9
        ),
    },
    ("validity", "SingleStream"): {
        "the least count was not met and is said to be": logged(
            "performance", effective_min_query_count=10**6, effective_min_sample_count=10**6
        ),
        "early stopping was met by too few queries": logged("performance", result_query_count=60),
    },
    ("early-stopping", "SingleStream"): {
        "the early-stopping estimate is another percentile's": logged(
            "performance", early_stopping_latency_ss=lambda v: v - 1
        ),
        "early stopping discards more than it may": logged(
            "performance",
            early_stopping_result=lambda v: v.replace("Would discard ", "Would discard 1"),
        ),
    },
    ("loadgen-verdict", "Offline", "valid"): {
        "LoadGen says INVALID": logged("performance", result_validity="INVALID"),
    },
    "latencies": {
        "fewer samples completed than issued": logged(
            "performance", result_samples_per_second=lambda v: v * 0.9
        ),
        "the percentiles are out of order": logged(
            "performance", result_50__00_percentile_latency_ns=10**12
        ),
        "a latency is missing": logged("performance", result_mean_latency_ns=None),
        "a latency is a text": logged("performance", result_max_latency_ns="fast"),
    },
    "counts": {
        "more samples were generated than asked for": logged(
            "performance", generated_samples_per_query=lambda v: v + 1
        ),
        "Offline issued two queries": logged("performance", result_query_count=2),
    },
    ("counts", "SingleStream"): {
        "more queries were issued than generated": logged(
            "performance", result_query_count=lambda v: v * 100
        ),
    },
    "duration": {
        "the run is longer than the time that passed": slower_than_the_clock,
        "twenty seconds passed that no figure tells of": logged(
            "performance",
            power_end=lambda text: (
                f"{datetime.strptime(text, _POWER) + timedelta(seconds=20):{_POWER}}"[:-3]
            ),
        ),
    },
    ("latencies", "SingleStream"): {
        "the rate of SingleStream is not its latency's": logged(
            "performance", result_qps_without_loadgen_overhead=lambda v: v * 1.01
        ),
    },
    ("counts", "tokens"): {
        "the rounds of equal issue are not whole": logged(
            "performance", generated_samples_per_query=lambda v: v - 1
        ),
    },
    "dates": {
        "the test is dated before LoadGen was built": logged(
            "performance", test_datetime="2019-01-01T00:00:00Z"
        ),
        "the test is dated in the future": logged("accuracy", test_datetime="2999-01-01T00:00:00Z"),
        "the date is none": logged("performance", test_datetime="yesterday"),
        "the power interval ends before it begins": logged(
            "performance", power_end="01-01-2020 00:00:00.000"
        ),
    },
    "digests": {
        "the reference is not the recorded one": record(
            lambda d: {**d, "digests": {**d["digests"], "reference": "1" * 64}}
        ),
        "the reference is missing": lambda run: (run / "reference.npz").unlink(),
    },
    "record": {
        "the record says another data-set size": record(
            lambda d: {**d, "qsl": {**d["qsl"], "samples": 10834}}
        ),
        "the recorded scenario is another": record(
            lambda d: {**d, "cell": {**d["cell"], "scenario": "Server"}}
        ),
        "the recorded batch is not the one that ran": record(
            lambda d: {**d, "cell": {**d["cell"], "batch_size": 7}}
        ),
        "the recorded benchmark is another": record(
            lambda d: {**d, "benchmark": {"name": "sam-tiny", "official": "bert-99"}}
        ),
        "the accuracy test answered other inputs": lambda run: edit_json(
            run / "raw" / "accuracy" / "job.json", lambda d: {**d, "inputs": "other.npz"}
        ),
    },
    "record-json": {
        "the record is cut": lambda run: (run / "record.json").write_text(
            (run / "record.json").read_text()[:99]
        ),
        "the record lacks the command": record(
            lambda d: {k: v for k, v in d.items() if k != "command"}
        ),
    },
    "performance-evidence": {
        "another program was compiled while measuring": outcome(
            "performance",
            evidence_before=seen(0, compilations=38),
            evidence_after=seen(0, compilations=39),
        ),
        "an eager SUT ran no operator by itself": outcome(
            "performance", evidence_before=seen(0, operators=0), evidence_after=seen(0, operators=0)
        ),
        "the counts of two watched batches are those of one": outcome(
            "performance",
            evidence_before=seen(0, operators=99, forward_passes=6, batches=1),
            evidence_after=seen(0, operators=99, forward_passes=6, batches=2),
        ),
        "eager compiled something": outcome(
            "performance", evidence_before=seen(1), evidence_after=seen(1)
        ),
        "a compiled column ran eager": compiled(0, 0),
        "a graph was compiled while measuring": compiled(1, 2),
        "the captured graph has breaks": compiled(2, 2, breaks=1),
        "a compiled model's measured call ran eager": executed(
            "compile", *[seen(2, breaks=0, share=0.0)] * 2
        ),
        "some forward passes ran eager": executed("compile", *[seen(2, breaks=0, share=0.98)] * 2),
        "the measured call was compiled before the test and eager after it": executed(
            "compile", seen(2, breaks=0, share=1.0), seen(2, breaks=0, share=0.0)
        ),
        "the measured call was eager before the test and compiled after it": executed(
            "compile", seen(2, breaks=0, share=0.0), seen(2, breaks=0, share=1.0)
        ),
        "the share that ran compiled is missing": executed("compile", *[seen(2, breaks=0)] * 2),
        "the share that ran compiled is missing before the test": executed(
            "compile", seen(2, breaks=0), seen(2, breaks=0, share=1.0)
        ),
        "the share that ran compiled is beyond one": executed(
            "compile", *[seen(2, breaks=0, share=1.5)] * 2
        ),
        "an XLA column compiled no program": executed("xla", *[seen(1, xla_programs=0)] * 2),
        "an XLA column's program is entered and run operator by operator": executed(
            "xla",
            seen(1, xla_programs=1, operators_that_compute=0),
            seen(1, xla_programs=1, operators_that_compute=414),
        ),
        "an XLA column's operators are no number": executed(
            "xla", *[seen(1, xla_programs=1, operators_that_compute="0")] * 2
        ),
        "an XLA column does not tell its programs": executed("xla", *[seen(1)] * 2),
        "an XLA column's programs are no number": executed("xla", *[seen(1, xla_programs="1")] * 2),
        "XLA compiled what says graph": executed("graph", *[seen(1, xla_programs=1)] * 2),
        "what says graph does not tell XLA's programs": executed("graph", *[seen(1)] * 2),
        "XLA compiled what says eager": executed("eager", *[seen(0, xla_programs=1)] * 2),
        "the worker left no evidence": outcome("performance", evidence_before=None),
        "a framework's evidence lacks its counters": on_framework("PyTorch"),
    },
    "accuracy-evidence": {
        "a matrix product ran beside the compiled program": executed(
            "xla", *[seen(1, xla_programs=1, regions=1, products_left=1)] * 2
        ),
        "XLA compiled one part of a graph": executed(
            "xla", *[seen(1, xla_programs=1, regions=1, products_left_of_xla=1)] * 2
        ),
        "eager compiled something in the accuracy test": outcome(
            "accuracy", evidence_before=seen(1), evidence_after=seen(1)
        ),
        "an XLA column had no program before the test": executed(
            "xla", seen(1, xla_programs=0), seen(1, xla_programs=1)
        ),
    },
    "trace": {
        "the trace is cut": lambda run: _trace(run).write_bytes(_trace(run).read_bytes()[:-20]),
        "the trace is deleted": lambda run: _trace(run).unlink(),
        "the trace is another run's": lambda run: _trace(run).write_bytes(gzip.compress(b"{}")),
    },
    "worker-outcomes": {
        "the accuracy worker failed": outcome("accuracy", status="error", reason="it broke"),
        "an outcome is missing": lambda run: (
            run / "raw" / "performance" / "outcome.json"
        ).unlink(),
    },
    ("clock", "Offline", "valid"): {
        "the calendar was set during the test": outcome(
            "performance", disturbance=CALM | {"clock_step_seconds": -0.5}
        ),
        "less time passed for the worker than for LoadGen": outcome(
            "performance", test_ns=1_000_000
        ),
    },
    "performance-precision": {
        "a framework's evidence does not count the weights": on_framework("PyTorch"),
        "a share in the evidence is no number": outcome(
            "performance", evidence_before=seen(0, share=math.nan)
        ),
        "another precision ran": outcome("performance", evidence_after=seen(0, "tf32")),
    },
    "accuracy-precision": {
        "another precision ran in the accuracy test": outcome(
            "accuracy", evidence_before=seen(0, "bfloat16")
        ),
    },
    "accuracy-score": {
        "the score in accuracy.txt is not the log's": forged_score,
        "accuracy.txt holds no score": lambda run: written(
            "\n" + (scenario_folder(run) / "accuracy" / "accuracy.txt").read_text(),
            "accuracy",
            "accuracy.txt",
        )(run),
        "the answers are of other samples": answers(
            lambda rows: [
                r.replace('"qsl_idx" : 1,', '"qsl_idx" : X,')
                .replace('"qsl_idx" : 2,', '"qsl_idx" : 1,')
                .replace('"qsl_idx" : X,', '"qsl_idx" : 2,')
                for r in rows
            ]
        ),
        "the reference is damaged": lambda run: (run / "reference.npz").write_bytes(
            b"PK\x03\x04 no archive"
        ),
    },
    ("accuracy-score", "tokens"): {
        "a generated token is another": answers(
            lambda rows: [rows[0], other_token(rows[1]), *rows[2:]]
        ),
        "the teacher-forced logits are another run's": lambda run: end_with(
            run / "raw" / "accuracy" / "logits.npy", b"\x00\x00\x80\x42"
        ),
        "the teacher-forced logits are missing": lambda run: (
            run / "raw" / "accuracy" / "logits.npy"
        ).unlink(),
        "the SUT's own logits rate other tokens higher": lambda run: end_with(
            run / "raw" / "accuracy" / "own_logits.npy", b"\x00\x00\x80\x42\x00\x00\x00\x00" * 3
        ),
        "the SUT's own logits are missing": lambda run: (
            run / "raw" / "accuracy" / "own_logits.npy"
        ).unlink(),
    },
    "accuracy-log": {
        "an answer is missing": answers(lambda rows: [*rows[:1], *rows[2:]]),
        "an answer stands twice": answers(lambda rows: [*rows[:2], *rows[1:]]),
        "an answer is no hexadecimal": answers(
            lambda rows: [rows[0], rows[1].replace('"data" : "', '"data" : "XY'), *rows[2:]]
        ),
        "the accuracy log is cut": answers(lambda rows: rows[:100]),
    },
    "performance-log-of-answers": {
        "the performance run logged answers": lambda run: (
            run / "raw" / "performance" / ANSWERS
        ).write_text('[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" }\n]\n'),
    },
    "system-description": {
        "the system description is missing": lambda run: (
            base(run) / "systems" / f"{tree.SYSTEM}.json"
        ).unlink(),
        "the system description is no JSON": lambda run: (
            base(run) / "systems" / f"{tree.SYSTEM}.json"
        ).write_text("{cut"),
        "a field of the system is missing": system(cooling=None),
        "a field of the system is empty": system(framework=" "),
        "the number of accelerators is a number": system(accelerators_per_node=0),
        "the number of nodes is a word": system(number_of_nodes="one"),
        "is_network is there": system(is_network="False"),
        "the system's status is none": system(status="retired"),
        "the submitter is not the folder's": system(submitter="somebody"),
        "the division is not the folder's": system(division="closed"),
    },
    "measurements-json": {
        "a field of measurements.json is empty": lambda run: edit_json(
            scenario_folder(run) / "measurements.json", lambda d: {**d, "retraining": ""}
        ),
        "measurements.json is missing": removed("measurements.json"),
    },
    "model-mapping": {
        "the model is not mapped": lambda run: (base(run) / "model_mapping.json").write_text("{}"),
        "the mapped benchmark is not of the round": lambda run: edit_json(
            base(run) / "model_mapping.json", lambda d: {"bert-tiny": "gptj-99"}
        ),
    },
    "source-folder": {
        "the source folder is missing": lambda run: shutil.rmtree(base(run) / "src"),
    },
    "derived-files": {
        "result.json says nothing": lambda run: (run / "result.json").write_text("{}"),
        "result.json claims another figure": result("metric", "value", value=1000000000000.0),
        "result.json claims another rate": result(
            "metrics", "samples_per_second", value=1000000000.0
        ),
        "result.json claims another time of a step": result("metrics", "ms_per_step", value=1e-06),
        "result.json claims another energy": result("energy", "joules", value={"cpu": 0.1}),
        "result.json claims another peak of memory": result("peak_host_bytes", value=1),
        "result.json claims another evidence": result("evidence", "after", "graphs", value=9),
        "result.json claims another verdict": result("loadgen", value="INVALID"),
        "result.json claims another mode": result("mode", value="valid"),
    },
    ("duration", "SingleStream"): {
        "twenty seconds passed that no figure tells of": logged(
            "performance",
            power_end=lambda text: (
                f"{datetime.strptime(text, _POWER) + timedelta(seconds=20):{_POWER}}"[:-3]
            ),
        ),
    },
    "trace-figures": {
        "the mean latency is a nanosecond off": logged(
            "performance", result_mean_latency_ns=lambda v: v + 1
        ),
    },
    ("trace-figures", "SingleStream"): {
        "the 90th percentile is a nanosecond off": logged(
            "performance", result_90__00_percentile_latency_ns=lambda v: v + 1
        ),
        "the 99.9th percentile is a nanosecond off": logged(
            "performance", result_99__90_percentile_latency_ns=lambda v: v + 1
        ),
        "the estimate of early stopping is a nanosecond off": logged(
            "performance", early_stopping_latency_ss=lambda v: v + 1
        ),
        "the rate is a hundredth off": logged(
            "performance", result_qps_with_loadgen_overhead=lambda v: v * 1.01
        ),
        "a sample of the trace took longer": retraced(
            of_sample(3, "complete_ns", lambda v: v + 1_000_000)
        ),
    },
    ("performance-order", "SingleStream"): {
        "a sample of the trace is another": retraced(
            of_sample(3, "sample_idx", lambda v: (v + 1) % 256)
        ),
    },
    "performance-order": {
        "a sample of Offline's trace is another": retraced(
            of_sample(3, "sample_idx", lambda v: (v + 1) % 256)
        ),
    },
    ("performance-order", "tokens"): {
        "a sample of equal issue is another": retraced(
            of_sample(3, "sample_idx", lambda v: (v + 1) % 32)
        ),
    },
    "trace-samples": {
        "a sample of the trace was not loaded": retraced(
            of_sample(3, "sample_idx", lambda v: 9999)
        ),
        "a sample was never completed": retraced(without_sample(3)),
        "a sample was completed twice": retraced(of_sample(3, "sample_seq", lambda v: 4)),
        "the whole trace ends early": retraced(lambda text: text[: len(text) // 2]),
    },
    ("trace-samples", "SingleStream"): {
        "a query is of two samples": retraced(of_sample(3, "query_seq", lambda v: v + 1)),
    },
    ("trace-times", "SingleStream"): {
        "a query overlaps the next": retraced(of_sample(3, "complete_ns", lambda v: v * 1000)),
    },
    "performance-loaded-set": {
        "two samples were loaded in another order": logged(
            "performance", loaded_qsl_set=lambda v: [v[1], v[0], *v[2:]]
        ),
    },
    "accuracy-loaded-set": {
        "the accuracy test loaded another order": logged(
            "accuracy", loaded_qsl_set=lambda v: [v[1], v[0], *v[2:]]
        ),
    },
    "accuracy-order": {
        "the answers are in another order": answers(swapped_answers),
    },
}


def _parameters(mutations: Iterable[Mutation]) -> list[Any]:
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


@pytest.mark.parametrize(("run", "mutation"), _parameters(mutations(HARMFUL)), indirect=["run"])
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
    for test in ("performance", "accuracy"):
        edit_json(run / "raw" / test / "job.json", lambda d: {**d, "reference": None})
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


HARMLESS = {
    "a warning stands behind the last entry": _warned_at_the_end,
    "a document lies in the scenario": written("x", "calibration_process.adoc"),
    "documents lie in the submitter's folder": lambda run: [
        beside(*p)(run) for p in (["LICENSE"], ["results", "README.md"])
    ],
    "the trace lies beside the logs": _submitted_trace,
    "the scenario's folder is in lower case": _lower_case,
    "user.conf has comments and empty lines": _commented,
    "an earlier attempt was set aside in raw": lambda run: shutil.copytree(
        run / "raw" / "accuracy", run / "raw" / "accuracy.attempt-1"
    ),
    "the record says more": record(lambda d: {**d, "parameters": 7}),
    "the system description says more": system(host_processor_vcpu_count="2"),
    "a compliance test lies in the scenario": _with_test01,
    "the submitter's letter case differs": lambda run: system(submitter=base(run).name.upper())(
        run
    ),
    "a framework does not count graph breaks": compiled(3, 3, breaks=None),
    "every forward pass ran compiled": compiled(2, 2),
    "XLA compiled the measured call": executed("xla", *[seen(1, xla_programs=1)] * 2),
    "what says graph has no XLA program": executed("graph", *[seen(1, xla_programs=0)] * 2),
    "an eager SUT counts XLA's programs and has none": executed(
        "eager", *[seen(0, xla_programs=0)] * 2
    ),
    "no reference could be made": _no_reference,
}


@pytest.mark.parametrize("do", HARMLESS.values(), ids=HARMLESS)
def test_the_audit_does_not_mind_that(run: Path, do: Callable[[Path], Any]) -> None:
    do(run)
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
