"""Every benchmark on the software adapter, and figures that once were wrong."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from harness import tiers
from harness.build_tree import LOGS, VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended

from .records import points_of, records

SECONDS = 900
# As `verbena list` prints them.
NAME = re.compile(r"^  ((?:baseline|latency|bandwidth|rate|multi-pair|internals|patterns)\.[a-z-]+) ",
                  re.M)


# The one evaluation that cases share, once it has run.
_evaluation: list[tuple[Path, Ended]] = []


def benchmarks() -> list[str]:
    """All names."""
    return NAME.findall(os.popen(f"'{VERBENA}' list").read())


def evaluation(place: Place) -> tuple[Path, Ended]:
    """The quick evaluation of the software adapter beside two models: one run for all cases that look at it."""
    if not _evaluation:
        out = LOGS / "measure" / "evaluation"
        shutil.rmtree(out, ignore_errors=True)
        _evaluation.append((out, place.run("evaluate", [str(VERBENA), "evaluate", "--quick", "--out", str(out)], SECONDS)))
    return _evaluation[0]


def one_benchmark(name: str, place: Place) -> Outcome:
    """Exit 0, points with checked data, and failures only of features that are not offered. By night each benchmark
    runs alone."""
    if tiers.by_night():
        out = place.directory / "out"
        ended = place.run("bench", [str(VERBENA), "bench", name, "--quick", "--out", str(out)], SECONDS)
    else:
        out, ended = evaluation(place)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    found = [record for record in records(out) if record.get("benchmark", name) == name]
    points = [record for record in found if record["record"] == "point"]
    failures = [r for r in found if r["record"] == "failure" and not r["unsupported"]]
    if failures:
        return failed(failures[0]["reason"], ended.evidence())
    if not points:
        return failed("no point was measured", ended.evidence())
    if unchecked := [p["parameters"] for p in points if not p["conduct"]["validated"] and not moves_nothing(p)]:
        return failed(f"the data of {unchecked[:3]} was not checked", ended.evidence())
    return passed(f"{len(points)} points")


def moves_nothing(point: dict) -> bool:
    """Registration and the memory of connections move no data that could be checked, the smallest halo has no space for
    more than its tag, and a stream over TCP is the kernel's to deliver."""
    name, parameters = point["benchmark"], point["parameters"]
    return (name in ("internals.registration", "internals.footprint")
            or name == "patterns.halo" and parameters["size"] == 1
            or name == "baseline.tcp" and parameters["flow"] == "stream")


def once_wrong(place: Place) -> Outcome:
    """The floor is that of the baseline itself, TCP has none, deregistration is without its warm-up, connections cost
    memory."""
    if problem := floor_is_the_baseline(place):
        return problem
    out, memory_out = place.directory / "out", place.directory / "memory"
    names = ["baseline.tcp", "internals.registration"]
    for options in ([*names, "--quick", "--sizes", "4096", "--out", str(out)],
                    ["internals.footprint", "--launches", "1", "--out", str(memory_out)]):
        ended = place.run("bench", [str(VERBENA), "bench", *options], SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    of = {name: [p["metrics"] for p in points_of(out) if p["benchmark"] == name] for name in names}
    if any(metrics[0]["bound"] for metrics in of["baseline.tcp"]):
        return failed("TCP has a cache line as its bound")
    both, release = of["internals.registration"][0]
    if both["summary"]["n"] != release["summary"]["n"] or both["value"] < release["value"]:
        return failed(f"deregistration is {release}, of {both}")
    memory: dict[str, dict[int, float]] = {}
    for point in points_of(memory_out):
        at = point["parameters"]
        memory.setdefault(at["transport"], {})[int(at["connections"])] = point["metrics"][0]["value"]
    for transport, bytes_of in memory.items():
        rising = [bytes_of[number] for number in (125, 250, 500, 1000)]
        if sorted(set(rising)) != rising or rising[0] == 0:
            return failed(f"{transport}: 125, 250, 500 and 1000 connections cost {rising} bytes")
    return passed(f"1000 connections cost {', '.join(f'{k} {v[1000] / 1e6:.1f} MB' for k, v in memory.items())}")


def floor_is_the_baseline(place: Place) -> Outcome | None:
    """Each is measured at another time, and a processor may be faster or slower by then: this may come between them now
    and then, and a floor that is not the baseline's stands out in every run."""
    seen = []
    for number in range(5):
        out = place.directory / f"floor-{number}"
        ended = place.run("bench", [str(VERBENA), "bench", "baseline.cache-line", "latency.write", "--quick", "--sizes", "4096",
                                    "--out", str(out)], SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        of = {point["benchmark"]: point["metrics"][0] for point in points_of(out)}
        floor, baseline = of["latency.write"]["bound"]["value"], of["baseline.cache-line"]["value"]
        if baseline / 2 < floor < baseline * 2:
            return None
        seen.append((floor, baseline))
    return failed(f"floors beside their baselines, in ns: {seen}")
