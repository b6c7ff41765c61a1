"""The classic calls of the C library against a mirror: random sequential and other reads, writes and truncations
between them, with each way of reading ahead. The oracle is a local file with the same operations."""

from __future__ import annotations

from harness.build_tree import run
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .libraries import LIBRARIES
from .python_package import PYTHON
from .service import Service, noise

SEEDS = 6

SCRIPT = """
import ctypes, os, random, sys
rfio = ctypes.CDLL(os.environ["RFIO_LIBRARY"])
for name in ("read", "write"):
    call = getattr(rfio, f"rfio_{name}64")
    call.restype, call.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
rfio.rfio_lseek64.restype, rfio.rfio_lseek64.argtypes = ctypes.c_int64, [ctypes.c_int, ctypes.c_int64, ctypes.c_int]
rfio.rfio_ftruncate64.argtypes = [ctypes.c_int, ctypes.c_int64]
server, local, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3])
buffer = ctypes.create_string_buffer(9 << 20)
for option in (0, 1, 2, 16):
    for seed in range(seeds):
        chance = random.Random(f"{option} {seed}")
        assert rfio.rfiosetopt(1, ctypes.byref(ctypes.c_int(option)), 4) == 0
        there, here = rfio.rfio_open64(server.encode(), os.O_RDWR, 0), os.open(local, os.O_RDWR)
        assert there >= 0
        typical = chance.choice((100, 60_000, 131_072, 262_144, 1_000_000))
        for step in range(150):
            where = (option, seed, step)
            what = chance.random()
            if what < 0.04:
                to = chance.randrange(48 << 20)
                assert rfio.rfio_lseek64(there, to, 0) == os.lseek(here, to, 0), where
            elif what < 0.06:
                data = chance.randbytes(chance.randrange(1, 300_000))
                assert rfio.rfio_write64(there, data, len(data)) == os.write(here, data), where
            elif what < 0.065:
                size = chance.randrange(20 << 20, 40 << 20)
                assert rfio.rfio_ftruncate64(there, size) == 0, where
                os.ftruncate(here, size)
            else:
                length = chance.choice((typical, chance.randrange(1, 2 * typical), chance.randrange(1, 9 << 20)) if what < 0.2 else (typical,))
                got = rfio.rfio_read64(there, buffer, length)
                wanted = os.read(here, length)
                assert got == len(wanted) and buffer[:got] == wanted, (where, length, got, len(wanted))
        assert rfio.rfio_close(there) == 0
        os.close(here)
        assert open(local, "rb").read() == open(sys.argv[4], "rb").read(), (option, seed)
print("all alike")
"""


def reads_and_writes(place: Place, fabric: str) -> Outcome:
    """Every byte equals that of a local file, despite read-ahead."""
    with Service(place, fabric) as service:
        there, here = service.export / "f", service.here / "f"
        for file in (there, here):
            file.write_bytes(noise(40 << 20))
        script = place.directory / "script.py"
        script.write_text(SCRIPT)
        command = [str(PYTHON), str(script), f"rfio://127.0.0.1:{service.port}/f", str(here), str(SEEDS), str(there)]
        ended = place.run("python", command if fabric == "tcp" else run(*command), 240, service.path,
                          RFIO_FABRIC=service.fabric, RFIO_LIBRARY=str(LIBRARIES / "librfio.so.2"), **service.environment())
        return passed() if ended.succeeded and "all alike" in ended.output else failed("not alike", ended.evidence())
