"""A result in lines of text, as the terminal and a page show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from formats.cell import Cell
from formats.result import Result
from harness.figure import short
from scenarios.table import SCENARIOS
from sut.evidence.matrix_library import UNKNOWN

_ESTIMATES = {
    "early stopping": " by early stopping",
    "percentile": " of too few queries for early stopping",
}
_TOLD = (
    *("first_loss_error", "same_class_fraction", "equal_fraction", "compared_fraction", "logit_gap", "argmax_fraction"),
    *("mask_mean_iou", "mask_smallest_iou", "logits_error", "score_error", "image_smallest_psnr", "latents_error"),
)


def rows(result: Result) -> Iterable[tuple[str, str]]:
    """(name, text) of each line of a result."""
    cause = f" ({result.cause})" if result.cause else ""
    yield "status", f"{result.status}{cause}{': ' + result.reason if result.reason else ''}"
    if result.loadgen:
        yield "LoadGen", f"{result.loadgen}, mode {result.mode}"
    if result.metric:
        yield "speed", speed(result) + (" (struck out: invalid)" if result.cause else "")
    if result.measured:
        yield "measured", measured(result)
    if "flops_per_second" in result.metrics:
        yield "compute", computing(result.metrics) + _multiplied(result)
    if result.accuracy:
        yield "accuracy", accuracy(result)
    if result.evidence:
        yield "evidence", str(result.evidence["sentence"])
    if result.seconds:
        yield "time", _times(result.seconds)
    if result.peak_host_bytes:
        device = f", {result.peak_device_bytes / 1e9:.2f} GB on the accelerator" if result.peak_device_bytes is not None else ""
        yield "memory", f"{result.peak_host_bytes / 1e9:.2f} GB at most in the worker{device}"
    if result.energy:
        yield "energy", _energy(result)
    if result.audit:
        yield "audit", ", ".join(f"{n} {name}" for name, n in result.audit.items()) + f"; holds: {', '.join(result.levels) or 'no level'}"
    if result.metric:
        yield "ranked", "yes" if result.ranked else f"no, because {'; '.join(result.unranked)}"
    for warning in result.warnings:
        yield "note", warning
    if result.directory:
        yield "directory", result.directory


def speed(result: Result) -> str:
    """The figures of a result in one line, the one by which SUTs are compared first."""
    m, one = result.metrics, result.metric
    assert one is not None
    parts = [f"{short(one.value)} {one.unit}"]
    if "latency_p50_ms" in m:
        plain = [f"90th percentile {m['latency_p90_ms']:.4g} ms"] if "latency_p90_ms" in m else []
        estimate = f"LoadGen's 90th percentile{_ESTIMATES.get(one.estimate, '')} {parts[0]}"
        parts = [f"median {m['latency_p50_ms']:.4g} ms", *plain, estimate]
    if "tokens_per_second" in m:
        parts.append(f"{short(m['tokens_per_second'])} tokens/s")
    if one.name == "ms_per_step":
        if "step_mean_low_ms" in m:
            parts[0] += f" ({short(m['step_mean_low_ms'])}–{short(m['step_mean_high_ms'])})"
            parts.append(f"median {m['step_median_ms']:.4g}, 90th percentile {m['step_p90_ms']:.4g}")
        parts.append(f"{short(m['samples_per_second'])} samples/s")
    elif "ms_per_step" in m:
        parts.append(f"{m['ms_per_step']:.4g} ms/step")
    if "ms_per_denoising_step" in m:
        parts.append(f"{m['ms_per_denoising_step']:.4g} ms/denoising step, {round(m['ms_per_step'] / m['ms_per_denoising_step'])} an image")
    return " · ".join(parts)


def measured(result: Result) -> str:
    """What the figure rests on."""
    m, batch, scenario = result.measured, result.cell.batch_size, SCENARIOS[result.cell.scenario]
    if not scenario.loadgen:
        return _steps(result)
    batches = f" in {counted(m['batches'], 'batch')} of {batch}" if not scenario.one_sample_a_query else ""
    full = ", no padding" if batch > 1 and result.cell.dataset != "uneven" else ""
    padding = f", {m['padding_fraction']:.2%} of their rows padding" if m["padding_fraction"] else full
    parts = [f"{m['samples']:,} samples{batches}{padding}"]
    if "passes" in m:
        whole = scenario.one_query or float(m["passes"]).is_integer()
        over = f"{m['passes']:,.4g} passes over" if whole else "drawn from"
        parts.append(f"{over} {round(m['samples'] / m['passes']):,} inputs{_lengths(result.cell)}")
    if "tokens" in m:
        end = {"stop": "answers end at an end token", "ignore": "end tokens ignored"}.get(result.cell.eos or "", "")
        parts.append(f"{m['tokens']:,} tokens, {m['tokens'] / m['samples']:.4g} a sample{', ' if end else ''}{end}")
    return "; ".join(parts)


def _lengths(cell: Cell) -> str:
    """The lengths of a cell's inputs in words; empty for a model that has none."""
    if cell.dataset == "uneven":
        return " of uneven length" + (f", padded to {cell.seq_len} tokens" if cell.seq_len else "")
    return f" of {cell.seq_len} tokens" if cell.seq_len else ""


def computing(metrics: Mapping[str, float]) -> str:
    """Return one line on how fast the model's matrix products were, beside a large product of the same framework."""
    reached, text_of_share = metrics["flops_per_second"], ""
    if part := metrics.get("matrix_share"):
        text_of_share = f", {share(part)} of what a large matrix product of this framework reaches ({flops(reached / part)})"
    return f"{flops(reached)} at least{text_of_share}"


def _multiplied(result: Result) -> str:
    told = matrix_products(result)
    return f"; by {library(told)}" if told else ""


def matrix_products(result: Result) -> dict[str, Any]:
    """Return the evidence of the library that multiplied matrices (`sut.evidence.matrix_library.fact`). Empty in a result that lacks it."""
    told = result.evidence.get("after", {}).get("detail", {}).get("matrix_products")
    return told if isinstance(told, dict) else {}


def library(told: Mapping[str, Any]) -> str:
    """A library, its instructions and its threads in words, as far as they are known: `MKL, AVX2, 2 threads`."""
    known = {name: value for name, value in told.items() if value != UNKNOWN}
    words = [known.get("library", "an unknown library"), known.get("instructions", "")]
    if threads := known.get("threads"):
        words.append(f"{threads} thread{'' if threads == 1 else 's'}")
    return ", ".join(filter(None, words))


def flops(rate: float) -> str:
    """Floating-point operations a second as people read them: `184 GFLOP/s`, `1,234 TFLOP/s`."""
    value, unit = (rate / 1e12, "TFLOP/s") if rate >= 1e12 else (rate / 1e9, "GFLOP/s")
    return f"{value:,.0f} {unit}" if value >= 99.5 else f"{value:.3g} {unit}"


def share(part: float) -> str:
    """A fraction in percent: `27%`, and `0.4%` where it is small."""
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"


def _steps(result: Result) -> str:
    m, lengths = result.metrics, _lengths(result.cell)
    text = (
        f"{result.measured['batches']:,} steps of {result.cell.batch_size} samples{lengths}, after two untimed ones, the first of "
        f"{m['first_step_seconds']:.3g} s" + (f"; {m['trained_parameters']:,.0f} parameters trained" if "trained_parameters" in m else "")
    )
    if "drift_fraction" in m:
        return f"{text}; the last third took {m['drift_fraction']:+.1%} beside the first"
    return f"{text}; single steps are not told, for the last one was long, as where a framework runs ahead of its device"


def accuracy(result: Result) -> str:
    """Return one line on the answers: whether they are right, how far off they are and what the limit is."""
    a = result.accuracy
    assert a is not None
    extra = "".join(f", {name.replace('_', ' ')} {a['detail'][name]:.4g}" for name in _TOLD if name in a["detail"])
    return f"{'pass' if a['passed'] else 'FAIL'}: {a['metric']} {a['value']:.3g} (limit {a['threshold']:g}){extra}"


def _energy(result: Result) -> str:
    """Joules of the performance test; where there are none, why."""
    parts = [f"{source} {j:,.1f} J" for source, j in result.energy["joules"].items()]
    return "; ".join([*parts, *(f"{source} not measured: {why}" for source, why in result.energy["absent"].items())])


def _times(seconds: Mapping[str, float]) -> str:
    """The whole, and its parts, which add up to it."""
    sums = {"total": "{:.1f} s in all", "until_measuring": "{:.1f} s until measuring"}
    first = [text.format(seconds[name]) for name, text in sums.items() if name in seconds]
    parts = [f"{name} {s:.1f}" for name, s in seconds.items() if name not in sums and s >= 0.05]
    return ": ".join(filter(None, [", ".join(first), ", ".join(parts)]))


def counted(number: float, noun: str) -> str:
    """A number and its noun: 1 batch, 2 batches."""
    return f"{number:,} {noun}{'' if number == 1 else 'es'}"
