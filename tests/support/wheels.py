"""Tiny wheels, and locks that name them."""

import hashlib
import sys
import zipfile

PYTHON = f"3.{sys.version_info.minor}"


def wheel(folder, name, tag="py3-none-any", version="1.0"):
    """A wheel with one module, `name`. → its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"tag = {tag!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{each},,\n" for each in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(each, text)
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock(path, *wheels):
    """A lock of these wheels, with their hashes."""
    lines = {}
    for each in wheels:
        name, version = each.name.removesuffix(".tar.gz").split("-")[:2]
        lines.setdefault(f"{name}=={version}", []).append(f" \\\n    --hash=sha256:{digest(each)}")
    path.write_text(
        "".join(f"{requirement}{''.join(hashes)}\n" for requirement, hashes in lines.items())
    )
    return path
