"""Folders as people's programs and the Hub's cache leave them: other names, shared tensors, links."""

import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from formats.writing import write_json
from harness.errors import EnvironmentFailure, UsageError
from harness.inputs import checkpoint, stored_tensors, unlisted, user_weights
from sut.checkpoint import weights_files
from tests.support import weights_folders
from tests.support.files import read_json
from tests.support.weights_folders import INDEX, MODELS, made, shard, tensors

FILE = "model.safetensors"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def linked(folder):
    """The folder, and the checkpoint that the SUTs read."""
    return weights_folders.look(folder), weights_folders.linked(folder).path


def values(path):
    return {name: weights_files.tensor(path, name) for name in weights_files.names(path)}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def save_model(folder, kept, removed):
    """What safetensors.torch.save_model writes of two shared tensors: one, and no format."""
    found = load_file(folder / FILE)
    found[kept] = found.pop(EMBEDDING)
    if kept != HEAD:
        found.pop(HEAD, None)
    save_file(found, folder / FILE, {removed: kept})


@pytest.mark.parametrize(("kept", "removed"), [(EMBEDDING, HEAD), (HEAD, EMBEDDING)])
def test_a_tied_model_of_save_model_is_read_whichever_name_was_kept(made, kept, removed):
    folder = made("gemma")
    whole = load_file(folder / FILE)
    save_model(folder, kept, removed)
    found, path = linked(folder)
    assert same(values(path), whole)
    assert any(note.startswith("the weights are copied to the cache") for note in found.notes)


def test_shared_tensors_of_an_untied_model_are_both_read(made):
    folder = made("llama")
    save_model(folder, EMBEDDING, HEAD)
    _, path = linked(folder)
    found = values(path)
    assert np.array_equal(found[HEAD], found[EMBEDDING])


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("llama", "model."),
        ("llama", "language_model."),
        ("llama", "transformer."),
        ("llama", "module._orig_mod."),
        ("bert", "model."),
        ("gpt2", "module.transformer."),
    ],
)
def test_a_model_inside_a_wrapper_is_read(made, name, prefix):
    folder = made(name)
    whole = load_file(folder / FILE)
    save_file({prefix + n: v for n, v in whole.items()}, folder / FILE, {"format": "pt"})
    found, path = linked(folder)
    read = {n.removeprefix("transformer."): v for n, v in values(path).items()}
    assert same(read, whole)
    assert found.size.parameters == MODELS[name].sizes["tiny"].parameters


@pytest.mark.parametrize("prefix", ["", "model.language_model."])
def test_the_body_alone_of_a_tied_model_is_read(made, prefix):
    folder = made("gemma")
    whole = load_file(folder / FILE)
    body = {prefix + n.removeprefix("model."): v for n, v in whole.items()}
    save_file(body, folder / FILE, {"format": "pt"})
    assert same(values(linked(folder)[1]), whole)


def test_legacy_names_in_a_wrapper_stay_those_that_libraries_read(made):
    folder = made("bert")

    def age(t):
        for name in list(t):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            t["module." + old] = t.pop(name)

    tensors(folder, age)
    _, path = linked(folder)
    assert "bert.embeddings.LayerNorm.gamma" in weights_files.names(path)


def test_a_file_whose_metadata_has_no_format_is_copied_with_one(made):
    folder = made("llama")
    whole = load_file(folder / FILE)
    save_file(whole, folder / FILE, {"step": "3"})
    found, path = linked(folder)
    assert same(values(path), whole)
    assert "metadata without a format, which Transformers refuses" in " ".join(found.notes)
    save_file(whole, folder / FILE)
    assert linked(folder)[1].joinpath(FILE).is_symlink()


def test_mixed_precisions_and_shards_are_copied_byte_by_byte(made):
    folder = made("llama")

    def mix(t):
        t["model.norm.weight"] = t["model.norm.weight"].astype(np.float16)
        for name in list(t):
            t["module." + name] = t.pop(name)

    tensors(folder, mix)
    whole = {n.removeprefix("module."): v for n, v in load_file(folder / FILE).items()}
    shard(folder)
    _, path = linked(folder)
    found = values(path)
    assert same(found, whole)
    assert found["model.norm.weight"].dtype == np.float16


def test_a_copy_that_was_changed_is_made_again_and_values_are_checked(made):
    folder = made("llama")
    tensors(folder, lambda t: [t.update({"module." + n: t.pop(n)}) for n in list(t)])
    _, path = linked(folder)
    good = (path / FILE).read_bytes()
    assert linked(folder)[1] == path
    (path / FILE).write_bytes(good[:-4] + b"1234")
    linked(folder)
    assert (path / FILE).read_bytes() == good
    tensors(folder, lambda t: t["module." + HEAD].__setitem__((0, 0), np.nan))
    with pytest.raises(UsageError, match="module.lm_head.weight has 1 values that are NaN"):
        linked(folder)


def test_a_disk_that_is_too_small_for_a_copy_is_told(made, tmp_path, monkeypatch):
    folder = made("llama")
    tensors(folder, lambda t: [t.update({"module." + n: t.pop(n)}) for n in list(t)])
    usage = shutil.disk_usage(tmp_path)._replace(free=1)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(EnvironmentFailure, match="GB free: free some space"):
        linked(folder)


def test_an_index_that_names_more_than_there_is_is_mended(made):
    folder = made("llama")
    whole = load_file(folder / FILE)
    shard(folder)
    listed = read_json(folder / INDEX)
    listed["weight_map"]["model.layers.9.rotary_emb.inv_freq"] = "model-00001-of-00002.safetensors"
    write_json(folder / INDEX, listed)
    found, path = linked(folder)
    assert f"{INDEX} names tensors that are in no file: model.layers.9.rotary_emb.inv_freq" in (
        found.notes
    )
    assert same(values(path), whole)


def hub(folder, root, *commits):
    """The folder as `huggingface-cli download` leaves it: links into blobs/."""
    model = root / "models--someone--a model ü"
    for commit in commits:
        (model / "snapshots" / commit).mkdir(parents=True)
        for file in folder.iterdir():
            blob = model / "blobs" / f"{commit}{file.name.encode().hex()}"
            blob.parent.mkdir(exist_ok=True)
            shutil.copy(file, blob)
            (model / "snapshots" / commit / file.name).symlink_to(f"../../blobs/{blob.name}")
    return model


def test_the_hubs_cache_is_read_by_snapshot_or_whole(made, tmp_path):
    folder = made("llama")
    whole = load_file(folder / FILE)
    model = hub(folder, tmp_path / "hub", "abc")
    for path in (model, model / "snapshots" / "abc"):
        found = user_weights.look(path, MODELS["llama"])
        read = checkpoint.of_folder(found, MODELS["llama"], tmp_path / "cache").path
        assert (found.path, same(values(read), whole)) == (model / "snapshots" / "abc", True)
        assert user_weights.title(found.path) == "someone/a model ü"
        assert unlisted.model_of(path).name == "llama"


def test_of_several_snapshots_refs_main_says_which(made, tmp_path):
    model = hub(made("llama"), tmp_path / "hub", "abc", "def")
    with pytest.raises(UsageError, match="2 snapshots are in it, and refs/main names none"):
        user_weights.look(model, MODELS["llama"])
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("def\n")
    assert user_weights.look(model, MODELS["llama"]).path.name == "def"


def test_a_link_without_its_file_is_named(made, tmp_path):
    model = hub(made("llama"), tmp_path / "hub", "abc")
    (model / "snapshots" / "abc" / FILE).resolve().unlink()
    with pytest.raises(UsageError, match="model.safetensors is a link to a file that is missing"):
        user_weights.look(model, MODELS["llama"])


def test_bfloat16_is_read_by_a_process_that_has_not_seen_it_before(made):
    folder = made("gemma")
    found = load_file(folder / FILE)
    found[HEAD] = found[EMBEDDING]
    half = {name: each.astype(ml_dtypes.bfloat16) for name, each in found.items()}
    save_file(half, folder / FILE, {"format": "pt"})
    program = (
        "import sys; from pathlib import Path; from harness.inputs import models, user_weights;"
        " model = models.load('gemma'); found = user_weights.look(Path(sys.argv[1]), model);"
        " user_weights.check_finite(found)"
    )
    subprocess.run([sys.executable, "-P", "-c", program, str(folder)], check=True)


def test_a_header_is_that_of_the_safetensors_package(tmp_path):
    arrays = {"a": np.ones(3, np.float32), "b": np.ones((2, 2), np.float32)}
    save_file(arrays, tmp_path / "theirs", {"format": "pt"})
    expected = stored_tensors.header([("a", "F32", (3,), 12), ("b", "F32", (2, 2), 16)])
    own = expected + arrays["a"].tobytes() + arrays["b"].tobytes()
    (tmp_path / "own").write_bytes(own)
    assert same(load_file(tmp_path / "own"), load_file(tmp_path / "theirs"))
