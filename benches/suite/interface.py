"""The cost of the benchmarks' fabric interface over direct verbs calls, for an operation posted and polled."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

from harness.build_tree import ROOT, TARGET
from harness.place import Place

SECONDS = 60
COST = re.compile(r"the interface costs (-?[\d.]+) ns")


def figures() -> dict[str, float]:
    """Returns the cost in nanoseconds, if it could be measured."""
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    subprocess.run([*cargo, "build", "--quiet", "--release", "--package", "verbena-fabric",
                    "--example", "overhead"], cwd=ROOT, check=True)
    place = Place("bench", "interface")
    try:
        ended = place.run("overhead", [str(TARGET / "release" / "examples" / "overhead"),
                                       str(TARGET / "release" / "lib" / "libibverbs.so.1")], SECONDS)
    finally:
        place.close()
    match = COST.search(ended.output)
    if not match:
        print(f"the cost of the interface: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
        return {}
    return {"interface_cost_ns": max(float(match.group(1)), 0.0)}
