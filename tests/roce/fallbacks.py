"""UDP port 4791 is in use by another process: a private port stands in for it, where adapters like this one find each
other."""

from __future__ import annotations

import time
from functools import partial
from typing import Callable, Optional, Sequence

from harness.build_tree import DEVICE, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.process import Process, wait_for_any

from .connections import PROGRAMS, converse
from .hosts import Host, Hosts, PORT, ROCE, WIRE_PYTHON

SECONDS = 60
# Indices of the GID table.
IPV4, IPV6 = 1, 2
PRIVATE = (24791, 24792, 24793)
# Takes ports without SO_REUSEPORT, as the kernel's RoCE and other users' programs do.
HOLDER = """
import socket, sys, time
held = []
for port in map(int, sys.argv[1:]):
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind(("::", port))
    held.append(one)
time.sleep(3600)
"""

# The connection manager's.
CONNECTED = ("rping -V", "rstream", "ucmatose -c 20", "udaddy")


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """The process that has the port, and the hosts where it runs."""
    row = "port 4791 is somebody else's"
    programs = [("ibv_rc_pingpong", ["-c"], IPV4), ("ibv_rc_pingpong", ["-c"], IPV6), ("ibv_uc_pingpong", ["-c"], IPV4),
                ("ibv_ud_pingpong", ["-c"], IPV4), ("ibv_xsrq_pingpong", [], IPV4)]
    found = [Case(f"{row}: {program}", "IPv4" if gid == IPV4 else "IPv6",
                  on_hosts(partial(exchanged, [program, *options], gid, (0,)))) for program, options, gid in programs]
    for column, held in (("at the client", (1,)), ("at both", (0, 1))):
        found.append(Case(f"{row}: ibv_rc_pingpong", column,
                          on_hosts(partial(exchanged, ["ibv_rc_pingpong", "-c"], IPV4, held))))
    columns = {"at the client": (1,), "at the server": (0,), "at both": (0, 1)}
    for name in CONNECTED:
        for column, held in columns.items():
            found.append(Case(f"{row}: {name}", column, on_hosts(partial(connected, *PROGRAMS[name], held))))
    found.append(Case(f"{row}: rping -V", "two of the server's", on_hosts(partial(connected, *PROGRAMS["rping -V"], (0,),
                                                                                  ports=(ROCE, PRIVATE[0])))))
    found.append(Case("two runtime directories of one host: rping -V", "", on_hosts(two_listeners)))
    found.append(Case("two runtime directories of one host, and nobody listens", "", on_hosts(no_listener)))
    return [*found,
            Case(f"{row}, and the first of the private ones", "", on_hosts(second_choice)),
            Case(f"{row}, and all the private ones", "", on_hosts(no_choice)),
            Case("two runtime directories of one host", "", on_hosts(two_directories))]


def hold(hosts: Hosts, host: Host, *ports: int) -> Process:
    """Starts a process on a host that takes ports."""
    holding = hosts.start(host, "holder", host.inside([WIRE_PYTHON, "-c", HOLDER, *map(str, ports)]))
    deadline = time.monotonic() + SECONDS
    while holding.running and not all(map(host.has_datagram_port, ports)) and time.monotonic() < deadline:
        wait_for_any([holding], time.monotonic() + 0.005)
    return holding


def serve(hosts: Hosts, host: Host, command: Sequence[object], port: int = PORT, runtime: Optional[str] = None) -> Process:
    """A server on a host that listens, with its statistics at its end."""
    inside = host.on_adapter(*command, "-p", port, options=["--stats"])
    serving = hosts.place.start("server", inside, VERBENA_RUNTIME_DIR=runtime or str(host.runtime))
    deadline = time.monotonic() + SECONDS
    while serving.running and not host.listens(port) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    return serving


def lacks(words: Sequence[str], text: str) -> Optional[Outcome]:
    """Returns the failure if the text lacks words."""
    missing = [word for word in words if word not in text]
    return failed(f"does not say: {', '.join(missing)}", text) if missing else None


def exchanged(command: Sequence[str], gid: int, held: Sequence[int], hosts: Hosts) -> Outcome:
    """Both sides return 0; `verbena info` and `--stats` of a side whose port is in use name the private one."""
    first, second = hosts.members
    for number in held:
        hold(hosts, hosts.members[number], ROCE)
    command = [*command, "-d", DEVICE, "-g", gid]
    deadline = time.monotonic() + SECONDS
    serving = serve(hosts, first, command)
    told = hosts.run(first, "info", first.inside([str(VERBENA), "info"]), SECONDS).output
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, first.address, options=["--stats"]))
    ended = [process.finish(deadline) for process in (asking, serving)]
    if wrong := [one for one in ended if not one.succeeded]:
        return failed(wrong[0].describe(), "\n".join(one.evidence() for one in ended))
    said = [f"cannot use UDP port {ROCE}", f"private port {PRIVATE[0]}", "private_port_packets"]
    for number, one in ((1, ended[0]), (0, ended[1])):
        if number in held and (wrong := lacks(said, one.output)):
            return wrong
        if number not in held and "private" in one.output:
            return failed("mentions a private port without need", one.evidence())
    where = f"at private UDP port {PRIVATE[0]}" if 0 in held else f"at UDP port {ROCE}"
    return lacks([where], told) or passed()


def connected(server: Sequence[str], client: Sequence[str], held: Sequence[int], hosts: Hosts,
              ports: Sequence[int] = (ROCE,)) -> Outcome:
    """Server and client return 0, and those whose port is in use print the private port."""
    for number in held:
        hold(hosts, hosts.members[number], *ports)
    done = converse(hosts, *([word.format(hosts.members[0].address) for word in command] for command in (server, client)))
    where = next(port for port in PRIVATE if port not in ports)
    for number, ended in enumerate((done.server, done.client)):
        if number in held and (wrong := lacks([f"private port {where}"], ended.output if ended else "")):
            return wrong
    return done.outcome()


def two_listeners(hosts: Hosts) -> Outcome:
    """With two runtime directories, the second's listener is found where the first's processes answer that there is
    none."""
    first, second = hosts.members
    other = hosts.place.runtime / "other"
    other.mkdir(mode=0o700)
    deadline = time.monotonic() + SECONDS
    waiting = serve(hosts, first, ["ibv_rc_pingpong", "-d", DEVICE, "-g", IPV4])
    server, client = ([word.format(first.address) for word in command] for command in PROGRAMS["rping -V"])
    serving = hosts.place.start("server", first.on_adapter(*server), VERBENA_RUNTIME_DIR=str(other))
    while serving.running and not any(other.glob("cm-*.socket")) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    asking = hosts.start(second, "client", second.on_adapter(*client))
    ended = [process.finish(deadline) for process in (asking, serving)]
    waiting.finish(time.monotonic())
    if wrong := [one for one in ended if not one.succeeded]:
        return failed(wrong[0].describe(), "\n".join(one.evidence() for one in ended))
    return lacks([f"private port {PRIVATE[0]}"], ended[1].output) or passed()


def no_listener(hosts: Hosts) -> Outcome:
    """A request for which neither the processes of the public port nor those of the private one have a listener is
    refused."""
    first, second = hosts.members
    other = hosts.place.runtime / "other"
    other.mkdir(mode=0o700)
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-g", IPV4]
    waiting = [serve(hosts, first, command), serve(hosts, first, command, PORT + 1, str(other))]
    _, client = PROGRAMS["rping -V"]
    asked = hosts.run(second, "client", second.on_adapter(*(word.format(first.address) for word in client)), SECONDS)
    # They are not needed any more, and end normally.
    for port in (PORT, PORT + 1):
        hosts.run(second, "client", second.on_adapter(*command, "-p", port, first.address), SECONDS)
    said = [process.finish(time.monotonic() + SECONDS) for process in waiting]
    if asked.succeeded or "RDMA_CM_EVENT_REJECTED" not in asked.output:
        return failed("the client gets no error", asked.evidence())
    return lacks([f"private port {PRIVATE[0]}"], said[1].output) or passed()


def second_choice(hosts: Hosts) -> Outcome:
    """The next private port is used, and found."""
    first, second = hosts.members
    hold(hosts, first, ROCE, PRIVATE[0])
    command = ["ibv_rc_pingpong", "-c", "-d", DEVICE, "-g", IPV4]
    deadline = time.monotonic() + SECONDS
    serving = serve(hosts, first, command)
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, first.address))
    ended = [process.finish(deadline) for process in (asking, serving)]
    if wrong := [one for one in ended if not one.succeeded]:
        return failed(wrong[0].describe(), "\n".join(one.evidence() for one in ended))
    return lacks([f"private port {PRIVATE[1]}"], ended[1].output) or passed()


def no_choice(hosts: Hosts) -> Outcome:
    """A message says that only this host can be reached."""
    first = hosts.members[0]
    hold(hosts, first, ROCE, *PRIVATE)
    ended = hosts.run(first, "devinfo", first.on_adapter("ibv_rc_pingpong", "-d", DEVICE, "-g", IPV4, "-p", PORT,
                                                         first.address), SECONDS)
    return lacks([f"cannot use UDP port {ROCE}", "only this host is reachable"], ended.output) or passed()


def two_directories(hosts: Hosts) -> Outcome:
    """Processes of the second directory find the port in use, and are reached all the same, beside those of the
    first."""
    first, second = hosts.members
    other = hosts.place.runtime / "other"
    other.mkdir(mode=0o700)
    command = ["ibv_rc_pingpong", "-c", "-d", DEVICE, "-g", IPV4]
    deadline = time.monotonic() + SECONDS
    serving = [serve(hosts, first, command), serve(hosts, first, command, PORT + 1, str(other))]
    asking = [hosts.start(second, "client", second.on_adapter(*command, "-p", port, first.address))
              for port in (PORT, PORT + 1)]
    ended = [process.finish(deadline) for process in [*asking, *serving]]
    if wrong := [one for one in ended if not one.succeeded]:
        return failed(wrong[0].describe(), "\n".join(one.evidence() for one in ended))
    return lacks(["another VERBENA_RUNTIME_DIR", f"private port {PRIVATE[0]}"], ended[3].output) or passed()
