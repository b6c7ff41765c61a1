"""The hosts of third-party programs: one host whose port is InfiniBand, or two hosts that RoCE joins."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

from harness import build_tree
from harness.build_tree import VERBENA
from harness.pair import free_port, listening
from harness.place import Place
from harness.process import Ended, Process
from roce.hosts import Host, Hosts

INFINIBAND, ROCE = "InfiniBand", "RoCE"
SWEEP_SECONDS = 20


@dataclass(frozen=True)
class Side:
    """One of the two ends: a host, its adapter and its runtime directory."""

    place: Place
    runtime: Path
    host: Host | None = None

    def command(self, *words: object) -> list[str]:
        """The command line that runs a program here, on the adapter."""
        return self.host.on_adapter(*words) if self.host else build_tree.run(*words)

    def plain(self, *words: object) -> list[str]:
        """The command line that runs a program here, without the adapter."""
        return self.host.inside(list(map(str, words))) if self.host else list(map(str, words))

    def start(self, name: str, *words: object, **environment: str) -> Process:
        """Starts a program on the adapter."""
        return self.place.start(name, self.command(*words), VERBENA_RUNTIME_DIR=str(self.runtime), **environment)

    def run(self, name: str, seconds: float, *words: object, **environment: str) -> Ended:
        """Runs a program on the adapter to its end."""
        return self.place.run(name, self.command(*words), seconds, VERBENA_RUNTIME_DIR=str(self.runtime), **environment)

    def listens(self, port: int) -> bool:
        """Whether a program here listens on a TCP port."""
        return self.host.listens(port) if self.host else listening(port)

    def manages(self) -> bool:
        """Whether a program here listens for connections of the connection manager."""
        return any(self.runtime.glob("cm-*.socket"))


@dataclass(frozen=True)
class Ground:
    """Both ends, and the options that programs need to find them."""

    place: Place
    link: str
    server: Side
    client: Side
    # The server's, for the client.
    address: str
    # Index of the GID that programs use: the only one of InfiniBand, that of the IPv4 address of RoCE.
    gid: int
    port: int = field(default_factory=free_port)

    def near(self) -> Ground:
        """The same with both ends on the server's host, for programs that know no host but localhost."""
        return Ground(self.place, self.link, self.server, self.server, "127.0.0.1", self.gid, self.port)

    def sweep(self) -> None:
        """Removes the remains of a killed process, as the next process on the host would."""
        self.place.run("sweep", [str(VERBENA), "info"], SWEEP_SECONDS, VERBENA_RUNTIME_DIR=str(self.server.runtime))


@contextmanager
def made(place: Place, link: str) -> Iterator[Ground]:
    """The ground for a link, for the time of a `with`. On RoCE `NoNamespaces` says that there can be none here."""
    if link == INFINIBAND:
        side = Side(place, place.runtime)
        yield Ground(place, link, side, side, "127.0.0.1", gid=0)
        return
    with Hosts(place) as hosts:
        first, second = (Side(place, host.runtime, host) for host in hosts.members)
        yield Ground(place, link, first, second, hosts.members[0].address, gid=1)


