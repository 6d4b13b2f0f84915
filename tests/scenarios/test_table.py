"""The table of scenarios is all that the worker, the plan, the figures and the flags know of
one.
"""

from pathlib import Path

import pytest

from compliance import logs, rules
from formats.result import Metric, Result, Status
from harness.commands import run as run_command
from harness.errors import UsageError
from harness.execution.process import read_outcome
from results import figures, summary
from scenarios import table
from tests.support import mock_job
from tests.support.cells import request
from tests.support.synthetic_runs import cell
from tests.support.tree import run_jobs


def test_every_file_beside_the_table_is_an_entry_of_it_and_has_what_a_scenario_needs():
    folder = Path(table.__file__).parent
    files = {f"scenarios.{path.stem}" for path in folder.glob("*.py")}
    by_loadgen = {name: entry for name, entry in table.SCENARIOS.items() if entry.loadgen}
    modules = {entry.module for entry in by_loadgen.values()}
    assert modules == files - {"scenarios.__init__", "scenarios.table"}
    for name, entry in by_loadgen.items():
        module = entry.load()
        assert name == entry.name
        assert all(hasattr(module, function) for function in ("user_conf", "least", "callbacks"))


def test_the_table_and_the_rounds_rules_agree_on_what_is_better():
    scenarios = rules.load().scenarios
    for name, entry in table.SCENARIOS.items():
        if not entry.loadgen:
            continue
        assert entry.figure.higher_is_better == scenarios[name].metric.higher_is_better
        # A rate that was found is the figure of Server. The rate of answers is next to it.
        assert entry.serves or scenarios[name].metric.key in entry.figure.estimates


def test_multi_stream_is_measured_by_the_real_loadgen(tmp_path):
    job = mock_job.make(tmp_path, scenario="MultiStream", batch=8)
    run_jobs([job])
    outcome = read_outcome(job.log_dir)
    assert outcome.answered["samples"] % 8 == 0
    detail = logs.read_detail(job.log_dir / "mlperf_log_detail.txt")
    assert detail.get("effective_scenario") == "MultiStream"
    metric = figures.metric_of(detail, table.SCENARIOS["MultiStream"].figure)
    assert (metric.name, metric.unit, metric.estimate) == ("latency_p99", "ms", "percentile")
    assert not metric.higher_is_better
    assert 1.0 <= metric.value < 1000  # each query takes the mock's millisecond at least


def test_the_flags_and_the_plan_learn_of_it_from_the_table(tmp_path):
    help_text = " ".join(run_command.run_parser().format_help().split())
    assert "MultiStream (latency of eight samples)" in help_text
    asked = request(tmp_path, scenario="MultiStream", batch_size=8)
    assert (asked.options.scenario, asked.batch_size) == ("MultiStream", 8)
    assert asked.limits(64).min_query_count == 1
    assert request(tmp_path, scenario="MultiStream").batch_size == 8
    with pytest.raises(UsageError, match="a query of MultiStream has 8 samples"):
        request(tmp_path, scenario="MultiStream", batch_size=4)
    words = (
        "SingleStream issues one sample a query; leave --batch-size out, or use Offline or"
        " MultiStream or Server or Interactive"
    )
    with pytest.raises(UsageError, match=words):
        request(tmp_path, scenario="SingleStream", batch_size=8)


@pytest.mark.parametrize(
    ("scenario", "end"),
    [
        ("MultiStream", "drawn from 64 inputs of 128 tokens"),
        ("Offline", "2.5 passes over 64 inputs of 128 tokens"),
    ],
)
def test_what_a_result_prints_follows_the_table(scenario, end):
    result = Result(
        cell=cell("mock", scenario=scenario, batch_size=8),
        mode="quick",
        round="v6.1",
        directory="",
        status=Status.OK,
        measured={"samples": 160, "batches": 20, "padding_fraction": 0, "passes": 2.5},
        metric=Metric("m", 1.0, "ms", False),
    )
    printed = summary.measured(result)
    assert printed == f"160 samples in 20 batches of 8, no padding; {end}"
