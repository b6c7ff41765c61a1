"""Causes that rules plant (`verbena run --fault`), in packets between two hosts: both sides see the consequences."""

from __future__ import annotations

import time

from harness.build_tree import DEVICE
from harness.outcome import Outcome, failed, passed
from harness.process import wait_for_any

from .hosts import PORT, Hosts

SECONDS = 30
# The IPv4 address in the GID table.
GID = 1
PINGPONG = ("ibv_rc_pingpong", "-g", GID, "-n", 300)
WRITE = ("ib_write_bw", "-F", "-x", GID, "-n", 300, "-s", 3000)
READ = ("ib_read_bw", "-F", "-x", GID, "-n", 300, "-s", 3000)
ATOMIC = ("ib_atomic_bw", "-F", "-x", GID, "-n", 300)
# Program, side with the rule, rule, status of the client's request, of the server's receive: none if the server waits.
RULES = [
    (PINGPONG, "client", "qp1.send 100: local-protection", 4, None),
    (PINGPONG, "client", "qp1.send 100: retry-exceeded", 12, None),
    (PINGPONG, "client", "qp1.send 100: remote-invalid-request", 9, 5),
    (PINGPONG, "server", "qp1.recv 100: local-length", 9, 1),
    (PINGPONG, "server", "qp1.recv 100: local-protection", 11, 4),
    (WRITE, "client", "qp1.write 100: remote-access", 10, None),
    (WRITE, "client", "qp1.write 100: remote-invalid-request", 9, None),
    (WRITE, "client", "qp1.write 100: retry-exceeded", 12, None),
    (READ, "client", "qp1.read 100: remote-access", 10, None),
    (READ, "client", "qp1.read 100: remote-invalid-request", 9, None),
    (ATOMIC, "client", "qp1.fetch-add 100: remote-access", 10, None),
    (ATOMIC, "client", "qp1.any 100: remote-invalid-request", 9, None),
]


def says(status: int, output: str) -> bool:
    """Whether a program has told of a status."""
    return f"({status})" in output or f"Failed status {status}:" in output


def follow(hosts: Hosts) -> Outcome:
    """Each rule ends the request with its status, and the responder's receive where it takes one."""
    first, second = hosts.members
    for program, side, rule, status, receive in RULES:
        command = [*program, "-d", DEVICE, "-p", PORT]
        options = {name: ["--fault", rule] if name == side else [] for name in ("server", "client")}
        server = hosts.start(first, "server", first.on_adapter("timeout", 10, *command, options=options["server"]))
        deadline = time.monotonic() + SECONDS
        while server.running and not first.listens() and time.monotonic() < deadline:
            wait_for_any([server], time.monotonic() + 0.005)
        client = hosts.run(second, "client", second.on_adapter(*command, first.address, options=options["client"]), SECONDS)
        # A server that sees no failure waits for the client, which has ended: it is not waited for.
        ended = server.finish(time.monotonic() + (SECONDS if receive is not None else 0))
        evidence = client.evidence() + ended.evidence()
        if client.status == 0 or not says(status, client.output):
            return failed(f"{rule}: the client does not see status {status}", evidence)
        if receive is not None and not says(receive, ended.output):
            return failed(f"{rule}: the server does not see status {receive}", evidence)
        if f'fault "{rule}" fired at' not in (client.output if side == "client" else ended.output):
            return failed(f"{rule}: it has not fired", evidence)
    return passed(f"{len(RULES)} rules")


# A ping-pong that checks every byte. Its server ends at once after the last request, so if the acknowledgement of that one is lost
# the client gets IBV_WC_RETRY_EXC_ERR, as on any adapter: its losses end before.
CHECKED = (*PINGPONG, "-c", "-s", 4000)
# Both sides wait for each other at the end, over TCP.
STREAM = ("ib_send_bw", "-F", "-x", GID, "-n", 300, "-s", 4000)
# Program, rule about links, the side with the rule, and the time in seconds that the client takes at least.
LINKS = [
    (CHECKED, "link.out 100..102: loss", "both", 0),
    (CHECKED, "link.in 100..102: corruption", "both", 0),
    (STREAM, "link: loss 1%", "both", 0),
    (STREAM, "link: corruption 1%", "both", 0),
    (CHECKED, "link.out p 0.02: reorder", "both", 0),
    (CHECKED, "link: duplicate 5%", "both", 0),
    (CHECKED, "link.out: delay 1 ms", "both", 0.5),
    (CHECKED, "link.out: delay 1 ms", "server", 0.3),
    (CHECKED, "link.out: rate 100 Mb/s", "client", 0.08),
    (CHECKED, "link after 100 requests: cut for 20 ms", "client", 0.02),
]


def links(hosts: Hosts) -> Outcome:
    """Each rule fires, and the programs end well, with every byte in its place; a link that is cut for good ends a request."""
    first, second = hosts.members
    for program, rule, sides, least in LINKS:
        command = [*program, "-d", DEVICE, "-p", PORT]
        options = {name: ["--fault", rule] if sides in (name, "both") else [] for name in ("server", "client")}
        server = hosts.start(first, "server", first.on_adapter("timeout", 20, *command, options=options["server"]))
        deadline = time.monotonic() + SECONDS
        while server.running and not first.listens() and time.monotonic() < deadline:
            wait_for_any([server], time.monotonic() + 0.005)
        begin = time.monotonic()
        client = hosts.run(second, "client", second.on_adapter(*command, first.address, options=options["client"]), SECONDS)
        took = time.monotonic() - begin
        ended = server.finish(time.monotonic() + SECONDS)
        evidence = client.evidence() + ended.evidence()
        if not client.succeeded or not ended.succeeded or took < least:
            return failed(f"{rule}: {client.describe()}, {ended.describe()}, in {took:.2f} s", evidence)
    command = [*PINGPONG, "-d", DEVICE, "-p", PORT]
    server = hosts.start(first, "server", first.on_adapter("timeout", 10, *command))
    deadline = time.monotonic() + SECONDS
    while server.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([server], time.monotonic() + 0.005)
    rule = "link after 100 requests: cut"
    client = hosts.run(second, "client", second.on_adapter(*command, first.address, options=["--fault", rule]), SECONDS)
    ended = server.finish(time.monotonic())
    if client.status == 0 or not says(12, client.output) or f'fault "{rule}" fired' not in client.output:
        return failed(f"{rule}: {client.describe()}", client.evidence() + ended.evidence())
    return passed(f"{len(LINKS) + 1} rules")
