"""`compliance` on the mock: what it runs, what it keeps, what it refuses, and that `--mode
submission` runs the same by itself.
"""

import dataclasses
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from compliance import rules
from compliance import subject as tree
from compliance.audit_tests import compliance_tests
from compliance.folders import result_folders
from compliance.logs import files
from formats import schemas
from formats.checks import Verdict
from formats.job import read_job
from formats.outcome import WorkerOutcome
from harness import cli, result
from harness.commands import compliance as comply
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import loadgen_run
from harness.execution.environments import ROOT
from harness.execution.process import Worker
from harness.inputs import user_weights
from harness.measurement import run
from harness.request import plan
from harness.submission import inference
from sut import registry
from tests.conftest import CACHE
from tests.support.cells import Reporter, request
from tests.support.rounds import short_round
from tests.support.weights_folders import made

__all__ = ["made", "short_round"]


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory):
    from harness.execution import environments

    environments.ensure(CACHE, "core", "cpu", environments.say_on_stderr)
    found = {}

    def directory(model):
        if model not in found:
            asked = request(
                tmp_path_factory.mktemp(model),
                model=model,
                duration=0.5,
                options={"latency-ms": 2.0},
            )
            found[model] = Path(run.run(asked, Reporter(), 0).directory)
        return found[model]

    return directory


@pytest.fixture
def measured(measured_once):
    """A finished quick run, as it was before any compliance test: a directory is bound to its
    place, so it is cleaned, not copied.
    """
    directory = measured_once("bert")
    kept = {
        name: (directory / name).read_bytes()
        for name in ("record.json", "result.json", "raw/performance/job.json")
    }
    yield directory
    for name, content in kept.items():
        (directory / name).write_bytes(content)
    for folder in (directory / "raw").glob("TEST*"):
        shutil.rmtree(folder)
    record = files.record(directory / "record.json")
    inference.write(directory, record, rules.load(), "unofficial", ())


@pytest.fixture(scope="module")
def complied_once(tmp_path_factory):
    """A finished quick run, with the compliance tests that apply to it, and their checks."""
    asked = request(
        tmp_path_factory.mktemp("complied"), model="bert", duration=0.5, options={"latency-ms": 2.0}
    )
    directory = Path(run.run(asked, Reporter(), 0).directory)
    return directory, run_comply(directory)


@pytest.fixture
def complied(complied_once):
    """The directory of `complied_once`, as it was before the test."""
    directory, _ = complied_once
    before = (directory / "result.json").read_bytes()
    yield directory
    (directory / "result.json").write_bytes(before)


def run_comply(directory, *names, again=False, reporter=None):
    return {
        check.key: check
        for check in comply.comply(directory, names, CACHE, again, reporter or Reporter())
    }


def test_every_test_that_applies_is_run_with_the_same_user_conf_and_its_own_audit_config(
    complied_once,
):
    measured, checks = complied_once
    performance = read_job(measured / "raw/performance/job.json")
    for name in ("TEST01", "TEST04"):
        assert (measured / f"raw/{name}/user.conf").read_bytes() == (
            measured / "raw/performance/user.conf"
        ).read_bytes()
        job = read_job(measured / f"raw/{name}/job.json")
        assert (
            job.audit_config == measured / f"raw/{name}/audit.config" and job.audit_config.exists()
        )
        assert job.workload == performance.workload and job.inputs == performance.inputs
        assert (
            checks[f"{name.lower()}-settings"].verdict
            is checks[f"{name.lower()}-run"].verdict
            is Verdict.PASS
        )
    assert checks["test06"].verdict is Verdict.NA and not (measured / "raw/TEST06").exists()
    assert checks["test01-answers"].verdict is Verdict.PASS
    assert "nothing about validity" in checks["quick-run"].detail


def test_the_tree_gets_the_folders_the_official_scripts_leave(complied):
    (scenario,) = complied.glob("open/*/results/*/*/*")
    for name in ("TEST01", "TEST04"):
        there = {
            path.relative_to(scenario / name).as_posix()
            for path in (scenario / name).rglob("*")
            if path.is_file()
        }
        assert there == set(rules.load().compliance_tests[name].files)
    assert (scenario / "TEST01/verify_accuracy.txt").read_text().endswith("TEST PASS\n")


def test_a_generating_model_is_asked_about_its_tokens_too(measured_once):
    checks = run_comply(measured_once("mistral"))
    # What audit.config asks for.
    assert (
        json.loads((measured_once("mistral") / "raw/TEST06/plan.json").read_text())["samples"]
        == 100
    )
    assert checks["test06-tokens"].verdict is checks["output-length"].verdict is Verdict.PASS
    assert {checks[f"test06-{part}"].verdict for part in ("first-token", "token-count", "eos")} == {
        Verdict.NA
    }


def test_what_was_run_is_kept_and_again_runs_it_anew(measured):
    run_comply(measured, "TEST04")
    assert not (measured / "raw/TEST01").exists()
    before = (measured / "raw/TEST04/mlperf_log_detail.txt").read_bytes()
    reporter = Reporter()
    run_comply(measured, reporter=reporter)
    assert (
        "TEST04: kept from an earlier attempt" in reporter.said
        and (measured / "raw/TEST01").exists()
    )
    assert (measured / "raw/TEST04/mlperf_log_detail.txt").read_bytes() == before
    run_comply(measured, "TEST04", again=True)
    assert (measured / "raw/TEST04/mlperf_log_detail.txt").read_bytes() != before
    assert (measured / "raw/TEST04.attempt-1/mlperf_log_detail.txt").read_bytes() == before


def test_the_result_is_derived_again_and_its_figures_stay(complied):
    before = json.loads((complied / "result.json").read_text())
    (complied / "result.json").write_text(json.dumps({**before, "status": "error", "metrics": {}}))
    run_comply(complied, "TEST04")
    after = json.loads((complied / "result.json").read_text())
    assert after == json.loads(json.dumps(dataclasses.asdict(result.derive(complied))))
    assert (after["status"], after["metric"], after["metrics"]) == (
        before["status"],
        before["metric"],
        before["metrics"],
    )


def test_an_interrupt_leaves_the_earlier_result(complied, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = (complied / "result.json").read_bytes()
    monkeypatch.setattr(comply.result, "derive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_comply(complied, "TEST04")
    assert (complied / "result.json").read_bytes() == before


def test_a_worker_that_fails_is_a_status_with_its_reason(measured, monkeypatch):
    def killed(worker, job, watch):
        (job.log_dir / "worker.log").touch()
        return WorkerOutcome("oom", "the kernel killed the worker")

    monkeypatch.setattr(Worker, "run", killed)
    checks = run_comply(measured, "TEST01", "TEST04")
    assert [checks[f"{name.lower()}-run"].line() for name in ("TEST01", "TEST04")] == [
        f"[FAIL] {name} run: it ended with status oom: the kernel killed the worker"
        for name in ("TEST01", "TEST04")
    ]
    assert not list(measured.glob("open/*/results/*/*/*/TEST*"))
    # The quick run itself.
    assert json.loads((measured / "result.json").read_text())["status"] == "ok"
    monkeypatch.undo()
    assert run_comply(measured, "TEST04")["test04-run"].verdict is Verdict.PASS


def changed(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def made_with(directory, **values):
    path = directory / "raw/performance/job.json"
    changed(path, made_with={**json.loads(path.read_text())["made_with"], **values})


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda d: made_with(d, source="0" * 64), "sut/, scenarios/ or formats/"),
        (lambda d: made_with(d, environment="0" * 64), "the packages of its environment"),
        (
            lambda d: made_with(d, variables='{"OMP_SCHEDULE": "static"}', inputs="0" * 64),
            "environment variables, the inputs",
        ),
    ],
)
def test_what_is_no_longer_as_it_was_is_refused_in_one_sentence(measured, how, words):
    how(measured)
    with pytest.raises(EnvironmentFailure) as refused:
        run_comply(measured)
    assert (
        f"{words} changed since it was measured" in str(refused.value)
        and "measure it again: ./run.sh" in str(refused.value)
        and "\n" not in str(refused.value)
    )
    assert not (measured / "raw/TEST01").exists()


def test_an_environment_that_is_not_in_the_cache_is_refused_with_the_flag(measured, tmp_path):
    with pytest.raises(
        EnvironmentFailure, match=r"the environment core is not in .*: give its --cache"
    ):
        comply.comply(measured, (), tmp_path, False, Reporter())


@pytest.fixture
def read_weights(monkeypatch):
    monkeypatch.setitem(
        registry.SUTS, "mock", dataclasses.replace(registry.SUTS["mock"], reads_weights=True)
    )


def measured_on(tmp_path, weights):
    return Path(
        run.run(request(tmp_path / "runs", weights=weights, duration=0.5), Reporter(), 0).directory
    )


@pytest.mark.parametrize("source", [pytest.param("seeded", marks=pytest.mark.long), "the user's"])
def test_the_weights_that_were_measured_are_known_again(read_weights, made, tmp_path, source):
    directory = measured_on(tmp_path, made("bert") if source == "the user's" else None)
    assert run_comply(directory, "TEST04")["test04-run"].verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.write_bytes(f.read_bytes()[:-4] + bytes(4)), "the weights changed since"),
        (Path.unlink, "model.safetensors"),
    ],
)
def test_other_weights_are_refused(read_weights, made, tmp_path, change, words):
    folder = made("bert")
    directory = measured_on(tmp_path, folder)
    change(folder / "model.safetensors")
    with pytest.raises(EnvironmentFailure, match=words):
        run_comply(directory)


def test_what_is_no_finished_run_is_refused(measured, tmp_path):
    with pytest.raises(UsageError, match="record.json is missing: give a run directory"):
        run_comply(tmp_path)
    moved = Path(shutil.copytree(measured, tmp_path / "moved"))
    with pytest.raises(UsageError, match="was measured in .*: put it back there"):
        run_comply(moved)
    (moved / "raw/accuracy/outcome.json").unlink()
    with pytest.raises(UsageError, match="its accuracy test is not finished: go on with ./run.sh"):
        run_comply(moved)


def test_the_command_writes_one_document_of_checks(measured, capsys):
    code = cli.main(
        ["compliance", str(measured), "--test", "test04", "--cache", str(CACHE), "--json"]
    )
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schemas.named("checks"))
    outcomes = {check["id"]: check["verdict"] for check in document["checks"]}
    assert outcomes["test04-settings"] == "PASS" and outcomes["test01"] == "N/A"
    assert code == ("FAIL" in outcomes.values())


def test_an_unknown_test_is_a_usage_error(measured, capsys):
    assert cli.main(["compliance", str(measured), "--test", "TEST05"]) == 2
    assert "TEST01, TEST04, TEST06" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tokenizer", "architecture", "told", "ends"),
    [("its own", "causal_lm", 2, [2]), ("its own", "causal_lm", [1, 107], [1, 107]), ("its own", "causal_lm", None, []),
     (None, "causal_lm", 2, []), ("its own", "bert", 2, [])],
)  # fmt: skip
def test_end_tokens_are_recorded_where_the_weights_bring_their_tokenizer(
    tmp_path, tokenizer, architecture, told, ends
):
    model, asked = (
        SimpleNamespace(name="a model", architecture=architecture),
        SimpleNamespace(eos=None, dataset=tmp_path / "prompts", scenario="Offline", trains=False),
    )
    known = user_weights._end_tokens(tmp_path, {"eos_token_id": told, "vocab_size": 300})
    weights = SimpleNamespace(tokenizer=tokenizer, end_tokens=known, other_end="")
    assert list(plan._end_tokens(asked, model, weights)[0]) == ends
    assert plan._end_tokens(asked, model, None)[0] == ()


def submit(out, **changes):
    return request(out, mode="submission", duration=None, options={"latency-ms": 5.0}, **changes)


@pytest.mark.parametrize(
    "scenario", ["Offline", pytest.param("SingleStream", marks=pytest.mark.long)]
)
def test_a_submission_runs_them_after_the_accuracy_test_and_says_how_long(
    tmp_path, short_round, measured_once, scenario
):
    """With equal issue, which the round asks of language models and TEST06 turns off."""
    reporter = Reporter()
    found = run.run(submit(tmp_path, model="mistral", scenario=scenario), reporter, 0)
    assert (found.status, found.reason) == ("ok", "")
    assert any(
        text.startswith("after the accuracy test: TEST01, TEST04, TEST06, about")
        for text in reporter.said
    )
    (folder,) = Path(found.directory).glob("open/*/results/*/*/*")
    assert sorted(path.name for path in folder.glob("TEST*")) == ["TEST01", "TEST04", "TEST06"]
    (place,) = result_folders(Path(found.directory), rules.load())
    assert [
        c.line()
        for c in compliance_tests.checks(tree.read(place, rules.load()))
        if c.verdict is Verdict.FAIL
    ] == []


@pytest.mark.long
def test_a_submission_whose_compliance_test_dies_has_its_status_and_goes_on_from_there(
    tmp_path, short_round, measured_once, monkeypatch
):
    real = Worker.run

    def dying(worker, job, watch):
        if job.test == "TEST04":
            return WorkerOutcome("oom", "no memory left")
        return real(worker, job, watch)

    monkeypatch.setattr(Worker, "run", dying)
    found = run.run(submit(tmp_path), Reporter(), 0)
    assert (found.status, found.reason) == ("oom", "no memory left")
    monkeypatch.setattr(Worker, "run", real)
    reporter = Reporter()
    again = run.run(submit(tmp_path), reporter, 0)
    assert (again.status, again.directory) == ("ok", found.directory)
    assert [text for text in reporter.said if "kept" in text] == [
        f"{name}: kept from an earlier attempt" for name in ("performance", "accuracy", "TEST01")
    ]
