"""A cell in this process: resuming, races and what a full or broken run directory does."""

import gzip
import hashlib
import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from formats import reading
from formats.outcome import Disturbance
from formats.record import Record
from formats.result import Status
from formats.writing import write_json
from harness import cli, locks, result
from harness.errors import UsageError
from harness.execution import loadgen_run, rundir
from harness.execution.environments import EnvironmentFailure
from harness.inputs import limits, models, prompt_files
from harness.measurement import run
from harness.request import plan
from harness.submission import inference
from results import disturbance, summary
from scenarios.worker.system import control_groups
from sut import variables
from sut.registry import SUTS
from tests.conftest import CACHE
from tests.support.cells import Killer, Reporter, measure, request
from tests.support.commands import call
from tests.support.files import edit_json, read_json, update_json, write_rows
from tests.support.synthetic_runs import CALM


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that no test may change."""
    return measure(request(tmp_path_factory.mktemp("runs")))


@pytest.fixture
def copy(finished, tmp_path):
    """The directory of the same run, to be changed."""
    return Path(shutil.copytree(finished.directory, tmp_path / "quick-1"))


def test_the_reference_is_made_before_the_time_of_the_cell_begins(tmp_path, monkeypatch):
    order = []
    ensure = run.reference.ensure

    def seen(*arguments):
        order.append("reference")
        return ensure(*arguments)

    class Limit:
        def __enter__(self):
            order.append("measuring")

        def __exit__(self, *_):
            order.append("over")

    monkeypatch.setattr(run.reference, "ensure", seen)
    monkeypatch.setattr(run, "_measure", lambda *_: order.append("tests"))
    run.run(request(tmp_path), Reporter(), 0, Limit())
    assert order == ["reference", "measuring", "tests", "over"]


def test_a_second_task_is_measured_by_its_own_architecture(tmp_path):
    found = measure(request(tmp_path, model="gpt2", task="generate", scenario="Offline"))
    assert (found.status, found.cell.task, found.cell.eos) == ("ok", "generate", "ignore")
    assert found.measured["tokens"] == 45 * found.measured["samples"]


def test_a_users_prompts_are_read_once_and_their_notes_are_in_plan_and_result(
    tmp_path, monkeypatch, capsys
):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\n")
    readings = []
    monkeypatch.setattr(
        prompt_files, "_text", lambda path: readings.append(path) or prompts.read_text()
    )
    asked = request(tmp_path, model="mistral", dataset=prompts)
    note = (
        "prompts.txt has 2 lines and no empty line, so each line is a prompt; in a .jsonl file"
        " a prompt may have several lines"
    )
    assert asked.count == 2 and note in asked.reasons
    found = measure(asked)
    assert (found.status, readings) == ("ok", [prompts])
    assert found.warnings.count(note) == 1
    words = ["--sut", "mock", "--model", "mistral", "--scenario", "Offline", "--dry-run"]
    assert cli.main([*words, "--dataset", str(prompts), "--cache", str(CACHE)]) == 0
    assert note in " ".join(capsys.readouterr().out.split())


def test_a_sut_without_the_models_file_is_unsupported_before_anything_is_made(
    tmp_path, monkeypatch
):
    elsewhere = replace(SUTS["mock"], module="sut.native_torch.no_{architecture}")
    monkeypatch.setitem(SUTS, "mock", elsewhere)
    found = measure(request(tmp_path))
    assert (found.status, found.reason) == (
        "unsupported",
        "nothing is written for the architecture bert: there is no sut/native_torch/no_bert.py",
    )
    assert not list(tmp_path.iterdir())


def have_accelerators(monkeypatch, *memories):
    """This machine has an accelerator for each number of bytes."""
    found = [
        plan.machine.Accelerator(name="A", memory_bytes=int(each), driver="1") for each in memories
    ]
    monkeypatch.setattr(plan.machine, "accelerators", lambda: found)


def test_an_accelerator_without_a_lock_is_left_to_python(tmp_path, monkeypatch):
    have_accelerators(monkeypatch, 80e9)
    monkeypatch.setattr(plan, "LOCKS", tmp_path)
    asked = request(tmp_path, sut="keras3-jax", model="mistral")
    assert (asked.device, asked.size.name) == ("cpu", "tiny")
    assert any("no lock for cuda yet; --python PATH" in reason for reason in asked.reasons)
    assert request(tmp_path, sut="keras3-jax", model="mistral", python="python3").device == "cuda"


def test_the_variables_that_change_figures_are_recorded_and_no_others(monkeypatch):
    wanted = (
        "OMP_NUM_THREADS",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "TORCHDYNAMO_DISABLE",
        "ONEDNN_DEFAULT_FPMATH_MODE",
        "TF_ENABLE_ONEDNN_OPTS",
        "LD_PRELOAD",
    )
    for name in (*wanted, "TF_CLI_CONFIG_FILE", "HOME_OMP_"):
        monkeypatch.setenv(name, "1")
    assert set(variables.read_by_any(os.environ)) >= set(wanted)
    assert not {"TF_CLI_CONFIG_FILE", "HOME_OMP_"} & set(variables.read_by_any(os.environ))


@pytest.mark.parametrize("sut", [name for name, spec in SUTS.items() if "cuda" in spec.devices])
def test_an_accelerator_is_used_where_there_is_one(tmp_path, monkeypatch, sut):
    have_accelerators(monkeypatch, 80e9)
    asked = request(tmp_path, sut=sut, model="mistral")
    assert (asked.device, asked.size.name, asked.precision) == ("cuda", "full", "bfloat16")


def test_cuda_without_a_driver_is_refused_before_anything_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(plan.machine, "accelerators", list)
    with pytest.raises(UsageError, match="--device cuda: no NVIDIA driver answers"):
        request(tmp_path, sut="keras3-jax", device="cuda")


def test_after_ctrl_c_in_the_accuracy_test_the_performance_test_is_kept(tmp_path):
    # The accuracy test takes four seconds: long enough to be seen on a busy machine.
    asked = request(tmp_path, duration=1.5, options={"latency-ms": 60.0})
    with pytest.raises(KeyboardInterrupt):
        measure(asked, Reporter(stop="accuracy"))
    directory = next(tmp_path.rglob("quick-1"))
    assert not (directory / "result.json").exists()
    before = (directory / "raw/performance/mlperf_log_detail.txt").read_bytes()
    trace = read_json(directory / "record.json")["digests"]["trace"]
    reporter = Reporter()
    found = measure(asked, reporter)
    assert (found.status, found.reason, found.directory) == ("ok", "", str(directory))
    assert "performance: kept from an earlier attempt" in reporter.said
    assert (directory / "raw/performance/mlperf_log_detail.txt").read_bytes() == before
    assert read_json(directory / "record.json")["digests"]["trace"] == trace


def test_after_a_kill_in_the_accuracy_test_the_performance_test_is_kept(tmp_path):
    asked = request(tmp_path, duration=1.5, options={"latency-ms": 60.0})

    killed = measure(asked, Killer())
    assert killed.status == "error" and "SIGKILL" in killed.reason and killed.metric is not None
    reporter = Reporter()
    found = measure(asked, reporter)
    assert (found.status, found.directory) == ("ok", killed.directory)
    assert "performance: kept from an earlier attempt" in reporter.said


def test_a_cell_is_measured_by_one_process_at_a_time(tmp_path):
    found = measure(request(tmp_path))
    with (
        rundir.opened(tmp_path, found.cell, "quick"),
        pytest.raises(EnvironmentFailure, match="another process measures this cell"),
    ):
        measure(request(tmp_path))


def test_the_models_operations_stand_beside_those_of_a_large_product(finished, copy):
    assert "flops_per_second" not in finished.metrics  # the mock computes no model
    edit_json(
        copy / "raw/performance/outcome.json",
        lambda d: d["evidence_after"].update(matrix_flops=4e12),
    )

    def metrics(**changes):
        edit_json(copy / "record.json", lambda d: d["digests"].update(weights_source="seeded"))
        update_json(copy / "record.json", **{"least_flops": 1e6} | changes)
        found = result.derive(copy).metrics
        return {k: found[k] for k in ("flops_per_second", "matrix_share") if k in found}

    reached = 1e6 * finished.metrics["samples_per_second"]
    speed = {"flops_per_second": reached, "matrix_share": reached / 4e12}
    assert metrics() == pytest.approx(speed)
    assert metrics(architecture="stable_diffusion") == {} == metrics(architecture="a newer one")
    part = {"flops": {"matrix product": 2e6}, "weights": 1e6, "activations": 0, "passes": 1}
    counted = {"first": part}
    assert metrics(work=counted)["flops_per_second"] == pytest.approx(2 * reached)
    assert any("./run.sh doctor --limits" in text for text in result.derive(copy).warnings)
    slow = {"matrix_flops": reached, "read_bytes_per_second": 2 * reached}
    assert "matrix_share" not in metrics(work=counted, roof=slow)
    derived = result.derive(copy)
    assert derived.binds == ""
    lines = dict(summary.rows(derived))
    assert "%" not in lines["compute"]
    for beginning in ("no share of the matrix rate: ", "no share of the memory bandwidth: "):
        assert any(text.startswith(beginning) for text in derived.warnings)
    fast = {"matrix_flops": 8 * reached, "read_bytes_per_second": 8 * reached}
    metrics(work=counted, roof=fast)
    derived = result.derive(copy)
    assert derived.binds == "memory"
    assert dict(summary.rows(derived))["compute"].endswith("; memory binds")
    assert (
        summary.computing({"flops_per_second": 52.14e9, "matrix_share": 0.27})
        == "52.1 GFLOP/s at least, 27% of a large matrix product of this framework"
        " (193 GFLOP/s)"
    )
    assert [summary.flops(rate) for rate in (999.6e9, 1.234e15, 5e8)] == [
        "1,000 GFLOP/s",
        "1,234 TFLOP/s",
        "0.5 GFLOP/s",
    ]


def test_the_operators_of_an_eager_sut_are_told_for_a_forward_pass(copy):
    def sentence(graphs, **detail):
        after = {"graphs": graphs, "graph_breaks": None, "precision": "float32", "detail": detail}
        path = copy / "raw/performance/outcome.json"
        update_json(path, evidence_before=after, evidence_after=after)
        return result.derive(copy).evidence.sentence

    assert (
        sentence(0, operators_called=59_121, forward_passes=9)
        == "eager: no graph, Python calls 6,569 operators a forward pass; float32"
    )
    assert (
        sentence(0, operators_called=59_121)
        == sentence(0, forward_passes=9)
        == "eager: no graph; float32"
    )
    assert (
        sentence(2, operators_called=7, batches=7) == "2 graphs, none new while measuring; float32"
    )


@pytest.mark.parametrize(("asked_for", "new_tokens"), [(500, 500), (10, 45)])
def test_answers_are_judged_by_the_length_that_a_file_asks_for(tmp_path, asked_for, new_tokens):
    rows = [{"prompt": "one", "max_new_tokens": n} for n in (10, asked_for)]
    prompts = write_rows(tmp_path / "prompts.jsonl", rows)
    found = measure(request(tmp_path, model="llama", dataset=prompts))
    model = models.load("llama")
    size = model.sizes["tiny"]
    size = replace(size, inputs={**size.inputs, "new_tokens": new_tokens})
    recorded = read_json(Path(found.directory) / "record.json")["accuracy"]["tolerance"]
    assert recorded == limits.limits(model, size, "float32", "cpu")


def test_every_derived_file_can_be_made_again(finished, copy, tmp_path):
    def submitted():
        return {p: p.read_bytes() for p in (copy / "open").rglob("*") if p.is_file()}

    asked, files = request(tmp_path), submitted()
    shutil.rmtree(copy / "open")
    record = reading.from_file(copy / "record.json", Record)
    inference.write(copy, record, asked.rules, asked.options.submitter, ())
    assert files and submitted() == files
    before = read_json(copy / "result.json")
    assert before["directory"] == finished.directory
    # The next one does not depend on it.
    update_json(copy / "result.json", metric=None)
    derived = json.loads(json.dumps(run.asdict(result.derive(copy))))
    assert derived == before | {"directory": str(copy)}


def test_without_a_reference_a_cell_is_ok_and_unranked(tmp_path, monkeypatch):
    reason = "no reference: mistral full in float32 needs more memory"
    missing = run.reference.Reference(None, reason=reason)
    monkeypatch.setattr(run.reference, "ensure", lambda *_: missing)
    found = measure(request(tmp_path))
    assert (found.status, found.accuracy, found.ranked) == ("ok", None, False)
    assert f"accuracy not judged: {reason}" in found.warnings


def test_the_trace_is_kept_compressed_with_its_digest(finished):
    directory = Path(finished.directory)
    trace = gzip.decompress((directory / "raw/performance/mlperf_log_trace.json.gz").read_bytes())
    assert trace.count(b'"name":"Sample"') > 64  # not parsed: LoadGen's own lines are not all JSON
    digests = read_json(directory / "record.json")["digests"]
    assert digests["trace"] == hashlib.sha256(trace).hexdigest()


def test_a_model_that_does_not_fit_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "available_memory_bytes", lambda: 1 << 30)
    found = measure(request(tmp_path, sut="keras3-jax", model="mistral", size="full"))
    assert found.status == Status.SKIPPED
    assert (
        "mistral full in bfloat16 needs about 18.8 GB of memory and 1.1 GB are available"
        in found.reason
    )
    assert not list(tmp_path.iterdir())


def test_the_limits_of_control_groups_are_in_plan_result_and_record(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # tests/conftest.py
    monkeypatch.setattr(control_groups, "processors", lambda: 0.5)
    monkeypatch.setattr(control_groups, "memory_bytes", lambda: 700 << 20)
    asked = request(tmp_path)
    note = "the control groups (a container's) limit this machine to 0.5 processors and 0.734 GB of"
    assert asked.reasons[0] == f"{note} memory"
    found = measure(asked)
    assert found.status == "ok" and asked.reasons[0] in found.warnings
    assert found.seen.detail["processors"] == 1
    record = read_json(Path(found.directory) / "record.json")
    assert record["machine"]["cpu_quota"] == 0.5
    assert record["machine"]["memory_limit_bytes"] == 700 << 20


def test_the_limits_of_valid_mode_are_the_rounds(tmp_path):
    def limits(samples, **flags):
        found = request(tmp_path, mode="valid", duration=None, **flags).limits(samples)
        return found.min_duration_ms, found.min_query_count, found.equal_issue

    assert limits(5000, model="mistral", scenario="Offline") == (600_000, 5000, True)
    assert limits(10833) == (600_000, 64, False)


def test_a_disk_without_room_for_the_run_is_said_by_the_command(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(Path, "write_bytes", full)
    words = f"--sut mock --scenario Offline --model bert --out {tmp_path} --cache {CACHE}"
    code, _, said = call(words.split(), capsys)
    assert code == 3
    assert "the disk is full (somewhere): free some space" in " ".join(said.split())


@pytest.mark.parametrize(("gpus", "size"), [([], "tiny"), ([80e9], "full"), ([8e9], "tiny")])
def test_the_default_size_is_full_where_an_accelerator_holds_it(tmp_path, monkeypatch, gpus, size):
    have_accelerators(monkeypatch, *gpus)
    asked = request(tmp_path, sut="keras3-jax", model="mistral", python="python3")
    assert asked.size.name == size
    assert any(reason.startswith(f"size {size}: ") for reason in asked.reasons)
    assert asked.device == ("cuda" if gpus else "cpu")


def test_an_unwritable_output_is_a_usage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written .*: choose a directory you may"):
        measure(request(tmp_path / "file"))


def test_a_quick_run_is_of_whole_batches_and_says_of_how_many(tmp_path):
    for batch in (1, 3, 32):
        asked = request(tmp_path, scenario="Offline", batch_size=batch, options={"latency-ms": 5.0})
        found = measure(asked)
        assert (found.status, found.loadgen) == ("ok", "VALID")
        assert found.measured["samples"] == batch * found.measured["batches"]
        assert found.measured["padding_fraction"] == 0
        seconds = batch / found.metrics["samples_per_second"]
        assert found.metrics["ms_per_step"] == pytest.approx(1000 * seconds)


@pytest.fixture
def busy_at_first(monkeypatch, request):
    """The machine was so busy while it calibrated that the SUT turned out twenty times as fast. →
    the performance jobs, as they ran.
    """
    seen, original = [], loadgen_run.run

    def run_one(job, *rest):
        if job.test == "performance":
            seen.append(job)
            if len(seen) == 1:
                names = ("fastest_sample_ns", "median_sample_ns", "slowest_batch_ns")
                slow = dict.fromkeys(names, getattr(request, "param", 1e8))
                return original(replace(job, calibration=slow), *rest)
        return original(job, *rest)

    monkeypatch.setattr(loadgen_run, "run", run_one)
    return seen


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_a_test_that_was_over_too_soon_is_measured_once_more_at_the_rate_it_showed(
    tmp_path, busy_at_first, scenario
):
    reporter = Reporter()
    found = measure(request(tmp_path, scenario=scenario, options={"latency-ms": 5.0}), reporter)
    assert (found.status, found.loadgen, len(busy_at_first)) == ("ok", "VALID", 2)
    assert any("measured once more, at the rate that it showed" in text for text in reporter.said)
    assert (Path(found.directory) / "raw/performance.attempt-1").is_dir()
    words = "the earlier test is in raw/performance.attempt-1"
    assert any(text.endswith(words) for text in found.warnings)
    (Path(found.directory) / "raw/performance.attempt-10").mkdir()
    warnings = result.derive(Path(found.directory)).warnings
    assert any(text.endswith("in raw/performance.attempt-10") for text in warnings)


@pytest.mark.long
@pytest.mark.parametrize("busy_at_first", [1e9], indirect=True)
def test_a_test_that_was_measured_once_more_is_kept_when_the_run_goes_on(tmp_path, busy_at_first):
    asked = request(
        tmp_path, scenario="Offline", batch_size=1, duration=1.0, options={"latency-ms": 100.0}
    )
    reporter = Reporter()
    with pytest.raises(KeyboardInterrupt):
        measure(asked, Reporter(stop="accuracy"))
    assert len(busy_at_first) == 2
    assert measure(asked, reporter).status == "ok"
    assert "performance: kept from an earlier attempt" in reporter.said


def test_a_second_cell_waits_until_the_first_is_measured(tmp_path):
    said, reporter = threading.Event(), Reporter()
    say = reporter.warn
    reporter.warn = lambda text: (
        say(text),
        said.set() if text.startswith("waiting: another cell") else None,
    )
    with locks.machine(lambda text: None, "./run.sh"):
        thread = threading.Thread(target=run.run, args=(request(tmp_path), reporter, 0))
        thread.start()
        assert said.wait(60)
    thread.join(60)
    assert next(tmp_path.rglob("quick-1/result.json"))


def test_what_disturbed_a_test_keeps_its_figure_from_the_ranking():
    calm = Disturbance(**CALM | {"stolen_processors": None})

    def found(**changes):
        return disturbance.sentences(replace(calm, **changes), 2)

    assert found() == disturbance.sentences(None, 2) == ([], [])
    assert found(threads=2, children=0) == ([], [])
    assert "1 thread, and the worker may use 2" in found(threads=1)[1][0]
    processes = found(children=2, children_processors=0.8)[1][0]
    assert "in 2 more processes, which used 80%" in processes
    assert "1.4 times as long" in found(fresh_slower=1.4)[0][0]
    serious, notes = found(stalled_seconds=4.0, longest_stall_seconds=4.0, other_processors=0.2)
    stalled = "nothing was completed for 4 of its 10 s (longest 4 s)"
    assert [text.split(":")[0] for text in serious] == [stalled]
    assert [text.split(" while")[0] for text in notes] == ["other programs used 20% of a processor"]
    busy = replace(calm, other_processors=0.6)
    assert disturbance.sentences(busy, 2)[0] and not disturbance.sentences(busy, 64)[1]


def test_where_a_disturbance_may_be_why_inputs_took_longer_the_reason_says_so(copy):
    path = copy / "raw/performance/outcome.json"
    outcome = read_json(path)
    times = {"fresh_ns": 5.56e6, "again_ns": 1e6, "met_ns": 1e6}
    outcome["fresh"] |= {"slower": 5.56, "other_processors": 0.0, **times}
    outcome["disturbance"] |= {"stalled_seconds": 0.0, "stolen_processors": None}
    reasons = []
    for others in (0.0, 1000.0):
        outcome["disturbance"]["other_processors"] = others
        write_json(path, outcome)
        found = result.derive(copy)
        assert (found.status, found.cause) == ("invalid", "kept answers")
        reasons.append(found.reason)
    accusation, doubt = reasons
    assert accusation.endswith("it keeps answers")
    beginning = f"{accusation}. The test was disturbed, which may be why: other programs used"
    assert doubt.startswith(beginning)


def test_a_result_comes_back_from_its_file_and_is_found_below_a_folder(tmp_path):
    first = measure(request(tmp_path / "a"))
    second = measure(
        request(tmp_path / "b", sut="keras3-jax", model="mistral", size="tiny", precision="tf32")
    )
    assert second.status == "unsupported"  # nothing was made: it has no directory
    (tmp_path / "c").mkdir()
    (tmp_path / "c/result.json").write_text('{"cell": {"sut": "mock"}}')
    (tmp_path / "c/d").mkdir()
    (tmp_path / "c/d/result.json").write_text("[")
    found, unread = result.find(tmp_path)
    assert found == [first]
    assert [path.parent.name for path in unread] == ["d", "c"]
    assert unread[tmp_path / "c/result.json"] == (
        "it is of an earlier release (its schema is None, and this release reads result-2): read"
        " it with that release, or measure again"
    )
