"""The operations and elements that are counted on the reference are those that follow from the
sizes of BERT and Mistral.
"""

from pathlib import Path

import numpy as np
import pytest

from formats import reading
from formats.cell import Cell
from formats.job import REFERENCE as MAKES_REFERENCE
from formats.profile import OTHER
from formats.work import ATTENTION, MATRIX, Counted, Part
from formats.writing import write_json
from harness.inputs import checkpoint, models
from sut.registry import FIT, REFERENCE, spec_of
from tests.conftest import CACHE
from tests.support import jobs
from tests.support.files import read_json
from tests.support.frameworks import run_module

NORM, POINTWISE = "normalisation", "pointwise"
LENGTHS = (5, 9)
"""Tokens of the two inputs of BERT, which are padded to the longer one."""
PROMPT, NEW = 5, 6


def bert_inputs():
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    return {
        "input_ids": np.where(mask, 7, 0).astype(np.int32),
        "attention_mask": mask.astype(np.int32),
    }


def mistral_inputs():
    return {
        "input_ids": np.arange(2 * PROMPT, dtype=np.int32).reshape(2, PROMPT),
        "prompt_length": np.full(2, PROMPT, np.int32),
        "max_new_tokens": np.full(2, NEW, np.int32),
    }


def job_of(name, task, inputs, folder):
    folder.mkdir()
    np.savez(folder / "inputs.npz", **inputs)
    model = models.load(name)
    size = model.sizes["tiny"]
    optimizer = {}
    if task == FIT:
        optimizer = {"optimizer": dict(model.fit["optimizer"]), "adamw": "torch"}
    spec = spec_of(REFERENCE)
    place = {"sut": REFERENCE, "size": "tiny", "scenario": "Offline", "device": "cpu"}
    return jobs.job(
        Cell(model=name, task=task, precision="float32", batch_size=2, **place),
        folder,
        architecture=model.architecture,
        config={"model": dict(size.config), "classes": dict(model.classes), **optimizer},
        checkpoint=checkpoint.ensure(model, size, CACHE).path,
        backend=spec.backend,
        execution=spec.execution,
        test=MAKES_REFERENCE,
        answer=tuple(model.answer_keys),
        inputs=folder / "inputs.npz",
        synthetic=folder / "inputs.npz",
        limits=jobs.limits(2, min_query_count=0),
    )


@pytest.fixture(scope="module")
def folder(interpreter, tmp_path_factory):
    """The folder with the counted work of each case, all of one process."""
    root = tmp_path_factory.mktemp("work")
    python = interpreter("native-torch")
    label = np.zeros(2, np.int32)
    jobs = {
        "bert": job_of("bert", "predict", bert_inputs(), root / "bert"),
        "fit": job_of("bert", FIT, {**bert_inputs(), "label": label}, root / "fit"),
        "mistral": job_of("mistral", "generate", mistral_inputs(), root / "mistral"),
    }
    files = []
    for name, job in jobs.items():
        files.append(str(root / f"{name}.json"))
        write_json(Path(files[-1]), job)
    run_module(python, "tests.sut.work_cases", REFERENCE, root / "spec.json", files)
    return root


def work_of(folder, name):
    counted = reading.from_file(folder / name / "work.json", Counted)
    assert counted.work is not None, counted.reason
    return counted.work


def config_of(name):
    return models.load(name).sizes["tiny"].config


def bert_by_hand(tokens):
    """A forward pass over one input."""
    c = config_of("bert")
    hidden, wide, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    classes = c["num_labels"]
    of_layer = 4 * hidden * hidden + 2 * hidden * wide
    of_head = hidden * hidden + hidden * classes
    biases = layers * (5 * hidden + wide) + hidden + classes
    products = layers * 2 * tokens * of_layer + 2 * of_head
    # Query and key give the scores, which give the output with the value.
    attention = layers * 2 * 2 * tokens * tokens * hidden
    # In units of [tokens, hidden]: query, key and value read the input once and are written and
    # read, attention's output is written and read, and three more arrays are written, two read.
    of_tokens = 12 * tokens * hidden + 2 * tokens * wide
    return Part(
        flops={MATRIX: products, ATTENTION: attention},
        weights=layers * of_layer + of_head + biases,
        activations=layers * of_tokens + 3 * hidden + classes,
        passes=1,
    )


def mistral_by_hand(tokens, before):
    """A forward pass over so many tokens of one sample, after so many tokens in the cache. It gives
    the logits of one token.
    """
    c = config_of("mistral")
    hidden, wide, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    queries = c["num_attention_heads"] * c["head_dim"]
    keys = c["num_key_value_heads"] * c["head_dim"]
    head = c["vocab_size"] * hidden
    of_layer = 2 * hidden * queries + 2 * hidden * keys + 3 * hidden * wide
    past = before + tokens
    products = 2 * tokens * layers * of_layer + 2 * head
    # The cache is read once, although several heads of queries share its heads.
    of_tokens = 4 * hidden + 4 * queries + 2 * keys + 3 * wide
    of_cache = 2 * past * keys
    of_logits = hidden + c["vocab_size"]
    return Part(
        flops={MATRIX: products, ATTENTION: layers * 2 * 2 * tokens * past * queries},
        weights=layers * of_layer + head,
        activations=layers * (tokens * of_tokens + of_cache) + of_logits,
        passes=1,
    )


def mean(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part, 1)
    return Part(flops={}, weights=0, activations=0, passes=0).plus(total, 1 / len(parts))


def assert_same(found, expected):
    assert found.flops == pytest.approx(expected.flops)
    for name in ("weights", "activations", "passes"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name


def test_berts_operations_and_elements_are_those_of_its_sizes_without_padding(folder):
    found = work_of(folder, "bert")
    assert found.token is None
    assert_same(found.first, mean([bert_by_hand(tokens) for tokens in LENGTHS]))


def test_berts_norms_and_softmax_are_counted_by_the_elements_that_they_write(folder):
    c = config_of("bert")
    layers, hidden, heads = c["num_hidden_layers"], c["hidden_size"], c["num_attention_heads"]
    # A norm also writes the mean and the deviation of each token.
    norms = [(1 + 2 * layers) * tokens * (hidden + 2) for tokens in LENGTHS]
    softmax = [layers * heads * tokens * tokens for tokens in LENGTHS]
    written = work_of(folder, "bert").first.written
    # Whether a mask has only ones is another element.
    assert written[NORM] == pytest.approx((sum(norms) + sum(softmax)) / len(LENGTHS) + 1)
    assert set(written) <= {NORM, POINTWISE, OTHER}
    assert written[POINTWISE] > 0


def test_the_optimizers_own_operators_are_not_counted(folder):
    updated = models.load("bert").sizes["tiny"].parameters
    assert work_of(folder, "fit").first.written[POINTWISE] < updated


def test_mistrals_first_token_reads_its_weights_once(folder):
    assert_same(work_of(folder, "mistral").first, mistral_by_hand(PROMPT, 0))


def test_mistrals_later_tokens_read_weights_and_cache(folder):
    found = work_of(folder, "mistral").token
    assert found is not None
    steps = [mistral_by_hand(1, PROMPT + number) for number in range(NEW - 1)]
    assert_same(found, mean(steps))


def test_an_answers_work_follows_from_its_tokens(folder):
    whole = work_of(folder, "mistral").of_sample(NEW)
    steps = [mistral_by_hand(1, PROMPT + number) for number in range(NEW - 1)]
    expected = mistral_by_hand(PROMPT, 0).plus(mean(steps), NEW - 1)
    assert_same(whole, expected)
    by_torch = read_json(folder / "mistral" / "flops.json")
    assert whole.all_flops == pytest.approx(by_torch)


def test_a_step_of_a_training_has_three_times_the_operations_of_a_forward_pass(folder):
    found = work_of(folder, "fit").first
    forward = mean([bert_by_hand(tokens) for tokens in LENGTHS])
    assert found.flops == pytest.approx({name: 3 * n for name, n in forward.flops.items()})
    assert found.passes == 1


def test_a_step_of_a_training_reads_weights_twice_and_updates_them(folder):
    c = config_of("bert")
    hidden, wide, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    matrices = layers * (4 * hidden * hidden + 2 * hidden * wide)
    matrices += hidden * hidden + hidden * c["num_labels"]
    forward = bert_by_hand(1).weights
    # The backward pass reads each matrix, and writes its gradient.
    updates = 6 * models.load("bert").sizes["tiny"].parameters
    assert work_of(folder, "fit").first.weights == forward + 2 * matrices + updates
