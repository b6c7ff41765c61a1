"""Multicast: `groups.py receive GROUP ADDRESS READY` joins a group, makes the file READY and prints each message up to
"end"; `groups.py send GROUP ADDRESS MESSAGE` sends a message ten times by the interface of the address, then "end"."""

import pathlib
import socket
import struct
import sys
import time

PORT = 5001
what, group, address, *rest = sys.argv[1:]
is_v6 = ":" in group
ib0 = socket.if_nametoindex("ib0")

with socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM) as end:
    if what == "receive":
        end.bind((group, PORT, 0, ib0) if is_v6 else (group, PORT))
        if is_v6:
            end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", ib0))
        else:
            end.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(address))
        pathlib.Path(rest[0]).touch()
        while (message := end.recv(2000)) != b"end":
            print(message.decode(), flush=True)
    else:
        if is_v6:
            end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, ib0)
        else:
            end.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        for message in [*rest * 10, "end"]:
            end.sendto(message.encode(), (group, PORT))
            time.sleep(0.05)
