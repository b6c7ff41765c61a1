#!/usr/bin/python3
"""Prints the traffic classes of the RoCE packets that a host sends and receives: a line for each class, when it is
first seen, without the two ECN bits. Management packets, to queue pair 1, are left out: their class is no program's.

  classes.py
"""

from __future__ import annotations

import socket

ROCE = 4791
ETHERTYPE_IP, UDP = 0x0800, 17
ALL_FRAMES = 3
CONGESTION = 3
UDP_HEADER, DESTINATION, MANAGEMENT = 8, slice(5, 8), b"\0\0\1"


def main() -> None:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
    print("listening", flush=True)
    seen = set()
    while True:
        frame = frames.recv(1 << 16)
        if int.from_bytes(frame[12:14], "big") != ETHERTYPE_IP or frame[23] != UDP:
            continue
        header = (frame[14] & 15) * 4
        kind = frame[15] & ~CONGESTION
        if frame[14 + header + UDP_HEADER:][DESTINATION] == MANAGEMENT:
            continue
        if int.from_bytes(frame[14 + header + 2:14 + header + 4], "big") == ROCE and kind not in seen:
            seen.add(kind)
            print(f"class {kind}", flush=True)


if __name__ == "__main__":
    main()
