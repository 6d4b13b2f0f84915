"""SUT environment → interpreter. uv makes an environment on first use from
environments/<name>-<device>.txt and LoadGen's lock.

Standard library only: `python -m harness.execution.environments DIR` makes the core environment, in
which everything else runs. The last file written is lock.txt, a copy of the locks. Without it, or
if it differs, the environment is removed and made again while a lock file is held.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compliance import CURRENT
from formats.writing import json_digest
from harness.errors import EnvironmentFailure
from harness.execution import wheels
from harness.execution.interpreter import BESIDE_PTH, inventory, let_see
from harness.locks import held
from scenarios.worker.child import end_with_parent
from sut.devices import DEVICES, HOST
from sut.registry import CPU_BUILDS, LIBRARIES_OF_FILES

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "environments"
ADOPTED = " (--python)"
"""The end of the name of an environment that `adopt` returns."""
_LOADGEN = f"loadgen-{CURRENT}"
_FEW_MODULES = ("core", *LIBRARIES_OF_FILES)
"""Environments of which few modules are imported, so that compiling all takes longer."""

# Packages of a lock that an interpreter of --python may lack → the effect.
_NOT_NEEDED = {
    "nvidia-ml-py": "the GPU's energy and clocks are not recorded",
    "segment-anything": "sam needs it, and no other model does",
    "accelerate": "--scenario Fit of models of Transformers needs it",
    "peft": "--scenario Fit of language models needs it",
    "keras-cv": "stable-diffusion needs it, and no other model does",
    "diffusers": "stable-diffusion needs it, and no other model does",
}


Say = Callable[[str], None]
"""Shows a line to the user."""


@dataclass(frozen=True)
class Environment:
    """An environment. `lock_sha256` identifies the installed packages: it is that of the locks, or
    of the inventory of a user's interpreter.
    """

    name: str
    python: Path
    lock_sha256: str
    notes: tuple[str, ...] = ()


def lock_files(name: str, device: str) -> list[Path]:
    """The locks of an environment, in the order in which they are installed. Core has one for all
    devices.

    Raises EnvironmentFailure if there is none for the device.
    """
    first = LOCKS / ("core.txt" if name == "core" else f"{name}-{device}.txt")
    if not first.exists():
        raise EnvironmentFailure(
            f"no lock for {name} on {device} (environments/{first.name} is missing): name an"
            f" interpreter that has its packages with --python PATH, or run with --device {HOST}"
        )
    return [first, LOCKS / f"{_LOADGEN}.txt"]


def locks_of_tests() -> list[Path]:
    """The locks of the environment that the harness' own tests run in."""
    return [*lock_files("core", HOST), LOCKS / "dev.txt"]


def is_made(cache: Path, name: str, device: str) -> bool:
    """Return True if the environment exists and was made from its present locks."""
    return _is_finished(_directory(cache, name, device), lock_files(name, device))


def _is_finished(directory: Path, locks: list[Path]) -> bool:
    stamp = directory / "lock.txt"
    return stamp.exists() and stamp.read_bytes() == _joined(locks)


def made_for(cache: Path, name: str) -> list[str]:
    """The devices for which the environment of this name exists."""
    devices = [device for device in DEVICES if (LOCKS / f"{name}-{device}.txt").exists()]
    if name == "core":
        devices = [HOST]
    return [device for device in devices if is_made(cache, name, device)]


def ensure(cache: Path, name: str, device: str, say: Say) -> Environment:
    """Return the environment of these locks, and make it if it is missing. Raises
    EnvironmentFailure with the installer's last words.
    """
    directory = _directory(cache, name, device)
    bytecode = name not in _FEW_MODULES
    make(directory, lock_files(name, device), installer(), say, bytecode=bytecode)
    return made(directory, name)


def made(directory: Path, name: str, notes: Iterable[str] = ()) -> Environment:
    """The environment that `make` made in a directory."""
    digest = hashlib.sha256((directory / "lock.txt").read_bytes()).hexdigest()
    return Environment(name, directory / "bin" / "python", digest, tuple(notes))


def adopt(python: str, name: str, device: str = HOST, cache: Path | None = None) -> Environment:
    """Return a user's own interpreter (such as that of a vendor's GPU image) as an environment.
    Nothing is installed into it. Raises EnvironmentFailure that lists the missing packages.

    With a `cache` and a bundle made with --core, the result is a new environment in the cache that
    sees the packages of both.
    """
    resolved = shutil.which(python)
    if resolved is None:
        raise EnvironmentFailure(f"--python {python}: there is no such interpreter")
    versions, brought = inventory(resolved), set[str]()
    if bundle := wheels.bundle(ROOT):
        brought = wheels.distributions(bundle, wheels.BESIDE) - versions.keys()
    lines = required(LOCKS / f"{name}-{device}.txt") | required(LOCKS / f"{_LOADGEN}.txt")
    pinned = {n: line.partition("==")[2] for n, line in lines.items()}
    lacking = [
        f"{n}=={v}" if v else n
        for n, v in pinned.items()
        if n not in versions and n not in _NOT_NEEDED and n not in brought
    ]
    if lacking:
        raise EnvironmentFailure(
            f"--python {python} lacks {', '.join(lacking)}: install with `{python} -m pip install"
            f" {' '.join(lacking)}`, or leave --python out"
        )
    beside = None
    if cache and brought:
        beside = _beside(cache, resolved, versions, brought, lock_files(name, device))
    if beside:
        resolved, versions, brought = beside, inventory(beside), set()
    notes = [
        f"{n} {versions[n]}, where the lock has {v}"
        for n, v in pinned.items()
        if v and versions.get(n, v).partition("+")[0] != v
    ]
    notes += [
        f"{n} is missing: {why}"
        for n, why in _NOT_NEEDED.items()
        if n in pinned and n not in {*versions, *brought}
    ]
    digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()
    return Environment(f"{name}{ADOPTED}", Path(resolved), digest, tuple(notes))


def _beside(
    cache: Path, python: str, versions: Mapping[str, str], brought: set[str], locks: list[Path]
) -> str | None:
    """Return an interpreter that imports the packages of `python` and those in `brought`, from the
    bundle in use.
    None if the locks name none of them.
    """
    blocks = [
        block for lock in locks for block in lock_blocks(lock) if block_name(block) in brought
    ]
    if not blocks:
        return None
    key = json_digest([python, dict(versions), blocks], 12)
    directory = cache / "environments" / f"{wheels.BESIDE}-{key}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = directory.with_suffix(".txt")
    lock.write_text("".join(blocks), encoding="utf-8")
    make(
        directory,
        [lock],
        installer(),
        say_on_stderr,
        bytecode=True,
        python=python,
        name=wheels.BESIDE,
    )
    own = directory / "bin" / "python"
    if not any(directory.glob(f"lib/*/site-packages/{BESIDE_PTH}")):
        let_see(directory, python)
    return str(own)


def lock_blocks(lock: Path) -> list[str]:
    """The requirements of a lock, each with its hashes. A block of lines starts in column 0."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8"), flags=re.M)
    return [block for block in blocks if block[:1].isalnum()]


def block_name(block: str) -> str:
    """The distribution that a block of a lock names, as an index spells it."""
    return block.partition("==")[0].lower().replace("_", "-")


def make(
    directory: Path,
    locks: list[Path],
    uv: list[str] | None,
    say: Say,
    bytecode: bool = False,
    python: str = sys.executable,
    name: str | None = None,
) -> float:
    """Make the environment in `directory`, unless it is finished. → the seconds that it took, 0.0
    if it was finished.

    Args:
        uv: the command of uv. None: uv is installed first, by pip or from the bundle in use.
        bytecode: compile every module now instead of at a worker's start (torch: 11 s without, 5 s
            with).
        python: the interpreter that it is made from.
        name: its name in a bundle; None: the folder's name.

    Raises EnvironmentFailure with the installer's last words. If the bundle in use cannot make the
    environment, it is raised before anything is changed.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with held(
        directory.with_suffix(".lock"),
        lambda: say(f"waiting for another process that makes {directory.name}"),
    ):
        if _is_finished(directory, locks):
            return 0.0
        bundle = wheels.bundle(ROOT)
        if bundle:
            wheels.check(bundle, name or directory.name)
        say(f"making the environment {directory.name} (first use, or its lock changed)")
        start = time.monotonic()
        _remove(directory)
        venv = [sys.executable, "-m", "venv"]
        what = "a virtual environment"
        if uv:
            _run([*uv, "venv", "-q", "--python", python, str(directory)], directory.name)
        elif bundle:  # without pip, which some machines lack
            _run([*venv, "--without-pip", str(directory)], what)
            uv = [wheels.unpack_uv(bundle, directory)]
        else:
            hint = "on Debian and Ubuntu: apt install python3-venv"
            _run([*venv, str(directory)], f"{what} ({hint})")
            uv = [_bootstrap_uv(directory, locks[0])]
        own = str(directory / "bin" / "python")
        install = [*uv, "pip", "install", "-q", "--no-deps", "--python", own, *sources(locks)]
        if bytecode:
            install.append("--compile-bytecode")
        for lock in locks:
            install += ["-r", str(lock)]
        _run(install, directory.name)
        if bundle and name is None and wheels.manifest(bundle).get("without"):
            let_see(directory, python)
        partial = directory / "lock.partial"
        partial.write_bytes(_joined(locks))
        partial.replace(directory / "lock.txt")
        return time.monotonic() - start


def _remove(directory: Path) -> None:
    """Remove an environment. An installer that was killed with its parent may still write for a
    moment.
    """
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.1)
    raise EnvironmentFailure(
        f"{directory} cannot be removed, because something still writes there: end it, or give"
        " another --cache"
    )


def say_on_stderr(text: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(text + "\n")


def _bootstrap_uv(directory: Path, lock: Path) -> str:
    """Install the locked uv with pip. → its path. uv then installs the rest."""
    block = next((block for block in lock_blocks(lock) if block_name(block) == "uv"), None)
    if block is None:
        raise EnvironmentFailure(
            f"{lock.name} does not name uv: make it again with environments/lock.py"
        )
    requirement = directory / "uv.txt"
    requirement.write_text(block, encoding="utf-8")
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "-q"]
    flags = ["--disable-pip-version-check", "--require-hashes", "--no-deps"]
    _run([*pip, *flags, "-r", str(requirement)], "uv")
    return str(directory / "bin" / "uv")


def folders_with(name: str) -> set[str]:
    """Return the folders of PIP_FIND_LINKS that contain a distribution."""
    folders = os.environ.get("PIP_FIND_LINKS", "").split()
    return {folder for folder in folders if next(Path(folder).glob(f"{name}-*"), None)}


def sources(locks: list[Path]) -> list[str]:
    """Return uv's flags for package sources. uv does not read pip's configuration, so pip's sources
    are passed on, with those of builds for the CPU (`CPU_BUILDS`).

    With a bundle, or if PIP_NO_INDEX is set, uv uses no network. For an accelerator a folder with a
    distribution in `CPU_BUILDS` is left out, because a CPU build there (2.13.0+cpu) would count as
    newer than PyPI's.
    """
    if bundle := wheels.bundle(ROOT):
        # `wheels.check` has compared the wheels. A wheel that was built has no hash in a lock.
        flags = ["--offline", "--no-index", "--no-verify-hashes"]
        return [*flags, "--find-links", str(bundle / wheels.FOLDER)]
    folders, flags = os.environ.get("PIP_FIND_LINKS", "").split(), list[str]()
    for name, source in CPU_BUILDS.items():
        holders = folders_with(name)
        locked = (
            lock.stem
            for lock in locks
            if re.search(rf"^{name}==", lock.read_text(encoding="utf-8"), re.M)
        )
        devices = {stem.rpartition("-")[2] for stem in locked}
        if any(DEVICES[device].accelerator for device in devices & DEVICES.keys()):
            folders = [folder for folder in folders if folder not in holders]
        if HOST in devices and not holders and not wheels.no_index():
            flags += source
    if wheels.no_index():
        flags = ["--offline", "--no-index"]
    elif index := os.environ.get("PIP_INDEX_URL"):
        flags = ["--index-url", index, *flags]
    return [*(part for folder in folders for part in ("--find-links", folder)), *flags]


def installer() -> list[str]:
    """The command of uv in the environment that runs this process."""
    return [str(Path(sys.executable).with_name("uv"))]


def _directory(cache: Path, name: str, device: str) -> Path:
    return cache / "environments" / (name if name in ("core", "dev") else f"{name}-{device}")


def _joined(locks: list[Path]) -> bytes:
    return b"".join(lock.read_bytes() for lock in locks)


def _run(command: list[str], what: str) -> None:
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=end_with_parent
    )
    check_done(process, what)


def check_done(process: subprocess.CompletedProcess[str], what: str) -> None:
    """Raises EnvironmentFailure with the last words of an installer that failed."""
    if process.returncode == 0:
        return
    words = " / ".join((process.stderr or process.stdout).strip().splitlines()[-4:])
    if process.returncode < 0:
        number = signal.Signals(-process.returncode).name
        words = f"the installer was ended by {number}: the same command tries again"
    elif os.strerror(errno.ENOSPC) in words:
        words = "the disk is full: free some space, or choose another --cache"
    raise EnvironmentFailure(f"cannot make {what}: {words}")


def required(lock: Path) -> dict[str, str]:
    """Distribution → the requirement of it, in the file from which a lock was made."""
    text = lock.with_suffix(".in").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return {re.split(r"[^\w.-]", line)[0].lower(): line for line in lines if line}


def main(directory: Path) -> int:
    """Make the core environment. → the exit code of run.sh, which runs this function first."""
    # A shell ignores SIGINT for a command that it starts with &.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        make(directory, lock_files("core", HOST), None, say_on_stderr)
    except KeyboardInterrupt:
        say_on_stderr("run.sh: interrupted: the same command makes the environment anew")
        return 130
    except EnvironmentFailure as e:
        say_on_stderr(f"run.sh: {e}")
        return e.exit_code
    except OSError as e:
        say_on_stderr(
            f"run.sh: {directory} cannot be made ({e.strerror}: {e.filename}): give --cache DIR, a"
            " folder that you may write to"
        )
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
