"""Assembles a wheel from the output of a build."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import elf
from archive import Wheel
from metadata import FILES, NAME, ROOT, information, version

# cargo's directory for release builds.
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute() / "release"
# The layout of `make install` below its prefix, here the package: a program finds its libraries there.
LIBRARIES = {"libibverbs.so.1": "lib/verbena", "libverbena_shim.so": "lib/verbena",
             "libverbena_tracer.so": "lib/verbena", "librfio.so.2": "lib"}
# The compiled module and its package.
MODULE, MODULE_OF = "_native.abi3.so", "rfio_fsspec"
PACKAGES = ("verbena", "rfio_fsspec")
# Code, and files for type checkers.
SOURCES = ("*.py", "*.pyi", "py.typed")


def stripped(built: Path, scratch: Path) -> dict[str, Path]:
    """Returns the programs and libraries without their symbols, by their paths in the wheel."""
    found = {f"verbena/bin/{name}": built / name for name in FILES}
    found |= {f"verbena/{place}/{name}": built / "lib" / name for name, place in LIBRARIES.items()}
    found[f"{MODULE_OF}/{MODULE}"] = built / "lib" / MODULE
    if absent := [str(file) for file in found.values() if not file.is_file()]:
        raise FileNotFoundError(f"{', '.join(absent)}: not there; `make build` or `make wheel` builds them")
    for place, file in found.items():
        result = scratch / file.name
        subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded", "-o", result, file], check=True)
        found[place] = result
    return found


def write(built: Path, out: Path) -> Path:
    """Writes the wheel into a directory, and returns its path."""
    with tempfile.TemporaryDirectory() as scratch:
        binaries = stripped(built, Path(scratch))
        out.mkdir(parents=True, exist_ok=True)
        wheel = Wheel(out, NAME, version(), elf.platform(binaries.values()))
        for package in PACKAGES:
            sources = ROOT / "python" / package
            for source in sorted(file for kind in SOURCES for file in sources.glob(kind)):
                wheel.add(f"{package}/{source.name}", source.read_bytes())
        for place, file in binaries.items():
            wheel.add(place, file.read_bytes(), 0o755)
        wheel.add("verbena/include/rfio_api.h", (ROOT / "crates/librfio/include/rfio_api.h").read_bytes())
        for name, text in information().items():
            wheel.describe(name, text)
        wheel.close()
        return wheel.path
