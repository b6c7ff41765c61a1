"""Copies by xrdcp: both directions, checksums, trees, and failures with their messages."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from harness.outcome import Outcome, failed, passed
from harness.place import Place
from rfio.service import Service, noise, same

from .programs import configure, program, url

SIZES = {"0": 0, "1": 1, "1 MiB + 1": (1 << 20) + 1, "20 MiB - 1": (20 << 20) - 1}


def both_ways(place: Place, fabric: str, size: int) -> Outcome:
    """To the server and back: the same bytes, the checksums that XRootD compares, and the data went by RDMA."""
    with Service(place, fabric) as service:
        original, back = service.here / "original", service.here / "back"
        original.write_bytes(noise(size))
        (service.export / "new").mkdir()
        for source, sink, kind in ((original, url(service, "new/f"), "adler32"), (url(service, "new/f"), back, "crc32c")):
            # Both sides compute it, and xrdcp compares.
            ended = program(service, "xrdcp", "--nopbar", "--cksum", kind, source, sink)
            if not ended.succeeded:
                return failed("xrdcp failed", ended.evidence())
        if not same(original, service.export / "new/f") or not same(original, back):
            return failed("the bytes differ")
        if left := set(os.listdir(service.export / "new")) - {"f"}:
            return failed(f"files are left behind: {left}")
        said = program(service, "xrdfs", f"root://127.0.0.1:{service.port}", "query", "checksum", "/new/f?cks.type=adler32")
        if f"adler32 {zlib.adler32(original.read_bytes()):08x}" not in said.output:
            return failed("another Adler-32 than zlib's", said.evidence())
        if service.fabric == "verbs" and size > 1 << 20:
            moved = min(service.metric("rfio_fabric_sent_bytes_total"), service.metric("rfio_fabric_received_bytes_total"))
            if moved < size - (16 << 10):
                return failed(f"only {moved} of {size} bytes were moved by RDMA")
        # An existing file is kept, unless it is to be replaced.
        kept = program(service, "xrdcp", "--nopbar", original, url(service, "new/f"))
        forced = program(service, "xrdcp", "--nopbar", "--force", original, url(service, "new/f"))
        if kept.succeeded or not forced.succeeded:
            return failed("an existing file is replaced unasked, or not when asked", kept.evidence() + forced.evidence())
        return passed()


def trees(place: Place, fabric: str) -> Outcome:
    """Copies a directory with every kind of content in both directions."""
    with Service(place, fabric) as service:
        tree = service.here / "tree"
        for number in range(30):
            file = tree / f"d{number % 3}" / f"e{number % 2}" / str(number)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(noise(1000 * number, number))
        for directory in (service.export / "up", service.here / "down"):
            directory.mkdir()
        for source, sink in ((tree, url(service, "up/")), (url(service, "up/"), service.here / "down")):
            ended = program(service, "xrdcp", "--nopbar", "--recursive", source, sink)
            if not ended.succeeded:
                return failed("xrdcp -r failed", ended.evidence())
        wanted = contents(tree)
        for where in (service.export / "up", service.here / "down"):
            # xrdcp makes the directory's own name below a sink that is there.
            if wanted not in (contents(where), contents(where / "tree"), contents(where / "up/tree"), contents(where / "up")):
                return failed(f"{where} holds something else", "\n".join(contents(where)))
        return passed()


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def failures(place: Place) -> Outcome:
    """A file that does not exist, an unknown user, a server that has ended: xrdcp says which, and fails."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(noise(100))
        sink = service.here / "sink"
        attempts = {"No such file": (url(service, "nothing"), {}), "Permission denied": (url(service, "f"), {"RFIO_USER": "nobody-known"})}
        for words, (source, environment) in attempts.items():
            ended = program(service, "xrdcp", "--nopbar", "--force", source, sink, **environment)
            if ended.succeeded or words not in ended.output:
                return failed(f"'{words}' is not printed", ended.evidence())
        service.stop()
        ended = program(service, "xrdcp", "--nopbar", "--force", url(service, "f"), sink)
        if ended.succeeded or "refused" not in ended.output:
            return failed("a missing server is not reported", ended.evidence())
        return passed()


def ports(place: Place) -> Outcome:
    """A URL without a port is the configured one's; a port that is none loads no plug-in, and XrdCl says why."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(noise(100))
        for port, wanted in ((service.port, True), ("many", False)):
            directory = configure(service, f"port = {port}", port=1094)
            ended = place.run("xrdcp", ["xrdcp", "--nopbar", "--force", "root://127.0.0.1//f", str(service.here / "f")], 60,
                              XRD_PLUGINCONFDIR=str(directory), XRD_CONNECTIONRETRY="1", XRD_CONNECTIONWINDOW="1",
                              XRD_LOGLEVEL="Error", RFIO_FABRIC="tcp", **service.environment())
            if ended.succeeded != wanted or (not wanted and "'many' is no number" not in ended.output):
                return failed(f"with port = {port}", ended.evidence())
        return passed() if same(service.export / "f", service.here / "f") else failed("the bytes differ")
