#!/usr/bin/python3
"""Sends unsolicited packets to a RoCE port: noise, damaged packets, and whole ones with a right ICRC but impossible
numbers. The same each time for a seed, until it is killed.

  strangers.py SOURCE TARGET SEED
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import time
import zlib

ROCE = 4791
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2


def icrc(source: tuple[str, int], target: str, packet: bytes) -> bytes:
    """As annex A17 has it, for IPv4 with identification 0 and "do not fragment"."""
    length = 28 + len(packet) + 4
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0xff, length, 0, 0x4000, 0xff, 17, 0xffff,
                     socket.inet_aton(source[0]), socket.inet_aton(target))
    udp = struct.pack("!HHHH", source[1], ROCE, length - 20, 0xffff)
    masked = packet[:4] + b"\xff" + packet[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


def main() -> None:
    address, target, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    chance = random.Random(seed)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    sender.bind((address, 0))
    source = sender.getsockname()
    while True:
        # As many as leave the kernel room for regular packets while the receiving process waits for its processor.
        if chance.randrange(5) == 0:
            time.sleep(0.001)
        packet = bytearray(chance.randbytes(chance.randrange(0, 300)))
        if len(packet) >= 8:
            # Packets to other numbers are dropped earlier.
            packet[5:8] = chance.randrange(0x100, 0x110).to_bytes(3, "big")
        if chance.randrange(4) and len(packet) >= 12:
            # A base header that could be: version 0, the default partition.
            packet[1] &= 0x30
            packet[2:4] = b"\xff\xff"
        if chance.randrange(4) and len(packet) >= 12:
            packet += icrc(source, target, bytes(packet))
        try:
            sender.sendto(packet, (target, ROCE))
        except BlockingIOError:
            pass


if __name__ == "__main__":
    main()
