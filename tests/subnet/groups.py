"""Multicast groups of the fabric's manager: memberships, and the tables of switches."""

from __future__ import annotations

import re
from pathlib import Path

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

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
    """Memberships."""
    return [Case("multicast tables follow memberships", "", followed)]


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
