"""RoCEv2 between two hosts: programs in two network namespaces that only a cable joins, as an ordinary user, by packets
on UDP port 4791."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Callable, Optional, Sequence

from harness import c_program, counters, tiers
from harness.build_tree import DEVICE
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import wait_for_any
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

from . import applications, cable, changes, congestion, connections, crowds, fallbacks, guide, multicast, ports, rules, tunnels
from .hosts import PORT, Hosts, NoNamespaces, SetupFailed, Wire
from .programs import ENDS_WELL, random_programs

TITLE = "RoCEv2 between two hosts"
REQUIRES = [Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("ib_write_lat", "perftest"),
            Tool("ucx_perftest", "ucx-utils"), Tool("fi_pingpong", "libfabric-bin"), Tool("mpirun.openmpi", "openmpi-bin"),
            Tool("mpicc.openmpi", "libopenmpi-dev"), Tool("mpirun.mpich", "mpich"), Tool("mpicc.mpich", "libmpich-dev"),
            Tool("ip", "iproute2"), Tool("tshark", "tshark"), Tool("/dev/net/tun", "a TUN device"),
            Tool("nsenter", "util-linux"), Tool("rping", "rdmacm-utils"), Tool("mckey", "rdmacm-utils"),
            COMPILER, VERBS_HEADERS, Tool("/usr/include/rdma/rdma_cma.h", "librdmacm-dev")]

HERE = Path(__file__).resolve().parent
SECONDS = 60
# Indices of the GID table: link-local, IPv4, IPv6.
IPV4, IPV6 = 1, 2

PINGPONGS = {
    "rc": [[], ["-e"], ["-c"], ["-s", "1"], ["-s", "33", "-c"], ["-s", "1025", "-c"], ["-m", "256", "-c"],
           ["-s", "1000003", "-n", "50", "-c"]],
    "uc": [[], ["-e"], ["-c"]],
    "ud": [[], ["-e"], ["-c"], ["-s", "33", "-c"]],
    "srq": [[], ["-e"], ["-c"]],
    "xsrq": [[], ["-e"]],
}
# By night every combination; by day the most different ones, for each case makes two hosts.
WHOLE = tiers.by_night()
SIZES = (1, 3, 33, 1023, 1024, 1025, 4097, 65537, 1 << 20) if WHOLE else (1, 1025, 65537)
# The most different ones of every operation and transport that perftest has.
PERFTEST = [("ib_send_bw", "RC"), ("ib_send_bw", "XRC"), ("ib_write_lat", "RC"), ("ib_write_bw", "XRC"),
            ("ib_read_bw", "RC"), ("ib_send_lat", "UC")]
if WHOLE:
    PERFTEST = [(f"ib_{operation}_{kind}", transport)
                for operation, transports in (("send", ("RC", "UC", "XRC")), ("write", ("RC", "UC", "XRC")),
                                              ("read", ("RC", "XRC")))
                for kind in ("lat", "bw") for transport in transports
                # A message of UC that did not fit at the receiver is not sent again, and the tool waits for each of
                # them.
                if (operation, kind, transport) != ("send", "bw", "UC")]
# Faults of packets on the way. A connection survives all of it, with every byte in its place.
WIRES = {
    "1 % lost": Wire(lost=10),
    "5 % lost": Wire(lost=50),
    "doubled": Wire(doubled=200),
    "damaged": Wire(damaged=10),
    "out of order": Wire(delayed=50),
    "all of it": Wire(lost=20, doubled=20, damaged=10, delayed=20),
}
if not WHOLE:
    WIRES = {name: WIRES[name] for name in ("1 % lost", "all of it")}
# So many operations of each kind, over a wire that has all faults at once.
MANY, MANY_SECONDS = (1_000_000, 3600) if WHOLE else (2_000, 120)
MANY_KINDS = ("write", "write with immediate", "send", "send with immediate", "send with invalidate", "read",
              "fetch and add", "compare and swap", "atomic write", "flush", "window bind",
              "write with immediate over XRC", "send over XRC", "read over XRC", "fetch and add over XRC",
              "write over UC", "write with immediate over UC", "send over UC", "send over UD")
WORST = Wire(lost=50, doubled=50, damaged=10, delayed=50, behind=64)
UCX = [("tag_lat", 8), ("tag_bw", 65536), ("ucp_put_bw", 65536), ("ucp_get", 65536), ("ucp_fadd", 8)]
if WHOLE:
    UCX += [("ucp_am_lat", 8), ("ucp_am_bw", 65536), ("ucp_put_lat", 8), ("ucp_put_lat", 65536), ("tag_bw", 1 << 20),
            ("tag_lat", 65536), ("ucp_get", 8), ("ucp_put_bw", 8)]
# The number of a hostile host's packets, and their time limit.
ATTACK_PACKETS, ATTACK_SECONDS = (10_000_000, 1800) if WHOLE else (150_000, 120)
# So many bytes of each size suffice.
BYTES = 32 << 20


def cases() -> list[Case]:
    """The programs' runs, then the networks' faults."""
    found = [Case("ibv_devinfo -v", "", on_hosts(devinfo))]
    for transport, variants in PINGPONGS.items():
        for options in variants:
            row = " ".join([f"ibv_{transport}_pingpong", *options])
            for column, gid in (("IPv4", IPV4), ("IPv6", IPV6)):
                found.append(Case(row, column, on_hosts(partial(pingpong, transport, options, gid))))
    for mtu in (1500, 9000):
        for tool, transport in PERFTEST:
            for size in SIZES:
                found.append(Case(f"{tool} -c {transport} -s {size}", f"MTU {mtu}",
                                  on_hosts(partial(perftest, tool, transport, size), mtu=mtu)))
        for tool, size in (("ib_send_lat", 33), ("ib_send_bw", 1024)) if WHOLE else ():
            found.append(Case(f"{tool} -c UD -s {size}", f"MTU {mtu}",
                              on_hosts(partial(perftest, tool, "UD", size), mtu=mtu)))
        for tool, transport in (("ib_atomic_lat", "RC"), ("ib_atomic_bw", "RC"),
                                *((("ib_atomic_lat", "XRC"), ("ib_atomic_bw", "XRC")) if WHOLE else ())):
            found.append(Case(f"{tool} -c {transport}", f"MTU {mtu}",
                              on_hosts(partial(perftest, tool, transport, None), mtu=mtu)))
    found += [
        Case("ib_send_lat -e", "", on_hosts(answered_in_order)),
        Case("several processes of a host share the port", "", on_hosts(crowd)),
        Case("processes of one host keep to shared memory", "", on_hosts(neighbours)),
        Case("what the dead had of the port is used again", "", on_hosts(crowds.lives)),
        Case("16 hosts, stops and kills", "", partial(crowds.crowd, "stops and kills")),
        # A death is noticed by retries alone, after nine seconds.
        *([Case("16 hosts, one kill a round", "", partial(crowds.crowd, "one kill a round"))] if crowds.ROUNDS else []),
        Case("a host that vanishes", "", on_hosts(vanished)),
        Case("rows of faults", "", on_hosts(partial(rows, "faults"))),
        Case("causes by rules", "", on_hosts(rules.follow)),
        Case("links with rules", "", on_hosts(rules.links)),
        Case("served requests before the error state", "", on_hosts(partial(rows, "settled"))),
        Case("packets from strangers", "", on_hosts(strangers)),
        *[Case("packets of a hostile host", f"IPv{version}", on_hosts(partial(hostile, version))) for version in (4, 6)],
        Case("a network that is not allowed", "", on_hosts(forbidden)),
        Case("segments that the kernel cuts", "", on_hosts(cut)),
    ]
    for test, size in UCX:
        for transport in ("rc_verbs", "ud_verbs"):
            found.append(Case(f"ucx_perftest {test} {size} B", transport,
                              on_hosts(partial(applications.ucx, transport, test, size), mtu=9000)))
    for provider, kind in applications.FABRICS:
        found.append(Case(f"fi_pingpong -p {provider} -e {kind}", "",
                          on_hosts(partial(applications.libfabric, provider, kind), mtu=9000)))
    for library in ("Open MPI", "MPICH"):
        found.append(Case("verified by MPI", library, on_hosts(partial(applications.mpi, library, "verified.c"), mtu=9000)))
        found.append(Case("atomics by MPI", library, on_hosts(partial(applications.mpi, library, "fetched.c"), mtu=9000)))
    if WHOLE:
        # Their datagrams are as long as a path of 4096 bytes lets them be.
        found.append(Case("random programs", "MTU 9000", on_hosts(partial(random_programs, ""), mtu=9000)))
    for column, wire in WIRES.items():
        found.append(Case("random programs", column,
                          on_hosts(partial(random_programs, ENDS_WELL), wire=wire)))
        for transport, options in (("rc", []), ("rc", ["-s", "33"]), ("rc", ["-s", "100001"]), ("srq", []),
                                   ("xsrq", [])):
            row = " ".join([f"ibv_{transport}_pingpong", *options])
            more = [*options, "-n", "200", *(["-c"] if transport != "xsrq" else [])]
            found.append(Case(row, column, on_hosts(partial(lossy, transport, more), wire=wire)))
        for tool, size in (("ib_read_bw", 65537), ("ib_write_bw", 65537), ("ib_atomic_bw", None)):
            found.append(Case(tool, column, on_hosts(partial(perftest, tool, "RC", size), wire=wire)))
    for kind in MANY_KINDS:
        found.append(Case(f"{MANY} of {kind}", "5 % lost, doubled, late; 1 % damaged",
                          on_hosts(partial(many, kind), wire=WORST)))
    more = (cable, connections, multicast, changes, congestion, fallbacks, tunnels, ports, guide)
    return found + [case for one in more for case in one.cases(on_hosts)]


def on_hosts(body: Callable[[Hosts], Outcome], mtu: int = 1500, wire: Optional[Wire] = None,
             kind: Callable[..., Hosts] = Hosts) -> Callable[[Place], Outcome]:
    """A case that has two hosts, of a kind."""
    def run(place: Place) -> Outcome:
        try:
            with kind(place, mtu, wire) as hosts:
                return body(hosts)
        except NoNamespaces as words:
            return skipped(str(words))
        except SetupFailed as words:
            return failed("the hosts could not be made", str(words))
    return run


def devinfo(hosts: Hosts) -> Outcome:
    """An active Ethernet port with the interface's addresses and MTU."""
    host = hosts.members[0]
    ended = hosts.run(host, "devinfo", host.on_adapter("ibv_devinfo", "-v"), SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    lines = [" ".join(line.split()) for line in ended.output.splitlines()]
    wanted = [f"hca_id: {DEVICE}", "state: PORT_ACTIVE (4)", "link_layer: Ethernet", "active_mtu: 1024 (3)",
              "GID[ 1]: ::ffff:10.9.0.1, RoCE v2", "GID[ 2]: fd09::1, RoCE v2"]
    lacking = [line for line in wanted if line not in lines]
    return failed(f"does not say: {', '.join(lacking)}", ended.evidence()) if lacking else passed()


def pingpong(transport: str, options: Sequence[str], gid: int, hosts: Hosts) -> Outcome:
    """Server and client return 0, and everything went by packets."""
    command = [f"ibv_{transport}_pingpong", "-d", DEVICE, "-p", PORT, "-g", gid, *options]
    done = hosts.exchange(command, [*command, hosts.members[0].address], SECONDS)
    outcome = done.outcome()
    used = counters.paths_used(hosts.place)
    if outcome.evidence == "" and used != {"udp"}:
        return failed(f"went by {', '.join(sorted(used)) or 'nothing'}", done.evidence())
    return outcome


def lossy(transport: str, options: Sequence[str], hosts: Hosts) -> Outcome:
    """The same where packets are lost. A program that has all its messages ends, and cannot acknowledge again if its
    last acknowledgement was lost: then the peer may fail, by its retries alone."""
    command = [f"ibv_{transport}_pingpong", "-d", DEVICE, "-p", PORT, "-g", IPV4, *options]
    done = hosts.exchange(command, [*command, hosts.members[0].address], SECONDS)
    sides = [done.server, done.client] if done.client else [done.server]
    failures = [side for side in sides if not side.succeeded]
    if len(sides) == 2 and len(failures) == 1 and "transport retry counter exceeded" in failures[0].output:
        return passed("the last acknowledgement was lost")
    return done.outcome()


def perftest(tool: str, transport: str, size, hosts: Hosts) -> Outcome:
    """Both sides return 0."""
    count = 200 if size is None else max(5, min(500, BYTES // size))
    options = ["-n", count, *([] if size is None else ["-s", size])]
    command = [tool, "-F", "-d", DEVICE, "-p", PORT, "-x", IPV4, "-c", transport, *options]
    return hosts.exchange(command, [*command, hosts.members[0].address], SECONDS).outcome()


def many(kind: str, hosts: Hosts) -> Outcome:
    """Each is done once, in order, with the right bytes."""
    program = c_program.compile_program(HERE / "many.c", more=[HERE / "kinds.c", HERE / "between.c"])
    settings = ["env", f"KIND={kind}", f"COUNT={MANY}", f"PEER={hosts.members[0].address}", program]
    return hosts.exchange([*settings, "answers"], [*settings, "asks"], MANY_SECONDS).outcome()


def rows(what: str, hosts: Hosts) -> Outcome:
    """The same as on every path of one host (`tests/contract`)."""
    program = c_program.compile_program(HERE / "rows.c")
    settings = ["env", f"PEER={hosts.members[0].address}", program]
    return hosts.exchange([*settings, f"answers_{what}"], [*settings, f"asks_{what}"], SECONDS).outcome()


def answered_in_order(hosts: Hosts) -> Outcome:
    """A requester with an answer has the completion of its send: with events, perftest polls for it once."""
    command = ["ib_send_lat", "-F", "-e", "-d", DEVICE, "-p", PORT, "-x", IPV4, "-n", 2000]
    return hosts.exchange(command, [*command, hosts.members[0].address], SECONDS).outcome()


def crowd(hosts: Hosts) -> Outcome:
    """Eight servers on one host and eight clients on the other, all at the same time."""
    first, second = hosts.members
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-g", IPV4, "-c", "-n", 300, "-p"]
    deadline = time.monotonic() + SECONDS
    ports = range(PORT, PORT + 8)
    servers = [hosts.start(first, "server", first.on_adapter(*command, port)) for port in ports]
    while not all(map(first.listens, ports)) and time.monotonic() < deadline:
        time.sleep(0.005)
    clients = [hosts.start(second, "client", second.on_adapter(*command, port, first.address))
               for port in ports]
    ended = [process.finish(deadline) for process in clients + servers]
    wrong = [one for one in ended if not one.succeeded]
    return failed(f"{len(wrong)} of {len(ended)} failed", wrong[0].evidence()) if wrong else passed()


def neighbours(hosts: Hosts) -> Outcome:
    """Two processes of one host: no packet."""
    host = hosts.members[0]
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-g", IPV4, "-c", "-p", PORT]
    deadline = time.monotonic() + SECONDS
    serving = hosts.start(host, "server", host.on_adapter(*command))
    while serving.running and not host.listens() and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    asking = hosts.run(host, "client", host.on_adapter(*command, host.address), SECONDS)
    served = serving.finish(deadline)
    if not (asking.succeeded and served.succeeded):
        return failed("failed", f"{served.evidence()}\n{asking.evidence()}")
    used = counters.paths_used(hosts.place)
    return failed(f"went by {', '.join(sorted(used))}") if "udp" in used else passed()


def vanished(hosts: Hosts) -> Outcome:
    """The server is killed: the client's requests end with RETRY_EXC_ERR when its retries are exhausted. The client has
    some at every moment; one of a ping-pong may have none, and then it rightly waits for a receive for ever."""
    first, second = hosts.members
    command = ["ib_write_bw", "-d", DEVICE, "-x", IPV4, "-n", 5000000, "-p", PORT]
    deadline = time.monotonic() + SECONDS
    serving = hosts.start(first, "server", first.on_adapter(*command))
    while serving.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    asking = hosts.start(second, "client", second.on_adapter(*command, first.address))
    # In the midst of the work.
    while first.datagrams() < 1000 and asking.running and time.monotonic() < deadline:
        time.sleep(0.005)
    serving.finish(time.monotonic())
    ended = asking.finish(min(deadline, time.monotonic() + 20))
    if ended.timed_out or "Failed status 12" not in ended.output:
        return failed("the client did not notice", ended.evidence())
    return passed()


def strangers(hosts: Hosts) -> Outcome:
    """A connection, and beside it datagrams, are unharmed by a host that sends random packets."""
    first, second = hosts.members
    stranger = "10.9.0.77"
    second.add_address(stranger)
    script = Path(__file__).resolve().parent / "strangers.py"
    noise = hosts.start(second, "stranger", second.inside(
        ["/usr/bin/python3", str(script), stranger, first.address, "7"]))
    connection = pingpong("rc", ["-c", "-n", "30000"], IPV4, hosts)
    dropped = first.dropped_datagrams()
    datagrams = pingpong("ud", ["-c", "-n", "30000"], IPV4, hosts)
    still_there = noise.running
    noise.finish(time.monotonic())
    if not still_there:
        return failed("the stranger has ended", noise.output())
    if connection.evidence:
        return connection
    # ibv_ud_pingpong waits for ever for a datagram that is lost, as one may be on any network.
    dropped = first.dropped_datagrams() - dropped
    return passed(f"the kernel had no room for {dropped} datagrams") if datagrams.evidence and dropped else datagrams


def hostile(version: int, hosts: Hosts) -> Outcome:
    """A process that gives a hostile host all its secrets: its regular traffic with a third host goes on, and only
    granted memory is written."""
    first, second = hosts.members
    stranger = "10.9.0.77" if version == 4 else "fd09::77"
    # Not of the interface that the adapter has, or it could be the friend's: a kernel tells the newest of IPv6 first.
    second.setup("ip", "addr", "add", stranger, "dev", "lo")
    target, near = (host.address if version == 4 else host.address6 for host in hosts.members)
    index = f"GID_INDEX={IPV4 if version == 4 else IPV6}"
    attacked = c_program.compile_program(HERE / "attacked.c", more=[HERE / "between.c"])
    attacker = c_program.compile_program(HERE / "hostile.c", libraries=())
    victims, stop = hosts.place.directory / "victims", hosts.place.directory / "stop"
    deadline = time.monotonic() + ATTACK_SECONDS
    serving = hosts.start(first, "target", first.on_adapter("env", index, f"VICTIMS={victims}", attacked, "target"))
    while serving.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    working = hosts.start(second, "friend", second.on_adapter("env", index, f"PEER={first.address}", f"STOP={stop}",
                                                              attacked, "friend"))
    attacking = hosts.start(second, "hostile", second.inside(
        ["env", f"VICTIMS={victims}", str(attacker), near, stranger, target, "1",
         str(ATTACK_PACKETS)]))
    wait_for_any([serving, working, attacking], deadline)
    attack = attacking.finish(time.monotonic())
    stop.touch()
    ended = [process.finish(deadline) for process in (working, serving)]
    if wrong := [one for one in [*ended, attack] if not one.succeeded]:
        return failed(wrong[0].describe(), "\n".join(one.evidence() for one in [*ended, attack]))
    return passed(f"{ended[1].output.splitlines()[0]}, {attack.output.strip()}")


def forbidden(hosts: Hosts) -> Outcome:
    """`--allow` with the peer's network changes nothing; with another, the peer's packets are counted and dropped."""
    first, second = hosts.members
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-p", PORT, "-g", IPV4, "-n", 10]
    elsewhere = ["--allow", "192.0.2.0/24"]
    done = hosts.exchange(command, [*command, first.address], SECONDS, [*elsewhere, "--allow", "10.9.0.0/24"])
    if done.outcome().evidence:
        return failed("the peer's network is allowed", done.evidence())
    serving = hosts.start(first, "server", first.on_adapter(*command, options=elsewhere))
    deadline = time.monotonic() + SECONDS
    while serving.running and not first.listens() and time.monotonic() < deadline:
        time.sleep(0.005)
    asking = hosts.start(second, "client", second.on_adapter(*command, first.address))
    # The client goes on asking for seconds; only the missing answer counts.
    foreign = 0
    while not foreign and serving.running and asking.running and time.monotonic() < deadline:
        foreign = counters.total(hosts.place)["foreign_packets"]
        time.sleep(0.02)
    answered = not (serving.running and asking.running)
    ended = [one.finish(time.monotonic()).evidence() for one in (serving, asking)]
    if answered or not foreign:
        return failed(f"{foreign} packets were counted as another network's", "\n".join(ended))
    wrong = hosts.run(first, "wrong", first.on_adapter("true", options=["--allow", "10.9.0.1/24"]), SECONDS)
    if wrong.status != 2 or "10.9.0.1/24" not in wrong.output:
        return failed("a word that is no network is accepted", wrong.evidence())
    return passed(f"{foreign} packets")


def cut(hosts: Hosts) -> Outcome:
    """Messages of many packets, which are on the cable one by one."""
    hosts.segment()
    return perftest("ib_write_bw", "RC", 1 << 20, hosts)
