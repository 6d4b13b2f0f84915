"""What the programs that break one thing of a SUT share: the answers in batches, and mistakes in the
weights and norms of a model of PyTorch.
"""

from pathlib import Path

import numpy as np

from benchmarks import answers
from sut.contract import Workload


def answer(sut, inputs, batch):
    """The answers to all inputs."""
    parts = []
    for start in range(0, len(next(iter(inputs.values()))), batch):
        rows = {name: values[start : start + batch] for name, values in inputs.items()}
        prepared = sut.prepare(rows)
        prepared = {name: np.ascontiguousarray(values) for name, values in prepared.items()}
        parts.append(sut.to_host(sut.predict(prepared)))
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def write_cases(spec, whole, inputs, changes, mistakes, of_whole=()):
    """One .npz of answers for each case of a specification of benchmarks.answers.

    Args:
        changes: of the inputs. What is neither of them nor a mistake is the whole SUT.
        mistakes: each changes a SUT that is loaded for it, or the whole one, and may return
            another.
        of_whole: mistakes for which no other SUT is loaded.
    """
    for case in spec["cases"]:
        sut = answers.load(spec) if case in mistakes and case not in of_whole else whole
        sut = mistakes.get(case, lambda sut: sut)(sut) or sut
        given = changes.get(case, lambda arrays: arrays)(inputs)
        found = answer(sut, given, spec["workload"]["batch_size"])
        np.savez(Path(spec["folder"]) / f"{spec['sut']} {case}.npz", **found)


def workload_of(fields, **changes):
    """The Workload of its JSON."""
    return Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])} | changes)


def arrays(path):
    """The content of an .npz."""
    with np.load(path) as file:
        return dict(file)


def networks(sut):
    """The modules of a SUT: its model, or the networks of its pipeline."""
    if hasattr(sut, "model"):
        return [sut.model]
    return [sut.pipeline.text_encoder, sut.pipeline.unet, sut.pipeline.vae]


def tensors(change, *words):
    """Each parameter whose name holds one of the words becomes what `change` makes of it."""

    def changed(sut):
        named = [pair for each in networks(sut) for pair in each.named_parameters()]
        hit = [parameter for name, parameter in named if any(word in name for word in words)]
        assert hit
        for parameter in hit:
            parameter.data = change(parameter.data)

    return changed


def zeros(values):
    return values * 0


def swapped(values):
    rows = np.arange(len(values))
    rows[[3, 20]] = 20, 3
    return values[rows]


def rounded(values):
    """Rounded to float16."""
    return values.half().float()


def epsilon(kind, value, network=""):
    """The norms of this class have another epsilon: in one network of a pipeline, or in all."""

    def changed(sut):
        roots = [getattr(sut.pipeline, network)] if network else networks(sut)
        modules = [module for root in roots for module in root.modules()]
        hit = [module for module in modules if type(module).__name__ == kind]
        assert hit
        for module in hit:
            module.eps = value

    return changed
