"""Files on storage, read by io_uring and by threads: the same bytes, and the daemon says which method it uses."""

from __future__ import annotations

import os

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import Service, noise

SIZE = 48 << 20
METRIC = "rfio_reads_together_total"


def both_ways(place: Place, fabric: str) -> Outcome:
    """A file larger than the daemon's cache, and in no other one, copied from a daemon of each method."""
    export = place.directory / "export"
    export.mkdir(exist_ok=True)
    content = noise(1 << 20, 5) * (SIZE >> 20)
    (export / "cold").write_bytes(content)
    said = []
    for way in ("auto", "threads"):
        forget(export / "cold")
        with Service(place, fabric, "--storage", way, "--workers", "3", export=export) as service:
            copy = service.here / "copy"
            ended = service.tool("rfcp", "--checksum", service.at("cold"), copy)
            if not ended.succeeded or copy.read_bytes() != content:
                return failed(f"--storage {way}: another file came", ended.evidence())
            how = next((line for line in service.daemon.output().splitlines() if "reading files" in line), "")
            together = service.metric(METRIC)
        if ("by io_uring" in how) != (together > 0) or (way == "threads" and together):
            return failed(f"--storage {way}: '{how}', {together} reads together")
        said.append(f"{together} reads together")
    return passed(", then ".join(said))


def forget(path: os.PathLike) -> None:
    """Drops the file from the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
