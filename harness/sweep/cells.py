"""Lists of flag values → the cells of a sweep. Each has its request, or the reason why it cannot be
measured.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, product
from typing import Any

from formats.cell import ordered_by
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments
from harness.inputs import models
from harness.request import options, pins, plan
from harness.request.request import Request
from harness.request.serving import OF_SERVING
from harness.sweep.recipe import Values
from scenarios.table import SCENARIOS
from sut import tuning
from sut.registry import QUANTIZE, SUTS

# Rivals are neighbours in this order, so that they are measured one right after the other.
_ORDER = ordered_by("sweeps")
_WHERE = ("out", "cache")


@dataclass(frozen=True, kw_only=True)
class Series:
    """One cell of a sweep, with all its repeats.

    Attributes:
        number: its place in sweep.json, from 0.
        words: the flags that name the cell, without --out and --cache.
        request: None if the flags request something impossible.
        obstacle: why it cannot be measured, as far as is known beforehand; empty: it can. Free
            memory does not count, because the cells of a sweep must be the same when it continues.
        control: whether it is the control run, which repeats the first cell.
    """

    number: int
    words: tuple[str, ...]
    request: Request | None
    obstacle: str
    control: bool = False

    @property
    def command(self) -> str:
        """The command that measures only this cell."""
        return shlex.join(["./run.sh", *self.words])

    @property
    def label(self) -> str:
        """The cell in a few words."""
        if self.request is None:
            return " ".join(self.words).replace("--", "")
        return self.request.label + (" (control run)" if self.control else "")

    @cached_property
    def comparison(self) -> tuple[object, ...]:
        """The key of a comparison. Series with the same key differ only in the SUT and its options,
        so the ratio of their figures says which is faster.
        """
        r = self.request
        if r is None:
            return ()
        quantized = r.sut_options.get(QUANTIZE)
        return *self.rivals, bool(r.tuned.switches), quantized, r.options.replicas

    @cached_property
    def rivals(self) -> tuple[object, ...]:
        """The key of the series that are measured one after the other: those of a comparison, the
        tuned cells of the same work, and its replicas.
        """
        r = self.request
        if r is None:
            return ()
        options = replace(
            r.options,
            sut="",
            sut_option=(),
            stream=None,
            tuned="",
            replicas=None,
            command="",
            precision=None,
            batch_size=None,
            packages=(),
        )
        batch_size = r.requested_batch or r.batch_size
        return options, r.size.name, r.precision, batch_size, r.device


def make(grids: Iterable[Values], where: Values, control: bool) -> list[Series]:
    """Every cell once, in the order in which a round measures them.

    Args:
        where: `--out` and `--cache`, which all cells share.
        control: whether the first cell that can be measured gets a control run, which repeats it.

    Raises UsageError for an unknown name, and if all cells are impossible.
    """
    places = flags_of({name: where[name] for name in _WHERE if name in where})
    expanded = (values for grid in grids for values in expand(grid))
    cells = (cell for values in expanded for cell in _switched(values, places))
    every: list[Series] = []
    first_error: UsageError | None = None
    for words in dict.fromkeys(tuple(flags_of(cell)) for cell in cells):
        request = None
        obstacle = ""
        try:
            request = plan.resolve(options.parse([*words, *places]))
            obstacle = plan.unsupported(request) or _lacking(
                request.options.python, request.spec.environment, request.device
            )
        except UsageError as e:
            obstacle = str(e)
            first_error = first_error or e
        every.append(Series(number=len(every), words=words, request=request, obstacle=obstacle))
        if control and request and not obstacle:
            every.append(replace(every[-1], number=len(every), control=True))
            control = False
    if first_error and all(series.request is None for series in every):
        raise first_error
    return every


def _switched(values: Values, places: Sequence[str]) -> Iterator[Values]:
    """The flags of each cell, with `--tuned each` replaced by `off` and by each switch of the
    SUT.
    """
    if values.get("tuned") != [options.EACH]:
        yield values
        return
    plain = {**values, "tuned": [options.OFF]}
    yield plain
    try:
        request = plan.resolve(options.parse([*flags_of(plain), *places]))
    except UsageError:  # `make` shows it
        return
    if plan.unsupported(request) or request.trains or request.spec.remote:
        return
    place_of_cell = plan.place(request.options, request.model, request.device)
    for switch in tuning.candidates(place_of_cell):
        yield {**values, "tuned": [switch.name]}


def flags_of(values: Values) -> list[str]:
    """The flags and their values as words of a command."""
    words = []
    for name, of_one in values.items():
        for value in of_one:
            words += [options.flag(name), value]
    return words


@cache
def _lacking(python: str | None, environment: str, device: str) -> str:
    """The packages that the interpreter of --python lacks for an environment, in a sentence. Empty:
    none.
    """
    if python is None:
        return ""
    try:
        environments.adopt(python, environment, device)
    except EnvironmentFailure as e:
        return str(e)
    return ""


def expand(grid: Values) -> Iterator[Values]:
    """The flags of each cell. Every combination of the lists' values is a cell; all other flags are
    the same. A cell has no flag that its scenario does not take.
    """
    lists = {name: _each(name, grid[name]) for name in _ORDER if name in grid}
    others = (*lists, *_WHERE)
    rest = {name: values for name, values in grid.items() if name not in others}
    # If no scenario takes a flag, its refusal says so.
    scenarios = [SCENARIOS[name] for name in lists.get("scenario", ()) if name in SCENARIOS]
    served = any(scenario.serves for scenario in scenarios)
    for values in product(*lists.values()):
        cell = dict(zip(lists, values, strict=True))
        scenario = SCENARIOS.get(cell.get("scenario", ""))
        if scenario and (scenario.one_sample_a_query or scenario.samples_a_query):
            cell.pop("batch_size", None)
        given = {name: [cell[name]] for name in options.LISTS if name in cell} | rest
        if "packages" in cell:  # a cell has several at once, or none
            given["packages"] = [*cell["packages"]]
        if scenario and not scenario.serves and served:
            given = {name: value for name, value in given.items() if name not in OF_SERVING}
        yield {name: values for name, values in given.items() if values}


def _each(name: str, texts: list[str]) -> list[Any]:
    """The values of one list, without duplicates and in the harness' spelling.

    `all` as the only value means every scenario, every SUT that reads weights (not the mock), or
    every model without a group. The name of a group means all its models. A value of `--with` is a
    tuple of packages.
    """
    if name == "packages":
        return pins.combinations(texts)
    if name == "tuned":
        return _each_set(texts)
    every = {
        "sut": [sut for sut, spec in SUTS.items() if spec.runs_models],
        "model": models.in_group(""),
        "scenario": list(SCENARIOS),
    }
    values = [value.strip() for text in texts for value in text.split(",")]
    if name == "replicas":  # 1/N gives the efficiency of N replicas
        pairs = ([count] if "/" in count else [f"1/{count}", count] for count in values)
        values = list(chain(*pairs))
    if values == ["all"] and name in every:
        return every[name]
    if name == "model":
        each_model = [
            models.in_group(value) if value in models.groups() else [value] for value in values
        ]
        values = list(chain(*each_model))
    return list(dict.fromkeys(options.spelt(name, value) for value in values))


def _each_set(texts: list[str]) -> list[str]:
    """The values of `--tuned`, without duplicates. `each` depends on the SUT and stays."""
    values = [value.strip() for value in ",".join(texts).split(",")]
    each = options.EACH
    spelt = (each if v.lower() == each else options.spelt("tuned", v) for v in values)
    return list(dict.fromkeys(spelt))
