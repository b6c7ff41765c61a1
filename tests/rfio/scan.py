"""Files with many readers stay in the cache while a file ten times as large is read once."""

from __future__ import annotations

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import Service, noise

CACHE = 32 << 20
BLOCK = 256 << 10
# Read again and again, passing by in between, and the long one.
HOT, BESIDE, LONG = 12 << 20, 2 << 20, 10 * CACHE


def hot_files_stay(place: Place, fabric: str) -> Outcome:
    """Returns the number of blocks that the server loads for a file that was read twice before a long file was read."""
    with Service(place, fabric, "--cache", str(CACHE)) as service:
        for seed, (name, size) in enumerate({"hot": HOT, "beside": BESIDE, "long": LONG}.items()):
            (service.export / name).write_bytes(noise(1 << 20, seed) * (size >> 20))
        for name in ("hot", "beside", "hot", "long"):
            ended = service.tool("rfcp", service.at(name), "/dev/null")
            if not ended.succeeded:
                return failed(f"{name} cannot be read", ended.evidence())
        before = service.metric("rfio_cache_fills_total")
        if before < (HOT + BESIDE + LONG) // BLOCK:
            return failed(f"the long file did not pass through the cache: {before} blocks loaded")
        copy = service.here / "hot"
        ended = service.tool("rfcp", service.at("hot"), copy)
        if not ended.succeeded or copy.read_bytes() != (service.export / "hot").read_bytes():
            return failed("the copy is another file", ended.evidence())
        anew = service.metric("rfio_cache_fills_total") - before
        blocks = HOT // BLOCK
        if anew > blocks // 8:
            return failed(f"{anew} of {blocks} blocks are loaded anew")
        return passed(f"{anew} of {blocks} blocks loaded anew")
