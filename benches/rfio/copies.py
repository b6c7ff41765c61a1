"""One large file, copied by all programs in turn: to /dev/null if a tool can do that, and to a file in memory."""

from __future__ import annotations

import ctypes
import os
import random
import time
from pathlib import Path

import rivals
from clients import Rfcp
from figures import note
from rfio.service import Service
from sizes import Sizes


def measure(service: Service, ours: Rfcp, others: list, sizes: Sizes) -> None:
    """Measures repetitions of compared figures alternately, so that a disturbance affects all."""
    sinks = {"dropped": Path("/dev/null"), "kept": service.here / "copy"}
    for _ in range(sizes.turns):
        pread(service.export / "hot", sizes.large)
        write(service.here / "copy", sizes.large)
        for sink, to in sinks.items():
            for tool in (ours, *others):
                if sink == "dropped" and tool.name == "rsync":
                    continue
                (service.here / "copy").unlink(missing_ok=True)
                record(f"{tool.name}.{sink}", tool.measure("hot", to), sizes.large)
            (service.here / "copy").unlink(missing_ok=True)
        for name, options in (("unchecked", ("--no-block-checksums",)), ("checked", ())):
            record(f"rfcp.{name}", ours.measure("hot", sinks["dropped"], *options), sizes.large)


def record(name: str, cost: rivals.Cost, size: int) -> None:
    """Records a copy."""
    gibibytes = size / (1 << 30)
    note(f"{name}.bytes_per_s", size / cost.seconds)
    note(f"{name}.cpu_s_per_gib", (cost.client_cpu + cost.server_cpu) / gibibytes)
    note(f"{name}.server_cpu_s_per_gib", cost.server_cpu / gibibytes)


def pread(path: Path, size: int) -> None:
    """Reads the same file into memory by pread(2), a mebibyte at a time."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    buffer = ctypes.create_string_buffer(1 << 20)
    descriptor = os.open(path, os.O_RDONLY)
    start = time.monotonic()
    for offset in range(0, size, 1 << 20):
        libc.pread(descriptor, buffer, 1 << 20, offset)
    note("pread.bytes_per_s", size / (time.monotonic() - start))
    os.close(descriptor)


def write(path: Path, size: int) -> None:
    """Writes a file of that size from memory by pwrite(2), a mebibyte at a time: the lower bound of a copy to a file."""
    buffer = bytearray(random.Random(1).randbytes(1 << 20))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    start, spent = time.monotonic(), time.process_time()
    for offset in range(0, size, 1 << 20):
        os.pwrite(descriptor, buffer, offset)
    note("pwrite.bytes_per_s", size / (time.monotonic() - start))
    note("pwrite.cpu_s_per_gib", (time.process_time() - spent) / (size / (1 << 30)))
    os.close(descriptor)
    path.unlink()
