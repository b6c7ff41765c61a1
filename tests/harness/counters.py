"""What the adapter counted in the processes of a case (VERBENA_STATS_DIR)."""

from __future__ import annotations

import json
from collections import Counter

from .place import Place


def total(place: Place) -> Counter:
    """The sums over all processes of the case that ended by themselves."""
    sums: Counter = Counter()
    for file in place.stats.glob("*.json"):
        try:
            sums.update(json.loads(file.read_text())["counters"])
        except (ValueError, KeyError):
            # A process that was killed while it wrote.
            continue
    return sums


def paths_used(place: Place) -> set[str]:
    """The paths to peers over which anything went, by name."""
    return {name.removesuffix("_path_operations") for name, value in total(place).items()
            if name.endswith("_path_operations") and value > 0}
