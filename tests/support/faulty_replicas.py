"""Replicas with faults. `python -m tests.support.faulty_replicas KIND HOST PORT JOB NUMBER PART
PARTS` is one, as `scenarios.worker.replicas.step` would start it on a node.
"""

import os
import signal
import sys
import threading
import time

from scenarios.worker import replica
from scenarios.worker.replica import Replica
from scenarios.worker.replicas import nodes, step

_KIND = "KIND_OF_REPLICA"
_MODULE = "tests.support.faulty_replicas"


class Twice(Replica):
    """Answers each batch twice."""

    def _reply(self, message, reply, arrays=None):
        super()._reply(message, reply, arrays)
        if arrays:
            super()._reply(message, reply, arrays)


class OtherSamples(Replica):
    """Answers its batch with the name of another one."""

    def _completing(self, message, watch):
        arrays = {"indices": message.arrays["indices"] + 1}
        return super()._completing(message._replace(arrays=arrays), watch)


class OtherRequest(Replica):
    """Answers a request that another replica holds."""

    def _completing(self, message, watch):
        header = {**message.header, "number": message.header["number"] - 1}
        return super()._completing(message._replace(header=header), watch)


class Dies(Replica):
    """Closes its connection at its first batch."""

    def _answer(self, message):
        self.connection.close()
        raise EOFError


class Hangs(Replica):
    """Never answers a batch."""

    def _answer(self, message):
        threading.Event().wait()


class HangsOutside(Replica):
    """Never takes the evidence before a test."""

    def _take(self, message):
        if message.header["do"] == "begin":
            threading.Event().wait()
        super()._take(message)


class LoadsSlowly(Replica):
    """Takes 0.9 seconds to load, with progress."""

    def _take(self, message):
        for _ in range(6 * (message.header["do"] == "load")):
            time.sleep(0.15)
            self.beat.bump()
        super()._take(message)


class Raises(Replica):
    """Its SUT raises an error."""

    def _answer(self, message):
        raise MemoryError("no room")


class OtherVersion(Replica):
    """Has another numpy."""

    def _reply(self, message, reply, arrays=None):
        if "versions" in reply:
            reply = {**reply, "versions": {**reply["versions"], "numpy": "0.1"}}
        super()._reply(message, reply, arrays)


class OtherPrecision(Replica):
    """Computes in another precision."""

    def _reply(self, message, reply, arrays=None):
        if "evidence" in reply:
            before, after = reply["evidence"]
            reply = {**reply, "evidence": [before, {**after, "precision": "float16"}]}
        super()._reply(message, reply, arrays)


class OtherGraphs(Replica):
    """Fell back to another number of graphs."""

    def _reply(self, message, reply, arrays=None):
        if "evidence" in reply:
            before, after = reply["evidence"]
            reply = {**reply, "evidence": [before, {**after, "graphs": 3}]}
        super()._reply(message, reply, arrays)


class OutsideOfItsCores(Replica):
    """A thread of it may run on the processors of others."""

    def _reply(self, message, reply, arrays=None):
        if "cores" in reply:
            reply = {**reply, "cores": [*reply["cores"], 4095]}
        super()._reply(message, reply, arrays)


class Slow(Replica):
    """Takes 0.1 seconds longer for a batch than the others."""

    def _answer(self, message):
        time.sleep(0.1)
        super()._answer(message)


class Stops(Replica):
    """Sends only the length of its first answer."""

    def _answer(self, message):
        os.write(self.connection.fileno(), (100).to_bytes(4, "big"))
        threading.Event().wait()


class Killed(Replica):
    """Is killed while it has a batch."""

    def _answer(self, message):
        os.kill(os.getpid(), signal.SIGKILL)


class OtherWeights(Replica):
    """Reads other weights. Its node says so before it is made."""


def main(argv):
    """Be a step if a KIND is given, and else its replica. `argv`: see the module."""
    _, *words = argv
    if words[0] in globals():
        os.environ[_KIND] = words[0]
        step.main(["", *words[1:]], _MODULE)
        return
    kind = os.environ[_KIND]
    replica.Replica = globals()[kind]
    if kind == OtherWeights.__name__:
        facts = nodes.facts
        nodes.facts = lambda job: {**facts(job), "weights": "/weights (sha256 other)"}
    replica.main(["", *words])


if __name__ == "__main__":
    main(sys.argv)
