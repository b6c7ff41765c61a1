"""Two hosts for a test: network namespaces, joined by a cable, which an ordinary user may make where the system allows
user namespaces.

Nothing is left behind: a namespace ends with its last process, and all of them belong to this test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Sequence

from harness.build_tree import VERBENA
from harness.pair import Exchange, LISTEN_STATE, finish
from harness.place import Place
from harness.process import Ended, Process, wait_for_any

# Exceeded only by a hang: sixteen hosts are set up one after another, on a busy machine, too.
SETUP_SECONDS = 60
HERE = Path(__file__).resolve().parent
# The system's, which is where the namespaces' programs are.
WIRE_PYTHON = "/usr/bin/python3"
# Programs run on a port of their own namespace, so any will do.
PORT = 18515
ROCE = 4791


class NoNamespaces(Exception):
    """The system's words."""


class SetupFailed(Exception):
    """A command of the setup failed; its output."""


def refusal() -> Optional[str]:
    """Returns why there can be no hosts here; None if there can."""
    done = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, text=True, check=False,
                          timeout=SETUP_SECONDS)
    return None if done.returncode == 0 else f"no user namespaces: {done.stderr.strip()}"


@dataclass
class Host:
    """A network namespace: a process keeps it, its address, its runtime directory."""

    keeper: Process
    name: str
    number: int
    runtime: Path
    # Further interfaces that are ports of its adapter.
    others: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return f"10.9.0.{self.number}"

    @property
    def address6(self) -> str:
        """Its IPv6 address."""
        return f"fd09::{self.number}"

    @property
    def interface(self) -> str:
        """The interface at its end of the cable."""
        return f"veth{self.number}"

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command there."""
        return ["nsenter", "-t", str(self.keeper.pid), "-U", "--preserve-credentials", "-n", "--",
                *command]

    def on_adapter(self, *command: object, options: Sequence[str] = ()) -> list[str]:
        """The command line that runs a program there, on the software adapter, over RoCE."""
        return self.inside([str(VERBENA), "run", "--link", "roce", "--interface", ",".join([self.interface, *self.others]),
                            *options, "--", *map(str, command)])

    def setup(self, *command: str) -> None:
        """Runs a command of the setup there."""
        done = subprocess.run(self.inside(command), capture_output=True, text=True, check=False,
                              timeout=SETUP_SECONDS, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise SetupFailed(f"{' '.join(command)}: {done.stderr.strip()}")

    def add_address(self, address: str) -> None:
        """Gives its interface another address, of IPv4 or IPv6, on the same network as the hosts."""
        # For IPv6 without duplicate address detection, which takes a second.
        words = [f"{address}/64", "nodad"] if ":" in address else [f"{address}/24"]
        self.setup("ip", "addr", "add", *words, "dev", self.interface)

    def dropped_datagrams(self) -> int:
        """How many the kernel had no space for, at sockets there."""
        read = subprocess.run(self.inside(["cat", "/proc/net/snmp"]), capture_output=True, text=True, check=True,
                              timeout=SETUP_SECONDS, stdin=subprocess.DEVNULL)
        names, values = [line.split() for line in read.stdout.splitlines() if line.startswith("Udp:")]
        return int(values[names.index("RcvbufErrors")])

    def listens(self, port: int = PORT) -> bool:
        """Whether a process listens on a port there."""
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self.keeper.pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state = line.split()[:4]
                if state == LISTEN_STATE and int(local.rpartition(":")[2], 16) == port:
                    return True
        return False

    def has_port_of_roce(self) -> bool:
        """Whether a socket there has the port of RoCE."""
        return self.has_datagram_port(ROCE)

    def has_datagram_port(self, port: int) -> bool:
        """Whether a socket there has a UDP port."""
        return any(line.split()[1].endswith(f":{port:04X}")
                   for table in ("udp", "udp6")
                   for line in Path(f"/proc/{self.keeper.pid}/net/{table}").read_text().splitlines()[1:])

    def datagrams(self) -> int:
        """Datagrams of IPv4 that programs there have been given."""
        lines = Path(f"/proc/{self.keeper.pid}/net/snmp").read_text().splitlines()
        names, values = [line.split() for line in lines if line.startswith("Udp:")]
        return int(values[names.index("InDatagrams")])


@dataclass(frozen=True)
class Wire:
    """The faults of RoCE packets on the cable, in per mille, the same each time for a seed."""

    seed: int = 1
    lost: int = 0
    doubled: int = 0
    damaged: int = 0
    delayed: int = 0
    marked: int = 0
    # Frames that may overtake a delayed one.
    behind: int = 8


@dataclass
class Hosts:
    """Two of them and the cable, for the time of a `with`."""

    place: Place
    mtu: int = 1500
    wire: Optional[Wire] = None
    members: list[Host] = field(default_factory=list)
    _cable: Optional[Process] = None

    def __enter__(self) -> "Hosts":
        if words := refusal():
            raise NoNamespaces(words)
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._cable:
            self._cable.finish(time.monotonic())
        for host in self.members:
            host.keeper.finish(time.monotonic())
            shutil.rmtree(host.runtime, ignore_errors=True)

    def _make(self) -> None:
        first = self._keep("a", ["unshare", "-Urn", "sleep", "infinity"])
        second = self._keep("b", first.inside(["unshare", "-n", "sleep", "infinity"]))
        if self.wire:
            self._carry(self.wire, first, second)
        else:
            first.setup("ip", "link", "add", first.interface, "type", "veth", "peer", "name",
                        second.interface, "netns", str(second.keeper.pid))
        for host in self.members:
            self._configure(host)
        # A TAP reports an unknown state; the device that it is attached to reports UP.
        up = ("state UP", "state UNKNOWN")
        self._wait(lambda: all(any(state in self._link(host) for state in up) for host in self.members))

    def _configure(self, host: Host) -> None:
        host.setup("ip", "link", "set", "lo", "up")
        host.add_address(host.address)
        host.add_address(host.address6)
        host.setup("ip", "link", "set", host.interface, "mtu", str(self.mtu), "up")

    def _carry(self, wire: Wire, first: Host, second: Host) -> None:
        shares = (wire.seed, wire.lost, wire.doubled, wire.damaged, wire.delayed, wire.marked, wire.behind)
        self._cable = self.place.start("wire", first.inside(
            [WIRE_PYTHON, str(HERE / "wire.py"), first.interface, str(second.keeper.pid), second.interface,
             *map(str, shares)]))
        self._wait(lambda: "carrying" in self._cable.output() or not self._cable.running)
        if not self._cable.running:
            raise SetupFailed(self._cable.output())

    def _keep(self, name: str, command: list[str]) -> Host:
        keeper = self.place.start(f"host-{name}", command)
        runtime = self.place.runtime / name
        runtime.mkdir(mode=0o700)
        host = Host(keeper, name, len(self.members) + 1, runtime)
        self.members.append(host)
        others = [os.readlink(f"/proc/{pid}/ns/net")
                  for pid in ["self", *(other.keeper.pid for other in self.members[:-1])]]
        self._wait(lambda: self._namespace(host) not in [None, *others])
        return host

    @staticmethod
    def _namespace(host: Host) -> Optional[str]:
        # The process is `sleep` and no longer `unshare`: then the namespace exists.
        try:
            made = Path(f"/proc/{host.keeper.pid}/comm").read_text().strip() == "sleep"
            return os.readlink(f"/proc/{host.keeper.pid}/ns/net") if made else None
        except OSError:
            return None

    @staticmethod
    def _link(host: Host, interface: str = "") -> str:
        return subprocess.run(host.inside(["ip", "-o", "link", "show", interface or host.interface]), check=False,
                              capture_output=True, text=True, timeout=SETUP_SECONDS).stdout

    @staticmethod
    def _wait(holds) -> None:
        deadline = time.monotonic() + SETUP_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise SetupFailed("the namespaces do not start")
            time.sleep(0.005)

    def segment(self) -> None:
        """From now on the kernel segments large sends before they are on the cable."""
        for host in self.members:
            host.setup("ip", "link", "set", host.interface, "gso_max_segs", "1")

    def start(self, host: Host, name: str, command: list[str]) -> Process:
        """Starts a program of a host."""
        return self.place.start(name, command, VERBENA_RUNTIME_DIR=str(host.runtime))

    def run(self, host: Host, name: str, command: list[str], seconds: float) -> Ended:
        """Runs a program of a host to its end."""
        return self.place.run(name, command, seconds, VERBENA_RUNTIME_DIR=str(host.runtime))

    def exchange(self, server: Sequence[object], client: Sequence[object], seconds: float,
                 options: Sequence[str] = (), asker: Optional[Host] = None) -> Exchange:
        """Runs a server on the first host, and a client on the second, or another, as soon as that listens; the
        server's adapter with options."""
        first, second = self.members[0], asker or self.members[1]
        deadline = time.monotonic() + seconds
        serving = self.start(first, "server", first.on_adapter(*server, options=options))
        while serving.running and not first.listens() and time.monotonic() < deadline:
            wait_for_any([serving], time.monotonic() + 0.005)
        if not serving.running or not first.listens():
            return Exchange(serving.finish(time.monotonic()), None)
        asking = self.start(second, "client", second.on_adapter(*client))
        return finish(serving, asking, deadline)


@dataclass
class SwitchedHosts(Hosts):
    """Many hosts at one switch."""

    count: int = 16
    _switch: Optional[Host] = None

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._switch:
            self._switch.keeper.finish(time.monotonic())

    def _make(self) -> None:
        # The switch is a namespace like a host's, in which nothing runs.
        switch = self._keep("switch", ["unshare", "-Urn", "sleep", "infinity"])
        self.members.remove(switch)
        self._switch = switch
        switch.setup("ip", "link", "add", "switch", "type", "bridge")
        switch.setup("ip", "link", "set", "switch", "up")
        for number in range(1, self.count + 1):
            host = self._keep(f"h{number}", switch.inside(["unshare", "-n", "sleep", "infinity"]))
            switch.setup("ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", host.interface,
                         "netns", str(host.keeper.pid))
            switch.setup("ip", "link", "set", f"port{number}", "master", "switch", "up")
            self._configure(host)
        self._wait(lambda: all("state UP" in self._link(host) for host in self.members))
