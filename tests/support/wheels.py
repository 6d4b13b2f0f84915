"""Tiny wheels and sources, locks that name them, and a bundle made of them by hand."""

import hashlib
import json
import platform
import sys
import tarfile
import zipfile

HERE = f"manylinux_2_17_{platform.machine()}"
PYTHON = f"3.{sys.version_info.minor}"


def wheel(folder, name, tag="py3-none-any", version="1.0", needs="", body=""):
    """A wheel with one module, `name`, that requires another distribution if one is named. → its
    path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"tag = {tag!r}\n{body}",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{each},,\n" for each in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(each, text)
    return path


def source(folder, name, tag="py3-none-any", version="1.0"):
    """A package that is published only as a source: building it gives the wheel inside. → its
    path.
    """
    made = wheel(folder / "made", name, tag, version)
    backend = (
        "import shutil\n"
        "def build_wheel(folder, *_):\n"
        f"    return shutil.copy({made.name!r}, folder).rpartition('/')[2]\n"
    )
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {"backend.py": backend, "pyproject.toml": project, "PKG-INFO": metadata}
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for each, text in files.items():
            (folder / "made" / each).write_text(text)
        for each in (made.name, *files):
            archive.add(folder / "made" / each, f"{name}-{version}/{each}")
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock(path, *wheels):
    """A lock of these wheels, with their hashes."""
    lines: dict[str, list[str]] = {}
    for each in wheels:
        name, version = each.name.removesuffix(".tar.gz").split("-")[:2]
        lines.setdefault(f"{name}=={version}", []).append(f" \\\n    --hash=sha256:{digest(each)}")
    path.write_text(
        "".join(f"{requirement}{''.join(hashes)}\n" for requirement, hashes in lines.items())
    )
    return path


def bundle(folder, environments, python=PYTHON, platforms=(HERE,)):
    """bundle.json over wheels that lie in folder/wheels. `environments`: name → paths of its
    wheels.
    """
    files = {
        f"wheels/{w.name}": {"bytes": w.stat().st_size, "sha256": digest(w)}
        for each in environments.values()
        for w in each
    }
    names = {name: [w.name for w in each] for name, each in environments.items()}
    document = {
        "python": python,
        "platforms": list(platforms),
        "environments": names,
        "files": files,
    }
    (folder / "bundle.json").write_text(json.dumps(document, indent=1))
    return folder
