"""XRootD's programs with the plug-in for a running rfiod."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from harness.build_tree import ROOT, run
from harness.process import Ended
from rfio.service import SECONDS, TOOLS, Service

@functools.cache
def plugin() -> Path:
    """The plug-in of this build, as `make xrootd` makes it. XrdCl adds the version to its name."""
    subprocess.run([ROOT / "xrootd/build", TOOLS], check=True)
    return TOOLS / "lib/libXrdClRfio.so"


def configure(service: Service, *more: str, port: int | None = None, library: Path | None = None) -> Path:
    """A directory with the plug-in's configuration for this service: URLs of it are the plug-in's, or another
    XRootD's."""
    directory = service.directory / "plugins"
    directory.mkdir(exist_ok=True)
    lines = [f"url = root://127.0.0.1:{port or service.port}", f"lib = {library or plugin()}", "enable = true", *more]
    (directory / "rfio.conf").write_text("\n".join(lines) + "\n")
    return directory


def url(service: Service, path: str) -> str:
    """XRootD's name of a path of the service."""
    return f"root://127.0.0.1:{service.port}//{path}"


def program(service: Service, *command: object, library: Path | None = None, **more: str) -> Ended:
    """Runs a program with the plug-in (or with that of another XRootD), on the software adapter if data travel by
    RDMA."""
    plain = [str(word) for word in command]
    environment = {"RFIO_FABRIC": service.fabric, "XRD_PLUGINCONFDIR": str(configure(service, library=library)), "XRD_CONNECTIONRETRY": "1",
                   **service.environment(), **more}
    return service.place.run(Path(plain[0]).name, run(*plain) if service.fabric == "verbs" else plain, SECONDS, service.path,
                             **environment)
