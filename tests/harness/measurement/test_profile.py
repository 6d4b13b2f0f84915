"""The workers of a profile: each cell has its switches, its label and its folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from formats.job import PROFILE
from formats.outcome import WorkerOutcome
from formats.profile import CLASSES, StepOperations, StepProfile
from formats.work import ATTENTION, MATRIX, Counted, Part, Work
from formats.writing import write_json
from harness.commands import profile as command
from harness.errors import UsageError
from harness.measurement import profile
from harness.request.request import Request
from harness.sweep import cells
from tests.support.cells import Reporter, request

SUT = "native-torch-eager"
NORM = "normalisation"
_BERT = {"sut": [SUT], "model": ["bert"], "size": ["tiny"], "scenario": ["Offline"]}


@dataclass
class _Job:
    log_dir: Path
    request: Request
    procedure: str = PROFILE


@pytest.fixture
def workers(monkeypatch):
    """The job and the variables of each worker, which computes nothing."""
    started = []

    def launch(prepared, job, watch, variables=MappingProxyType({})):
        started.append((job, {**prepared.request.tuned.variables, **variables}))
        seconds = dict.fromkeys(CLASSES, 0.1)
        step = StepProfile(
            profiler="none", steps=1, unprofiled_seconds=1.0, seconds=seconds, kernels=1
        )
        write_json(job.log_dir / "profile.json", asdict(step))
        return WorkerOutcome(
            "ok",
            import_ns=10**9,
            load_ns=2 * 10**9,
            warmup=[{"first_ns": 4 * 10**9, "second_ns": 10**9}],
            cache_hits=len(started) - 1,
        )

    def job(prepared, log_dir, *_):
        return _Job(log_dir=log_dir, request=prepared.request)

    monkeypatch.setattr(profile.preparation, "launch", launch)
    monkeypatch.setattr(profile.preparation, "prepare", lambda of, *_: SimpleNamespace(request=of))
    monkeypatch.setattr(profile, "make_job", job)
    monkeypatch.setattr(profile, "recorded_names", lambda *_: {})
    return started


def test_each_cell_of_a_sut_has_its_switches_label_and_folder(tmp_path, workers):
    plain = request(tmp_path, sut=SUT, scenario="Offline", size="tiny")
    tuned = request(tmp_path, sut=SUT, scenario="Offline", size="tiny", tuned="huge-pages")
    found = [profile.profile(each, tmp_path, Reporter()) for each in (plain, tuned)]
    assert [each.label for each in found] == [SUT, f"{SUT} tuned=huge-pages"]
    assert all(each.status == "ok" and each.step for each in found)
    (first, of_plain), (second, of_tuned) = workers
    assert first.log_dir != second.log_dir
    assert "THP_MEM_ALLOC_ENABLE" not in of_plain
    assert of_tuned["THP_MEM_ALLOC_ENABLE"] == "1"


def test_the_starts_of_a_sut_are_in_the_report():
    with pytest.raises(UsageError, match="--starts is gone: the page of report has it"):
        command.main(["--sut", SUT, "--model", "bert", "--starts"])


def test_the_title_names_no_switches(tmp_path):
    plain = request(tmp_path, sut=SUT, scenario="Offline", size="tiny")
    tuned = request(tmp_path, sut=SUT, scenario="Offline", size="tiny", tuned="huge-pages")
    assert profile.title_of(tuned) == profile.title_of(plain)


def _requests(tmp_path, **more):
    where = {"out": [str(tmp_path)], "cache": [str(tmp_path)]}
    return command._same_work(cells.make((_BERT | more | where,), where, control=False))


def test_a_sut_is_profiled_with_and_without_switches(tmp_path):
    found = _requests(tmp_path, tuned=["off,huge-pages,to-mkldnn,huge-pages"])
    labels = [profile.label_of(each) for each in found]
    assert labels == [SUT, f"{SUT} tuned=huge-pages", f"{SUT} tuned=to-mkldnn"]


def test_other_work_is_refused(tmp_path):
    with pytest.raises(UsageError, match="do the same work"):
        _requests(tmp_path, precision=["float32,bfloat16"])


def test_the_operations_of_a_step_are_those_of_a_batch_of_the_counted_samples(
    tmp_path, monkeypatch
):
    first = Part(flops={MATRIX: 7.0}, weights=1, activations=1, passes=1, written={NORM: 2.0})
    token = Part(flops={MATRIX: 1.0, ATTENTION: 3.0}, weights=1, activations=1, passes=1)
    counted = Counted(work=Work(first=first, token=token))
    monkeypatch.setattr(profile.reference, "work_of", lambda *_: counted)
    monkeypatch.setattr(profile.preparation, "prepare", _with_answers_of_5_tokens)
    of = request(tmp_path, sut=SUT, scenario="Offline", size="tiny")
    found = profile.operations([of], Reporter())
    assert isinstance(found, StepOperations)
    batch = of.batch_size
    flops = {kind: number for kind, number in found.flops.items() if number}
    assert flops == {MATRIX: 11.0 * batch, ATTENTION: 12.0 * batch, NORM: 2.0 * batch}


def test_a_step_without_counted_work_says_why(tmp_path, monkeypatch):
    counted = Counted(work=None, reason="oom: too large")
    monkeypatch.setattr(profile.reference, "work_of", lambda *_: counted)
    monkeypatch.setattr(profile.preparation, "prepare", _with_answers_of_5_tokens)
    of = request(tmp_path, sut=SUT, scenario="Offline", size="tiny")
    assert profile.operations([of], Reporter()) == "oom: too large"


def _with_answers_of_5_tokens(of, *_):
    description = SimpleNamespace(new_tokens_per_sample=5)
    inputs = SimpleNamespace(description=description)
    return SimpleNamespace(request=of, checkpoint=None, inputs=inputs, environment=None)
