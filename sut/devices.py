"""The devices a SUT may run on, as one literal dict. All other facts about devices are in the
frameworks' own files. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Device:
    """One kind of device.

    Attributes:
        name: its name in `--device`, in a cell and in the name of a lock.
        driver: the driver that must answer if the device is present. None: the machine's own
            processor, which is always present.
        library: the library that reports its memory, energy and clocks. None: the system does.
        lacks: precision → why the device does not compute in it.
        process_env: variables a worker needs before any framework is imported; the user's own
            values take precedence.
        chosen_by: environment variable with the devices that a process may use, in order. A worker
            sees only the first one, because JAX would take memory of all.
        variables: beginnings of environment variables that its libraries read, as regular
            expressions.
    """

    name: str
    driver: str | None = None
    library: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    process_env: Mapping[str, str] = field(default_factory=dict)
    chosen_by: str | None = None
    variables: tuple[str, ...] = ()

    def environment(self, own: Mapping[str, str], chosen: Sequence[str] = ()) -> dict[str, str]:
        """Return a worker's variables: `process_env`, the user's `own`, and the device to use.

        `chosen`: the devices that it sees; empty: the first one of the user's.
        """
        variables = {**self.process_env, **own}
        if self.chosen_by:
            first, _, _ = variables.get(self.chosen_by, "0").partition(",")
            variables[self.chosen_by] = ",".join(chosen) or first.strip()
        return variables

    def named(self, own: Mapping[str, str]) -> list[str]:
        """Return the devices that the user's variable names, in order. Empty: it is not set."""
        listed = own.get(self.chosen_by or "", "")
        return [each.strip() for each in listed.split(",") if each.strip()]

    @property
    def accelerator(self) -> bool:
        """True if the device is a card with its own memory."""
        return self.driver is not None


HOST = "cpu"
"""The device that every machine has. Every SUT's environment can be made for it."""

DEVICES: dict[str, Device] = {
    "cpu": Device(
        name="cpu",
        lacks={"tf32": "a format of NVIDIA GPUs; on cpu there are float32, bfloat16 and float16"},
        variables=("OMP", "GOMP", "KMP", "MKL", "OPENBLAS", "ONEDNN", "DNNL", "MALLOC"),
    ),
    "cuda": Device(
        name="cuda",
        driver="NVIDIA driver",
        library="nvml",
        # NVML reports which GPU there is, and numbers GPUs in the order of the bus. CUDA's own
        # default puts the fastest first.
        process_env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        chosen_by="CUDA_VISIBLE_DEVICES",
        variables=("CUDA", "CUBLAS", "CUDNN", "NVIDIA", "NCCL"),
    ),
}


def accelerators() -> list[str]:
    """Return the names of the devices that are cards, in order."""
    return [name for name, device in DEVICES.items() if device.accelerator]
