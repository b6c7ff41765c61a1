"""`verbena ipoib`: commands in network namespaces exchange IP packets over the adapter."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from functools import partial

from harness import c_program
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

from . import benchmarks, connected, fabrics, habits, hosts, manager, programs, segments
from .ends import HERE, SECONDS, WAIT, Ends, counters, lacks, unbalanced

TITLE = "IP over InfiniBand"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("ip", "iproute2"), Tool("ping", "iputils-ping"), Tool("iperf3", "iperf3"),
            Tool("tshark", "tshark"), Tool("unshare", "util-linux"), Tool("nsenter", "util-linux"), Tool("setpriv", "util-linux")]

# The largest IP packet of the default port's MTU of 4096.
MTU = 4092
WRONG_INPUT, ENVIRONMENT, NOT_FOUND = 2, 3, 127
BYTES = 64 << 20
NO_NAMESPACES = "echo 0 > /proc/sys/user/max_net_namespaces"
# More than the kernel sends at once.
LEFT = 5_000_000
# Longest time that an end may take in seconds, and processor time of an idle one in ticks of the clock.
LONGEST, IDLE = 20, 30


def cases() -> list[Case]:
    """Two ends, four ends, ends that die or are stopped, hostile peers, errors."""
    return [
        Case("the interface", "", interface),
        Case("an ordinary user", "", ordinary),
        Case("two ends", "ping", pinged),
        Case("two ends", "sizes up to the MTU", sizes),
        Case("two ends", "TCP", transferred),
        Case("two ends", "iperf3", measured),
        Case("two ends", "UDP segments", partial(segments.cut, "fd00::1", 20_000, 1000, ())),
        Case("two ends", "UDP segments of odd lengths", partial(segments.cut, "10.0.0.1", 60_001, 999, ())),
        Case("two ends", "TCP segments", partial(segments.decoded, MTU)),
        Case("two ends", "a sender that ends", left),
        Case("two ends", "a capture", captured),
        Case("four ends", "all pairs", all_pairs),
        Case("four ends", "groups", grouped),
        Case("an end that is killed and restarted", "", restarted),
        Case("an end that is stopped", "", stopped),
        Case("an address without an interface", "", unanswered),
        Case("a hostile peer", "", attacked),
        Case("a hostile peer", "requests while a command ends", flooded),
        Case("the interface", "that a program removes", removed),
        Case("the interface", "that is not served for a while", overrun),
        Case("addresses that programs add and remove", "", changed),
        Case("a gateway", "", routed),
        *fabrics.cases(),
        *connected.cases(),
        *hosts.cases(),
        *habits.cases(),
        *programs.cases(),
        *manager.cases(),
        Case("benchmarks", "", benchmarks.measured),
        Case("benchmarks", "beside the verbs", benchmarks.compared),
        Case("benchmarks", "no namespaces", partial(benchmarks.unavailable, NO_NAMESPACES, "user and network namespace")),
        Case("the exit code", "", exit_codes),
        Case("wrong arguments", "", refused),
        Case("no TUN device", "", partial(forbidden, "mount -t tmpfs none /dev/net", "cannot open /dev/net/tun", "tun")),
        Case("no namespaces", "", partial(forbidden, NO_NAMESPACES, "user and network namespace", "user.max_net_namespaces")),
    ]


def interface(place: Place) -> Outcome:
    """ib0 has type, MTU and addresses; the command keeps its user and has the rights of ping and ip."""
    script = "ip address; id -u; ip link set ib0 mtu 1500; cat /sys/class/net/lo/type"
    ended = Ends(place).run(1, script)
    wanted = [rf"^2: ib0: <.*UP.* mtu {MTU} ", r"link/infiniband", r"inet 10\.0\.0\.1/24 brd 10\.0\.0\.255", r"inet6 fd00::1/64",
              r"inet6 fe80::.* scope link", rf"^{os.getuid()}$", r"^1: lo: <LOOPBACK,UP"]
    if failure := lacks(ended, wanted):
        return failure
    other = Ends(place).run(1, "ip -o link", "--name", "ib7")
    return lacks(other, [r"^2: ib7: "]) or passed()


def ordinary(place: Place) -> Outcome:
    """A user who is not root has the rights that `ping`, `ip` and servers need, in the namespace alone."""
    if os.getuid() != 0:
        return skipped("every other case runs as an ordinary user")
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    if subprocess.run([*user, "test", "-x", str(VERBENA)], check=False).returncode != 0:
        return skipped("another user cannot execute the programs of this checkout")
    runtime = tempfile.mkdtemp(prefix="verbena-test-", dir="/dev/shm")
    try:
        os.chown(runtime, 65534, 65534)
        server = "import socket; socket.socket().bind(('10.0.0.1', 80)); print('port 80')"
        script = (f"id -u; ping -c 1 -W 1 10.0.0.1; ip address add 10.0.0.9/24 dev ib0 && echo added; python3 -c \"{server}\"; "
                  "ip link add other type dummy 2> /dev/null && echo other; cat /etc/shadow 2> /dev/null || echo no file of root")
        ended = place.run("user", [*user, *Ends(place).command(1, script)], SECONDS, VERBENA_RUNTIME_DIR=runtime, VERBENA_STATS_DIR="/nowhere")
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
    return lacks(ended, [r"^65534$", r"1 received", r"^added$", r"^port 80$", r"^no file of root$"]) or passed()


def pinged(place: Place) -> Outcome:
    """Each version's address, and the link-local one, answers; the peer's counters agree."""
    ends = Ends(place)
    other = ends.start(1, f"ip -6 -o address show dev ib0 scope link > link; {WAIT}")
    script = ("ping -c 3 -i 0.2 -w 20 10.0.0.1; ping -c 3 -i 0.2 -w 20 fd00::1; "
              "ping -c 2 -i 0.2 -w 20 $(sed 's,.*inet6 ,,; s,/.*,,' link)%ib0")
    ended = ends.run(2, script)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"3 packets transmitted, 3 received", r"2 packets transmitted, 2 received"]) or unbalanced(server):
        return failure
    if ended.output.count("3 packets transmitted, 3 received") != 2:
        return failed("a version does not answer", ended.evidence())
    sent, received = counters(ended.output), counters(server.output)
    if sent["packets sent to a neighbour"] > received["packets delivered to programs"]:
        return failed("packets were lost", ended.evidence() + server.evidence())
    return passed()


def sizes(place: Place) -> Outcome:
    """Packets of the MTU arrive whole, longer ones in fragments, and a longer one that must not be fragmented is refused."""
    ends = Ends(place)
    other = ends.start(1, WAIT)
    v4, v6 = 20 + 8, 40 + 8
    script = "; ".join(
        [f"ping -c 1 -w 20 -M do -s {size - v4} 10.0.0.1" for size in (v4, 576, MTU - 1, MTU)]
        + [f"ping -c 1 -w 20 -M do -s {size - v6} fd00::1" for size in (v6, 1280, MTU - 1, MTU)]
        + ["ping -c 1 -w 20 -s 60000 10.0.0.1", "ping -c 1 -w 20 -s 60000 fd00::1"]
        + [f"! ping -c 1 -w 2 -M do -s {MTU - v4 + 1} 10.0.0.1", f"! ping -c 1 -w 2 -M do -s {MTU - v6 + 1} fd00::1"])
    ended = ends.run(2, script)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"message too long"]) or unbalanced(server):
        return failure
    if (count := ended.output.count("1 packets transmitted, 1 received")) != 10:
        return failed(f"{count} of 10 sizes", ended.evidence())
    return passed("10 sizes")


def transferred(place: Place) -> Outcome:
    """A program's bytes arrive by TCP over both versions, both ways at once."""
    ends = Ends(place)
    tool = f"python3 '{HERE / 'transfer.py'}'"
    other = ends.start(1, f"{tool} receive 10.0.0.1 & {tool} send fd00::2 {BYTES}; wait; {WAIT}")
    ended = ends.run(2, f"{tool} receive fd00::2 & {tool} send 10.0.0.1 {BYTES}; wait")
    [server] = ends.stop(other)
    return lacks(ended, [r"^the same bytes$"]) or lacks(server, [r"^the same bytes$"]) or passed(f"2 x {BYTES >> 20} MiB")


def measured(place: Place) -> Outcome:
    """iperf3 sends by TCP in several streams and by UDP; no packet is lost by the link. A neighbour that gets no processor for a while
    may lose some, which are counted, and so may a server, whose socket is full."""
    ends = Ends(place)
    other = ends.start(1, f"iperf3 -s > server & {WAIT}; kill $!; grep ^Udp: /proc/net/snmp")
    # The server refuses clients while it starts, and while it ends a test.
    script = "; ".join(f"until iperf3 -c {words}; do sleep 0.1; done"
                       for words in ("10.0.0.1 -n 20M -P 4", "fd00::1 -n 20M -R", "10.0.0.1 -u -b 20M -n 2M"))
    ended = ends.run(2, script)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"\(\d.*%\)  receiver"]) or unbalanced(server):
        return failure
    sent, received = counters(ended.output), counters(server.output)
    names, values = (line.split() for line in server.output.splitlines() if line.startswith("Udp:"))
    is_full = int(values[names.index("RcvbufErrors")]) > 0
    is_counted = is_full or "dropped sent: neighbour takes no datagrams" in {**sent, **received}
    if not re.search(r"\(0%\)  receiver", ended.output) and not is_counted:
        return failed("lost datagrams of UDP were not counted", ended.evidence() + server.evidence())
    pairs = [(sent, received), (received, sent)]
    for one, peer in pairs:
        if one["packets sent to a neighbour"] > peer["packets delivered to programs"]:
            return failed("packets were lost", ended.evidence() + server.evidence())
    return passed()


def left(place: Place) -> Outcome:
    """All bytes that a program has sent arrive, although it ends before the peer has acknowledged them."""
    ends = Ends(place)
    tool = f"python3 '{HERE / 'transfer.py'}'"
    for address in ("10.0.0.1", "fd00::1"):
        other = ends.start(1, f"{tool} count {address}")
        ended = ends.run(2, f"exec {tool} leave {address} {LEFT}")
        server = other.finish(time.monotonic() + SECONDS)
        if failure := unbalanced(ended) or lacks(server, [rf"^{LEFT} bytes arrived$"]):
            return failure
    return passed(f"2 x {LEFT} bytes")


def captured(place: Place) -> Outcome:
    """tshark decodes a capture as IP over InfiniBand: ARP with hardware addresses of 20 bytes, neighbour discovery, IP."""
    script = ("$VERBENA ipoib --address 10.0.0.1/24 --address fd00::1/64 -- sh -c 'touch up; until [ -e over ]; do sleep 0.02; done' & "
              "until [ -e up ]; do sleep 0.02; done; "
              "$VERBENA ipoib --address 10.0.0.2/24 --address fd00::2/64 -- "
              "sh -c 'ping -c 1 -w 20 10.0.0.1; ping -c 1 -w 20 fd00::1; touch over'; wait")
    ended = place.run("capture", [str(VERBENA), "capture", "--out", "packets", "--", "sh", "-ec", script], SECONDS, VERBENA=str(VERBENA))
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    fields = ["arp.hw.type", "arp.opcode", "arp.dst.proto_ipv4", "icmp.type", "icmpv6.type", "_ws.expert.message"]
    words = ["tshark", "-r", "packets", "-T", "fields", "-E", "separator=/s", *(word for field in fields for word in ("-e", field))]
    shown = subprocess.run([*words, "-e", "ipv6.dst"], cwd=place.directory, capture_output=True, text=True, check=True).stdout
    wanted = ["32 1 10.0.0.1", "32 2 10.0.0.2", "ff12:401b:ffff::ffff:ffff", "ff12:601b:ffff::1:ff00:1", "135", "136", "128", "129"]
    if lost := [word for word in wanted if word not in shown]:
        return failed(f"tshark does not show {lost}", shown)
    if (place.directory / "packets").stat().st_size and "Malformed" in shown:
        return failed("tshark finds a malformed packet", shown)
    return passed()


def all_pairs(place: Place) -> Outcome:
    """Each of four ends reaches each other one, by both versions."""
    ends = Ends(place)
    numbers = range(1, 5)

    def script(own: int) -> str:
        others = [f"ping -c 2 -i 0.05 -w 20 {prefix}{number} > ping-{own}" for number in numbers if number != own
                  for prefix in ("10.0.0.", "fd00::")]
        return f"until [ -e go ]; do sleep 0.02; done; {'; '.join(others)}; echo reached; {WAIT}"

    started = [ends.start(number, script(number)) for number in numbers]
    (place.directory / "go").touch()
    deadline = time.monotonic() + SECONDS
    while not all("reached" in one.output() or not one.running for one in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    for ended in ends.stop(*started):
        if failure := lacks(ended, [r"^reached$"]):
            return failure
    return passed("12 pairs")


def grouped(place: Place) -> Outcome:
    """Datagrams to groups and broadcasts reach members, also those that joined later, and no others."""
    ends = Ends(place)
    tool = f"python3 '{HERE / 'groups.py'}'"

    def receive(number: int, group: str, at: int) -> str:
        return f"{tool} receive {group} 10.0.0.{number} ready-{number}-{at} > got-{number}-{at} & "

    groups = ["239.1.2.3", "ff02::1234"]
    started = [ends.start(number, receive(number, groups[0], 0) + receive(number, groups[1], 1) + f"wait; {WAIT}") for number in (1, 2)]
    started.append(ends.start(3, WAIT))
    wait = "; ".join(f"until [ -e ready-{number}-{at} ]; do sleep 0.02; done" for number in (1, 2) for at in (0, 1))
    send = "; ".join(f"{tool} send {group} 10.0.0.4 to-{at}" for at, group in enumerate(groups))
    ended = ends.run(4, f"{wait}; {send}; ping -b -c 3 -i 0.1 -W 0.3 10.0.0.255 || :")
    rest = ends.stop(*started)
    for one in (ended, *rest):
        if failure := unbalanced(one):
            return failure
    for number in (1, 2):
        for at in (0, 1):
            got = (place.directory / f"got-{number}-{at}").read_text().split()
            if not got or set(got) != {f"to-{at}"} or len(got) > 10:
                return failed(f"end {number} got {got} of group {groups[at]}")
    outsider, member = (counters(one.output)["packets delivered to programs"] for one in (rest[2], rest[0]))
    if outsider >= member:
        return failed(f"an end outside of the groups got {outsider} packets, a member {member}")
    return passed()


def restarted(place: Place) -> Outcome:
    """A killed end is replaced by another with its addresses, which its neighbour finds by its announcement."""
    ends = Ends(place)
    first = ends.start(1, WAIT)
    script = ("ping -c 2 -i 0.1 -w 20 10.0.0.1; ping -c 2 -i 0.1 -w 20 fd00::1; touch known; until [ -e again ]; do sleep 0.02; done; "
              "ping -c 2 -i 0.1 -w 20 10.0.0.1; ping -c 2 -i 0.1 -w 20 fd00::1; echo found again; " + WAIT)
    other = ends.start(2, script)
    deadline = time.monotonic() + SECONDS
    while not (place.directory / "known").exists() and other.running and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.abandon()
    second = ends.start(1, WAIT)
    (place.directory / "again").touch()
    while "found again" not in other.output() and other.running and time.monotonic() < deadline:
        time.sleep(0.02)
    ended, server = ends.stop(other, second)
    return lacks(ended, [r"^found again$"]) or unbalanced(server) or passed()


def stopped(place: Place) -> Outcome:
    """Packets to an end whose process is stopped are dropped and counted, and do not delay those to others."""
    ends = Ends(place)
    one, other = ends.start(1, WAIT), ends.start(2, WAIT)
    flood = ("import socket\nend = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
             "for _ in range(30000): end.sendto(bytes(1400), ('10.0.0.1', 9))")
    (place.directory / "flood.py").write_text(flood)
    script = ("ping -c 1 -w 20 10.0.0.1; ping -c 1 -w 20 10.0.0.2; touch known; until [ -e stopped ]; do sleep 0.02; done; "
              "python3 flood.py; ping -c 3 -i 0.1 -w 20 10.0.0.2; echo reached; " + WAIT)
    third = ends.start(3, script)
    deadline = time.monotonic() + SECONDS
    while not (place.directory / "known").exists() and third.running and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(one.pid, signal.SIGSTOP)
    (place.directory / "stopped").touch()
    while "reached" not in third.output() and third.running and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(one.pid, signal.SIGCONT)
    ended, *rest = ends.stop(third, other, one)
    for each in rest:
        if failure := unbalanced(each):
            return failure
    if failure := lacks(ended, [r"^reached$", r"3 packets transmitted, 3 received", r"neighbour takes no datagrams +[1-9]"]):
        return failure
    return passed(f"{counters(ended.output)['dropped sent: neighbour takes no datagrams']} dropped")


def unanswered(place: Place) -> Outcome:
    """Packets to an address that no interface has are dropped and counted after three requests."""
    ended = Ends(place).run(1, "ping -c 3 -i 0.2 -W 4 10.0.0.77 & ping -c 1 -W 4 fd00::77 & wait")
    if failure := lacks(ended, [r"neighbour does not answer +4"]):
        return failure
    asked = counters(ended.output)["address requests sent"]
    return passed() if asked == 6 else failed(f"{asked} requests", ended.evidence())


def attacked(place: Place) -> Outcome:
    """Datagrams that are short, of other types, cut, forged, and requests without end cost the victim nothing but counters, and its
    neighbours still reach it."""
    try:
        program = c_program.compile_program(HERE / "hostile.c", ("-l", "ibverbs"))
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    ends = Ends(place)
    victim = ends.start(1, WAIT)
    hostile = place.run("hostile", [str(VERBENA), "run", "--", str(program)], SECONDS)
    if hostile.status == c_program.EXIT_SKIPPED:
        return skipped(hostile.output)
    if not hostile.succeeded:
        return failed(hostile.describe(), hostile.evidence())
    ended = ends.run(2, "ping -c 3 -i 0.1 -w 20 10.0.0.1; ping -c 3 -i 0.1 -w 20 fd00::1")
    [server] = ends.stop(victim)
    reasons = ["shorter than its header", "unknown EtherType", "no IP packet", "invalid ARP", "invalid neighbour message",
               "forged hardware address"]
    return lacks(ended, [r"3 received"]) or lacks(server, [rf"dropped received: {reason} +[1-9]" for reason in reasons]) or passed()


def flooded(place: Place) -> Outcome:
    """A peer that sends requests without end does not keep a command from ending."""
    try:
        program = c_program.compile_program(HERE / "hostile.c", ("-l", "ibverbs"))
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    command = [str(VERBENA), "run", "--", str(program), "over"]
    peers = [place.start(f"flood-{number}", command) for number in range(3)]
    ends = Ends(place)
    ended = ends.run(1, "sleep 2")
    for peer in ends.stop(*peers):
        if not peer.succeeded or peer.seconds < ended.seconds:
            return failed(peer.describe(), peer.evidence())
    if failure := unbalanced(ended):
        return failure
    if not (count := counters(ended.output)["address requests answered"]):
        return failed("no request arrived", ended.evidence())
    return passed(f"{count} answers") if ended.seconds < LONGEST else failed(f"ended after {ended.seconds:.0f} s", ended.evidence())


def removed(place: Place) -> Outcome:
    """A program removes the interface: a message says so, the command goes on, and the end waits without processor time."""
    ticks = "cut -d ' ' -f 14,15 /proc/$PPID/stat"
    ended = Ends(place).run(1, f"ip link delete ib0; sleep 0.5; {ticks}; sleep 2; {ticks}; echo goes on")
    if failure := lacks(ended, [r"the interface was removed", r"^goes on$"]):
        return failure
    first, last = (int(user) + int(system) for user, system in re.findall(r"^(\d+) (\d+)$", ended.output, re.MULTILINE))
    return passed() if last - first < IDLE else failed(f"{last - first} ticks of the processor in 2 s", ended.evidence())


def overrun(place: Place) -> Outcome:
    """Packets that the kernel drops because nothing takes them from its queue are counted."""
    flood = ("import socket\nend = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
             "for _ in range(5000): end.sendto(bytes(100), ('10.0.0.77', 9))")
    (place.directory / "flood.py").write_text(flood)
    ended = Ends(place).run(1, "kill -STOP $PPID; python3 flood.py; kill -CONT $PPID; ip -s link show ib0")
    if failure := lacks(ended, [r"packets dropped by the kernel +[1-9]"]):
        return failure
    count = counters(ended.output)
    total = count["packets sent by programs"] + count["packets dropped by the kernel"]
    return passed(f"{count['packets dropped by the kernel']} dropped") if total >= 5000 else failed(f"{total} packets", ended.evidence())


def changed(place: Place) -> Outcome:
    """An end answers for addresses that its programs add, and no longer for those that they remove."""
    ends = Ends(place)
    change = ("ip address add 10.0.0.77/24 dev ib0; ip address add fd00::77/64 dev ib0 nodad; ip address del fd00::1/64 dev ib0; "
              "touch changed")
    other = ends.start(1, f"{change}; {WAIT}")
    script = ("until [ -e changed ]; do sleep 0.02; done; ping -c 2 -i 0.1 -w 20 10.0.0.77; ping -c 2 -i 0.1 -w 20 fd00::77; "
              "ping -c 2 -i 0.1 -w 20 10.0.0.1; ! ping -c 1 -W 4 fd00::1")
    ended = ends.run(2, script)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"neighbour does not answer +1"]) or unbalanced(server):
        return failure
    # Late answers follow another request.
    count = len(re.findall(r"packets transmitted, [2-9] received", ended.output))
    return passed() if count == 3 else failed(f"{count} of 3 addresses answer", ended.evidence())


def routed(place: Place) -> Outcome:
    """Packets to distant networks go to the gateway of their route; without one, the destination is asked for."""
    ends = Ends(place)
    other = ends.start(1, "ip address add 192.168.9.1/32 dev lo; ip address add fd99::1/128 dev lo; touch far; " + WAIT)
    script = ("until [ -e far ]; do sleep 0.02; done; ip route add 192.168.9.0/24 via 10.0.0.1; ip route add fd99::/64 via fd00::1; "
              "ping -c 2 -i 0.1 -w 20 192.168.9.1; ping -c 2 -i 0.1 -w 20 fd99::1; "
              "ip route replace 192.168.9.0/24 dev ib0; ! ping -c 1 -W 4 192.168.9.1")
    ended = ends.run(2, script)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"neighbour does not answer +1"]) or unbalanced(server):
        return failure
    # Late answers follow another request.
    count = len(re.findall(r"packets transmitted, [2-9] received", ended.output))
    return passed() if count == 2 else failed(f"{count} of 2 networks answer", ended.evidence())


def exit_codes(place: Place) -> Outcome:
    """The exit code is the command's; its signals, and a command that is missing, have those of shells."""
    for number, (script, status) in enumerate({"exit 7": 7, "kill -TERM $$": 143, "true": 0}.items()):
        ended = Ends(place).run(number + 1, script)
        if ended.status != status:
            return failed(f"{script!r}: {ended.describe()}", ended.evidence())
    ended = place.run("missing", [str(VERBENA), "ipoib", "--address", "10.0.0.1/24", "--", "no-such-program"], SECONDS)
    if ended.status != NOT_FOUND or "cannot find the command" not in ended.output:
        return failed("a missing command", ended.evidence())
    return passed()


def refused(place: Place) -> Outcome:
    """Wrong addresses, names and options: a message that names them, and exit code 2."""
    good = ["--address", "10.0.0.1/24"]
    wrong = {
        ("--", "true"): "--address",
        ("--address", "10.0.0.1", "--", "true"): "10.0.0.1/24",
        ("--address", "10.0.0.1/33", "--", "true"): "32 bits",
        ("--address", "224.0.0.1/4", "--", "true"): "multicast",
        ("--address", "10.0.0.255/24", "--", "true"): "broadcast address of its prefix",
        (*good, *good, "--", "true"): "given twice",
        (*good, "--name", "all", "--", "true"): "all or default",
        (*good, "--name", "a/b", "--", "true"): "printable",
        (*good, "--name", "an-interface-of-17", "--", "true"): "15",
        (*good, "--", "--statistics"): "no option",
    }
    for words, text in wrong.items():
        ended = place.run("refused", [str(VERBENA), "ipoib", *words], SECONDS)
        if ended.status != WRONG_INPUT or text not in ended.output:
            return failed(f"{words} is not refused", ended.evidence())
    return passed(f"{len(wrong)} refused")


def forbidden(before: str, text: str, advice: str, place: Place) -> Outcome:
    """Where the interface cannot be made, the message says why, and the exit code is 3; `verbena doctor` says so, too."""
    for command in ("ipoib --address 10.0.0.1/24 -- true", "doctor"):
        script = f"{before}; exec '{VERBENA}' {command}"
        ended = place.run("forbidden", ["unshare", "-Urm", "sh", "-ec", script], SECONDS)
        if text not in ended.output or advice not in ended.output:
            return failed(f"`{command}` does not say why", ended.evidence())
        if command != "doctor" and ended.status != ENVIRONMENT:
            return failed(f"{ended.describe()}, not {ENVIRONMENT}", ended.evidence())
    return passed()
