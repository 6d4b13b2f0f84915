"""A SUT whose calls all of its ranks make (`scenarios.worker.ranks.processes`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from formats.workload import Workload
from scenarios.worker.ranks.processes import LOAD, STREAM, Ranks
from sut.contract import Batch, Evidence


def load(ranks: Ranks, function: Callable[[Workload], Any]) -> Sharded:
    """Let all ranks load the SUT. `function` loads it in this process."""
    with ranks.call(LOAD, {}):
        sut = function(ranks.workload)
        ranks.replies()
    return Sharded(sut, ranks)


@dataclass(eq=False)
class Sharded:
    """A SUT whose calls all ranks make. It has all methods of `sut.contract.Inference`."""

    sut: Any
    ranks: Ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sut, name)

    def predict(self, batch: Batch) -> Any:
        """Answer one prepared batch."""
        with self.ranks.call("predict", batch):
            return self.sut.predict(batch)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return teacher-forced logits."""
        with self.ranks.call("logits", {"tokens": tokens}):
            logits: np.ndarray = self.sut.logits(tokens)
        return logits

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Generate token by token. Rank 0 decides when all ranks stop."""

        def shared(tokens: np.ndarray) -> bool:
            goes_on = on_step(tokens)
            self.ranks.tell({"goes_on": goes_on})
            return goes_on

        with self.ranks.call(STREAM, batch):
            self.sut.stream(batch, shared)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """Return the evidence of rank 0. Its detail `shards` has what each rank holds."""
        found: Evidence = self.sut.evidence(call)
        shards = [dict(self.sut.held()), *self.ranks.held()]
        return replace(found, detail={**found.detail, "shards": shards})
