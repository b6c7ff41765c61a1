"""Copies that are ended at any point, and continued: acceptance 2."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import SECONDS, Service, noise, same

SIZE = 48 * (1 << 20) + 12_345
BLOCK = 256 << 10
#: Copies to interrupt in each case; `make nightly` asks for a hundred.
REPETITIONS = int(os.environ.get("RFIO_INTERRUPTIONS", "5"))


def wrong_bytes(partial: Path, original: bytes) -> int:
    """Returns the bytes of the wrong blocks of a partial file: those still to be moved."""
    have = partial.read_bytes() if partial.exists() else b""
    return sum(len(original[at:at + BLOCK]) for at in range(0, len(original), BLOCK)
               if have[at:at + BLOCK] != original[at:at + BLOCK])


def length(path: Path) -> int:
    """Bytes of a file that may get another name at any moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def ended_and_continued(place: Place, fabric: str, direction: str, victim: str) -> Outcome:
    """Ends the tool or the daemon when the partial file has reached a random length, then
    continues: the same bytes, and not one block moved that was right."""
    chance = random.Random(f"{direction} {victim}")
    interrupted = 0
    with Service(place, fabric) as service:
        original = service.here / "original"
        data = noise(SIZE)
        original.write_bytes(data)
        remote = service.export / "f"
        local = service.here / "copy"
        if direction == "download":
            remote.write_bytes(data)
            pair, final = (service.at("f"), local), local
        else:
            pair, final = (original, service.at("f")), remote
        partial = final.with_name(f".{final.name}.rfpart")
        attempts = 0
        while interrupted < REPETITIONS:
            attempts += 1
            if attempts > 20 + 4 * REPETITIONS:
                return failed(f"only {interrupted} of {attempts} copies were caught under way")
            final.unlink(missing_ok=True)
            partial.unlink(missing_ok=True)
            point = chance.randrange(SIZE)
            copy = service.begin("rfcp", "-q", "--retry", 0, *pair)
            while copy.running and length(partial) < point:
                pass
            if victim == "daemon":
                service.kill()
            ended = copy.finish(time.monotonic() + (SECONDS if victim == "daemon" else 0))
            if final.exists() and not same(final, original):
                return failed("a part has the whole's name", ended.evidence())
            if victim == "daemon":
                if not final.exists() and ended.status != 2:
                    return failed("the loss of the server does not give exit code 2", ended.evidence())
                service.start()
            if final.exists():
                continue
            interrupted += 1
            # The server still writes the data that had reached it when its client was ended.
            service.quiet()
            missing = wrong_bytes(partial, data)
            ended = service.tool("rfcp", "--json", "--continue", *pair)
            if not ended.succeeded or not same(final, original):
                return failed(f"interruption {interrupted}: not continued", ended.evidence())
            moved = json.loads(ended.output.splitlines()[-1])["moved_bytes"]
            if moved != missing:
                return failed(f"{moved} bytes were moved, {missing} were missing", ended.evidence())
    # The last daemon may have been the last process of its kind: no other has run after it to clean up.
    place.run("info", [str(VERBENA), "info"], 30)
    return passed(f"{interrupted} of {attempts} were caught under way")


def a_damaged_part(place: Place, fabric: str) -> Outcome:
    """A partial file with a wrong block in it, and a source that changed since: only the blocks that
    differ are moved."""
    with Service(place, fabric) as service:
        data = bytearray(noise(8 * BLOCK + 99))
        (service.export / "f").write_bytes(data)
        partial = service.here / ".copy.rfpart"
        damaged = bytearray(data)
        damaged[3 * BLOCK + 5] ^= 1
        partial.write_bytes(damaged[:6 * BLOCK + 10])
        ended = service.tool("rfcp", "--json", "--continue", service.at("f"), service.here / "copy")
        moved = json.loads(ended.output.splitlines()[-1])["moved_bytes"]
        if (service.here / "copy").read_bytes() != data or moved != BLOCK + 2 * BLOCK + 99:
            return failed(f"{moved} bytes moved", ended.evidence())
        return passed()


def begun_trees(place: Place, direction: str) -> Outcome:
    """`rfcp -r TREE NEW`, ended when NEW existed and was incomplete: --continue goes on in NEW, and nothing of the
    first attempt is left. If NEW is complete, or of another source, the tree is copied into it, as by cp."""
    with Service(place, "tcp") as service:
        source, sink = (service.export, service.here) if direction == "download" else (service.here, service.export)
        tree, new = source / "tree", sink / "new"
        (tree / "a").mkdir(parents=True)
        for number in range(20):
            (tree / "a" / f"small {number}").write_bytes(noise(3000, number))
        (tree / "large").write_bytes(noise(3 << 20))
        at_source, at_sink = ((service.at, lambda name: str(service.here / name)) if direction == "download"
                              else (lambda name: str(service.here / name), service.at))

        def listing(at: Path) -> dict[str, bytes]:
            return {str(path.relative_to(at)): path.read_bytes() for path in at.rglob("*") if path.is_file()}

        wanted = listing(tree)
        for ending in (signal.SIGTERM, signal.SIGKILL):
            copy = service.begin("rfcp", "-q", "-r", "--limit-rate", "1M", at_source("tree"), at_sink("new"))
            deadline = time.monotonic() + SECONDS
            while copy.running and length(new / ".large.rfpart") == 0 and time.monotonic() < deadline:
                time.sleep(0.005)
            # Another client's copy to the same place is refused.
            second = service.tool("rfcp", "-q", "-r", "--continue", at_source("tree"), at_sink("new"))
            os.kill(copy.pid, ending)
            copy.finish(time.monotonic() + SECONDS)
            if second.status != 16 or not (new / ".large.rfpart").exists():
                return failed("not interrupted, or a second copy is not refused", second.evidence())
            # Another source goes below the existing directory.
            (source / "other").mkdir(exist_ok=True)
            (source / "other/f").write_bytes(b"x")
            ended = service.tool("rfcp", "-q", "-r", "--continue", at_source("other"), at_sink("new"))
            if not ended.succeeded or listing(new / "other") != {"f": b"x"}:
                return failed("another source does not go below", ended.evidence())
            (new / "other/f").unlink()
            (new / "other").rmdir()
            ended = service.tool("rfcp", "-q", "-r", "--continue", at_source("tree"), at_sink("new"))
            left = sorted(str(path.relative_to(sink)) for path in sink.rglob(".*.rfpart"))
            if not ended.succeeded or listing(new) != wanted or left:
                return failed(f"not continued in place: {sorted(listing(new))}, left {left}", ended.evidence())
            # It is complete, so it is a directory like any other.
            ended = service.tool("rfcp", "-q", "-r", "--continue", at_source("tree"), at_sink("new"))
            if not ended.succeeded or listing(new / "tree") != wanted:
                return failed("a complete tree is not copied into", ended.evidence())
            ended = service.place.run("rm", ["rm", "-r", str(new)], 30)
        return passed()
