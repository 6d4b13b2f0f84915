"""A SUT that streams hands over the tokens of its whole answers, by programs that are compiled
once for each shape.
"""

import numpy as np
import pytest

from compliance import rules
from compliance.checks.run.evidence import findings
from formats.evidence import Evidence
from sut.registry import SUTS, streams
from sut.streaming import one_ahead
from tests.support.files import read_json
from tests.support.long import LONG
from tests.sut.conftest import FOLDER, of_folder, seeded, tokens_of
from tests.sut.streams import STOP

LENGTHS = np.array([3, 40, 17, 9, 30], np.int32)
NEW = np.array([6, 12, 8, 12, 7], np.int32)
BUCKETS = {"prompt_buckets": [16, 40], "new_token_buckets": [8, 12]}
QUICK = ("native-jax", "mistral")
TORCH = ("native-torch-eager", "native-torch-compile")
KERAS = ("keras3-jax", "keras3-tensorflow", "keras3-tensorflow-graph", "keras3-torch")
CELLS = [
    *((sut, "mistral") for sut in (*TORCH, *KERAS, "native-jax") if sut != "keras3-tensorflow"),
    ("keras3-tensorflow", "gpt2"),
    *((sut, "gemma3") for sut in (*TORCH, "keras3-jax")),  # longer than its windows
    ("keras3-jax", "qwen2"),
    ("native-torch-eager", "qwen3"),
    ("native-torch-eager", FOLDER),
]


@pytest.fixture(scope="module")
def told(interpreter, tmp_path_factory, request):
    """(SUT, model) → (its tokens, its facts), as tests/sut/streams.py left them."""
    root = tmp_path_factory.mktemp("streams")
    known = {}

    def tell(sut, name):
        if (sut, name) not in known:
            saved = request.getfixturevalue("saved") if name in (FOLDER, "qwen2") else None
            loaded = of_folder(saved / name, root) if saved else seeded(name, root)
            out = root / f"{sut}-{name}"
            tokens = tokens_of(interpreter, sut, loaded, out, LENGTHS, NEW, BUCKETS, [1, 4], True)
            known[sut, name] = tokens, read_json(out / "facts.json")
        return known[sut, name]

    return tell


PARAMETERS = [pytest.param(*cell, marks=[] if cell == QUICK else LONG) for cell in CELLS]


@pytest.mark.parametrize(("sut", "name"), PARAMETERS)
def test_streamed_tokens_are_those_of_the_whole_answers(told, sut, name):
    tokens, _ = told(sut, name)
    for size in (1, 4):
        np.testing.assert_array_equal(tokens[f"whole {size}"], tokens["whole 1"])
        np.testing.assert_array_equal(tokens[f"streamed {size}"], tokens["whole 1"])


@pytest.mark.parametrize(("sut", "name"), PARAMETERS)
def test_a_stream_ends_when_it_is_told_to(told, sut, name):
    _, facts = told(sut, name)
    assert facts["stopped"] == STOP


@pytest.mark.parametrize(("sut", "name"), PARAMETERS)
def test_a_row_ends_at_its_end_token(told, sut, name):
    """The end token is the third token of the first row."""
    tokens, facts = told(sut, name)
    row = tokens["whole 1"][0]
    expected = row.tolist().index(row[2]) + 1
    assert facts["ended"][0] == expected
    assert facts["ended_tokens"][:expected] == row[:expected].tolist()


@pytest.mark.parametrize(("sut", "name"), PARAMETERS)
def test_each_streamed_token_is_a_call_of_a_program_that_was_compiled_before(told, sut, name):
    _, facts = told(sut, name)
    rule = rules.load().evidence[SUTS[sut].execution]
    for when in ("seen", "seen_ended"):
        before, after = (Evidence(**each) for each in facts[when])
        assert findings(rule, before, after, SUTS[sut].execution) == []
        assert before.graphs == after.graphs
    assert facts["compiled_again"] == 0


def test_one_token_is_begun_before_the_one_before_it_is_handed_over():
    begun = []

    def tokens():
        for number in range(3):
            begun.append(number)
            yield number

    handed_over = [(token, list(begun)) for token in one_ahead(tokens())]
    assert handed_over == [(0, [0, 1]), (1, [0, 1, 2]), (2, [0, 1, 2])]


def test_the_registry_says_which_suts_stream():
    expected = {"mock", "endpoint", *TORCH, *KERAS, "native-jax", "onnxruntime", "openvino"}
    assert {sut for sut in SUTS if streams(sut, "causal_lm")} == expected
