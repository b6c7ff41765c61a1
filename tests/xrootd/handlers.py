"""A C++ program that makes the requests that XRootD's own programs do not make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.outcome import Outcome, failed, passed
from harness.place import Place
from rfio.service import Service, noise

from .programs import program, url


def everything(place: Place, fabric: str) -> Outcome:
    """Pages, files that are closed, order."""
    built = place.directory / "handlers"
    source = Path(__file__).with_name("handlers.cc")
    made = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-Wall", "-Wextra", "-isystem", "/usr/include/xrootd",
                           source, "-o", built, "-lXrdCl", "-lXrdUtils", "-lpthread"], capture_output=True, text=True, check=False)
    if made.returncode:
        return failed("does not compile and link", made.stderr)
    with Service(place, fabric) as service:
        original = service.export / "f"
        original.write_bytes(noise(5_000_001))
        ended = program(service, built, url(service, "f"), original)
        good = ended.succeeded and "all of it" in ended.output
        return passed() if good else failed("the program failed", ended.evidence())
