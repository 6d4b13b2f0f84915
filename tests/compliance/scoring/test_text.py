"""Answers of engines are compared by their text, token by token of the reference."""

import numpy as np
import pytest

from compliance.scoring import accuracy

WORDS = ["</s>", " new", "ly", " York", " newly", " a", "n", "new", "�"]
END = 0
TOLERANCE = {"logit_gap": 0.5, "compared_fraction": 0.1}


def reference(*rows, top=None, ends=True):
    """Rows of tokens, whose first candidate at each place is their own. `top`: (row, place) → the
    further candidates with their logits.
    """
    longest = max(map(len, rows))
    count = len(rows)
    tokens = np.zeros((count, longest), np.int32)
    ids = np.full((count, longest, 3), 8, np.int32)
    logits = np.tile(np.array([9.0, 1.0, 0.0], np.float32), (count, longest, 1))
    for row, own in enumerate(rows):
        tokens[row, : len(own)] = own
        ids[row, : len(own), 0] = own
    for place, candidates in (top or {}).items():
        for k, (token, logit) in enumerate(candidates, 1):
            ids[place][k], logits[place][k] = token, logit
    texts = [word.encode() for word in WORDS]
    found = {
        "tokens": tokens,
        "n_tokens": np.array(list(map(len, rows)), np.int32),
        "top_ids": ids,
        "top_logits": logits,
        "logits": np.tile(np.array([-1.0, 1.0], np.float32), (count, longest, 1)),
        "token_texts": np.frombuffer(b"".join(texts), np.uint8),
        "token_starts": np.cumsum([0, *map(len, texts)]),
    }
    if ends:
        found["end_tokens"] = np.array([END], np.int32)
        found["max_new_tokens"] = np.full(count, longest, np.int32)
    return found


def score(expected, *answers):
    payloads = {row: np.array(tokens, np.int32).tobytes() for row, tokens in enumerate(answers)}
    return accuracy.score("text", payloads, expected, TOLERANCE, ("tokens",), None)


def test_equal_texts_of_other_tokens_are_equal():
    found = score(reference([1, 2, 3, END]), [4, 3, END])
    assert (found.passed, found.value, found.detail["equal_fraction"]) == (True, 0.0, 1.0)


def test_a_space_at_the_beginning_does_not_count():
    assert score(reference([1, 2, END]), [7, 2, END]).value == 0.0


@pytest.mark.parametrize(("logit", "passes"), [(8.8, True), (8.0, False)])
def test_another_token_is_judged_by_the_references_logits(logit, passes):
    expected = reference([5, 1, 3, END], top={(0, 1): [(6, logit)]})
    found = score(expected, [5, 6, 3, END])
    assert found.passed is passes
    assert found.value == pytest.approx(9 - logit)
    assert found.detail["compared_fraction"] == 0.5


def test_the_candidate_with_which_the_rest_begins_counts_however_the_text_is_cut():
    expected = reference([1, 3, END], top={(0, 1): [(2, 8.9)]})
    assert score(expected, [4, END]).value == pytest.approx(0.1, abs=1e-6)


def test_an_unknown_token_has_the_gap_of_the_last_candidate():
    assert score(reference([5, 1, END]), [5, 3, END]).value == pytest.approx(9.0)


def test_an_early_end_is_a_token_like_another():
    expected = reference([5, 1, 3, 5, 5, END], top={(0, 1): [(END, 8.7)]})
    assert score(expected, [5, END]).value == pytest.approx(0.3, abs=1e-6)


def test_a_text_that_stops_without_an_end_has_a_wrong_length():
    found = score(reference([5] * 8), [5] * 3)
    assert (found.passed, found.detail["rows_of_wrong_length"]) == (False, 1)
    assert score(reference([5] * 8), [5] * 7).passed  # the last token may be a part of a character
    assert not score(reference([5] * 8, ends=False), [5] * 12).passed


def test_a_reference_without_texts_cannot_be_compared():
    expected = reference([5, END])
    del expected["token_texts"]
    with pytest.raises(ValueError, match="has no token_texts"):
        score(expected, [5, END])


def test_ids_outside_of_the_vocabulary_are_impossible():
    assert score(reference([5, END]), [99, END]).detail["rows_of_wrong_length"] == 1
