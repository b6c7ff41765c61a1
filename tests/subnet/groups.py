"""Multicast groups of the fabric's manager: memberships, and the tables of switches."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool

from .fabric import lacks, up

HERE = Path(__file__).resolve().parent
GROUP, LID = "ff12:a01b:fe80::1", "0xc001"
FULL, SEND_ONLY = 1, 4
# Hosts of the first, the second and the last of four leaves; the one of the second sends only.
STATES = {3: SEND_ONLY, 1: FULL, 2: FULL, 8: FULL}
# The ports of the tree: two hosts below each leaf, then the spines, of which one is in it.
TREE = {"leaf-1": [1, 2, 3], "leaf-2": [3], "leaf-4": [2, 3], "spine-1": [1, 2, 4]}
SWITCHES = 6
# The column of port 0 in the output of ibroute -M; each port has two.
COLUMN = 12


def cases() -> list[Case]:
    """Memberships, by datagrams and by the connection manager."""
    return [Case("multicast tables follow memberships", "", followed),
            *(Case("groups of librdmacm", manager, partial(joined, manager)) for manager in ("builtin", "opensm")),
            Case("groups of librdmacm", "refused", refused)]


def tables(text: str) -> dict[str, list[int]]:
    """The ports of the group at each switch, by its description, from the output of ibroute -M."""
    found = {}
    for part in text.split("Multicast mlids")[1:]:
        heading, *lines = part.splitlines()
        entries = [line[COLUMN::2] for line in lines if line.startswith(LID)]
        found[re.search(r"\((.*?)\):", heading)[1]] = [port for entry in entries for port, mark in enumerate(entry) if mark == "x"]
    return found


def followed(place: Place) -> Outcome:
    """A tree of switches leads to the members, the switch of one that only sends is in it, and all entries go with the members."""
    member = c_program.compile_program(HERE / "member.c", libraries=())
    joins = [f'"$VERBENA" fabric exec --node host{host} {member} {GROUP} {state}' for host, state in STATES.items()]
    switches = 'for lid in $(ibswitches | sed "s/.* lid \\([0-9]*\\) .*/\\1/"); do ibroute -M $lid; done'
    # A group has members after its first full one.
    script = "; ".join([*joins[1:], joins[0], "echo ====", switches, "echo ====", f"saquery -m {LID}; saquery MFTR", "echo ====",
                        *(f"{join} leave" for join in joins), switches])
    ended = up(place, script, "--topology", "fat-tree:4")
    if failure := lacks(ended, {rf"^status 0 lid {LID}": 2 * len(STATES)}):
        return failure
    _, joined, records, left = ended.output.split("====")
    if {name: ports for name, ports in tables(joined).items() if ports} != TREE:
        return failed(f"the tables are {tables(joined)}", ended.evidence())
    if (records.count("PortGid"), records.count("MFT Record dump")) != (len(STATES), len(TREE)):
        return failed("the records lack members or tables", ended.evidence())
    if len(tables(left)) != SWITCHES or any(tables(left).values()):
        return failed(f"after the last member the tables are {tables(left)}", ended.evidence())
    return passed(f"{len(STATES)} members, {len(TREE)} switches")


# A receiver at the second host and a sender at the first one; mckey ends after its messages.
MCKEY = Tool("mckey", "rdmacm-utils")
ADDRESS, MGID = "224.1.2.3", "ff12:4001:ffff::1:203"
RECEIVER = f'"$VERBENA" fabric exec --node host2 stdbuf -o0 mckey -m {ADDRESS} -b 127.0.0.1 > receiver.log 2>&1'


def joined(manager: str, place: Place) -> Outcome:
    """mckey's ports join their group at subnet administration, with its LID, and leave it at their end, also when they are killed."""
    if not MCKEY.present():
        return skipped("lacks rdmacm-utils")
    # OpenSM shows members only to requests with its SM_Key.
    members = "saquery --smkey 1 -m"
    ready = "until grep -qE 'receiving data transfers|return status' receiver.log; do sleep 0.05; done"
    gone = f"for turn in $(seq 200); do saquery -g > groups; grep -q '{MGID}' groups || break; sleep 0.05; done; grep -c '{MGID}' groups || true"
    script = "; ".join([
        f"{RECEIVER} & receiver=$!", ready, "saquery -g", members, f"mckey -m {ADDRESS} -b 127.0.0.1 -s", "wait $receiver; echo receiver $?", gone,
        "echo ====", f"{RECEIVER} & receiver=$!", "sleep 0.2", ready, "saquery -g", "kill -9 $receiver", gone,
        # The last program to end tidies up for a killed one.
        f"mckey -m {ADDRESS} -b 127.0.0.1 -s > last.log"])
    ended = up(place, script, "--sm", manager)
    if failure := lacks(ended, {rf"MGID\.+{MGID}": 3, r"^receiver 0$": 1, r"^0$": 2}):
        return failure
    records = [part for part in ended.output.split("MCMemberRecord") if re.search(MGID, part)]
    if not any(re.search(r"Mlid\.+0xC0\d\d", part, re.IGNORECASE) and "0xffff" in part.lower() for part in records):
        return failed("the group has no LID or partition", ended.evidence())
    log = (place.directory / "receiver.log").read_text()
    if not re.search(r"joined dgid: " + MGID + r" mlid 0xc0", log):
        return failed("the program did not get the group's LID", log)
    return passed(f"{len(records)} records")


def refused(place: Place) -> Outcome:
    """A join that subnet administration refuses, and one without an answer, are reported to the program."""
    if not MCKEY.present():
        return skipped("lacks rdmacm-utils")
    command = f"mckey -m {ADDRESS} -b 127.0.0.1 -s"
    # The group exists with another queue key.
    member = c_program.compile_program(HERE / "member.c", libraries=())
    ended = up(place, f"{member} {MGID} 1 create; {command}")
    if failure := lacks(ended, [r"^status 0", r"MULTICAST_ERROR, error: -22"]):
        return failure
    ended = up(place, f"OSM_CACHE_DIR=. OSM_TMP_DIR=. opensm -o -f osm.log > opensm.out; {command}", "--sm", "none")
    return lacks(ended, [r"MULTICAST_ERROR, error: -110"]) or passed()
