"""Ends at the nodes of a fabric: groups and paths by subnet administration, LIDs that change, partitions."""

from __future__ import annotations

import re
from functools import partial

from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool
from subnet.fabric import lacks, up

from .ends import HERE

MANAGERS = ("builtin", "opensm")
ENVIRONMENT = 3
FULL, SEND_ONLY = 1, 8
BROADCAST = "ff12:401b:ffff::ffff:ffff"
# OpenSM names members to those alone that know its key.
MEMBERS = "saquery --smkey 1 -m"
AT = '"$VERBENA" fabric exec --node {} "$VERBENA" ipoib --stats --address 10.0.0.{}/24 {} -- sh -c "{}"'
WAIT = "until [ -e over ]; do sleep 0.02; done"


def cases() -> list[Case]:
    """Two nodes; groups, paths and partitions under both managers."""
    return [
        Case("nodes of a fabric", "", on_fabric),
        *(Case("nodes of a fabric", f"a LID that changes, {mode} mode", partial(readdressed, mode)) for mode in ("datagram", "connected")),
        Case("nodes of a fabric", "partitions", partitioned),
        *(Case("nodes of a fabric", f"a partition that moves, {mode} mode", partial(moved, mode)) for mode in ("datagram", "connected")),
        *(Case("nodes of a fabric", f"{name}, {manager}", partial(function, manager)) for manager in MANAGERS
          for name, function in (("members of groups", members), ("a partition's group", honoured), ("no broadcast group", unjoined))),
        Case("nodes of a fabric", "a manager that does not answer", unanswered),
    ]


def tools(*others: Tool) -> Outcome | None:
    """The reason to skip a case, if tools are missing."""
    wanted = (Tool("/usr/sbin/opensm", "opensm"), Tool("/usr/sbin/saquery", "infiniband-diags"), *others)
    missing = [tool.package for tool in wanted if not tool.present()]
    return skipped("lacks " + ", ".join(missing)) if missing else None


def until(file: str) -> str:
    """A script that waits for a file."""
    return f"until [ -e {file} ]; do sleep 0.02; done"


def manage(log: str, options: str = "") -> str:
    """A script that starts OpenSM, with its process as $manager, and waits for its first sweep."""
    # Otherwise its log stays in a buffer.
    return ("echo force_log_flush TRUE > opensm.conf; "
            f"OSM_CACHE_DIR=. OSM_TMP_DIR=. opensm -F opensm.conf -f {log} {options} > /dev/null & manager=$!; until grep -qs 'SUBNET UP' {log}; do sleep 0.1; done")


def on_fabric(place: Place) -> Outcome:
    """Ends at two nodes of a fabric reach each other; each has its node's GID."""
    at = '"$VERBENA" fabric exec --node {} "$VERBENA" ipoib --address 10.0.0.{}/24 --address fd00::{}/64 -- sh -c "{}"'
    wait = "until [ -e over ]; do sleep 0.02; done"
    script = (at.format("host2", 2, 2, wait) + " & "
              + at.format("host1", 1, 1, "until ping -c 1 -w 1 10.0.0.2; do :; done; ping -c 2 -i 0.1 -w 20 10.0.0.2; "
                          "ping -c 2 -i 0.1 -w 20 fd00::2; echo reached; touch over") + "; touch over; wait")
    ended = up(place, script)
    if not ended.succeeded or "reached" not in ended.output or ended.output.count("2 packets transmitted, 2 received") != 2:
        return failed(ended.describe(), ended.evidence())
    return passed()


def readdressed(mode: str, place: Place) -> Outcome:
    """An end whose port gets another LID, from another manager, is reached at once by its neighbour."""
    if missing := tools(Tool("ibv_devinfo", "ibverbs-utils")):
        return missing
    at = f'"$VERBENA" fabric exec --node {{0}} "$VERBENA" ipoib --mode {mode} --address 10.0.0.{{1}}/24 -- sh -c "{{2}}"'
    pings = "ping -c 2 -i 0.1 -w 10 10.0.0.2"

    script = (manage("log-1") + "; " + at.format("host2", 2, f"touch up; {WAIT}") + " & " + until("up") + "; "
              + at.format("host1", 1, f"{pings}; touch known; {until('moved')}; {pings}; touch over") + " & end=$!; " + until("known") + "; "
              '"$VERBENA" fabric exec --node host2 ibportstate -D 0 1 lid 20 > /dev/null; kill $manager; wait $manager; rm -f guid2lid; '
              + manage("log-2") + '; "$VERBENA" fabric exec --node host2 ibv_devinfo | grep port_lid; touch moved; wait $end; touch over; kill $manager; wait')
    ended = up(place, script, "--sm", "none")
    if not ended.succeeded or not re.search(r"port_lid:\s+20$", ended.output, re.MULTILINE):
        return failed(ended.describe(), ended.evidence())
    # Without the announcement packets are lost for half a minute. Late answers follow another request.
    reached = re.findall(r"packets transmitted, [2-9] received", ended.output)
    if len(reached) != 2:
        return failed("pings were lost", ended.evidence())
    return passed()


def moved(mode: str, place: Place) -> Outcome:
    """Ends reach each other after their partition got another P_Key index at their ports."""
    if missing := tools():
        return missing
    # In the default partition, which takes the old index, two limited members do not reach each other.
    conf = "Default=0x7fff : ALL=limited, SELF=full; storage=0x10, ipoib{} : ALL=full;\n"
    for name, flag in (("partitions.conf", ""), ("changed.conf", ", indx0")):
        (place.directory / name).write_text(conf.format(flag))
    mine = f"--mode {mode} --partition 0x10"
    pings = "ping -c 2 -i 0.1 -w 20 10.0.0.2"
    first = '"$VERBENA" fabric exec --node $node cat /sys/class/infiniband/verbena0/ports/1/pkeys/0'
    script = (manage("log", "-P partitions.conf") + "; " + AT.format("host2", 2, mine, f"touch up; {WAIT}") + " & end=$!; " + until("up") + "; "
              + AT.format("host3", 1, mine, f"{pings}; touch known; {until('moved')}; {pings}; touch over") + " & other=$!; " + until("known") + "; "
              "mv changed.conf partitions.conf; kill -HUP $manager; for node in host2 host3; do "
              f'for look in $(seq 100); do [ "$({first})" = 0x8010 ] && break; sleep 0.1; done; {first}; done; '
              "touch moved; wait $other; touch over; wait $end; kill $manager; wait")
    ended = up(place, script, "--sm", "none", "--topology", "fat-tree:4")
    # On a busy machine ping sends more requests before the second answer.
    return lacks(ended, {"^0x8010$": 2, r"^\d+ packets transmitted, [2-9]\d* received": 2}) or passed()


def records(text: str) -> set[tuple[str, str, int]]:
    """Group, node and join state of each member in the output of saquery."""
    pattern = r"MGID\.+(\S+)\n.*?ScopeState\.+(\S+)\n.*?NodeDescription\.+(\S+)"
    found = re.findall(pattern, text, re.DOTALL)
    return {(group, node, int(state, 16) & 0xf) for group, state, node in found if "unknown" not in node}


def members(manager: str, place: Place) -> Outcome:
    """saquery shows ports as full members of the groups of their interfaces, and as members that only send of those to which their
    programs send. A port stays a member while one of its interfaces is, and is none once that is killed."""
    if missing := tools():
        return missing
    tool = f"python3 '{HERE / 'groups.py'}'"
    group, mgid = "239.1.2.3", "ff12:401b:ffff::f01:203"
    killed = AT.format("host1", 4, "", f"echo \\$PPID > pid; touch up-4; {WAIT}")
    script = (AT.format("host2", 2, "", f"{tool} receive {group} 10.0.0.2 ready & touch up-2; {until('over')}; wait") + " & " + killed + " & "
              + "; ".join(map(until, ("ready", "up-2", "up-4"))) + "; "
              + AT.format("host1", 1, "", f"{MEMBERS}; {tool} send {group} 10.0.0.1 text; {MEMBERS}") + f"; echo ====; {MEMBERS}; echo ====; "
              f'kill -KILL $(cat pid); touch over; wait; for look in $(seq 50); do {MEMBERS} > left; grep -q "PortGid.*fe80" left || break; sleep 0.1; done; '
              "cat left; echo ====")
    ended = up(place, script, "--sm", manager)
    if failure := lacks(ended, {"^text$": 10}):
        return failure
    during, without_one, after, _ = map(records, ended.output.split("===="))
    wanted = {(BROADCAST, "host1", FULL), (BROADCAST, "host2", FULL), (mgid, "host2", FULL), (mgid, "host1", SEND_ONLY)}
    if not wanted <= during:
        return failed(f"saquery does not show {wanted - during}", ended.evidence())
    if (BROADCAST, "host1", FULL) not in without_one or (mgid, "host1", SEND_ONLY) in without_one:
        return failed(f"after the end of an interface the members are {without_one}", ended.evidence())
    return failed(f"{after} are members without interfaces", ended.evidence()) if after else passed()


def honoured(manager: str, place: Place) -> Outcome:
    """MTU, rate, service level and queue key of a partition's broadcast group hold for the interface and its groups."""
    if missing := tools():
        return missing
    # OpenSM gives service levels to groups with quality of service alone.
    (place.directory / "partitions.conf").write_text("Default=0x7fff : ALL=full;\n"
                                                     "fast=0x10, ipoib, mtu=5, rate=7, sl=3, Q_Key=0x80001234 : ALL=full;\n")
    mine = "--partition 0x10"
    script = ('"$VERBENA" capture --out packets -- sh -c \''
              + AT.format("host2", 2, mine, f"touch up; {WAIT}") + " & " + until("up") + "; "
              + AT.format("host1", 1, mine, "cat /sys/class/net/ib0/mtu; ping -c 2 -i 0.1 -w 20 10.0.0.2; saquery -g; touch over") + "; touch over; wait'; "
              "tshark -r packets -T fields -e infiniband.deth.q_key -e icmp.type 2> /dev/null")
    ended = up(place, script, "--sm", manager, "--partitions", "partitions.conf")
    made = r"MGID\.+ff12:401b:8010::1\n.*\n.*Mtu\.+0x85\n.*pkey\.+0x8010\n.*Rate\.+0x87\n.*SL\.+" + ("0x3" if manager == "builtin" else "0x")
    # Each ping is in the capture twice: as it is sent, and with its answer.
    return lacks(ended, ["^4092$", "2 packets transmitted, 2 received", made, r"^0x0*80001234\s+8$", r"^0x0*80001234\s+0$"]) or passed()


def unjoined(manager: str, place: Place) -> Outcome:
    """Without a broadcast group there is no interface: a message names the group and the status."""
    if missing := tools():
        return missing
    (place.directory / "partitions.conf").write_text("Default=0x7fff : ALL=full;\n")
    script = AT.format("host1", 1, "", "echo up") + "; echo status $?"
    ended = up(place, script, "--sm", manager, "--partitions", "partitions.conf")
    if "\nup\n" in ended.output:
        return failed("the interface came up", ended.evidence())
    wanted = [rf"could not join {BROADCAST}, the broadcast group of partition 0xffff: status 0x0[26]00", f"^status {ENVIRONMENT}$"]
    return lacks(ended, wanted) or passed()


def unanswered(place: Place) -> Outcome:
    """While the manager is stopped, packets to a neighbour without a path are dropped and counted; then they arrive."""
    if missing := tools():
        return missing
    # The neighbour knows the path back, because another interface of the node has reached it.
    script = (manage("log") + "; " + AT.format("host2", 2, "", f"touch up-2; {WAIT}") + " & end=$!; " + until("up-2") + "; "
              + AT.format("host1", 3, "", "ping -c 1 -w 20 10.0.0.2 > /dev/null") + "; "
              + AT.format("host1", 1, "", f"touch up-1; {until('stopped')}; ping -c 3 -i 0.2 -w 5 10.0.0.2 > /dev/null; touch lost; {until('again')}; "
                          "ping -c 2 -i 0.1 -w 20 10.0.0.2; touch over") + " & other=$!; " + until("up-1") + "; kill -STOP $manager; touch stopped; "
              + until("lost") + "; kill -CONT $manager; touch again; wait $end $other; kill $manager; wait")
    ended = up(place, script, "--sm", "none")
    return lacks(ended, [r"^  dropped sent: no path to the neighbour +[1-9]", "^2 packets transmitted, 2 received"]) or passed()


def partitioned(place: Place) -> Outcome:
    """Ends of a partition reach each other and no end of another one; a port outside of a partition is refused, with its P_Keys."""
    (place.directory / "partitions.conf").write_text("Default=0x7fff, ipoib : ALL=full;\n"
                                                     "one=0x10, ipoib : 0x0002000000000201=full, 0x0002000000000301=limited;\n")
    at = '"$VERBENA" fabric exec --node {} "$VERBENA" ipoib --partition {} --address 10.0.0.{}/24 -- sh -c "{}"'
    wait = "until [ -e over ]; do sleep 0.02; done"
    script = (at.format("host2", "0x10", 2, f"touch up-1; {wait}") + " & " + at.format("host2", "0x7fff", 3, f"touch up-2; {wait}") + " & "
              "until [ -e up-1 ] && [ -e up-2 ]; do sleep 0.02; done; "
              + at.format("host1", "0x10", 1, "cat /sys/class/net/ib0/pkey; ping -c 2 -i 0.1 -w 20 10.0.0.2; ping -c 1 -w 2 10.0.0.3 || echo apart")
              + "; touch over; wait; " + at.format("host1", "0x11", 1, "true") + "; echo $?")
    ended = up(place, script, "--partitions", "partitions.conf")
    wanted = [r"^0x8010$", r"^2 packets transmitted, 2 received", r"packets transmitted, 0 received", r"^apart$", r"P_Keys are .*0x8010", r"^3$"]
    if "another interface also has the address" in ended.output:
        return failed("ports have one link-local address", ended.evidence())
    if not ended.succeeded or (lost := [one for one in wanted if not re.search(one, ended.output, re.MULTILINE)]):
        return failed(f"{ended.describe()}: {lost} is missing" if ended.succeeded else ended.describe(), ended.evidence())
    return passed()
