"""Subscribes to all reports of the subnet manager by libibumad, and prints each as a line, until standard input ends.

    python3 subscriber.py [FILE]

Then it unsubscribes, and prints the status of both requests. FILE is made once it is subscribed.
"""

from __future__ import annotations

import ctypes
import select
import struct
import sys
from pathlib import Path

UMAD = ctypes.CDLL("libibumad.so.3", use_errno=True)
UMAD.umad_get_mad.restype = ctypes.c_void_p
ADMINISTRATION, VERSION, SET, REPORT, REPORT_RESPONSE, RESPONSE = 3, 2, 2, 6, 0x86, 0x81
INFORM_INFO = 3
# Headers of administration, then the attribute; the header that umad puts in front.
DATA, MAD, HEADER, HEADER_OF_RMPP = 56, 256, 64, 36
METHODS = 16
GUIDS = range(64, 68)
QUEUE_PAIR_KEY = 0x80010000
# All sources: LIDs from 0xffff.
ALL, ANY_PRODUCER = 0xffff, 0xffffff
MILLISECONDS = 2000


def inform_info(add: bool) -> bytes:
    """InformInfo of all generic events."""
    return struct.pack(">16xHHHBBHHII", ALL, 0, 0, 1, add, ALL, ALL, 0 if add else 1 << 8, ANY_PRODUCER)


class Subscriber:
    """An agent at the port of this node."""

    def __init__(self) -> None:
        UMAD.umad_init()
        self.port = UMAD.umad_open_port(None, 0)
        mask = (ctypes.c_long * (METHODS // ctypes.sizeof(ctypes.c_long)))(1 << REPORT)
        self.agent = UMAD.umad_register(self.port, ADMINISTRATION, VERSION, 0, mask)
        if self.port < 0 or self.agent < 0:
            sys.exit("cannot open the port or register")
        self.manager = int(Path("/sys/class/infiniband/verbena0/ports/1/sm_lid").read_text(), 0)

    def send(self, lid: int, mad: bytes, milliseconds: int) -> None:
        """Sends a datagram."""
        message = ctypes.create_string_buffer(HEADER + MAD)
        UMAD.umad_set_addr(message, lid, 1, 0, ctypes.c_uint32(QUEUE_PAIR_KEY))
        ctypes.memmove(UMAD.umad_get_mad(message), mad, MAD)
        if UMAD.umad_send(self.port, self.agent, message, MAD, milliseconds, 3) < 0:
            sys.exit("cannot send")

    def receive(self) -> tuple[int, bytes]:
        """The status and the datagram of the next message."""
        message = ctypes.create_string_buffer(HEADER + MAD)
        length = ctypes.c_int(MAD)
        if UMAD.umad_recv(self.port, message, ctypes.byref(length), -1) < 0:
            sys.exit("cannot receive")
        return UMAD.umad_status(message), ctypes.string_at(UMAD.umad_get_mad(message), MAD)

    def ask(self, add: bool) -> int:
        """Subscribes or unsubscribes, and returns the status; reports that come meanwhile are printed."""
        mask = 0b1111_1111_1111
        head = struct.pack(">BBBBHHQHHI", 1, ADMINISTRATION, VERSION, SET, 0, 0, 1 + add, INFORM_INFO, 0, 0)
        mad = head.ljust(48, b"\0") + struct.pack(">Q", mask) + inform_info(add)
        self.send(self.manager, mad.ljust(MAD, b"\0"), MILLISECONDS)
        while True:
            status, answer = self.receive()
            if status or answer[3] == RESPONSE:
                return status or struct.unpack_from(">H", answer, 4)[0]
            self.answer(answer)

    def answer(self, mad: bytes) -> None:
        """Prints a report, and confirms it."""
        if mad[3] != REPORT:
            sys.exit(f"method {mad[3]:#x}")
        notice = mad[DATA:]
        trap, issuer = struct.unpack_from(">HH", notice, 4)
        subject = notice[16:32] if trap in GUIDS else notice[10:12] if trap == 128 else notice[12:14]
        print("report", trap, "issuer", issuer, "subject", subject.hex(), "from", notice[64:80].hex(), flush=True)
        self.send(self.manager, mad[:3] + bytes([REPORT_RESPONSE]) + mad[4:], 0)


def main() -> None:
    """Follows the reports."""
    subscriber = Subscriber()
    print("subscribed", subscriber.ask(True), flush=True)
    for file in sys.argv[1:]:
        Path(file).touch()
    while True:
        ready = select.select([sys.stdin, subscriber.port], [], [])[0]
        # Reports that came before the end first.
        if subscriber.port in ready:
            subscriber.answer(subscriber.receive()[1])
        elif not sys.stdin.read(1):
            break
    print("unsubscribed", subscriber.ask(False), "again", subscriber.ask(False), flush=True)


main()
