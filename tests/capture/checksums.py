#!/usr/bin/python3
"""Checks the ICRC of every packet of a capture without Verbena's code: by zlib's CRC over the fields of annex A17, and
for IPv4 by scapy's own computation where scapy is installed. Prints how many packets each method has checked.

  checksums.py FILE
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path
from typing import Iterator

try:
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP
except ImportError:
    BTH = None

INTERFACE, ENHANCED_PACKET = 1, 6
# How long the link's header is before that of IP, by link type: none, Ethernet.
LINK_HEADER = {101: 0, 1: 14}


def blocks(file: bytes) -> Iterator[tuple[int, bytes]]:
    """The blocks of a pcapng file, by both of their lengths."""
    at = 0
    while at < len(file):
        kind, length = struct.unpack_from("<II", file, at)
        (again,) = struct.unpack_from("<I", file, at + length - 4)
        if again != length or length % 4:
            raise ValueError(f"block at {at}: lengths {length} and {again}")
        yield kind, file[at + 8:at + length - 4]
        at += length


def frames(file: bytes) -> Iterator[bytes]:
    """Yields the packets of a pcapng file of one interface from the IP header on, without the link's padding."""
    start = 0
    for kind, body in blocks(file):
        if kind == INTERFACE:
            start = LINK_HEADER[struct.unpack_from("<H", body)[0]]
        elif kind == ENHANCED_PACKET:
            (length,) = struct.unpack_from("<I", body, 12)
            frame = body[20 + start:20 + length]
            yield frame[:40 + int.from_bytes(frame[4:6], "big") if frame[0] >> 4 == 6 else
                        int.from_bytes(frame[2:4], "big")]


def expected(frame: bytes) -> bytes:
    """Returns the expected ICRC: over all fields but those that change on the way, which count as ones."""
    masked = bytearray(frame[:-4])
    if frame[0] >> 4 == 6:
        masked[0], masked[1:4], masked[7] = masked[0] | 0x0f, b"\xff" * 3, 0xff
        udp = 40
    else:
        masked[1], masked[8], masked[10:12] = 0xff, 0xff, b"\xff\xff"
        udp = 20
    masked[udp + 6:udp + 8] = b"\xff\xff"
    masked[udp + 8 + 4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def main() -> int:
    count = scapy = 0
    for frame in frames(Path(sys.argv[1]).read_bytes()):
        if expected(frame) != frame[-4:]:
            print(f"packet {count + 1}: ICRC {frame[-4:].hex()}, and not {expected(frame).hex()}")
            return 1
        if BTH and frame[0] >> 4 == 4:
            packet = IP(frame)
            if packet[BTH].compute_icrc(frame) != frame[-4:]:
                print(f"packet {count + 1}: scapy says {packet[BTH].compute_icrc(frame).hex()}")
                return 1
            scapy += 1
        count += 1
    print(f"{count} packets right, {scapy} of them by scapy")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
