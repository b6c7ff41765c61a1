"""Ten thousand files of a kibibyte in one directory, in both directions; ours also with --sync."""

from __future__ import annotations

import os
import random
import shutil

from clients import Rfcp
from figures import note
from rfio.service import Service

COUNT = 10_000
#: Those who are compared.
RIVALS = ("scp", "rsync")


def measure(service: Service, ours: Rfcp, others: list) -> None:
    """Everybody in turn, three times."""
    tree = service.export / "tree"
    tree.mkdir()
    for number in range(COUNT):
        (tree / str(number)).write_bytes(random.Random(number).randbytes(1024))
    ways = [("rfcp", ours, ("-r",)), ("rfcp-synced", ours, ("-r", "--sync")),
            *((tool.name, tool, ()) for tool in others if tool.name in RIVALS)]
    here, there = service.here / "tree", service.export / "up"
    for _ in range(3):
        for name, tool, options in ways:
            shutil.rmtree(here, ignore_errors=True)
            cost = tool.measure("tree", here, *options)
            assert len(os.listdir(here)) == COUNT
            note(f"{name}.download.files_per_s", COUNT / cost.seconds)
            shutil.rmtree(there, ignore_errors=True)
            cost = tool.store(here, "up", *options)
            assert len(os.listdir(there)) == COUNT
            note(f"{name}.upload.files_per_s", COUNT / cost.seconds)
