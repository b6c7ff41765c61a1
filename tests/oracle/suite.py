"""Random programs, and those that once showed a fault, on the adapter and on an executable
specification of the verbs."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from harness import build_tree
from harness.build_tree import PATHS
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

TITLE = "random programs, compared with an executable specification"
REQUIRES = []

PROGRAMS = build_tree.ROOT / "crates" / "oracle" / "programs"
# Seconds of random programs on each path; nights take longer.
SECONDS = int(os.environ.get("VERBENA_ORACLE_SECONDS", "8"))
# By day the programs are the same each time, so that only the change itself can alter the result; nights (an empty
# seed) try new ones.
SEED = os.environ.get("VERBENA_ORACLE_SEED", "1")
# For making a program smaller, and for the program that is running when the time is over.
GRACE = 120
# A fault that depends on luck shows itself in one of so many runs.
TIMES = 5


def cases() -> list[Case]:
    """Each kept program on each path, then random ones."""
    kept = sorted(PROGRAMS.glob("*.txt"))
    replays = [Case(f"kept: {program.stem}", path, partial(_replay, program, path))
               for program in kept for path in PATHS]
    return replays + [Case("random programs", path, partial(_random, path)) for path in PATHS]


def _replay(program: Path, path: str, place: Place) -> Outcome:
    return _run(place, path, 120, "--replay", program, "--times", TIMES)


def _random(path: str, place: Place) -> Outcome:
    seed = ("--seed", SEED) if SEED else ()
    return _run(place, path, SECONDS + GRACE, "--seconds", SECONDS, *seed)


def _run(place: Place, path: str, seconds: float, *options: object) -> Outcome:
    oracle = build_tree.TARGET / "release" / "verbena-oracle"
    command = build_tree.run(oracle, "--path", path, "--directory", place.runtime, *options)
    ended = place.run("oracle", command, seconds, path)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    return passed(summary(ended.output))


def summary(output: str) -> str:
    """The closing line of a run."""
    lines = [line for line in output.splitlines() if "differences" in line]
    return lines[-1] if lines else ""
