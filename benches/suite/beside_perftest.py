"""The suite's medians compared with perftest's typical figures: same operation, size, transport, adapter and processors, alternately.

They may differ by a tenth or by 50 ns, as perftest prints hundredths of a microsecond and both are
compiled separately; a larger difference means that one of them measures its own code.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
from dataclasses import dataclass

from harness.build_tree import DEVICE, VERBENA, run
from harness.pair import exchange, free_port
from harness.place import Place

SECONDS = 120
ROUNDS = 7
SHARE = 0.10
NANOS = 50.0
# perftest's table: bytes, iterations, smallest, largest, typical (microseconds).
TYPICAL = re.compile(r"^ *(\d+) +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Twin:
    """A benchmark of the suite and the corresponding perftest tool."""

    benchmark: str
    tool: tuple[str, ...]
    transport: str
    sizes: tuple[int, ...]


TWINS = (
    Twin("latency.write", ("ib_write_lat",), "rc", (8, 4096, 65536)),
    Twin("latency.write", ("ib_write_lat",), "uc", (8,)),
    Twin("latency.read", ("ib_read_lat",), "rc", (8, 4096, 65536)),
    Twin("latency.send", ("ib_send_lat",), "rc", (8, 4096, 65536)),
    Twin("latency.send", ("ib_send_lat",), "uc", (8,)),
    Twin("latency.send", ("ib_send_lat",), "ud", (8,)),
    Twin("latency.fetch-add", ("ib_atomic_lat", "-A", "FETCH_AND_ADD"), "rc", (8,)),
)


@dataclass(frozen=True)
class Row:
    """One operation, measured by both, in nanoseconds."""

    name: str
    ours: float
    theirs: float

    @property
    def near(self) -> bool:
        """Returns whether they agree."""
        return abs(self.ours - self.theirs) <= max(SHARE * self.theirs, NANOS)

    def cells(self) -> list[str]:
        """Returns the cells for the table of `benches/run`."""
        return [self.name, f"{self.ours:.0f} ns", f"perftest, {self.theirs:.0f} ns",
                f"{self.ours / self.theirs:.2f}", "10 % or 50 ns", "met" if self.near else "MISSED"]


def rows() -> list[Row]:
    """Measures all twins. Reports and omits those without a figure."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for twin in TWINS:
            for size, value in suite(twin).items():
                ours.setdefault(name(twin, size), []).append(value)
            for size in twin.sizes:
                if (value := perftest(twin, size)) is not None:
                    theirs.setdefault(name(twin, size), []).append(value)
    return [Row(key, statistics.median(ours[key]), statistics.median(theirs[key]))
            for key in ours if key in theirs]


def name(twin: Twin, size: int) -> str:
    """Returns a readable name."""
    return f"{twin.benchmark} {twin.transport} {size} B"


def suite(twin: Twin) -> dict[int, float]:
    """Returns the suite's medians by size, with the queue pair's own receive queues, as in perftest."""
    place = Place("bench", f"suite {twin.benchmark} {twin.transport}")
    out = place.directory / "out"
    command = [str(VERBENA), "bench", twin.benchmark, "--quick", "--transports", twin.transport,
               "--sizes", ",".join(map(str, twin.sizes)), "--out", str(out)]
    try:
        ended = place.run("bench", command, SECONDS)
        if not ended.succeeded:
            print(f"{twin.benchmark}: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
            return {}
        lines = (out / "results.jsonl").read_text().splitlines()
    finally:
        place.close()
    points = [record for record in map(json.loads, lines) if record["record"] == "point"]
    return {int(point["parameters"]["size"]): point["metrics"][0]["value"] for point in points
            if point["parameters"].get("receive-queue", "own") == "own"}


def perftest(twin: Twin, size: int) -> float | None:
    """Returns perftest's typical figure in nanoseconds."""
    place = Place("bench", f"{twin.tool[0]} {twin.transport} {size}")
    port = free_port()
    first, second, *_ = [*sorted(os.sched_getaffinity(0)) * 2]
    sized = [] if twin.tool[0] == "ib_atomic_lat" else ["-s", str(size)]
    command = run(*twin.tool, "-F", "-d", DEVICE, "-p", port, "-c", twin.transport.upper(), *sized,
                  "-n", 20000 if size < 65536 else 4000)
    try:
        done = exchange(place, ["taskset", "-c", str(second), *command],
                        ["taskset", "-c", str(first), *command, "127.0.0.1"], port, SECONDS)
    finally:
        place.close()
    match = done.client and TYPICAL.search(done.client.output)
    if not match:
        print(f"{twin.tool[0]} gives no result:\n{done.evidence()}", file=sys.stderr)
        return None
    return float(match.group(2)) * 1000
