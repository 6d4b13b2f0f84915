"""`--benchmark`: the sentences before a run, and the verdict after it."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from compliance import audit, rules
from formats.checks import Verdict
from formats.writing import write_json
from harness.errors import UsageError
from harness.result import HARNESS
from results import summary
from tests.support import squad_files
from tests.support.cells import measure, request
from tests.support.commands import call
from tests.support.files import read_json, update_json
from tests.support.rounds import use_benchmark

FEATURES = 84


@pytest.fixture
def files(tmp_path):
    """The file of questions, and the folder of the model."""
    return squad_files.write(tmp_path)


def asked(tmp_path, files, **changes):
    data, weights = files
    flags = {"model": None, "benchmark": "bert-99", "scenario": "Offline"}
    return request(tmp_path / "runs", **flags | {"weights": weights, "dataset": data} | changes)


def test_the_plan_says_what_an_eligible_result_lacks(tmp_path, files):
    planned = asked(tmp_path, files)
    found = planned.official_run
    assert (planned.benchmark, planned.official) == ("bert-99", "bert-99")
    assert found.target == "F1 at least 89.96526"
    assert found.scenarios == "SingleStream and Offline"
    assert found.division.startswith("open, because the model is not that of the closed division (")
    assert "num_hidden_layers 2, not 24" in found.division
    assert found.not_closed == (*found.other_model, *found.lacks[:3])
    size, data, vocabulary, mode, submitter, system = found.lacks
    assert size == f"{FEATURES} of 10,833 samples"
    assert "is not the published dev-v1.1.json (md5 3e85deb501d4e538b6bc56f786231552)" in data
    assert "is not the published vocab.txt" in vocabulary
    assert (mode, submitter) == ("mode quick, not submission", "no --submitter")
    assert "cooling" in system
    assert "accelerator" not in system
    assert planned.cell().seq_len is None
    assert f"40 questions, which are {FEATURES} features of 384 tokens" in " ".join(planned.reasons)


def test_what_is_given_is_not_lacking(tmp_path, files):
    described = dict.fromkeys(("cooling", "host_networking"), "none")
    write_json(tmp_path / "system.json", described)
    given = {"mode": "submission", "submitter": "me", "system": tmp_path / "system.json"}
    found = asked(tmp_path, files, duration=None, **given)
    assert len(found.official_run.lacks) == 4
    assert "cooling" not in found.official_run.lacks[-1]
    assert found.system == described


def test_a_setting_that_leaves_out_a_scenario_of_the_system_is_lacking(tmp_path, files):
    for changes in ({"tuned": "batch-x2"}, {"replicas": "2"}):
        found = asked(tmp_path, files, batch_size=4, **changes)
        what = "batch-x2" if "tuned" in changes else "--replicas"
        assert found.official_run.lacks[-1] == (
            f"SingleStream of the same system, which cannot run with {what}"
        )


def test_a_right_model_and_right_files_may_enter_the_closed_division(tmp_path, files, monkeypatch):
    _with(monkeypatch, as_if_closed=True)
    found = asked(tmp_path, files).official_run
    assert found.division == "closed, if the weights are those of the reference; otherwise open"
    assert found.not_closed == ()
    assert len(found.lacks) == 3


def test_the_dry_run_shows_it(files, capsys):
    data, weights = files
    words = ["--sut", "mock", "--benchmark", "bert-99.9", "--scenario", "SingleStream", "--dry-run"]
    words += ["--weights", str(weights), "--dataset", str(data), "--json"]
    code, out, _ = call(words, capsys)
    assert code == 0
    plan = json.loads(out)
    assert plan["benchmark"] == "bert-99.9"
    assert plan["accuracy"] == "F1 at least 90.783126"
    assert plan["eligibility"].startswith(f"not eligible: {FEATURES} of 10,833 samples; ")
    assert plan["samples"] == FEATURES


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dataset": None}, "needs --weights DIR, .* with vocab.txt, and --dataset FILE, which is"),
        ({"scenario": "Server"}, "bert-99 has SingleStream, Offline in v6.1"),
        ({"seq_len": 128}, "bert-99 has 384: leave it out"),
    ],
)
def test_flags_that_contradict_the_benchmark_are_refused(tmp_path, files, changes, sentence):
    with pytest.raises(UsageError, match=sentence):
        asked(tmp_path, files, **changes)


def test_another_model_is_refused(tmp_path, files):
    update_json(files[1] / "config.json", architectures=["BertForSequenceClassification"])
    with pytest.raises(UsageError, match=r"needs a model that answers questions .* is bert"):
        asked(tmp_path, files)


def test_a_file_of_another_version_is_refused(tmp_path, files):
    update_json(files[0], version="v2.0")
    with pytest.raises(UsageError, match="is of version 2.0 of SQuAD, and the benchmark uses 1.1"):
        asked(tmp_path, files)


@pytest.mark.parametrize("more", [-99, 1])
def test_a_vocabulary_of_another_model_is_refused(tmp_path, files, more):
    file = files[1] / "config.json"
    size = read_json(file)["vocab_size"]
    update_json(file, vocab_size=size - more)
    words = f"has {size} tokens and config.json says vocab_size {size - more}"
    with pytest.raises(UsageError, match=words):
        asked(tmp_path, files)


def test_a_vocabulary_with_capitals_is_refused(tmp_path, files):
    _, weights = files
    write_json(weights / "tokenizer_config.json", {"do_lower_case": False})
    with pytest.raises(UsageError, match="this one keeps capitals"):
        asked(tmp_path, files)


def test_the_closed_divisions_model_needs_its_own_vocabulary(tmp_path, files, monkeypatch):
    """As if the small model were that of the closed division."""
    _with(monkeypatch, closed_model={"model_type": "bert", "num_hidden_layers": 2})
    with pytest.raises(UsageError, match=r"vocab.txt has the md5 .* give the vocab.txt of the mo"):
        asked(tmp_path, files)


def test_the_verdict_is_that_of_the_official_metric(tmp_path, files, monkeypatch):
    _with(monkeypatch, as_if_closed=True)
    found = measure(asked(tmp_path, files))
    assert (found.status, found.cause) == ("invalid", "accuracy")
    assert "at least 89.96526 is required" in found.reason
    # The answers are those of the reference.
    assert found.accuracy.passed
    assert not found.official.passed
    rows = dict(summary.rows(found))
    assert rows["accuracy"].startswith("FAIL: F1 ")
    assert rows["reference"].startswith("pass: ")
    (text,) = Path(found.directory).rglob("open/**/accuracy.txt")
    metric, reference, *_ = text.read_text().split("\n")
    assert metric.startswith('{"exact_match": ')
    assert json.loads(reference)["reference"]["passed"]


def test_a_run_for_the_open_division_has_no_target_and_says_why_it_is_not_eligible(tmp_path, files):
    found = measure(asked(tmp_path, files))
    assert (found.status, found.reason) == ("ok", "")
    assert any(note.startswith("not eligible: 84 of 10,833 samples") for note in found.warnings)
    shown = dict(summary.rows(found))["accuracy"]
    assert shown.startswith("F1 ")
    assert shown.endswith("in the closed division, and the model or the data are others)")
    directory = Path(found.directory)
    (score,) = [c for c in audit.audit(directory).checks if c.id == "accuracy-score"]
    assert "only for the open division, which has no target: F1 is " in score.detail
    checks = audit.audit(directory).checks
    assert [c.line() for c in checks if c.verdict is Verdict.FAIL and c.level == "quick"] == []
    (eligible,) = [c for c in checks if c.id == "eligibility"]
    assert "its dev-v1.1.json is not the published one" in eligible.detail
    assert "own metric" not in eligible.detail
    # A score that nobody computed fails.
    (text,) = directory.rglob("open/**/accuracy.txt")
    text.write_text(text.read_text().replace('"f1": ', '"f1": 9'))
    text.write_text(text.read_text().replace('"passed": true', '"passed": false'))
    checks = audit.audit(directory, harness=HARNESS).checks
    failed = {c.id: c for c in checks if c.verdict is Verdict.FAIL}
    assert "the whole log scores" in failed["accuracy-score"].detail
    assert '"passed": true' in failed["accuracy-score"].detail
    assert any("official.line" in str(fault) for fault in failed["derived-files"].faults)
    assert "accuracy.passed" in failed["derived-files"].detail


def _with(monkeypatch, as_if_closed=False, **workload):
    """Rules with other values of the workload, or as if the small files were the right ones."""
    changed, row = replace(rules.load().workloads["squad"], **workload), {}
    if as_if_closed:
        changed, row = squad_files.as_if_closed(changed), {"dataset_size": FEATURES}
    use_benchmark(monkeypatch, "bert-99", "squad", changed, **row)
