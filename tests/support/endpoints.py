"""The six results of MLPerf Inference v6.1 that mlcommons/endpoints measured and MLCommons
published, as their files. Names of machines and models are replaced, and of percentiles only the
judged one is there.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compliance import rules
from formats.writing import write_json
from tests.support.files import read_json

SEEDS = rules.load("v6.1").seeds
_SCHEMA = Path(rules.__file__).parents[1] / "schemas" / "system.json"
SYSTEM = {
    **dict.fromkeys(read_json(_SCHEMA)["required"], "1"),
    "submitter": "Someone",
    "status": "preview",
    "system_type": "datacenter",
}
MEASUREMENTS = {
    "input_data_types": "fp32",
    "retraining": "No",
    "starting_weights_filename": "x",
    "weight_data_types": "fp4",
    "weight_transformations": "quantization",
}
_SEEDS = {
    "scheduler_random_seed": SEEDS["schedule_rng_seed"],
    "dataloader_random_seed": SEEDS["sample_index_rng_seed"],
}
Latencies = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class Published:
    """The numbers of a published result.

    Attributes:
        figure: the figure of summary.json, with our spelling of its unit.
        window_ns: legacy_loadgen_window_duration_ns.
        rate: target_qps.
        asks_for_samples: whether n_samples_to_issue is set.
        ttft, tpot, latency: minimum, mean, maximum, the 99th percentile and its early-stopping
            estimate, in ns.
        accuracy: data set, score, samples and output tokens of the accuracy run.
    """

    figure: str
    samples: int
    duration_ns: int
    min_duration_ms: int
    qps: float
    tps: float
    tokens: int
    latency: Latencies
    accuracy: tuple[str, float, int, int]
    window_ns: int | None = None
    rate: float | None = None
    asks_for_samples: bool = True
    ttft: Latencies | None = None
    tpot: Latencies | None = None


RESULTS = {
    "deepseek-r1/Server": Published(
        figure="1175890.2208168239 tokens/s",
        samples=600000,
        duration_ns=2318929756903,
        min_duration_ms=1800000,
        qps=310.0842360889801,
        tps=1175890.2208168241,
        tokens=2275294499,
        window_ns=1934954861194,
        rate=325.0,
        ttft=(101079232, 212027041.1, 3580104964, 303546985.0, 304652135.0),
        tpot=(11184951.4, 38692874.1, 51854868.2, 48215361.5, 48224073.2),
        latency=(2297489847, 146920827636.9, 916647870064, 784837620760.0, 788341844995.0),
        accuracy=("deepseek_r1_accuracy", 81.42661804922516, 4388, 16425558),
    ),
    "deepseek-r1/Interactive": Published(
        figure="652750.1447708113 tokens/s",
        samples=330000,
        duration_ns=2077965287526,
        min_duration_ms=1500000,
        qps=168.44961107838623,
        tps=652750.1447708113,
        tokens=1278761605,
        window_ns=1959036876888,
        rate=170.0,
        ttft=(133565203, 279607807.9, 6438270046, 475315730.0, 484730193.0),
        tpot=(4004376.6, 10532468.6, 13960037.0, 12549085.6, 12560416.4),
        latency=(1366415490, 39897557014.6, 274161318774, 196279394896.0, 196907292356.0),
        accuracy=("deepseek_r1_accuracy", 80.62898814949864, 4388, 16425558),
    ),
    "deepseek-r1/Offline": Published(
        figure="1183326.8540322022 tokens/s",
        samples=1600000,
        duration_ns=5124404179908,
        min_duration_ms=5400000,
        qps=312.2314212203155,
        tps=1183326.8540322022,
        tokens=6063845077,
        latency=(8755717433, 2365864027313.7, 5092412780200, 4798364638562.0, 4800956301783.0),
        accuracy=("deepseek_r1_accuracy", 81.35824977210574, 4388, 16425558),
    ),
    "qwen3-vl-235b-a22b/Server": Published(
        figure="2323.2698417825 queries/s",
        samples=1545248,
        duration_ns=667655142694,
        min_duration_ms=600000,
        qps=2323.2698417825063,
        tps=99742.4611703127,
        tokens=66340438,
        window_ns=665117315350,
        rate=2340.0,
        asks_for_samples=False,
        ttft=(47598996, 1935403963.7, 78020155499, 4413215109.0, 4431160548.0),
        tpot=(13149801.9, 117710588.9, 310170475.0, 161422662.0, 161677861.6),
        latency=(532035905, 6864431167.5, 84176712502, 10326895939.0, 10344495777.0),
        accuracy=("shopify_product_catalogue::q3vl", 0.7874153796727632, 48289, 2073343),
    ),
    "qwen3-vl-235b-a22b/Interactive": Published(
        figure="1306.6078446835 queries/s",
        samples=872000,
        duration_ns=667825706521,
        min_duration_ms=600000,
        qps=1306.6078446834506,
        tps=56019.60643571348,
        tokens=37386153,
        window_ns=667376216627,
        rate=1310.0,
        asks_for_samples=False,
        ttft=(69411183, 350663793.2, 6013165371, 906468974.0, 910492462.0),
        tpot=(2159.4, 12452299.2, 59517708.9, 14128833.9, 14136758.4),
        latency=(239857729, 871022430.7, 6688164650, 1479941358.0, 1483688717.0),
        accuracy=("shopify_product_catalogue_8k::q3vl", 0.7845128091628396, 8000, 342370),
    ),
    "qwen3-vl-235b-a22b/Offline": Published(
        figure="2392.6979194588 samples/s",
        samples=1738404,
        duration_ns=726545539185,
        min_duration_ms=600000,
        qps=2392.6979194587702,
        tps=102722.30022046335,
        tokens=74632429,
        latency=(991536986, 132066942551.7, 265629270675, 255984205092.0, 256017759878.0),
        accuracy=("shopify_product_catalogue::q3vl", 0.7871815525981819, 48289, 2072922),
    ),
}


@dataclass
class Files:
    """The content of the three files of a result. config.yaml is written as JSON, which is YAML.
    The documents that a submission requires are written too.

    Attributes:
        others: more files, name → text.
    """

    summary: dict[str, Any]
    accuracy: dict[str, Any]
    config: dict[str, Any]
    others: dict[str, str] = field(default_factory=dict)

    def write(self, folder):
        """Write the files below `folder`, which is new, and return it."""
        for name, content in (
            ("performance/result_summary.json", self.summary),
            ("accuracy/accuracy_results.json", self.accuracy),
            ("config.yaml", self.config),
            ("measurements.json", MEASUREMENTS),
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_json(folder / name, content)
        for name, text in {"README.md": "Run it.\n", **self.others}.items():
            (folder / name).write_text(text)
        return folder


def submission(root, division="closed"):
    """Write a submitter's documents: system description, source and calibration. Return the folder
    of the system.
    """
    submitter = root / division / "Someone"
    for name, text in (
        ("systems/sys72.json", json.dumps({**SYSTEM, "division": division})),
        ("src/run.py", "run()\n"),
        ("documentation/calibration.md", "Nothing was calibrated.\n"),
    ):
        (submitter / name).parent.mkdir(parents=True, exist_ok=True)
        (submitter / name).write_text(text)
    return submitter / "results" / "sys72"


def published(name, change=lambda _: None):
    """The files of a published result after a change."""
    numbers = RESULTS[name]
    pattern = {"type": "max_throughput"}
    if numbers.rate:
        pattern = {
            "type": "poisson",
            "target_qps": numbers.rate,
            "use_legacy_loadgen_qps_metrics": True,
        }
    files = Files(_summary(numbers, pattern), _accuracy(*numbers.accuracy), {})
    files.config = {
        "type": "online" if numbers.rate else "offline",
        "model_params": {"name": "a-model", "streaming": "on" if numbers.ttft else "off"},
        "settings": {
            "runtime": {
                "min_duration_ms": numbers.min_duration_ms,
                **({"n_samples_to_issue": numbers.samples} if numbers.asks_for_samples else {}),
                **_SEEDS,
            },
            "load_pattern": copy.deepcopy(pattern),
        },
    }
    change(files)
    return files


def _summary(numbers, pattern):
    return {
        "n_samples_issued": numbers.samples,
        "n_samples_completed": numbers.samples,
        "n_samples_failed": 0,
        "duration_ns": numbers.duration_ns,
        "state": "complete",
        "complete": True,
        "ttft": _series(numbers.ttft),
        "tpot": _series(numbers.tpot),
        "latency": _series(numbers.latency),
        "output_sequence_lengths": {
            "total": numbers.tokens,
            "avg": numbers.tokens / numbers.samples,
        },
        "legacy_loadgen_window_duration_ns": numbers.window_ns,
        "qps": numbers.qps,
        "tps": numbers.tps,
        "run_config": {"load_pattern": {"target_concurrency": None, **pattern}, **_SEEDS},
    }


def _series(latencies):
    if latencies is None:
        return {}
    low, mean, high, percentile, estimate = latencies
    return {
        "min": low,
        "avg": mean,
        "max": high,
        "percentiles": {"99.0": percentile},
        "early_stopping_percentiles": {"99.0": estimate},
    }


def _accuracy(name, score, samples, tokens):
    entry = {
        "dataset_name": name,
        "score": score,
        "unit_samples": samples,
        "num_repeats": 1,
        "total_samples": samples,
        "complete": True,
        "dataset_type": "accuracy",
        "response_counts": {"issued": samples, "scored": samples, "empty": 0, "missing": 0},
        "output_sequence_lengths": {"total": tokens},
    }
    return {"average_accuracy": score, "accuracy_scores": [entry]}
