"""The compiled module by itself."""

import errno
import os
import random
import signal
import sys
import threading
import time

from rfio_fsspec import _native

base, export, daemon = sys.argv[1], sys.argv[2], int(sys.argv[3])
data = open(export + "/f", "rb").read()
file = _native.File(base + "/f", os.O_RDONLY)

# Reads of many threads, on one connection, with others' reads between begin and end.
wrong = []


def reader(seed: int) -> None:
    chance = random.Random(seed)
    mine = _native.File(base + "/f", os.O_RDONLY)
    for _ in range(60):
        offset, size = chance.randrange(len(data) + 1000), chance.choice((0, 1, 4096, 300_000, 2_000_000))
        if mine.read_at(offset, size) != data[offset:offset + size]:
            wrong.append((offset, size))
        ranges = [(chance.randrange(len(data) + 5), chance.randrange(5000)) for _ in range(chance.randrange(200))]
        begun = file.begin_ranges(ranges, most=chance.choice((1000, 1 << 30)))
        if chance.random() < 0.2:
            begun.leave()
        elif begun.finish() != [data[start:start + length] for start, length in ranges]:
            wrong.append(ranges)
    mine.close()


threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong[:3]

# Writes, at given offsets and at the end.
model = bytearray()
sink = _native.File(base + "/w", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
chance = random.Random(7)
for _ in range(200):
    offset, part = chance.randrange(50_000), chance.randbytes(chance.choice((0, 1, 700, 90_000)))
    assert sink.write_at(offset, part) == len(part)
    if part:
        model.extend(bytes(max(0, offset - len(model))))
        model[offset:offset + len(part)] = part
    if chance.random() < 0.1:
        size = chance.randrange(60_000)
        sink.truncate(size)
        del model[size:]
        model.extend(bytes(size - len(model)))
    assert sink.size() == len(model)
sink.close()
assert open(export + "/w", "rb").read() == model and os.stat(export + "/w").st_mode & 0o777 == 0o640 & ~0o22 | 0o040
end = _native.File(base + "/w", os.O_WRONLY | os.O_APPEND)
assert end.append(b"last") == 4 and open(export + "/w", "rb").read() == model + b"last"

# Errors, with their file.
for act, number, name in (
        (lambda: _native.examine(base + "/none"), errno.ENOENT, base + "/none"),
        (lambda: _native.File(base + "/none", os.O_RDONLY), errno.ENOENT, base + "/none"),
        (lambda: _native.File(base + "/", os.O_RDONLY), errno.EISDIR, base + "/"),
        (lambda: _native.entries(base + "/f"), errno.ENOTDIR, base + "/f"),
        (lambda: _native.make_directory(base + "/f"), errno.EEXIST, base + "/f"),
        (lambda: _native.rename(base + "/none", base + "/other"), errno.ENOENT, base + "/none"),
        (lambda: _native.rename(base + "/f", "rfio://elsewhere/f"), errno.EXDEV, base + "/f"),
        (lambda: _native.examine("/f"), errno.EINVAL, "/f"),
        (lambda: _native.examine("rfio://127.0.0.1:1/f"), errno.ECONNREFUSED, "rfio://127.0.0.1:1/f"),
        (lambda: _native.File(base + "/f", 3), errno.EINVAL, base + "/f"),
        (lambda: end.read_at(0, 1), errno.EBADF, base + "/w"),
        (lambda: sink.read_at(0, 1), errno.EBADF, base + "/w"),
        (lambda: file.read_at(0, 1 << 62), errno.ENOMEM, base + "/f"),
        (lambda: file.begin_ranges([(0, 1 << 63)], most=1), errno.ENOMEM, base + "/f"),
        (lambda: file.begin_ranges([(0, (1 << 64) - 1)] * 3), errno.ENOMEM, base + "/f")):
    try:
        act()
        raise AssertionError(f"no error, where {errno.errorcode[number]} was due for {name}")
    except OSError as error:
        assert (error.errno, error.filename) == (number, name), error
try:
    _native.rename(base + "/none", base + "/other")
except FileNotFoundError as error:
    assert error.filename2 == base + "/other"

# Names are bytes there, and need not be UTF-8.
strange = b"n\xffme".decode(errors="surrogateescape")
open(os.path.join(os.fsencode(export), b"n\xffme"), "wb").write(b"odd")
assert strange in dict(_native.entries(base)), _native.entries(base)
assert _native.File(f"{base}/{strange}", os.O_RDONLY).read_at(0, 9) == b"odd"
_native.unlink(f"{base}/{strange}")
assert strange not in dict(_native.entries(base))

# While a server does not answer: other threads run, and a signal ends the wait.
os.kill(daemon, signal.SIGSTOP)


def state(thread: str) -> str:
    with open(f"/proc/{daemon}/task/{thread}/stat") as status:
        return status.read().rpartition(")")[2].split()[0]


# It stands still when each of its threads does.
while {state(thread) for thread in os.listdir(f"/proc/{daemon}/task")} != {"T"}:
    time.sleep(0.001)
got: list[bytes] = []
waiting = threading.Thread(target=lambda: got.append(file.read_at(5, 100)))
waiting.start()


def woken(*_: object) -> None:
    raise InterruptedError("woken")


signal.signal(signal.SIGALRM, woken)
signal.setitimer(signal.ITIMER_REAL, 0.1)
begun = time.monotonic()
try:
    file.read_at(0, 50)
    raise AssertionError("a server that stands still has answered")
except InterruptedError as error:
    assert str(error) == "woken" and time.monotonic() - begun < 20
left = file.begin_ranges([(0, 10)])
left.leave()
assert not got and waiting.is_alive()
os.kill(daemon, signal.SIGCONT)
waiting.join()
assert got == [data[5:105]] and file.read_at(0, 50) == data[:50]
file.close()
file.close()
assert file.closed and file.url == base + "/f"
print("did it all")
