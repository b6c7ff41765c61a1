"""Requirements of a program or library on its machine, from its ELF tables (by binutils' readelf)."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import Iterable

# PEP 600: libraries that a manylinux wheel may use without containing them; the part of the list for C programs.
ALLOWED = re.compile(r"(libc|libm|libdl|libpthread|librt)\.so\.\d+|libgcc_s\.so\.1|ld-linux[-\w]*\.so\.\d+")
# musl's only library, by the names that musl's linker accepts; PEP 656 allows no other.
MUSL = re.compile(r"libc(\.musl-\w+)?\.so(\.1)?")
# e_machine of the ELF header, and Python's names of platforms.
MACHINES = {62: "x86_64", 183: "aarch64"}

Version = tuple[int, ...]


class NotPortable(Exception):
    """A requirement that other machines do not meet."""


def readelf(option: str, file: Path) -> str:
    return subprocess.run(["readelf", "-W", option, str(file)], check=True, capture_output=True, text=True).stdout


def machine(file: Path) -> str:
    """Returns the processor's name."""
    header = file.read_bytes()[:20]
    if header[:4] != b"\x7fELF":
        raise NotPortable(f"{file} is no ELF file")
    number, = struct.unpack_from("<H", header, 18)
    if number not in MACHINES:
        raise NotPortable(f"{file}: no wheel platform for ELF machine {number}")
    return MACHINES[number]


def glibc(file: Path) -> Version:
    """Returns the oldest C library that has every symbol version of the file."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", file))
    if foreign := [name for name in needed if not ALLOWED.fullmatch(name)]:
        raise NotPortable(f"{file} needs {', '.join(foreign)}, which some machines lack")
    found = re.findall(r"Name: GLIBC_([\d.]+)\s", readelf("--version-info", file))
    return max((tuple(map(int, version.split("."))) for version in found), default=(2, 5))


def is_musl(file: Path) -> bool:
    """Returns whether the file is for musl, and needs no other library."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", file))
    return bool(needed) and all(map(MUSL.fullmatch, needed))


def platform(files: Iterable[Path]) -> str:
    """Returns the tag of PEP 600, or of PEP 656, for all of these files."""
    files = list(files)
    machines = {machine(file) for file in files}
    if len(machines) != 1:
        raise NotPortable(f"the files are for different machines: {', '.join(sorted(machines))}")
    if all(map(is_musl, files)):
        return f"musllinux_1_2_{machines.pop()}"
    major, minor = max(glibc(file) for file in files)[:2]
    return f"manylinux_{major}_{minor}_{machines.pop()}"
