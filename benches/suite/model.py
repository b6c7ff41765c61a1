"""Speed of the timing models: events at packet level, an exchange of thousands of nodes at message level, and
the published claims."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time

from harness.build_tree import ROOT, TARGET, VERBENA
from harness.place import Place

SECONDS = 300
# Limits of `verbena reproduce`.
PROCESSORS = 2


def figures() -> dict[str, float]:
    """Returns all measured figures, times in nanoseconds."""
    return {**speed(), **reproduction()}


def speed() -> dict[str, float]:
    """Returns the output of the example program."""
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    subprocess.run([*cargo, "build", "--quiet", "--release", "--package", "verbena-reproduce",
                    "--example", "model_speed"], cwd=ROOT, check=True)
    ended = in_a_place([str(TARGET / "release" / "examples" / "model_speed")])
    found = re.findall(r"^(\w+) ([\d.]+)$", ended.output, re.MULTILINE)
    if not ended.succeeded:
        print(f"the model's speed: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
    return {name: float(value) for name, value in found}


def reproduction() -> dict[str, float]:
    """Returns the time to compute all claims."""
    processors = sorted(os.sched_getaffinity(0))[:PROCESSORS]
    command = ["taskset", "-c", ",".join(map(str, processors)), str(VERBENA), "reproduce"]
    begun = time.monotonic()
    ended = in_a_place(command)
    passed = time.monotonic() - begun
    if not ended.succeeded:
        print(f"verbena reproduce: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
        return {}
    return {"reproduce_ns": passed * 1e9}


def in_a_place(command: list[str]):
    """Runs a program in a separate directory."""
    place = Place("bench", "model")
    try:
        return place.run("model", command, SECONDS)
    finally:
        place.close()
