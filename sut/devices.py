"""The devices a SUT may run on, as one literal dict: what is said of a device outside the
frameworks' own files. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Device:
    """One kind of device.

    Attributes:
        name: as `--device`, a cell and the name of a lock have it.
        driver: what must answer for it to be there; None: it is the machine's own processor, and it
            is always there.
        library: what tells its memory, energy and clocks; None: the system does.
        lacks: precision → why it does not compute in it.
        process_env: variables a worker needs before any framework is imported; the user's own go
            before them.
        chosen_by: variable with the devices that a process may use, in order; a worker is shown the
            first one alone, for JAX would take memory of all.
        variables: first words of environment variables that its libraries read, as regular
            expressions.
    """

    name: str
    driver: str | None = None
    library: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    process_env: Mapping[str, str] = field(default_factory=dict)
    chosen_by: str | None = None
    variables: tuple[str, ...] = ()

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """A worker's variables: `process_env`, the user's `own`, and the one device to use."""
        variables = {**self.process_env, **own}
        if self.chosen_by:
            variables[self.chosen_by] = variables.get(self.chosen_by, "0").split(",")[0].strip()
        return variables

    @property
    def accelerator(self) -> bool:
        """True if the device is a card with memory of its own."""
        return self.driver is not None


HOST = "cpu"
"""What every machine has, and every SUT's environment can be made for."""

DEVICES: dict[str, Device] = {
    "cpu": Device(
        name="cpu",
        lacks={"tf32": "a format of NVIDIA GPUs; on cpu there are float32 and bfloat16"},
        variables=("OMP", "GOMP", "KMP", "MKL", "OPENBLAS", "ONEDNN", "DNNL", "MALLOC"),
    ),
    "cuda": Device(
        name="cuda",
        driver="NVIDIA driver",
        library="nvml",
        # The order of the bus is NVML's, which tells which GPU there is; CUDA's own default puts
        # the fastest first.
        process_env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        chosen_by="CUDA_VISIBLE_DEVICES",
        variables=("CUDA", "CUBLAS", "CUDNN", "NVIDIA", "NCCL"),
    ),
}


def accelerators() -> list[str]:
    """Names of the devices that are cards, in order."""
    return [name for name, device in DEVICES.items() if device.accelerator]
