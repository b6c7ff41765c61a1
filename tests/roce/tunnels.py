"""The TCP fallback: UDP does not pass, or addresses are translated on the way."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Callable, Optional, Sequence

from harness import counters
from harness.build_tree import DEVICE, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.process import Process, wait_for_any

from .connections import PROGRAMS, converse
from .hosts import Host, Hosts, PORT, ROCE, WIRE_PYTHON

SECONDS = 60
IPV4, IPV6 = 1, 2
# The source address of the second host's packets, where its addresses are translated.
OUTSIDE = "10.9.0.77"
SAID = "using TCP instead"
RECEIVED = "tunnel_packets_received"

GREETING = """
import socket, struct
def greeting(source, destination):
    mapped = lambda text: bytes(10) + b"\\xff\\xff" + socket.inet_aton(text)
    body = b"\\x01VrbT" + bytes([1, 0, 1, 0]) + struct.pack(">H", 4791) + bytes(8) + mapped(source) + mapped(destination)
    return struct.pack(">I", len(body)) + body
"""
# Says from another address that it is the one that the server talks to, and wants to be welcomed.
IMPOSTOR = GREETING + """
import sys
server, own, claimed = sys.argv[1:]
one = socket.create_connection((server, 4791), timeout=30, source_address=(own, 0))
one.sendall(greeting(claimed, server))
try:
    print("welcomed" if one.recv(4096) else "sent away")
except ConnectionError:
    print("sent away")
"""
# Connects some hundred times, says various things, and waits until every connection has been ended at the other side.
STRANGERS = GREETING + """
import random, sys
random.seed(1)
server = sys.argv[1]
said = [b"", b"\\xff" * 100, b"GET / HTTP/1.1\\r\\n\\r\\n", greeting("10.9.0.2", server)[:20], struct.pack(">I", 66000) + b"\\x02",
        greeting(server, server), greeting("10.9.0.2", "10.9.0.9"), greeting("224.0.0.1", server), greeting("0.0.0.0", server)]
said += [bytes(random.randrange(256) for _ in range(random.randrange(1, 200))) for _ in range(40)]
kept = []
for words in said * 6:
    one = socket.create_connection((server, 4791), timeout=30)
    try:
        one.sendall(words)
    except OSError:
        pass
    kept.append(one)
print("all are there", flush=True)
for one in kept:
    try:
        while one.recv(4096):
            pass
    except ConnectionError:
        pass
"""

EXCHANGES: list[tuple[list[object], int]] = [
    (["ibv_rc_pingpong", "-c"], IPV4), (["ibv_rc_pingpong", "-c"], IPV6), (["ibv_uc_pingpong", "-c"], IPV4),
    (["ibv_ud_pingpong", "-c"], IPV4), (["ibv_ud_pingpong", "-c"], IPV6), (["ibv_xsrq_pingpong"], IPV4),
    (["ibv_srq_pingpong", "-c"], IPV4)]
PERFTEST = [["ib_write_bw", "-s", 65536, "-n", 200], ["ib_read_bw", "-s", 65537, "-n", 100], ["ib_send_bw", "-n", 200],
            ["ib_atomic_bw", "-n", 200], ["ib_send_lat", "-n", 100], ["ib_write_lat", "-n", 100],
            ["ib_send_lat", "-c", "UD", "-n", 100], ["ib_write_bw", "-c", "UC", "-s", 4096, "-n", 200]]
CONNECTED = ("rping -V", "ucmatose -c 20", "udaddy", "rstream")


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """The programs' runs there; then a blocked direction, translation, several processes, and a host that refuses the
    TCP fallback."""
    row = "UDP does not pass"
    found = [Case(f"{row}: {command[0]}", "IPv4" if gid == IPV4 else "IPv6", on_hosts(partial(exchanged, both, command, gid)))
             for command, gid in EXCHANGES]
    for command in PERFTEST:
        name = " ".join(map(str, command[:3] if command[1] == "-c" else command[:1]))
        found.append(Case(f"{row}: {name}", "", on_hosts(partial(exchanged, both, [*command, "-F"], IPV4))))
    for name in CONNECTED:
        found.append(Case(f"{row}: {name}", "", on_hosts(partial(connected, both, name))))
    for number, column in ((0, "to the server"), (1, "to the client")):
        one_way = partial(shut, (number,))
        found.append(Case(f"{row}: ibv_rc_pingpong", column, on_hosts(partial(exchanged, one_way, ["ibv_rc_pingpong", "-c"], IPV4))))
        found.append(Case(f"{row}: ibv_ud_pingpong", column, on_hosts(partial(exchanged, one_way, ["ibv_ud_pingpong", "-c"], IPV4))))
    for command in (["ibv_rc_pingpong", "-c"], ["ibv_ud_pingpong", "-c"], ["ib_write_bw", "-F", "-s", 65536, "-n", 200]):
        found.append(Case(f"addresses are translated: {command[0]}", "", on_hosts(partial(exchanged, translated, command, IPV4))))
    found.append(Case("addresses are translated: rping -V", "", on_hosts(partial(connected, translated, "rping -V"))))
    return [*found,
            Case(f"{row}, and several processes of a host", "", on_hosts(several)),
            Case(f"{row}, and a peer that is killed", "", on_hosts(killed)),
            Case(f"{row}, and who wants no tunnels", "", on_hosts(unwanted)),
            Case(f"{row} for a while", "", on_hosts(reopened)),
            Case(f"{row}, and strangers at the TCP port", "", on_hosts(strangers)),
            Case("UDP passes, and a thief of addresses", "", on_hosts(impostor)),
            Case("UDP passes: no tunnel", "", on_hosts(needless))]


def shut(numbers: Sequence[int], hosts: Hosts) -> None:
    """Hosts drop RoCE's packets, as a firewall would."""
    for host in (hosts.members[number] for number in numbers):
        host.setup("nft", "add", "table", "inet", "wall")
        host.setup("nft", "add", "chain", "inet", "wall", "in", "{", "type", "filter", "hook", "input", "priority", "0", ";", "}")
        host.setup("nft", "add", "rule", "inet", "wall", "in", "udp", "dport", str(ROCE), "drop")


def both(hosts: Hosts) -> None:
    """Neither host accepts RoCE's packets."""
    shut((0, 1), hosts)


def reopen(hosts: Hosts) -> None:
    """Removes the firewall rules."""
    for host in hosts.members:
        host.setup("nft", "delete", "table", "inet", "wall")


def translated(hosts: Hosts) -> None:
    """The second host is behind a NAT: its packets come from another address, and unsolicited ones do not get in."""
    host = hosts.members[1]
    host.add_address(OUTSIDE)
    host.setup("nft", "add", "table", "ip", "translator")
    host.setup("nft", "add", "chain", "ip", "translator", "out", "{", "type", "nat", "hook", "postrouting", "priority",
               "100", ";", "}")
    host.setup("nft", "add", "rule", "ip", "translator", "out", "ip", "saddr", host.address, "snat", "to", OUTSIDE)
    host.setup("nft", "add", "chain", "ip", "translator", "in", "{", "type", "filter", "hook", "input", "priority", "0",
               ";", "}")
    host.setup("nft", "add", "rule", "ip", "translator", "in", "iifname", host.interface, "ct", "state", "new", "drop")


def serve(hosts: Hosts, command: Sequence[object], port: int = PORT, options: Sequence[str] = ()) -> Process:
    """A server on the first host that listens."""
    first = hosts.members[0]
    serving = hosts.start(first, "server", first.on_adapter(*command, "-p", port, options=options))
    deadline = time.monotonic() + SECONDS
    while serving.running and not first.listens(port) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    return serving


def gid_option(command: Sequence[object], gid: int) -> list[object]:
    """The index of the GID, as an option of perftest and the ping-pongs."""
    return ["-d", DEVICE, "-x" if str(command[0]).startswith("ib_") else "-g", gid]


def exchanged(wall: Callable[[Hosts], None], command: Sequence[object], gid: int, hosts: Hosts) -> Outcome:
    """Both sides return 0, and packets went over the TCP fallback."""
    wall(hosts)
    command = [*command, *gid_option(command, gid)]
    first, second = hosts.members
    deadline = time.monotonic() + SECONDS
    serving = serve(hosts, command)
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, first.address))
    return judged(hosts, [process.finish(deadline) for process in (asking, serving)])


def judged(hosts: Hosts, ended: Sequence) -> Outcome:
    """Success, by tunnels."""
    words = "\n".join(one.evidence() for one in ended)
    if wrong := [one for one in ended if not one.succeeded]:
        return failed(wrong[0].describe(), words)
    if counters.total(hosts.place)[RECEIVED] == 0:
        return failed("no packet came over the TCP fallback", words)
    return passed()


def connected(wall: Callable[[Hosts], None], name: str, hosts: Hosts) -> Outcome:
    """A connection is made there, too."""
    wall(hosts)
    done = converse(hosts, *([word.format(hosts.members[0].address) for word in command] for command in PROGRAMS[name]))
    if done.client is None:
        return failed("the server never listened", done.server.evidence())
    return judged(hosts, [done.client, done.server])


def several(hosts: Hosts) -> Outcome:
    """Each process of a host is found, whichever has the connection; `verbena info` names the host."""
    both(hosts)
    first, second = hosts.members
    command = ["ibv_rc_pingpong", "-c", "-n", 1000, "-d", DEVICE, "-g", IPV4]
    ports = range(PORT, PORT + 4)
    deadline = time.monotonic() + SECONDS
    serving = [serve(hosts, command, port) for port in ports]
    asking = [hosts.start(second, "client", second.on_adapter(*command, "-p", port, first.address)) for port in ports]
    wanted = f"reaches {first.address} over TCP"
    told = ""
    while wanted not in told and any(one.running for one in asking) and time.monotonic() < deadline:
        told = hosts.run(second, "info", second.inside([str(VERBENA), "info"]), SECONDS).output
    ended = [process.finish(deadline) for process in [*asking, *serving]]
    outcome = judged(hosts, ended)
    if outcome.evidence:
        return outcome
    if not all(SAID in one.output for one in ended):
        return failed(f"not all say: {SAID}", "\n".join(one.evidence() for one in ended))
    return passed() if wanted in told else failed(f"verbena info never says: {wanted}", told)


def killed(hosts: Hosts) -> Outcome:
    """The survivor ends by its retries."""
    both(hosts)
    second = hosts.members[1]
    # One that always has something to be acknowledged.
    command = ["ib_write_bw", "-F", "-s", 65536, "-n", 10_000_000, "-d", DEVICE, "-x", IPV4]
    serving = serve(hosts, command)
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, hosts.members[0].address))
    deadline = time.monotonic() + SECONDS
    while SAID not in asking.output() + serving.output() and time.monotonic() < deadline:
        wait_for_any([asking, serving], time.monotonic() + 0.01)
    if not asking.running or not serving.running:
        return failed("ended too soon", asking.finish(time.monotonic()).evidence())
    ended_server = serving.finish(time.monotonic())
    left = asking.finish(deadline)
    if "Failed status 12" not in left.output:
        return failed("the peer does not notice it", f"{left.evidence()}\n{ended_server.evidence()}")
    return passed()


def unwanted(hosts: Hosts) -> Outcome:
    """With the TCP fallback off nothing passes, and no process listens at the TCP port."""
    both(hosts)
    first, second = hosts.members
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-g", IPV4]
    serving = serve(hosts, command, options=["--tunnels", "off"])
    is_open = first.listens(ROCE)
    asked = hosts.run(second, "client", second.on_adapter(*command, "-p", PORT, first.address), SECONDS)
    served = serving.finish(time.monotonic())
    if is_open:
        return failed(f"TCP port {ROCE} is open", served.evidence())
    if asked.succeeded or "transport retry counter exceeded" not in asked.output:
        return failed("the client is not told", asked.evidence())
    return passed()


def lacks_tunnel(host: Host, told: str) -> Optional[str]:
    """Returns the failure if `verbena info` prints too much."""
    return f"{host.name} still says that it goes over TCP" if "over TCP" in told else None


def reopened(hosts: Hosts) -> Outcome:
    """When UDP passes again packets go by UDP again."""
    both(hosts)
    first, second = hosts.members
    command = ["ibv_rc_pingpong", "-n", 10_000_000, "-d", DEVICE, "-g", IPV4]
    serving = serve(hosts, command)
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, first.address))
    deadline = time.monotonic() + SECONDS
    while SAID not in asking.output() + serving.output() and time.monotonic() < deadline:
        wait_for_any([asking, serving], time.monotonic() + 0.01)
    reopen(hosts)
    wrong: Optional[str] = "never looked"
    while wrong and asking.running and time.monotonic() < deadline:
        told = [(host, hosts.run(host, "info", host.inside([str(VERBENA), "info"]), SECONDS).output)
                for host in hosts.members]
        wrong = next((words for host, text in told if (words := lacks_tunnel(host, text))), None)
        wait_for_any([asking], time.monotonic() + 0.1)
    running = asking.running and serving.running
    ended = [process.finish(time.monotonic()) for process in (asking, serving)]
    if wrong or not running:
        return failed(wrong or "a side has ended", "\n".join(one.evidence() for one in ended))
    return passed()


def strangers(hosts: Hosts) -> Outcome:
    """Many clients that connect and send nothing, nonsense, half of a greeting, or one for an address that is not
    theirs, beside regular traffic; each is disconnected, and none of its data is used."""
    both(hosts)
    first, second = hosts.members
    command = ["ibv_rc_pingpong", "-c", "-n", 1000, "-d", DEVICE, "-g", IPV4]
    serving = serve(hosts, command)
    attacking = hosts.start(second, "strangers", second.inside([WIRE_PYTHON, "-c", STRANGERS, first.address]))
    deadline = time.monotonic() + SECONDS
    while "all are there" not in attacking.output() and attacking.running and time.monotonic() < deadline:
        wait_for_any([attacking], time.monotonic() + 0.01)
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, first.address))
    ended = [process.finish(deadline) for process in (asking, serving)]
    attacked = attacking.finish(deadline)
    if not attacked.succeeded:
        return failed("an unknown client is not disconnected", attacked.evidence())
    believed = [nobody for nobody in ("224.0.0.1", "0.0.0.0") if f"UDP packets to {nobody} " in ended[1].output]
    if believed:
        return failed(f"the claimed address {believed[0]} is believed", ended[1].evidence())
    return judged(hosts, ended)


def impostor(hosts: Hosts) -> Outcome:
    """A host that claims an address which UDP reaches is not believed, and the two go on by UDP."""
    first, second = hosts.members
    second.add_address(OUTSIDE)
    command = ["ibv_rc_pingpong", "-n", 10_000_000, "-d", DEVICE, "-g", IPV4]
    serving = serve(hosts, command)
    asking = hosts.start(second, "client", second.on_adapter(*command, "-p", PORT, first.address))
    deadline = time.monotonic() + SECONDS
    told = ""
    while not re.search(r'"udp_path_operations": [1-9]\d\d', told) and asking.running and time.monotonic() < deadline:
        told = hosts.run(first, "info", first.inside([str(VERBENA), "info", "--json"]), SECONDS).output
    stealing = hosts.run(second, "thief", second.inside([WIRE_PYTHON, "-c", IMPOSTOR, first.address, OUTSIDE, second.address]),
                         SECONDS)
    told = hosts.run(first, "info", first.inside([str(VERBENA), "info"]), SECONDS).output
    running = asking.running and serving.running
    ended = [process.finish(time.monotonic()) for process in (asking, serving)]
    if "sent away" not in stealing.output or "over TCP" in told or not running:
        return failed("the impostor is believed", "\n".join([stealing.evidence(), told, *(one.evidence() for one in ended)]))
    return passed()


def needless(hosts: Hosts) -> Outcome:
    """Where UDP passes there is no message, and only packets before the probe's end go over the TCP fallback: a process
    that waits for a processor answers late, and is probed again."""
    for transport in ("rc", "ud"):
        command = [f"ibv_{transport}_pingpong", "-c", "-d", DEVICE, "-p", PORT, "-g", IPV4]
        done = hosts.exchange(command, [*command, hosts.members[0].address], SECONDS)
        outcome = done.outcome()
        if outcome.evidence:
            return outcome
        counted = counters.total(hosts.place)
        if SAID in done.evidence() or counted[RECEIVED] * 10 > counted["packets_received"]:
            return failed(f"{counted[RECEIVED]} packets came over the TCP fallback", done.evidence())
    return passed()
