"""The first copy after a start against later ones: what touching the cache for the first time costs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Callable

from clients import Rfcp
from figures import note
from harness.place import Place
from rfio.service import Service
from sizes import Sizes

LATER = 2


def measure(export: Path, place: Callable[[str, ExitStack], Place], sizes: Sizes) -> None:
    """By verbs and over TCP, a daemon of its own for each turn."""
    for _ in range(sizes.turns):
        for fabric in ("verbs", "tcp"):
            with ExitStack() as stack:
                service = stack.enter_context(Service(place(f"first-{fabric}", stack), fabric, export=export, limits=()))
                client = Rfcp("rfcp", service)
                # The client's own start, without the file.
                client.measure("empty", Path("/dev/null"))
                note(f"first.{fabric}.first_s", client.measure("hot", Path("/dev/null")).seconds)
                for _ in range(LATER):
                    note(f"first.{fabric}.later_s", client.measure("hot", Path("/dev/null")).seconds)
                note(f"first.{fabric}.server_memory", service.resident_mebibytes())
