"""As much of pynvml as is asked, for tests on machines without a GPU: one H200 that does not tell
its power limit.
"""

import types


class NVMLError(Exception):
    pass


def _unsupported(*_):
    raise NVMLError("not supported")


def module():
    """A new one; `millijoules` rises by 1500 at each reading."""
    fake = types.ModuleType("pynvml")
    fake.millijoules, fake.processes = 1000, []

    def handle(which):
        if str(which).startswith("-"):
            raise NVMLError("not found")
        return which

    def energy(_):
        fake.millijoules += 1500
        return fake.millijoules

    fake.__dict__.update(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: "570.1",
        nvmlSystemGetCudaDriverVersion_v2=lambda: 12080,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetName=lambda _: "NVIDIA H200",
        nvmlDeviceGetMemoryInfo=lambda _: types.SimpleNamespace(total=139 << 30, used=1 << 30),
        nvmlDeviceGetTotalEnergyConsumption=energy,
        nvmlDeviceGetClockInfo=lambda _, kind: {1: 1980, 2: 3201}[kind],
        nvmlDeviceGetMaxClockInfo=lambda *_: 1980,
        nvmlDeviceGetTemperature=lambda *_: 41,
        nvmlDeviceGetEnforcedPowerLimit=_unsupported,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 1,
        nvmlDeviceGetPersistenceMode=lambda _: 0,
        nvmlDeviceGetComputeRunningProcesses=lambda _: fake.processes,
        nvmlDeviceGetMigMode=_unsupported,
    )
    return fake
