"""24 concurrent readers of one file: rfcp over verbs and TCP and curl from nginx in turn; and one reader alone."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from figures import note
from sizes import Sizes

READERS = 24
#: The programs.
TOOLS = ("rfcp", "rfcp-tcp", "curl")
NOWHERE = Path("/dev/null")


def measure(tools: dict, sizes: Sizes) -> None:
    """Measures the total bytes per second of all readers."""
    for _ in range(sizes.turns):
        for tool in filter(tools.get, TOOLS):
            for count in (1, READERS):
                note(f"crowd.{tool}.{count}.bytes_per_s", count * sizes.large / together(tools[tool], count))


def together(tool, count: int) -> float:
    """Returns the seconds until the last reader has the whole file."""
    begun = time.monotonic()
    command, environment = tool.reading("hot", NOWHERE)
    readers = [subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
               for _ in range(count)]
    failed = [reader for reader in readers if reader.wait(600) != 0]
    assert not failed, f"{len(failed)} of {count} readers failed: {' '.join(command)}"
    return time.monotonic() - begun
