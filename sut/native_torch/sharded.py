"""Splits a model of Transformers on several processes, by the library's own plan of tensor
parallelism. Each process keeps only its parts of the weights.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import torch
from torch import distributed

from formats.cell import SHARDS
from sut.contract import Workload

_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


def join(workload: Workload) -> dict[str, Any]:
    """Meet the processes of the other shards. Return the arguments of `from_pretrained` by which
    each loads its part. Empty if the workload has no shards.

    On a CPU the processes divide the threads. All messages stay on this machine's loopback.
    """
    count = workload.options.get(SHARDS)
    if count is None:
        return {}
    # Another release of Transformers may lack it.
    from transformers.distributed import DistributedConfig

    assert workload.meeting
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ[variable] = loopback
    if workload.device == "cpu":
        torch.set_num_threads(max(1, torch.get_num_threads() // count))
    distributed.init_process_group(
        _BACKENDS[workload.device],
        init_method=workload.meeting.as_uri(),
        rank=workload.rank,
        world_size=count,
    )
    return {"distributed_config": DistributedConfig(tp_size=count)}


def keep_parts(model: torch.nn.Module) -> None:
    """Free the memory of all but the parts that this process holds. On a CPU, the parts that
    Transformers loads are views of whole weights.
    """
    for parameter in model.parameters():
        local = getattr(parameter, "_local_tensor", None)  # of a DTensor
        if local is not None and local.untyped_storage().nbytes() > local.nbytes:
            parameter._local_tensor = local.clone()


def held(model: torch.nn.Module, workload: Workload) -> dict[str, Any]:
    """See `held` of `sut.contract.Inference`. The bytes are those of the storages behind the local
    parts of the parameters (`DTensor.to_local`).
    """
    from torch.distributed.tensor import DTensor  # its import takes long

    storages = {}
    for parameter in model.parameters():
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        storage = local.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    device = f"cpu, process {os.getpid()}"
    if workload.device == "cuda":
        device = f"GPU {torch.cuda.get_device_properties().uuid}"
    return {"device": device, "bytes": sum(storages.values())}
