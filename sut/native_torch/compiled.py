"""The compile execution applies torch.compile to the code that the measured call enters, with
mode="reduce-overhead" unless a switch of `--tuned` sets another one. It raises an error instead of
running eagerly.
"""

from __future__ import annotations

import copy
import os
import shutil
import sysconfig
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    causal_mask_function,
    sliding_window_causal_mask_function,
)

from sut.contract import Config, Unsupported
from sut.evidence import compilations
from sut.evidence.torch_profile import parts

MODE = "reduce-overhead"
BACKEND = "inductor"
_OTHERWISE = "or take --sut native-torch-eager"


def check_compiler(device: str) -> None:
    """Raises Unsupported if Inductor's code cannot be built. Inductor writes C++ for a CPU, and
    Triton with launchers in C for a GPU.
    """
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler
    from torch.utils._triton import has_triton

    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise Unsupported(
            "torch.compile builds against Python.h, which this interpreter lacks: install its"
            f" headers, {_OTHERWISE}"
        )
    if device == "cuda":
        if not has_triton():
            raise Unsupported(
                "torch.compile on cuda needs Triton, which this environment or this GPU lacks:"
                f" install it, {_OTHERWISE}"
            )
        if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
            raise Unsupported(
                "torch.compile on cuda needs a C compiler; no gcc or clang is on PATH: install"
                f" gcc, {_OTHERWISE}"
            )
        return
    try:
        cpp_builder.get_cpp_compiler()
    except InvalidCxxCompiler:
        raise Unsupported(
            "torch.compile on cpu needs a C++ compiler; no g++ is on PATH: install g++ or set CXX,"
            f" {_OTHERWISE}"
        ) from None


def compile_forward(model: torch.nn.Module, settings: Mapping[str, str]) -> None:
    """Compile the model's forward, which `__call__` and each step of `generate` enter.

    `settings`: those of the switches of `--tuned`.

    `torch.compile(model)` would create a wrapper, whose `generate` is the uncompiled model's. The
    result is one graph or an error: a graph break fails, and so do more shapes than Dynamo keeps.
    """
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    # One graph for each number of rows and prompt bucket; a data set of uneven prompts may need
    # more than the default of 8.
    torch._dynamo.config.recompile_limit = 64
    compiled = torch.compile(
        model.forward,
        backend=BACKEND,
        mode=settings.get("compile-mode", MODE),
        dynamic=settings.get("dynamic") == "on",
        fullgraph=True,
    )
    compilations.count_cached_by(_cache_hits, _cache_misses)
    setattr(model, "forward", compiled)  # noqa: B010  a method of a class is replaced on purpose


_SLIDING = "sliding_attention"
_ATTENTION = ("full_attention", _SLIDING)


class StaticCaches:
    """Caches of keys and values with fixed shape and address, one for each number of rows. Every
    call empties its cache and uses it again.

    `generate` would create a new cache at each call, and CUDA graphs would be recorded again for
    its new addresses. Each cache has room for the longest prompt and its answer, so that all
    prompts share one decoding graph. A prompt bucket is one more graph. The constructor changes the
    model's mask function and generation config.
    """

    def __init__(self, model: Any, config: Config):
        self.model = model
        self.length = config["prompt_buckets"][-1] + config["new_token_buckets"][-1]
        self.by_rows: dict[int, Any] = {}
        window = getattr(model.config, "sliding_window", None)
        # The library's cache for windows would count tokens in Python and create a new graph at
        # every step. So each layer has a cache of the whole length, and the mask has the window.
        self.layout = _without_windows(model.config)
        is_reached = window is not None and window < self.length
        model.create_masks_for_generate = partial(_mask, window if is_reached else None)
        # On CUDA, `generate` would compile its decoding steps again, around the compiled forward.
        model.generation_config.update(disable_compile=True)

    def emptied(self, rows: int) -> Any:
        """Return the StaticCache for this number of rows, emptied."""
        if rows not in self.by_rows:
            cache = transformers.StaticCache(config=self.layout, max_cache_len=self.length)
            heads, size = self._shape()
            # This happens before the first call, because tensors cannot be marked as having a fixed
            # address within a compiled graph.
            cache.early_initialization(rows, heads, size, self.model.dtype, self.model.device)
            self.by_rows[rows] = cache
        self.by_rows[rows].reset()
        return self.by_rows[rows]

    def _shape(self) -> tuple[int, int]:
        """Return (heads of keys and values, their dimensions)."""
        config = self.model.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None)
        heads //= getattr(self.model, "tp_size", None) or 1  # of one process, if the model is split
        return heads, size or config.hidden_size // config.num_attention_heads


def _without_windows(config: Any) -> Any:
    """Return the configuration for the cache, in which no layer has a window. The model keeps its
    own.

    Raises Unsupported for layers other than attention.
    """
    layout = copy.copy(config)
    layout.sliding_window = None
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return layout
    if others := sorted(set(kinds) - set(_ATTENTION)):
        raise Unsupported(
            f"the model has layers of {', '.join(others)}, for which there is no static cache here:"
            " take --sut native-torch-eager"
        )
    layout.layer_types = ["full_attention"] * len(kinds)
    return layout


def _mask(
    window: int | None,
    config: Any,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Any,
    **rest: Any,
) -> Any:
    """Return Transformers' own causal mask, bool [rows, 1, queries, cache], with and without
    padding. For a model with types of layers, return it for each type.

    The library looks at the prompts' values, and leaves the mask out if there is no padding. Each
    prompt bucket would then have a second graph. The warm-up's prompts fill their buckets, so one
    of the two graphs would be new in the test.

    Args:
        window: how many columns a token looks at, with its own, in layers with a window; None: all.
    """
    rows, queries = inputs_embeds.shape[:2]
    if attention_mask is not None:
        attention_mask = attention_mask.to(inputs_embeds.device, torch.bool)
    make = partial(
        ALL_MASK_ATTENTION_FUNCTIONS[config._attn_implementation],
        batch_size=rows,
        q_length=queries,
        kv_length=past_key_values.get_mask_sizes(queries, 0)[0],
        q_offset=past_key_values.get_seq_length(),
        attention_mask=attention_mask,
        allow_is_causal_skip=False,
        dtype=inputs_embeds.dtype,
        config=config,
        device=inputs_embeds.device,
    )
    visible = causal_mask_function
    in_window = sliding_window_causal_mask_function(window) if window else visible
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return make(mask_function=in_window)
    functions = {kind: in_window if kind == _SLIDING else visible for kind in kinds}
    return {kind: make(mask_function=function) for kind, function in functions.items()}


def settings(model: torch.nn.Module) -> dict[str, str]:
    """Return the mode of the model's graphs, and whether their sizes are unknown, as Dynamo and
    Inductor have them. Empty if nothing is compiled.
    """
    found = [each for each in _backends(model) if hasattr(each, "config")]
    if not found:
        return {}
    is_dynamic = all(each.dynamic for each in found)
    modes = [name for name in _modes() if all(_has_mode(each, name) for each in found)]
    most = max(modes, key=lambda name: len(_modes()[name]), default="")
    return {"compile-mode": most, "dynamic": "on" if is_dynamic else "off"}


def _modes() -> Mapping[str, Mapping[str, Any]]:
    """Return name of a mode of torch.compile → the settings of Inductor that it makes."""
    modes: Mapping[str, Mapping[str, Any]] = torch._inductor.list_mode_options()
    return modes


def _has_mode(backend: Any, mode: str) -> bool:
    return bool(_modes()[mode].items() <= backend.config.items())


def _backends(model: torch.nn.Module) -> list[Any]:
    """Return the backends of the model's graphs, from Dynamo's own cache."""
    from torch._dynamo import eval_frame

    # `torch.compile(model)` is a module around the one that has the graphs.
    own = [getattr(part, "_orig_mod", part) for part in parts(model)]
    backends = []
    for part in own:
        forward = getattr(part.forward, "_torchdynamo_orig_callable", part.forward)
        for entry in eval_frame._debug_get_cache_entry_list(forward):
            # The backend without Dynamo's wrappers. `eval_frame.innermost_backend` does the
            # same, but not every release has it.
            backend = entry.backend
            while hasattr(backend, "_torchdynamo_orig_backend"):
                backend = backend._torchdynamo_orig_backend
            backends.append(backend)
    return backends


def detail(model: torch.nn.Module, device: str) -> dict[str, Any]:
    """Return facts of Dynamo and Inductor about the model and this process, as JSON values."""
    from torch._dynamo.utils import counters

    inductor = counters["inductor"]
    skips = int(inductor["cudagraph_skips"])
    on_gpu = device == "cuda"
    backends = _backends(model)
    configurations = [getattr(backend, "config", None) or {} for backend in backends]
    with_cudagraphs = [each.get("triton.cudagraphs", False) for each in configurations]
    return {
        "compile_backends": sorted({str(getattr(b, "compiler_name", b)) for b in backends}),
        "cudagraphs": on_gpu and bool(backends) and all(with_cudagraphs) and not skips,
        "cudagraph_skips": skips,
        "remark": f"CUDA graphs skipped {skips} times" if on_gpu and skips else None,
        "recompile_limit": torch._dynamo.config.recompile_limit,
        "inductor_cache_hits": int(inductor["fxgraph_cache_hit"]),
        "inductor_cache_misses": int(inductor["fxgraph_cache_miss"]),
    }


def _cache_hits() -> int:
    """Return the number of graphs that were found in torch's caches on disk."""
    from torch._dynamo.utils import counters

    inductor = counters["inductor"]["fxgraph_cache_hit"]
    return int(inductor + counters["aot_autograd"]["autograd_cache_hit"])


def _cache_misses() -> int:
    """Return the number of graphs that Inductor compiled, because its cache on disk lacked them."""
    from torch._dynamo.utils import counters

    inductor = counters["inductor"]
    return int(inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"])
