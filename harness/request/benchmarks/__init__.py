"""How `--benchmark` reads and checks a user's files: a module for each kind of benchmark.

A new kind is a module with the functions of `Kind`, its line in KINDS, and a metric
(compliance.scoring.official).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from compliance.rules import OfficialWorkload
from harness.inputs.dataset import UserInputs
from harness.inputs.models import Model, Size
from harness.inputs.user_weights import Folder
from harness.request.benchmarks import imagenet, squad, summaries
from harness.request.options import Options


class Kind(Protocol):
    """The module of one kind of benchmark."""

    def check(self, options: Options, workload: OfficialWorkload) -> None:
        """Raises UsageError for a flag that contradicts the benchmark."""

    def read(
        self,
        options: Options,
        workload: OfficialWorkload,
        model: Model,
        size: Size,
        weights: Folder,
    ) -> UserInputs | None:
        """The inputs of --dataset. None: the reader of the architecture reads them. Raises
        UsageError.
        """

    def files(
        self, options: Options, workload: OfficialWorkload, weights: Folder
    ) -> dict[str, bytes]:
        """Name of each file that the metric needs → its content. Raises UsageError."""

    def other_model(
        self,
        workload: OfficialWorkload,
        weights: Folder,
        files: Mapping[str, bytes],
        differences: Sequence[str],
    ) -> Sequence[str]:
        """How the model differs from that of the closed division, a phrase each, in addition to the
        `differences` of its config.json. Raises UsageError if the files are not of the model.
        """


KINDS: Mapping[str, Kind] = {"imagenet": imagenet, "squad": squad, "summaries": summaries}
"""Name of a metric in the rules of a round → the module of its benchmarks."""
