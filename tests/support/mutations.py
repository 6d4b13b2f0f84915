"""What a single mutation of a run directory is made of."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from formats.writing import write_json
from harness.result import derive
from tests.support import tree
from tests.support.files import edit_json, read_json, update_json
from tests.support.tree import base, change, detail, scenario_folder

DETAIL, SUMMARY, ANSWERS = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)


class Mutation(NamedTuple):
    name: str
    check: str
    do: Callable[[Path], Any]
    kind: str = "Offline"
    level: str = "quick"


Table = dict[Any, dict[str, Callable[[Path], Any]]]
"""Id of a check, or (id, kind of run, level) → name of a change that it must see → the change."""


def mutations(table):
    for key, changes in table.items():
        check, *others = (key,) if isinstance(key, str) else key
        for name, do in changes.items():
            yield Mutation(name, check, do, *others)


def removed(*parts):
    return lambda run: scenario_folder(run).joinpath(*parts).unlink()


def emptied(*parts):
    return lambda run: scenario_folder(run).joinpath(*parts).write_bytes(b"")


def written(text, *parts):
    return lambda run: scenario_folder(run).joinpath(*parts).write_text(text)


def logged(test, **values):
    return lambda run: detail(run, test, **values)


def replaced(test, name, old, new):
    return lambda run: change(run, test, name, lambda text: text.replace(old, new, 1))


def put_in(test, key, value, **metadata):
    """One more line, made from the log's second, behind it."""

    def how(text):
        lines = text.split("\n")
        entry = json.loads(lines[1].removeprefix(":::MLLOG "))
        entry |= {"key": key, "value": value, "metadata": {**entry["metadata"], **metadata}}
        return "\n".join([*lines[:2], ":::MLLOG " + json.dumps(entry), *lines[2:]])

    return lambda run: change(run, test, DETAIL, how)


def out_of_order(run):
    """Two lines change places."""
    change(
        run,
        "performance",
        DETAIL,
        lambda text: (lambda lines: "\n".join([*lines[:-12], lines[-2], *lines[-12:-2], ""]))(
            text.split("\n")
        ),
    )


def beside(*parts):
    """A file in the submitter's folder."""

    def do(run):
        path = base(run).joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")

    return do


def another_system(run):
    """With the results and the description of the first."""
    shutil.copytree(base(run) / "results" / tree.SYSTEM, base(run) / "results" / "other")
    shutil.copy(base(run) / "systems" / f"{tree.SYSTEM}.json", base(run) / "systems" / "other.json")


def cut_in_a_line(test):
    return lambda run: change(run, test, DETAIL, lambda text: text[:-40])


def twice(test):
    return lambda run: change(run, test, DETAIL, lambda text: text + text)


def system(**values):
    path = lambda run: base(run) / "systems" / f"{tree.SYSTEM}.json"  # noqa: E731
    return lambda run: edit_json(
        path(run), lambda d: {k: v for k, v in {**d, **values}.items() if v is not None}
    )


def record(how):
    return lambda run: edit_json(run / "record.json", how)


def outcome(test, **values):
    return lambda run: update_json(run / "raw" / test / "outcome.json", **values)


def seen(graphs, precision="float32", breaks=None, share=None, **detail):
    return {
        "graphs": graphs,
        "graph_breaks": breaks,
        "precision": precision,
        "compiled_share": share,
        "detail": detail,
    }


def executed(execution, before, after):
    """Both tests ran it, and left this evidence, of which result.json would be derived anew."""

    def do(run):
        (run / "result.json").unlink(missing_ok=True)
        update_json(run / "record.json", execution=execution)
        for test in ("performance", "accuracy"):
            outcome(test, evidence_before=before, evidence_after=after)(run)
            update_json(run / "raw" / test / "job.json", execution=execution)

    return do


def on_framework(framework):
    """The record says that this framework computed; the evidence stays that of a SUT without
    one.
    """
    return lambda run: update_json(run / "record.json", framework=framework)


def compiled(before, after, breaks=0):
    return executed(
        "compile", *(seen(graphs, breaks=breaks, share=1.0) for graphs in (before, after))
    )


def answers(how):
    """A forger who changes the whole log and makes accuracy.txt and the truncated log again, where
    the score still can be taken.
    """

    def do(run):
        path = run / "raw" / "accuracy" / ANSWERS
        path.write_text("\n".join(how(path.read_text().splitlines())) + "\n")
        try:
            tree.resubmit_answers(run)
        except ValueError:
            (scenario_folder(run) / "accuracy" / "accuracy.txt").write_text(
                f'{{"a": 1}}\nhash={tree.sha256(path)}\n'
            )

    return do


def hashed(run, value):
    path = scenario_folder(run) / "accuracy" / "accuracy.txt"
    path.write_text(path.read_text().split("hash=")[0] + value)


def forged_score(run):
    path = scenario_folder(run) / "accuracy" / "accuracy.txt"
    line, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(line), "value": 1e-9}) + "\n" + rest)


def other_hash_of_a_file(run, test):
    detail(run, test, loadgen_file_sha1=lambda d: {**d, "/results.cc": "0" * 40})


def conf(old, new):
    def do(run):
        for test in ("performance", "accuracy"):
            change(run, test, "user.conf", lambda text: text.replace(old, new))

    return do


def scenario_renamed(run):
    scenario_folder(run).rename(scenario_folder(run).with_name("SingleStream"))


def slower_than_the_clock(run):
    """Latencies ten times as long, rate and percentiles with them: only the clocks contradict."""
    keys = [
        "min",
        "mean",
        "max",
        *(f"{p}_percentile" for p in ("50__00", "90__00", "95__00", "97__00", "99__00", "99__90")),
    ]
    detail(
        run,
        "performance",
        **{f"result_{key}_latency_ns": lambda v: v * 10 for key in keys},
        result_samples_per_second=lambda v: float(f"{v / 10:.6g}"),
    )


def retraced(how):
    """A forger who changes the trace and states its new digest."""

    def do(run):
        path = run / "raw" / "performance" / "mlperf_log_trace.json.gz"
        content = how(gzip.decompress(path.read_bytes()).decode()).encode()
        path.write_bytes(gzip.compress(content))
        record(
            lambda d: {
                **d,
                "digests": {**d["digests"], "trace": hashlib.sha256(content).hexdigest()},
            }
        )(run)

    return do


def of_sample(number, field, change):
    """In the trace: another value in a field of one sample."""
    pattern = re.compile(
        rf'("sample_seq":{number},[^}}]*"{field}":|(?<="args":{{)"{field}":(?={number},))(\d+)'
    )
    return lambda text: pattern.sub(lambda m: f"{m[1]}{change(int(m[2]))}", text, count=1)


def without_sample(number):
    return lambda text: "\n".join(
        line for line in text.split("\n") if f'"sample_seq":{number},' not in line
    )


def swapped_answers(rows):
    """Two rows change their sample numbers: the same answers to the same samples, in another
    order.
    """
    numbers = [row.split(",", 1)[0] for row in rows[1:3]]
    return [rows[0], rows[1].replace(*numbers), rows[2].replace(*numbers[::-1]), *rows[3:]]


def end_with(path, tail):
    path.write_bytes(path.read_bytes()[: -len(tail)] + tail)


def other_token(row):
    """The same length, another first token."""
    return row.replace('"data" : "', '"data" : "FF', 1).replace('00" }', '" }', 1)


def own_result(run):
    """The result.json that follows from the files of a run."""
    return json.loads(json.dumps(asdict(derive(run))))


def result(*path, value):
    """The run's own result.json, or such a one, with another value in it."""

    def do(run):
        file = run / "result.json"
        found = read_json(file) if file.exists() else own_result(run)
        inner = found
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        write_json(file, found)

    return do
