"""A user's checkpoint of Segment Anything, in Meta's own names."""

import pytest
from safetensors.numpy import load_file, save_file

from harness.errors import UsageError
from harness.inputs import checkpoint, models, user_weights
from tests.support.files import read_json

SAM = models.load("sam")


@pytest.fixture
def folder(tmp_path):
    """Meta's layout: nothing but the tensors."""
    made = checkpoint.ensure(SAM, SAM.sizes["tiny"], tmp_path / "cache").path
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(
        (made / "model.safetensors").read_bytes()
    )
    return tmp_path / "weights"


def test_metas_checkpoint_tells_its_own_configuration(folder, tmp_path):
    found = user_weights.look(folder, SAM)
    tiny = SAM.sizes["tiny"].config
    assert {k: v for k, v in found.size.config.items() if k in tiny} == {
        **tiny,
        "decoder_attention_heads": 8,
    }
    assert found.own_files == [folder / "model.safetensors"]
    assert found.size.facts == SAM.sizes["tiny"].facts
    of_folder = checkpoint.of_folder(found, SAM, tmp_path / "cache")
    assert read_json(of_folder.path / "config.json")["global_attn_indexes"] == [1, 3]


def test_a_pickle_is_refused_with_the_command_that_converts_it(folder):
    (folder / "model.safetensors").rename(folder / "sam_vit_b_01ec64.pth")
    for given in (folder, folder / "sam_vit_b_01ec64.pth"):
        with pytest.raises(
            UsageError,
            match=(
                r"sam_vit_b_01ec64.pth is a pickle.*mkdir NEW && python -c"
                r" .*torch.load\('.*/sam_vit_b_01ec64.pth', weights_only"
            ),
        ):
            user_weights.look(given, SAM)


def test_other_tensors_than_metas_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {f"vision.{name}": value for name, value in tensors.items()}, folder / "model.safetensors"
    )
    with pytest.raises(
        UsageError, match="is no checkpoint of Segment Anything in Meta's own names"
    ):
        user_weights.look(folder, SAM)
