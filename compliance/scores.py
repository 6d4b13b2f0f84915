"""The accuracy test: its log, its truncation and hash, and the score taken again from the whole log and the reference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from compliance import accuracy, files, logs, recomputed
from compliance.check import Check, judge, manual
from compliance.provenance import is_sha256, no_reference
from compliance.rules import Rules
from compliance.tree import Subject

_LOG = "mlperf_log_accuracy.json"
_ROW = re.compile(rb'"seq_id" : (\d{1,18}), "qsl_idx" : (\d{1,18}),')
_HASH = re.compile(r"^hash=(\S*)\s*$", re.MULTILINE)


def checks(s: Subject) -> list[Check]:
    submitted, whole = s.accuracy.folder / _LOG, whole_log(s)
    where = {"file": s.place.show(submitted)}
    found = [
        judge("accuracy log size", _size(submitted, s.rules), f"at most {s.rules.truncation.limit_bytes} bytes", source="E4", **where),
        judge("performance log of answers", _no_answers(s), "empty, as it must be", source="E3"),
    ]
    if whole is None:
        why = "the log is truncated, and the original is not in a submission: ask the submitter for it"
        text = judge("accuracy hash", _hash_form(s), "", source="E2")
        return [
            *found,
            _order_of_rest(s, submitted),
            text if text.outcome == "FAIL" else manual("accuracy hash", why, source="E2"),
            manual("accuracy log", why, source="E3"),
            _stated(s, why),
        ]
    answers, fault = files.attempt(logs.read_accuracy, whole)
    found.append(
        judge("accuracy hash", _hash(s, whole), "of the whole log; head and tail of the submitted one are its own", source="E2", **where)
    )
    found.append(
        judge(
            "accuracy log",
            _answers(s, answers, fault),
            f"{len(answers.payloads) if answers else 0} samples, each once",
            source="E3",
            file=s.place.show(whole),
        )
    )
    if answers is not None:
        order = recomputed.accuracy_order(s, np.array(answers.seq_ids, object), np.array(answers.indices, object))
        found.append(judge("accuracy order", order, "the one that follows from the seeds", source="C7", file=s.place.show(whole)))
    judged = ["no reference was there to judge its accuracy by"] if s.place.run and no_reference(s) else []
    return [*found, _score(s, answers, fault), judge("accuracy judged", judged, "against a reference", level="valid", source="E1")]


def _order_of_rest(s: Subject, submitted: Path) -> Check:
    """What truncation left of the log still says which samples came first and last."""
    where = {"source": "C7", "file": s.place.show(submitted)}
    content, fault = files.attempt(files.whole_bytes, submitted)
    rows = np.array(_ROW.findall(content or b""), "S18").astype(np.int64).reshape(-1, 2)
    faults = [fault] if content is None else recomputed.accuracy_order(s, rows[:, 0], rows[:, 1])
    return judge("accuracy order", faults, f"the {len(rows)} rows left are in the order of the seeds", **where)


def whole_log(s: Subject) -> Path | None:
    """raw/accuracy's, or the submitted one if it was short enough to stay whole."""
    raw = s.place.raw("accuracy")
    if raw:
        return raw / _LOG
    content, _ = files.attempt(files.whole_bytes, s.accuracy.folder / _LOG)
    return None if content is not None and s.rules.truncation.joint.encode() in content else s.accuracy.folder / _LOG


def _size(path: Path, rules: Rules) -> Iterator[str]:
    size, fault = files.attempt(lambda p: p.stat().st_size, path)
    if fault or size is None:
        yield fault
    elif not 0 < size <= rules.truncation.limit_bytes:
        yield f"{size} bytes; more than 0 and at most {rules.truncation.limit_bytes}"


def _no_answers(s: Subject) -> Iterator[str]:
    """A performance run logs no answers: others come from audit settings."""
    folder = s.place.raw("performance") or s.performance.folder
    content, fault = files.attempt(lambda p: files.ends(p, 64), folder / _LOG)
    if content and content[2] > 0 and content[0].split() != [b"[", b"]"]:
        yield f"{content[2]} bytes in the performance test's {_LOG}; LoadGen writes an empty array there"
    if fault and s.place.run:
        yield fault


def _hash_form(s: Subject) -> Iterator[str]:
    found = _HASH.findall(s.accuracy_text or "")
    if len(found) != 1 or not is_sha256(found[0]):
        yield (
            f"accuracy.txt holds {len(found)} lines of hash=<sha256>; it must be one"
            if len(found) != 1
            else "accuracy.txt: the hash is no sha256"
        )


def _hash(s: Subject, whole: Path) -> Iterator[str]:
    if faults := list(_hash_form(s)):
        yield from faults
        return
    stated, (digest, fault) = _HASH.findall(s.accuracy_text or "")[0], files.attempt(files.sha256, whole)
    if fault or digest != stated:
        yield fault or f"accuracy.txt says {stated}; the whole log has {digest}"
        return
    content, fault = files.attempt(files.whole_bytes, s.accuracy.folder / _LOG)
    cut = s.rules.truncation
    head, tail, size = files.ends(whole, cut.keep_bytes)
    if size <= cut.limit_bytes:
        same, _ = files.attempt(files.whole_bytes, whole)
        if fault or content not in (same, head + cut.joint.encode() + tail):
            yield fault or "the submitted log is not the raw one"
    elif fault or content != head + cut.joint.encode() + tail:
        yield fault or f"the submitted log is not the first and last {cut.keep_bytes} bytes of the raw one"


def _answers(s: Subject, answers: logs.Answers | None, fault: str) -> Iterator[str]:
    if answers is None:
        yield fault
        return
    yield from answers.problems
    count = s.accuracy.detail.number("effective_accuracy_sample_count")
    if count != len(answers.payloads) or sorted(answers.payloads) != list(range(len(answers.payloads))):
        yield f"{len(answers.payloads)} different samples answered; each of the {count} must be, from 0 on"
    if sorted(answers.seq_ids) != list(range(len(answers.seq_ids))):
        yield "seq_id does not run from 0 to the number of rows - 1, each once"


def _score(s: Subject, answers: logs.Answers | None, fault: str) -> Check:
    where = {"source": "E1", "file": s.place.show(s.accuracy.folder / "accuracy.txt")}
    line = (s.accuracy_text or "").split("\n", 1)[0]
    if s.place.run is None:
        return _stated(s, "a submission without a run directory around it holds no reference to score against")
    if no_reference(s):
        return manual("accuracy score", f"not judged: {s.recorded('accuracy', 'reason')}", **where)
    if answers is None:
        return judge("accuracy score", [fault], "", **where)
    found, why = files.attempt(lambda run: rescore(run, s.recorded("accuracy"), answers), s.place.run)
    if found is None:
        return judge("accuracy score", [f"cannot be taken again: {why}"], "", **where)
    return judge(
        "accuracy score",
        _compared(found, line),
        f"{found.metric} {found.value:.5g}, at most {found.threshold:g}",
        **where,
        fix="the answers differ from the reference's: see raw/accuracy and the tolerance in record.json",
    )


def _stated(s: Subject, why: str) -> Check:
    """Where the score cannot be taken again: what accuracy.txt says of itself. FAIL if it says it failed, MANUAL otherwise."""
    where = {"source": "E1", "file": s.place.show(s.accuracy.folder / "accuracy.txt")}
    line = (s.accuracy_text or "").split("\n", 1)[0]
    if not line or line.startswith("hash="):
        return judge("accuracy score", ["accuracy.txt holds no score"], "", **where)
    stated, _ = files.attempt(lambda _: json.loads(line), Path("accuracy.txt"))
    if isinstance(stated, dict) and stated.get("passed") is False:
        return judge("accuracy score", [f"accuracy.txt says of itself that it did not pass: {line[:160]}"], "", **where)
    return manual("accuracy score", why, **where)


def rescore(run: Path, judged: dict[str, Any], answers: logs.Answers) -> accuracy.Accuracy:
    """Raises OSError or one of the errors of damaged content."""
    forced = run / "raw" / "accuracy" / "logits.npy"
    return accuracy.score(
        judged["score"],
        answers.payloads,
        files.arrays(run / "reference.npz"),
        judged["tolerance"],
        judged["keys"],
        files.array(forced) if forced.exists() else None,
    )


def _compared(found: accuracy.Accuracy, line: str) -> Iterator[str]:
    stated, _ = files.attempt(lambda _: json.loads(line), Path("accuracy.txt"))
    if stated != json.loads(found.line()):
        yield f"accuracy.txt says {line[:120]!r}; the whole log scores {found.line()[:160]}"
    if not found.passed:
        limits = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in found.detail.items())
        yield f"{found.metric} is {found.value:.5g}, at most {found.threshold:g} passes ({limits})"
