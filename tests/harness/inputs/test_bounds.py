"""Each reader of a user's file looks at sizes first. The files are small, and so is the memory."""

import zipfile

import numpy as np
import pytest

from compliance.logs import answers, detail, files, summary
from formats import bounds, reading
from formats.result import Result
from harness import cli
from harness.commands import weights
from harness.comparison import runs
from harness.errors import UsageError
from harness.inputs import (
    chat,
    imagenet,
    keras_file,
    prompt_files,
    tokenizer,
    user_config,
    user_tensors,
)
from harness.inputs.architectures import keras_file as arrays_of_keras
from harness.inputs.stored_tensors import header
from tests.support.tokens import bpe


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(bounds, "_ALWAYS_BYTES", 0)
    monkeypatch.setattr(bounds, "available_bytes", lambda: 20)


def _npz(path):
    """An .npz that unpacks to a hundred times its bytes."""
    np.savez_compressed(path, x=np.zeros((100_000, 1)))


def _keras(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("config.json", "metadata.json", "model.weights.h5"):
            archive.writestr(name, " " * 10_000)


def _text(path):
    path.write_text("{}" * 1000)


READERS = {
    "data.npz": (_npz, arrays_of_keras._read_file),
    "model.keras": (_keras, lambda path: keras_file.read(path, custom=False)),
    "prompts.jsonl": (_text, prompt_files.read),
    "tokenizer.json": (
        lambda path: bpe(300).save(str(path)),
        lambda path: tokenizer.of_folder(path.parent),
    ),
    "config.json": (_text, lambda path: user_config.load(path.parent)),
    "chat_template.jinja": (_text, lambda path: chat.of_folder(path.parent, "default", [])),
    "model.safetensors": (
        lambda path: path.write_bytes(header([("a", "F32", (1,), 4)]) + bytes(4)),
        lambda path: user_tensors.headers(path.parent, [path.name]),
    ),
    "val_map.txt": (_text, lambda path: imagenet.listed(path.parent)),
    "pytorch_model.bin": (_text, lambda path: weights._brought(str(path.parent), None)),
    "result.json": (_text, lambda path: reading.from_file(path, Result)),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_may_need_more_memory_than_there_is_is_not_read(tmp_path, little_memory, name):
    write, read = READERS[name]
    write(tmp_path / name)
    with pytest.raises(bounds.TooLarge, match=rf"{name}|{tmp_path.name}.* may need .* available"):
        read(tmp_path / name)


LOGS = {
    "mlperf_log_accuracy.json": (_text, answers.read_accuracy),
    "mlperf_log_detail.txt": (_text, detail.read_detail),
    "mlperf_log_summary.txt": (_text, summary.read_summary),
    "record.json": (_text, files.json_object),
    "reference.npz": (_npz, files.arrays),
}


@pytest.mark.parametrize("name", LOGS)
def test_an_audit_reports_the_log_that_it_cannot_hold(tmp_path, little_memory, name):
    write, read = LOGS[name]
    write(tmp_path / name)
    found, why = files.attempt(read, tmp_path / name)
    assert found is None
    assert why.startswith(f"{name}: reading its") or "unpacks to" in why


def test_a_report_leaves_out_a_result_that_is_far_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_LARGEST_BYTES", 10)
    (tmp_path / "run").mkdir()
    _text(tmp_path / "run" / "result.json")
    results, faults = runs.find(tmp_path)
    assert results == []
    assert list(faults.values()) == ["it has 2,000 bytes, and at most 10 are read"]


def test_a_member_of_a_keras_file_may_not_unpack_to_more_than_other_json(tmp_path, monkeypatch):
    monkeypatch.setattr(keras_file, "LARGEST_JSON", 5000)
    _keras(tmp_path / "model.keras")
    with pytest.raises(UsageError, match=r"config.json unpacks to 0 MB, and at most 0 MB are read"):
        keras_file.read(tmp_path / "model.keras", custom=False)


def test_many_short_prompts_need_more_than_their_text(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_ALWAYS_BYTES", 0)
    file = tmp_path / "prompts.txt"
    file.write_text("a\n\n" * 100)
    monkeypatch.setattr(bounds, "available_bytes", lambda: 300 * bounds.TEXT)
    with pytest.raises(bounds.TooLarge, match="may need 0.0 GB"):
        prompt_files.read(file)


def test_the_command_line_shows_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bounds, "_ALWAYS_BYTES", 0)
    monkeypatch.setattr(bounds, "available_bytes", None)  # the command line sets it
    monkeypatch.setattr(cli, "_available_memory_bytes", lambda: 20)
    _keras(tmp_path / "model.keras")
    words = ["--sut", "keras3-jax", "--scenario", "Offline", "--model"]
    assert cli.main([*words, str(tmp_path / "model.keras"), "--dry-run"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: --model {tmp_path}/model.keras: config.json: reading its 0 MB")
    assert shown.count("\n") == 1
