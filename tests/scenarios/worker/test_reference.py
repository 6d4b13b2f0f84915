"""The candidates a reference keeps of each position's logits."""

import numpy as np

from scenarios.worker import reference


def test_the_candidates_are_those_of_a_whole_sort():
    logits = np.random.default_rng(0).random((3, 4, 500), np.float32)
    logits[..., [17, 30]] = 2  # of equal ones the first is the answer, as argmax has it
    expected = np.argsort(-logits, axis=-1, kind="stable")[..., : reference.TOP]
    found = reference._largest(logits)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


class Echo:
    """Answers with its inputs."""

    def predict(self, batch):
        return {"logits": batch["input_ids"].astype(np.float32)}

    def to_host(self, outputs):
        return outputs


def test_the_mask_of_padded_inputs_is_written_if_each_position_has_an_answer(tmp_path):
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    inputs = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "attention_mask": mask}
    path = tmp_path / "reference.npz"
    settings = {"prepared": [inputs], "batch_size": 2, "logits_rows": 0, "on_batch": lambda: None}
    reference.write_reference(path, Echo(), inputs, **settings)
    with np.load(path) as found:
        assert set(found) == {"logits"}
    reference.write_reference(path, Echo(), inputs, **settings, mask="attention_mask")
    with np.load(path) as found:
        assert found["is_token"].tolist() == [[True, True, False], [True, False, False]]
