"""`verbena run --as SYSTEM --link roce` between two hosts: no request is faster than on the model, however fast the network is.

The adapter is made slower than the network, so that the model decides.
"""

from __future__ import annotations

import re
import time

from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, finish
from harness.process import wait_for_any
from roce.hosts import Hosts
from roce.suite import on_hosts

SECONDS = 120
SYSTEM = "connectx-qdr"
# Added to the latency, in us: more than a packet takes here.
ADDED = 1000
# How much earlier the data may arrive, in us: half of a round trip is taken for the way there.
EARLY = 100
# Of payload, and the share above it that rounding and the first messages may make.
RATE, FASTEST = 200e6, 1.05
MEGA = 1 << 20


def cases() -> list[Case]:
    """Latencies, bandwidth, data, verdicts."""
    return [
        Case("between hosts: latencies are not shorter than on the model", "", on_hosts(latencies)),
        Case("between hosts: a stream carries no more than on the model", "", on_hosts(stream)),
        Case("between hosts: programs check their data, packets are lost", "", on_hosts(data)),
        Case("between hosts: the report says that the network is slower", "", on_hosts(slower)),
    ]


def run(hosts: Hosts, command: list, options: tuple[str, ...], more: tuple[str, ...] = ()) -> Exchange:
    """A server on the first host and its client on the second."""
    first, second = hosts.members[:2]
    both = ("--as", SYSTEM, *options)
    # The table is computed before, so that neither waits for it.
    hosts.run(first, "table", first.on_adapter("true", options=both), SECONDS)
    deadline = time.monotonic() + SECONDS
    serving = hosts.start(first, "server", first.on_adapter(*command, options=both))
    while serving.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    asking = hosts.start(second, "client", second.on_adapter(*command, first.address, options=(*both, *more)))
    return finish(serving, asking, deadline)


def worked(done: Exchange) -> bool:
    """Whether both sides returned 0 in time."""
    return done.server.succeeded and done.client is not None and done.client.succeeded


def row(output: str, size: int) -> list[float]:
    """The figures in perftest's line of a size."""
    found = re.search(rf"^ *{size} +(\d.*)$", output, re.MULTILINE)
    return [float(word) for word in found[1].split()] if found else []


def latencies(hosts: Hosts) -> Outcome:
    """One way takes the latency that was added, a read twice that."""
    for command, least in (("ib_write_lat", ADDED), ("ib_send_lat", ADDED), ("ib_read_lat", 2 * ADDED)):
        done = run(hosts, [command, "-F", "-x", 1, "-s", 8, "-n", 300], ("--latency", f"+{ADDED}us"))
        if not worked(done):
            return failed(command, done.evidence())
        shortest, usual = row(done.client.output, 8)[1], row(done.client.output, 8)[3]
        if shortest < least - EARLY or usual < least - EARLY / 10:
            return failed(f"{command}: {shortest} us, usually {usual}, on the model more than {least}", done.evidence())
        found = re.search(rf"verbena: as {SYSTEM}: (\d+) requests to other hosts; ", done.client.output)
        if not found or int(found[1]) < 300:
            return failed(f"{command}: no report", done.evidence())
    return passed("write, send, read")


def stream(hosts: Hosts) -> Outcome:
    """Writes, sends and reads at the rate of the adapter."""
    for command in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
        done = run(hosts, [command, "-F", "-x", 1, "-s", 65536, "-n", 1500], ("--rate", f"{8 * RATE / 1e9}Gb/s"))
        if not worked(done):
            return failed(command, done.evidence())
        rate = row(done.client.output, 65536)[2]
        if rate > FASTEST * RATE / MEGA:
            return failed(f"{command}: {rate} MiB/s, on the model {RATE / MEGA:.0f}", done.evidence())
    return passed(f"at most {RATE / MEGA:.0f} MiB/s")


def data(hosts: Hosts) -> Outcome:
    """All transports; every byte is compared. Then rules lose packets."""
    slow = ("--latency", "+20us", "--rate", "8Gb/s")
    for command in (["ibv_rc_pingpong", "-g", 1, "-c", "-n", 300], ["ibv_rc_pingpong", "-g", 1, "-c", "-n", 100, "-e"],
                    ["ibv_uc_pingpong", "-g", 1, "-c", "-n", 200], ["ibv_ud_pingpong", "-g", 1, "-c", "-n", 200, "-s", 1000],
                    ["ibv_srq_pingpong", "-g", 1, "-c", "-n", 200], ["ibv_rc_pingpong", "-g", 1, "-c", "-s", 1000003, "-n", 30],
                    ["ib_atomic_bw", "-x", 1, "-n", 300], ["ib_send_bw", "-x", 1, "-n", 500, "-q", 4]):
        done = run(hosts, command, slow)
        if not worked(done) or "requests to other hosts" not in done.client.output:
            return failed(" ".join(map(str, command)), done.evidence())
    done = run(hosts, ["ibv_rc_pingpong", "-g", 1, "-c", "-n", 300], slow, ("--fault", "link.out every 50: loss"))
    if not worked(done) or "fired" not in done.client.output:
        return failed("losses", done.evidence())
    return passed("8 programs, losses")


def slower(hosts: Hosts) -> Outcome:
    """A round trip of two processes over a cable takes longer than on ConnectX."""
    done = run(hosts, ["ib_send_lat", "-F", "-x", 1, "-s", 8, "-n", 300], ())
    if not worked(done) or "the network is slower than the adapter" not in done.client.output:
        return failed("no verdict", done.evidence())
    if "posted no requests" in done.client.output:
        return failed("two verdicts", done.evidence())
    return passed()
