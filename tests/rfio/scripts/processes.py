"""Forks, pickles, threads, signals, and the end of the interpreter."""

import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import fsspec

base, export = sys.argv[1:3]


def length(opened) -> int:
    """Returns the number of bytes that a pool's process reads, of a filesystem and a path or of fsspec's OpenFile."""
    if isinstance(opened, tuple):
        return len(opened[0].cat_file(opened[1]))
    with opened as file:
        return len(file.read())


def text(name: str) -> str:
    """Returns a file's content."""
    with open(f"{export}/{name}", encoding="utf-8") as file:
        return file.read()


def raises(error: type, act) -> None:
    """`act` raises it."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"{error.__name__} was due")


def in_child(act) -> int:
    """The exit status of a fork that does this, and ends as a program does."""
    sys.stdout.flush()
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        act()
    except BaseException as error:
        print("child", repr(error), flush=True)
        os._exit(1)
    sys.exit(0)


def forked() -> None:
    """A child does not flush its parent's writes, and reads through inherited objects."""
    fs = fsspec.filesystem("rfio")
    fs.pipe_file(f"{base}/f", b"x" * 1000)
    reader = fs.open(f"{base}/f", "rb", block_size=10)
    assert reader.read(10) == b"x" * 10
    asyncio.run(fsspec.filesystem("rfio", asynchronous=True)._info(f"{base}/f"))
    for mode, compression in (("wb", None), ("wb", "gzip"), ("w", None), ("ab", None)):
        writer = fs.open(f"{base}/written", mode, block_size=10, compression=compression)
        half = "half" * 5 if mode == "w" else b"half" * 5
        writer.write(half)

        def child():
            raises(OSError, lambda: (writer.write(half), writer.flush()))
            if mode != "w":
                writer.close()
            assert reader.read(20) == b"x" * 20 and fs.cat_file(f"{base}/f") == b"x" * 1000
            assert fsspec.filesystem("rfio").info(f"{base}/f")["size"] == 1000
            assert asyncio.run(fs._cat_file(f"{base}/f")) == b"x" * 1000
            assert asyncio.run(fs._find(base))
            fs.pipe_file(f"{base}/by the child", b"child")

        status = in_child(child) if mode != "w" else 0
        assert status == 0, (mode, compression, status)
        # A child that does nothing with it.
        assert in_child(lambda: None) == 0
        gc.collect()
        writer.write(half)
        writer.close()
        with fs.open(f"{base}/written", "rb", compression=compression) as file:
            found = file.read()
        assert found == b"half" * 10, (mode, compression, found)
        assert text("by the child") == "child"
        fs.rm(f"{base}/written")
    assert reader.read(10) == b"x" * 10


def pools() -> None:
    """Processes that are spawned and forked, with pickles of filesystems and of files."""
    fs = fsspec.filesystem("rfio", retry=7)
    work = [(fs, f"{base}/f"), fsspec.open(f"{base}/f", "rb"), fsspec.open(f"{base}/f", "rt")] * 4
    for way in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(way).Pool(3) as pool:
            assert pool.map(length, work) == [1000] * 12, way


def pickles() -> None:
    """Filesystems are equal to their pickles; files are opened again."""
    for options in ({}, {"asynchronous": True}, {"retry": 7, "auto_mkdir": False}):
        fs = fsspec.filesystem("rfio", **options)
        assert fs is fsspec.filesystem("rfio", **options) is not fsspec.filesystem("rfio", retry=99)
        assert pickle.loads(pickle.dumps(fs)) is fs and fsspec.AbstractFileSystem.from_json(fs.to_json()) is fs
        assert (fs.retry, fs.auto_mkdir) == (options.get("retry", 30), options.get("auto_mkdir", True))
    fs = fsspec.filesystem("rfio")
    with fs.open(f"{base}/f", "rb") as file:
        file.read(10)
        kept = pickle.dumps(file)
        assert pickle.loads(kept).read() == b"x" * 990
    # One that another file has replaced is read as that, whole.
    fs.pipe_file(f"{base}/f", b"y" * 2000)
    assert pickle.loads(kept).read() == b"y" * 1990
    with fs.open(f"{base}/g", "wb") as file:
        raises(TypeError, lambda: pickle.dumps(file))
    # A file that is open while another takes its name is read to its own end.
    with fs.open(f"{base}/f", "rb", cache_type="none") as file:
        fs.pipe_file(f"{base}/f", b"x" * 1000)
        assert file.read() == b"y" * 2000 and file.info()["size"] == 2000


def threads() -> None:
    """Many threads of one filesystem, each with its files."""
    fs, wrong = fsspec.filesystem("rfio"), []

    def work(number: int) -> None:
        try:
            for turn in range(15):
                data = b"%d" % (number * 100 + turn) * 5000
                fs.pipe_file(f"{base}/threads/{number}", data)
                with fs.open(f"{base}/shared", "wb", block_size=1000) as file:
                    file.write(data)
                assert fs.cat_file(f"{base}/threads/{number}") == data
                assert fs.cat_file(f"{base}/shared")[:1].isdigit()
                assert asyncio.run(fs._cat_file(f"{base}/threads/{number}")) == data
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong, wrong[:2]
    assert not [name for name in os.listdir(export) if "rfpart" in name]


# In short pieces: a signal just before a sleep is seen after it.
REST = "def rest():\n    while True:\n        time.sleep(0.05)\n"
PROGRAMS = {
    "writing": "with fs.open(url, 'wb', block_size=1000) as file:\n    file.write(b'half' * 1000)\n    say()\n    rest()",
    "writing much": "with fs.open(url, 'wb') as file:\n    say()\n    while True:\n        file.write(b'half' * 1_000_000)",
    "text": "with fs.open(url, 'w', compression='gzip') as file:\n    file.write('half' * 1000)\n    say()\n    rest()",
    "coroutines": "async def act():\n    say()\n    while True:\n        await asyncio.gather(*(fs._cat_file(url) for _ in range(50)))\n"
                  "asyncio.run(act())",
    "coroutines that write": "async def act():\n    say()\n    while True:\n"
                             "        await asyncio.gather(*(fs._pipe_file(url + str(i), b'whole') for i in range(50)))\n"
                             "asyncio.run(act())",
    "a loop of fsspec": "say()\nwhile True:\n    fsspec.asyn.sync(fs.loop, fs._cat_file, url)",
}


def signals() -> None:
    """Ctrl-C in the middle: the program ends at once, and the old file stays."""
    for how, program in PROGRAMS.items():
        fsspec.filesystem("rfio").pipe_file(f"{base}/good", b"good")
        for delay in (0, 0.15):
            process = subprocess.Popen(
                [sys.executable, "-c", "import asyncio, sys, time, fsspec, fsspec.asyn\nfs, url = fsspec.filesystem('rfio'), sys.argv[1]\n"
                 f"def say(): print('begun', flush=True)\n{REST}{program}", f"{base}/good"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.readline()
            time.sleep(delay)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
            assert b"KeyboardInterrupt" in said and process.returncode in (1, 130, -signal.SIGINT), (how, process.returncode, said)
            assert time.monotonic() - begun < 10, how
            assert text("good") == "good" and not [name for name in os.listdir(export) if "rfpart" in name], (how, os.listdir(export))


def ends() -> None:
    """A program that ends with a file that it did not close, and with event loops that it did not."""
    for program in ("file = fs.open(url, 'wb')\nfile.write(b'half')",
                    "def f():\n    file = fs.open(url, 'w', compression='gzip')\n    file.write('half')\n    raise SystemExit(0)\nf()",
                    "loop = asyncio.new_event_loop()\nassert loop.run_until_complete(fs._cat_file(url)) == b'good'",
                    "loop = asyncio.new_event_loop()\ntask = loop.create_task(fs._cat_file(url))\n"
                    "loop.run_until_complete(asyncio.sleep(0))"):
        fsspec.filesystem("rfio").pipe_file(f"{base}/good", b"good")
        done = subprocess.run([sys.executable, "-c", "import asyncio, sys, fsspec\nfs, url = fsspec.filesystem('rfio'), sys.argv[1]\n"
                               + program, f"{base}/good"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (program, done)
        assert text("good") == "good" and not [name for name in os.listdir(export) if "rfpart" in name], (program, os.listdir(export))


if __name__ == "__main__":
    os.umask(0o022)
    for part in (forked, pools, pickles, threads, signals, ends):
        begun = time.monotonic()
        part()
        print(part.__name__, round(time.monotonic() - begun, 1), flush=True)
    print("did it all")
