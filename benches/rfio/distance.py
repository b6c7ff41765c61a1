"""Trees of small files over a long distance: two network namespaces, joined by a relay that delays and limits the rate (`relay.c`);
the service and rsync's daemon on one side and the clients on the other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Optional

import rivals
from clients import Rfcp
from figures import note
from harness.pair import LISTEN_STATE
from harness.place import Place
from harness.process import Process
from rfio.service import SECONDS, TOOLS, Service
from sizes import Sizes
from small_files import LENGTHS, make, turns
from vectors import compile_it

HERE = Path(__file__).resolve().parent
ROUND_TRIP_US = 20_000
BITS_PER_S = 1_000_000_000
#: The bandwidth-delay product of the link.
QUEUE_BYTES = BITS_PER_S // 8 * ROUND_TRIP_US // 1_000_000
#: Files per directory.
TOGETHER = 100
PROBED_BYTES = 64 << 20
PROBE_PORT = 7


class Side:
    """A network namespace, which exists as long as its process."""

    def __init__(self, place: Place, number: int):
        self.address, self.interface = f"10.8.0.{number}", f"far{number}"
        self.keeper: Process = place.start(self.interface, ["unshare", "-n", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: self._namespace() not in (None, own), "the network namespace")

    def _namespace(self) -> Optional[str]:
        # When the process has become `sleep`, the namespace exists.
        made = Path(f"/proc/{self.keeper.pid}/comm").read_text().strip() == "sleep"
        return os.readlink(f"/proc/{self.keeper.pid}/ns/net") if made else None

    def inside(self, command: list[str]) -> list[str]:
        """Returns the command line that runs a command in the namespace."""
        return ["nsenter", "-t", str(self.keeper.pid), "-n", "--", *command]

    def configure(self) -> None:
        """Sets its address, and queues for the data that TCP sends before the relay takes them."""
        for words in ("link set lo up", f"addr add {self.address}/24 dev {self.interface}",
                      f"link set {self.interface} mtu 1500 txqueuelen 10000 up"):
            subprocess.run(self.inside(["ip", *words.split()]), check=True, timeout=SECONDS)

    def listens(self, port: int) -> bool:
        """Returns whether a program listens on a TCP port in the namespace."""
        lines = Path(f"/proc/{self.keeper.pid}/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[3] == LISTEN_STATE and int(line.split()[1].rpartition(":")[2], 16) == port
                   for line in lines)


class FarService(Service):
    """The service on the far side, over TCP, and its tools on the near side."""

    def __init__(self, place: Place, near: Side, far: Side):
        self.near, self.far = near, far
        super().__init__(place, "tcp", limits=())

    def start(self) -> None:
        command = self.far.inside([str(TOOLS / "rfiod"), "--export", str(self.export), "--fabric", "tcp",
                                   "--listen", f"{self.far.address}:0"])
        self.daemon = self.place.start("rfiod", command, **self.environment())
        pattern = rf"serving on {re.escape(self.far.address)}:(\d+)"
        wait_for(lambda: re.search(pattern, self.daemon.output()), "rfiod")
        self.port = int(re.search(pattern, self.daemon.output())[1])

    def command(self, program: str, *arguments: object) -> list[str]:
        return self.near.inside(super().command(program, *arguments))

    def at(self, name: str) -> str:
        return f"{self.far.address}:/{name}"


class FarRsync(rivals.Rsync):
    """rsync's daemon on the far side, and its client on the near side."""

    def __init__(self, export: Path, place: Path, near: Side, far: Side):
        super().__init__(export, place)
        self.near, self.far, self.host = near, far, far.address

    def there(self, command: list[str]) -> list[str]:
        return self.far.inside(command)

    def here(self, command: list[str]) -> list[str]:
        return self.near.inside(command)

    def listens(self) -> bool:
        return self.far.listens(self.port)


def lacks() -> Optional[str]:
    """Returns the missing requirement of this machine."""
    if os.geteuid() != 0:
        return "distance: not measured: rsync's daemon and network namespaces need root"
    missing = [name for name in ("unshare", "nsenter", "ip", "rsync") if shutil.which(name) is None]
    return f"distance: not measured: {', '.join(missing)} is missing" if missing else None


def measure(place: Place, sizes: Sizes) -> None:
    """Measures both file lengths alternately, and the link itself before and after."""
    with ExitStack() as stack:
        near, far = Side(place, 1), Side(place, 2)
        join(place, near, far)
        service = stack.enter_context(FarService(place, near, far))
        tools = {"rfcp-tcp": Rfcp("rfcp-tcp", service),
                 "rsync": stack.enter_context(FarRsync(service.export, service.directory / "rsync", near, far).serving())}
        probe(place, near, far)
        for kind, count in zip(LENGTHS, sizes.far):
            tree = service.export / "tree"
            make(tree, LENGTHS[kind], count, TOGETHER)
            turns(f"distance.{kind}", tree, service.here / "tree", tools, sizes.turns)
            shutil.rmtree(tree)
        probe(place, near, far)


def join(place: Place, near: Side, far: Side) -> None:
    """Starts the relay between both sides."""
    program = place.directory / "relay"
    compile_it("cc", program, HERE / "relay.c", "-pthread")
    words = [near.keeper.pid, near.interface, far.keeper.pid, far.interface, ROUND_TRIP_US // 2, BITS_PER_S, QUEUE_BYTES]
    relay = place.start("relay", [str(program), *map(str, words)])
    wait_for(lambda: "carrying" in relay.output(), "the relay")
    near.configure()
    far.configure()


def probe(place: Place, near: Side, far: Side) -> None:
    """Measures the link."""
    program = [sys.executable, str(HERE / "probe.py")]
    server = place.start("probe", far.inside([*program, "serve", far.address, str(PROBE_PORT)]))
    try:
        wait_for(lambda: far.listens(PROBE_PORT), "the probe")
        done = subprocess.run(near.inside([*program, "measure", far.address, str(PROBE_PORT), str(PROBED_BYTES)]),
                              capture_output=True, text=True, timeout=SECONDS, check=True)
        round_trip, rate = map(float, done.stdout.split())
        note("distance.link.round_trip_s", round_trip)
        note("distance.link.bytes_per_s", rate)
    finally:
        server.finish(time.monotonic())


def wait_for(holds, what: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start in {SECONDS:.0f} s")
        time.sleep(0.01)
