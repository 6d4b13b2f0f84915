"""Server, Interactive and MultiStream of the mock, by the real LoadGen."""

import json
from pathlib import Path

import pytest

from compliance import audit
from harness.errors import UsageError
from harness.request import plan
from results import disturbance
from tests.support import cells, mutations

BY_MACHINE = (*disturbance.BY_CLOCK, "overload")
"""Causes of an invalid run that a busy machine may explain."""


def measured(tmp_path, capsys, *words):
    from harness import cli

    command = ("--sut", "mock", "--model", "mistral", "--duration", "1", "--json")
    cli.main([*command, *words, "--out", str(tmp_path)])
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    return cell


def measured_without_disturbance(tmp_path, capsys, *words):
    """Measure again, at most twice, while a busy machine may explain that the run is invalid."""
    for attempt in range(3):
        cell = measured(tmp_path / str(attempt), capsys, *words)
        if cell["cause"] not in BY_MACHINE:
            break
    return cell


def test_server_finds_a_rate_and_reports_queue_and_limits(tmp_path, capsys):
    options = ("--max-latency-ms", "500.25", "--batch-size", "2", "--sut-option", "latency-ms=4")
    cell = measured_without_disturbance(tmp_path, capsys, "--scenario", "Server", *options)
    assert (cell["status"], cell["loadgen"]) == ("ok", "VALID")
    assert cell["metric"]["unit"] == "requests/s"
    metrics = cell["metrics"]
    assert cell["metric"]["value"] <= metrics["capacity_per_second"] * 1.26
    assert 0 < metrics["goodput_per_second"] <= metrics["achieved_per_second"]
    assert 1 <= metrics["requests_a_batch"] <= 2
    assert cell["serving"]["search"][0]["passed"]
    assert cell["serving"]["queue"]["most_waiting"] >= 0
    run = Path(cell["directory"])
    assert "record" not in failed(run)
    mutations.record("cell", max_latency_ms=500.0)(run)
    text = "requested_server_target_latency_ns is 500250000; the cell has 500000000"
    assert text in failed(run)["record"]


def failed(run):
    """The texts of the failed checks of a run directory, by id."""
    return {check.id: check.detail for check in audit.audit(run).checks if check.faults}


def test_an_overload_is_no_result_even_if_loadgen_calls_it_valid(tmp_path, capsys):
    options = ("--rate", "2000", "--max-latency-ms", "60000", "--sut-option", "latency-ms=4")
    cell = measured(tmp_path, capsys, "--scenario", "Server", *options)
    assert (cell["status"], cell["cause"], cell["loadgen"]) == ("invalid", "overload", "VALID")
    assert "2000" in cell["reason"].replace(",", "") or "requests/s arrived" in cell["reason"]


@pytest.mark.parametrize("scenario", ["Interactive", "SingleStream", "Offline"])
def test_token_latencies_are_in_the_result(scenario, tmp_path, capsys):
    options = ("--stream", "--sut-option", "latency-ms=4")
    cell = measured_without_disturbance(tmp_path, capsys, "--scenario", scenario, *options)
    assert cell["status"] == "ok"
    metrics = cell["metrics"]
    assert 0 < metrics["ttft_p50_ms"] <= metrics["ttft_p99_ms"]
    assert 0 < metrics["tpot_p50_ms"] <= metrics["tpot_p99_ms"]
    assert cell["cell"]["stream"] is True


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"scenario": "Offline", "rate": 3.0}, "--rate 3: is for --scenario Server"),
        ({"scenario": "Server", "rate": -1.0}, "--rate -1: give a finite number above 0"),
        ({"scenario": "Server", "rate": float("nan")}, "--rate nan: give a finite number above 0"),
        (
            {"scenario": "Server", "max_wait_ms": -1.0},
            "-wait-ms -1: give a finite number from 0 on",
        ),
        ({"scenario": "Server", "stream": "off", "max_ttft_ms": 5.0}, "need streamed answers"),
        (
            {"scenario": "Server", "max_latency_ms": 5.0, "max_ttft_ms": 5.0},
            "LoadGen judges a streamed answer by its first token",
        ),
        ({"scenario": "Server", "model": "sam"}, "give --max-latency-ms"),
        (
            {"scenario": "Server", "max_latency_ms": 0.9, "mode": "valid", "duration": None},
            "--max-latency-ms 0.9: in mode valid user.conf has to state the limit, and LoadGen cuts"
            " it to whole milliseconds: give 1, or --mode quick",
        ),
        (
            {"scenario": "Server", "max_tpot_ms": 12.5, "mode": "submission", "duration": None},
            "--max-tpot-ms 12.5: in mode submission",
        ),
        ({"scenario": "Server", "max_ttft_ms": 1e-7}, "1e-07: LoadGen counts whole nanoseconds"),
        ({"scenario": "Server", "max_latency_ms": 1e10}, r"1e\+10: give at most 1000000000"),
        ({"duration": 2.0001}, "--duration 2.0001: LoadGen counts whole milliseconds"),
        ({"scenario": "Offline", "model": "bert", "stream": "on"}, "--stream: is for models that"),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_a_sentence(flags, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        cells.request(tmp_path, **{"sut": "mock", "model": "mistral", **flags})


def test_the_limits_of_the_round_are_the_default(tmp_path):
    request = cells.request(tmp_path, sut="mock", model="mistral", scenario="Interactive")
    assert plan.SCENARIOS["Interactive"].serves
    assert request.stream
    assert (request.serving.max_ttft_ms, request.serving.max_tpot_ms) == (500, 30)
    assert any("the limits of llama3.1-8b in the round" in reason for reason in request.reasons)
    whole = cells.request(tmp_path, sut="mock", model="mistral", scenario="Server")
    assert (whole.stream, whole.serving.max_latency_ms) == (False, 20_000)
    assert whole.batch_sizes == (1, 2, 4)
