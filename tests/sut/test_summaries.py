"""llama3.1-8b-edge on PyTorch: eight articles, a seeded Llama, and the tokens that LoadGen counts."""

from pathlib import Path

import pytest

from compliance import audit, logs
from formats.checks import Verdict
from sut.registry import SUTS
from tests.support import article_files
from tests.support.cells import measure, request

SUT, ARTICLES = "native-torch-eager", 8


@pytest.mark.long
def test_a_run_has_the_metric_and_the_token_latencies(tmp_path, interpreter):
    interpreter(SUTS[SUT].environment)
    data, weights = article_files.write(tmp_path, ARTICLES)
    cell = request(
        tmp_path / "runs",
        sut=SUT,
        model=None,
        benchmark="llama3.1-8b-edge",
        scenario="Offline",
        weights=weights,
        dataset=data,
        duration=2.0,
    )
    found = measure(cell)
    assert (found.status, found.reason) == ("ok", "")
    assert found.official.line.startswith("{'rouge1': '")
    assert found.accuracy.passed
    directory = Path(found.directory)
    detail = logs.read_detail(directory / "raw" / "performance" / "mlperf_log_detail.txt")
    assert detail.get("requested_use_token_latencies") is True
    assert detail.number("result_tokens_per_second") > 0
    log = logs.read_logged(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json")
    assert len(log.rows) == ARTICLES
    for row in log.rows:
        assert 4 * row.token_count == len(row.data) <= 4 * 128
    checks = audit.audit(directory).checks_for("quick")
    assert [c.line() for c in checks if c.verdict is Verdict.FAIL] == []
