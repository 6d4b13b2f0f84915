"""The figures of Hugging Face's benchmark of 2019, made again of finished runs: averages, compiled over eager, distilled over full.

https://medium.com/huggingface/benchmarking-transformers-pytorch-and-tensorflow-e2917fb891c2
"""

from __future__ import annotations

import csv
import statistics as plain
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from typing import Any

from harness.comparison import statistics
from harness.comparison.pooled import mean_ratio
from harness.comparison.tables import Group, place_of
from harness.inputs import models

_GROUP = "hf-2019"
_COMPILED = (
    ("native-torch-script", "native-torch-eager"),
    ("native-torch-compile", "native-torch-eager"),
    ("hf-tensorflow-xla", "hf-tensorflow"),
)
_DISTILLED = (("distilbert", "bert"), ("distilgpt2", "gpt2"))

Times = dict[Any, float]
"""Repeat → milliseconds of a batch. A repeat is named by its turn in a sweep, or by its directory."""

Cells = dict[tuple[str, int, int], dict[str, Times]]
"""(model, batch, tokens of an input) → SUT → its repeats."""


@dataclass(frozen=True, kw_only=True)
class Average:
    """An average of 2019, in seconds a batch."""

    framework: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Square:
    """Speed ratios by batch and length.

    Attributes:
        name: what over what.
        ratios: (batch, tokens) → the speed of one over that of the other, the geometric mean over the models that both SUTs have.
        models: (batch, tokens) → how many these are: long inputs fit into few models, so not every mean is over the same ones.
    """

    name: str
    ratios: Mapping[tuple[int, int], statistics.Ratio]
    models: Mapping[tuple[int, int], int]

    @property
    def batches(self) -> list[int]:
        """The rows."""
        return sorted({batch for batch, _ in self.ratios})

    @property
    def lengths(self) -> list[int]:
        """The columns."""
        return sorted({length for _, length in self.ratios})


@dataclass(frozen=True, kw_only=True)
class Distilled:
    """The speed of a distilled model over that of the full one on the same SUT: the geometric mean of `cells` batches and lengths."""

    name: str
    sut: str
    ratio: statistics.Ratio
    cells: int


@dataclass(frozen=True, kw_only=True)
class Again:
    """The benchmark made again, at one size, precision and device.

    Attributes:
        apart: what tells it from others of the same size, precision and device: machine, mode, variables; empty where there is none.
        cells: all of them.
        common: those that every SUT has; SUTs that measured none of the benchmark's models do not count.
        averages: SUT → the mean over these cells, in milliseconds of a batch; empty where there is none.
        published: SUT → its average of 2019.
    """

    size: str
    precision: str
    device: str
    apart: str = ""
    cells: Cells
    common: Cells
    averages: Mapping[str, float]
    published: Mapping[str, Average]
    compiled: Sequence[Square]
    distilled: Sequence[Distilled]

    @property
    def where(self) -> str:
        """Size, precision and device, and what tells it from others of these."""
        return ", ".join(filter(None, (f"size {self.size}", self.precision, self.device, self.apart)))

    @property
    def by_length(self) -> dict[str, list[tuple[float, float]]]:
        """SUT → (tokens of an input, the mean over `through`, in milliseconds of a batch); empty where these are none."""
        lengths = sorted({length for _, _, length in self.common})
        of_length = {n: [self.common[model, batch, n] for model, batch in self.through] for n in lengths}
        return {sut: [(float(n), _mean(ms[sut] for ms in of_length[n])) for n in lengths] for sut in self.averages if self.through}

    @property
    def through(self) -> list[tuple[str, int]]:
        """The (model, batch) that the common cells have at each of their lengths: a mean over others would be of other models each time."""
        lengths = {length for _, _, length in self.common}
        return [
            (model, batch)
            for model, batch in dict.fromkeys((model, batch) for model, batch, _ in self.common)
            if all((model, batch, length) in self.common for length in lengths)
        ]

    @property
    def words(self) -> list[str]:
        """Sentences on the averages: what they are, what those of 2019 were, and what may be concluded."""
        title = f"Hugging Face's benchmark of 2019, {self.where}"
        if not self.averages:
            return [f"{title}: the SUTs have no cell in common, so there are no averages", *self._beside_2019()]
        names = ", ".join(dict.fromkeys(model for model, _, _ in self.common))
        means = ", ".join(f"{sut} {ms:.4g} ms" for sut, ms in self.averages.items())
        over = statistics.plural(len(self.common), "cell")
        return [f"{title}: mean of the {over} that all SUTs have ({names}): {means} a batch", *self._few(), *self._beside_2019()]

    def _few(self) -> Iterator[str]:
        """Which means are to their half those of few cells, that is of a tenth of them or fewer."""
        halves = {sut: _half([_median(times[sut]) for times in self.common.values()]) for sut in self.averages}
        few = [f"{n} of {sut}'s" for sut, n in halves.items() if 10 * n <= len(self.common)]
        if few:
            yield f"few cells make half of a mean, or more of it: of {len(self.common)} cells {', '.join(few)}"

    def _beside_2019(self) -> Iterator[str]:
        eager, other = "native-torch-eager", "hf-tensorflow"
        both = [times for times in self.cells.values() if {eager, other} <= times.keys()]
        if not both or not {eager, other} <= self.published.keys():
            return
        then = self.published[other].seconds / self.published[eager].seconds
        now = _mean(times[other] for times in both) / _mean(times[eager] for times in both)
        each = statistics.geometric_mean([_median(times[other]) / _median(times[eager]) for times in both])
        told = " and ".join(f"{p.framework} {p.seconds:g} s" for p in (self.published[eager], self.published[other]))
        yield (
            f"in 2019 the averages were {told}, so TensorFlow took {then:.2f} × the time of PyTorch; here it takes {now:.2f} × over the "
            f"{statistics.plural(len(both), 'cell')} that both have, and {each:.2f} × where each cell counts alike (geometric mean; no "
            "intervals: these are means over cells)"
        )
        if (self.size, self.precision) != ("full", "float32"):
            yield f"nothing may be concluded of 2019 from {self.where}: its models were those of size full, in float32"
            return
        yield (
            "what may be concluded: which of the two takes longer on this machine and these cells, where that is more than the cells' own "
            "intervals. Not how much faster either became: machine and cells are others, and in the script of 2019 PyTorch recorded "
            "gradients, and calls on a GPU were not waited for"
        )


def again(contests: Iterable[Sequence[Group]]) -> list[Again]:
    """The benchmark made again at each size, precision and device that has cells of its models.

    Args:
        contests: groups with figures that did the same work, one of each SUT.
    """
    group = set(models.in_group(_GROUP))
    wanted = group | {full for _, full in _DISTILLED}
    places: dict[tuple[str, ...], Cells] = {}
    for groups in sorted(contests, key=lambda groups: max((g.order for g in groups), default=())):  # of other weights the newest stay
        c = groups[0].cell if groups else None
        if c is None or c.model not in wanted or c.scenario != "Offline" or not c.seq_len or c.dataset != "synthetic" or c.size == "user":
            continue
        variables = " ".join(f"{name}={value}" for name, value in sorted(c.variables.items()))
        place = (c.size, c.precision, c.device, groups[0].last.machine, groups[0].last.result.mode, variables)
        times = {g.sut: _times(g) for g in groups}
        places.setdefault(place, {})[c.model, c.batch_size, c.seq_len] = {sut: of_one for sut, of_one in times.items() if of_one}
    made = {place: dict(sorted(cells.items())) for place, cells in places.items() if {model for model, _, _ in cells} & group}
    return [_again(place, _apart(place, [*made]), cells) for place, cells in made.items()]


def _place(sut: str) -> int:
    return place_of(sut.partition(" ")[0])  # behind the name stand options


def _times(group: Group) -> Times:
    return {run.turn or run.result.directory: ms for run in group.good if (ms := run.result.metrics.get("ms_per_step"))}


def _apart(place: tuple[str, ...], places: Sequence[tuple[str, ...]]) -> str:
    same = [other for other in places if other[:3] == place[:3]]
    return ", ".join(text for n, text in enumerate(place[3:], 3) if text and any(other[n] != text for other in same))


def published(device: str) -> dict[str, Average]:
    """SUT → its average of 2019 on such a device."""
    text = (resources.files("harness.comparison") / "published" / "hf_2019_averages.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["sut"]: Average(framework=row["framework"], seconds=float(row["seconds"])) for row in rows if row["device"] == device}


def _again(place: Sequence[str], apart: str, cells: Cells) -> Again:
    size, precision, device = place[:3]
    group = models.in_group(_GROUP)
    suts = dict.fromkeys(sut for (model, _, _), times in cells.items() if model in group for sut in times)
    common = {key: times for key, times in cells.items() if suts.keys() <= times.keys()}
    return Again(
        size=size,
        precision=precision,
        device=device,
        apart=apart,
        cells=cells,
        common=common,
        averages={sut: _mean(times[sut] for times in common.values()) for sut in sorted(suts, key=_place)} if common else {},
        published=published(device),
        compiled=[square for fast, slow in _COMPILED if (square := _square(fast, slow, cells)).ratios],
        distilled=[ratio for small, full in _DISTILLED for sut in suts if (ratio := _distilled(small, full, sut, cells))],
    )


def _mean(cells: Iterable[Times]) -> float:
    """The mean over cells, each of which counts with the median of its repeats."""
    return plain.fmean(map(_median, cells))


def _median(repeats: Times) -> float:
    return plain.median(repeats.values())


def _half(values: Sequence[float]) -> int:
    """How many of them, the largest first, make half of their sum."""
    sums = [*accumulate(sorted(values, reverse=True))]
    return 1 + next(n for n, part in enumerate(sums) if 2 * part >= sums[-1])


def _square(fast: str, slow: str, cells: Cells) -> Square:
    pairs: dict[tuple[int, int], list[tuple[Times, Times]]] = {}
    for (_, batch, length), times in cells.items():
        if fast in times and slow in times:
            pairs.setdefault((batch, length), []).append((times[fast], times[slow]))
    return Square(
        name=f"{fast} over {slow}",
        ratios={key: mean_ratio(of_one, higher_is_better=False) for key, of_one in pairs.items()},
        models={key: len(of_one) for key, of_one in pairs.items()},
    )


def _distilled(small: str, full: str, sut: str, cells: Cells) -> Distilled | None:
    found = [(times, cells.get((full, batch, length), {})) for (model, batch, length), times in cells.items() if model == small]
    pairs = [(times[sut], of_full[sut]) for times, of_full in found if sut in times and sut in of_full]
    if not pairs:
        return None
    ratio = mean_ratio(pairs, higher_is_better=False)
    return Distilled(name=f"{small} over {full}", sut=sut, ratio=ratio, cells=len(pairs))
