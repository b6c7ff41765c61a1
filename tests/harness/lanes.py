"""Several suites at once: each worker takes the next suite of the list when it has ended one."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stdout
from pathlib import Path
from typing import Callable

from . import build_tree
from .runner import Totals
from .tiers import Selection

# One per processor that every supported machine has. More would have programs that poll wait for each other.
WORKERS = 2
Suite = Callable[[str, Selection], Totals]


def one_after_another(run_suite: Suite, names: list[str], wanted: Selection) -> Totals:
    """Runs suites in their order and joins their totals."""
    totals = Totals()
    for name in names:
        totals.join(run_suite(name, wanted))
    return totals


def at_once(run_suite: Suite, names: list[str], wanted: Selection) -> Totals:
    """Runs suites and joins their totals. The output of a suite is printed in one piece when it has ended; until
    then it is in the folder that is named at the start."""
    totals = Totals()
    folder = build_tree.LOGS / "output"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"# {WORKERS} suites at a time; the output of those that are running is in {folder}\n", flush=True)
    # Forked: the workers share the modules of this process, whose main program is no module.
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as pool:
        logs = {pool.submit(_logged, run_suite, name, wanted, folder / name): folder / name for name in names}
        for done in as_completed(logs):
            try:
                totals.join(done.result())
            finally:
                # With the output of a worker that failed.
                print(logs[done].read_text(errors="replace"), end="", flush=True)
    return totals


def _logged(run_suite: Suite, name: str, wanted: Selection, log: Path) -> Totals:
    """Runs one suite with its output in a file."""
    with log.open("w") as output, redirect_stdout(output):
        return run_suite(name, wanted)
