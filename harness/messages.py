"""Sentences of a report on disturbances, repeats and comparisons without a clear answer.

Each message is a template, and `format` fills it in. Other messages are still where they arise.
"""

from __future__ import annotations

from enum import StrEnum


class Unranked(StrEnum):
    """Why a figure may not be compared with others."""

    STOOD_STILL = (
        "nothing was completed for {stalled:.2g} of its {seconds:.3g} s (longest {longest:.2g} s): "
        "the worker stood still, or one batch took far longer than is usual"
    )
    OTHER_PROGRAMS = (
        "other programs used {share:.0%} of a processor while it was measured: end them, and"
        " measure again"
    )
    STOLEN = (
        "the hypervisor kept {share:.0%} of a processor from this machine while it was measured"
    )
    FRESH_SLOWER = (
        "inputs that it had not met took {slower:.3g} times as long as those it had: it keeps a "
        "part of its answers, or the machine was disturbed: measure again"
    )


class Note(StrEnum):
    """Further facts that a reader of a result should know.

    STOOD_STILL, OTHER_PROGRAMS and STOLEN of `Unranked` are notes if they are small.
    """

    PROCESSES = (
        "the SUT ran in {processes}, which used {share:.0%} of a processor; their memory is not"
        " counted"
    )
    THREADS = "the framework ran with {threads}, and the worker may use {processors} processors"


class Advice(StrEnum):
    """Advice on the repeats of a cell: how reliable they are, and what to do."""

    WIDE = (
        "in some places no difference below {least} can be shown: more repeats tell smaller ones"
        " (sweep --repeats N, or --until 5%)"
    )
    OLDER = (
        "left out: {cells} measured earlier, by other versions, other files of SUTs, or for another"
        " time (see ./run.sh history)"
    )


class Differs(StrEnum):
    """Differences between two measurements. The ratio of the two includes their effect."""

    LORA = "their LoRA trains different parameters (--lora matched trains the same)"
    NOT_IN_TURNS = (
        "the repeats were not measured in turns, so a drift of the machine between the two counts"
        " as a difference"
    )


class Inconclusive(StrEnum):
    """Why measurements do not show which SUT is faster."""

    RUNS_DISTURBED = "{disturbed} of {runs} runs were disturbed ({first})"
    SUT_DISTURBED = "of {sut} {disturbed}"
    CONTROL = (
        "the control run of {sut}, which is the same cell, was {ratio:.3g} × as fast as its first"
        " run ({interval})"
    )
    ALL_UNSURE = "every ratio is uncertain by more than a factor of two ({interval})"
    MEASURE_AGAIN = (
        "{why}; measure again with --again --repeats {repeats}, with nothing else running"
    )


class NotCompared(StrEnum):
    """Why two measurements are not compared at all."""

    STATISTIC = (
        "its figure is another statistic than the others' ({name} by {estimate}), so it is not"
        " compared with them"
    )
