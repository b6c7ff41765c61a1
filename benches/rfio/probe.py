#!/usr/bin/env python3
"""Measures a link: the round trip of a small datagram and the rate of one TCP stream.

probe.py serve ADDRESS PORT: echoes datagrams and discards TCP data; prints "serving".
probe.py measure ADDRESS PORT BYTES: prints the median round trip in seconds and the rate in bytes per second, over the second
half of the bytes, when the stream has reached its rate.
"""

from __future__ import annotations

import socket
import statistics
import sys
import threading
import time

ROUND_TRIPS = 21


def serve(address: str, port: int) -> None:
    """Serves until it is ended."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((address, port))
    streams = socket.create_server((address, port))
    threading.Thread(target=drop, args=(streams,), daemon=True).start()
    print("serving", flush=True)
    while True:
        datagrams.sendto(*datagrams.recvfrom(64))


def drop(streams: socket.socket) -> None:
    """Accepts connections one at a time; sends each peer a byte after each half of the data."""
    while True:
        stream, _ = streams.accept()
        size = int.from_bytes(stream.recv(8, socket.MSG_WAITALL), "big")
        for part in (size // 2, size - size // 2):
            while part > 0:
                part -= len(stream.recv(min(part, 1 << 20))) or part
            stream.sendall(b".")
        stream.close()


def measure(address: str, port: int, size: int) -> None:
    """Prints both figures."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.settimeout(5)
    times = []
    for _ in range(ROUND_TRIPS):
        begun = time.monotonic()
        datagrams.sendto(b"?", (address, port))
        datagrams.recv(64)
        times.append(time.monotonic() - begun)
    stream = socket.create_connection((address, port), 5)
    stream.settimeout(60)
    stream.sendall(size.to_bytes(8, "big"))
    sender = threading.Thread(target=stream.sendall, args=(bytes(size),))
    sender.start()
    stream.recv(1)
    half = time.monotonic()
    stream.recv(1)
    took = time.monotonic() - half
    sender.join()
    print(statistics.median(times), (size - size // 2) / took)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
