"""SUT environment → interpreter. uv makes it on first use from environments/<name>-<device>.txt, with LoadGen's lock laid over it.

Standard library only: `python -m harness.execution.environments DIR` makes the core environment, in which everything else runs. An
environment is finished when its lock.txt stands, a copy of its locks, written last; any other state is removed and made again under a lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from compliance.rules import CURRENT
from harness.errors import EnvironmentFailure
from harness.locks import held
from sut.devices import DEVICES, HOST
from sut.registry import CPU_BUILDS, ONE_PACKAGE

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "environments"
_LOADGEN = "loadgen-{round}.txt"

# Prints the versions of every distribution an interpreter can import from, as JSON.
_INVENTORY = (
    "import importlib.metadata as m, json; print(json.dumps({d.metadata['Name'].lower().replace('_', '-'): d.version "
    "for d in m.distributions() if d.metadata['Name']}))"
)


# Seconds an interpreter of --python may take to list its packages.
_PATIENCE_S = 60

# Of a lock, what an interpreter of --python may do without.
_NOT_NEEDED = {
    "nvidia-ml-py": "the GPU's energy and clocks are not recorded",
    "segment-anything": "sam needs it, and no other model does",
}


@dataclass(frozen=True)
class Environment:
    """`lock_sha256` identifies what is installed: of the locks, or of the inventory of a user's interpreter."""

    name: str
    python: Path
    lock_sha256: str
    notes: tuple[str, ...] = field(default=())


def lock_files(name: str, device: str, round_: str) -> list[Path]:
    """The locks of an environment, in the order they are laid; core has one for all devices.

    Raises EnvironmentFailure where the device has none.
    """
    first = LOCKS / ("core.txt" if name == "core" else f"{name}-{device}.txt")
    if not first.exists():
        raise EnvironmentFailure(
            f"no lock for {name} on {device} (environments/{first.name} is missing): name an interpreter that has its "
            f"packages with --python PATH, or run with --device {HOST}"
        )
    return [first, LOCKS / _LOADGEN.format(round=round_)]


def is_made(cache: Path, name: str, device: str, round_: str) -> bool:
    """Whether the environment is there and is what its lock says."""
    stamp = _directory(cache, name, device) / "lock.txt"
    return stamp.exists() and stamp.read_bytes() == _joined(lock_files(name, device, round_))


def made_for(cache: Path, name: str, round_: str) -> list[str]:
    """The devices whose environment of this name stands."""
    devices = [HOST] if name == "core" else [device for device in DEVICES if (LOCKS / f"{name}-{device}.txt").exists()]
    return [device for device in devices if is_made(cache, name, device, round_)]


def ensure(cache: Path, name: str, device: str, round_: str, say: Callable[[str], None]) -> Environment:
    """The environment from its locks, made if need be. Raises EnvironmentFailure with the installer's last words."""
    directory = _directory(cache, name, device)
    make(directory, lock_files(name, device, round_), _uv(), say, bytecode=name != "core")
    return Environment(name, directory / "bin" / "python", hashlib.sha256((directory / "lock.txt").read_bytes()).hexdigest())


def adopt(python: str, name: str, round_: str, device: str = HOST) -> Environment:
    """A user's own interpreter (a vendor's GPU image): nothing is installed, what it lacks is said."""
    resolved = shutil.which(python)
    if resolved is None:
        raise EnvironmentFailure(f"--python {python}: there is no such interpreter")
    versions = _inventory(resolved)
    requirements = [r for file in (f"{name}-{device}.in", f"loadgen-{round_}.in") for r in _requirements(LOCKS / file)]
    for build, other in (pair for names in ONE_PACKAGE for pair in (names, names[::-1])):
        if build not in versions and other in versions:
            versions[build] = versions[other]
    lacking = [f"{n}=={v}" if v else n for n, v in requirements if n not in versions and n not in _NOT_NEEDED]
    if lacking:
        raise EnvironmentFailure(
            f"--python {python} lacks {', '.join(lacking)}: install with `{python} -m pip install {' '.join(lacking)}`, "
            "or leave --python out"
        )
    notes = [f"{n} {versions[n]}, where the lock has {v}" for n, v in requirements if v and versions[n] != v]
    notes += [f"{n} is missing: {why}" for n, why in _NOT_NEEDED.items() if n in dict(requirements) and n not in versions]
    digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()
    return Environment(f"{name} (--python)", Path(resolved), digest, notes=tuple(notes))


def make(directory: Path, locks: list[Path], uv: list[str] | None, say: Callable[[str], None], bytecode: bool = False) -> float:
    """Make or complete the environment in `directory`; → seconds it took, 0.0 if it stood.

    `uv` None: pip installs uv first. `bytecode`: compile every module now, so that no worker's start does (torch: 11 s without, 5 s with).
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with held(directory.with_suffix(".lock"), lambda: say(f"waiting for another process that makes {directory.name}")):
        stamp = directory / "lock.txt"
        if stamp.exists() and stamp.read_bytes() == _joined(locks):
            return 0.0
        say(f"making the environment {directory.name} (first use, or its lock changed)")
        start = time.monotonic()
        _remove(directory)
        if uv is None:
            _run([sys.executable, "-m", "venv", str(directory)], "a virtual environment (on Debian and Ubuntu: apt install python3-venv)")
            uv = [_bootstrap_uv(directory, locks[0])]
        else:
            _run([*uv, "venv", "-q", "--python", sys.executable, str(directory)], directory.name)
        _run(
            [
                *uv,
                "pip",
                "install",
                "-q",
                "--no-deps",
                *(["--compile-bytecode"] if bytecode else []),
                "--python",
                str(directory / "bin" / "python"),
                *_sources(locks),
                *(part for lock in locks for part in ("-r", str(lock))),
            ],
            directory.name,
        )
        partial = stamp.with_suffix(".partial")
        partial.write_bytes(_joined(locks))
        partial.replace(stamp)
        return time.monotonic() - start


def _remove(directory: Path) -> None:
    """An installer that was killed with its parent may write for a moment longer."""
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.1)
    raise EnvironmentFailure(f"{directory} cannot be removed, because something still writes there: end it, or give another --cache")


def say_on_stderr(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(text + "\n")


def _bootstrap_uv(directory: Path, lock: Path) -> str:
    """pip installs the locked uv, which installs the rest."""
    block = re.search(r"^uv==.*?(?=^\S)", lock.read_text(encoding="utf-8") + "\nend", flags=re.M | re.S)
    if block is None:
        raise EnvironmentFailure(f"{lock.name} does not name uv: make it again with environments/lock.py")
    requirement = directory / "uv.txt"
    requirement.write_text(block[0], encoding="utf-8")
    _run(
        [
            str(directory / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--require-hashes",
            "--no-deps",
            "-r",
            str(requirement),
        ],
        "uv",
    )
    return str(directory / "bin" / "uv")


def _sources(locks: list[Path]) -> list[str]:
    """uv reads no configuration of pip: pass on where pip was told to look, and where builds for the CPU are (`CPU_BUILDS`).

    For an accelerator a folder with such a distribution is left out, since a CPU build there (2.13.0+cpu) would count as newer than PyPI's.
    """
    folders, flags = os.environ.get("PIP_FIND_LINKS", "").split(), list[str]()
    for name, source in CPU_BUILDS.items():
        holders = {folder for folder in folders if next(Path(folder).glob(f"{name}-*"), None)}
        locked = (lock.stem for lock in locks if re.search(rf"^{name}==", lock.read_text(encoding="utf-8"), re.M))
        devices = {stem.rpartition("-")[2] for stem in locked}
        if any(DEVICES[device].accelerator for device in devices & DEVICES.keys()):
            folders = [folder for folder in folders if folder not in holders]
        if HOST in devices and not holders:
            flags += source
    if index := os.environ.get("PIP_INDEX_URL"):
        flags = ["--index-url", index, *flags]
    return [*(part for folder in folders for part in ("--find-links", folder)), *flags]


def _uv() -> list[str]:
    return [str(Path(sys.executable).with_name("uv"))]


def _directory(cache: Path, name: str, device: str) -> Path:
    return cache / "environments" / (name if name in ("core", "dev") else f"{name}-{device}")


def _joined(locks: list[Path]) -> bytes:
    return b"".join(lock.read_bytes() for lock in locks)


def _die_with_parent() -> None:
    """Linux: an installer whose parent is killed ends too. It would write on into what the next command makes anew."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _run(command: list[str], what: str) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_die_with_parent)
    if process.returncode:
        words = " / ".join((process.stderr or process.stdout).strip().splitlines()[-4:])
        raise EnvironmentFailure(f"cannot make {what}: {words}")


def _inventory(python: str) -> dict[str, str]:
    """Distribution → version. The last line of what the interpreter prints counts: a site's own banner may stand before it."""
    try:
        process = subprocess.run(
            [python, "-P", "-c", _INVENTORY],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_S,
            preexec_fn=_die_with_parent,
        )
        if not process.returncode:
            return {str(name): str(version) for name, version in json.loads(process.stdout.strip().splitlines()[-1]).items()}
        words = " ".join(process.stderr.strip().splitlines()[-1:])
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(f"--python {python} said nothing for {_PATIENCE_S} s: it was ended; give another interpreter") from None
    except OSError as e:
        words = e.strerror or str(e)
    except (ValueError, IndexError, AttributeError):
        words = f"asked for its packages, it printed {process.stdout[-80:]!r}"
    raise EnvironmentFailure(f"--python {python} does not run as Python 3.11 or newer: {words}")


def _requirements(file: Path) -> list[tuple[str, str]]:
    """(name, pinned version or "") of a .in file."""
    lines = (line.split("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [(re.split(r"[\[=]", line)[0].lower(), line.partition("==")[2]) for line in lines if line]


def main(directory: Path) -> int:
    """Make the core environment. → the exit code of run.sh, which runs this before anything of the harness."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts with &
    try:
        make(directory, lock_files("core", HOST, CURRENT), None, say_on_stderr)
    except KeyboardInterrupt:
        say_on_stderr("run.sh: interrupted: the same command makes the environment anew")
        return 130
    except EnvironmentFailure as e:
        say_on_stderr(f"run.sh: {e}")
        return e.exit_code
    except OSError as e:
        say_on_stderr(f"run.sh: {directory} cannot be made ({e.strerror}: {e.filename}): give --cache DIR, a folder that you may write to")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
