"""The first copy after a start compared with later ones: the cost of touching the cache for the first time."""

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
    """Measures over verbs and TCP, with a separate daemon for each repetition."""
    for _ in range(sizes.turns):
        for fabric in ("verbs", "tcp"):
            with ExitStack() as stack:
                service = stack.enter_context(Service(place(f"first-{fabric}", stack), fabric, export=export, limits=()))
                client = Rfcp("rfcp", service)
                # The start-up time of the client itself, without the file.
                client.measure("empty", Path("/dev/null"))
                note(f"first.{fabric}.first_s", client.measure("hot", Path("/dev/null")).seconds)
                for _ in range(LATER):
                    note(f"first.{fabric}.later_s", client.measure("hot", Path("/dev/null")).seconds)
                note(f"first.{fabric}.server_memory", service.resident_mebibytes())
