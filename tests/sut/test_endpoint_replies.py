"""The text of replies: of which fields it is made, which may be null, and which are refused."""

import pytest

from sut.endpoint.causal_lm import _Counts
from sut.endpoint.replies import EndpointError, Reply

ENDED = {"finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2}


def added(document, *, chat=True, streamed=True):
    reply = Reply()
    reply.add(document, chat, streamed)
    return reply


def of_delta(**fields):
    return {"choices": [{"delta": fields}]}


@pytest.mark.parametrize(
    "document",
    [
        {"choices": None, "usage": USAGE},
        {"error": None, "choices": [], "usage": None},
        {"choices": [{"delta": None, "finish_reason": None}]},
        {"choices": [], "usage": {"prompt_tokens": None, "completion_tokens": None}},
        of_delta(role="assistant", content=None, tool_calls=None, reasoning=None, refusal=None),
        of_delta(content="", reasoning_content=None, function_call=None, tool_calls=[]),
    ],
)
def test_a_field_of_a_stream_that_is_null_is_absent(document):
    assert added(document).text == ""


def test_a_field_of_a_whole_answer_that_is_null_is_absent():
    message = {"content": "yes", "reasoning": None, "refusal": None, "tool_calls": None}
    document = {"error": None, "usage": None, "choices": [{"message": message, **ENDED}]}
    assert added(document, streamed=False).text == "yes"
    document = {"error": None, "usage": None, "choices": [{"text": "yes", "logprobs": None}]}
    assert added(document, chat=False, streamed=False).text == "yes"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"reasoning_content": "so", "content": None}, "so"),
        ({"reasoning": "so", "content": ""}, "so"),
        ({"reasoning": "so", "reasoning_content": "so", "content": " yes"}, "so yes"),
        ({"content": None, "refusal": "no"}, "no"),
    ],
)
def test_text_of_every_kind_counts_once_and_may_be_the_first(fields, text):
    for streamed, key in ((True, "delta"), (False, "message")):
        reply = Reply()
        document = {"choices": [{key: fields, **ENDED}]}
        assert reply.add(document, chat=True, streamed=streamed) == reply.text == text
        assert reply.has_reasoning == text.startswith("so")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"error": {"message": "lost"}, "choices": []}, "reports an error: .*lost"),
        ({"object": "error", "message": "lost"}, "a reply without `choices`"),
        ({"choices": None, "usage": None}, "a reply without `choices`"),
        (of_delta(content=["so"]), "a reply without `content`"),
        (of_delta(tool_calls=[{"function": {"name": "f"}}]), "an answer with `tool_calls`"),
    ],
)
def test_a_reply_that_is_no_text_is_refused(document, words):
    with pytest.raises(EndpointError, match=words):
        added(document)


def test_a_whole_answer_whose_text_is_null_has_none():
    with pytest.raises(EndpointError, match="a reply without `content`"):
        added({"choices": [{"message": {"content": None}, **ENDED}]}, streamed=False)


@pytest.mark.parametrize(
    ("text", "has_reasoning", "engines", "words"),
    [
        ("abc", False, 50, "another tokenizer, or tokens that it does not send"),
        ("a\ufffdc", False, 10, "1 of 1 texts have bytes that are no UTF-8"),
        ("abc\ufffd", False, 10, "another tokenizer"),  # cut off within a character
        ("abc", True, 10, "it does not count its reasoning"),
        ("abc", True, 50, "another tokenizer, or tokens that it does not send"),
    ],
)
def test_counts_that_differ_have_their_cause_named(text, has_reasoning, engines, words):
    counts = _Counts()
    reply = Reply(text, "length", completion_tokens=engines, has_reasoning=has_reasoning)
    counts.add(30, reply, prompt=1, is_short=False)
    with pytest.raises(EndpointError, match=words):
        counts.check()


def test_end_tokens_without_text_are_named_if_answers_go_on_after_them():
    counts = _Counts()
    counts.add(260, Reply("abc", "length", completion_tokens=320), prompt=1, is_short=False)
    with pytest.raises(EndpointError, match="--eos ignore goes on after: try --eos stop"):
        counts.check(ignores_ends=True)
