"""A disk of tgt's iSCSI target, which libiscsi's programs read over iSER."""

from __future__ import annotations

import time
from functools import partial

from harness.outcome import Outcome, failed, passed
from harness.process import Process
from harness.requirement import Tool

from .ground import Ground
from .program import Program, judged, started

SECONDS = 30
TARGET, INITIATOR = "iqn.2026-11.test:disk", "iqn.2026-11.test:initiator"
MEBIBYTES = 64
# tgt's default is a pool of 1 GiB.
POOL = "pool_sz_mb=64"
NEEDS = [Tool("tgtd", "tgt"), Tool("tgtadm", "tgt"), Tool("iscsi-inq", "libiscsi-bin")]
# The output of each for a disk of this size.
PROGRAMS_OF_LIBISCSI = {
    "iscsi-inq": ([], "^Product:VIRTUAL-DISK"),
    "iscsi-readcapacity16": ([], f"^Total size:{MEBIBYTES << 20}$"),
    "iscsi-perf": (["-t", 2], r"iops average +[1-9]\d*[^\0]*^finished\.$"),
    "iscsi-perf, random": (["-t", 2, "-r"], r"iops average +[1-9]\d*[^\0]*^finished\.$"),
}


def served(name: str, ground: Ground) -> Outcome:
    """One program of libiscsi with its own target."""
    place = ground.place
    disk, control = place.directory / "disk", str(ground.port % 30_000)
    with disk.open("wb") as file:
        file.truncate(MEBIBYTES << 20)
    environment = {"TGT_IPC_SOCKET": str(place.runtime / "tgtd")}
    address = ground.address
    command = ["tgtd", "-f", "-C", control, "--iscsi", f"portal={address}:{ground.port + 1}", "--iser", f"port={ground.port},{POOL}"]
    serving, is_ready = started(ground, "target", command, lambda at, _process: at.server.manages(), SECONDS, environment)
    try:
        if not is_ready:
            return failed("the target never listened", serving.finish(time.monotonic()).evidence())
        return asked(name, ground, serving, partial(administer, ground, control, environment), disk)
    finally:
        # The socket of tgtadm and its lock.
        for left in place.runtime.glob("tgtd*"):
            left.unlink()


def administer(ground: Ground, control: str, environment: dict[str, str], operation: str, mode: str, *words: object):
    """A command of tgtadm."""
    line = ["tgtadm", "-C", control, "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1", *map(str, words)]
    return ground.place.run(f"tgtadm-{operation}", ground.server.plain(*line), SECONDS, **environment)


def asked(name: str, ground: Ground, serving: Process, tgtadm, disk) -> Outcome:
    """Makes the target's disk, and runs the program. tgt wants both the address and the name of an initiator to be
    allowed."""
    for operation, mode, words in (("new", "target", ["--targetname", TARGET]),
                                   ("new", "logicalunit", ["--lun", 1, "--backing-store", disk]),
                                   ("bind", "target", ["--initiator-address", "ALL"]),
                                   ("bind", "target", ["--initiator-name", INITIATOR])):
        done = tgtadm(operation, mode, *words)
        if not done.succeeded:
            return failed("tgtadm fails", done.evidence())
    program, (options, says) = name.partition(",")[0], PROGRAMS_OF_LIBISCSI[name]
    ended = ground.client.run(program, SECONDS, program, *options, "-i", INITIATOR,
                              f"iser://{ground.address}:{ground.port}/{TARGET}/1")
    target = serving.finish(time.monotonic())
    ground.sweep()
    wrong = judged(ended, says)
    return failed(wrong, "\n".join([ended.evidence(), target.evidence()])) if wrong else passed()


PROGRAMS = [Program(f"tgt and libiscsi over iSER: {name}", "tgt, libiscsi-bin", NEEDS, partial(served, name))
            for name in PROGRAMS_OF_LIBISCSI]
