"""`--benchmark resnet`: the sentences before a run, and the verdict after it."""

from pathlib import Path

import numpy as np
import pytest

from compliance import audit, rules
from formats.checks import Verdict
from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs import limits
from tests.support import imagenet_files
from tests.support.cells import measure, request
from tests.support.files import read_json, update_json
from tests.support.rounds import use_benchmark


@pytest.fixture
def files(tmp_path):
    """The folder of the pictures, and the folder of the model."""
    return imagenet_files.write(tmp_path)


def asked(tmp_path, files, **changes):
    data, weights = files
    flags = {"model": None, "benchmark": "resnet", "scenario": "Offline", "batch_size": None}
    return request(tmp_path / "runs", **flags | {"weights": weights, "dataset": data} | changes)


def test_the_plan_says_what_an_eligible_result_lacks(tmp_path, files):
    planned = asked(tmp_path, files)
    found = planned.official_run
    assert (planned.benchmark, planned.model.architecture) == ("resnet", "image_classifier")
    assert planned.model.answer_keys == ("label",)
    assert found.target == "acc at least 75.6954"
    assert found.scenarios == "SingleStream and MultiStream and Offline"
    assert found.division.startswith("open, because the model is not that of the closed division (")
    assert "depths [1, 1], not [3, 4, 6, 3]" in found.division
    size, mode, submitter, system = found.lacks
    assert size == "50 of 50,000 samples"
    assert (mode, submitter) == ("mode quick, not submission", "no --submitter")
    assert "cooling" in system


def test_values_that_config_json_leaves_out_are_those_of_resnet_50(tmp_path, files):
    weights = files[1]
    named = read_json(weights / "config.json")
    for key in ("layer_type", "downsample_in_bottleneck", "downsample_in_first_stage"):
        del named[key]
    write_json(weights / "config.json", named)
    division = asked(tmp_path, files).official_run.division
    assert "downsample" not in division
    assert "layer_type" not in division


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"downsample_in_bottleneck": True}, "downsample_in_bottleneck True, not False"),
        ({"model_type": "convnext"}, "model_type convnext, not resnet"),
        ({"id2label": {str(n): "" for n in range(1001)}}, "classes 1001, not 1000"),
    ],
)
def test_another_model_may_only_enter_the_open_division(tmp_path, files, changes, difference):
    update_json(files[1] / "config.json", **changes)
    assert difference in asked(tmp_path, files).official_run.division


def test_the_model_of_the_closed_division_may_enter_both(tmp_path, files, monkeypatch):
    _with(monkeypatch)
    found = asked(tmp_path, files).official_run
    assert found.division == "closed, if the weights are those of the reference; otherwise open"
    assert len(found.lacks) == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dataset": None}, "needs --weights DIR, the folder of a ResNet, and --dataset DIR"),
        ({"scenario": "Server"}, "resnet has SingleStream, MultiStream, Offline in v6.1"),
        ({"seq_len": 128}, "is for models that predict from text"),
    ],
)
def test_flags_that_contradict_the_benchmark_are_refused(tmp_path, files, changes, sentence):
    with pytest.raises(UsageError, match=sentence):
        asked(tmp_path, files, **changes)


def test_a_model_without_classes_is_refused(tmp_path, files):
    update_json(files[1] / "config.json", architectures=["ResNetModel"])
    with pytest.raises(UsageError, match="is a ResNetModel, which has no classes"):
        asked(tmp_path, files)


def test_a_model_of_text_is_refused(tmp_path, files):
    update_json(
        files[1] / "config.json", architectures=["BertForQuestionAnswering"], model_type="bert"
    )
    with pytest.raises(UsageError, match="needs a classifier of pictures .* is BertForQuestionAns"):
        asked(tmp_path, files)


def test_wrong_pictures_are_refused(tmp_path, files):
    data, weights = files
    with pytest.raises(UsageError, match="is a file; give the folder with ImageNet's validation"):
        asked(tmp_path, (data / "val_map.txt", weights))
    names = list(imagenet_files.labels())
    for name in names[3:5]:
        (data / name).unlink()
    missing = f"2 of the 50 pictures of val_map.txt are not in it, the first is {names[3]}"
    with pytest.raises(UsageError, match=missing):
        asked(tmp_path, files)
    update_json(weights / "config.json", id2label={"0": "cat", "1": "dog", "2": "bird"})
    with pytest.raises(UsageError, match="the class 7, and the model has 3 classes"):
        asked(tmp_path, files)
    (data / "val_map.txt").unlink()
    with pytest.raises(UsageError, match="there is no val_map.txt in it or next to it"):
        asked(tmp_path, files)


def test_a_damaged_picture_is_named(tmp_path, files):
    data, _ = files
    name = list(imagenet_files.labels())[7]
    (data / name).write_bytes((data / name).read_bytes()[:400])
    with pytest.raises(UsageError, match=f"{name}: no whole JPEG or PNG file"):
        measure(asked(tmp_path, files))


def test_loadgen_keeps_as_many_pictures_loaded_as_the_benchmark_requires(tmp_path, files):
    planned = asked(tmp_path, files)
    assert planned.limits(50).performance_sample_count == 50
    assert planned.limits(50_000).performance_sample_count == 1024


def test_a_model_without_a_number_of_layers_has_limits_if_there_is_no_reference(tmp_path, files):
    planned = asked(tmp_path, files)
    assert "num_hidden_layers" not in planned.size.config
    assert set(limits.limits(planned.model, planned.size, "float32", "cpu")) == {"logit_error"}


@pytest.mark.parametrize("scenario", ["Offline", "MultiStream"])
def test_the_verdict_is_that_of_the_official_metric(tmp_path, files, monkeypatch, scenario):
    """Fewer pictures than the data set has are loaded at a time."""
    _with(monkeypatch, performance_sample_count=20)
    found = measure(asked(tmp_path, files, scenario=scenario))
    assert (found.status, found.cause) == ("invalid", "accuracy")
    # The answers are those of the reference.
    assert found.accuracy.passed
    assert found.accuracy.detail["label_equal_fraction"] == 1.0
    directory = Path(found.directory)
    (text,) = directory.rglob("open/**/accuracy.txt")
    log = read_json(directory / "raw/accuracy/mlperf_log_accuracy.json")
    classes = list(imagenet_files.labels().values())
    # MultiStream fills up its queries with pictures that it repeats.
    answers = {row["qsl_idx"]: np.frombuffer(bytes.fromhex(row["data"]), np.int64) for row in log}
    assert sorted(answers) == list(range(50))
    right = sum(int(answer[0]) == classes[number] for number, answer in answers.items())
    line = f"accuracy={2 * right:.3f}%, good={right}, total=50"
    assert text.read_text().split("\n")[0] == line == found.official.line
    checks = audit.audit(directory).checks
    failed = {c.id: c.detail for c in checks if c.verdict is Verdict.FAIL and c.level == "quick"}
    assert set(failed) == {"accuracy-score"}, failed
    assert "at least 75.6954 is required" in failed["accuracy-score"]


def _with(monkeypatch, **changes):
    """Rules as if the small files were the right ones."""
    workload = imagenet_files.as_if_closed(rules.load().workloads["imagenet"])
    row = {"dataset_size": imagenet_files.PICTURES} | changes
    use_benchmark(monkeypatch, "resnet", "imagenet", workload, **row)
