"""`--benchmark llama3.1-8b`: the sentences before a run, and the verdict after it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from compliance import audit, rules
from formats.checks import Verdict
from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs.architectures import text
from harness.request import estimate
from results import summary
from tests.support import article_files
from tests.support.cells import measure, request
from tests.support.files import read_json, update_json
from tests.support.rounds import use_benchmark

ARTICLES = article_files.ARTICLES
LLAMA_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
}


@pytest.fixture
def files(tmp_path):
    """The file of articles, and the folder of the model."""
    return article_files.write(tmp_path)


def asked(tmp_path, files, **changes):
    data, weights = files
    flags = {"model": None, "benchmark": "llama3.1-8b-edge", "scenario": "Offline"}
    return request(tmp_path / "runs", **flags | {"weights": weights, "dataset": data} | changes)


def test_the_plan_says_what_an_eligible_result_lacks(tmp_path, files):
    planned = asked(tmp_path, files)
    found = planned.official_run
    assert (planned.benchmark, planned.official) == ("llama3.1-8b-edge", "llama3.1-8b-edge")
    assert (found.suite, found.scenarios) == ("edge", "SingleStream and Offline")
    assert found.target.startswith("ROUGE1 at least 38.6694, ROUGE2 at least 15.953553, ")
    assert found.target.endswith("GEN_LEN at least 2746001.7, GEN_LEN at most 3356224.3")
    assert "hidden_size 64, not 4096" in found.division
    samples, mode, submitter, system = found.lacks
    assert samples == f"{ARTICLES} of 5,000 samples"
    assert (mode, submitter) == ("mode quick, not submission", "no --submitter")
    assert system.startswith("no --system FILE with ")
    notes = " ".join(planned.reasons)
    assert f"{ARTICLES} articles of " in notes
    assert "llama3.1-8b-edge requires token latencies" in notes
    assert "chat template" not in notes


def test_prompts_are_the_tokens_of_the_file_and_answers_have_128(tmp_path, files):
    planned = asked(tmp_path, files)
    rows = read_json(files[0])
    arrays = planned.given.arrays
    lengths = arrays["prompt_length"].tolist()
    assert lengths == [len(row["tok_input"]) for row in rows]
    for ids, length, row in zip(arrays["input_ids"], lengths, rows, strict=True):
        assert ids[:length].tolist() == row["tok_input"]
        assert not ids[length:].any()
    assert set(arrays["max_new_tokens"].tolist()) == {128}
    assert planned.end_tokens == (article_files.END,)
    assert planned.stream


def test_the_datacenter_needs_offline_and_one_of_two_more(tmp_path, files):
    planned = asked(tmp_path, files, benchmark="llama3.1-8b", scenario="Server")
    found = planned.official_run
    assert found.suite == "datacenter"
    assert found.scenarios == "Offline, and Interactive or Server"
    assert found.lacks[0] == f"{ARTICLES} of 13,368 samples"
    assert (planned.serving.max_ttft_ms, planned.serving.max_tpot_ms) == (2000, 100)
    interactive = asked(tmp_path, files, benchmark="llama3.1-8b", scenario="Interactive").serving
    assert (interactive.max_ttft_ms, interactive.max_tpot_ms) == (500, 30)


def test_without_token_latencies_a_result_is_not_eligible(tmp_path, files):
    planned = asked(tmp_path, files, stream="off")
    assert not planned.stream
    assert "token latencies, which --stream off leaves out" in planned.official_run.lacks


def test_settings_of_the_longer_modes_are_those_of_the_round(tmp_path, files):
    planned = asked(tmp_path, files, benchmark="llama3.1-8b", mode="valid", duration=None)
    found = planned.limits(13368, uneven=True)
    assert (found.min_duration_ms, found.min_query_count) == (600_000, 13368)
    assert (found.performance_sample_count, found.equal_issue) == (13368, True)


@pytest.mark.parametrize(
    ("eos", "phrases"),
    [
        ([1, 3, 4], []),
        (1, ["its answers end at the tokens 1, and those of the Instruct model end at 1, 3, 4"]),
    ],
)
def test_the_base_model_has_the_sizes_and_not_the_end_tokens(
    tmp_path, files, monkeypatch, eos, phrases
):
    """As if the small model had the numbers of Llama 3.1 8B."""
    real = rules.load().workloads["summaries"]
    assert (real.closed_model, real.end_tokens) == (LLAMA_8B, (128001, 128008, 128009))
    update_json(files[1] / "config.json", eos_token_id=eos)
    small = structs.replace(article_files.as_if_closed(real), end_tokens=(1, 3, 4))
    use_benchmark(monkeypatch, "llama3.1-8b-edge", "summaries", small)
    found = asked(tmp_path, files).official_run
    assert list(found.other_model) == phrases
    assert found.division.startswith("open, because" if phrases else "closed, if the weights")


def test_a_switch_that_is_only_for_offline_leaves_no_second_scenario(tmp_path, files):
    changes = {"benchmark": "llama3.1-8b", "tuned": "batch-x2"}
    assert "Interactive or Server" in asked(tmp_path, files, **changes).official_run.eligibility


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weights": None}, "needs --weights DIR, .* and --dataset FILE, which is cnn_eval.json"),
        ({"scenario": "Server"}, "llama3.1-8b-edge has SingleStream, Offline in v6.1"),
        ({"new_tokens": 64}, "^--new-tokens 64: llama3.1-8b-edge decides the prompts, .* leave it"),
        ({"eos": "ignore"}, "^--eos ignore: llama3.1-8b-edge decides"),
        ({"chat": "default"}, "^--chat: llama3.1-8b-edge decides"),
        ({"max_ttft_ms": 9000.0}, "^--max-ttft-ms 9000.0: llama3.1-8b-edge decides"),
        ({"seq_len": 64}, "--seq-len 64: is for models that predict"),
    ],
)
def test_flags_that_contradict_the_benchmark_are_refused(tmp_path, files, changes, sentence):
    with pytest.raises(UsageError, match=sentence):
        asked(tmp_path, files, **changes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: {"data": rows}, "is not a JSON list of articles .* got `object`"),
        (lambda rows: [], "is not a JSON list of articles .* length >= 1"),
        (
            lambda rows: [{k: v for k, v in row.items() if k != "tok_input"} for row in rows],
            r"missing required field `tok_input` - at `\$\[0\]`",
        ),
        (lambda rows: [rows[0] | {"tok_input": []}], r"length >= 1 - at `\$\[0\]\.tok_input`"),
        (lambda rows: [rows[0] | {"tok_input": [1, -1]}], r"tok_input\[1\]"),
        (lambda rows: [rows[0] | {"output": 1}], r"Expected `str`, got `int` - at"),
        (
            lambda rows: [rows[0], rows[1] | {"tok_input": [1, 128000]}],
            "article 2 has the token 128000, and the model of --weights has 1000 tokens",
        ),
        (
            lambda rows: [rows[0] | {"tok_input": [7] * 131000}],
            "131000 tokens, and with 128 new ones they are more than the 131072 positions",
        ),
        (
            lambda rows: [row | {"tok_input": row["tok_input"][::-1]} for row in rows],
            "`tok_input` is not `input` in the tokens of --weights .* of another model",
        ),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path, files, change, sentence):
    rows = read_json(files[0])
    write_json(files[0], change(rows))
    with pytest.raises(UsageError, match=sentence):
        asked(tmp_path, files)


def test_text_that_is_no_json_is_refused(tmp_path, files):
    files[0].write_text("Four score and seven years ago")
    with pytest.raises(UsageError, match="is not a JSON list of articles .* malformed"):
        asked(tmp_path, files)


def test_a_folder_without_what_the_answers_need_is_refused(tmp_path, files):
    _, weights = files
    (weights / "tokenizer.json").rename(weights / "kept.json")
    with pytest.raises(UsageError, match="there is no tokenizer.json in it, by which answers beco"):
        asked(tmp_path, files)
    (weights / "kept.json").rename(weights / "tokenizer.json")
    update_json(weights / "config.json", eos_token_id=None)
    with pytest.raises(UsageError, match="an eos_token_id, at which an answer ends: add it"):
        asked(tmp_path, files)


def test_a_model_that_generates_no_text_is_refused(tmp_path, files):
    update_json(files[1] / "config.json", architectures=["BertForSequenceClassification"])
    update_json(files[1] / "config.json", model_type="bert")
    with pytest.raises(UsageError, match=r"needs a model that generates text .* is bert"):
        asked(tmp_path, files)


def test_the_estimate_counts_the_tokens_of_the_articles(tmp_path, files):
    planned = asked(tmp_path, files, sut="native-torch-eager")
    of_size = estimate._sample_seconds(replace(planned, given=None))
    assert estimate._sample_seconds(planned) > 2 * of_size


def test_rows_of_numbers_and_lists_are_padded_alike(tmp_path, files):
    size = asked(tmp_path, files).size
    rows = [[5, 6, 7], [8]]
    assert text.padded(rows, 3, size).tolist() == [[5, 6, 7], [8, 0, 0]]
    assert text.padded([np.array(row, np.int32) for row in rows], 3, size).dtype == np.int32


def test_a_run_shows_the_metric_and_the_audit_computes_it_again(tmp_path, files):
    found = measure(asked(tmp_path, files))
    assert (found.status, found.reason) == ("ok", "")
    assert any(note.startswith("not eligible: 30 of 5,000 samples") for note in found.warnings)
    rows = dict(summary.rows(found))
    assert rows["accuracy"].startswith("ROUGE1 ")
    assert "GEN_LEN 2746001.7, GEN_LEN at most 3356224.3 in the closed division" in rows["accuracy"]
    assert rows["reference"].startswith("pass: ")
    directory = Path(found.directory)
    names = sorted(path.name for path in (directory / "benchmark").iterdir())
    assert names == ["targets.json", "tokenizer.json", "tokenizer_config.json"]
    (line,) = directory.rglob("open/**/accuracy.txt")
    assert line.read_text().startswith("{'rouge1': '")
    assert "'gen_num': 30}" in line.read_text()
    checks = audit.audit(directory).checks
    assert [c.line() for c in checks if c.verdict is Verdict.FAIL and c.level == "quick"] == []
    line.write_text(line.read_text().replace("'rouge1': '", "'rouge1': '9"))
    failed = {c.id: c for c in audit.audit(directory).checks if c.verdict is Verdict.FAIL}
    assert "the whole log scores" in failed["accuracy-score"].detail


def test_the_verdict_is_that_of_the_official_metric(tmp_path, files, monkeypatch):
    """As if 30 articles were all, and the small model that of the closed division."""
    real = rules.load().workloads["summaries"]
    small = article_files.as_if_closed(real)
    use_benchmark(monkeypatch, "llama3.1-8b-edge", "summaries", small, dataset_size=ARTICLES)
    found = measure(asked(tmp_path, files))
    assert (found.status, found.cause) == ("invalid", "accuracy")
    assert "and at least 38.6694 is required" in found.reason
    assert found.accuracy.passed
    assert dict(summary.rows(found))["accuracy"].startswith("FAIL: ROUGE1 ")
