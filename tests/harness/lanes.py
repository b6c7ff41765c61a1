"""Two lanes of suites beside each other, each one after another."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Callable

from . import build_tree
from .runner import Totals

Lane = Callable[[list[str], str], Totals]


def run(lane: Lane, here: list[str], beside: list[str], only: str) -> Totals:
    """What both lanes have come to. What the one beside says is printed when it has ended, in one piece."""
    if not beside:
        return lane(here, only)
    build_tree.LOGS.mkdir(parents=True, exist_ok=True)
    log = build_tree.LOGS / "beside.log"
    log.write_text("")
    print(f"# beside the others, and told at the end: {', '.join(beside)} ({log})\n", flush=True)
    # Forked, so that it has the modules that this process has, of a program whose name is no module's.
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        other = pool.submit(_told, lane, beside, only, log)
        totals = lane(here, only)
        try:
            totals.join(other.result())
        finally:
            # What it said before it could not go on, too.
            print(log.read_text(), end="", flush=True)
    return totals


def _told(lane: Lane, names: list[str], only: str, log: Path) -> Totals:
    """Runs a lane, all of whose words go to a file."""
    with log.open("w") as said, redirect_stdout(said):
        return lane(names, only)
