"""`--sut-option shards=`: refusals, places, names and the documents of a result."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from formats import reading
from formats.evidence import Evidence
from formats.job import Place
from formats.record import Record
from harness.errors import UsageError
from harness.execution import machine
from harness.request import replicas
from harness.request.options import Options
from harness.request.tuning import Tuned
from results import documents, summary
from scenarios.worker.system import cores
from sut.registry import SUTS
from tests.support import cells
from tests.support.cells import measure, request
from tests.support.files import read_json
from tests.support.synthetic_runs import cell, record_json

SUT = "native-torch-eager"


def resolved(*words):
    given = ("--sut", SUT, "--device", "cpu", "--scenario", "Offline", "--size", "tiny")
    return cells.resolved(*given, *words)


@pytest.fixture
def two_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


def shards(count, model="mistral"):
    return "--model", model, "--sut-option", f"shards={count}"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (shards(1), "shards=1: is not a whole number above 1"),
        (shards("two"), "shards=two: is not a whole number above 1"),
        (shards(2, "bert"), f"{SUT} splits only gemma, llama, mistral, and not bert: leave it out"),
        (shards(2, "qwen3"), "and not qwen3"),
        (
            shards(3),
            (
                "shards=3: mistral has 4 heads, which 3 devices cannot share equally: choose a"
                " number that divides 4"
            ),
        ),
        (shards(4, "gemma"), "gemma has 2 heads of keys and values, which 4 devices"),
        (
            ("--sut", "keras3-jax", *shards(2), "--sut-option", "quantize=int8"),
            "weights of 8 bits are not split",
        ),
        (
            (*shards(2), "--tuned", "huge-pages"),
            "--tuned huge-pages are for models that are not split",
        ),
        ((*shards(2), "--replicas", "2"), "shards=2: each shard needs a core of its own, and"),
        (
            ("--size", "mid", *shards(4)),
            "--sut-option shards=4: each shard needs a core of its own, and there are 2",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_split_is_refused_with_its_reason(words, reason, two_cores):
    given = ["--device", "cpu", "--scenario", "Offline"]
    for flag, value in (("--size", "tiny"), ("--sut", SUT)):
        given += [] if flag in words else [flag, value]
    with pytest.raises(UsageError, match=reason):
        cells.resolved(*given, *words)


def test_a_training_and_a_sut_that_splits_nothing_are_refused(two_cores):
    with pytest.raises(UsageError, match="is for answers, and Fit trains: leave it out"):
        words = f"--sut {SUT} --device cpu --scenario Fit --size tiny"
        cells.resolved(*words.split(), *shards(2))
    with pytest.raises(UsageError, match="keras3-tensorflow has no such option"):
        cells.resolved("--sut", "keras3-tensorflow", "--scenario", "Offline", *shards(2))


def test_a_cell_of_shards_has_a_name_of_its_own_and_the_whole_processor(two_cores):
    split, whole = resolved(*shards(2)), resolved("--model", "mistral")
    assert split.cell().digest != whole.cell().digest
    assert (split.cell().shard_count, whole.cell().shard_count) == (2, 1)
    assert "shards=2" in split.label and "shards" not in whole.label
    assert split.places == whole.places == ()


def test_each_replica_has_a_device_for_each_of_its_shards(monkeypatch):
    card = machine.Accelerator(name="A", memory_bytes=1, driver="1", cuda=None)
    monkeypatch.setattr(machine, "accelerators", lambda: [card] * 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    given = {"sut": SUT, "scenario": "Offline", "command": "./run.sh …", "model": "mistral"}
    one = Options(**given, sut_option=("shards=2",))
    both = replace(one, replicas="2")
    spec = SUTS[SUT]
    assert replicas.of(one, spec, "cuda", Tuned()).places == (Place(device="0,1"),)
    assert replicas._every(2, both, spec, "cuda") == [Place(device="0,1"), Place(device="2,3")]
    more = replace(both, sut_option=("shards=4",))
    reason = "--replicas 2 --sut-option shards=4: each shard needs a cuda device, and there are 4"
    with pytest.raises(UsageError, match=reason):
        replicas._every(2, more, spec, "cuda")


def test_cores_of_a_replica_are_enough_for_its_shards(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(9)))
    found = resolved(*shards(2), "--replicas", "2")
    assert found.places == (Place(cores=(0, 1, 2, 3)), Place(cores=(4, 5, 6, 7)))
    assert found.cell().device_count == 4


def test_the_system_description_counts_all_devices():
    split = replace(cell(), options={"shards": 2}, replicas="2")
    record = reading.convert(record_json(split), Record)
    assert documents.system_id(record).endswith("-keras3-jax-replicas-2-shards-2")
    described = documents.system_description(record, "us")
    assert "Shards of the model (--sut-option shards): 2, on 4 devices." in described["sw_notes"]


def test_a_result_says_what_each_device_holds_and_the_audit_looks(tmp_path):
    asked = request(
        tmp_path, model="mistral", scenario="Offline", options={"shards": 2, "latency-ms": 0.5}
    )
    result = measure(asked)
    assert (result.status, result.reason) == ("ok", "")
    rows = dict(summary.rows(result))
    assert rows["shards"] == "parameters on 2 devices (0.5243 MB, 0.5243 MB)"
    record = read_json(Path(result.directory) / "record.json")
    assert record["cell"]["options"]["shards"] == 2


def test_the_host_devices_of_jax_share_all_threads_and_processes_divide_them():
    def at_once(*devices):
        parts = [{"device": device, "bytes": 1} for device in devices]
        return Evidence(0, None, "float32", {"shards": parts}).at_once(len(devices))

    assert at_once("cpu:0", "cpu:1") == 1
    assert at_once("cpu, process 3", "cpu, process 4") == 2
