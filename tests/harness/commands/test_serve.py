"""`./run.sh serve` on the mock: the protocol, its limits, and how it ends."""

import json
import shutil
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from formats.writing import write_json
from harness import cli
from harness.commands import serve
from harness.inputs import chat, checkpoint, models, tokenizer
from sut.contract import Workload
from sut.mock import Mock
from tests.conftest import CACHE
from tests.support import server
from tests.support.files import read_json
from tests.support.tokens import bpe

_TEMPLATE = (
    "{% if messages[0].content == 'raise' %}{{ raise_exception('no') }}{% endif %}"
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}\n{% endfor %}{{ more }}assistant:"
)
_NEW = 24
_MESSAGES = [{"role": "user", "content": "ais bjt"}]
_ENDING = [20, 21]
"""A prompt whose answer ends at its third token."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Weights of a user with a tokenizer and a chat template."""
    model = models.load("mistral")
    path = tmp_path_factory.mktemp("weights") / "folder"
    size = model.sizes["tiny"]
    shutil.copytree(checkpoint.ensure(model, size, path.parent / "cache").path, path)
    (path / "digest.json").unlink()
    bpe(size.config["vocab_size"]).save(str(path / "tokenizer.json"))
    (path / "chat_template.jinja").write_text(_TEMPLATE)
    end = own_tokens(path, _ENDING, 3)[-1]
    write_json(path / "generation_config.json", {"eos_token_id": end})
    return path


@pytest.fixture
def short():
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture(scope="module")
def served(folder):
    flags = ("--sut", "mock", "--weights", folder, "--new-tokens", _NEW, "--batch-size", 4)
    with tempfile.TemporaryDirectory() as path:
        with server.running(Path(path), *flags) as running:
            yield running


def own_tokens(folder, ids, new):
    """The tokens that the mock generates after these ids."""
    config = read_json(folder / "config.json")
    mock = Mock(
        Workload(
            model="any",
            task="generate",
            config={"model": config, "prompt_buckets": [64], "new_token_buckets": [_NEW]},
            checkpoint=folder,
            precision="float32",
            batch_size=1,
            device="cpu",
            backend=None,
            execution="eager",
        )
    )
    batch = {
        "input_ids": np.array([ids], np.int32),
        "prompt_length": np.array([len(ids)], np.int32),
        "max_new_tokens": np.array([new], np.int32),
    }
    return mock.to_host(mock.predict(batch))["tokens"][0, :new].tolist()


def own_answer(folder, ids, new):
    """The text of these tokens."""
    answer = own_tokens(folder, ids, new)
    reader = tokenizer.of_folder(folder)
    prompt = reader.decode(ids)
    return reader.decode([*ids, *answer]).removeprefix(prompt)


def test_the_ready_server_says_how_it_is_called(served):
    words = served.text
    assert "folder on mock, float32, cpu, token by token" in words
    assert '/v1/completions -H \'Content-Type: application/json\' -d \'{"model": "folder"' in words
    assert served.get("/health") == (200, {"status": "ok"})
    (model,) = served.get("/v1/models")[1]["data"]
    assert model["id"] == "folder"
    head = served.begin("/v1/completions", b"{}").getresponse()
    assert head.headers["Server"] == "keras-mlperf-harness (mock float32)"
    head.read()


def test_an_answer_is_that_of_the_sut(served, folder):
    ids = tokenizer.of_folder(folder).encode("ais bjt")
    found = served.complete("ais bjt", max_tokens=9, temperature=0, seed=1)
    (choice,) = found["choices"]
    assert choice["text"] == own_answer(folder, ids, 9)
    assert choice["text"]
    assert choice["finish_reason"] == "length"
    assert found["usage"] == {
        "prompt_tokens": len(ids),
        "completion_tokens": 9,
        "total_tokens": len(ids) + 9,
    }
    assert served.complete(ids, max_tokens=9)["choices"] == [choice]


def test_several_prompts_have_the_answers_of_single_ones(served):
    prompts = ["ais", "bjt cks", [5, 6, 7], "dlv", "ais"]
    single = []
    for prompt in prompts:
        single += [choice["text"] for choice in served.complete(prompt, max_tokens=5)["choices"]]
    texts = prompts[:2] + prompts[3:]
    together = served.complete(texts, max_tokens=5)["choices"]
    assert [choice["text"] for choice in together] == single[:2] + single[3:]
    assert [choice["index"] for choice in together] == [0, 1, 2, 3]
    assert single[0] == single[-1] != single[1]


def test_a_stream_has_the_same_text_in_a_part_for_each_token(served):
    body = {"prompt": "ais bjt", "max_tokens": 12}
    whole = served.complete(**body)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    response = served.begin("/v1/completions", body | options).getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    *parts, last = server.events(response)
    texts = [part["choices"][0]["text"] for part in parts]
    assert len(texts) == 12
    assert "".join(texts) == whole["choices"][0]["text"]
    assert [part["choices"][0]["finish_reason"] for part in parts] == [None] * 11 + ["length"]
    assert (last["usage"], last["choices"]) == (whole["usage"], [])


def test_a_chat_is_answered_as_its_template_says(served, folder):
    reader = tokenizer.of_folder(folder)
    text = chat.of_folder(folder, "default", ()).texts({"messages": _MESSAGES})[0]
    plain = served.complete(reader.encode_marked(text), max_tokens=6)
    body = {"messages": _MESSAGES, "max_completion_tokens": 6}
    status, found = served.post("/v1/chat/completions", body)
    (choice,) = found["choices"]
    assert (status, found["object"], found["usage"]) == (200, "chat.completion", plain["usage"])
    assert choice["message"] == {"role": "assistant", "content": plain["choices"][0]["text"]}
    response = served.begin("/v1/chat/completions", body | {"stream": True}).getresponse()
    deltas = [part["choices"][0]["delta"] for part in server.events(response)]
    assert [delta.get("role") for delta in deltas] == ["assistant"] + [None] * 5
    assert "".join(delta["content"] for delta in deltas) == plain["choices"][0]["text"]


def test_a_request_sets_variables_of_the_chat_template(served, folder):
    reader = tokenizer.of_folder(folder)
    plain = served.complete(reader.encode_marked("<s>user: ais bjt\nmore assistant:"))
    body = {"messages": _MESSAGES, "max_tokens": 16, "chat_template_kwargs": {"more": "more "}}
    status, found = served.post("/v1/chat/completions", body)
    assert (status, found["usage"]) == (200, plain["usage"])
    (choice,) = found["choices"]
    assert choice["message"]["content"] == plain["choices"][0]["text"]


def test_an_answer_ends_at_its_end_token_unless_the_request_ignores_it(served):
    found = served.complete(_ENDING, max_tokens=9)
    assert found["usage"]["completion_tokens"] == 3
    assert found["choices"][0]["finish_reason"] == "stop"
    found = served.complete(_ENDING, max_tokens=9, ignore_eos=True, min_tokens=9)
    assert found["usage"]["completion_tokens"] == 9
    assert found["choices"][0]["finish_reason"] == "length"


def test_a_stop_text_ends_an_answer_and_is_not_in_it(served):
    whole = served.complete("ais bjt", max_tokens=_NEW)["choices"][0]["text"]
    stop = whole[len(whole) // 2 :][:3]
    expected = whole.partition(stop)[0]
    body = {"prompt": "ais bjt", "max_tokens": _NEW, "stop": [stop, "not there"]}
    found = served.complete(**body)
    assert found["choices"][0]["text"] == expected
    assert found["choices"][0]["finish_reason"] == "stop"
    assert found["usage"]["completion_tokens"] < _NEW
    response = served.begin("/v1/completions", body | {"stream": True}).getresponse()
    parts = server.events(response)
    assert "".join(part["choices"][0]["text"] for part in parts) == expected


def test_scores_of_a_prompt_are_those_of_the_logits(served):
    ids = [7, 8, 9, 10]
    found = served.complete(ids, max_tokens=1, logprobs=2, echo=True)["choices"][0]["logprobs"]
    assert [len(found[name]) for name in found] == [5, 5, 5, 5]
    assert found["token_logprobs"][0] is None
    # The mock's logits are 10 for its own next token and 0 for the others.
    others = -np.log(np.exp(10) + 999)
    for score, top in zip(found["token_logprobs"][1:], found["top_logprobs"][1:], strict=True):
        assert score == pytest.approx(others) or score == pytest.approx(10 + others)
        assert max(top.values()) == pytest.approx(10 + others)
    assert found["token_logprobs"][-1] == max(found["top_logprobs"][-1].values())


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"prompt": "a", "temperature": 0.5}, 400, "temperature: one greedy text is the answer"),
        ({"prompt": "a", "n": 2}, 400, "n: one greedy text is the answer here: give 1, or leave"),
        ({"prompt": "a", "max_tokens": 25}, 400, "max_tokens: 25 is not from 1 to 24"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens: 0 is not from 1 to 24"),
        ({"prompt": "a", "min_tokens": 2}, 400, "min_tokens: an answer ends at its end token"),
        ({"prompt": "a", "max_tokens": "b"}, 400, "Expected `int | null`, got `str`"),
        ({"prompt": []}, 400, "prompt: a text or a list of ids"),
        ({"prompt": [1, "a"]}, 400, "prompt: is neither texts nor ids"),
        ({"prompt": [1000]}, 400, "ids are from 0 to 999"),
        ({"prompt": [1] * 500}, 400, "prompt: 500 tokens, and at most 488"),
        ({"prompt": "a", "logprobs": 1}, 400, "logprobs: only those of a prompt are computed"),
        ({"prompt": "a", "echo": True}, 400, "give logprobs from 0 to 20, echo, and max_tokens"),
        ({"prompt": "a", "tools": [1]}, 400, "tools: one greedy text is the answer here"),
        ({"prompt": "a", "model": "b"}, 404, "model 'b': there is only 'folder' here"),
        (b"{", 400, "the request is not understood"),
        (b"[]", 400, "the request is not understood"),
        ({"prompt": "a" * (1 << 24)}, 413, "Maximum request body size 16777216 exceeded"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered_is_refused_in_one_sentence(served, body, status, words):
    found, document = served.post("/v1/completions", body)
    assert (found, set(document["error"])) == (status, {"message", "type", "param", "code"})
    assert words in document["error"]["message"]


def test_other_addresses_are_refused_in_the_same_format(served):
    status, found = served.get("/other")
    assert (status, found["error"]["message"]) == (404, "GET /other: 404: Not Found")
    assert served.get("/v1/completions")[0] == 405
    for content, words in (
        ([{"type": "image_url"}], "only text parts are read, and one is of the type 'image_url'"),
        ("raise", "the chat template cannot render them (TemplateError: no)"),
    ):
        messages = [{"role": "user", "content": content}]
        status, found = served.post("/v1/chat/completions", {"messages": messages})
        assert (status, found["error"]["message"]) == (400, f"messages: {words}")


def test_a_client_that_leaves_frees_its_place(short):
    """Each token takes half a second, so that the first request would take twenty seconds."""
    flags = ("--model", "mistral", "--new-tokens", 40, "--batch-size", 1)
    with server.running(short, "--sut", "mock", *flags, "--sut-option", "latency-ms=20000") as slow:
        start = time.monotonic()
        running = slow.begin("/v1/completions", {"prompt": "a", "max_tokens": 40, "stream": True})
        running.getresponse().readline()
        waiting = slow.begin("/v1/completions", {"prompt": "a", "max_tokens": 40})
        time.sleep(1)
        waiting.close()
        running.close()
        slow.complete("a", max_tokens=1)
        assert time.monotonic() - start < 18


def test_a_killed_worker_is_told_to_clients_and_ends_the_command(short):
    flags = ("--model", "mistral", "--sut-option", "latency-ms=20000")
    with server.running(short, "--sut", "mock", *flags) as slow:
        asked = slow.begin("/v1/completions", {"prompt": "a"})
        time.sleep(0.5)
        slow.worker().kill()
        response = asked.getresponse()
        document = json.loads(response.read())
        _, error = slow.process.communicate(timeout=60)
    assert response.status == 503
    assert document["error"]["message"].startswith("the SUT has failed: the server prints")
    assert slow.process.returncode == 1
    assert "error: the worker was killed while it served" in error


def test_ctrl_c_leaves_no_process_and_no_file(short):
    flags = ("--sut", "mock", "--model", "mistral", "--new-tokens", 8)
    with server.running(short, *flags) as running:
        assert '"max_tokens": 8}' in running.text
        worker = running.worker()
        running.complete("a", max_tokens=3)
        code, _, _ = running.end(signal.SIGINT)
    assert code == 0
    assert not psutil.pid_exists(worker.pid)
    assert not list(short.iterdir())


def test_an_error_of_the_sut_is_told_to_clients_and_ends_the_command(short):
    flags = ("--model", "mistral", "--sut-option", "raise-at=2")
    with server.running(short, "--sut", "mock", *flags) as running:
        running.complete("a")
        status, document = running.post("/v1/completions", {"prompt": "a"})
        _, error = running.process.communicate(timeout=60)
    words = "RuntimeError: told to raise at batch 2"
    assert (status, document["error"]["type"]) == (503, "server_error")
    assert running.process.returncode == 1
    assert f"error: {words}" in error


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--model", "bert"), "serve: bert-tiny generates no tokens"),
        (("--new-tokens", "512"), "--new-tokens 512: from 1 to 511"),
        (("--max-tokens", "1048576"), "--max-tokens 1048576: from 2 to the "),
        (("--max-tokens", "0"), "--max-tokens 0: from 2 to the "),
        (("--max-wait-ms", "nan"), "--max-wait-ms nan: at least 0"),
        (("--port", "65536"), "--port 65536: from 0 (any free port) to 65535"),
        (("--host", "no.such.host.invalid"), "give another --port"),
        *(((flag,), f"{flag} is gone: ") for flag in serve._GONE),
    ],
)
def test_flags_that_make_no_sense_are_refused(capsys, flags, words):
    model = () if "--model" in flags else ("--model", "mistral")
    code = cli.main(["serve", "--sut", "mock", "--cache", str(CACHE), *model, *flags])
    error = capsys.readouterr().err
    assert (code, words in error) == (2, True), error
