"""Light requests of one user while 128 sessions of another user cause the heaviest load (`hogs.py`)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from figures import note
from harness.place import Place
from rfio.service import SECRET, USER, Service
from rfio.wire import Peer, text

SESSIONS = 128
REQUESTS = 1000
STATUS = 30


def measure(place: Place) -> None:
    """Measures the 99th percentile of a thousand requests, three times."""
    with Service(place, "tcp", "--anonymous", "read", limits=()) as service:
        with open(service.export / "huge", "wb") as file:
            file.truncate(1 << 40)
        command = [sys.executable, Path(__file__).with_name("hogs.py"), str(service.port), str(SESSIONS)]
        hogs = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert hogs.stdout.readline() == "ready\n", "the other user's sessions do not stand"
            light = Peer(service.port, 600)
            assert light.log_in(USER, SECRET) == 0
            for _ in range(3):
                took = sorted(one(light) for _ in range(REQUESTS))
                note("neighbours.median_s", took[REQUESTS // 2])
                note("neighbours.percentile_99_s", took[REQUESTS * 99 // 100])
            assert hogs.poll() is None, "the other user's sessions have ended"
        finally:
            hogs.stdin.close()
            hogs.wait()


def one(light: Peer) -> float:
    """Returns the seconds for a request and its reply."""
    begun = time.monotonic()
    status, _, _ = light.ask(STATUS, text(b"/huge"))
    assert status == 0, status
    return time.monotonic() - begun
