"""tuning-gains.json: how much each set of switches of `--tuned` was measured to give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A tuned cell compared with the same cell without switches, repeat by repeat.

    Attributes:
        batch_size: the requested one, which a switch may change.
        seq_len, prompt_tokens, new_tokens, rate: as in `Cell`.
        cell: the digest of the cell without switches.
        mode: quick, valid or submission.
        switches: names of the switches, sorted.
        unit: the unit of both figures, which are medians of the repeats.
        figure, plain_figure: with the switches and without; None: there is no valid figure.
        ratio: the speed with the switches over that without; None: it is not known, or one of the
            two was disturbed.
        low, high: its 95 % interval; None below three repeats.
        different: whether a difference is shown. It is harder to show if more sets of switches were
            compared, because one of them may be fast by chance.
        repeats: the number of repeats that were compared.
        accuracy, accuracy_limit: the value of the accuracy test with the switches and its limit;
            None: it was not judged.
        status: that of the cell with the switches.
        reason: why there is no ratio, if it is known; otherwise empty.
        machine: processor, threads and memory, in words.
        versions: versions of the SUT's packages.
    """

    sut: str
    architecture: str
    model: str
    size: str
    task: str
    scenario: str
    precision: str
    batch_size: int
    seq_len: int | None
    prompt_tokens: int | None
    new_tokens: int | None
    rate: float | None
    device: str
    cell: str
    mode: str
    switches: tuple[str, ...]
    unit: str
    figure: float | None
    plain_figure: float | None
    ratio: float | None
    low: float | None
    high: float | None
    different: bool
    repeats: int
    accuracy: float | None
    accuracy_limit: float | None
    status: str
    reason: str
    machine: str
    versions: dict[str, str]
