"""Two communicating processes: a server that listens on a TCP port of loopback and a client."""

from __future__ import annotations

import random
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from .outcome import Outcome, failed, passed
from .place import Place
from .process import Ended, Process, wait_for_any

# How long a side may take to notice that the other has failed. With perftest's defaults a lost peer is noticed after 7
# retries of 67 ms; the rest is for a machine that is busy.
GRACE_SECONDS = 30.0
# Below Linux' ephemeral ports (ip_local_port_range), so that the kernel assigns none of them to another process.
PORTS = range(20_000, 32_000)
LISTEN_STATE = "0A"


@dataclass(frozen=True)
class Exchange:
    """How both sides ended. `client` is None if the server never listened."""

    server: Ended
    client: Optional[Ended]

    def outcome(self, detail: str = "") -> Outcome:
        """Passed if both sides returned 0 in time."""
        sides = [("server", self.server)] + ([("client", self.client)] if self.client else [])
        wrong = [f"{name}: {side.describe()}" for name, side in sides if not side.succeeded]
        if self.client is None:
            wrong.append("the server never listened")
        return failed("; ".join(wrong), self.evidence()) if wrong else passed(detail)

    def evidence(self) -> str:
        """Both command lines with the ends of their outputs."""
        return "\n".join(side.evidence() for side in (self.server, self.client) if side)


def free_port() -> int:
    """Returns a loopback port that is free at this moment."""
    while True:
        port = random.choice(PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def listening(port: int) -> bool:
    """Whether a process listens on the port, without connecting to it."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == LISTEN_STATE and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def exchange(place: Place, server: list[str], client: list[str], port: int, seconds: float,
             path: Optional[str] = None, **more: str) -> Exchange:
    """Starts the server, the client as soon as the server listens, and waits for both."""
    deadline = time.monotonic() + seconds
    serving = place.start("server", server, path, **more)
    while serving.running and not listening(port) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    if not serving.running or not listening(port):
        return Exchange(serving.finish(time.monotonic()), None)
    asking = place.start("client", client, path, **more)
    return finish(serving, asking, deadline)


def finish(serving: Process, asking: Process, deadline: float) -> Exchange:
    """Waits for both; once one has ended, the other has the grace time left."""
    wait_for_any([serving, asking], deadline)
    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
    # The order of waiting does not matter: each ends at the latest at the deadline.
    client = asking.finish(deadline)
    return Exchange(serving.finish(deadline), client)
