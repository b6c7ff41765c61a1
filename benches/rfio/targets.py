"""The figures compared with those of the other programs and with the targets, as ratios within one run."""

from __future__ import annotations

import os
from typing import NamedTuple

from figures import FIGURES, best, median


class Target(NamedTuple):
    """A row of the table: a figure, its divisor, and the limit of the ratio."""

    part: str
    what: str
    ours: float
    theirs: float
    unit: str
    relation: str
    limit: float


def targets() -> list[Target]:
    """Returns all targets, whether measured or not."""
    return [*small_files(), *distance(), *copies(), *first(), *vectors(), *crowd(), *readers(), *others()]


def small_files() -> list[Target]:
    found = []
    for kind in ("1k", "64k"):
        for way in ("download", "upload"):
            rate = {tool: median(f"small.{kind}.{way}.{tool}.files_per_s") for tool in ("rfcp", "rfcp-tcp", "rsync")}
            what = f"files of {kind.upper()}iB, {way}"
            found += [Target("small-files", f"{what}: by verbs, rsync", rate["rfcp"], rate["rsync"], "files/s", ">=", 1.5),
                      Target("small-files", f"{what}: by TCP, rsync", rate["rfcp-tcp"], rate["rsync"], "files/s", ">=", 1.5),
                      Target("small-files", f"{what}: by verbs, by TCP", rate["rfcp"], rate["rfcp-tcp"], "files/s", ">=", 1)]
    return found


def distance() -> list[Target]:
    return [Target("distance", f"files of {kind.upper()}iB over 20 ms, {way}: by TCP, rsync",
                   median(f"distance.{kind}.{way}.rfcp-tcp.files_per_s"),
                   median(f"distance.{kind}.{way}.rsync.files_per_s"), "files/s", ">=", 1)
            for kind in ("1k", "64k") for way in ("download", "upload")]


def gigabytes(tool: str, sink: str) -> float:
    """Returns the rate of a tool."""
    return median(f"{tool}.{sink}.bytes_per_s") / 1e9


def processor(tools: list[str], sink: str) -> float:
    """Returns the CPU seconds of both sides for a gibibyte, of the cheapest tool."""
    return best([f"{tool}.{sink}.cpu_s_per_gib" for tool in tools], min)


def copies() -> list[Target]:
    rivals = ["xrdcp", "rsync", "curl"]
    found = []
    for sink, limit in (("dropped", 3), ("kept", 2)):
        theirs = best([f"{tool}.{sink}.bytes_per_s" for tool in rivals]) / 1e9
        where = {"dropped": "dropped", "kept": "to tmpfs"}[sink]
        found += [
            Target("copies", f"copy {where}: by verbs, best of others", gigabytes("rfcp", sink), theirs, "GB/s", ">=", limit),
            Target("copies", f"copy {where}: by TCP, xrdcp", gigabytes("rfcp-tcp", sink), gigabytes("xrdcp", sink), "GB/s",
                   ">=", 1.2),
            Target("copies", f"copy {where}: xrdcp on rfiod, on xrootd", gigabytes("xrdcp-rfio", sink),
                   gigabytes("xrdcp", sink), "GB/s", ">=", 2),
            Target("copies", f"copy {where}: by verbs, cheapest of others", processor(["rfcp"], sink), processor(rivals, sink),
                   "CPU s/GiB", "<=", 0.5),
            Target("copies", f"copy {where}: by TCP, xrdcp", processor(["rfcp-tcp"], sink), processor(["xrdcp"], sink),
                   "CPU s/GiB", "<=", 0.8)]
    return [*found,
            Target("copies", "copy dropped: by verbs, pread(2)", gigabytes("rfcp", "dropped"), median("pread.bytes_per_s") / 1e9,
                   "GB/s", ">=", 0.7),
            Target("copies", "copy dropped: with checksums, without", gigabytes("rfcp", "checked"),
                   gigabytes("rfcp", "unchecked"), "GB/s", ">=", 0.9)]


def first() -> list[Target]:
    return [Target("first", f"copy by {name}: first after a start, later", median(f"first.{fabric}.first_s"),
                   median(f"first.{fabric}.later_s"), "s", "<=", 1.2)
            for fabric, name in (("verbs", "verbs"), ("tcp", "TCP"))]


def vectors() -> list[Target]:
    def milliseconds(name: str) -> float:
        return 1e3 * median(f"vector.{name}_s")

    return [Target("vectors", "vector of 1,024 x 4 KiB: xrootd, by verbs", milliseconds("xrootd.vector"),
                   milliseconds("verbs.vector"), "ms", ">=", 2),
            Target("vectors", "vector of 1,024 x 4 KiB: xrootd, by TCP", milliseconds("xrootd.vector"),
                   milliseconds("tcp.vector"), "ms", ">=", 2),
            Target("vectors", "1,024 x 4 KiB: pread(2) of the file, one vector, by verbs", milliseconds("local"),
                   milliseconds("verbs.vector"), "ms", ">=", 0.5),
            Target("vectors", "1,024 reads, one vector, by verbs", milliseconds("verbs.single"), milliseconds("verbs.vector"),
                   "ms", ">=", 10)]


def crowd() -> list[Target]:
    def rate(tool: str, count: int) -> float:
        return median(f"crowd.{tool}.{count}.bytes_per_s") / 1e9

    found = []
    for tool, name in (("rfcp", "verbs"), ("rfcp-tcp", "TCP")):
        found += [Target("crowd", f"24 readers: by {name}, curl", rate(tool, 24), rate("curl", 24), "GB/s", ">=", 3.2),
                  Target("crowd", f"by {name}: 24 readers, one", rate(tool, 24), rate(tool, 1), "GB/s", ">=", 0.95)]
    return found


def counts() -> list[int]:
    """Returns the numbers of readers of figure 6 that were measured."""
    return sorted(int(name.split(".")[1]) for name in FIGURES if name.endswith("aggregate-bandwidth"))


def readers() -> list[Target]:
    rates = {count: median(f"readers.{count}.aggregate-bandwidth") / 1e9 for count in counts()}
    many = [rate for count, rate in rates.items() if count >= 3] or [float("nan")]
    peak = max(rates.values(), default=float("nan"))
    memory = [median(f"readers.{count}.server-memory") / (1 << 20) for count in counts()] or [float("nan")]
    return [Target("readers", "3 to 24 readers: lowest, highest", min(many), max(many), "GB/s", ">=", 0.9),
            Target("readers", "24 readers, peak", rates.get(24, float("nan")), peak, "GB/s", ">=", 0.95),
            Target("readers", "server memory: 24 readers, one", memory[-1], memory[0], "MiB", "<=", 1.1)]


def others() -> list[Target]:
    return [Target("scan", "24 readers: alone, beside a scan", median("scan.without_s"), median("scan.with_s"), "s", ">=", 0.9),
            Target("neighbours", "beside 128 sessions, 99th percentile, limit", 1e3 * median("neighbours.percentile_99_s"), 20,
                   "ms", "<=", 1)]


def show(only: list[str]) -> bool:
    """Prints the table, of some parts or all. Returns whether all of its targets are met."""
    print(f"{'comparison':58} {'figure':>9} {'rival':>9} {'unit':9} {'ratio':>6}  target")
    good = True
    for line in targets():
        if only and line.part not in only:
            continue
        ratio = line.ours / line.theirs
        measured = ratio == ratio
        met = measured and (ratio >= line.limit if line.relation == ">=" else ratio <= line.limit)
        good &= met
        print(f"{line.what:58} {number(line.ours):>9} {number(line.theirs):>9} {line.unit:9} {ratio:6.2f}  {line.relation} "
              f"{line.limit:<4} {'met' if met else 'MISSED' if measured else 'not measured'}")
    if "distance.link.round_trip_s" in FIGURES:
        print(f"link: round trip {1e3 * median('distance.link.round_trip_s'):.2f} ms of 20, "
              f"{median('distance.link.bytes_per_s') * 8 / 1e9:.3f} Gbit/s of 1 over one TCP stream, without headers")
    print(f"({os.cpu_count()} processors, load {os.getloadavg()[0]:.1f})")
    return good


def number(value: float) -> str:
    """Formats a figure with three digits."""
    return "-" if value != value else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
