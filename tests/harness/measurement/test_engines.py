"""A cell of an engine that answers well, wrongly, late, or not at all."""

import json
import threading
import time
from pathlib import Path

import pytest

from formats import reading
from formats.record import Record
from harness.errors import UsageError
from harness.measurement import engines, run
from results import summary
from sut.endpoint import causal_lm
from tests.harness.inputs.test_chat import THINKING, folder
from tests.support import cells
from tests.support.cells import Reporter
from tests.support.engine import KEY, running
from tests.support.files import write_rows
from tests.support.tokens import bpe
from tests.support.weights_folders import made

VOCABULARY = 300
TIMEOUT_S = 1.5
_EMPTY = str(Path(__file__).with_name("__init__.py"))


@pytest.fixture
def model(made, tmp_path):
    """Flags of a cell of a small model with a tokenizer, a chat template and eight prompts."""
    path = folder(made("llama"), THINKING)
    bpe(VOCABULARY).save(str(path / "tokenizer.json"))
    rows = ({"prompt": f"ais bjt {n}", "max_new_tokens": 4 + n} for n in range(8))
    return {"weights": path, "dataset": write_rows(tmp_path / "prompts.jsonl", rows)}


def request(engine, out, model, **flags):
    given = {"model": None, "duration": 1.0, **model, **flags}
    own = given.pop("options", None) or {}
    options = {"url": engine.url, "weights": "other", "timeout-s": TIMEOUT_S, **own}
    return cells.request(out, sut="endpoint", options=options, **given)


def measured(engine, tmp_path, model, **changes):
    asked = request(engine, tmp_path / "runs", model, **changes)
    return run.run(asked, Reporter(), time.monotonic_ns())


@pytest.mark.parametrize("stream", ["off", "on"])
@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Offline"])
def test_an_engine_is_measured_in_every_scenario(tmp_path, model, scenario, stream):
    with running(bpe(VOCABULARY)) as engine:
        found = measured(engine, tmp_path, model, scenario=scenario, stream=stream)
    assert (found.status, found.reason) == ("ok", "")
    assert found.measured["tokens"] == 7.5 * found.measured["samples"]
    words = f"an engine at {engine.url}, server fake/1, version 1.2.3, model small"
    assert words in found.evidence.sentence
    assert found.seen.detail["network_ms"] > 0
    (why,) = [note for note in found.warnings if "accuracy not judged" in note]
    assert "the engine has other weights than --weights" in why
    batch = 8 if scenario == "MultiStream" else 1
    assert (found.cell.precision, found.cell.batch_size) == ("unknown", batch)
    assert found.cell.stream == (stream == "on")
    streamed = [bool(each.get("stream")) for each in engine.requests[3:]]
    assert all(streamed) if stream == "on" else not any(streamed)


VLLM = """# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="fp8",enable_prefix_caching="True",engine="0"} 1.0
"""
LLAMA_CPP = json.dumps({"total_slots": 4, "default_generation_settings": {"n_ctx": 512}})


@pytest.mark.parametrize(
    ("path", "page", "words", "notes"),
    [
        (
            "/metrics",
            VLLM,
            "settings enable_prefix_caching=True cache_dtype=fp8 block_size=128",
            ["keeps what it has computed of earlier prompts", "keys and values in fp8"],
        ),
        ("/props", LLAMA_CPP, "settings total_slots=4 n_ctx=512", []),
        ("/props", "[4]", "version 1.2.3, model small, prompts", []),
        ("/metrics", "another_metric 1.0", "version 1.2.3, model small, prompts", []),
    ],
)
def test_settings_that_an_engine_reports_are_told(tmp_path, model, path, page, words, notes):
    with running(bpe(VOCABULARY)) as engine:
        engine.pages[path] = page
        found = measured(engine, tmp_path, model)
    assert found.status == "ok"
    assert words in str(found.evidence.sentence)
    for note in notes:
        assert any(note in each for each in found.warnings), note


def test_a_server_sends_each_request_when_it_arrives(tmp_path, model):
    with running(bpe(VOCABULARY)) as engine:
        flags = {"scenario": "Server", "max_latency_ms": 2000.0, "rate": 40.0}
        found = measured(engine, tmp_path, model, **flags)
    assert (found.status, found.reason) == ("ok", "")
    assert found.cell.rate == 40.0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("500", 'HTTP 500: {"error": "no memory left, and the key is …"}'),
        ("garbage", "a reply that is not JSON: <html>hello</html>"),
        ("no choices", "a reply without `choices`"),
        ("half", "the engine closed the connection in the middle of a reply"),
        ("closed", "the engine closed the connection"),
        ("silence", "sent no part of an answer for 1.5 s (timeout-s), and 1 request waited"),
    ],
)
@pytest.mark.parametrize("scenario", ["SingleStream", "Offline"])
def test_a_wrong_answer_ends_the_run_with_its_reason(
    tmp_path, model, monkeypatch, fault, words, scenario
):
    monkeypatch.setenv("ENGINE_KEY", KEY)
    with running(bpe(VOCABULARY)) as engine:
        engine.fault, engine.after = fault, 30  # in calibration or in the test
        start, key = time.monotonic(), {"key-env": "ENGINE_KEY"}
        found = measured(engine, tmp_path, model, scenario=scenario, options=key)
    assert found.status == "error"
    assert words.replace("1 request waited", "") in found.reason
    assert found.reason.startswith("EndpointError: ")
    assert time.monotonic() - start < 60
    assert engine.keys == {f"Bearer {KEY}"}
    for path in (tmp_path / "runs").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("endless", "a stream goes on after"),
        ("early end", "a reply ended without a finish_reason, after"),
    ],
)
def test_a_broken_stream_ends_the_run_with_its_reason(tmp_path, model, fault, words):
    with running(bpe(VOCABULARY)) as engine:
        engine.fault, engine.after = fault, 30
        found = measured(engine, tmp_path, model, stream="on")
    assert found.status == "error"
    assert words in found.reason


def test_an_engine_that_is_killed_in_the_middle_of_a_test_ends_it(tmp_path, model):
    with running(bpe(VOCABULARY)) as engine:

        def kill():
            while len(engine.requests) < 60:
                time.sleep(0.01)
            engine.fault = "closed"
            engine.shutdown()
            engine.socket.close()

        threading.Thread(target=kill, daemon=True).start()
        found = measured(engine, tmp_path, model, scenario="Offline")
    assert found.status == "error"
    assert "the engine closed the connection" in found.reason or "Connect" in found.reason


def test_no_engine_at_the_address_is_said(tmp_path, model):
    with running(bpe(VOCABULARY)) as engine:
        pass
    found = measured(engine, tmp_path, model)
    assert found.status == "error"
    assert f"GET {engine.url}/models: Cannot connect to host" in found.reason


def test_requests_in_flight_are_limited_if_the_user_says_so(tmp_path, model):
    with running(bpe(VOCABULARY)) as engine:
        measured(engine, tmp_path, model, scenario="Offline", options={"in_flight": 2})
    assert engine.most_open == 2
    with running(bpe(VOCABULARY)) as engine:
        measured(engine, tmp_path, model, scenario="Offline")
    assert engine.most_open > 2


def test_an_engine_without_ids_gets_the_text_of_which_it_makes_the_same_ids(tmp_path, model):
    for takes_ids in (True, False):
        with running(bpe(VOCABULARY), takes_ids=takes_ids) as engine:
            found = measured(engine, tmp_path / str(takes_ids), model)
        detail = found.seen.detail
        assert detail["prompts"] == ("ids" if takes_ids else "text")
        assert detail["prompts_of_other_length"] == 0
    assert " ais bjt 3" in [each["prompt"] for each in engine.requests]


def test_an_engine_with_chat_gets_the_messages_of_the_prompts_and_its_reasoning_counts(
    tmp_path, model
):
    with running(bpe(VOCABULARY), "reasoning") as engine:
        found = measured(engine, tmp_path, model, chat="default", stream="on", eos="ignore")
    assert (found.status, found.reason) == ("ok", "")
    sent = [each["messages"] for each in engine.requests]
    assert [{"role": "user", "content": "ais bjt 3"}] in sent
    assert any("applies its own chat template" in note for note in found.warnings)
    assert any(note.startswith("100% of the answers begin with reas") for note in found.warnings)


def test_tokens_that_the_engine_counts_otherwise_are_reported_or_end_the_run(tmp_path, model):
    with running(bpe(VOCABULARY)) as engine:
        engine.more_tokens = 5
        found = measured(engine, tmp_path, model)
    assert found.status == "error"
    assert "it has another tokenizer, or tokens that it does not send" in found.reason


@pytest.mark.parametrize("stream", ["off", "on"])
def test_an_answer_that_the_engine_cuts_short_ends_a_run_in_which_each_has_all_its_tokens(
    tmp_path, model, stream
):
    with running(bpe(VOCABULARY), "short") as engine:
        found = measured(engine, tmp_path, model, stream=stream, eos="ignore")
    assert found.status == "error"
    assert "an answer ended after 5 of " in found.reason
    assert "longer than the engine's window, or it has a limit of its own" in found.reason


def test_the_share_of_answers_that_the_engine_cuts_short_is_reported(tmp_path, model):
    with running(bpe(VOCABULARY), "short") as engine:
        found = measured(engine, tmp_path, model, eos="stop")
    assert found.status == "ok"
    # The prompts request 4 to 11 tokens, and get 5 at most.
    assert any(note.startswith("75% of the answers ended for their") for note in found.warnings)


@pytest.mark.parametrize(
    ("engines", "ours", "most", "is_short"),
    [
        (20, 20, 20, False),
        (20, 17, 20, False),  # its text has other tokens
        (19, 20, 20, False),
        (10, 10, 20, True),
        (None, 18, 20, False),
        (None, 17, 20, True),
    ],
)
def test_an_answer_is_short_by_the_counts_of_the_engine_and_of_the_tokenizer(
    engines, ours, most, is_short
):
    assert causal_lm._is_short(engines, ours, most) is is_short


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ({"stream": "on"}, "ok"),
        ({"scenario": "Server", "max_tpot_ms": 50.0, "rate": 40.0}, "invalid"),
    ],
)
def test_a_time_per_token_that_cannot_be_seen_is_not_shown_and_holds_no_limit(
    tmp_path, model, flags, status
):
    with running(bpe(VOCABULARY), "one part") as engine:
        found = measured(engine, tmp_path, model, **flags)
    words = "time per token cannot be seen: 100% of the answers came in one part"
    assert words in found.warnings
    assert (found.status, found.cause) == (status, None if status == "ok" else "evidence")
    assert words in found.reason or status == "ok"
    assert "ttft_p50_ms" in found.metrics and "tpot_p50_ms" not in found.metrics
    assert "later token" not in summary.tokens(found)


def test_no_rate_is_searched_for_a_time_per_token_that_cannot_be_seen(tmp_path, model):
    with running(bpe(VOCABULARY), "one part") as engine:
        found = measured(engine, tmp_path, model, scenario="Server", max_tpot_ms=50.0)
    assert found.status == "skipped"
    assert "so no rate can be shown to be within --max-tpot-ms 50" in found.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"options": {"url": "127.0.0.1:8000"}}, "is not an address such as http://127.0.0.1"),
        ({"options": {"url": "http://user:word@host/v1"}}, "a key is given by key-env or key-file"),
        ({"options": {"key-env": "NO_SUCH"}}, "there is no such environment variable"),
        ({"options": {"key-file": "/no/such"}}, "there is no such file"),
        ({"options": {"key-file": _EMPTY}}, "the file has no key"),
        ({"options": {"key-file": __file__, "key-env": "PATH"}}, "a key is given once"),
        ({"options": {"in_flight": 0}}, "is not a whole number above 0"),
        ({"options": {"timeout-s": "x"}}, "is not a number above 0"),
        ({"precision": "float32"}, "the engine decides it"),
        ({"scenario": "Offline", "batch_size": 4}, "the engine forms its own batches"),
        ({"weights": None, "model": "llama"}, "needs the folder of the engine's model"),
    ],
)
def test_flags_that_do_not_fit_are_refused(tmp_path, model, change, words):
    engine = type("Engine", (), {"url": "http://127.0.0.1:1/v1"})
    with pytest.raises(UsageError, match=words):
        request(engine, tmp_path, {**model, **change})


def test_the_texts_of_tokens_are_those_in_the_middle_of_a_text(model, tmp_path):
    tokenizer = bpe(VOCABULARY)
    engine = type("Engine", (), {"url": "http://127.0.0.1:1/v1"})
    asked = request(engine, tmp_path, model)
    texts = engines.token_texts(asked.weights.tokenizer)
    ids = tokenizer.encode("ais bjt", add_special_tokens=False).ids
    assert "".join(texts[i] for i in ids) == " ais bjt"
    assert (texts[2], len(texts)) == ("</s>", VOCABULARY)


def test_a_record_of_an_engine_is_read_again(tmp_path, model):
    with running(bpe(VOCABULARY)) as engine:
        found = measured(engine, tmp_path, model)
    path = next((tmp_path / "runs").rglob("record.json"))
    record = reading.from_file(path, Record)
    assert (record.execution, record.framework, record.accuracy.score) == ("engine", "", "text")
    assert set(record.accuracy.tolerance) == {"logit_gap", "compared_fraction"}
    assert (found.status, found.audit["FAIL"]) == ("ok", 0)
