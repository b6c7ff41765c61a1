"""Many readers of one file, alone and with a concurrent reader that reads a file of five times the size once."""

from __future__ import annotations

import json
import random
import subprocess
import time

from figures import note
from harness.build_tree import VERBENA
from rfio.service import Service

READERS = 24


def measure(service: Service) -> None:
    """Measures figure 6, with the benchmark that draws it."""
    out = service.directory / "readers"
    subprocess.run([VERBENA, "bench", "rfio.readers", "--launches", "3", "--out", out],
                   env=service.place.environment(), stdout=subprocess.DEVNULL, check=True)
    for line in (out / "results.jsonl").read_text().splitlines():
        point = json.loads(line)
        if point["record"] == "point":
            count = int(point["parameters"]["readers"])
            for metric in point["metrics"]:
                note(f"readers.{count}.{metric['name']}", metric["value"])


def beside_a_scan(service: Service, size: int) -> None:
    """Measures the readers' time with and without the concurrent read of the long file, alternately."""
    long = service.export / "long"
    part = random.Random(99).randbytes(16 << 20)
    with open(long, "wb") as file:
        for _ in range(size // len(part)):
            file.write(part)
    time.sleep(0.1)  # a file changed this very moment is not shared by readers
    try:
        for _ in range(3):
            note("scan.without_s", together(service))
            scan = service.begin("rfcp", "-q", service.at("long"), "/dev/null")
            try:
                note("scan.with_s", together(service))
            finally:
                scan.finish(time.monotonic())
    finally:
        long.unlink()


def together(service: Service) -> float:
    """Returns the seconds until the last reader has the whole file."""
    begun = time.monotonic()
    readers = [service.begin("rfcp", "-q", service.at("hot"), "/dev/null") for _ in range(READERS)]
    for reader in readers:
        ended = reader.finish(begun + 600)
        assert ended.succeeded, ended.evidence()
    return time.monotonic() - begun
