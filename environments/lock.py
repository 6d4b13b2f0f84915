"""Write environments/<name>.txt from environments/<name>.in: `.cache/environments/core/bin/python
environments/lock.py [NAME …]`.

A lock holds for Python 3.11–3.13 and carries the hash of every file, with one exception: torch
stands without hash and without local version, since its CPU and CUDA builds are different files of
one version and the machine decides which it takes. Where PyPI's torch, a CUDA build of gigabytes,
should not be looked at, `--find-links=DIR` names a folder with a CPU build; a -cuda lock never
takes it from there, for the CPU build asks for no CUDA libraries.
"""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
UV = Path(sysconfig.get_path("scripts")) / "uv"
# keras-hub asks for tensorflow-text, which brings the full TensorFlow; no backend needs the former,
# and the full TensorFlow is wanted only where an environment's .in file names it.
NEVER = "{} ; sys_platform == 'never'\n"
# tokenizers asks for it to download from the hub, which the harness never does: a dozen packages
# less. keras-cv imports tensorflow-datasets, which asks for these to load data sets, as nothing
# here does; promise has no wheel.
_OF_DATASETS = ("array-record", "promise", "pyarrow", "simple-parsing", "tensorflow-metadata")
# On Keras 3 only its modules of Stable Diffusion are imported, which need neither.
_OF_KERAS_CV = ("keras-core", "tensorflow-datasets")
# Only OpenVINO's converters import it. It sends statistics of use.
_OF_OPENVINO = ("openvino-telemetry",)
# Of mlperf-logging only the compliance checker runs, in the tests; its other tools import pandas.
NEVER_IN = {
    "core": ("huggingface-hub",),
    "dev": ("pandas",),
    "keras2": _OF_DATASETS,
    "keras3": (*_OF_KERAS_CV, *_OF_OPENVINO),
    # Exported are language models, which need no pictures.
    "openvino": ("torchvision", *_OF_OPENVINO),
}
# A package that KerasHub imports with every backend → the first minor release of it that does not,
# or that asks for it.
IMPORTED_BEFORE = {"tensorflow-cpu": 32, "sentencepiece": 27}
# Packages of which only a file is read, or which run in PyTorch's environment.
FILES = "weights-"
CUDA_ONLY = re.compile(r"(nvidia-|cuda-|triton\b)")


def overrides(name: str) -> str:
    """The requirements that no resolution of this environment may add, as uv's overrides."""
    line = re.search(r"^tensorflow\b(?!-)", (HERE / f"{name}.in").read_text(), re.M)
    return "".join(
        NEVER.format(p)
        for p in (
            "tensorflow-text",
            *(() if line else ("tensorflow",)),
            *NEVER_IN.get(name.partition("-")[0], ()),
        )
    )


def lacking(lock: str) -> list[str]:
    """The requirements that the KerasHub of a lock imports, and that the lock does not have."""
    hub = re.search(r"^keras-hub==0\.(\d+)", lock, re.M)
    if not hub:
        return []
    names = (name for name, minor in IMPORTED_BEFORE.items() if int(hub[1]) < minor)
    absent = [n for n in names if not re.search(rf"^{n.partition('-')[0]}", lock, re.M)]
    ours = (HERE / "keras3-tensorflow-cpu.in").read_text() if absent else ""
    requirements = []
    for name in absent:
        found = re.search(rf"^{name}==\S+", ours, re.M)
        requirements.append(found[0] if found else name)
    return requirements


def _blocks(text: str) -> list[str]:
    """A requirement with its hashes and comments is one block; it starts in column 0."""
    return [b for b in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M) if b and b[0].isalnum()]


def kept(block: str, cpu: bool) -> str:
    """A block of uv's output as it stands in a lock. Empty: the lock leaves it out."""
    # Wanted by another too, on some Python or system.
    block = block.replace(" or sys_platform == 'never'", "", 1)
    if "sys_platform == 'never'" in block.split("\n", 1)[0] or (cpu and CUDA_ONLY.match(block)):
        return ""
    torch = re.match(r"torch==[0-9.]+", block)
    return f"{torch[0]}\n" if torch else block


def lock(name: str, find_links: list[str]) -> None:
    file = HERE / f".{name}.overrides"
    file.write_text(overrides(name))
    constraints = ["-c", "core.txt"] if name == "dev" else []
    try:
        text = subprocess.run(
            [
                UV,
                "pip",
                "compile",
                "-q",
                "--universal",
                "--python-version",
                "3.11",
                "--generate-hashes",
                "--no-header",
                "--no-annotate",
                "--override",
                file,
                *constraints,
                *(("--no-deps",) if name.startswith(FILES) else ()),
                *(() if name.endswith("-cuda") else find_links),
                f"{name}.in",
            ],
            cwd=HERE,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    finally:
        file.unlink()
    blocks = dict.fromkeys(kept(b, name.endswith("-cpu")) for b in _blocks(text))
    (HERE / f"{name}.txt").write_text(
        f"# made from {name}.in by environments/lock.py\n" + "".join(blocks)
    )


if __name__ == "__main__":
    names = [a for a in sys.argv[1:] if not a.startswith("--find-links=")] or sorted(
        p.stem for p in HERE.glob("*.in")
    )
    for each in names:
        lock(each, [a for a in sys.argv[1:] if a.startswith("--find-links=")])
