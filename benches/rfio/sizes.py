"""The amount of data: the full amount for the targets, or a small one to test the benchmark."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """Sizes of one run."""

    #: Bytes of the large file.
    large: int
    #: Number of files of 1 KiB and of 64 KiB on one host.
    small: tuple[int, int]
    #: The same over the distance.
    far: tuple[int, int]
    #: Repetitions of each program.
    turns: int
    #: Bytes of the file that is read concurrently with the readers.
    scan: int


FULL = Sizes(large=2 << 30, small=(10_000, 10_000), far=(2_000, 1_000), turns=5, scan=10 << 30)
QUICK = Sizes(large=256 << 20, small=(1_000, 500), far=(400, 200), turns=1, scan=1 << 30)
