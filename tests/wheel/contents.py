"""The content of the wheel, read by other code than wrote it."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
import subprocess
import zipfile
from pathlib import Path

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .installation import installation, make

# A program of this size still has its symbols.
LARGEST = 30 << 20


def portable(place: Place) -> Outcome:
    """No file needs a later C library than the wheel's name says, one needs exactly that, and none needs instructions
    of only some machines."""
    wheel = installation().wheel
    promised = tuple(map(int, re.search(r"-cp39-abi3-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name).groups()))
    youngest, objects = (0, 0), 0
    for file in unpacked(wheel, place.directory / "unpacked"):
        if file.read_bytes()[:4] != b"\x7fELF":
            continue
        objects += 1
        table = subprocess.run(["objdump", "-p", "-T", file], capture_output=True, text=True, check=True).stdout
        asked = max(tuple(map(int, version)) for version in re.findall(r"GLIBC_(\d+)\.(\d+)", table))
        if asked > promised:
            return failed(f"{file.name} needs glibc {asked}, {wheel.name} promises {promised}")
        youngest = max(youngest, asked)
        if "RPATH" in table or "RUNPATH" in table:
            return failed(f"{file.name} names a directory of the machine that it was built on")
        if file.stat().st_size > LARGEST:
            return failed(f"{file.name} has {file.stat().st_size} bytes")
    if youngest != promised:
        return failed(f"the wheel promises glibc {promised}, and {youngest} suffices")
    return passed(f"{objects} programs and libraries, glibc {'.'.join(map(str, promised))}")


def recorded(place: Place) -> Outcome:
    """RECORD has every file with its size and digest, and a second wheel has the same bytes."""
    wheel = installation().wheel
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(archive.read(name).decode().splitlines())}
        if set(rows) != set(archive.namelist()):
            return failed(f"RECORD and the archive differ in {sorted(set(rows) ^ set(archive.namelist()))}")
        for file in set(rows) - {name}:
            contents = archive.read(file)
            digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).decode().rstrip("=")
            if rows[file] != [f"sha256={digest}", str(len(contents))]:
                return failed(f"RECORD says {rows[file]} of {file}")
    again = make(place.directory / "again")
    if again.read_bytes() != wheel.read_bytes():
        return failed("two wheels of one build differ")
    again.unlink()
    return passed(f"{wheel.stat().st_size >> 10} KiB")


def unpacked(wheel: Path, directory: Path) -> list[Path]:
    """Its files."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return [file for file in directory.rglob("*") if file.is_file()]
