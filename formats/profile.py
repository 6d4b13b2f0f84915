"""profile.json: the time of a step by class of operation, from a framework's own profiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCHEMA = "profile-1"
CLASSES = (
    "matrix product",
    "convolution",
    "attention",
    "normalisation",
    "pointwise",
    "embedding and gather",
    "data movement",
    "launch and host overhead",
    "other",
)
"""The classes of operations, in the order of tables and pictures. `sut/evidence/operations.toml`
has the names of the operators of each class.
"""
PRODUCTS = CLASSES[:3]
"""The classes that multiply and add many times for each element that they read."""
HOST = "launch and host overhead"
"""The time in which no operator computes or moves data."""
OTHER = "other"
"""The operators whose names are in no class."""
MOST_OTHER = 0.15
"""The share of `other` above which a profile says so."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operator or kernel of a step.

    Attributes:
        name: its name in the framework's trace.
        kind: one of CLASSES.
        seconds: its time in a step.
        calls: how often a step runs it.
    """

    name: str
    kind: str
    seconds: float
    calls: float


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """A step of a SUT: one batch that is answered, or one step of a training.

    Attributes:
        profiler: the framework's profiler.
        steps: how many steps were profiled.
        unprofiled_seconds: the mean time of a step without the profiler.
        seconds: one of CLASSES → its time in a step. The sum is the profiled step.
        kernels: operators, kernels or thunks of a step that compute or move data.
        operations: the operations that take most of the time, the longest first.
        notes: sentences about this profile.
    """

    profiler: str
    steps: int
    unprofiled_seconds: float
    seconds: Mapping[str, float]
    kernels: float
    operations: tuple[Operation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def profiled_seconds(self) -> float:
        """The mean time of a profiled step."""
        return sum(self.seconds.values())

    @property
    def shares(self) -> dict[str, float]:
        """One of CLASSES → its share of the profiled step."""
        whole = self.profiled_seconds
        return {kind: self.seconds[kind] / whole for kind in CLASSES}


@dataclass(frozen=True, kw_only=True)
class StepOperations:
    """The floating-point operations of a batch of average samples without padding
    (`formats.work`).

    Attributes:
        flops: one of CLASSES → the operations of a step. Products count two for each multiplication
            with its addition. Other operators count one for each element that they write. An
            optimizer is not counted.
    """

    flops: Mapping[str, float]

    @property
    def shares(self) -> dict[str, float]:
        """One of CLASSES → its share of the operations."""
        whole = sum(self.flops.values())
        return {kind: self.flops.get(kind, 0.0) / whole for kind in CLASSES}


@dataclass(frozen=True, kw_only=True)
class ProfiledSut:
    """The profile of one SUT, or the reason why there is none.

    Attributes:
        status: `ok`, or that of a worker that failed.
        reason: why there is no profile.
        versions: versions of the packages of its environment, by name.
    """

    sut: str
    label: str
    status: str
    reason: str = ""
    step: StepProfile | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The content of profile.json: SUTs that did the same work.

    Attributes:
        title: the work in a few words.
        suts: in the order of the command.
        operations: those that the work needs; None: they were not counted.
        no_operations: why they were not counted.
    """

    command: str
    title: str
    machine: str
    suts: tuple[ProfiledSut, ...]
    operations: StepOperations | None = None
    no_operations: str = ""
    schema: str = SCHEMA
