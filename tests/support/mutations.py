"""What a single mutation of a run directory is made of. Where nothing else is said, a function
returns a change: a function of the run directory.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from harness.result import derive
from tests.support import tree
from tests.support.files import edit_json
from tests.support.tree import base, change, detail, scenario_folder

DETAIL, SUMMARY, ANSWERS = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
SCENARIO = "open/*/results/*/*/*"
GONE = object()
"""The value of a field that a document has no more."""
BOTH = ("performance", "accuracy")


class Mutation(NamedTuple):
    name: str
    check: str
    do: Callable[[Path], Any]
    kind: str = "Offline"
    level: str = "quick"


def mutations(table: dict[Any, dict[str, Callable[[Path], Any]]]) -> Iterator[Mutation]:
    """The mutations of a table: id of a check, or (id, kind of run, level) → name of a change that
    the check must see → the change.
    """
    for key, changes in table.items():
        check, *others = (key,) if isinstance(key, str) else key
        for name, do in changes.items():
            yield Mutation(name, check, do, *others)


# Files.


def gone(pattern):
    """The file that matches a pattern is missing."""

    def do(run):
        (path,) = run.glob(pattern)
        path.unlink()

    return do


def filled(pattern, content):
    """The file that matches a pattern, or a new one, has these bytes."""
    return lambda run: next(run.glob(pattern), run / pattern).write_bytes(content)


def end_with(pattern, tail):
    """The file that matches a pattern ends with other bytes."""

    def do(run):
        (path,) = run.glob(pattern)
        path.write_bytes(path.read_bytes()[: -len(tail)] + tail)

    return do


def written(text, *parts):
    """A file of the scenario."""
    return lambda run: scenario_folder(run).joinpath(*parts).write_text(text)


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


def scenario_renamed(run):
    scenario_folder(run).rename(scenario_folder(run).with_name("SingleStream"))


def accuracy_text(how):
    def do(run):
        path = scenario_folder(run) / "accuracy" / "accuracy.txt"
        path.write_text(how(path.read_text()))

    return do


def hashed(value):
    return accuracy_text(lambda text: text.split("hash=")[0] + value)


def forged_score(text):
    """The text of accuracy.txt with another score."""
    line, rest = text.split("\n", 1)
    return json.dumps({**json.loads(line), "value": 1e-9}) + "\n" + rest


# Documents.


def document(pattern, *keys, **values):
    """Set fields of the documents that match a pattern, below these keys."""

    def how(content):
        inner = content
        for key in keys:
            inner = inner[key]
        inner |= values
        for key in [key for key in values if inner[key] is GONE]:
            del inner[key]

    def do(run):
        for path in list(run.glob(pattern)):
            edit_json(path, how)

    return do


def record(*keys, **values):
    return document("record.json", *keys, **values)


def outcome(test, **values):
    return document(f"raw/{test}/outcome.json", **values)


def system(**values):
    return document("open/*/systems/*.json", **values)


def measurements(**values):
    return document(f"{SCENARIO}/measurements.json", **values)


def own_result(run: Path) -> dict[str, Any]:
    """The result.json that follows from the files of a run."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(derive(run))))
    return found


def result(*keys, **values):
    """The run's own result.json, or such a one, with other values in it."""

    def do(run):
        if not (run / "result.json").exists():
            (run / "result.json").write_text(json.dumps(own_result(run)))
        document("result.json", *keys, **values)(run)

    return do


# Evidence.


def seen(graphs, precision="float32", breaks=None, share=None, **detail):
    """Evidence, as outcome.json has it."""
    counts = {"graphs": graphs, "graph_breaks": breaks, "compiled_share": share}
    return {**counts, "precision": precision, "detail": detail}


def watched(test, before, after=None):
    """The test left this evidence, from before and from after it."""
    return outcome(test, evidence_before=before, evidence_after=after or before)


def executed(execution, before, after=None):
    """Both tests ran it, and left this evidence, of which result.json would be derived anew."""

    def do(run):
        (run / "result.json").unlink(missing_ok=True)
        record(execution=execution)(run)
        document("raw/*/job.json", execution=execution)(run)
        for test in BOTH:
            watched(test, before, after)(run)

    return do


def compiled(before, after, breaks=0):
    return executed(
        "compile", *(seen(graphs, breaks=breaks, share=1.0) for graphs in (before, after))
    )


# Logs.


def logged(test, **values):
    return lambda run: detail(run, test, **values)


def changed(test, name, how):
    return lambda run: change(run, test, name, how)


def replaced(test, name, old, new):
    return changed(test, name, lambda text: text.replace(old, new, 1))


def put_in(test, key, value, **metadata):
    """One more line, made from the log's second, behind it."""

    def how(text):
        lines = text.split("\n")
        entry = json.loads(lines[1].removeprefix(":::MLLOG "))
        entry |= {"key": key, "value": value, "metadata": {**entry["metadata"], **metadata}}
        return "\n".join([*lines[:2], ":::MLLOG " + json.dumps(entry), *lines[2:]])

    return changed(test, DETAIL, how)


def moved_line(text):
    """The text of a log in which two lines changed places."""
    lines = text.split("\n")
    return "\n".join([*lines[:-12], lines[-2], *lines[-12:-2], ""])


def other_hash_of_a_file(test):
    return logged(test, loadgen_file_sha1=lambda d: {**d, "/results.cc": "0" * 40})


def conf(old, new):
    def do(run):
        for test in BOTH:
            change(run, test, "user.conf", lambda text: text.replace(old, new))

    return do


def slower_than_the_clock(run):
    """Latencies ten times as long, rate and percentiles with them: only the clocks contradict."""
    percentiles = ("50__00", "90__00", "95__00", "97__00", "99__00", "99__90")
    keys = ["min", "mean", "max", *(f"{each}_percentile" for each in percentiles)]
    longer = {f"result_{key}_latency_ns": lambda v: v * 10 for key in keys}
    rate = {"result_samples_per_second": lambda v: float(f"{v / 10:.6g}")}
    detail(run, "performance", **longer, **rate)


# The trace.


def retraced(how):
    """A forger who changes the trace and states its new digest."""

    def do(run):
        path = run / "raw" / "performance" / "mlperf_log_trace.json.gz"
        content = how(gzip.decompress(path.read_bytes()).decode()).encode()
        path.write_bytes(gzip.compress(content))
        record("digests", trace=hashlib.sha256(content).hexdigest())(run)

    return do


def of_sample(number, field, change):
    """A change of the trace: another value in a field of one sample."""
    pattern = re.compile(
        rf'("sample_seq":{number},[^}}]*"{field}":|(?<="args":{{)"{field}":(?={number},))(\d+)'
    )
    return retraced(lambda text: pattern.sub(lambda m: f"{m[1]}{change(int(m[2]))}", text, count=1))


def without_sample(number):
    gone = f'"sample_seq":{number},'
    return retraced(lambda text: "\n".join(line for line in text.split("\n") if gone not in line))


# Answers.


def answers(how):
    """A forger who changes the rows of the whole log and makes accuracy.txt and the truncated log
    again, where the score still can be taken.
    """

    def do(run):
        path = run / "raw" / "accuracy" / ANSWERS
        path.write_text("\n".join(how(path.read_text().splitlines())) + "\n")
        try:
            tree.resubmit_answers(run)
        except ValueError:
            accuracy_text(lambda text: f'{{"a": 1}}\nhash={tree.sha256(path)}\n')(run)

    return do


def swapped(rows):
    """Two rows change their sample numbers: the same answers to the same samples, in another
    order.
    """
    numbers = [row.split(",", 1)[0] for row in rows[1:3]]
    return [rows[0], rows[1].replace(*numbers), rows[2].replace(*numbers[::-1]), *rows[3:]]


def of_other_samples(rows):
    """The samples of two rows change places."""
    first, second = (re.search(r'"qsl_idx" : \d+', row)[0] for row in rows[1:3])
    return [rows[0], rows[1].replace(first, second), rows[2].replace(second, first), *rows[3:]]


def other_token(rows):
    """The first answer has the same length and another first token."""
    row = rows[1].replace('"data" : "', '"data" : "FF', 1).replace('00" }', '" }', 1)
    return [rows[0], row, *rows[2:]]
