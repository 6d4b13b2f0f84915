"""An architecture says which flags concern it; the others are refused in one sentence, before anything is
made.
"""

import pytest

from formats.record import ArrayKind
from harness.errors import UsageError
from harness.inputs import architectures, dataset, models
from harness.inputs.architectures import Architecture, bert
from tests.support.cells import request


@pytest.fixture
def plain(monkeypatch):
    """BERT's architecture, as if it had synthetic inputs and nothing else."""
    monkeypatch.setattr(bert, "ARCHITECTURE", Architecture(synthetic=bert.ARCHITECTURE.synthetic))


@pytest.mark.parametrize("name", models.names())
def test_every_model_is_of_a_architecture_of_the_table(name):
    assert isinstance(architectures.of(models.load(name)), Architecture)


def test_flags_that_do_not_concern_a_architecture_are_refused(plain, tmp_path):
    (tmp_path / "prompts.txt").write_text("a prompt")
    refused = {
        "dataset": (tmp_path / "prompts.txt", "bert is measured on synthetic inputs only"),
        "weights": (tmp_path, "bert runs with its seeded weights only"),
        "seq_len": (9, "is for models that predict from text, and bert does not"),
        "eos": ("stop", "is for models that generate tokens, and bert does not"),
    }
    for flag, (value, sentence) in refused.items():
        with pytest.raises(
            UsageError, match=f"--{flag.replace('_', '-')} .*: {sentence}: leave it out"
        ):
            request(tmp_path, **{flag: value})


def test_a_architecture_of_synthetic_inputs_alone_has_synthetic_inputs_with_one_warm_up_row(
    plain, tmp_path
):
    import numpy as np

    model = models.load("bert")
    found = dataset.prepare(model, model.sizes["tiny"], 5, None, tmp_path)
    with np.load(found.path) as inputs, np.load(found.synthetic) as synthetic:
        assert (found.count, found.warmup_rows, len(synthetic["input_ids"])) == (5, 1, 6)
        assert not (synthetic["input_ids"][1:] == inputs["input_ids"]).all(axis=1).any()
    assert found.arrays == {
        name: ArrayKind(dtype="int32", shape=(32,)) for name in ("input_ids", "attention_mask")
    }
    assert found.description == architectures.Description()
