#!/usr/bin/python3
"""A cable with planned faults, the same each time: carries Ethernet frames between a TAP of this network namespace and
one of another process's, and loses, doubles, damages, delays and marks RoCE packets.

    wire.py NAME PID NAME SEED LOST DOUBLED DAMAGED DELAYED MARKED BEHIND

Shares are per mille, each drawn for itself, so that one packet may meet several:

  LOST     it never arrives, with any other draws.
  DOUBLED  it arrives twice; if it is delayed too, both come late, one after the other.
  DAMAGED  one bit of the UDP payload (transport headers, data, padding or ICRC) is flipped, in both copies
           of a doubled packet. Ethernet, IP and UDP headers stay whole, so that it comes to its adapter's port.
  DELAYED  1 to BEHIND later RoCE packets of the same direction pass it, fewer if the cable falls silent.
  MARKED   it says that it met congestion (RFC 3168), if its sender allows that.

Other frames pass as they are.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import select
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
LONGEST = 1 << 16
ROCE = 4791
IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"
# The offset of the UDP header in an Ethernet frame, after an IP header without options.
UDP_AT = {IPV4: 34, IPV6: 54}
UDP_HEADER = 8
# How long a delayed frame waits if nothing follows it, in seconds.
IDLE_SECONDS = 0.005


def tap(name: str) -> int:
    """A new TAP of the namespace that we are in."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def enter(pid: int) -> None:
    """Goes to the network namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def is_roce(frame: bytes) -> bool:
    """Whether it is UDP to port 4791, over IPv4 or IPv6 without options."""
    kind = frame[12:14]
    if kind == IPV4:
        return frame[23] == 17 and frame[36:38] == ROCE.to_bytes(2, "big")
    if kind == IPV6:
        return frame[20] == 17 and frame[56:58] == ROCE.to_bytes(2, "big")
    return False


def marked_frame(frame: bytes) -> bytes:
    """The frame as a congested switch passes it on (RFC 3168), if it says that it may be marked."""
    mutable = bytearray(frame)
    if frame[12:14] == IPV6:
        if frame[15] & 0x30:
            mutable[15] |= 0x30
    elif frame[15] & 3:
        mutable[15] |= 3
        mutable[24:26] = b"\0\0"
        total = sum(struct.unpack(">10H", mutable[14:34]))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        mutable[24:26] = (total ^ 0xffff).to_bytes(2, "big")
    return bytes(mutable)


def udp_payload(frame: bytes) -> range:
    """Returns the position of a RoCE frame's payload, without Ethernet's padding."""
    udp = UDP_AT[frame[12:14]]
    length = int.from_bytes(frame[udp + 4:udp + 6], "big")
    return range(udp + UDP_HEADER, udp + length)


class Direction:
    """One direction of the cable."""

    def __init__(self, source: int, target: int, seed: int, shares: list[int], behind: int):
        self.source, self.target = source, target
        self.chance = random.Random(seed)
        self.lost, self.doubled, self.damaged, self.delayed, self.marked = shares
        self.behind = behind
        # Frames, and how many are still to pass them.
        self.waiting: list[list] = []

    def happens(self, permille: int) -> bool:
        """Whether it is the turn of a fault."""
        return self.chance.randrange(1000) < permille

    def put(self, frame: bytes) -> None:
        """Delivers. A frame that the TAP has no space for is lost."""
        try:
            os.write(self.target, frame)
        except OSError:
            pass

    def carry(self, frame: bytes) -> None:
        """Takes a frame in."""
        if not is_roce(frame):
            self.put(frame)
            return
        fates = [self.happens(share)
                 for share in (self.lost, self.doubled, self.damaged, self.delayed, self.marked)]
        lost, doubled, damaged, delayed, marked = fates
        if marked:
            frame = marked_frame(frame)
        if damaged:
            at = self.chance.choice(udp_payload(frame))
            frame = frame[:at] + bytes([frame[at] ^ 1 << self.chance.randrange(8)]) + frame[at + 1:]
        copies = 0 if lost else 2 if doubled else 1
        passing = self.chance.randrange(1, self.behind + 1) if delayed else 0
        for _ in range(copies):
            if delayed:
                self.waiting.append([frame, passing])
            else:
                self.put(frame)
        for one in self.waiting:
            one[1] -= 1
        for one in [one for one in self.waiting if one[1] < 0]:
            self.waiting.remove(one)
            self.put(one[0])

    def read(self) -> None:
        """Takes in the available frames."""
        for _ in range(64):
            try:
                self.carry(os.read(self.source, LONGEST))
            except BlockingIOError:
                return
            except OSError:
                # The interface is not up yet, or not any more.
                return

    def release(self) -> None:
        """Nothing follows: delayed frames are delivered."""
        for frame, _ in self.waiting:
            self.put(frame)
        self.waiting = []


def main() -> None:
    near_name, pid, far_name, seed, *shares, behind = sys.argv[1:]
    near = tap(near_name)
    enter(int(pid))
    far = tap(far_name)
    print("carrying", flush=True)
    shares = [int(share) for share in shares]
    ways = [Direction(near, far, int(seed), shares, int(behind)),
            Direction(far, near, int(seed) + 1, shares, int(behind))]
    while True:
        readable, _, _ = select.select([near, far], [], [], IDLE_SECONDS)
        for way in ways:
            if way.source in readable:
                way.read()
            elif not readable:
                way.release()


if __name__ == "__main__":
    main()
