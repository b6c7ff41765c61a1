"""The files of a run: its records, and the processes that write them."""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness.build_tree import VERBENA
from harness.place import Place
from harness.process import Process

# How a record of a point begins.
POINT = '"record":"point"'


def records(directory: Path) -> list[dict]:
    """All records of a run directory."""
    return [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]


def points_of(directory: Path) -> list[dict]:
    """Points without their optional part: warnings."""
    found = [record for record in records(directory) if record["record"] == "point"]
    for point in found:
        point.pop("warnings")
    return found


def shape(value: object) -> object:
    """The fields of a record, without their values; of parameters, the names."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], dict) else []
    return None


def said(out: Path, words: str, process: Process, deadline: float) -> None:
    """Waits until the results of a run have the words, or the process that writes them has ended."""
    results = out / "results.jsonl"
    while process.running and time.monotonic() < deadline:
        if results.exists() and words in results.read_text():
            return
        time.sleep(0.02)


def started(place: Place, out: Path, *what: str) -> Process:
    """A run that takes a while, once it has measured something."""
    process = place.start("bench", [str(VERBENA), "bench", *what, "--launches", "1", "--out", str(out)])
    said(out, POINT, process, time.monotonic() + 60)
    return process
