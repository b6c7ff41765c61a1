"""A running rfiod and its clients."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Optional

from harness.build_tree import TARGET, VERBENA, run
from harness.place import Place
from harness.process import Ended, Process

from .elsewhere import ELSEWHERE, HOST, on_its_host

TOOLS = Path(os.environ.get("RFIO_TOOLS", VERBENA.parent if VERBENA.is_file() else TARGET / "release"))
SECRET = b"the secret of the tests, long enough"
USER = b"tester"
SECONDS = 60.0
#: The transports of data: over TCP alone, or by RDMA on the software adapter.
FABRICS = ("tcp", "verbs")
#: Paths of the software adapter to a peer, besides the default.
PATHS = ("cma", "ring")
#: Little memory, so that tests reach the limit.
SMALL = ("--buffers", "32M", "--cache", "32M", "--cache-pages", "when-used")


class Service:
    """A separate export in memory, a daemon, and a way to run tools against it."""

    #: The command that starts the daemon.
    wrapper: tuple[str, ...] = ()
    #: Where the tools and the daemon are.
    programs = daemons = TOOLS

    def __init__(self, place: Place, fabric: str, *options: str, export: Optional[Path] = None,
                 limits: tuple[str, ...] = SMALL):
        self.place = place
        self.path = fabric if fabric in PATHS else None
        self.fabric = "verbs" if self.path else fabric
        # A test's own value replaces the limit.
        for name, value in zip(limits[::2], limits[1::2]):
            options = options if name in options else (name, value, *options)
        self.options = options
        self.directory = Path(tempfile.mkdtemp(prefix="rfio-test-", dir="/dev/shm"))
        self.export = export or self.directory / "export"
        self.export.mkdir(exist_ok=True)
        self.here = self.directory / "here"
        self.here.mkdir()
        self.secrets = self.directory / "secrets"
        self.secrets.touch(0o600)
        self.secrets.write_bytes(USER + b":" + SECRET + b"\n")
        self.audit = self.directory / "audit"
        self.port = 0
        self.metrics_port = 0
        self.daemon: Optional[Process] = None
        self.start()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, wrong: Optional[type] = None, *_: object) -> None:
        ended = self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        if ended and ended.timed_out and wrong is None:
            raise RuntimeError(f"rfiod does not end after its signal: {ended.describe()}\n{ended.output}")

    def environment(self) -> dict[str, str]:
        """Returns the environment of the tools and the daemon."""
        return {"RFIO_SECRETS": str(self.secrets), "RFIO_USER": USER.decode(),
                "RFIO_PORT": str(self.port), "RFIO_TIMEOUT": "30", "HOME": str(self.directory)}

    def command(self, program: str, *arguments: object) -> list[str]:
        """The command line of a program, on the software adapter if data travel by RDMA."""
        plain = [str(self.programs / program), *map(str, arguments)]
        return run(*plain) if self.fabric == "verbs" else plain

    def start(self) -> None:
        """Starts the daemon, on the same port as before if there was one."""
        command = on_its_host(list(map(str, [
            *self.wrapper, self.daemons / "rfiod", "--export", self.export, "--listen", f"{HOST}:{self.port}", "--fabric",
            self.fabric, "--audit", self.audit, "--metrics", f"{HOST}:0", *self.options])), self.fabric)
        environment = self.environment()
        if ELSEWHERE:
            # Hosts do not share a runtime directory.
            there = self.place.runtime / "there"
            there.mkdir(mode=0o700, exist_ok=True)
            environment["VERBENA_RUNTIME_DIR"] = str(there)
        self.daemon = self.place.start("rfiod", command, self.path, **environment)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.daemon.running:
            said = self.daemon.output()
            serving = re.search(rf"serving on {re.escape(HOST)}:(\d+)", said)
            metrics = re.search(rf"metrics on http://{re.escape(HOST)}:(\d+)", said)
            if serving and metrics:
                self.port, self.metrics_port = int(serving[1]), int(metrics[1])
                return
            time.sleep(0.005)
        raise RuntimeError(f"rfiod does not serve:\n{self.daemon.output()}")

    def kill(self) -> None:
        """Ends the daemon as `kill -9` does."""
        if self.daemon:
            self.daemon.finish(time.monotonic())
            self.daemon = None

    def stop(self) -> Optional[Ended]:
        """Ends the daemon as a service manager does."""
        if not self.daemon:
            return None
        os.kill(self.daemon.pid, 15)
        ended = self.daemon.finish(time.monotonic() + SECONDS)
        self.daemon = None
        return ended

    def at(self, name: str) -> str:
        """A place on the server."""
        return f"{HOST}:/{name}"

    def begin(self, program: str, *arguments: object, **more: str) -> Process:
        """Starts a tool."""
        environment = {**self.environment(), "RFIO_FABRIC": self.fabric, **more}
        return self.place.start(program, self.command(program, *arguments), self.path, **environment)

    def tool(self, program: str, *arguments: object, **more: str) -> Ended:
        """Runs a tool to its end."""
        return self.begin(program, *arguments, **more).finish(time.monotonic() + SECONDS)

    def status(self) -> dict[str, str]:
        """The daemon's /proc status."""
        text = Path(f"/proc/{self.daemon.pid}/status").read_text()
        return {line.split(":", 1)[0]: line.split(":", 1)[1].strip() for line in text.splitlines()}

    def resident_mebibytes(self) -> float:
        """The daemon's memory now."""
        return int(self.status()["VmRSS"].split()[0]) / 1024

    def metric(self, name: str) -> int:
        """A counter of the daemon."""
        from urllib.request import urlopen
        page = urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=SECONDS).read().decode()
        return int(re.search(rf"^{re.escape(name)} (\d+)$", page, re.M)[1])

    def quiet(self) -> None:
        """Waits until the daemon has ended the sessions of ended clients, and closed their files."""
        deadline = time.monotonic() + SECONDS
        while self.metric("rfio_sessions") or self.metric("rfio_open_files"):
            if time.monotonic() > deadline:
                raise RuntimeError("rfiod keeps sessions or files of ended clients")
            time.sleep(0.005)


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes without a pattern, the same for the same seed."""
    import random
    return random.Random(seed).randbytes(size)


def same(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes."""
    import filecmp
    return filecmp.cmp(one, other, shallow=False)
