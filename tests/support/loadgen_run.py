"""One real LoadGen test of any scenario with a SUT of a few lines; `python -m
tests.support.loadgen_run SPEC` (JSON), a process each.

SPEC: folder (holds user.conf), scenario (LoadGen's name), mode, model, total, loaded, and of the
SUT busy_s (a sample's time), threads (0: it answers where it is asked), tokens (it streams a first
token and reports its length; a number: it reports this length), audit (the path of an
audit.config).
"""

import json
import queue
import sys
import threading
import time
from array import array
from pathlib import Path

import mlperf_loadgen as lg


def answer(index):
    """Of a sample: two to six int32."""
    return array("i", [index, *(7 * index + n for n in range(1 + index % 5))])


def _complete(ids, indices, busy_s, tokens):
    """All samples of a query in one call; first tokens after half the time."""
    kept = [answer(i) for i in indices]
    if tokens:
        time.sleep(busy_s / 2)
        lg.FirstTokenComplete(
            [
                lg.QuerySampleResponse(i, a.buffer_info()[0], 4)
                for i, a in zip(ids, kept, strict=True)
            ]
        )
    if busy_s:  # a sleep of nothing takes longer than all the rest
        time.sleep(busy_s / 2 if tokens else busy_s)
    counts = [len(a) if tokens is True else tokens for a in kept]
    rows = zip(ids, kept, counts, strict=True)
    lg.QuerySamplesComplete(
        [lg.QuerySampleResponse(i, a.buffer_info()[0], 4 * len(a), n) for i, a, n in rows]
    )


def main(spec):
    folder, scenario = Path(spec["folder"]), spec["scenario"]
    settings = lg.TestSettings()
    assert settings.FromConfig(str(folder / "user.conf"), spec["model"], scenario) == 0
    settings.scenario, settings.mode = (
        getattr(lg.TestScenario, scenario),
        getattr(lg.TestMode, spec["mode"]),
    )
    log = lg.LogSettings()
    log.log_output.outdir = str(folder)
    waiting = queue.SimpleQueue()
    busy_s, tokens = spec["busy_s"], spec["tokens"]

    def work():
        while query := waiting.get():
            _complete(query[0], query[1], busy_s, tokens)

    def issue(ids, indices):
        if workers:
            waiting.put((ids, indices))
        else:
            _complete(ids, indices, busy_s, tokens)

    workers = [threading.Thread(target=work) for _ in range(spec["threads"])]
    for worker in workers:
        worker.start()
    sut = lg.ConstructFastSUT(issue, lambda: None)
    library = lg.ConstructQSL(spec["total"], spec["loaded"], lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, library, settings, log, spec["audit"])
    for _ in workers:
        waiting.put(None)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
