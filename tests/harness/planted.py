"""Runs with planted figures, for tests of reported differences: they do not depend on how far a machine moved between
two launches or two runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def plant(measured: Path, planted: Path, factor: Callable[[dict], float] = lambda point: 1.0) -> None:
    """Writes the results of a run anew, as if all its launches had agreed within 1 % with the first one, times a
    point's factor."""
    settled: dict[str, float] = {}
    lines = []
    for line in measured.read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "point":
            figure = record["metrics"][0]
            what = record["benchmark"] + json.dumps(record["parameters"], sort_keys=True)
            first = settled.setdefault(what, figure["value"])
            figure["value"] = first * (1 + (record["launch"] % 3 - 1) / 100) * factor(record)
        lines.append(json.dumps(record))
    planted.write_text("\n".join(lines) + "\n")
