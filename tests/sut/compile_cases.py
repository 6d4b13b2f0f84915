"""Runs in native torch's environment: honest compiled SUTs, and what each leaves as evidence. The
tests know no framework.

`python -m tests.sut.compile_cases SPEC.json` writes cases.json beside the specification: what
honest SUTs leave, with their answers in answers.npz, or what they say to `refusals`.
"""

import gc
import sys
import weakref
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from formats.writing import write_json
from scenarios.worker.watching.evidence import watch
from sut.contract import Unsupported
from sut.evidence import torch_profile
from sut.native_torch import bert, causal_lm, compiled
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of
from tests.sut.probe import answer


def prompts(lengths, width=9, new=6, seed=7):
    """Right-padded prompts of these lengths; so many new tokens that all buckets are the last."""
    ids = np.random.default_rng(seed).integers(3, 1000, (len(lengths), width)).astype(np.int32)
    held = np.array(lengths, np.int32)
    ids *= np.arange(width) < held[:, None]
    return {
        "input_ids": ids,
        "prompt_length": held,
        "max_new_tokens": np.full(len(lengths), new, np.int32),
    }


def sentences(rows, width=16):
    ids = np.random.default_rng(5).integers(3, 1000, (rows, width)).astype(np.int32)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def seen(sut, *given):
    return asdict(watch(sut, [sut.prepare(inputs) for inputs in given]))


def honest_generate(w, answers):
    """Padded and full prompts after each other, and again, in a cache that the call before has
    filled.
    """
    eager, sut = causal_lm.load(replace(w, execution="eager")), causal_lm.load(w)
    batches = {
        "padded": prompts([3, 9, 5]),
        "full": prompts([9, 9, 9], seed=8),
        "others": prompts([9, 2, 4], seed=9),
    }
    answers["padded first"] = answer(sut, batches["padded"])["tokens"]
    before = seen(sut, batches["padded"])
    for name, batch in batches.items():
        answers[f"{name} compiled"], answers[f"{name} eager"] = (
            answer(s, batch)["tokens"] for s in (sut, eager)
        )
    after = seen(sut, batches["padded"])
    ids = np.random.default_rng(3).integers(3, 1000, (3, 14)).astype(np.int32)
    answers["forced compiled"], answers["forced eager"] = (s.logits(ids) for s in (sut, eager))
    found = {
        "before": before,
        "after": after,
        "after logits": seen(sut, batches["padded"]),
        "eager": seen(eager, batches["padded"]),
    }
    found["records"] = records(eager, batches["padded"])
    with patch.object(torch_profile, "_PASSES_A_RECORD", 1000):
        found |= {
            f"{name} in one record": seen(s, batches["padded"])
            for name, s in {"after": sut, "eager": eager}.items()
        }
    sut.model.forward = misplaced(sut.model)
    answers["forced wrong"] = sut.logits(ids)
    return found


def records(sut, batch):
    """How many records the profiler makes of one call, and how many of them are still there while
    Python's collector is off.
    """
    made = []

    class Watched(torch.profiler.profile):
        def stop(self):
            super().stop()
            made.append(weakref.ref(self.profiler))

    gc.disable()
    with patch.object(torch.profiler, "profile", Watched):
        seen(sut, batch)
    left = sum(record() is not None for record in made)
    gc.enable()
    return {"made": len(made), "left": left}


def misplaced(model):
    """A forward that takes every token for the first."""
    right = type(model).forward

    @wraps(right.__get__(model))
    def forward(*args, position_ids, **named):
        return right(model, *args, position_ids=position_ids * 0, **named)

    return forward


def honest_predict(w, answers):
    eager, sut = bert.load(replace(w, execution="eager")), bert.load(w)
    answers["logits compiled"], answers["logits eager"] = (
        answer(s, sentences(3))["logits"] for s in (sut, eager)
    )
    before = seen(sut, sentences(3))
    answer(sut, sentences(3))
    return {"before": before, "after": seen(sut, sentences(3))}


def honest_wrapper(w):
    """`torch.compile(model)`, called through what it returns."""
    sut = uncompiled(w, bert)
    sut.model = torch.compile(sut.model, mode=compiled.MODE, dynamic=False, fullgraph=True)
    for rows in (2, 3):
        answer(sut, sentences(rows))
    before = seen(sut, sentences(2), sentences(3))
    answer(sut, sentences(3))
    return {"before": before, "after": seen(sut, sentences(2), sentences(3))}


@contextmanager
def cheaply():
    """Dynamo's regions without Inductor's compilations; Dynamo counts on from here."""
    from torch._dynamo import config
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    loaded, compiled.BACKEND = compiled.BACKEND, "eager"
    try:
        yield
    finally:
        compiled.BACKEND = loaded
        config.recompile_limit = 64
        torch._dynamo.reset()


def uncompiled(w, kind):
    """A SUT that says compile, before anyone compiled its model."""
    sut = kind.load(w)
    del sut.model.forward
    return sut


def refusals(predict):
    """What an honest compiled SUT says where it could run eager only; by what it tries."""

    def limit():
        sut = bert.load(predict)
        torch._dynamo.config.recompile_limit = 1
        for rows in (2, 3):
            answer(sut, sentences(rows))

    def break_():
        sut = uncompiled(predict, bert)
        sut.model.bert.encoder.layer[0].forward = torch.compiler.disable(
            sut.model.bert.encoder.layer[0].forward
        )
        compiled.compile_forward(sut.model, {})
        answer(sut, sentences(2))

    def compiler():
        from torch._inductor import config

        with config.patch({"cpp.cxx": ("no-such-compiler",)}):
            bert.load(predict)

    tried = {"limit": limit, "break": break_, "compiler": compiler}
    return {name: _told(do) for name, do in tried.items()}


def _told(do):
    with cheaply():
        try:
            do()
        except (
            Unsupported,
            torch._dynamo.exc.TorchDynamoException,
            torch._dynamo.exc.FailOnRecompileLimitHit,
        ) as e:
            return f"{type(e).__name__}: {e}".splitlines()[0]
    return "it ran"


def main(specification):
    spec = read_json(specification)
    predict, generate = (workload_of(spec[name]) for name in ("bert", "mistral"))
    if spec["refusals"]:
        told = refusals(predict)
    else:
        answers = {}
        told = {
            "honest generate": honest_generate(generate, answers),
            "honest predict": honest_predict(predict, answers),
            "honest wrapper": honest_wrapper(predict),
        }
        np.savez(specification.parent / "answers.npz", **answers)
    write_json(specification.parent / "cases.json", told)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
