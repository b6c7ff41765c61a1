"""1,024 pieces of 4 KiB: seeks and reads, and one vector, by a C program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from figures import note
from harness.build_tree import ROOT, run
from rfio.service import TOOLS, Service


def measure(service: Service, size: int) -> None:
    """Both, a few times."""
    program = service.directory / "vector"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, Path(__file__).parent / "vector.c",
                    f"-I{ROOT / 'crates/librfio/include'}", f"-L{TOOLS / 'lib'}", "-lrfio",
                    f"-Wl,-rpath,{TOOLS / 'lib'}"], check=True)
    ended = service.place.run("vector", run(program, f"rfio://127.0.0.1:{service.port}/hot", size), 120,
                              RFIO_FABRIC=service.fabric, **service.environment())
    assert ended.succeeded, ended.evidence()
    for line in ended.output.splitlines():
        single, vector = map(float, line.split())
        note("vector.single_s", single)
        note("vector.vector_s", vector)
