"""A forced path is the path taken, and without force it is the best one."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from harness import build_tree, c_program, counters
from harness.outcome import Outcome, failed, passed
from harness.place import Place

PROGRAM = Path(__file__).resolve().parent / "one_sided.c"
SECONDS = 30
# Of all bytes: a page that lies only partly in the region is not shared with peers, so a few bytes
# at its end go by the next path.
SHARE = 0.99
# None: no path is forced.
EXPECTED = {"mapped": "mapped", "cma": "cma", "ring": "ring", None: "mapped"}


def taken(path: Optional[str], place: Place) -> Outcome:
    """A megabyte of writes goes by the path."""
    program = c_program.compile_program(PROGRAM)
    ended = place.run("test", build_tree.run(program, "writes_while_asleep"), SECONDS, path)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    carried = {name.removesuffix("_path_bytes"): value
               for name, value in counters.total(place).items() if name.endswith("_path_bytes")}
    share = carried.get(EXPECTED[path], 0) / max(1, sum(carried.values()))
    words = ", ".join(f"{name} {value}" for name, value in sorted(carried.items()) if value)
    return passed() if share >= SHARE else failed(f"bytes by path: {words}")
