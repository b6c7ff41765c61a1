"""The adapter's counters in the processes of a case (VERBENA_STATS_DIR)."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

from .place import Place

# The layout: crates/hca-net/src/counters/file.rs.
HEADER = 4096
FLAG = 1 << 63


def of_file(file: Path) -> Counter:
    """The counters of one process."""
    content = file.read_bytes()
    kind, _pid, _command, shards, names = content[:HEADER].decode(errors="replace").splitlines()[:5]
    if kind != "verbena counters 1":
        raise ValueError(f"{file}: {kind!r}")
    number, length = map(int, shards.split())
    sums: Counter = Counter()
    for shard in range(number):
        values = struct.unpack_from(f"={len(names.split())}Q", content, HEADER + shard * length)
        sums.update({name: value & ~FLAG for name, value in zip(names.split(), values)})
    return sums


def total(place: Place) -> Counter:
    """The sums over all processes of the case."""
    sums: Counter = Counter()
    for file in place.stats.glob("*.counters"):
        try:
            sums.update(of_file(file))
        except (ValueError, struct.error):
            # A process that was killed while it made the file.
            continue
    return sums


def paths_used(place: Place) -> set[str]:
    """The paths to peers over which anything went, by name."""
    return {name.removesuffix("_path_operations") for name, value in total(place).items()
            if name.endswith("_path_operations") and value > 0}
