"""Registered memory: one-sided operations on a target that does nothing, memory of every kind, and
memory over the events of a process's life, memory that io_uring, direct I/O or a GPU uses at the
same time, and dma-bufs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import c_program
from harness.build_tree import PATHS
from harness.case import Case
from harness.requirement import COMPILER, VERBS_HEADERS

from . import paths

TITLE = "registered memory"
REQUIRES = [COMPILER, VERBS_HEADERS]

HERE = Path(__file__).resolve().parent
SECONDS = 60


def cases() -> list[Case]:
    """Each program, each test, each path; and that each path is the one taken."""
    chosen = [Case("the path taken", path or "default", partial(paths.taken, path))
              for path in (*PATHS, None)]
    # The program's own fstatfs is to be the library's, too.
    buffers = c_program.table(HERE / "dmabuf.c", PATHS, SECONDS, libraries=("-libverbs", "-rdynamic"))
    programs = ("one_sided.c", "kinds.c", "lifetime.c", "pinned.c", "gpu.c", "pinned_random.c")
    return chosen + buffers + [case for source in programs
                               for case in c_program.table(HERE / source, PATHS, SECONDS)]
