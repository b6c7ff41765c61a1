"""The file service between two hosts: the daemon on one, the tools on the other."""

from __future__ import annotations

import re
import time
from pathlib import Path

from harness import counters
from harness.outcome import Outcome, failed, passed
from harness.process import wait_for_any
from rfio.service import SECRET, TOOLS, USER
from roce.hosts import Host, Hosts

SECONDS = 120
SIZE = 1 << 30
PIECE = 1 << 20


def copies(hosts: Hosts) -> Outcome:
    """Copies a file of 1 GiB to the other host and back by verbs over the cable; every byte is in its place."""
    first, second = hosts.members
    # In memory, and removed with the case.
    export, here = first.runtime / "export", second.runtime / "here"
    export.mkdir()
    here.mkdir()
    environment = ["env", f"RFIO_SECRETS={secrets(hosts)}", f"RFIO_USER={USER.decode()}", f"HOME={here}"]

    def on(host: Host, program: str, *arguments: object) -> list[str]:
        return host.on_adapter(*environment, TOOLS / program, *arguments)

    daemon = hosts.start(first, "rfiod", on(first, "rfiod", "--export", export, "--listen", f"{first.address}:5001",
                                            "--fabric", "verbs", "--cache", "64M"))
    deadline = time.monotonic() + SECONDS
    while daemon.running and "serving on" not in daemon.output() and time.monotonic() < deadline:
        wait_for_any([daemon], time.monotonic() + 0.01)
    source, back = here / "source", here / "back"
    fill(source)
    said = []
    for origin, target in ((source, f"{first.address}:/there"), (f"{first.address}:/there", back)):
        ended = hosts.run(second, "rfcp", on(second, "rfcp", "--fabric", "verbs", origin, target), SECONDS)
        if not ended.succeeded or not re.search(r"\bverbs\b", ended.output) or "TCP" in ended.output:
            return failed(f"{ended.describe()}, not by verbs", f"{ended.evidence()}\n{daemon.output()}")
        said.append(ended.output.strip().splitlines()[-1])
        if target == back:
            continue
        if not same(source, export / "there"):
            return failed("the remote copy has other bytes", ended.evidence())
        source.unlink()
    if not same(export / "there", back):
        return failed("the copy back has other bytes")
    daemon.finish(time.monotonic())
    # The tools have printed their statistics; the daemon is still running and has not.
    if "udp" not in counters.paths_used(hosts.place):
        return failed("nothing went over the cable")
    return passed("; ".join(said))


def secrets(hosts: Hosts) -> Path:
    """Writes the secrets that authenticate the user."""
    file = hosts.place.directory / "secrets"
    file.touch(0o600)
    file.write_bytes(USER + b":" + SECRET + b"\n")
    return file


def fill(file: Path) -> None:
    """Pieces of which no two are the same."""
    import random
    piece = random.Random(1).randbytes(PIECE)
    with file.open("wb") as out:
        for number in range(SIZE // PIECE):
            out.write(number.to_bytes(8, "big"))
            out.write(piece[8:])


def same(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes."""
    import filecmp
    return filecmp.cmp(one, other, shallow=False)
