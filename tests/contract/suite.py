"""The contract of the verbs interface where programs that keep to it do not look.

Each program plays somebody who does what the specification or a man page speaks of and few do:
"""

from __future__ import annotations

from pathlib import Path

from harness import c_program
from harness.build_tree import PATHS
from harness.case import Case
from harness.requirement import COMPILER, VERBS_HEADERS

TITLE = "the contract where few look"
REQUIRES = [COMPILER, VERBS_HEADERS]

HERE = Path(__file__).resolve().parent
# A test that finds a hang is ended after this; none takes a tenth of it.
SECONDS = 120


def cases() -> list[Case]:
    """Each program, each test, each path."""
    return [case for source in sorted(HERE.glob("*.c"))
            for case in c_program.table(source, PATHS, SECONDS)]
