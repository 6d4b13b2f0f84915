"""Answers that are handed over token by token."""

import numpy as np
import pytest

from scenarios.worker.queries import streaming
from scenarios.worker.queries.streaming import Responder, Streamed, answering
from scenarios.worker.watch import Watch

PROMPT = 20
NOBODY = Responder(lambda ids, payload, indices: None, lambda ids, tokens: None)
TOKENS = np.array([[5, 6, 7, 8], [9, 2, 3, 4], [1, 1, 1, 1]], np.int32)


class Sut:
    """Streams TOKENS, and counts its steps."""

    def __init__(self, stops_after=4):
        self.steps = 0
        self.stops_after = stops_after

    def stream(self, batch, on_step):
        for step in range(self.stops_after):
            self.steps += 1
            if not on_step(TOKENS[:, step]):
                return


def batch(*requested):
    return {
        "max_new_tokens": np.array(requested, np.int32),
        "prompt_length": np.full(len(requested), PROMPT, np.int32),
    }


def told(sut, ends, requested, ids):
    """What a responder is told of one batch."""
    events = []

    def complete(ids, payload, indices):
        events.append(("complete", list(ids), payload[0].tolist(), payload[1], list(indices)))

    respond = Responder(
        complete, lambda ids, tokens: events.append(("first", list(ids), tokens.tolist()))
    )
    answer = answering(Streamed(sut, ends), respond, ("tokens",), Watch())
    answer(batch(*requested), ids, [10 * number for number in ids])
    return events


def test_first_tokens_come_before_answers_and_a_row_ends_by_itself():
    assert told(Sut(), (), (2, 4, 4), (0, 1)) == [
        ("first", [0, 1], [[5], [9]]),
        ("complete", [0], [[5, 6, 0, 0]], [8], [0]),
        ("complete", [1], [[9, 2, 3, 4]], [16], [10]),
    ]


def test_an_end_token_ends_a_row_and_the_batch_stops_when_all_have_ended():
    sut = Sut()
    events = told(sut, (2, 6), (4, 4, 4), (0, 1))
    assert events[1:] == [("complete", [0, 1], [[5, 6, 0, 0], [9, 2, 0, 0]], [8, 8], [0, 10])]
    assert sut.steps == 2


def test_whole_answers_are_those_that_were_streamed():
    answers = Streamed(Sut(), (2,)).predict(batch(2, 4, 3))
    assert answers["n_tokens"].tolist() == [2, 2, 3]
    assert answers["tokens"].tolist() == [[5, 6, 0, 0], [9, 2, 0, 0], [1, 1, 1, 0]]


def test_a_sut_that_stops_too_early_is_refused():
    with pytest.raises(ValueError, match="stopped after 3 tokens, and 2 of 3 answers had not"):
        Streamed(Sut(stops_after=3), ()).predict(batch(2, 4, 4))


def test_the_times_of_tokens_are_recorded():
    watch = Watch()
    answer = answering(Streamed(Sut(), ()), NOBODY, ("tokens",), watch)
    answer(batch(4, 4, 1), (0, 1, 2), (0, 1, 2))
    assert len(watch.first_ns) == 3
    assert len(watch.later_ns) == 2  # one answer has no later token
    assert set(watch.token_latencies()) == {
        f"{name}_p{percent}_ms" for name in ("ttft", "tpot") for percent in (50, 90, 99)
    }


class Timed:
    """A clock that only computing moves: a pass over the prompt costs as much as `prompt` tokens,
    and handing over a token a hundredth of computing it.
    """

    def __init__(self, prompt, at_once):
        self.prompt, self.at_once, self.now = prompt, at_once, 0.0

    def clock(self):
        return self.now

    def stream(self, batch, on_step):
        steps = TOKENS.shape[1]
        self.now += self.prompt
        if self.at_once:
            self.now += steps - 1
        for step in range(steps):
            on_step(TOKENS[:, step])
            self.now += 0.01 if self.at_once else 1


@pytest.mark.parametrize("prompt", [0.1, 1, PROMPT])
@pytest.mark.parametrize(("computes_at_once", "in_one_part"), [(False, 0), (True, 2)])
def test_tokens_that_are_handed_over_after_all_are_computed_are_noticed(
    monkeypatch, prompt, computes_at_once, in_one_part
):
    sut, watch = Timed(prompt, computes_at_once), Watch()
    monkeypatch.setattr(streaming, "_clock", sut.clock)
    answer = answering(Streamed(sut, ()), NOBODY, ("tokens",), watch)
    answer(batch(4, 4, 1), (0, 1, 2), (0, 1, 2))
    assert (watch.in_one_part, watch.share_in_one_part) == (in_one_part, in_one_part / 2)
