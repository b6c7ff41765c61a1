"""Debian's own xrootd over the export of an rfiod; it issues tickets for its files."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from pathlib import Path
from typing import Optional

from harness.build_tree import run
from harness.place import Place
from harness.process import Ended, Process
from rfio.service import SECONDS, TOOLS, Service
from xrootd.programs import plugin

ISSUER, SHARED = "xrootd", "what xrootd and rfiod share, long enough"
#: xrootd does not run as root.
USER = "nobody" if os.geteuid() == 0 else None


class Bytes(Service):
    """An rfiod that accepts only the tickets of XRootD servers."""

    def __init__(self, place: Place, fabric: str, *options: str):
        self.shared = place.directory / "tickets"
        self.shared.touch(0o600)
        self.shared.write_text(f"{ISSUER}:{SHARED}\n")
        super().__init__(place, fabric, "--tickets", self.shared, "--ticket-skew", "0", *options)
        self.directory.chmod(0o755)
        self.export.chmod(0o777)

    def moved(self) -> tuple[int, int]:
        """Bytes that clients have been sent, and that they have sent."""
        return tuple(sum(self.metric(f"rfio_{way}_{kind}_bytes_total") for way in ("fabric", "stream"))
                     for kind in ("sent", "received"))


class Xrootd:
    """A server of XRootD with these lines of configuration besides, over a directory."""

    def __init__(self, place: Place, name: str, export: Path, *lines: str, **environment: str):
        self.place, self.name = place, name
        self.directory = export.parent / f"xrootd-{name}"
        self.directory.mkdir()
        self.port = free_port()
        self.configuration = self.directory / "xrootd.cf"
        self.configuration.write_text("\n".join([
            "all.export /", f"oss.localroot {export}", f"xrd.port {self.port}", f"all.adminpath {self.directory}",
            f"all.pidpath {self.directory}", "xrd.network nodnr", "xrootd.chksum max 2 adler32 crc32c", *lines]) + "\n")
        self.environment = environment
        self.daemon: Optional[Process] = None

    def __enter__(self) -> "Xrootd":
        command = ["xrootd", "-c", str(self.configuration), "-n", self.name]
        if USER:
            for path in (self.directory, *self.directory.iterdir()):
                shutil.chown(path, USER)
            command += ["-R", USER]
        # The adapter of a server is not for those of another user.
        self.daemon = self.place.start(f"xrootd-{self.name}", command, HOME=str(self.directory), RFIO_FABRIC="tcp",
                                       **self.environment)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.daemon.running:
            # The parts print it, too, before the whole server does.
            ended = re.search(rf"xrootd {self.name}@\S+ initialization (completed|failed)", self.daemon.output())
            if ended and ended[1] == "completed":
                return self
            if ended:
                break
            time.sleep(0.02)
        raise RuntimeError(f"xrootd does not serve:\n{self.daemon.output()}")

    def __exit__(self, *_: object) -> None:
        self.daemon.finish(time.monotonic())

    def url(self, path: str) -> str:
        """XRootD's name of a path here."""
        return f"root://127.0.0.1:{self.port}//{path}"


def issuing(service: Bytes, directory: Path, *more: str, port: Optional[int] = None) -> str:
    """The line of configuration of a server that gives tickets for this rfiod. It reads its own copy of the secret."""
    own = directory / "issuer-secret"
    if not own.exists():
        own.touch(0o600)
        own.write_text(f"{ISSUER}:{SHARED}\n")
        if USER:
            shutil.chown(own, USER)
    plugin()
    return " ".join([f"ofs.ctllib {TOOLS / 'lib/libXrdOfsRfio.so'} secrets={own} server=:{port or service.port}", *more])


def free_port() -> int:
    """Returns a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def client(service: Bytes, servers: list[Xrootd], *command: object, **more: str) -> Ended:
    """Runs a program of XRootD's for which these servers have an rfiod for their bytes."""
    directory = configure(service.directory / "plugins-behind", *(f"root://127.0.0.1:{server.port}" for server in servers))
    environment = {"RFIO_FABRIC": service.fabric, "XRD_PLUGINCONFDIR": str(directory), "XRD_CONNECTIONRETRY": "1", "XRD_LOGLEVEL": "Info",
                   "HOME": str(service.directory), "RFIO_TIMEOUT": "30", **more}
    plain = [str(word) for word in command]
    return service.place.run(Path(plain[0]).name, run(*plain) if service.fabric == "verbs" else plain, SECONDS, service.path,
                             **environment)


def configure(directory: Path, *urls: str) -> Path:
    """The plug-in's configuration for servers of XRootD that an rfiod is behind."""
    directory.mkdir(exist_ok=True)
    lines = [f"url = {';'.join(urls)}", f"lib = {plugin()}", "behind = xrootd", "enable = true"]
    (directory / "rfio.conf").write_text("\n".join(lines) + "\n")
    directory.chmod(0o755)
    return directory
