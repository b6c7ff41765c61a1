"""The figures beside their targets, as ratios within one run."""

from __future__ import annotations

import os

from figures import FIGURES, best, median

#: What, its value, at least or at most, the limit.
Target = tuple[str, float, str, float]


def targets() -> list[Target]:
    """Every target, whether it was measured or not."""
    return [*copies(), *readers(), *small_files(), *others()]


def speed(ours: str, theirs: list[str], sink: str) -> float:
    """How many times as fast as the fastest of the others."""
    return median(f"{ours}.{sink}.bytes_per_s") / best([f"{name}.{sink}.bytes_per_s" for name in theirs])


def cost(ours: str, theirs: list[str], sink: str) -> float:
    """Processor time of both ends, as a part of the cheapest of the others."""
    return median(f"{ours}.{sink}.cpu_s_per_gib") / best([f"{name}.{sink}.cpu_s_per_gib" for name in theirs], min)


def copies() -> list[Target]:
    rivals = ["xrdcp", "rsync", "scp", "rfcp-tcp"]
    found = [
        ("rfcp : pread into memory", median("rfcp.dropped.bytes_per_s") / median("pread.bytes_per_s"), ">=", 0.7),
        ("rfcp : xrdcp, dropped", speed("rfcp", ["xrdcp"], "dropped"), ">=", 3),
        ("rfcp : best of others, kept", speed("rfcp", rivals, "kept"), ">=", 2),
        ("CPU s/GiB : best of others, dropped", cost("rfcp", rivals, "dropped"), "<=", 0.5),
        ("CPU s/GiB : best of others, kept", cost("rfcp", rivals, "kept"), "<=", 0.5),
    ]
    for sink in ("dropped", "kept"):
        found += [
            (f"rfcp over TCP : xrdcp, {sink}", speed("rfcp-tcp", ["xrdcp"], sink), ">=", 1.2),
            (f"CPU s/GiB over TCP : xrdcp, {sink}", cost("rfcp-tcp", ["xrdcp"], sink), "<=", 0.8),
            (f"xrdcp by plug-in : to xrootd, {sink}", speed("xrdcp-rfio", ["xrdcp"], sink), ">=", 2),
        ]
    checked = median("rfcp.checked.bytes_per_s") / median("rfcp.unchecked.bytes_per_s")
    return [*found, ("with checksums : without", checked, ">=", 0.9)]


def counts() -> list[int]:
    """How many readers were measured."""
    return sorted(int(name.split(".")[1]) for name in FIGURES if name.endswith("aggregate-bandwidth"))


def readers() -> list[Target]:
    rates = {count: median(f"readers.{count}.aggregate-bandwidth") for count in counts()}
    many = [rate for count, rate in rates.items() if count >= 3] or [float("nan")]
    peak = max(rates.values(), default=float("nan"))
    memory = [median(f"readers.{count}.server-memory") for count in counts()] or [float("nan")]
    return [
        ("3 to 24 readers, lowest : highest", min(many) / max(many), ">=", 0.9),
        ("24 readers : peak", rates.get(24, float("nan")) / peak, ">=", 0.95),
        ("24 readers beside a scan : alone", median("scan.without_s") / median("scan.with_s"), ">=", 0.9),
        ("server memory, 24 readers : 1", memory[-1] / memory[0], "<=", 1.1),
    ]


def small_files() -> list[Target]:
    return [(f"small files, {direction}, {ours} : {theirs}",
             median(f"{ours}.{direction}.files_per_s") / median(f"{theirs}.{direction}.files_per_s"), ">=", limit)
            for direction in ("download", "upload") for ours in ("rfcp", "rfcp-synced")
            for theirs, limit in (("scp", 5), ("rsync", 2))]


def others() -> list[Target]:
    return [
        ("1,024 reads : one vector", median("vector.single_s") / median("vector.vector_s"), ">=", 10),
        ("ms beside 128 sessions, 99th perc.", 1e3 * median("neighbours.percentile_99_s"), "<=", 20),
    ]


def show() -> bool:
    """Prints everything that was measured; whether all of its targets are met."""
    for name in sorted({name.rsplit(".", 1)[0] for name in FIGURES if name.endswith("server_cpu_s_per_gib")}):
        print(f"{name:20} {median(name + '.bytes_per_s') / 1e9:6.2f} GB/s, at best {max(FIGURES[name + '.bytes_per_s']) / 1e9:.2f}"
              f"   CPU s/GiB: {median(name + '.cpu_s_per_gib'):.3f}, server {median(name + '.server_cpu_s_per_gib'):.3f}")
    print(f"{'pread':20} {median('pread.bytes_per_s') / 1e9:6.2f} GB/s")
    print(f"{'pwrite alone':20} {median('pwrite.bytes_per_s') / 1e9:6.2f} GB/s   CPU s/GiB: "
          f"{median('pwrite.cpu_s_per_gib'):.3f}: what is kept cannot be cheaper")
    print(f"vector {median('vector.vector_s') * 1e3:.2f} ms, 1,024 reads {median('vector.single_s') * 1e3:.2f} ms")
    for name in sorted(name for name in FIGURES if name.endswith("files_per_s")):
        print(f"{name.removesuffix('.files_per_s'):20} {median(name):6.0f} small files/s")
    print(f"24 readers {median('scan.without_s'):.1f} s, beside a scan {median('scan.with_s'):.1f} s")
    print(f"light requests beside 128 sessions: {median('neighbours.median_s') * 1e3:.1f} ms in the middle")
    for count in counts():
        print(f"{count:>2} readers {median(f'readers.{count}.aggregate-bandwidth') / 1e9:6.2f} GB/s, server "
              f"{median(f'readers.{count}.server-cpus'):.2f} CPUs, "
              f"{median(f'readers.{count}.server-memory') / (1 << 20):.0f} MiB")
    good = True
    for what, value, relation, limit in targets():
        measured = value == value
        met = measured and (value >= limit if relation == ">=" else value <= limit)
        good &= met
        print(f"{what:44} {value:7.2f}   target {relation} {limit:<5} "
              f"{'met' if met else 'MISSED' if measured else 'not measured'}")
    print(f"({os.cpu_count()} processors, load {os.getloadavg()[0]:.1f})")
    return good
