"""A program whose listeners start late."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from harness import c_program


def starting_late(command: Sequence[object]) -> list[object]:
    """The command line, each of its listeners 1.5 s late. Raises `c_program.DoesNotCompile`."""
    library = c_program.compile_program(Path(__file__).with_name("late.c"), ("-shared", "-fPIC", "-ldl"))
    # The adapter is preloaded, too.
    return ["sh", "-c", 'LD_PRELOAD="$0 $LD_PRELOAD" exec "$@"', library, *command]
