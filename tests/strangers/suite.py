"""Third-party RDMA programs as their registries have them: PyPI, Cargo's registry and Debian. Each must say by itself
that it succeeded, over InfiniBand on one host and over RoCE between two. By night only: `setup/strangers` downloads the
programs."""

from __future__ import annotations

from functools import partial

from harness.case import Case
from harness.requirement import Tool

from . import crates, debian, mpi, storage, wheels

TITLE = "third-party programs, unchanged"
REQUIRES = [Tool("ip", "iproute2"), Tool("nsenter", "util-linux")]
PROGRAMS = [*wheels.PROGRAMS, *mpi.PROGRAMS, *crates.PROGRAMS, *debian.PROGRAMS, *storage.PROGRAMS]


def cases() -> list[Case]:
    """Each program over each link that it is for."""
    return [Case(program.name, link, partial(program.on, link)) for program in PROGRAMS for link in program.links]
