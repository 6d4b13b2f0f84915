"""Quantises the weights of a model by NNCF, the tool of OpenVINO."""

from __future__ import annotations

from typing import Any

import nncf
from nncf.quantization.advanced_parameters import (
    AdvancedCompressionParameters,
    GroupSizeFallbackMode,
)

from formats.cell import INT8_WEIGHTS


def quantize(model: Any, kind: str) -> Any:
    """Return the model with weights of 8 bits for each column, or of 4 bits for each group of 128
    values. The products are of the precision of the model.

    NNCF's default leaves the embedding and the head at 8 bits if the others have 4. Here all have
    4.
    """
    if kind == INT8_WEIGHTS:
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    return nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT4_SYM,
        group_size=128,
        all_layers=True,
        advanced_parameters=AdvancedCompressionParameters(
            group_size_fallback_mode=GroupSizeFallbackMode.ADJUST
        ),
    )
