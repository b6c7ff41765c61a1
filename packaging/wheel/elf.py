"""What a program or library asks of the machine that it runs on, as its own tables say (by binutils' readelf)."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import Iterable

# PEP 600: what a wheel of a manylinux platform may ask for beside what it brings; the part of the list that C programs use.
ALLOWED = re.compile(r"(libc|libm|libdl|libpthread|librt)\.so\.\d+|libgcc_s\.so\.1|ld-linux[-\w]*\.so\.\d+")
# musl's one library, by the names that the linker of musl knows; PEP 656 asks for nothing else beside it.
MUSL = re.compile(r"libc(\.musl-\w+)?\.so(\.1)?")
# e_machine of the ELF header, as Python names platforms.
MACHINES = {62: "x86_64", 183: "aarch64"}

Version = tuple[int, ...]


class NotPortable(Exception):
    """Something that other machines do not have."""


def readelf(option: str, file: Path) -> str:
    return subprocess.run(["readelf", "-W", option, str(file)], check=True, capture_output=True, text=True).stdout


def machine(file: Path) -> str:
    """The processor's name."""
    header = file.read_bytes()[:20]
    if header[:4] != b"\x7fELF":
        raise NotPortable(f"{file} is no ELF file")
    number, = struct.unpack_from("<H", header, 18)
    if number not in MACHINES:
        raise NotPortable(f"{file} is for the machine {number} of the ELF header, and no wheel is known for that")
    return MACHINES[number]


def glibc(file: Path) -> Version:
    """The oldest C library that has every symbol version that the file asks for."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", file))
    if foreign := [name for name in needed if not ALLOWED.fullmatch(name)]:
        raise NotPortable(f"{file} needs {', '.join(foreign)}, which not every machine has")
    found = re.findall(r"Name: GLIBC_([\d.]+)\s", readelf("--version-info", file))
    return max((tuple(map(int, version.split("."))) for version in found), default=(2, 5))


def is_musl(file: Path) -> bool:
    """Whether it is for musl, and asks for nothing else."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", file))
    return bool(needed) and all(map(MUSL.fullmatch, needed))


def platform(files: Iterable[Path]) -> str:
    """The tag of PEP 600, or of PEP 656, for all of these files."""
    files = list(files)
    machines = {machine(file) for file in files}
    if len(machines) != 1:
        raise NotPortable(f"the files are for different machines: {', '.join(sorted(machines))}")
    if all(map(is_musl, files)):
        return f"musllinux_1_2_{machines.pop()}"
    major, minor = max(glibc(file) for file in files)[:2]
    return f"manylinux_{major}_{minor}_{machines.pop()}"
