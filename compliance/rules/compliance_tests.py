"""The rules of the compliance tests as frozen dataclasses, one for each table of a round's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ComplianceTest:
    """One TESTxx of mlcommons/inference, compliance/.

    Attributes:
        required_by: the official benchmarks that need it in the closed and network divisions.
        audit: the settings in its audit.config, without the sampling target.
        files, optional_files: the files that its folder of the submission must contain, and those
            that it may contain.
        sampling_target: official benchmark, or "*" → the number of answers that LoadGen is to log;
            empty: the test logs none.
        truncated: whether its log of answers is truncated like the accuracy run's, with the hash in
            its accuracy.txt.
        tolerance: how much its speed may differ, as a fraction of the performance run's; None:
            speeds are not compared.
        tolerance_single_stream: the same for SingleStream and MultiStream, if the latency is at
            most `short_latency_ns`.
        short_latency_ns: scenario → that latency.
        only_faster: whether the test may be slower by any amount.
    """

    required_by: tuple[str, ...]
    audit: Mapping[str, int]
    files: tuple[str, ...]
    optional_files: tuple[str, ...] = ()
    sampling_target: Mapping[str, int] = field(default_factory=dict)
    truncated: bool = False
    tolerance: float | None = None
    tolerance_single_stream: float | None = None
    short_latency_ns: Mapping[str, int] = field(default_factory=dict)
    only_faster: bool = False

    def settings(self, official: str | None) -> dict[str, int]:
        """The whole audit.config for this official benchmark: key → value, in the file's order."""
        target = self.sampling_target.get(official or "*", self.sampling_target.get("*"))
        return {
            **self.audit,
            **({} if target is None else {"accuracy_log_sampling_target": target}),
        }


@dataclass(frozen=True)
class ScoredTest:
    """A TESTxx that a benchmark's own script scores. Only its `verdict_file` in the submission says
    how it ended.
    """

    required_by: tuple[str, ...]
    verdict_file: str


@dataclass(frozen=True)
class OutputLength:
    """The limit on the mean length of TEST01's answers: the fraction by which that length may
    differ from the accuracy run's.
    """

    tolerance: float


@dataclass(frozen=True)
class Repeats:
    """The limits beyond which repeated samples look as if their answers were kept.

    Attributes:
        odd: a person has to judge if a sample takes so many times as long the first time as later
            on.
        least_seconds: new samples must take at least so long together. If they take less, the
            warming up of the machine may be the cause.
    """

    odd: float
    least_seconds: float
