"""Builds a language model for onnxruntime-genai by its own builder: `converted_models.run` runs
this module.
"""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnxruntime_genai
import transformers
from tokenizers import Tokenizer, models

from sut import converted_models
from sut.contract import Config, Unsupported, Workload
from sut.evidence import causes
from sut.registry import QUANTIZE

_BUILDER = "onnxruntime_genai.models.builder"
_CONFIG, _TOKENIZER = "config.json", "tokenizer.json"
_OTHERWISE = "take native-torch-eager"


def build(workload: Workload, folder: Path) -> None:
    """Fill the folder. Raises Unsupported in the builder's words, or if it would build another
    model without a word.
    """
    for fault in faults(workload):
        version = onnxruntime_genai.__version__
        raise Unsupported(f"onnxruntime-genai {version} {fault}: {_OTHERWISE}")
    precision = workload.options.get(QUANTIZE, "fp32")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        _link(workload.checkpoint, source)
        # With a window in its cache, a model takes no sequence that is shorter than the window.
        extra = "windowed_kv_cache=false"
        flags = ["-i", source, "-o", folder, "-p", precision, "-e", "cpu", "-c", scratch]
        sys.argv = [_BUILDER, *map(str, flags), "--extra_options", extra]
        try:
            runpy.run_module(_BUILDER, run_name="__main__")
        except Exception as e:
            words = f"{type(e).__name__}: {causes.line(e).replace(str(source), workload.model)}"
            versions = f"{onnxruntime_genai.__version__} with Transformers"
            raise Unsupported(
                f"the builder of onnxruntime-genai {versions} {transformers.__version__} does not"
                f" build this {workload.model} ({words}): {_OTHERWISE}"
            ) from e


def _link(checkpoint: Path, source: Path) -> None:
    """Make a folder with the files of a checkpoint. The builder requires a tokenizer and an end
    token, which nothing uses here.
    """
    source.mkdir()
    for each in checkpoint.iterdir():
        (source / each.name).symlink_to(each.resolve())
    config = json.loads((source / _CONFIG).read_text(encoding="utf-8"))
    if config.get("eos_token_id") is None:
        (source / _CONFIG).unlink()
        text = json.dumps({**config, "eos_token_id": 0})
        (source / _CONFIG).write_text(text, encoding="utf-8")
    if not (source / _TOKENIZER).exists():
        Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[])).save(str(source / _TOKENIZER))
        described = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
        (source / "tokenizer_config.json").write_text(described, encoding="utf-8")


def faults(workload: Workload) -> Iterator[str]:
    """Yield what the builder or the runtime would compute otherwise, without a word. Version 0.18.0
    was compared with Transformers for each of them.
    """
    config = workload.config["model"]
    kind = config.get("model_type", "")
    yield from _of_rotary(kind, config)
    window = config.get("sliding_window")
    longest = workload.config["prompt_buckets"][-1] + workload.config["new_token_buckets"][-1]
    if kind in ("mistral", "phi3") and window and window < longest:
        yield f"ignores the sliding window of {window} tokens, and sequences have {longest}"
    if kind == "olmo":
        yield "computes other norms than OLMo's"
    if kind == "phi" and config.get("qk_layernorm"):
        yield "leaves out the norms of queries and keys"
    if kind == "nemotron" and config.get("mlp_bias"):
        yield "leaves out the biases of the feed-forward layers"
    for name, size in _outputs(kind, config).items():
        if size == config["vocab_size"]:
            yield f"takes a layer for the head, because the vocabulary is as large as the {name}"


def _outputs(kind: str, config: Config) -> dict[str, int]:
    """Return the outputs of each linear layer by name."""
    width = _head(config)
    inner = int(config.get("intermediate_size") or 0)
    queries = config["num_attention_heads"] * width
    keys = config.get("num_key_value_heads", 0) * width
    outputs = {
        "hidden_size": config["hidden_size"],
        "intermediate_size": inner,
        "width of the queries": queries,
        "width of the keys": keys,
    }
    if kind == "phi3":  # its layers are fused
        outputs["width of queries, keys and values"] = queries + 2 * keys
        outputs["width of both gates"] = 2 * inner
    return outputs


def _of_rotary(kind: str, config: Config) -> Iterator[str]:
    """Yield the faults of rotary positions."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    scaling = rope.get("rope_type", rope.get("type", "default"))
    if kind in ("llama", "nemotron") and scaling in ("linear", "yarn", "longrope", "dynamic"):
        yield f"leaves out the scaling of rotary positions ({scaling}) of a {kind}"
    if scaling == "yarn" and rope.get("attention_factor"):
        yield "ignores yarn's attention_factor"
    width = _head(config)
    if width % 8:
        yield f"has no attention for heads of {width} numbers, which is no multiple of 8"
    turned = round(width * float(rope.get("partial_rotary_factor", 1.0)))
    if turned % 16 and turned != width:
        yield f"turns no {turned} of the {width} numbers of a head, which is no multiple of 16"


def _head(config: Config) -> int:
    own: Any = config.get("head_dim")
    return int(own or config["hidden_size"] // config["num_attention_heads"])


if __name__ == "__main__":
    converted_models.converter(build)
