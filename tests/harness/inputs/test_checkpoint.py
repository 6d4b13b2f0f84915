import dataclasses
import hashlib
import multiprocessing
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy import stats

from harness.errors import EnvironmentFailure
from harness.inputs import checkpoint, models
from tests.support.files import read_json
from tests.support.weights_folders import digest_of

BERT, GEMMA, MISTRAL = map(models.load, ("bert", "gemma", "mistral"))
TINY_BFLOAT16 = dataclasses.replace(MISTRAL.sizes["tiny"], precision="bfloat16")


def file_of(found):
    return found.path / "model.safetensors"


def tensors_of(cache, model, size=None):
    """name → array of a seeded checkpoint."""
    return load_file(file_of(checkpoint.ensure(model, size or model.sizes["tiny"], cache)))


@pytest.mark.parametrize("model", [BERT, GEMMA, MISTRAL], ids=lambda m: m.name)
def test_the_official_reader_finds_every_tensor_of_the_table(tmp_path, model):
    size = model.sizes["tiny"]
    found = checkpoint.ensure(model, size, tmp_path)
    tensors = load_file(file_of(found))
    assert {n: t.shape for n, t in tensors.items()} == {t.name: t.shape for t in size.tensors}
    assert {t.dtype for t in tensors.values()} == {np.dtype(np.float32)}
    assert found.parameters == sum(t.size for t in tensors.values())
    assert found.bytes == file_of(found).stat().st_size
    assert found.digest == digest_of(found.path / "config.json", file_of(found))


@pytest.mark.parametrize(
    "size", [MISTRAL.sizes["tiny"], TINY_BFLOAT16], ids=lambda size: size.precision
)
def test_values_have_the_mean_and_spread_of_the_table(tmp_path, size):
    tensors = tensors_of(tmp_path, MISTRAL, size)
    for t in size.tensors:
        values = tensors[t.name].astype(np.float32)
        margin = 6 * t.std / np.sqrt(values.size) + (t.mean * 2**-8 if size is TINY_BFLOAT16 else 0)
        assert abs(values.mean() - t.mean) < margin
        assert abs(values.std() - t.std) < margin


def test_bfloat16_values_are_normally_distributed(tmp_path):
    stored = tensors_of(tmp_path, MISTRAL, TINY_BFLOAT16)["model.embed_tokens.weight"]
    assert stored.dtype == ml_dtypes.bfloat16
    values = stored.astype(np.float64).ravel() / 0.02
    assert stats.kstest(values, "norm").statistic < 2 / np.sqrt(values.size)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 5 / np.sqrt(values.size)


def test_the_bytes_of_seeded_checkpoints_stay_as_they_are(tmp_path):
    sizes = {"e24e9cd0bed7": MISTRAL.sizes["tiny"], "2b168180518e": TINY_BFLOAT16}
    for digest, size in sizes.items():
        made = checkpoint.ensure(MISTRAL, size, tmp_path)
        whole = (made.path / "config.json").read_bytes() + file_of(made).read_bytes()
        assert hashlib.sha256(whole).hexdigest()[:12] == digest


def test_a_tied_head_is_cancelled_by_a_final_norm_of_random_signs(tmp_path):
    """1 + w: as many negative as positive factors, so that no token's own logit is the square of
    its embedding.
    """
    factors = 1 + tensors_of(tmp_path, GEMMA)["model.norm.weight"]
    assert abs(factors.mean()) < 0.3 < factors.std()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("model", [BERT, GEMMA, MISTRAL], ids=lambda m: m.name)
def test_hardly_a_value_survives_a_lower_precision_so_that_rounded_weights_are_seen(
    tmp_path, model, dtype
):
    values = np.concatenate([t.ravel() for t in tensors_of(tmp_path, model).values()])
    assert np.mean(values.astype(dtype).astype(np.float32) == values) < 1e-3


def test_the_digest_is_of_all_bytes_of_all_files_in_their_order(tmp_path):
    a, b, c = files = [tmp_path / name for name in "abc"]
    for file, content in zip(files, (bytes(range(250)) * 90_000, b"", b"c"), strict=True):
        file.write_bytes(content)
    assert checkpoint.digest_of(files) == digest_of(*files) != checkpoint.digest_of([c, a, b])


def test_the_number_of_threads_and_of_values_looked_up_at_a_time_changes_no_value(
    tmp_path, monkeypatch
):
    one = checkpoint.ensure(MISTRAL, TINY_BFLOAT16, tmp_path / "one")
    monkeypatch.setattr(checkpoint, "_LOOK_UP", 1000)
    monkeypatch.setattr(checkpoint.os, "sched_getaffinity", lambda process: range(7))
    assert checkpoint.ensure(MISTRAL, TINY_BFLOAT16, tmp_path / "other").digest == one.digest


def test_the_configuration_names_the_class_and_the_dtype(tmp_path):
    found = checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path)
    config = read_json(found.path / "config.json")
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert (config["model_type"], config["dtype"], config["hidden_size"]) == ("bert", "float32", 64)


def test_tensors_do_not_depend_on_their_neighbours(tmp_path):
    size = MISTRAL.sizes["tiny"]
    backwards = dataclasses.replace(size, tensors=size.tensors[::-1])
    one, other = (tensors_of(tmp_path, MISTRAL, each) for each in (size, backwards))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    assert len({t.tobytes() for t in one.values()}) == len(one)


def test_the_chunk_it_is_made_in_does_not_change_a_tensor(tmp_path, monkeypatch):
    whole = checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path / "whole")
    monkeypatch.setattr(checkpoint, "_CHUNK", 1000)
    assert checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path / "parts").digest == whole.digest


def test_a_finished_checkpoint_is_used_again(tmp_path):
    first = checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path)
    written = file_of(first).stat().st_mtime_ns
    assert checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path) == first
    assert file_of(first).stat().st_mtime_ns == written


@pytest.mark.parametrize("damage", ["no digest", "digest cut", "weights cut", "no weights"])
def test_a_half_made_checkpoint_is_made_again(tmp_path, damage):
    whole = checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path)
    target = whole.path / ("digest.json" if "digest" in damage else "model.safetensors")
    if damage.startswith("no"):
        target.unlink()
    else:
        target.write_bytes(target.read_bytes()[:50])
    assert checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path) == whole
    assert file_of(whole).stat().st_size == whole.bytes


def ensure_tiny(cache):
    return checkpoint.ensure(MISTRAL, MISTRAL.sizes["tiny"], cache).digest


def test_of_two_processes_one_waits_for_the_other(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len(set(pool.map(ensure_tiny, [tmp_path] * 4))) == 1
    assert len(list((tmp_path / "checkpoints").glob("*/model.safetensors"))) == 1


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    words = "takes 0.0 GB .* free some space, or choose a smaller --size"
    with pytest.raises(EnvironmentFailure, match=words):
        checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_file_that_was_changed_is_written_again(tmp_path):
    found = checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path)
    whole = file_of(found).read_bytes()
    file_of(found).write_bytes(whole[:-500] + bytes(500))
    assert checkpoint.ensure(BERT, BERT.sizes["tiny"], tmp_path) == found
    assert file_of(found).read_bytes() == whole


def test_another_configuration_of_the_same_weights_is_another_checkpoint(tmp_path):
    size = MISTRAL.sizes["tiny"]
    other = dataclasses.replace(size, config={**size.config, "rope_theta": 1e6})
    one, two = (checkpoint.ensure(MISTRAL, s, tmp_path) for s in (size, other))
    assert file_of(one).read_bytes() == file_of(two).read_bytes()
    assert one.digest != two.digest and one.path != two.path
