"""Features of one transport: XRC domains shared between processes, datagrams and multicast."""

from __future__ import annotations

from pathlib import Path

from harness import c_program
from harness.build_tree import PATHS
from harness.case import Case
from harness.requirement import COMPILER, VERBS_HEADERS

TITLE = "XRC between processes, datagrams, multicast"
REQUIRES = [COMPILER, VERBS_HEADERS]

HERE = Path(__file__).resolve().parent
SECONDS = 30


def cases() -> list[Case]:
    """Both programs, each test, each path."""
    return [case for source in ("xrc.c", "datagram.c")
            for case in c_program.table(HERE / source, PATHS, SECONDS)]
