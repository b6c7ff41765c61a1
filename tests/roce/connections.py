"""Connections between two hosts: the distribution's librdmacm and programs on it, unchanged, by management datagrams on
queue pair 1."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Callable, Optional, Sequence

from harness import c_program, counters, tiers
from harness.build_tree import DEVICE
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, finish
from harness.process import Process, wait_for_any

from rdmacm.late import starting_late

from .hosts import Host, Hosts, Wire

SECONDS = 60
WHOLE = tiers.by_night()

# Server and client of each program; `{}` is the server's address.
PROGRAMS: dict[str, tuple[list[str], list[str]]] = {
    "rping -V": (["rping", "-s", "-a", "{}", "-C", "20", "-v", "-V"],
                 ["rping", "-c", "-a", "{}", "-C", "20", "-v", "-V"]),
    "udaddy": (["udaddy", "-b", "{}"], ["udaddy", "-s", "{}"]),
    "ucmatose -c 20": (["ucmatose", "-c", "20", "-b", "{}"], ["ucmatose", "-c", "20", "-s", "{}"]),
    "rstream": (["rstream", "-S", "4096", "-b", "{}"], ["rstream", "-S", "4096", "-s", "{}"]),
    "riostream": (["riostream", "-S", "4096", "-b", "{}"], ["riostream", "-S", "4096", "-s", "{}"]),
}
MORE_PROGRAMS: dict[str, tuple[list[str], list[str]]] = {
    "rping -q": (["rping", "-s", "-a", "{}", "-C", "20", "-q"], ["rping", "-c", "-a", "{}", "-C", "20", "-q"]),
    "rping -S 4096": (["rping", "-s", "-a", "{}", "-C", "20", "-S", "4096"],
                      ["rping", "-c", "-a", "{}", "-C", "20", "-S", "4096", "-V"]),
    "ucmatose -P ib": (["ucmatose", "-P", "ib", "-b", "{}"], ["ucmatose", "-P", "ib", "-s", "{}"]),
    "ucmatose -C 50 -S 3000": (["ucmatose", "-C", "50", "-S", "3000", "-b", "{}"],
                               ["ucmatose", "-C", "50", "-S", "3000", "-s", "{}"]),
    "udaddy -p 2 (IPoIB)": (["udaddy", "-p", "0x0002", "-b", "{}"], ["udaddy", "-p", "0x0002", "-s", "{}"]),
    "rstream -T n": (["rstream", "-S", "4096", "-T", "n", "-b", "{}"],
                     ["rstream", "-S", "4096", "-T", "n", "-s", "{}"]),
    "rstream -T r": (["rstream", "-S", "4096", "-T", "r", "-b", "{}"],
                     ["rstream", "-S", "4096", "-T", "r", "-s", "{}"]),
    "rstream -k 2": (["rstream", "-S", "4096", "-k", "2", "-b", "{}"],
                     ["rstream", "-S", "4096", "-k", "2", "-s", "{}"]),
    "riostream -T b": (["riostream", "-S", "4096", "-T", "b", "-b", "{}"],
                       ["riostream", "-S", "4096", "-T", "b", "-s", "{}"]),
    "riostream -T v": (["riostream", "-S", "4096", "-T", "v", "-b", "{}"],
                       ["riostream", "-S", "4096", "-T", "v", "-s", "{}"]),
    "ucmatose -m (migrates)": (["ucmatose", "-m", "-b", "{}"], ["ucmatose", "-m", "-s", "{}"]),
    "ucmatose -c 200": (["ucmatose", "-c", "200", "-b", "{}"], ["ucmatose", "-c", "200", "-s", "{}"]),
    "udaddy -c 50": (["udaddy", "-c", "50", "-b", "{}"], ["udaddy", "-c", "50", "-s", "{}"]),
    "rstream -T b": (["rstream", "-S", "65536", "-T", "b", "-b", "{}"],
                     ["rstream", "-S", "65536", "-T", "b", "-s", "{}"]),
}
PERFTEST = [["ib_send_bw"], ["ib_write_bw", "-q", "4"], ["ib_send_lat", "-c", "UD"]]
MORE_PERFTEST = [["ib_read_bw"], ["ib_write_lat"], ["ib_read_lat"], ["ib_send_lat"], ["ib_send_bw", "-c", "UD"],
                 ["ib_atomic_bw"]]
# Datagrams of a program are lost for good, so these are those that connect.
LOSSY = ["rping -V", "ucmatose -c 20"] + (["rstream", "riostream"] if WHOLE else [])
LOSS = "5 % lost"
SEEDS = range(1, 11) if WHOLE else range(1, 2)

# Processes that remain on the host of a killed process, where it listens: one with a connection manager, one without.
LEFT: dict[str, tuple[list[str], Callable[[Host], bool]]] = {
    "rping": (["rping", "-s", "-a", "{}"], lambda host: listens(host)),
    "ibv_rc_pingpong": (["ibv_rc_pingpong", "-g", "1"], Host.listens),
}

# Tests of tests/rdmacm that are others over this link.
NEWEST = ("events_of_the_program_come_in_order", "no_service_is_looked_for_over_ethernet")

# Programs whose server never ends.
ENDLESS: dict[str, tuple[list[str], list[str]]] = {
    "cmtime": (["cmtime", "-b", "{}"], ["cmtime", "-c", "20", "-s", "{}"]),
    "rping -P": (["rping", "-s", "-P", "-a", "{}"], ["rping", "-c", "-a", "{}", "-C", "20", "-V"]),
    "rcopy": (["rcopy"], ["rcopy", "/proc/self/exe", "{}:copied"]),
}
# These listen at all IPv4 addresses of their host.
IPV4_ONLY: dict[str, tuple[list[str], list[str]]] = {
    "rdma_client": (["rdma_server"], ["rdma_client", "-s", "{}"]),
    "rdma_xclient -c r": (["rdma_xserver", "-c", "r"], ["rdma_xclient", "-c", "r", "-s", "{}"]),
    "rdma_xclient -c x": (["rdma_xserver", "-c", "x"], ["rdma_xclient", "-c", "x", "-s", "{}"]),
}
UDPONG_PORT = 7174

# The messages of communication management, as tshark numbers them.
CONNECTION = {0x10, 0x13, 0x14, 0x15, 0x16}
SERVICE = {0x17, 0x18}


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """The programs' runs, then the errors."""
    found = []
    programs = {**PROGRAMS, **(MORE_PROGRAMS if WHOLE else {})}
    for name, (server, client) in programs.items():
        for column, version in (("IPv4", 4), ("IPv6", 6)):
            found.append(Case(name, column, on_hosts(partial(program, server, client, version))))
    for name, (server, client) in IPV4_ONLY.items():
        found.append(Case(name, "IPv4", on_hosts(partial(program, server, client, 4))))
    for name, (server, client) in ENDLESS.items():
        found.append(Case(name, "IPv4", on_hosts(partial(endless, server, client))))
    found.append(Case("udpong", "IPv4", on_hosts(datagram_sockets)))
    for kind in ("RC", "UC"):
        found.append(Case("rdma_create_ep", kind, on_hosts(partial(message, kind.lower()))))
    for options in PERFTEST + (MORE_PERFTEST if WHOLE else []):
        name = " ".join([options[0], "-R", *options[1:]])
        found.append(Case(name, "IPv4", on_hosts(partial(perftest, options))))
    found.append(Case("ib_write_bw -R -q 4, whose listeners start late", "", on_hosts(late)))
    for name in LOSSY:
        for seed in SEEDS:
            found.append(Case(name, LOSS if seed == 1 else f"{LOSS}, seed {seed}",
                              on_hosts(partial(program, *PROGRAMS[name], 4), wire=Wire(seed=seed, lost=50))))
    found.append(Case("ib_write_bw -R", LOSS, on_hosts(partial(perftest, ["ib_write_bw"]), wire=Wire(lost=50))))
    return found + [
        Case("different MTUs of the hosts", "", on_hosts(narrower)),
        Case("rping within a host", "", on_hosts(at_home)),
        *[Case(f"newest: {test}", "", on_hosts(partial(newest, test))) for test in NEWEST],
        Case("connection requests are for all processes", "", on_hosts(many)),
        Case("connection requests pass by who is stopped", "", on_hosts(past_the_stopped)),
        Case("nobody listens", "", on_hosts(no_listener)),
        Case("no process there", "", on_hosts(empty)),
        Case("no host there", "", on_hosts(absent)),
        Case("an address that came after the listener", "IPv4", on_hosts(partial(later_address, "10.9.0.50"))),
        Case("an address that came after the listener", "IPv6", on_hosts(partial(later_address, "fd09::50"))),
        Case("a server that is killed", "", on_hosts(killed)),
        Case("a client that is killed", "", on_hosts(client_killed)),
        Case("an idle peer that is killed", "", on_hosts(partial(idle, "wait"))),
        *[Case("an idle peer that is killed", f"{name} is left", on_hosts(partial(disconnected_by_another, *left)))
          for name, left in LEFT.items()],
        Case("a peer that ends without a word", "", on_hosts(partial(idle, "leave"))),
        Case("what tshark sees of connections", "", on_hosts(decoded)),
    ]


def address_of(host: Host, version: int) -> str:
    """Its address."""
    return host.address if version == 4 else host.address6


def listens(host: Host) -> bool:
    """Whether a process of that host listens for connections."""
    return any(host.runtime.glob("cm-*.socket"))


def serve(hosts: Hosts, command: Sequence[object], ready: Callable[[Process], bool],
          host: Optional[Host] = None) -> tuple[Process, bool]:
    """Starts a server on the first host and waits until it is ready."""
    host = host or hosts.members[0]
    serving = hosts.start(host, "server", host.on_adapter(*command))
    deadline = time.monotonic() + SECONDS
    while serving.running and not ready(serving) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    return serving, serving.running and ready(serving)


def converse(hosts: Hosts, server: Sequence[object], client: Sequence[object]) -> Exchange:
    """Runs both sides to their end."""
    first, second = hosts.members
    serving, is_ready = serve(hosts, server, lambda _process: listens(first))
    if not is_ready:
        return Exchange(serving.finish(time.monotonic()), None)
    asking = hosts.start(second, "client", second.on_adapter(*client))
    return finish(serving, asking, time.monotonic() + SECONDS)


def program(server: list[str], client: list[str], version: int, hosts: Hosts) -> Outcome:
    """Server and client return 0."""
    address = address_of(hosts.members[0], version)
    filled = [[word.format(address) for word in command] for command in (server, client)]
    return converse(hosts, *filled).outcome()


def endless(server: list[str], client: list[str], hosts: Hosts) -> Outcome:
    """The client returns 0; this program's server never ends."""
    first, second = hosts.members
    server, client = ([word.format(first.address) for word in command] for command in (server, client))
    serving, is_ready = serve(hosts, server, lambda _process: listens(first))
    if not is_ready:
        return failed("the server never listened", serving.finish(time.monotonic()).evidence())
    asked = hosts.run(second, "client", second.on_adapter(*client), SECONDS)
    ended = serving.finish(time.monotonic())
    return passed() if asked.succeeded else failed(asked.describe(), f"{asked.evidence()}\n{ended.evidence()}")


def datagram_sockets(hosts: Hosts) -> Outcome:
    """librdmacm makes an address handle by the port's LID for each of them, which Linux refuses over Ethernet; so does
    this adapter, with the reason."""
    first, second = hosts.members
    serving, is_ready = serve(hosts, ["udpong", "-b", first.address], lambda _process: first.has_datagram_port(UDPONG_PORT))
    if not is_ready:
        return failed("the server never listened", serving.finish(time.monotonic()).evidence())
    client = second.on_adapter("env", "VERBENA_LOG=info", "udpong", "-S", 64, "-C", 300, "-s", first.address)
    asked = hosts.run(second, "client", client, SECONDS)
    ended = serving.finish(time.monotonic())
    if asked.succeeded or "ah_attr.is_global is 0" not in asked.output:
        return failed("an address handle without a GID is not refused", f"{asked.evidence()}\n{ended.evidence()}")
    return passed()


def newest(test: str, hosts: Hosts) -> Outcome:
    """A test of the newest calls on one host."""
    tool = c_program.compile_program(Path(__file__).resolve().parents[1] / "rdmacm" / "newest.c",
                                     ("-lrdmacm", "-libverbs", "-pthread"))
    host = hosts.members[0]
    ended = hosts.run(host, "newest", host.on_adapter(tool, test), SECONDS)
    return passed() if ended.succeeded else failed(ended.describe(), ended.evidence())


def message(kind: str, hosts: Hosts) -> Outcome:
    """One message over a connection of a type, by rdma_create_ep(3)."""
    source = Path(__file__).resolve().parent / "message.c"
    try:
        tool = c_program.compile_program(source, ("-lrdmacm", "-l:libibverbs.so"))
    except c_program.DoesNotCompile as words:
        return failed("does not compile", str(words))
    address = hosts.members[0].address
    return converse(hosts, [tool, kind, "serve", address], [tool, kind, "ask", address]).outcome()


def perftest(options: list[str], hosts: Hosts) -> Outcome:
    """perftest, its connection made by the connection manager."""
    count = 5 if hosts.wire else 500
    command = [*options, "-R", "-F", "-d", DEVICE, "-n", count]
    ended = converse(hosts, command, [*command, hosts.members[0].address])
    # The server's last message closes the run, and the client exits with its arrival. If its acknowledgement is lost,
    # no process is left to repeat it: the server's retries end (12 is IBV_WC_RETRY_EXC_ERR), as on an adapter of silicon.
    words = "Bad wc status 12", "Failed to close connection between server and client"
    if hosts.wire and ended.client and ended.client.succeeded and all(text in ended.server.output for text in words):
        return passed("the last acknowledgement was lost")
    return ended.outcome()


def late(hosts: Hosts) -> Outcome:
    """A server that tells its client to connect before it listens again, and is slow."""
    command = ["ib_write_bw", "-q", 4, "-R", "-F", "-d", DEVICE, "-n", 500]
    return converse(hosts, starting_late(command), [*command, hosts.members[0].address]).outcome()


def rping(hosts: Hosts, host: Host, count: int, port: int = 7174) -> list[str]:
    """A client's command line."""
    return host.on_adapter("rping", "-c", "-a", hosts.members[0].address, "-C", count, "-V", "-p", port)


def narrower(hosts: Hosts) -> Outcome:
    """One host's interface carries longer packets than the other's: they agree on the shorter, whichever connects."""
    for wider in reversed(hosts.members):
        for host in hosts.members:
            host.setup("ip", "link", "set", host.interface, "mtu", "9000" if host is wider else "1500")
        server, client = PROGRAMS["rping -V"]
        outcome = program([*server, "-S", "20000"], [*client, "-S", "20000"], 4, hosts)
        if outcome.evidence:
            return outcome
    return passed()


def later_address(address: str, hosts: Hosts) -> Outcome:
    """A listener on all addresses is reached by one that the interface got since."""
    first, second = hosts.members
    everywhere = "::" if ":" in address else "0.0.0.0"
    serving, is_ready = serve(hosts, ["rping", "-s", "-a", everywhere, "-C", 20, "-V"], lambda _process: listens(first))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    first.add_address(address)
    asking = hosts.start(second, "client", second.on_adapter("rping", "-c", "-a", address, "-C", 20, "-V"))
    return finish(serving, asking, time.monotonic() + SECONDS).outcome()


def at_home(hosts: Hosts) -> Outcome:
    """Between two processes of one host no packet is sent, by whichever address."""
    host = hosts.members[0]
    for address in (host.address, host.address6, "127.0.0.1"):
        serving, is_ready = serve(hosts, ["rping", "-s", "-a", address, "-C", 5, "-V"],
                                  lambda _process: listens(host))
        if not is_ready:
            return failed("never listened", serving.finish(time.monotonic()).evidence())
        asking = hosts.start(host, "client", host.on_adapter("rping", "-c", "-a", address, "-C", 5, "-V"))
        outcome = finish(serving, asking, time.monotonic() + SECONDS).outcome()
        if outcome.evidence:
            return outcome
    used = counters.paths_used(hosts.place)
    return failed(f"went by {', '.join(sorted(used))}") if "udp" in used else passed()


def many(hosts: Hosts) -> Outcome:
    """Six servers on one host, and six clients of another: each has its own."""
    first, second = hosts.members
    ports = range(7001, 7007)
    servers = [hosts.start(first, "server", first.on_adapter(
        "rping", "-s", "-a", first.address, "-C", 20, "-V", "-p", port)) for port in ports]
    deadline = time.monotonic() + SECONDS
    while len(list(first.runtime.glob("cm-*.socket"))) < len(ports) and time.monotonic() < deadline:
        wait_for_any(servers, time.monotonic() + 0.01)
    clients = [hosts.start(second, "client", rping(hosts, second, 20, port)) for port in ports]
    ended = [process.finish(deadline) for process in clients + servers]
    wrong = [one for one in ended if not one.succeeded]
    return failed(f"{len(wrong)} of {len(ended)} failed", wrong[0].evidence()) if wrong else passed()


def past_the_stopped(hosts: Hosts) -> Outcome:
    """One of a host's processes is stopped, which has as much of the port as the others."""
    first, second = hosts.members
    bystander = hosts.start(first, "bystander", first.on_adapter("ibv_rc_pingpong", "-d", DEVICE, "-g", 1))
    deadline = time.monotonic() + SECONDS
    while bystander.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([bystander], time.monotonic() + 0.005)
    serving, is_ready = serve(hosts, ["rping", "-s", "-a", first.address, "-C", 20, "-V"],
                              lambda _process: listens(first))
    if not (is_ready and bystander.running):
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    os.kill(bystander.pid, signal.SIGSTOP)
    asking = hosts.start(second, "client", rping(hosts, second, 20))
    outcome = finish(serving, asking, time.monotonic() + SECONDS).outcome()
    bystander.finish(time.monotonic())
    return outcome


def refused(hosts: Hosts, words: str) -> Outcome:
    """The client gets the refusal."""
    second = hosts.members[1]
    ended = hosts.run(second, "client", second.on_adapter(
        "rping", "-c", "-v", "-a", hosts.members[0].address, "-C", 1), SECONDS)
    if ended.succeeded or words not in ended.output:
        return failed(f"does not print {words}", ended.evidence())
    return passed()


def no_listener(hosts: Hosts) -> Outcome:
    """A process that does not use the connection manager still answers."""
    first = hosts.members[0]
    bystander = hosts.start(first, "bystander", first.on_adapter("ibv_rc_pingpong", "-d", DEVICE, "-g", 1))
    deadline = time.monotonic() + SECONDS
    while bystander.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([bystander], time.monotonic() + 0.005)
    outcome = refused(hosts, "RDMA_CM_EVENT_REJECTED, error 8")
    bystander.finish(time.monotonic())
    return outcome


def empty(hosts: Hosts) -> Outcome:
    """A host without a process on the adapter answers that the port has no listener."""
    return refused(hosts, "RDMA_CM_EVENT_UNREACHABLE, error -111")


def absent(hosts: Hosts) -> Outcome:
    """The address does not exist."""
    first = hosts.members[0]
    first.setup("ip", "addr", "del", f"{first.address}/24", "dev", first.interface)
    return refused(hosts, "RDMA_CM_EVENT_UNREACHABLE, error -113")


def killed(hosts: Hosts) -> Outcome:
    """The server is killed in the midst of the work: the client's requests end, and so does the client."""
    first, second = hosts.members
    serving, is_ready = serve(hosts, ["rping", "-s", "-a", first.address], lambda _process: listens(first))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    asking = hosts.start(second, "client", second.on_adapter("rping", "-c", "-v", "-a", first.address))
    deadline = time.monotonic() + SECONDS
    while "ping data" not in asking.output() and asking.running and time.monotonic() < deadline:
        wait_for_any([asking], time.monotonic() + 0.005)
    serving.finish(time.monotonic())
    ended = asking.finish(time.monotonic() + SECONDS)
    if ended.status is None:
        return failed("waits for a server that is dead", ended.evidence())
    if not any(word in ended.output for word in ("DISCONNECT", "cq completion failed status 12")):
        return failed("was not told of the end", ended.evidence())
    return passed()


def client_killed(hosts: Hosts) -> Outcome:
    """A client is killed and begins anew: the next one is served, although it has the dead one's numbers."""
    first, second = hosts.members
    serving, is_ready = serve(hosts, ["rping", "-s", "-P", "-a", first.address],
                              lambda _process: listens(first))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    asking = hosts.start(second, "client", second.on_adapter("rping", "-c", "-v", "-a", first.address))
    deadline = time.monotonic() + SECONDS
    while "ping data" not in asking.output() and asking.running and time.monotonic() < deadline:
        wait_for_any([asking], time.monotonic() + 0.005)
    asking.finish(time.monotonic())
    ended = hosts.run(second, "client", rping(hosts, second, 20), SECONDS)
    served = serving.finish(time.monotonic())
    return passed() if ended.succeeded else failed("the next one is not served",
                                                   f"{ended.evidence()}\n{served.evidence()}")


def idle(manner: str, hosts: Hosts) -> Outcome:
    """A server without requests to its client gets an event at the client's end."""
    first, second = hosts.members
    source = Path(__file__).resolve().parent / "idle.c"
    try:
        tool = c_program.compile_program(source, ("-lrdmacm",))
    except c_program.DoesNotCompile as words:
        return failed("does not compile", str(words))
    serving, is_ready = serve(hosts, [tool, "serve", first.address], lambda _process: listens(first))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    asking = hosts.start(second, "client", second.on_adapter(tool, manner, first.address))
    deadline = time.monotonic() + SECONDS
    while "ESTABLISHED" not in serving.output() and serving.running and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    if manner == "leave":
        left = asking.finish(deadline)
        if not left.succeeded:
            return failed("the client failed", left.evidence())
    else:
        asking.finish(time.monotonic())
    ended = serving.finish(deadline)
    return passed() if ended.succeeded else failed("was not told", ended.evidence())


def disconnected_by_another(left: list[str], is_left: Callable[[Host], bool], hosts: Hosts) -> Outcome:
    """Another process of its host disconnects on behalf of a killed one."""
    second = hosts.members[1]
    command = [word.format(second.address) for word in left]
    staying = hosts.start(second, "left", second.on_adapter(*command))
    deadline = time.monotonic() + SECONDS
    while staying.running and not is_left(second) and time.monotonic() < deadline:
        wait_for_any([staying], time.monotonic() + 0.005)
    outcome = idle("wait", hosts)
    still = staying.running
    ended = staying.finish(time.monotonic())
    return outcome if still else failed("no process was left", ended.evidence())


def decoded(hosts: Hosts) -> Outcome:
    """A capture of all messages of a connection and of a datagram service: names, and nothing malformed."""
    host = hosts.members[0]
    file = hosts.place.directory / "connections.pcapng"
    capture = hosts.start(host, "capture", host.inside(
        ["tshark", "-q", "-i", host.interface, "-f", "udp port 4791", "-w", str(file)]))
    deadline = time.monotonic() + SECONDS
    while "Capturing on" not in capture.output() and time.monotonic() < deadline:
        wait_for_any([capture], time.monotonic() + 0.02)
    # The capture begins somewhat later than it says, and writes somewhat later than it sees.
    wanted, seen, rows = CONNECTION | SERVICE, set(), []
    while not wanted <= seen and time.monotonic() < deadline:
        for name in ("rping -V", "udaddy"):
            for version in (4, 6):
                outcome = program(*PROGRAMS[name], version, hosts)
                if outcome.evidence:
                    return outcome
        rows = messages(file)
        seen = {int(row[0], 16) for row in rows if row[0]}
    capture.finish(time.monotonic())
    bad = [row for row in rows if not row[0] or any(row[1:])]
    if bad:
        return failed(f"{len(bad)} of {len(rows)} messages malformed", str(bad[:5]))
    lacking = [f"{attribute:#04x}" for attribute in sorted(wanted - seen)]
    return failed(f"no message {', '.join(lacking)}") if lacking else passed(f"{len(rows)} messages")


def messages(file: Path) -> list[list[str]]:
    """Returns the attribute of each management datagram in a capture, and tshark's reports of malformed ones."""
    done = subprocess.run(["tshark", "-r", str(file), "--disable-protocol", "rpcordma", "-Y",
                           "infiniband.bth.destqp == 1", "-T", "fields", "-e", "infiniband.mad.attributeid",
                           "-e", "_ws.malformed"],
                          capture_output=True, text=True, check=False, timeout=SECONDS)
    return [line.split("\t") for line in done.stdout.splitlines()]
