"""All messages about a result or a comparison.

Each message is a template, and `format` fills it in. The code that finds a fault uses these texts.
"""

from __future__ import annotations

from enum import StrEnum


class Unranked(StrEnum):
    """Why a figure may not be compared with others."""

    STATUS = "its status is {status}"
    INVALID = "it is invalid ({cause})"
    NOT_VALID = "LoadGen does not call it VALID"
    NOT_JUDGED = "nobody could judge its accuracy"
    TINY = "size tiny shows that a cell works, and no more"
    NO_MODEL = "{sut} computes no model"
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
    RUNS_FAILED = "{failed} of {runs} runs {are} not ok: {last}"
    DISTURBED = "{disturbed} of {repeats} repeats were disturbed: {first}"


class Note(StrEnum):
    """Further facts that a reader of a result should know.

    STOOD_STILL, OTHER_PROGRAMS and STOLEN of `Unranked` are notes if they are small.
    """

    PROCESSES = (
        "the SUT ran in {processes}, which used {share:.0%} of a processor; their memory is not"
        " counted"
    )
    THREADS = "the framework ran with {threads}, and the worker may use {processors} processors"
    NOT_JUDGED = "accuracy not judged: {reason}"
    MEASURED_AGAIN = (
        "the performance test was measured again: the SUT was so much faster than while "
        "calibrating that LoadGen's least duration was not reached; the earlier test is in "
        "raw/{earlier}"
    )
    PERHAPS_DISTURBED = "{reason}. The test was disturbed, which may be why: {disturbance}"


class Advice(StrEnum):
    """Advice on the repeats of a cell: how reliable they are, and what to do."""

    FEW_REPEATS = "{repeats}: measure at least {least}, for two runs of one cell differ by chance"
    OUTLIERS = (
        "repeat {numbers} is far from the others: something disturbed it; more repeats outvote it"
    )
    DRIFT = (
        "the figures drift by {change:+.0%} over the repeats: let the machine settle, and compare"
        " only with interleaved runs"
    )
    DISTURBED = "{disturbed} of {repeats} {were} disturbed ({first})"
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

    MACHINE = "other machine: {a} / {b}"
    SETTING = "other {name}: {a} / {b}"
    SOURCE = "other source of the SUTs or the worker: revision {revisions}"
    EDITED = "{revision}, with files that were edited"
    VERSION = "other version of {package}: {a} / {b}"
    LORA = "their LoRA trains different parameters (--lora matched trains the same)"
    NOT_IN_TURNS = (
        "the repeats were not measured in turns, so a drift of the machine between the two counts"
        " as a difference"
    )
    NOT_RANKED = "not ranked ({sides}): {reason}"


class Inconclusive(StrEnum):
    """Why measurements do not show which SUT is faster."""

    RUNS_DISTURBED = "{disturbed} of {runs} runs were disturbed ({first})"
    SUT_DISTURBED = "of {sut} {disturbed}"
    CONTROL = (
        "the control run of {sut}, which is the same cell, was {ratio:.3g} × as fast as its first"
        " run ({interval})"
    )
    UNSURE = "the ratio is uncertain by more than a factor of two ({interval})"
    ALL_UNSURE = "every ratio is uncertain by more than a factor of two ({interval})"
    MACHINES = "the two were measured on different machines"
    FEW_REPEATS = "it has too few repeats ({repeats}, and {least} are needed)"
    MEASURE_AGAIN = (
        "{why}; measure again with --again --repeats {repeats}, with nothing else running"
    )


class Refused(StrEnum):
    """Why two measurements are not compared at all."""

    STATISTIC = (
        "its figure is another statistic than the others' ({name} by {estimate}), so it is not"
        " compared with them"
    )
    STATISTICS = "refused: other statistics ({a} by {a_estimate} / {b} by {b_estimate})"
    OTHER_WORK = "refused: this is other work ({differing})"
    NO_FIGURE = "no figure in {side}: {status}"
    ONLY_IN = "only in {side}"
    PUBLISHED = (
        "not comparable: another machine and another way of measuring (their time is {times:.3g} ×"
        " ours)"
    )


class Chosen(StrEnum):
    """Choices of the harness that the user left open, and flags that have no effect."""

    VARIABLES = "part of the cell, because they may change its figures: {variables}"
    NO_LOCK = (
        "device {device}, though there is {gpu}: {environment} has no lock for {wanted} yet;"
        " --python PATH brings an interpreter"
    )
    NO_NVML = (
        "NVML does not answer here: of the GPU neither memory nor energy nor clocks are known, and"
        " --device {device} runs"
    )
    ONLY_SIZE = "size {size}: {model} has no full one"
    SIZE_FITS = "size full: {gpu} holds its {gigabytes:.1f} GB"
    SIZE_TOO_LARGE = "size tiny: full needs {needed:.1f} GB and {gpu} has {gigabytes:.1f} GB"
    SIZE_UNKNOWN_MEMORY = (
        "size tiny: nobody tells how much memory the GPU has (--size base or full to choose)"
    )
    SIZE_ON_HOST = "size tiny: no accelerator in use (--size base or full to choose)"
    PRECISION = "precision {precision}: {sut} has no {own}, the size's own"
    NO_DURATION = (
        "--duration {seconds:g} is not used: {scenario} times {steps} steps in mode {mode}"
    )
