"""`verbena fabric up`: unmodified management tools on a fabric that is state."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from harness.build_tree import ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool

from . import exporter, faults, groups, managers, models, partitions, programs, verbs
from .fabric import SECONDS, lacks, up

TITLE = "management tools on a fabric"
REQUIRES = [Tool("/usr/sbin/ibnetdiscover", "infiniband-diags"), Tool("/usr/sbin/opensm", "opensm"), Tool("unshare", "util-linux")]
# Dumps of others, where the checkout has them beside it.
REAL = ROOT.parent / "shared" / "data" / "fabrics"
WRONG_INPUT = 2
# The large fabric: a tree of two levels.
LEAVES, HOSTS, SPINES, PORTS = 54, 18, 18, 54
SWITCH, HOST, OTHER = "0x0002000000000100", "0x0002000000000200", "0x0002000000000300"


def cases() -> list[Case]:
    """A small fabric, OpenSM, real dumps, a large fabric, errors."""
    return [
        Case("every tool on a small fabric", "", tools),
        Case("a program at another node", "", pinged),
        Case("counters", "", counted),
        Case("OpenSM configures the fabric", "", managed),
        Case("tools beside OpenSM", "", beside),
        Case("dumps come back", "", round_trip),
        Case("dumps come back", "written for the test", written),
        Case("a large fabric", "", large),
        Case("the fabric's process is killed", "", killed),
        Case("wrong arguments", "", refused),
        *verbs.cases(),
        *exporter.cases(),
        *groups.cases(),
        *faults.cases(),
        *models.cases(),
        *partitions.cases(),
        *programs.cases(),
        *managers.cases(),
        Case("generated shapes", "", shapes),
    ]


# Each tool on the small fabric, and its output: patterns and their numbers.
TOOLS: dict[str, dict[str, int]] = {
    "ibstat": {r"State: Active": 1, r"Base lid: 2": 1, r"SM lid: 1": 1, r"Rate: 200": 1},
    "ibstat -l": {r"^verbena0$": 1},
    "ibstatus": {r"base lid:\t *0x2": 1, r"state:\t\t *4: ACTIVE": 1},
    "ibaddr": {r"LID start 0x2 end 0x2": 1},
    "sminfo": {r"sm lid 1 .*SMINFO_MASTER": 1},
    "ibnetdiscover": {r"^Switch\t8": 1, r"^Ca\t1": 2, r"4xHDR": 4},
    "ibnetdiscover -p": {r"^SW .* - CA": 2, r"^CA .* - SW": 2},
    "ibnetdiscover -f": {r"4xHDR s=4 w=2 v=3": 4},
    "iblinkinfo": {r"Active/  LinkUp": 4, r"Down/ Polling": 6},
    "ibhosts": {r"^Ca\t: .*\"host[12] mlx5_0\"": 2},
    "ibswitches": {r"^Switch\t: .*\"switch1\"": 1},
    "ibroute 1": {r"^3 valid lids dumped": 1},
    "ibtracert 2 3": {r"^\[1\] -> switch port": 1, r"^To ca": 1},
    "smpquery nodeinfo -D 0,1": {r"Guid:\.+" + SWITCH: 3},
    "smpquery portinfo 2": {r"LinkState:\.+Active": 1},
    "smpquery switchinfo 1": {r"LinearFdbTop:\.+3": 1},
    "smpquery pkeys 2": {r"0: 0xffff": 1},
    "smpquery guidinfo 2": {r"0x0002000000000201": 1},
    "smpquery -c nodeinfo 1 0,2": {r"Guid:\.+" + OTHER: 2},
    "perfquery": {r"PortXmitPkts": 1},
    "perfquery -x 3 1": {r"PortXmitPkts": 1, r"PortUnicastXmitPkts": 1},
    "perfquery -a 1": {r"port 255": 1},
    "ibqueryerrors": {r"^## Summary: 3 nodes checked, 0 bad": 1},
    "saquery": {r"NodeDescription": 3},
    "saquery -p": {r"PathRecord dump": 9},
    "saquery -g": {r"ff12:401b:ffff::ffff:ffff": 1},
    "saquery -c": {r"Class version\.+2": 1},
    "saquery -s": {r"EndPortLid\.+1$": 1},
    "saquery LR": {r"LinkRecord dump": 4},
    "saquery PIR": {r"PortInfoRecord dump": 11},
    "ibnodes": {r"^Ca\t: ": 2, r"^Switch\t: ": 1},
    "ibrouters": {},
    "ibidsverify": {},
    "ibportstate 1 2 query": {r"LinkState:\.+Active": 2, r"PhysLinkState:\.+LinkUp": 2},
    "smpdump -D 0,1 0x11": {r"^0101 0208 0002 0000 0000 0100": 1},
    "ibsysstat 3": {r"sysstat ping succeeded": 1},
    '"$VERBENA" fabric exec --node host2 ibsysstat -S & until ibsysstat 3 cpu | grep "^cpu 0: "; do sleep 0.1; done; '
    'kill $!': {r"^cpu 0: ": 1},
    "dump_lfts": {r"^0x0003 002 : .*host2": 1, r"^3 valid lids dumped": 1},
    "dump_mfts": {r"^0 valid mlids dumped": 1},
    "dump_fts": {r"^0x0002 001 : .*host1": 1, r"^3 valid lids dumped": 1},
    "ibnetdiscover --cache cache > dump; dump_lfts > lfts; check_lft_balance -l lfts -i cache -v": {},
    "ibnetdiscover --cache cache > dump; ibcacheedit --switchguid " + SWITCH + ":0x9 cache new; ibnetdiscover --load-cache new": {r"S-0000000000000009": 3},
    # Its cache is in a directory that root alone may write to.
    f"ibfindnodesusing -R {SWITCH} 2 2>&1 || true": {r"==>>  " + OTHER + r" 1 \(host2|cannot create|Failed to open": 1},
    "perfquery -E 2 1": {r"PortLocalPhysicalErrors:\.+0": 1},
    "perfquery -D 1 1": {r"PortInactiveDiscards:\.+0": 1},
}


# Congestion control and a vendor's registers, which no node of a fabric has: these programs end with an error.
REFUSED = {"ibccquery CongestionInfo 2": "congestion info query failed", "ibccconfig CongestionKeyInfo 2 0 0 0 0 0": "failed",
           "vendstat -N 2": "classportinfo query"}
# Programs that other cases run.
ELSEWHERE = {"ibping"}


def tools(place: Place) -> Outcome:
    """Every program of Debian's infiniband-diags prints the fabric as it is."""
    covered = {word for words in (*TOOLS, *REFUSED) for word in words.replace(";", " ").split()} | ELSEWHERE
    if missing := programs.programs("infiniband-diags") - covered:
        return failed(f"programs without a test: {sorted(missing)}")
    for words, text in REFUSED.items():
        ended = up(place, words)
        if ended.succeeded or text not in ended.output:
            return failed(f"{words} does not fail as on hardware without that class", ended.evidence())
    for words, wanted in TOOLS.items():
        if failure := lacks(up(place, words), wanted):
            return failure
    return passed(f"{len(TOOLS)} commands")


def pinged(place: Place) -> Outcome:
    """ibping reaches a server at another node, and no answer comes without one."""
    script = '"$VERBENA" fabric exec --node host2 ibping -S & sleep 0.5; ibping -c 3 3; kill $!'
    if failure := lacks(up(place, script), [r"3 packets transmitted, 3 received"]):
        return failure
    ended = up(place, "ibping -c 1 3")
    if "0 received" not in ended.output:
        return failed("an answer without a server", ended.evidence())
    return passed("3 answers")


def counted(place: Place) -> Outcome:
    """Each packet is counted at each port; perfquery -R clears, and sysfs agrees with perfquery."""
    script = ("perfquery -R 3 1; for n in 1 2 3 4 5; do sminfo > /dev/null; smpquery nodeinfo 3 > /dev/null; done; perfquery 3 1; "
              "cat /sys/class/infiniband/verbena0/ports/1/counters/port_xmit_packets; perfquery -x 2 1")
    ended = up(place, script)
    # The five datagrams, the answer to the reset, and the request of the query (and its ClassPortInfo).
    if failure := lacks(ended, [r"PortRcvPkts:\.+\d+"]):
        return failure
    received, sent = (int(re.search(name + r":\.+(\d+)", ended.output)[1]) for name in ("PortRcvPkts", "PortXmitPkts"))
    if not 5 <= received <= 12 or sent not in (received - 1, received):
        return failed(f"{received} received, {sent} sent", ended.evidence())
    own = int(re.search(r"^(\d+)$", ended.output, re.MULTILINE)[1])
    later = int(re.findall(r"PortXmitPkts:\.+(\d+)", ended.output)[1])
    if not 0 < own <= later <= own + 4:
        return failed(f"sysfs has {own}, perfquery {later}", ended.evidence())
    return passed(f"{received} packets")


def managed(place: Place) -> Outcome:
    """OpenSM's first sweep ends, and the ports have its addresses; --sm opensm does the same."""
    script = ("ibstat | grep State; opensm -o -f log > /dev/null; grep 'SUBNET UP' log; ibnetdiscover; ibstat")
    wanted = [r"State: Initializing", r"SUBNET UP", r"^Ca\t1", r"State: Active"]
    if failure := lacks(up(place, script, "--sm", "none"), wanted):
        return failure
    if failure := lacks(up(place, "sminfo; saquery", "--sm", "opensm"), {r"SMINFO_MASTER": 1, r"NodeDescription": 3}):
        return failure
    return passed("SUBNET UP")


def beside(place: Place) -> Outcome:
    """Requests without a receiver reach no other program: OpenSM survives perfquery -c and ibping."""
    script = "perfquery -c 1 1; ibping -c 1 3; sminfo && saquery"
    return lacks(up(place, script, "--sm", "opensm"), {r"SMINFO_MASTER": 1, r"NodeDescription": 3}) or passed("OpenSM lives")


def blocks(text: str) -> set[tuple[str, ...]]:
    """The blocks of a dump, without comments, order of ports and the speed code that new versions add."""
    found: list[list[str]] = []
    for line in text.splitlines():
        line = re.sub(r" e=\d+$", "", re.sub(r"\s+", " ", line).strip())
        if line.startswith("vendid="):
            found.append([])
        if found and line and not line.startswith(("#", "Non-Chassis", "Chassis")):
            found[-1].append(line)
    return {tuple(sorted(block)) for block in found}


def round_trip(place: Place) -> Outcome:
    """ibnetdiscover on a fabric read from a dump prints the dump's blocks; only nodes without a block of their own are added."""
    files = sorted(REAL.glob("*.topo"))
    if not files:
        return skipped("no dumps of others lie beside the checkout")
    for file in files:
        text = file.read_text(errors="replace")
        option = "-f" if " s=4 w=" in text else ""
        ended = up(place, f"ibnetdiscover {option} > dump", "--topology", str(file))
        if not ended.succeeded:
            return failed(f"{file.name}: {ended.describe()}", ended.evidence())
        wanted, found = blocks(text), blocks((place.directory / "dump").read_text())
        if lost := wanted - found:
            return failed(f"{file.name}: {len(lost)} of {len(wanted)} blocks differ", "\n".join(sorted(lost)[0]))
    return passed(f"{len(files)} dumps")


# Without blank lines between the blocks, GUIDs without leading zeros, links of two rates, and a router.
WRITTEN = """\
# Initiated from node 0c42a10300000f04 port 0c42a10300000f04
vendid=0x2c9
devid=0xd2f2
sysimgguid=0xc42a10300000a00
switchguid=0xc42a10300000a00(c42a10300000a00)
Switch\t64 "S-0c42a10300000a00"\t\t# "MF0;one:MQM9700/U1" enhanced port 0 lid 8 lmc 0
[1]\t"H-0c42a10300000f04"[1](c42a10300000f04) \t\t# "node1 mlx5_0" lid 3 4xNDR
[11]\t"S-0c42a10300000b00"[11]\t\t# "MF0;two:MQM9700/U1" lid 25 4xDDR
[12]\t"S-0c42a10300000b00"[12]\t\t# "MF0;two:MQM9700/U1" lid 25 2xNDR
[64]\t"R-0c42a10300000a08"[2](c42a10300000a0a) \t\t# "MF0;one:MQM9700/U1/RT" lid 9 1xNDR
vendid=0x2c9
devid=0xd2f2
sysimgguid=0xc42a10300000b00
switchguid=0xc42a10300000b00(c42a10300000b00)
Switch\t64 "S-0c42a10300000b00"\t\t# "MF0;two:MQM9700/U1" base port 0 lid 25 lmc 0
[11]\t"S-0c42a10300000a00"[11]\t\t# "MF0;one:MQM9700/U1" lid 8 4xDDR
[12]\t"S-0c42a10300000a00"[12]\t\t# "MF0;one:MQM9700/U1" lid 8 2xNDR
vendid=0x2c9
devid=0x1021
sysimgguid=0xc42a10300000f04
caguid=0xc42a10300000f04
Ca\t1 "H-0c42a10300000f04"\t\t# "node1 mlx5_0"
[1](c42a10300000f04) \t"S-0c42a10300000a00"[1]\t\t# lid 3 lmc 0 "MF0;one:MQM9700/U1" lid 8 4xNDR
vendid=0x2c9
devid=0xc839
sysimgguid=0xc42a10300000a00
rtguid=0xc42a10300000a08
Rt\t8 "R-0c42a10300000a08"\t\t# "MF0;one:MQM9700/U1/RT"
[2](c42a10300000a0a) \t"S-0c42a10300000a00"[64]\t\t# lid 9 lmc 0 "MF0;one:MQM9700/U1" lid 8 1xNDR
"""


def written(place: Place) -> Outcome:
    """A dump from another tool is read without remarks and comes back unchanged."""
    file = place.directory / "written.topo"
    for end in ("\n", "\r\n"):
        file.write_text(WRITTEN.replace("\n", end), newline="")
        ended = up(place, "ibnetdiscover > dump", "--topology", str(file))
        if not ended.succeeded or ended.output.strip():
            return failed(ended.describe() if not ended.succeeded else "the dump gives remarks", ended.evidence())
        wanted, found = blocks(WRITTEN), blocks((place.directory / "dump").read_text())
        if wanted != found:
            return failed("blocks differ", "\n".join(sorted((wanted ^ found).pop())))
    return passed(f"{len(wanted)} blocks")


def tree() -> str:
    """A tree of two levels in ibsim's format."""
    lines = []
    for leaf in range(LEAVES):
        lines.append(f'Switch {PORTS} "leaf-{leaf}"')
        lines += [f'[{host + 1}] "host-{leaf}-{host}"[1]' for host in range(HOSTS)]
        lines += [f'[{HOSTS + spine + 1}] "spine-{spine}"[{leaf + 1}]' for spine in range(SPINES)] + [""]
    for spine in range(SPINES):
        lines.append(f'Switch {PORTS} "spine-{spine}"')
        lines += [f'[{leaf + 1}] "leaf-{leaf}"[{HOSTS + spine + 1}]' for leaf in range(LEAVES)] + [""]
    for leaf in range(LEAVES):
        for host in range(HOSTS):
            lines += [f'Hca 1 "host-{leaf}-{host}"', f'[1] "leaf-{leaf}"[{host + 1}]', ""]
    return "\n".join(lines) + "\n"


def large(place: Place) -> Outcome:
    """saquery shows every node of 972 hosts, whose answer is one of many segments; routes of both managers reach their ends."""
    net = place.directory / "large.net"
    net.write_text(tree())
    hosts, switches = LEAVES * HOSTS, LEAVES + SPINES
    begin = time.monotonic()
    ended = up(place, "ibnetdiscover > dump; saquery; ibtracert -n 10 1000", "--topology", str(net), "--node", "host-0-0")
    taken = time.monotonic() - begin
    if failure := lacks(ended, {r"NodeDescription": hosts + switches, r"^To \{": 1}):
        return failure
    found = (place.directory / "dump").read_text()
    if (found.count("\nCa\t"), found.count("\nSwitch\t")) != (hosts, switches):
        return failed("ibnetdiscover's output lacks nodes", found[:2000])
    ended = up(place, "opensm -o -f log > /dev/null; grep 'SUBNET UP' log; ibtracert -n 10 1000", "--topology", str(net), "--sm", "none",
               "--node", "host-0-0")
    if failure := lacks(ended, [r"SUBNET UP", r"^To \{"]):
        return failure
    return passed(f"{hosts} hosts, {taken:.1f} s")


# Shapes, with their switches and hosts. (ibroute leaves out the last LID if that is 64.)
SHAPES = {"fat-tree:4": (6, 8), "fat-tree:3,2,5,2": (5, 15), "torus:4x4x2,2": (32, 64), "torus:3,2": (3, 6), "dragonfly:9,4,2,2": (36, 72)}


def shapes(place: Place) -> Outcome:
    """A shape has its switches and hosts, and the tables of both managers lead from each host to each other; a wrong one is refused."""
    for shape, (switches, hosts) in SHAPES.items():
        for manager in ("builtin", "opensm"):
            script = ('ibnetdiscover > dump; for lid in $(sed -n "s/^Switch.* lid \\([0-9]*\\) .*/\\1/p" dump); do ibroute $lid; done > routes; '
                      f'"{VERBENA}" fabric show dump --routes routes --json')
            ended = up(place, script, "--topology", shape, "--sm", manager)
            if failure := lacks(ended, []):
                return failure
            dump = (place.directory / "dump").read_text()
            if (dump.count("\nSwitch\t"), dump.count("\nCa\t")) != (switches, hosts):
                return failed(f"{shape} has {dump.count(chr(10) + 'Ca' + chr(9))} hosts", ended.evidence())
            paths = json.loads(ended.output)["paths"]
            if paths["broken"] or paths["pairs"] != hosts * (hosts - 1):
                return failed(f"{shape}, {manager}: {paths}", ended.evidence())
    for shape, text in (("fat-tree:5", "is even"), ("torus:4x", "no number"), ("dragonfly:9,1,1,1", "does not reach"),
                        ("fat-tree:99999,99999,1", "more than"), ("fat-tree:300,2,300", "a subnet has at most")):
        ended = up(place, "true", "--topology", shape)
        if ended.status != WRONG_INPUT or text not in ended.output:
            return failed(f"{shape} is not refused", ended.evidence())
    return passed(f"{len(SHAPES)} shapes")


def killed(place: Place) -> Outcome:
    """A program that waits for a datagram gets an error when the fabric's process dies, and later ones do not start."""
    script = ("timeout 20 ibping -S & server=$!; sleep 0.5; pid=$(pgrep -f \"fabric __keep $(dirname \"$VERBENA_FABRIC\")\"); "
              "kill -9 $pid; wait $server; echo server $?; timeout 20 sminfo; echo sminfo $?")
    ended = up(place, script)
    if failure := lacks(ended, [r"^server \d+", r"^sminfo [1-9]"]):
        return failure
    statuses = re.findall(r"^(?:server|sminfo) (\d+)", ended.output, re.MULTILINE)
    if "124" in statuses:
        return failed("a program hangs", ended.evidence())
    if left := [path.name for path in Path("/tmp").glob("verbena-fabric-*") if not any(path.iterdir())]:
        return failed(f"left behind: {left}")
    return passed("no program hangs")


def refused(place: Place) -> Outcome:
    """A file of another kind, a node that is not there, a command outside, two devices: exit status 2. Contradictions and parts: a line."""
    other = place.directory / "other"
    other.write_text("hello\n")
    for options, text in ((["--topology", str(other)], "no known format"), (["--node", "host9"], "no node"),
                          (["--node", "mlx5_0"], "2 nodes")):
        ended = up(place, "true", *options)
        if ended.status != WRONG_INPUT or text not in ended.output:
            return failed(f"{options} is not refused", ended.evidence())
    ended = place.run("exec", [str(VERBENA), "fabric", "exec", "--node", "host1", "true"], SECONDS)
    if ended.status != WRONG_INPUT or "on no fabric" not in ended.output:
        return failed("a command outside of a fabric is not refused", ended.evidence())
    ended = up(place, '"$VERBENA" run --devices 2 true')
    if ended.status != WRONG_INPUT or "a node of a fabric is one device" not in ended.output:
        return failed("several devices are not refused", ended.evidence())
    parts = place.directory / "topology.conf"
    parts.write_text("SwitchName=s0 Nodes=a,b\nSwitchName=s1 Nodes=b,c\nSwitchName=s2 Nodes=d\n")
    ended = up(place, "true", "--topology", str(parts))
    wanted = [r"nodes are below several switches \(1\), such as b", r"4 nodes have no path to s0, .* such as s1"]
    return lacks(ended, wanted) or passed("5 refused, 2 warnings")
