"""Exports a language model with its cache by optimum-intel: `converted_models` runs this module."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import openvino
import transformers
from optimum.exporters.openvino import main_export
from optimum.intel import OVConfig

from sut import converted_models
from sut.contract import Unsupported, Workload
from sut.exported import modules
from sut.registry import QUANTIZE

_OTHERWISE = "take native-torch-eager"
MODEL = "openvino_model.xml"


def build(workload: Workload, folder: Path) -> None:
    """Fill the folder. Raises Unsupported in optimum-intel's words, or if the model would compute
    otherwise without a word.
    """
    kind = workload.options.get(QUANTIZE)
    version = importlib.metadata.version("optimum-intel")
    for fault in faults(workload):
        raise Unsupported(f"optimum-intel {version} {fault}: {_OTHERWISE}")
    transformers.utils.logging.set_verbosity_error()
    try:
        main_export(
            str(workload.checkpoint),
            output=folder,
            task="text-generation-with-past",
            library_name="transformers",
            local_files_only=True,
            convert_tokenizer=False,
            ov_config=OVConfig(dtype="fp32"),
        )
    except Exception as e:
        words = modules.words(e).replace(str(workload.checkpoint), workload.model)
        raise Unsupported(
            f"optimum-intel {version} with Transformers {transformers.__version__} does not export"
            f" this {workload.model} ({words}): {_OTHERWISE}"
        ) from e
    if kind:
        from sut.openvino.quantize import quantize

        whole = openvino.Core().read_model(folder / MODEL)
        quantized = quantize(whole, kind)
        openvino.save_model(quantized, folder / "quantized.xml", compress_to_fp16=False)
        for end in (".xml", ".bin"):
            (folder / "quantized").with_suffix(end).replace((folder / MODEL).with_suffix(end))


def faults(workload: Workload) -> Iterator[str]:
    """Yield what would be computed otherwise, without a word. Version 2.2.0 was compared with
    Transformers for each of them.
    """
    config = workload.config["model"]
    longest = workload.config["prompt_buckets"][-1] + workload.config["new_token_buckets"][-1]
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    scaling = rope.get("rope_type", rope.get("type", "default"))
    most = config.get("max_position_embeddings")
    if most and longest > most:
        yield (
            f"exports a model of {most} positions, sequences have {longest}, and openvino-genai"
            " goes on without a word"
        )
    original = rope.get("original_max_position_embeddings") or config.get(
        "original_max_position_embeddings"
    )
    if scaling == "longrope" and original and longest > original:
        yield f"does not change longrope's factors after {original} positions within an answer"


if __name__ == "__main__":
    converted_models.converter(build)
