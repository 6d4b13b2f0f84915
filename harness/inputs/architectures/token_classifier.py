"""The inputs of a model that answers logits for each token: those of `bert`, padded to one length.
Answers to padding are not compared.
"""

from __future__ import annotations

from dataclasses import replace

from harness.inputs import depth_limits
from harness.inputs.architectures import bert, text

ARCHITECTURE = replace(
    bert.ARCHITECTURE,
    describe=text.describe_tokens,
    trained=None,
    limits=depth_limits.of_weights,
)
