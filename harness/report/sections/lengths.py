"""A section on how the lengths of prompts and answers affect a comparison of Keras SUTs with
others.
"""

from __future__ import annotations

from harness.comparison.tables import Group
from harness.inputs import models
from harness.inputs.architectures import text
from harness.report.comparison import Comparison, listed
from harness.report.content import Content
from harness.report.section import Section
from sut.keras import generate as keras_generate
from sut.registry import of_keras


def section(content: Content) -> Section:
    """The cost of KerasHub's way to generate in each comparison."""
    return Section(sentences=content.of_each(sentences))


def sentences(comparison: Comparison) -> list[str]:
    """Return sentences on the cost of KerasHub's way to generate in this comparison.

    The list is empty if there is no Keras SUT, or if there are only Keras SUTs. The factor is
    `keras_generate.factor` of the size's configuration. There is no factor for a user's weights or
    prompts.
    """
    keras = [g for g in comparison.good if of_keras(g.cell.sut)]
    if comparison.groups[0].cell.task != "generate" or len(keras) in (0, len(comparison.good)):
        return []
    if _lengths_differ(keras[0]):
        return [
            (
                "the prompts are of uneven length: KerasHub and KerasNLP pad them on the right,"
                " start where the shortest prompt of a batch ends, and read each longer one token"
                " by token from there"
            )
        ]
    tokens = _tokens(keras[0])
    if tokens is None:
        return []
    first = [keras_generate.FIRST_TOKEN] if tokens[1] == 1 else []
    return [*first, *_more(keras, *tokens)]


def _more(keras: list[Group], prompt: int, new: int) -> list[str]:
    """Return a sentence for the Keras SUTs that are compiled, and one for those that are not."""
    cell = keras[0].cell
    size = models.load(cell.model, cell.task).sizes[cell.size]
    layers = text.layer_weights(size)
    head = int(size.config["vocab_size"] * size.config["hidden_size"])
    found = []
    for eager in (False, True):
        suts = [g.sut for g in keras if (g.execution == "eager") is eager]
        if suts:
            factor = keras_generate.factor(layers, head, prompt, new, eager=eager)
            sentence = (
                f"{prompt} + {new} tokens: {listed(suts)}: {factor:.2f} × the multiplications"
                " needed, because Keras passes over the answer's columns before it has tokens"
                " for them"
            )
            if eager:
                sentence += ", and computes logits for them that it does not use"
            found.append(sentence)
    return found


def _lengths_differ(group: Group) -> bool:
    if group.cell.dataset == "uneven":
        return True
    record = group.last.record
    return record is not None and record.qsl.shortest != record.qsl.longest


def _tokens(group: Group) -> tuple[int, int] | None:
    """Return the tokens of each prompt and answer. None if the size or the inputs are a user's."""
    cell = group.cell
    if cell.dataset != "synthetic" or cell.model not in models.names():
        return None
    model = models.load(cell.model, cell.task)
    if cell.size not in model.sizes:
        return None
    own = model.sizes[cell.size].inputs
    return cell.prompt_tokens or own["prompt_length"], cell.new_tokens or own["new_tokens"]
