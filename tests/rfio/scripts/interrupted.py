"""Servers that are started anew, and killed, while files are read and written. The test does what "please" asks for."""

import asyncio
import errno
import os
import random
import sys
import threading
import time

import fsspec

base, export = sys.argv[1:3]
#: Seconds for which the server comes and goes, in each part.
LONG = float(sys.argv[3])
fs = fsspec.filesystem("rfio", retry=60)
root = fs._strip_protocol(base)
asked = 0


def please(what: str) -> None:
    """Has the server stopped, started, or killed; returns when it is."""
    global asked
    asked += 1
    print("please", asked, what, flush=True)
    while not os.path.exists(f"{export}/../done{asked}"):
        time.sleep(0.005)


class Troubles:
    """The server is killed or stopped, and started, again and again, within a `with` statement."""

    def __enter__(self):
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.make)
        self.thread.start()

    def make(self):
        """Until the end."""
        while not self.ends.wait(random.uniform(0.02, 0.8)):
            please(random.choice(("kill", "stop")))
            time.sleep(random.uniform(0, 0.3))
            please("start")

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def raises(act, *numbers: int) -> OSError:
    """`act` raises an error with one of these numbers."""
    try:
        act()
    except OSError as error:
        assert error.errno in numbers, error
        return error
    raise AssertionError(f"{numbers} were due")


def write(name: str, data: bytes) -> None:
    """Replaces a file of the server, there."""
    with open(f"{export}/new", "wb") as file:
        file.write(data)
    os.replace(f"{export}/new", f"{export}/{name}")


chance = random.Random(5)
data = chance.randbytes(3_000_000)
write("f", data)
# A server that stops refuses requests.
LOST = (errno.ECONNRESET, errno.EPIPE, errno.ECONNREFUSED, errno.ECONNABORTED, errno.ESHUTDOWN)

# Reading goes on where it was.
file = fs.open(f"{base}/f", "rb", block_size=1 << 16, cache_type="none")
assert file.read(100_000) == data[:100_000]
please("stop")
threading.Timer(0.7, please, ("start",)).start()
begun = time.monotonic()
assert file.read() == data[100_000:] and time.monotonic() - begun > 0.5
# Another file that has got the name meanwhile is not mistaken for it.
file.seek(0)
please("stop")
write("f", data[::-1])
please("start")
raises(lambda: file.read(1000), errno.ESTALE)
file.close()
assert fs.cat_file(f"{base}/f") == data[::-1]
write("f", data)

# Everything that reads, while the server comes and goes.
os.mkdir(f"{export}/many")
contents = {f"{root}/many/{number}": chance.randbytes(2000 * number) for number in range(30)}
for path, part in contents.items():
    write(path.removeprefix(root), part)
names, here = list(contents), f"{export}/../fetched"
with Troubles():
    ends = time.monotonic() + LONG
    while time.monotonic() < ends:
        name = chance.choice(names)
        start = chance.randrange(1000)
        assert fs.cat_file(name, start, start + 500) == contents[name][start:start + 500]
        assert fs.cat_ranges(names, start, -3) == [part[start:-3] for part in contents.values()]
        assert sorted(fs.find(f"{root}/many")) == sorted(names)
        with fs.open(names[-1], "rb", block_size=1000) as file:
            assert file.read() == contents[names[-1]]
        assert fs.isfile(name) and fs.info(name)["size"] == len(contents[name])
    fs.get(f"{root}/many", here, recursive=True)
assert {name: open(f"{here}/{name.rpartition('/')[2]}", "rb").read() for name in names} == contents


async def reads() -> None:
    """The same by coroutines."""
    other = fsspec.filesystem("rfio", asynchronous=True, retry=60)
    ends = time.monotonic() + LONG
    while time.monotonic() < ends:
        assert await other._cat(names) == contents
        assert await other._cat_ranges(names, 5, -3) == [part[5:-3] for part in contents.values()]
        assert len(await other._ls(f"{root}/many")) == 30


with Troubles():
    asyncio.run(reads())

# Bounds: not at all, and so long. A server that was never reached is not waited for.
please("stop")
begun = time.monotonic()
raises(lambda: fsspec.filesystem("rfio", retry=0).info(names[0]), *LOST)
assert time.monotonic() - begun < 0.5
begun = time.monotonic()
raises(lambda: fsspec.filesystem("rfio", retry=1.5).info(names[0]), *LOST)
assert 1.4 < time.monotonic() - begun < 4
begun = time.monotonic()
raises(lambda: fs.info("127.0.0.1:1/f"), errno.ECONNREFUSED)
raises(lambda: asyncio.run(fsspec.filesystem("rfio", asynchronous=True)._info("127.0.0.1:1/f")), errno.ECONNREFUSED)
assert time.monotonic() - begun < 2
please("start")
for wrong in (-1, float("nan")):
    try:
        fsspec.filesystem("rfio", retry=wrong)
        raise AssertionError(f"retry={wrong} is taken")
    except ValueError:
        pass

# Writing does not go on: after a restart between two writes, or before the end, the old file stays.
for blocks in (1, 3):
    fs.pipe_file(f"{base}/written", b"old")
    file = fs.open(f"{base}/written", "wb", block_size=1000)
    for _ in range(blocks):
        file.write(b"half" * 250)
    please("stop")
    please("start")
    if blocks == 3:
        raises(lambda: file.write(b"half" * 250), *LOST)
    raises(file.close, *LOST) if not file.closed else file.discard()
    assert fs.cat_file(f"{base}/written") == b"old" and file.closed
with Troubles():
    ends, done, failed = time.monotonic() + LONG, 0, 0
    # Both outcomes must have been seen, however slow the machine is.
    while time.monotonic() < ends or not (done and failed):
        value = bytes([chance.randrange(256)]) * chance.choice((10, 100_000, 7_000_000))
        try:
            with fs.open(f"{base}/written", "wb", block_size=100_000) as file:
                for at in range(0, len(value), 90_000):
                    file.write(value[at:at + 90_000])
            done += 1
        except OSError as error:
            assert error.errno in LOST, error
            failed += 1
        with open(f"{export}/written", "rb") as there:
            found = there.read()
        assert found == b"old" or (len(found) in (10, 100_000, 7_000_000) and len(set(found)) == 1), len(found)
print("written", done, "failed", failed)
assert done and failed
print("did it all", flush=True)
