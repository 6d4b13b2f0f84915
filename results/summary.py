"""The lines of text of a result, for the terminal and a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from formats.cell import Cell
from formats.outcome import Energy, Replicas
from formats.result import Judgement, OfficialScore, Result, Served
from formats.work import MATRIX_PRODUCTS
from results.computing import Metrics, binds
from results.figure import short
from results.figures import LATER_TOKENS
from scenarios.table import SCENARIOS
from sut.evidence.matrix_library import UNKNOWN
from sut.registry import keeps_programs
from sut.tuning import switches

_ESTIMATES = {
    "early stopping": " by early stopping",
    "percentile": " of too few queries for early stopping",
    "plain percentile": "",
}
_DETAILS = (
    "first_loss_error",
    "same_class_fraction",
    "equal_fraction",
    "compared_fraction",
    "logit_gap",
    "argmax_fraction",
    "mask_mean_iou",
    "mask_smallest_iou",
    "logits_error",
    "score_error",
    "image_smallest_psnr",
    "latents_error",
)
"""The details of a score that are shown."""
_FIRST_ANSWER = "first_answer_seconds"
_ENDS = {"stop": "answers end at an end token or at their longest", "ignore": "end tokens ignored"}


def rows(result: Result) -> Iterable[tuple[str, str]]:
    """(name, text) of each line of a result."""
    yield "status", status(result)
    if result.loadgen:
        yield "LoadGen", f"{result.loadgen}, mode {result.mode}"
    if result.metric:
        struck = " (struck out: invalid)" if result.cause else ""
        yield "speed", f"{speed(result)}{struck}"
    if result.measured:
        yield "measured", measured(result)
    metrics = result.metrics
    if "ttft_p50_ms" in metrics:
        yield "tokens", tokens(result)
    if result.serving:
        yield "serving", serving(result, result.serving)
    if result.cell.shard_count > 1 and result.seen:
        yield "shards", f"parameters on {result.seen.shard_words}"
    if result.replicas:
        yield "replicas", replicas(result.replicas, result.cell)
    if "flops_per_second" in metrics:
        products = matrix_products(result)
        by = f"; by {library(products)}" if products else ""
        yield "compute", computing(metrics) + by
    if any(name.endswith(_FIRST_ANSWER) for name in metrics):
        yield "start", first_answer(result)
    if result.official:
        yield "accuracy", official(result.official)
    if result.accuracy:
        yield "reference" if result.official else "accuracy", accuracy(result.accuracy)
    if result.evidence:
        yield "evidence", result.evidence.sentence
    if result.seconds:
        yield "time", times(result.seconds)
    if result.peak_host_bytes:
        text = f"{result.peak_host_bytes / 1e9:.2f} GB at most in the worker"
        if result.peak_device_bytes is not None:
            text += f", {result.peak_device_bytes / 1e9:.2f} GB on the accelerator"
        yield "memory", text
    if result.energy:
        yield "energy", _energy(result.energy)
    if result.audit:
        counts = ", ".join(f"{n} {name}" for name, n in result.audit.items())
        yield "audit", f"{counts}; holds: {', '.join(result.levels) or 'no level'}"
    if result.metric:
        reasons = "; ".join(result.unranked)
        yield "ranked", "yes" if result.ranked else f"no, because {reasons}"
    for warning in result.warnings:
        yield "note", warning
    if result.directory:
        yield "directory", result.directory


def status(result: Result) -> str:
    """`ok`, or why a result has no figure: `invalid (accuracy): …`."""
    cause = f" ({result.cause})" if result.cause else ""
    reason = f": {result.reason}" if result.reason else ""
    return f"{result.status}{cause}{reason}"


def speed(result: Result) -> str:
    """The figures of a result in one line. The first is the one by which SUTs are compared."""
    m = result.metrics
    one = result.metric
    assert one is not None
    parts = [f"{short(one.value)} {one.unit}"]
    if SCENARIOS[result.cell.scenario].serves:
        return " · ".join(parts + [_percentiles(m, "latency")])
    if "latency_p50_ms" in m:
        plain = []
        if "latency_p90_ms" in m:
            plain.append(f"90th percentile {m['latency_p90_ms']:.4g} ms")
        percentile = one.name.removeprefix("latency_p")
        estimate = (
            f"LoadGen's {percentile}th percentile{_ESTIMATES.get(one.estimate, '')} {parts[0]}"
        )
        parts = [f"median {m['latency_p50_ms']:.4g} ms", *plain, estimate]
    if "tokens_per_second" in m:
        parts.append(f"{short(m['tokens_per_second'])} tokens/s")
    if one.name == "ms_per_step":
        if "step_mean_low_ms" in m:
            parts[0] += f" ({short(m['step_mean_low_ms'])}–{short(m['step_mean_high_ms'])})"
            p90 = f"90th percentile {m['step_p90_ms']:.4g}"
            parts.append(f"median {m['step_median_ms']:.4g}, {p90}")
        parts.append(f"{short(m['samples_per_second'])} samples/s")
    elif "ms_per_step" in m:
        parts.append(f"{m['ms_per_step']:.4g} ms/step")
    if "ms_per_denoising_step" in m:
        steps = round(m["ms_per_step"] / m["ms_per_denoising_step"])
        parts.append(f"{m['ms_per_denoising_step']:.4g} ms/denoising step, {steps} an image")
    return " · ".join(parts)


def _percentiles(metrics: Metrics, name: str) -> str:
    """A latency's median and percentiles in words."""
    median, *others = (f"{metrics[f'{name}_{each}_ms']:.4g}" for each in ("p50", "p90", "p99"))
    high = ", ".join(f"{number}th {ms}" for number, ms in zip((90, 99), others, strict=True))
    return f"median {median} ms, percentiles {high} ms"


def tokens(result: Result) -> str:
    """The token latencies in one line, with their definitions."""
    begin = "its request"
    if SCENARIOS[result.cell.scenario].one_query:
        begin = "the beginning of its batch"
    metrics = result.metrics
    first = f"first token after {begin}: {_percentiles(metrics, 'ttft')}"
    if f"{LATER_TOKENS}_p50_ms" not in metrics:
        return first
    later = _percentiles(metrics, LATER_TOKENS)
    return f"{first}; time per later token, (last - first) / (tokens - 1): {later}"


def serving(result: Result, served: Served) -> str:
    """How requests arrived, waited and were batched, in one line."""
    m = result.metrics
    rates = f"issued {m['issued_per_second']:.4g}/s, answered {m['achieved_per_second']:.4g}/s"
    good = f"within the limits {m['goodput_per_second']:.4g}/s"
    batches = f"{m['requests_a_batch']:.3g} requests a batch of at most {result.cell.batch_size}"
    others = f"{m['requests_waiting']:.3g} others, {m['requests_waiting_most']:.0f} at most"
    parts = [f"{rates}, {good}", batches, f"in the queue when a batch began {others}"]
    if result.cell.precision == UNKNOWN:  # an engine forms its own batches
        parts[1:] = [f"open when a request was sent {others}"]
    trials = [
        f"{trial.rate:.4g} {'passed' if trial.passed else 'failed'}" for trial in served.search
    ]
    if trials:
        parts.append(f"rates tried: {', '.join(trials)}")
    return "; ".join(parts)


def replicas(found: Replicas, cell: Cell) -> str:
    """What the replicas did, in one line."""
    each = found.each
    nodes = dict.fromkeys(one.node for one in each if one.node)
    on = f" on {', '.join(nodes)}" if nodes else ""
    parts = [
        f"{len(each)}{on}, {_span([one.samples for one in each])} samples each",
        f"busy {_span([round(100 * one.busy, 1) for one in each])} % of the test",
    ]
    if SCENARIOS[cell.scenario].one_query:
        parts.append(f"idle tail {1e3 * found.idle_tail_seconds:.3g} ms")
    parts += [
        f"inputs {found.inputs}, messages {found.bytes_per_second / 1e6:.3g} MB/s",
        f"dispatcher {found.dispatcher_us_per_batch:.3g} µs a batch",
    ]
    if found.accuracy_samples:
        parts.append(f"accuracy judged on {_span(found.accuracy_samples)} samples of each")
    return "; ".join(parts)


def _span(values: Sequence[float]) -> str:
    """The least and the largest value: `97–99`, or one number if both look the same."""
    low = short(min(values))
    high = short(max(values))
    return low if low == high else f"{low}–{high}"


def measured(result: Result) -> str:
    """The numbers of samples, batches, inputs and tokens that were measured."""
    m = result.measured
    cell = result.cell
    batch = cell.batch_size
    scenario = SCENARIOS[cell.scenario]
    if not scenario.loadgen:
        return _steps(result)
    text = f"{m['samples']:,} samples"
    if not scenario.one_sample_a_query:
        text += f" in {counted(m['batches'], 'batch')} of {batch}"
    if scenario.serves:
        text = f"{m['samples']:,} requests"
    elif m["padding_fraction"]:
        text += f", {m['padding_fraction']:.2%} of their rows padding"
    elif batch > 1 and cell.dataset != "uneven":
        text += ", no padding"
    parts = [text]
    if "passes" in m:
        is_whole = scenario.one_query or float(m["passes"]).is_integer()
        over = f"{m['passes']:,.4g} passes over" if is_whole else "drawn from"
        inputs = round(m["samples"] / m["passes"])
        parts.append(f"{over} {inputs:,} inputs{_lengths(cell)}")
    if "tokens" in m:
        tokens = f"{m['tokens']:,} tokens, {m['tokens'] / m['samples']:.4g} a sample"
        end = _ENDS.get(cell.eos or "")
        parts.append(f"{tokens}, {end}" if end else tokens)
    return "; ".join(parts)


def _lengths(cell: Cell) -> str:
    """The lengths of a cell's inputs in words; empty for a model that has none."""
    seq_len = cell.seq_len
    if cell.dataset != "uneven":
        return f" of {seq_len} tokens" if seq_len else ""
    in_buckets = any(name in switches() and switches()[name].buckets for name in cell.switches)
    most = "at most " if in_buckets else ""
    padding = f", padded to {most}{seq_len} tokens" if seq_len else ""
    return f" of uneven length{padding}"


def computing(metrics: Metrics) -> str:
    """One line on the operations and bytes a second, and their shares of this framework's limits.

    Operations that are not counted but follow from the weights are a lower bound.
    """
    reached = metrics["flops_per_second"]
    moved = metrics.get("bytes_per_second")
    text = flops(reached)
    if moved is None:
        text += " at least"
    part = metrics.get("matrix_share")
    if part:
        product = f"a large matrix product of this framework ({flops(reached / part)})"
        text += f", {share(part)} of {product}"
    if moved is None:
        return text
    text += f"; {moved / 1e9:,.3g} GB/s at least"
    part = metrics.get("bandwidth_share")
    if part:
        text += f", {share(part)} of what it reads ({moved / part / 1e9:,.3g} GB/s)"
    limit = binds(metrics)
    if limit:
        text += f"; {limit} bind{'' if limit == MATRIX_PRODUCTS else 's'}"
    return text


def matrix_products(result: Result) -> dict[str, Any]:
    """The evidence of the library that multiplied matrices (`sut.evidence.matrix_library.fact`).

    Empty in a result that lacks it.
    """
    fact = result.seen.detail.get("matrix_products") if result.seen else None
    return fact if isinstance(fact, dict) else {}


def library(fact: Mapping[str, Any]) -> str:
    """A library, its instructions and its threads in words: `MKL, AVX2, 2 threads`.

    Parts that are not known are left out.
    """
    known = {name: value for name, value in fact.items() if value != UNKNOWN}
    words = [known.get("library", "an unknown library"), known.get("instructions", "")]
    threads = known.get("threads")
    if threads:
        words.append(f"{threads} thread{'' if threads == 1 else 's'}")
    return ", ".join(filter(None, words))


def flops(rate: float) -> str:
    """Floating-point operations a second as text: `184 GFLOP/s`, `1,234 TFLOP/s`."""
    value, unit = (rate / 1e12, "TFLOP/s") if rate >= 1e12 else (rate / 1e9, "GFLOP/s")
    return f"{value:,.0f} {unit}" if value >= 99.5 else f"{value:.3g} {unit}"


def share(part: float) -> str:
    """A fraction in percent: `27%`, or `0.4%` if it is small."""
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"


def _steps(result: Result) -> str:
    m = result.metrics
    steps = f"{result.measured['batches']:,} steps of {result.cell.batch_size} samples"
    first = f"the first of {m['first_step_seconds']:.3g} s"
    text = f"{steps}{_lengths(result.cell)}, after two untimed ones, {first}"
    if "trained_parameters" in m:
        text += f"; {m['trained_parameters']:,.0f} parameters trained"
    if "drift_fraction" in m:
        return f"{text}; the last third took {m['drift_fraction']:+.1%} compared with the first"
    return (
        f"{text}; no times of single steps, because the last one was long: the framework may run"
        " ahead of its device"
    )


def official(score: OfficialScore) -> str:
    """One line on the official metric: whether it passes, its values, and the limits."""
    values = ", ".join(f"{name} {value:.7g}" for name, value in score.values.items())
    limits = [f"{name} {limit}" for name, limit in score.limits.items()]
    limits += [f"{name} at most {limit}" for name, limit in score.at_most.items()]
    text = f"{values or 'not scored'} ({score.benchmark} requires {', '.join(limits)}"
    if not score.closed:
        return f"{text} in the closed division, and the model or the data are others)"
    return f"{'pass' if score.passed else 'FAIL'}: {text})"


def accuracy(score: Judgement) -> str:
    """One line on the accuracy: whether the answers pass, their score, and the limit."""
    verdict = "pass" if score.passed else "FAIL"
    text = f"{verdict}: {score.metric} {score.value:.3g} (limit {score.threshold:g})"
    for name in _DETAILS:
        if name in score.detail:
            text += f", {name.replace('_', ' ')} {score.detail[name]:.4g}"
    return text


def first_answer(result: Result) -> str:
    """The time until the first answer, and the state of the cache of compiled programs."""
    m = result.metrics
    name = next(name for name in m if name.endswith(_FIRST_ANSWER))
    seconds = m[name]
    state = {
        "cached_": "compiled programs from the cache; cache warm",
        "partly_cached_": "some programs compiled, some from the cache; cache partly warm",
    }.get(name.removesuffix(_FIRST_ANSWER))
    if state is None:
        state = cold_start(result.cell.sut) if "compile_seconds" in m else "nothing is compiled"
    return f"first answer after {short(seconds)} s ({state})"


def cold_start(sut: str) -> str:
    """The state of the cache of a SUT that compiled all its programs."""
    return (
        "compiled; cache cold" if keeps_programs(sut) else "compiled; no programs are kept on disk"
    )


def _energy(energy: Energy) -> str:
    """Joules of the performance test, or the reason why there are none."""
    parts = [f"{source} {j:,.1f} J" for source, j in energy.joules.items()]
    for source, why in energy.absent.items():
        parts.append(f"{source} not measured: {why}")
    return "; ".join(parts)


def times(seconds: Mapping[str, float]) -> str:
    """The total seconds and their parts, which add up to the total."""
    sums = {"total": "in all", "until_measuring": "until measuring"}
    first = [f"{seconds[name]:.1f} s {words}" for name, words in sums.items() if name in seconds]
    parts = [f"{name} {s:.1f}" for name, s in seconds.items() if name not in sums and s >= 0.05]
    return ": ".join(", ".join(texts) for texts in (first, parts) if texts)


def counted(number: float, noun: str) -> str:
    """A number and its noun: 1 batch, 2 batches."""
    return f"{number:,} {noun}{'' if number == 1 else 'es'}"
