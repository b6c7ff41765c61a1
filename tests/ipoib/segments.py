"""Long packets that the interface has to cut: messages of UDP (UDP_SEGMENT), and the data of TCP."""

from __future__ import annotations

import ipaddress
import subprocess

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .ends import HERE, SECONDS, WAIT, Ends, lacks, unbalanced

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


def decoded(mtu: int, place: Place) -> Outcome:
    """On the link, all segments of TCP have right lengths and checksums, and none is longer than the MTU."""
    length, tool = 700_001, 'python3 "$TOOL"'
    script = ("$VERBENA ipoib --address 10.0.0.1/24 --address fd00::1/64 -- "
              f"sh -c '{tool} receive 10.0.0.1; {tool} receive fd00::1' & "
              "$VERBENA ipoib --address 10.0.0.2/24 --address fd00::2/64 -- "
              f"sh -c 'ping -c 1 -w 20 10.0.0.1; {tool} send 10.0.0.1 {length}; {tool} send fd00::1 {length}'; wait")
    words = [str(VERBENA), "capture", "--out", "packets", "--", "sh", "-ec", script]
    ended = place.run("capture", words, SECONDS, VERBENA=str(VERBENA), TOOL=str(HERE / "transfer.py"))
    if not ended.succeeded or ended.output.count("the same bytes") != 2:
        return failed("other bytes arrived", ended.evidence())
    fields = ["ip.version", "tcp.hdr_len", "tcp.len", "tcp.checksum.status", "ip.checksum.status"]
    words = ["tshark", "-r", "packets", "-Y", "tcp", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
             "-T", "fields", "-E", "separator=;", *(word for field in fields for word in ("-e", field))]
    shown = subprocess.run(words, cwd=place.directory, capture_output=True, text=True, check=True).stdout
    data = {"4": 0, "6": 0}
    for line in shown.splitlines():
        # The version of the packet follows that of the route in front of it.
        versions, header, count, checksum, of_ip = line.split(";")
        version = versions[-1]
        if checksum != "1" or of_ip != ("1" if version == "4" else ""):
            return failed(f"a wrong packet: {line}", shown)
        if (20 if version == "4" else 40) + int(header) + int(count) > mtu:
            return failed(f"a segment of {count} bytes", shown)
        data[version] += int(count)
    if any(found < length for found in data.values()):
        return failed(f"{data} bytes of 2 x {length}", shown)
    return passed(f"{len(shown.splitlines())} segments")
