#!/usr/bin/env python3
"""Run sessions of one user with the heaviest load: half of them request checksums of a huge sparse file, half read it, each with
as many concurrent requests as permitted. Arguments: port, sessions. Prints "ready" when all are working, and exits when its
standard input is closed."""

from __future__ import annotations

import struct
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True

from rfio.wire import ANONYMOUS, OPEN, READ, Closed, Peer, text  # noqa: E402

CHECKSUM = 21
READING = struct.pack(">II", 1, 0)
AHEAD = 8


def hog(port: int, number: int, at_work: threading.Semaphore) -> None:
    """Runs one session, until the server or the process ends."""
    peer = Peer(port, 600)
    assert peer.log_in(b"", None, ANONYMOUS) == 0
    status, body, _ = peer.ask(OPEN, text(b"/huge") + READING)
    assert status == 0
    handle, offset = body[:8], number << 30
    if number % 2:
        operation, request = CHECKSUM, handle + struct.pack(">QII", offset, 256 << 10, 1024)
    else:
        # No checksums and no window: the data are in the reply.
        operation, request = READ, handle + struct.pack(">QI", offset, 4 << 20) + b"\0\0"
    try:
        for _ in range(AHEAD):
            peer.send(operation, request)
        at_work.release()
        while True:
            status, _, _ = peer.receive()
            assert status == 0, status
            peer.send(operation, request)
    except (OSError, Closed):
        pass


def main() -> None:
    port, sessions = int(sys.argv[1]), int(sys.argv[2])
    at_work = threading.Semaphore(0)
    for number in range(sessions):
        threading.Thread(target=hog, args=(port, number, at_work), daemon=True).start()
    for _ in range(sessions):
        at_work.acquire()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
