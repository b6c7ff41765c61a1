"""Messages of UDP that the interface has to cut (UDP_SEGMENT)."""

from __future__ import annotations

import ipaddress

from harness.outcome import Outcome, passed
from harness.place import Place

from .ends import WAIT, Ends, lacks, unbalanced

# UDP_SEGMENT, linux/udp.h.
SEGMENT = 103


def cut(address: str, length: int, segment: int, options: tuple[str, ...], place: Place) -> Outcome:
    """A message of `length` bytes arrives completely, as datagrams of `segment` bytes in their order."""
    ends = Ends(place)
    family = f"AF_INET{'6' if ipaddress.ip_address(address).version == 6 else ''}"
    count = -(-length // segment)
    make = f"import pathlib, socket\nend = socket.socket(socket.{family}, socket.SOCK_DGRAM)\n"
    receive = (make + f"end.bind(('{address}', 5002))\npathlib.Path('ready').touch()\n"
               f"for _ in range({count}):\n    data = end.recv(4000)\n    print(data[0], len(data), len(set(data)))")
    send = (make + f"end.setsockopt(socket.IPPROTO_UDP, {SEGMENT}, {segment})\n"
            f"end.sendto(b''.join(bytes([number]) * {segment} for number in range({count}))[:{length}], ('{address}', 5002))")
    for name, text in (("receive.py", receive), ("send.py", send)):
        (place.directory / name).write_text(text)
    other = ends.start(1, f"python3 receive.py; {WAIT}", *options)
    ended = ends.run(2, f"until [ -e ready ]; do sleep 0.02; done; ping -c 1 -w 20 {address}; python3 send.py", *options)
    [server] = ends.stop(other)
    lines = "\n".join(f"{number} {min(segment, length - number * segment)} 1" for number in range(count))
    return unbalanced(ended) or lacks(server, [rf"^{lines}$"]) or passed(f"{count} datagrams")
