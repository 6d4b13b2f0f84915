"""How `--benchmark` reads and checks a user's files: a module for each kind of benchmark.

A new kind is a module with functions of a `Kind`, its line in KINDS, and a metric
(compliance.scoring.official).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compliance.rules import OfficialWorkload
from harness.inputs.dataset import UserInputs
from harness.inputs.models import Size
from harness.inputs.user_weights import Folder
from harness.request.benchmarks import imagenet, squad, summaries
from harness.request.options import Options


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The functions of one kind of benchmark. All raise UsageError.

    Attributes:
        check: finds a flag that contradicts the benchmark.
        files: → name of each file that the metric needs → its content.
        other_model: (workload, weights, files, how the model's config.json differs from that of the
            closed division) → how the model differs besides, a phrase each.
        read: → the inputs of --dataset. None: the reader of the architecture reads them.
    """

    check: Callable[[Options, OfficialWorkload], None] = lambda options, workload: None
    files: Callable[[Options, OfficialWorkload, Folder], dict[str, bytes]]
    other_model: Callable[
        [OfficialWorkload, Folder, Mapping[str, bytes], Sequence[str]], Sequence[str]
    ]
    read: Callable[[Options, OfficialWorkload, Size, Folder], UserInputs] | None = None


KINDS = {
    "imagenet": Kind(files=imagenet.files, other_model=imagenet.other_model),
    "squad": Kind(check=squad.check, files=squad.files, other_model=squad.other_model),
    "summaries": Kind(
        check=summaries.check,
        files=summaries.files,
        other_model=summaries.other_model,
        read=summaries.read,
    ),
}
"""Name of a metric in the rules of a round → its kind of benchmark."""
