"""Programs that use verbs, at the nodes of a fabric."""

from __future__ import annotations

import re
from pathlib import Path

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import free_port
from harness.place import Place

from .fabric import lacks, up

HERE = Path(__file__).resolve().parent
SYSFS = "/sys/class/infiniband/verbena0/ports/1/counters"
SWITCH_PORTS = 8
# A switch and three hosts, whose ports have the GUIDs 0x10101, 0x10201 and 0x10301.
GUIDS = [0x10101, 0x10201, 0x10301]
# The status of a request that the peer does not answer (ibv_wc_status_str), and of a datagram's sender: none.
LOST = "transport retry counter exceeded"
MANAGEMENT_WORDS = 72


def cases() -> list[Case]:
    """Ports, traffic, partitions, counters, events."""
    return [
        Case("verbs: ports as the subnet manager set them", "", ports),
        Case("verbs: traffic between nodes", "", traffic),
        Case("verbs: a link goes down and up", "", link),
        Case("verbs: partitions", "", partitions),
        Case("verbs: counters of a known transfer", "", counted),
        Case("verbs: events", "", events),
        Case("verbs: the fabric's process is killed", "", killed),
        Case("verbs: a child posts on an inherited queue pair", "", inherited),
    ]


def net(place: Place) -> str:
    """The name of a topology in ibsim's format."""
    lines = ["switchguid=0x10001", f'Switch {SWITCH_PORTS} "leaf"']
    lines += [f'[{at + 1}] "host{at + 1}"[1]' for at in range(len(GUIDS))] + [""]
    for at, guid in enumerate(GUIDS):
        lines += [f"caguid={guid - 1:#x}", f'Hca 1 "host{at + 1}"', f'[1]({guid:#x}) "leaf"[{at + 1}]', ""]
    file = place.directory / "three.net"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def listens(port: int) -> str:
    """A command that waits until a program of this host listens at a TCP port."""
    return f'until grep -Eqi ":{port:04x} 0+:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done'


def prints(word: str) -> str:
    """A command that waits until ibv_asyncwatch has printed a word."""
    return f"until grep -q {word} events; do sleep 0.02; done"


def pair(server: str, client: str, at: str = "host2") -> str:
    """A script that runs a server at one node and then a client here."""
    number = free_port()
    port = f"-p {number}"
    return (f'"$VERBENA" fabric exec --node {at} {server} {port} > server.out 2>&1 & {listens(number)}; {client} {port} 127.0.0.1; '
            "echo client $?; wait $!; echo server $?")


def ports(place: Place) -> Outcome:
    """ibv_devinfo and sysfs show the values that the subnet manager has set."""
    sysfs = "cd /sys/class/infiniband/verbena0/ports/1; cat gids/0 pkeys/0 pkeys/1 lid lid_mask_count sm_lid"
    ended = up(place, f"ibv_devinfo -v; {sysfs}")
    wanted = [r"port_lid:\s+2$", r"sm_lid:\s+1$", r"PORT_ACTIVE", r"GID\[ +0\]:\s+fe80(:0000)*::?.*2:0:201|fe80:0000:0000:0000:0002:0000:0000:0201",
              r"node_guid:\s+0002:0000:0000:0200", r"active_speed:\s+50"]
    if failure := lacks(ended, wanted):
        return failure
    if failure := lacks(up(place, "ibv_devinfo", "--sm", "none"), [r"PORT_INIT", r"sm_lid:\s+0$"]):
        return failure
    (place.directory / "partitions.conf").write_text("Default=0x7fff : ALL=full ;\nP=0x8001 : ALL=full ;\n")
    options = "partition_config_file partitions.conf\nsubnet_prefix 0xfec0000000000007\nlmc 1\n"
    (place.directory / "opensm.conf").write_text(options)
    script = f"opensm -o -F $PWD/opensm.conf -f log > /dev/null; ibv_devinfo -v; {sysfs}"
    wanted = [r"port_lmc:\s+0x01", r"fec0:0000:0000:0007:0002:0000:0000:0201", r"^0x8001$", r"^0xffff$", r"PORT_ACTIVE"]
    return lacks(up(place, script, "--sm", "none"), wanted) or passed("builtin, none, OpenSM")


def traffic(place: Place) -> Outcome:
    """Every transport reaches the other node by its LID; a LID that no port has is not answered."""
    for server in ("ibv_rc_pingpong -n 200", "ibv_uc_pingpong -n 200", "ibv_ud_pingpong -n 200 -s 1024", "ibv_srq_pingpong -n 200",
                   "ibv_rc_pingpong -n 200 -g 0", "ib_write_bw -n 200", "ib_send_lat -n 200", "ib_read_bw -n 200", "ib_atomic_bw -n 200"):
        if failure := lacks(up(place, pair(server, server)), [r"^client 0", r"^server 0"]):
            return failure
    return passed("9 programs")


def link(place: Place) -> Outcome:
    """Requests over a link that is down are not answered; datagrams are dropped silently; all works again after it is up."""
    again = pair("ibv_rc_pingpong -n 50", "ibv_rc_pingpong -n 50")
    lost = pair("timeout 10 ibv_rc_pingpong -n 50", "ibv_rc_pingpong -n 50")
    silent = pair("timeout 3 ibv_ud_pingpong -n 50 -s 1024", "timeout 2 ibv_ud_pingpong -n 50 -s 1024")
    script = f"ibportstate 1 2 disable > /dev/null; {lost}; {silent}; ibportstate 1 2 enable > /dev/null; {again}"
    ended = up(place, script)
    statuses = re.findall(r"^(?:client|server) (\d+)", ended.output, re.MULTILINE)
    if LOST not in ended.output or statuses[0] != "1" or statuses[2:] != ["124", "124", "0", "0"]:
        return failed(f"statuses {statuses}", ended.evidence())
    number = free_port()
    port = f"-p {number}"
    running = (f'"$VERBENA" fabric exec --node host2 ib_write_bw -D 5 {port} > server.out 2>&1 & {listens(number)}; '
               f"ib_write_bw -D 5 {port} 127.0.0.1 & client=$!; until [ $(cat {SYSFS}/port_xmit_packets) -gt 5000 ]; do sleep 0.02; done; "
               "ibportstate 1 1 disable > /dev/null; wait $client; echo client $?; wait")
    ended = up(place, running)
    if "client 0" in ended.output or "Completion with error" not in ended.output:
        return failed("traffic goes on over a disabled link", ended.evidence())
    return passed("retries exceeded, silence, recovery")


def partitions(place: Place) -> Outcome:
    """Full members reach all members of their partition, limited ones do not reach each other, and others reach no member."""
    topology = net(place)
    file = place.directory / "partitions.conf"
    file.write_text(
        f"Default=0x7fff : ALL=limited, SELF=full, {GUIDS[0]:#x}=full ;\n"
        f"P=0x8001 : {GUIDS[1]:#x}=full, {GUIDS[2]:#x}=full ;\n")
    from_host3 = '"$VERBENA" fabric exec --node host3 '
    for manager in ("builtin", "opensm"):
        for server, client, is_reached in (
            ("ibv_rc_pingpong -n 50", "ibv_rc_pingpong -n 50", True),
            ("timeout 8 ibv_rc_pingpong -n 50", f"{from_host3} ibv_rc_pingpong -n 50", False),
            ("timeout 4 ibv_ud_pingpong -n 50 -s 512", "timeout 3 ibv_ud_pingpong -n 50 -s 512", True),
            ("timeout 4 ibv_ud_pingpong -n 50 -s 512", f"{from_host3} timeout 3 ibv_ud_pingpong -n 50 -s 512", False),
            ("ib_write_bw --pkey_index=1 -n 50", f"{from_host3} ib_write_bw --pkey_index=1 -n 50", True),
            ("timeout 8 ib_write_bw --pkey_index=1 -n 50", f"{from_host3} ib_write_bw -n 50", False),
        ):
            ended = up(place, pair(server, client), "--sm", manager, "--partitions", str(file), "--topology", topology, "--node", "host1")
            was_reached = re.search(r"^client 0$", ended.output, re.MULTILINE) is not None
            if was_reached != is_reached or not ended.succeeded:
                return failed(f"{manager}, {client} to {server}: reached is {was_reached}", ended.evidence())
    return passed("6 pairs, by both managers")


COUNTS = ("PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts")
# Two hosts and the ports of the switch between them, as perfquery names them.
WAY = ("2 1", "1 1", "1 2", "3 1")


def snapshot(text: str) -> list[dict[str, int]]:
    """The counters of WAY, from the output of perfquery -x."""
    found = [[int(value) for value in re.findall(name + r":\.+(\d+)", text)] for name in COUNTS]
    return [dict(zip(COUNTS, values)) for values in zip(*found)]


# Programs between the first and the second host, with packets and words from the first to the second and back.
KNOWN = {
    # Messages of 4 packets of 1024 bytes, with 6 words of headers each.
    "ibv_rc_pingpong -n 1000 -s 4096": ((4000, 1048_000), (4000, 1048_000)),
    # The first packet of a write has 4 words more.
    "ib_write_bw -n 1000 -s 65536 -m 4096": ((16_000, 16_384_000 + 96_000 + 4000), (0, 0)),
    "ib_read_bw -n 100 -s 8192 -m 4096": ((100, 1000), (200, 100 * (2048 + 12 + 2))),
    "ib_send_lat -n 1000 -s 16": ((1000, 10_000), (1000, 10_000)),
    "ib_write_lat -n 1000 -s 16": ((1000, 14_000), (1000, 14_000)),
    "ibv_ud_pingpong -n 1000 -s 1024": ((1000, 264_000), (1000, 264_000)),
}


def counted(place: Place) -> Outcome:
    """Each port on the way counts the packets and bytes of a known transfer, and the management packets, and nothing else."""
    look = "".join(f"perfquery -x {port}; " for port in WAY)
    for program, (forth, back) in KNOWN.items():
        ended = up(place, f"{look} echo ====; {pair(program, program)}; echo ====; {look} ibqueryerrors; cat {SYSFS}/port_xmit_packets")
        if failure := lacks(ended, [r"^client 0", r"^server 0", r"^## Summary: 3 nodes checked, 0 bad"]):
            return failure
        before, _, after = ended.output.split("====")
        for at, (old, new) in enumerate(zip(snapshot(before), snapshot(after))):
            # The first host and the second port of the switch send the packets of the first host.
            sent, received = (forth, back) if at in (0, 2) else (back, forth)
            for data, packets, known in (("PortXmitData", "PortXmitPkts", sent), ("PortRcvData", "PortRcvPkts", received)):
                others = new[packets] - old[packets] - known[0]
                words = new[data] - old[data] - known[1] - others * MANAGEMENT_WORDS
                if not 0 <= others <= 40 or words != 0:
                    return failed(f"{program}: port {WAY[at]} {data}: {others} other packets, {words} words too many", ended.evidence())
        shown = int(ended.output.split()[-1])
        if not snapshot(after)[0]["PortXmitPkts"] <= shown <= snapshot(after)[0]["PortXmitPkts"] + 40:
            return failed(f"sysfs has {shown} packets", ended.evidence())
    return passed(f"{len(KNOWN)} programs, {len(WAY)} ports")



def events(place: Place) -> Outcome:
    """ibv_asyncwatch reports changes by the subnet manager, and links that go down and up."""
    (place.directory / "partitions.conf").write_text("Default=0x7fff : ALL=full ;\nP=0x8001 : ALL=full ;\n")
    (place.directory / "opensm.conf").write_text("partition_config_file partitions.conf\nsubnet_prefix 0xfec0000000000007\n")
    script = ("stdbuf -oL ibv_asyncwatch > events & watch=$!; "
              f"{prints('FD')}; opensm -o -F $PWD/opensm.conf -f log > /dev/null; {prints('PORT_ACTIVE')}; "
              f"ibportstate -D 0,1 1 disable > /dev/null 2>&1 & {prints('PORT_ERR')}; kill $watch; cat events; wait")
    wanted = [f"IBV_EVENT_{name} .*port 1$" for name in
              ("LID_CHANGE", "SM_CHANGE", "PKEY_CHANGE", "GID_CHANGE", "CLIENT_REREGISTER", "PORT_ACTIVE", "PORT_ERR")]
    # Its ports have no LIDs before the manager assigns some.
    ended = up(place, script, "--sm", "none", "--topology", net(place), "--node", "host1")
    return lacks(ended, wanted) or passed(f"{len(wanted)} events")


def killed(place: Place) -> Outcome:
    """When the fabric's process dies, ports are down, traffic fails, and no program hangs."""
    number = free_port()
    port = f"-p {number}"
    script = ("stdbuf -oL ibv_asyncwatch > events & watch=$!; "
              f'"$VERBENA" fabric exec --node host2 timeout 20 ib_write_bw -D 30 {port} > server.out 2>&1 & server=$!; {listens(number)}; '
              f"timeout 20 ib_write_bw -D 30 {port} 127.0.0.1 & client=$!; sleep 1; "
              'kill -9 $(pgrep -f "fabric __keep $(dirname "$VERBENA_FABRIC")"); wait $client; echo client $?; ' f"{prints('PORT_ERR')}; cat events; "
              "kill $watch $server; timeout 5 ibv_devinfo; echo devinfo $?")
    ended = up(place, script)
    if failure := lacks(ended, [r"^client [1-9]", r"IBV_EVENT_PORT_ERR", r"cannot reach the fabric", r"^devinfo [0-9]+"]):
        return failure
    if re.search(r"^(client|devinfo) 124", ended.output, re.MULTILINE):
        return failed("a program hangs", ended.evidence())
    return passed("no program hangs")


def inherited(place: Place) -> Outcome:
    """A child of fork(2) that posts on its parent's queue pair does no harm."""
    program = c_program.compile_program(HERE / "inherited.c")
    return lacks(up(place, f"{program} child_posts"), []) or passed("parent and child go on")
