"""Writes of 1 MiB over a cable that loses packets at random, beside the same cable when it loses none.

The kernel cuts each train of packets before the cable, so that a packet is lost at a time and not sixty.
"""

from __future__ import annotations

from roce.hosts import ROCE, Host, Hosts

TABLE = ("netdev", "cable")
CHAIN = (*TABLE, "arrivals")
# Of a thousand packets, in both directions.
LOSSES = (0, 1, 10, 100)


def prepare(hosts: Hosts) -> None:
    """Both ends of the cable, with a place for the rule."""
    for host in hosts.members:
        host.setup("ip", "link", "set", host.interface, "gso_max_segs", "1")
        host.setup("nft", "add", "table", *TABLE)
        host.setup("nft", "add", "chain", *CHAIN, "{", "type", "filter", "hook", "ingress", "device", host.interface,
                   "priority", "0", ";", "}")


def lose(hosts: Hosts, permille: int) -> None:
    """From now on so many are lost."""
    for host in hosts.members:
        host.setup("nft", "flush", "chain", *CHAIN)
        if permille:
            rule(host, permille)


def rule(host: Host, permille: int) -> None:
    """What takes packets out where they arrive."""
    host.setup("nft", "add", "rule", *CHAIN, "udp", "dport", str(ROCE), "numgen", "random", "mod", "1000", "<",
               str(permille), "drop")
