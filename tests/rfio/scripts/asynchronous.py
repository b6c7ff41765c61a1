"""The coroutines: right, many at once on one connection, and on any number of event loops."""

import asyncio
import os
import random
import sys
import threading
import time

import fsspec
from fsspec.asyn import AsyncFileSystem, get_loop, iothread

base, export, far, sessions = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]
fs = fsspec.filesystem("rfio", asynchronous=True, skip_instance_cache=True)
assert isinstance(fs, AsyncFileSystem) and fs.async_impl and fs.asynchronous
root = fs._strip_protocol(base)
chance = random.Random(3)
contents = {f"{root}/many/{number}": chance.randbytes(chance.choice((0, 1, 5000, 300_000))) for number in range(60)}
os.makedirs(f"{export}/many/sub")
for path, data in contents.items():
    with open(f"{export}{path.removeprefix(root)}", "wb") as file:
        file.write(data)
os.symlink("0", f"{export}/many/link")
os.symlink("sub", f"{export}/many/linked")
os.symlink("nowhere", f"{export}/many/dangling")


async def raises(error: type, what) -> None:
    """Awaiting raises it."""
    try:
        await what
    except error:
        return
    raise AssertionError(f"{error.__name__} was due")


async def reads() -> None:
    """The results of the synchronous methods."""
    names = list(contents)
    assert await asyncio.gather(*map(fs._cat_file, names)) == list(contents.values())
    assert await fs._cat(names) == contents
    wanted = [(chance.choice(names), chance.choice((None, -7, 0, 3, 4999)), chance.choice((None, -1, 5, 6000))) for _ in range(500)]
    paths, starts, ends = map(list, zip(*wanted))
    right = [contents[path][start:end] for path, start, end in wanted]
    assert await fs._cat_ranges(paths, starts, ends) == right == fs.cat_ranges(paths, starts, ends)
    assert await asyncio.gather(*(fs._cat_file(*each) for each in wanted)) == right == [fs.cat_file(*each) for each in wanted]
    got = await fs._cat_ranges([names[0], f"{root}/none"], 0, 10)
    assert got[0] == contents[names[0]][:10] and isinstance(got[1], FileNotFoundError)
    await raises(FileNotFoundError, fs._cat_ranges([names[0], f"{root}/none"], 0, 10, on_error="raise"))
    await raises(ValueError, fs._cat_ranges(names, [1], 10))
    assert await fs._ls(f"{base}/many") == fs.ls(f"{base}/many") and await fs._ls(names[0]) == fs.ls(names[0])
    assert await fs._ls(f"{base}/many", detail=False) == fs.ls(f"{base}/many", detail=False)
    assert await fs._info(names[3]) == fs.info(names[3])
    assert await fs._exists(names[0]) and not await fs._exists(f"{root}/none") and await fs._isdir(f"{base}/many")
    assert await fs._find(f"{base}/many") == fs.find(f"{base}/many") and await fs._du(f"{base}/many") == fs.du(f"{base}/many")
    assert await fs._glob(f"{base}/many/*1") == fs.glob(f"{base}/many/*1")
    assert [each async for each in fs._walk(f"{base}/many")] == list(fs.walk(f"{base}/many"))
    await raises(FileNotFoundError, fs._cat_file(f"{root}/none"))
    await raises(FileNotFoundError, fs._info(f"{root}/none"))
    await raises(IsADirectoryError, fs._cat_file(f"{root}/many"))
    await raises(ConnectionRefusedError, fs._info("127.0.0.1:1/f"))


async def writes(directory: str) -> None:
    """Many at once."""
    data = {f"{root}/made/{number}": b"%d" % number * 1000 for number in range(50)}
    await fs._pipe(data)
    assert await fs._cat(list(data)) == data
    await raises(FileExistsError, fs._pipe_file(f"{root}/made/1", b"", mode="create"))
    await fs._get(f"{root}/made/", directory, recursive=True)
    assert len(os.listdir(directory)) == 50
    await fs._put(directory + "/", f"{root}/sent", recursive=True)
    await fs._copy(f"{root}/sent/", f"{root}/copied", recursive=True)
    assert sorted(await fs._cat(f"{root}/copied/*")) == sorted(path.replace("made", "copied") for path in data)
    await fs._mv_file(f"{root}/copied/1", f"{root}/moved")
    await fs._rm_file(f"{root}/moved")
    await asyncio.gather(*(fs._makedirs(f"{root}/deep/a/b", exist_ok=True) for _ in range(5)))
    for name in ("made", "sent", "copied", "deep"):
        await fs._rm(f"{root}/{name}", recursive=True)
    assert os.listdir(export) == ["many"]


async def at_once() -> None:
    """With a round-trip time of 40 ms: a hundred reads take little longer than one, on one connection."""
    await fs._info(f"{far}/many/0")
    threads, begun = threading.active_count(), time.monotonic()
    assert await asyncio.gather(*(fs._cat_file(f"{far}/many/{number % 60}") for number in range(100))) == [
        list(contents.values())[number % 60] for number in range(100)]
    took = time.monotonic() - begun
    assert took < 2 and threading.active_count() == threads, took
    begun = time.monotonic()
    for number in range(3):
        await fs._cat_file(f"{far}/many/{number}")
    print("a hundred", round(took, 3), "three one after the other", round(time.monotonic() - begun, 3))


async def cancelled() -> None:
    """A cancelled request is taken back, and its file is closed; others go on."""
    for delay in (0, 0.01, 0.03, 0.05, 0.07, 0.09):
        tasks = [asyncio.create_task(fs._cat_file(f"{far}/many/{number}")) for number in range(20)]
        await asyncio.sleep(delay)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert done[1::2] == list(contents.values())[1:20:2]
        assert all(isinstance(each, asyncio.CancelledError) or each == contents[f"{root}/many/{2 * number}"]
                   for number, each in enumerate(done[::2])), done
    await raises(asyncio.TimeoutError, asyncio.wait_for(fs._cat_file(f"{far}/many/0"), 0.01))
    # One that waits for the connection does not take it from the others.
    other = fsspec.filesystem("rfio", asynchronous=True, retry=0, skip_instance_cache=True)
    first, second = (asyncio.create_task(other._info(f"{root}/many/{number}")) for number in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)["size"] == len(contents[f"{root}/many/1"])


async def a_synchronous_call() -> None:
    """Within an event loop, as in a notebook."""
    assert fs.cat_file(f"{root}/many/2") == contents[f"{root}/many/2"]
    assert fsspec.filesystem("rfio").info(f"{root}/many/2")["size"] == len(contents[f"{root}/many/2"])


async def streams() -> None:
    """Files that are opened in the loop: read in the order of the calls, published when closed, discarded after an
    exception."""
    name = f"{root}/many/7"
    while len(contents[name]) < 5000:
        name = chance.choice(list(contents))
    data = contents[name]
    async with await fs.open_async(name) as file:
        assert file.size == len(data) and file.readable() and not file.writable()
        parts = await asyncio.gather(*(file.read(1000) for _ in range(4)))
        assert b"".join(parts) == data[:4000] and file.tell() == 4000
        assert file.seek(-10, 2) == len(data) - 10 and await file.read() == data[-10:] and await file.read(5) == b""
    assert file.closed
    await raises(FileNotFoundError, fs.open_async(f"{root}/none"))
    for mode in ("r", "r+b", "w"):
        await raises(ValueError, fs.open_async(name, mode))
    await raises(ValueError, fs.open_async(name, compression="gzip"))
    new = f"{root}/many/streamed"
    async with await fs.open_async(new, "wb", block_size=1000) as file:
        # A write that is cancelled is carried out all the same, before the next.
        cancelled = asyncio.ensure_future(file.write(b"a" * 2500))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*(file.write(bytes([letter]) * 2500) for letter in b"bcd"))
        assert not await fs._exists(new)
    assert await fs._cat_file(new) == b"".join(bytes([letter]) * 2500 for letter in b"abcd")
    try:
        async with await fs.open_async(new, "wb") as file:
            await file.write(b"half")
            raise KeyError
    except KeyError:
        pass
    await raises(FileExistsError, fs.open_async(new, "xb"))
    async with await fs.open_async(new, "ab") as file:
        await file.write(b"e")
    file = await fs.open_async(new, "wb")
    await file.write(b"half")
    await file.discard()
    assert (await fs._cat_file(new))[-2:] == b"de" and len(await fs._cat_file(new)) == 10_001
    await fs._rm_file(new)
    assert not [entry for entry in os.listdir(f"{export}/many") if entry.startswith(".")]


def opened() -> int:
    """Files that the server has open."""
    process = int(sessions)
    links = [os.readlink(f"/proc/{process}/fd/{each}") for each in os.listdir(f"/proc/{process}/fd")]
    return sum("/many/" in link for link in links)


asyncio.run(reads())
asyncio.run(streams())
with __import__("tempfile").TemporaryDirectory() as here:
    asyncio.run(writes(here))
asyncio.run(at_once())
asyncio.run(cancelled())
for _ in range(20):
    asyncio.run(a_synchronous_call())
    assert asyncio.run(fs._cat_file(f"{root}/many/3")) == contents[f"{root}/many/3"]
# Several loops at once, each in its thread.
results = []
workers = [threading.Thread(target=lambda: results.append(asyncio.run(fs._cat(list(contents))))) for _ in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert results == [contents] * 4
# Neither the synchronous filesystem nor these need fsspec's thread; coroutines run there, too.
assert iothread[0] is None
from fsspec.asyn import sync
plain = fsspec.filesystem("rfio")
assert not plain.asynchronous and sync(plain.loop, plain._cat_file, f"{root}/many/5") == contents[f"{root}/many/5"]
assert plain.loop is get_loop() and fs.loop is None
# fsspec's filesystems on top of others.
from fsspec.generic import rsync
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.reference import ReferenceFileSystem
assert DirFileSystem(f"{root}/many", fs=plain).cat_file("7") == contents[f"{root}/many/7"]
assert asyncio.run(DirFileSystem(f"{root}/many", fs=fs, asynchronous=True)._cat_file("7")) == contents[f"{root}/many/7"]
references = ReferenceFileSystem({"a": [f"{base}/many/8", 0, 100], "b": [f"{base}/many/9"]}, fs=plain)
assert references.cat(["a", "b"]) == {"a": contents[f"{root}/many/8"][:100], "b": contents[f"{root}/many/9"]}
rsync(f"{base}/many", f"file://{export}/../mirror")
for number in range(60):
    with open(f"{export}/../mirror/{number}", "rb") as file:
        assert file.read() == contents[f"{root}/many/{number}"]
del fs
deadline = time.monotonic() + 10
while opened() and time.monotonic() < deadline:
    asyncio.run(asyncio.sleep(0.05))
    asyncio.run(plain._info(f"{root}/many/5"))
assert opened() == 0, opened()
print("did it all")
