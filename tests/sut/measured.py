"""Answers of SUTs to the inputs of one model and size, in files of a folder."""

import numpy as np

from benchmarks.disagreement import MeasuredSize
from harness.inputs import checkpoint, dataset, depth_limits, limits
from sut.registry import REFERENCE, spec_of
from tests.conftest import CACHE
from tests.support import frameworks
from tests.support.files import read_json


class UserSize(MeasuredSize):
    """A user's weights, and inputs that are made of `data` as `dataset.prepare` does."""

    def __init__(self, model, size, found, folder, data, samples=0, **how):
        self.model = model
        self.size = size
        self.device = "cpu"
        self.folder = folder
        self.cache = CACHE
        self.inputs = dataset.prepare(model, size, samples, data, CACHE, **how)
        self.checkpoint = checkpoint.of_folder(found, model, folder)

    def answered(self, interpreter, sut):
        """The file of the SUT's answers. The first call makes the reference, too."""
        for name in (REFERENCE, sut):
            if not self.file(name).exists():
                frameworks.answer(interpreter(spec_of(name).environment), self, name)
        return self.file(sut)

    def judged(self, answers):
        """The score of these answers by limits that follow from depth and spread."""
        with np.load(self.file(REFERENCE)) as reference:
            tolerance, reason = depth_limits.of_weights(self.size, "float32", dict(reference))
        assert reason == ""
        return self.score(answers, tolerance)


class Broken:
    """Answers of a size's SUTs, whole and with one thing broken at a time: one task for each SUT.

    Args:
        cases: SUT → what its program is to break.
        more: of the program's specification.
    """

    def __init__(self, interpreter, cell, program, cases, **more):
        self.interpreter = interpreter
        self.cell = cell
        self.program = program
        self.cases = cases
        self.more = more
        self.done = set()

    def folder(self, sut):
        """The folder with the answers of every case."""
        if not self.done:
            frameworks.answer(self.interpreter("native-torch"), self.cell, REFERENCE)
        if sut not in self.done:
            # Or the test is skipped, and the next one asks again.
            python = self.interpreter(spec_of(sut).environment)
            self.done.add(sut)
            told = {"cases": self.cases[sut], "folder": str(self.cell.folder), **self.more}
            frameworks.answer(python, self.cell, sut, self.program, **told)
        return self.cell.folder

    def score(self, sut, case, precision="float32"):
        """The score of one case by the limits of a precision."""
        device = "cuda" if precision == "tf32" else "cpu"
        tolerance = limits.limits(self.cell.model, self.cell.size, precision, device)
        return self.cell.score(self.folder(sut) / f"{sut} {case}.npz", tolerance)

    def seen(self, sut):
        """What the program wrote of the SUT."""
        return read_json(self.folder(sut) / f"{sut}.json")
