"""The clients of Verbena's file service, measured like the others: rfcp over verbs and TCP, and xrdcp with the plug-in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Optional

import rivals
from harness.build_tree import run
from rfio.service import TOOLS, Service


class Rfcp:
    """rfcp, over the transport of its service."""

    def __init__(self, name: str, service: Service):
        self.name, self.service = name, service

    def measure(self, name: str, to: Path, *options: str) -> rivals.Cost:
        """Copies once from the service."""
        return self._measure(*options, self.service.at(name), to)

    def store(self, source: Path, name: str, *options: str) -> rivals.Cost:
        """Copies once to the service."""
        return self._measure(*options, source, self.service.at(name))

    def reading(self, name: str, to: Path) -> tuple[list[str], dict[str, str]]:
        """Returns the command that copies from the service, and its environment."""
        return self._command(self.service.at(name), to)

    def _command(self, *arguments: object) -> tuple[list[str], dict[str, str]]:
        service = self.service
        environment = service.place.environment(**service.environment(), RFIO_FABRIC=service.fabric)
        return service.command("rfcp", "-q", *arguments), environment

    def _measure(self, *arguments: object) -> rivals.Cost:
        command, environment = self._command(*arguments)
        return rivals.measure(self.service.daemon.pid, command, **environment)


class XrdcpOnRfio:
    """XRootD's client on Verbena's service, with the plug-in of `make xrootd`."""

    name = "xrdcp-rfio"

    def __init__(self, service: Service):
        self.service = service
        self.plugins = service.directory / "plugins"
        self.plugins.mkdir()
        (self.plugins / "rfio.conf").write_text(
            f"url = root://127.0.0.1:{service.port}\nlib = {TOOLS / 'lib/libXrdClRfio.so'}\nenable = true\n")

    @staticmethod
    def lacks() -> Optional[str]:
        """Returns the missing requirement of this machine."""
        if shutil.which("xrdcp") is None:
            return "xrdcp"
        return None if (TOOLS / "lib/libXrdClRfio-5.so").is_file() else "libXrdClRfio-5.so (make xrootd)"

    def measure(self, name: str, to: Path) -> rivals.Cost:
        """Copies once from the service."""
        service = self.service
        command = run("xrdcp", "--force", "--nopbar", f"root://127.0.0.1:{service.port}//{name}", to)
        return rivals.measure(service.daemon.pid, command, RFIO_FABRIC=service.fabric, XRD_PLUGINCONFDIR=str(self.plugins),
                              **service.place.environment(**service.environment()))
