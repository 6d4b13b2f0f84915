"""resnet: the validation pictures of ImageNet with MLPerf's list, and the user's ResNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compliance.rules import OfficialWorkload
from compliance.scoring.imagenet import LIST
from harness.errors import UsageError
from harness.inputs.user_weights import Folder
from harness.request.options import Options

_CLASSES = 1000
_HEAD = "ForImageClassification"


def files(options: Options, workload: OfficialWorkload, weights: Folder) -> dict[str, bytes]:
    """The list of the pictures. Raises UsageError if the model has no class for one of them, or if
    a picture is not in the folder.
    """
    dataset = options.dataset
    assert dataset
    heads = weights.size.config["architectures"]
    if not heads[0].endswith(_HEAD):
        raise UsageError(
            f"--benchmark {options.benchmark}: needs {workload.model}, and --weights"
            f" {weights.path} is a {heads[0]}, which has no classes"
        )
    from harness.inputs import imagenet  # it imports Pillow, which few runs need

    content, labels = imagenet.listed(dataset)
    imagenet.check(dataset, labels, weights.size.config["num_labels"])
    return {LIST: content}


def other_model(
    workload: OfficialWorkload,
    weights: Folder,
    files: Mapping[str, bytes],
    differences: Sequence[str],
) -> Sequence[str]:
    """Another number of classes."""
    classes = weights.size.config["num_labels"]
    if classes == _CLASSES:
        return ()
    return (f"classes {classes}, not {_CLASSES}",)
