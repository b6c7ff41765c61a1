"""Partitions of the fabric's manager: OpenSM's tables and groups from the same file, and wrong files."""

from __future__ import annotations

import re

from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended

from .fabric import lacks, up

SHAPE, SWITCHES, HOSTS = "fat-tree:4", 6, 8
WRONG_INPUT = 2
# GUIDs of the ports of the shape's hosts.
PORT = [f"{0x0200000200000001 + 256 * host:#018x}" for host in range(HOSTS)]
FILES = {
    "none": "",
    "all full": "Default=0x7fff, ipoib : ALL=full;\n",
    "two": f"Default=0x7fff, ipoib : ALL=limited, SELF=full;\nstorage=0x8010, ipoib, rate=3, mtu=5 : {PORT[0]}=full,\n  {PORT[1]}, {PORT[2]}=limited;\n",
    "numbers": f"0x20, defmember=full : {PORT[3]}, {PORT[4]}=limited; # a comment; with : signs\nnext : ALL_CAS;\n"
               f"keyed=0x21, ipoib, Q_Key=0x1234 : ALL_SWITCHES=full, ALL_CAS, {PORT[3]}=full;\n",
    "again": f"a=0x30 : ALL=full;\na=0x30 : {PORT[5]}=limited;\nb=0x31, indx0 : {PORT[6]}=full, SELF;\n",
}


def cases() -> list[Case]:
    """The same partitions by both managers, wrong files."""
    return [
        Case("partitions are those of OpenSM", "", compared),
        Case("partitions of management datagrams", "", enforced),
        Case("wrong partitions", "", refused),
    ]


def keys(text: str) -> dict[str, set[int]]:
    """The partition keys of each port of an adapter and each switch, from the script's output."""
    found: dict[str, set[int]] = {}
    for part in text.split("==== ")[1:]:
        name, *lines = part.splitlines()
        values = [int(value, 16) for line in lines for value in re.findall(r"0x([0-9a-f]{4})\b", line)]
        found[name] = {value for value in values if value}
    return found


def groups(text: str) -> set[tuple[str, ...]]:
    """The broadcast groups: address, MTU, partition key, rate."""
    pattern = r"MGID\.+(\S+)\n.*?Mtu\.+(\S+).*?(?:pkey|P_Key|Pkey)\.+(\S+).*?Rate\.+(\S+)"
    return {tuple(match) for match in re.findall(pattern, text, re.DOTALL) if "ffff:ffff" in match[0]}


def tables(place: Place, name: str, content: str, manager: str) -> Ended:
    """Prints the tables of all ports, and the groups."""
    file = place.directory / f"{name.replace(' ', '-')}.conf"
    file.write_text(content)
    script = (f'saquery -g; for lid in $(seq 1 {SWITCHES + HOSTS}); do echo "==== $(smpquery nodedesc $lid | sed "s/.*[.]//")"; '
              'smpquery pkeys $lid | grep ": 0x"; done')
    return up(place, script, "--topology", SHAPE, "--partitions", str(file), "--sm", manager)


def compared(place: Place) -> Outcome:
    """For each file, every port has the keys, and the subnet the broadcast groups, that OpenSM gives them."""
    for name, content in FILES.items():
        seen = []
        for manager in ("builtin", "opensm"):
            ended = tables(place, name, content, manager)
            if failure := lacks(ended, []):
                return failure
            seen.append((keys(ended.output), groups(ended.output)))
        # The manager is at a switch here, and at the first host there.
        (own, own_groups), (other, other_groups) = seen
        if len(own) != SWITCHES + HOSTS or own.keys() != other.keys():
            return failed(f"{name}: ports {own.keys()} and {other.keys()}")
        if own_groups != other_groups:
            return failed(f"{name}: groups {own_groups} and {other_groups}")
        differing = {port: (own[port], other[port]) for port in own if own[port] != other[port]}
        if set(differing) - {"leaf-1", "host1 mlx5_0"}:
            return failed(f"{name}: {differing}")
    return passed(f"{len(FILES)} files")


def enforced(place: Place) -> Outcome:
    """Limited members reach the manager's port, but not each other's agents and programs, whose ports count the violations."""
    file = place.directory / "partitions.conf"
    count = "smpquery portinfo 3 1 | sed -n 's/^PkeyViolations:[.]*/violations /p'"
    # perfquery asks once and twice again.
    script = (f"perfquery 1 1 && saquery -s; {count}; ! perfquery -t 100 3 1 2> /dev/null; {count}; "
              f"! ibping -c 1 -t 100 3 > /dev/null; {count}; perfquery -t 100 1 2")
    for partition, wanted in (("ALL=limited, SELF=full", [0, 1]), ("ALL=full", [0, 0])):
        file.write_text(f"Default=0x7fff : {partition};\n")
        reached = script if wanted[1] else script.replace("! perfquery", "perfquery")
        ended = up(place, reached, "--partitions", str(file))
        if failure := lacks(ended, {r"PortXmitPkts": 0, r"EndPortLid\.+1$": 1}):
            return failure
        first, second, third = (int(number) for number in re.findall(r"^violations (\d+)$", ended.output, re.MULTILINE))
        if [first, min(second, 1)] != wanted or (third > second) != bool(wanted[1]):
            return failed(f"{partition}: {first}, {second} and {third} violations", ended.evidence())
    return passed(f"{third} violations with full members")


def refused(place: Place) -> Outcome:
    """An invalid file, an absent one, an endless one, and partitions without a manager: exit status 2 and a message with the line; unknown GUIDs, and an invalid file for OpenSM: a line."""
    file = place.directory / "wrong.conf"
    for content, manager, wanted in (("a=1 : ALL;\nb : ALL=some;", "builtin", "line 2: \"some\" is neither"), ("a=1 : ALL;", "none", "--sm builtin")):
        file.write_text(content)
        ended = up(place, "true", "--partitions", str(file), "--sm", manager)
        if ended.status != WRONG_INPUT or wanted not in ended.output:
            return failed(f"{wanted!r} is not printed", ended.evidence())
    ended = up(place, "true", "--partitions", str(place.directory / "absent"))
    if ended.status != WRONG_INPUT or "absent" not in ended.output:
        return failed("an absent file is not refused", ended.evidence())
    file.write_text("a=1 : ALL;\nb : ALL=some;")
    ended = up(place, "true", "--partitions", str(file), "--sm", "opensm")
    if not ended.succeeded or "would refuse line 2: \"some\" is neither" not in ended.output:
        return failed("a file that OpenSM may ignore is not named", ended.evidence())
    ended = up(place, "true", "--partitions", "/dev/zero")
    if ended.status != WRONG_INPUT or "/dev/zero: the file has more than" not in ended.output:
        return failed("an endless file is not refused", ended.evidence())
    file.write_text("a=1 : 0x77, 0x78;")
    ended = up(place, "true", "--partitions", str(file))
    if not ended.succeeded or "2 port GUIDs are not on the fabric, such as 0x0000000000000077" not in ended.output:
        return failed("unknown GUIDs are not named", ended.evidence())
    return passed("4 refused, 2 warnings")
