"""Writes of 1 MiB over a cable that drops packets at random, compared with the same cable without loss.

The kernel splits each batch of packets before the cable, so that single packets are lost and not sixty at once.
"""

from __future__ import annotations

from roce.hosts import ROCE, Host, Hosts

TABLE = ("netdev", "cable")
CHAIN = (*TABLE, "arrivals")
# Lost packets per thousand, in both directions.
LOSSES = (0, 1, 10, 100)


def prepare(hosts: Hosts) -> None:
    """Prepares both ends of the cable for the rule."""
    for host in hosts.members:
        host.setup("ip", "link", "set", host.interface, "gso_max_segs", "1")
        host.setup("nft", "add", "table", *TABLE)
        host.setup("nft", "add", "chain", *CHAIN, "{", "type", "filter", "hook", "ingress", "device", host.interface,
                   "priority", "0", ";", "}")


def lose(hosts: Hosts, permille: int) -> None:
    """Sets the loss rate."""
    for host in hosts.members:
        host.setup("nft", "flush", "chain", *CHAIN)
        if permille:
            rule(host, permille)


def rule(host: Host, permille: int) -> None:
    """Installs the rule that drops received packets."""
    host.setup("nft", "add", "rule", *CHAIN, "udp", "dport", str(ROCE), "numgen", "random", "mod", "1000", "<",
               str(permille), "drop")
