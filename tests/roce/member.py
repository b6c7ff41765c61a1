#!/usr/bin/python3
"""A member of a multicast group that is a third-party program: takes mckey's datagrams, checks all the fields that it
can know, and sends the group as many of its own.

  member.py ADDRESS GROUP COUNT KEY LENGTH
"""

from __future__ import annotations

import socket
import struct
import sys

from strangers import IP_MTU_DISCOVER, IP_PMTUDISC_DO, ROCE, icrc

# mckey sends its queue pair's number as immediate data.
UD_SEND_ONLY_WITH_IMMEDIATE, EVERY_MEMBER, NUMBER = 0x65, 0xFFFFFF, 77
HEADERS = 12 + 8 + 4
SECONDS = 30


def opened(address: str, group: str) -> socket.socket:
    """The member."""
    member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    member.bind((group, ROCE))
    both = socket.inet_aton(group) + socket.inet_aton(address)
    member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, both)
    member.settimeout(SECONDS)
    return member


def check(packet: bytes, source: tuple[str, int], group: str, key: int, length: int) -> None:
    """A datagram to all members."""
    opcode, flags, partition, destination, _psn = struct.unpack("!BBHII", packet[:12])
    queue_key, origin, immediate = struct.unpack("!III", packet[12:HEADERS])
    pad = flags >> 4 & 3
    facts = (opcode, partition, destination & 0xFFFFFF, queue_key, len(packet) - HEADERS - pad - 4)
    assert facts == (UD_SEND_ONLY_WITH_IMMEDIATE, 0xFFFF, EVERY_MEMBER, key, length), facts
    assert 1 < origin == immediate < EVERY_MEMBER, (origin, immediate)
    assert packet[-4:] == icrc(source, group, packet[:-4]), packet.hex()


def main() -> None:
    address, group = sys.argv[1:3]
    count, key, length = (int(word, 0) for word in sys.argv[3:])
    member = opened(address, group)
    print("joined", flush=True)
    for _ in range(count):
        packet, source = member.recvfrom(4096)
        check(packet, source, group, key, length)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    sender.bind((address, 0))
    for number in range(count):
        headers = struct.pack("!BBHIIIII", UD_SEND_ONLY_WITH_IMMEDIATE, (-length % 4) << 4, 0xFFFF, EVERY_MEMBER,
                              number, key, NUMBER, NUMBER)
        packet = headers + bytes(length + -length % 4)
        sender.sendto(packet + icrc(sender.getsockname(), group, packet), (group, ROCE))
    print(f"{count} heard and {count} said")


if __name__ == "__main__":
    main()
