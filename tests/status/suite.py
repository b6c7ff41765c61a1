"""Exact completion statuses, on each path to the peer."""

from __future__ import annotations

from pathlib import Path

from harness import c_program
from harness.build_tree import PATHS
from harness.case import Case
from harness.requirement import COMPILER, VERBS_HEADERS

TITLE = "completion statuses of failed requests"
REQUIRES = [COMPILER, VERBS_HEADERS]

HERE = Path(__file__).resolve().parent
SECONDS = 30


def cases() -> list[Case]:
    """Both programs, each test, each path."""
    return [case for source in ("remote.c", "messages.c")
            for case in c_program.table(HERE / source, PATHS, SECONDS)]
