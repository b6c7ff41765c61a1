"""The accuracy of `verbena run --as`: perftest, unmodified, with the times of five systems, compared with their models.

A benchmark of the model and the tool of perftest measure the same operation, size and placement of the data. Medians are
compared where perftest has them (latencies), because a preempted process spoils a mean; of bandwidths and rates the best
of three runs.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
from dataclasses import dataclass

from harness.build_tree import VERBENA
from harness.pair import exchange, free_port
from harness.place import Place

SECONDS = 120
SYSTEMS = ("connectx-qdr", "connectx3-qdr", "connectx5-edr", "connectx6-hdr", "connectx7-ndr")
LATENCY_SIZES = (8, 64, 1024, 4096, 16384, 65536)
BANDWIDTH_SIZES = (4096, 65536, 1 << 20)
RATE_SIZES = (8,)
# As the model's benchmarks: requests in flight, and of how many one has a completion.
WINDOW, SIGNALLED = 64, 16
RUNS = 3
MEBIBYTE = 1 << 20
# Columns of perftest: a median in us; an average bandwidth in MiB/s and a rate in millions of messages per second.
MEDIAN = re.compile(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", re.MULTILINE)
AVERAGE = re.compile(r"^ *\d+ +\d+\s+[\d.]+\s+([\d.]+)\s+([\d.]+)", re.MULTILINE)
OFF = re.compile(r"([\d.]+) % of operations off")


@dataclass(frozen=True)
class Curve:
    """A benchmark of the models and the tool of perftest for it."""

    name: str
    benchmark: str
    metric: str
    tool: tuple[str, ...]
    sizes: tuple[int, ...]
    # Largest mean and largest single deviation from the model.
    mean: float
    worst: float


CURVES = (
    Curve("latency", "latency.write", "one-way-latency", ("ib_write_lat", "-I", "0"), LATENCY_SIZES, 0.02, 0.06),
    Curve("latency", "latency.read", "completion-latency", ("ib_read_lat",), LATENCY_SIZES, 0.02, 0.06),
    Curve("latency", "latency.send", "one-way-latency", ("ib_send_lat", "-I", "0"), LATENCY_SIZES, 0.02, 0.06),
    Curve("bandwidth", "bandwidth.write", "cached-bandwidth", ("ib_write_bw",), BANDWIDTH_SIZES, 0.03, 0.07),
    Curve("message rate", "bandwidth.write", "message-rate", ("ib_write_bw",), RATE_SIZES, 0.08, 0.08),
)


@dataclass(frozen=True)
class Row:
    """The deviations of one kind of figure of one system, as shares of the model's."""

    name: str
    curve: Curve
    deviations: dict[str, float]
    # Largest share of operations off in a run, in per cent, by the reports: about this machine.
    off: float

    @property
    def mean(self) -> float:
        """The mean of the absolute deviations."""
        return statistics.fmean(map(abs, self.deviations.values()))

    @property
    def worst(self) -> tuple[str, float]:
        """The largest deviation, and where it is."""
        return max(self.deviations.items(), key=lambda one: abs(one[1]))

    @property
    def met(self) -> bool:
        """Whether both limits are kept."""
        return self.mean <= self.curve.mean and abs(self.worst[1]) <= self.curve.worst

    def cells(self) -> list[str]:
        """Returns the cells for the table of `benches/run`."""
        where, worst = self.worst
        limit = f"mean {self.curve.mean:.0%}, worst {self.curve.worst:.0%}"
        return [self.name, f"mean {self.mean:.1%}, worst {worst:+.1%} ({where})", "the model",
                f"{self.off:g} % off", limit, "met" if self.met else "MISSED"]


def rows() -> list[Row]:
    """Measures all systems, one after the other. Reports and omits figures that are missing."""
    found = []
    for system in SYSTEMS:
        prepare(system)
        by_name: dict[str, tuple[Curve, dict[str, float], list[float]]] = {}
        for curve in CURVES:
            modelled = model(system, curve)
            _, deviations, off = by_name.setdefault(curve.name, (curve, {}, []))
            for size in curve.sizes:
                measured = perftest(system, curve, size, off)
                if measured is None or size not in modelled:
                    print(f"{system}: no figure of {curve.tool[0]} with {size} B", file=sys.stderr)
                    continue
                deviations[f"{curve.tool[0]} {size} B"] = measured / modelled[size] - 1
        found += [Row(f"as {system}: {name}", curve, deviations, max(off, default=0.0))
                  for name, (curve, deviations, off) in by_name.items() if deviations]
    return found


def prepare(system: str) -> None:
    """Computes the table of a system, so that a server does not wait for it."""
    place = Place("bench", f"table {system}")
    try:
        place.run("table", [str(VERBENA), "run", "--as", system, "--", "true"], SECONDS)
    finally:
        place.close()


def model(system: str, curve: Curve) -> dict[int, float]:
    """Returns the figures of the model by size: ns, bytes or messages per second."""
    place = Place("bench", f"model {system} {curve.benchmark}")
    out = place.directory / "out"
    command = [str(VERBENA), "bench", curve.benchmark, "--transports", "rc", "--inline", "0",
               "--sizes", ",".join(map(str, curve.sizes)), "--on", f"model:{system}", "--out", str(out)]
    try:
        ended = place.run("bench", command, SECONDS)
        if not ended.succeeded:
            print(f"{curve.benchmark}: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
            return {}
        records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    finally:
        place.close()
    points = [one for one in records if one["record"] == "point" and one["parameters"].get("receive-queue", "own") == "own"]
    return {int(one["parameters"]["size"]): float(metric["value"])
            for one in points for metric in one["metrics"] if metric["name"] == curve.metric}


def perftest(system: str, curve: Curve, size: int, off: list[float]) -> float | None:
    """Returns perftest's figure in the model's unit; adds the shares of operations that were off."""
    is_latency = curve.name == "latency"
    if is_latency:
        figures = [one for one in [run(system, curve.tool, size, 5000, MEDIAN, off)] if one]
        return float(figures[0][1]) * 1e3 if figures else None
    count = min(1_000_000, max(2000, (1 << 30) // size))
    tool = (*curve.tool, "-t", str(WINDOW), "-Q", str(SIGNALLED))
    found = [one for one in (run(system, tool, size, count, AVERAGE, off) for _ in range(RUNS)) if one]
    if not found:
        return None
    if curve.metric == "message-rate":
        return max(float(one[2]) * 1e6 for one in found)
    return max(float(one[1]) * MEBIBYTE for one in found)


def run(system: str, tool: tuple[str, ...], size: int, count: int, figure: re.Pattern[str], off: list[float]) -> re.Match[str] | None:
    """Runs a tool of perftest on two processors, and returns its line of figures."""
    place = Place("bench", f"{tool[0]} {size} as {system}")
    port = free_port()
    first, second, *_ = [*sorted(os.sched_getaffinity(0)) * 2]
    command = [str(VERBENA), "run", "--as", system, "--", *tool, "-F", "-s", str(size), "-n", str(count), "-p", str(port)]
    try:
        done = exchange(place, ["taskset", "-c", str(second), *command],
                        ["taskset", "-c", str(first), *command, "127.0.0.1"], port, SECONDS)
    finally:
        place.close()
    output = done.client.output if done.client else ""
    off += [float(one) for one in OFF.findall(output)]
    found = figure.search(output)
    if not found:
        print(f"{tool[0]} gives no result:\n{done.evidence()}", file=sys.stderr)
    return found
