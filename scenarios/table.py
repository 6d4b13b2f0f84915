"""The table of scenarios, as one literal dict. The worker, the plan and the flags read it.

This module imports only formats and the standard library.

LoadGen's scenarios answer queries. `Fit` is not one of them: it times training steps
(`scenarios.worker.fit`).

A new scenario is a file next to this one and an entry here. compliance/ has its own tables on
purpose, because it must not trust the code that it judges.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from formats.figures import FIGURES, Figure
from formats.job import Settings


class Counts(NamedTuple):
    """The samples that LoadGen will issue, and the samples that it prepares memory for."""

    issued: int
    prepared: int


UNTIMED_STEPS = 2
"""The steps of a training before the timed ones. The first step builds and compiles, and in the
second PyTorch records CUDA graphs.
"""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The facts about a scenario that are known without running it.

    Attributes:
        name: LoadGen's own, or `Fit`.
        loadgen: whether LoadGen drives it. Only such a scenario has `module` and the attributes
            after `figure`.
        compared: the key of a result's `metrics` by which SUTs are compared, if it is not the
            figure. LoadGen's early-stopping estimate of a percentile depends on the number of
            queries, and a slow SUT answers fewer (`docs/use/comparing.md`).
        module: the scenario's file. It has `user_conf(job, calibration, in_flight)`, `least(job)`
            and `callbacks(sut, qsl, respond, job, watch)`.
        measures: a few words for the flag's help.
        figure: its number.
        counts: (user.conf, overridden by audit.config; samples of a pass; nanoseconds of a sample)
            → the Counts by LoadGen's arithmetic.
        trace_bytes_a_sample: bytes that a sample takes in LoadGen's trace, measured on LoadGen
            6.0.17.
        one_sample_a_query: whether each batch is one sample.
        logged_as: LoadGen's own name of the scenario, if it is another one.
        samples_a_query: the samples of one query, if they are always as many.
        serves: whether requests arrive over time, with limits of their latency.
    """

    name: str
    measures: str
    figure: Figure
    compared: str = ""
    loadgen: bool = True
    module: str = ""
    counts: Callable[[Settings, int, float], Counts] = lambda *_: Counts(0, 0)
    trace_bytes_a_sample: int = 0
    one_sample_a_query: bool = False
    logged_as: str = ""
    samples_a_query: int | None = None
    serves: bool = False

    @property
    def one_query(self) -> bool:
        """True if all samples come in one query, pass after pass. If False, samples are drawn, and
        each query has a latency.
        """
        return self.figure.one_query

    @property
    def many_at_once(self) -> bool:
        """True if samples may be issued before earlier ones are answered."""
        return self.loadgen and not self.one_sample_a_query and self.samples_a_query is None

    def load(self) -> ModuleType:
        """The scenario's module, imported on first use."""
        return importlib.import_module(self.module)


def all_at_once(conf: Settings, one_pass: int, sample_ns: float) -> Counts:
    """The counts of Offline: 1.1 × duration × target_qps samples, rounded up to whole passes under
    equal issue (test_settings_internal.cc).
    """
    duration_s = conf["min_duration"] / 1e3
    samples = max(int(conf["min_query_count"]), int(1.1 * duration_s * conf["target_qps"]))
    if conf["sample_concatenate_permutation"]:
        samples = -(-samples // one_pass) * one_pass
    return Counts(samples, samples)


def one_after_the_other(conf: Settings, one_pass: int, sample_ns: float) -> Counts:
    """The counts of SingleStream. Queries are prepared for 2 × duration, and the test stops at the
    later of duration and count (test_settings_internal.cc).

    Under equal issue all prepared queries are issued, in whole passes.
    """
    least = int(conf["min_query_count"])
    duration_s = conf["min_duration"] / 1e3
    prepared = max(least, int(2 * duration_s * 1e3 / conf["target_latency"]))
    issued = max(least, int(duration_s * 1e9 / sample_ns) + 1)
    if conf["sample_concatenate_permutation"]:
        issued = prepared = (prepared // one_pass + 1) * one_pass
    return Counts(issued, prepared)


def over_time(conf: Settings, one_pass: int, sample_ns: float) -> Counts:
    """The counts of Server: requests are generated until both the duration and the count are
    reached (loadgen.cc, GenerateQueries).
    """
    least = int(conf["min_query_count"])
    samples = max(least, int(conf["min_duration"] / 1e3 * conf["target_qps"]) + 1)
    if conf["sample_concatenate_permutation"]:
        samples = -(-samples // one_pass) * one_pass
    return Counts(samples, samples)


SCENARIOS: dict[str, Scenario] = {
    "Offline": Scenario(
        name="Offline",
        module="scenarios.offline",
        measures="throughput",
        figure=FIGURES["Offline"],
        counts=all_at_once,
        trace_bytes_a_sample=280,
    ),
    "SingleStream": Scenario(
        name="SingleStream",
        module="scenarios.single_stream",
        measures="latency",
        figure=FIGURES["SingleStream"],
        compared="latency_p50_ms",
        counts=one_after_the_other,
        trace_bytes_a_sample=1024,
        one_sample_a_query=True,
    ),
    "MultiStream": Scenario(
        name="MultiStream",
        module="scenarios.single_stream",
        measures="latency of eight samples",
        figure=FIGURES["MultiStream"],
        compared="latency_p50_ms",
        counts=one_after_the_other,
        trace_bytes_a_sample=280,
        samples_a_query=8,
    ),
    "Server": Scenario(
        name="Server",
        module="scenarios.server",
        measures="requests a second within limits of latency",
        figure=FIGURES["Server"],
        counts=over_time,
        trace_bytes_a_sample=1024,
        serves=True,
    ),
    "Interactive": Scenario(
        name="Interactive",
        logged_as="Server",
        module="scenarios.server",
        measures="Server with tighter limits",
        figure=FIGURES["Interactive"],
        counts=over_time,
        trace_bytes_a_sample=1024,
        serves=True,
    ),
    "Fit": Scenario(
        name="Fit",
        loadgen=False,
        measures="training steps",
        figure=FIGURES["Fit"],
    ),
}
