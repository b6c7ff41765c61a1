"""Many processes, many queue pairs, processes that die, are busy, or corrupt shared memory."""

from __future__ import annotations

import os
from pathlib import Path

from harness import c_program
from harness.build_tree import PATHS
from harness.case import Case
from harness.requirement import COMPILER, VERBS_HEADERS

TITLE = "many processes and queue pairs, kills, stops, busy peers, corrupted shared memory"
REQUIRES = [COMPILER, VERBS_HEADERS]

HERE = Path(__file__).resolve().parent
SECONDS = 300
# Seconds of the crowd's work, without its end.
CROWD_SECONDS = int(os.environ.get("CROWD_SECONDS") or 5)
# By night: in a round each has worked with each.
BY_NIGHT = [] if os.environ.get("CROWD_ROUNDS") else ["crowd: one kill a round"]


def cases() -> list[Case]:
    """Each program on each path."""
    return [case for source in ("mixed.c", "kill.c", "corrupt.c", "busy.c", "crowd.c")
            for case in c_program.table(HERE / source, PATHS, SECONDS + CROWD_SECONDS) if case.row not in BY_NIGHT]
