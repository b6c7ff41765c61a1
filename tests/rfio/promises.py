"""rfcp's guarantees for every size and direction: stable storage, verification, one state of the source, continuing,
attributes and holes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Iterator

from harness import mounts
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .service import Service, noise

SHUTDOWN, WITHOUT_THE_LOG = 0x8004587D, struct.pack("I", 2)
SMALL, LARGE = 5_000, 3_000_000


class Disk:
    """A small ext4 file system whose power can be cut (ioctl EXT4_IOC_SHUTDOWN without flushing the log)."""

    def __init__(self, place: Place, name: str):
        self.image, self.at = place.directory / f"{name}.img", place.directory / name
        self.at.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(96 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", self.image], check=True)
        self.mount()

    def mount(self) -> None:
        """No write-back happens before it is requested."""
        subprocess.run(["mount", "-o", "loop,commit=300,noatime", self.image, self.at], check=True)

    def cut(self) -> None:
        """The power fails, and comes back."""
        directory = os.open(self.at, os.O_RDONLY)
        fcntl.ioctl(directory, SHUTDOWN, WITHOUT_THE_LOG)
        os.close(directory)
        self.close()
        self.mount()

    def close(self) -> None:
        """Unmounts. Killed processes with open files may still be ending."""
        deadline = time.monotonic() + 10
        while (ended := subprocess.run(["umount", self.at], capture_output=True, text=True)).returncode:
            if "busy" not in ended.stderr or time.monotonic() > deadline:
                raise RuntimeError(ended.stderr)
            time.sleep(0.01)


@contextmanager
def disk(place: Place, name: str) -> Iterator[Disk]:
    """A disk for the duration of a context."""
    mounts.unshare()
    made = Disk(place, name)
    try:
        yield made
    finally:
        made.close()


def tree_of(base: Path) -> Path:
    """Small files, a large one and directories within directories."""
    tree = base / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    for number in range(20):
        (tree / "a" / f"small {number}").write_bytes(noise(SMALL, number))
    (tree / "a" / "b" / "large").write_bytes(noise(LARGE))
    (tree / "top").write_bytes(b"top")
    return tree


def listing(tree: Path) -> dict[str, bytes]:
    """Every file below with its bytes."""
    return {str(path.relative_to(tree)): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}


def power_cut(place: Place, direction: str, kind: str) -> Outcome:
    """--sync and exit 0, then the power fails: every file is there, under its name."""
    if os.geteuid() != 0 or which("mkfs.ext4") is None:
        return skipped("needs root and mkfs.ext4, for a disk whose power can be cut")
    with disk(place, "disk") as target:
        export = target.at / "export"
        export.mkdir()
        here = target.at / "here"
        here.mkdir()
        os.sync()
        with Service(place, "tcp", export=export if direction != "download" else None) as service:
            base = service.export if direction == "download" else service.here
            tree = tree_of(base)
            source = tree if kind == "tree" else tree / "a/b/large"
            name = f"{kind}-copy"
            what = ["-r"] if kind == "tree" else []
            if direction == "download":
                places = [service.at(source.relative_to(base)), here / name]
                arrived = here / name
            else:
                places = [source, service.at(name)]
                arrived = export / name
            ended = service.tool("rfcp", "--sync", *what, *places)
            if not ended.succeeded:
                return failed("rfcp --sync failed", ended.evidence())
            expected = listing(tree) if kind == "tree" else source.read_bytes()
            if direction != "download":
                service.stop()
            target.cut()
        if not arrived.exists():
            return failed("no file is there after the power cut")
        found = listing(arrived) if kind == "tree" else arrived.read_bytes()
        if found != expected:
            lost = len(set(expected.items()) - set(found.items())) if kind == "tree" else 1
            return failed(f"{lost} files are lost or damaged after the power cut")
    return passed()


def torn_small_files(place: Place, direction: str) -> Outcome:
    """Small files that are rewritten all the time: a copy that exits 0 is of one state."""
    with Service(place, "tcp") as service:
        base = service.export if direction == "download" else service.here
        tree = base / "tree"
        tree.mkdir()
        size, names = 200_000, [tree / f"f{number}" for number in range(4)]
        for name in names:
            name.write_bytes(bytes(size))
        stop = threading.Event()

        def rewrite(name: Path) -> None:
            turn = 0
            while not stop.is_set():
                # Each state is of one byte throughout: a mix was read in two states.
                until = time.monotonic() + 0.08
                with open(name, "r+b", buffering=0) as file:
                    while time.monotonic() < until:
                        turn = turn % 250 + 1
                        os.pwrite(file.fileno(), bytes([turn]) * size, 0)
                time.sleep(0.06)

        threads = [threading.Thread(target=rewrite, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        torn = whole = refused = 0
        try:
            for number in range(15):
                if direction == "download":
                    places, arrived = (service.at("tree"), service.here / f"c{number}"), service.here / f"c{number}"
                else:
                    places, arrived = (tree, service.at(f"c{number}")), service.export / f"c{number}"
                ended = service.tool("rfcp", "-r", *places)
                copies = sorted(arrived.glob("f*"))
                for copy in copies:
                    data = copy.read_bytes()
                    if len(set(data)) == 1 and len(data) == size:
                        whole += 1
                    else:
                        torn += 1
                refused += len(names) - len(copies)
                if len(copies) < len(names) and (ended.status == 0 or "changed" not in ended.output):
                    return failed("files are missing without a message", ended.evidence())
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if torn:
            return failed(f"{torn} of {torn + whole + refused} copies are torn")
        # Once the writers rest, everything comes.
        if direction == "download":
            ended = service.tool("rfcp", "-r", service.at("tree"), service.here / "last")
        else:
            ended = service.tool("rfcp", "-r", tree, service.at("last"))
        return passed(f"{whole} whole, {refused} refused") if ended.succeeded else failed("nothing is copied", ended.evidence())


def kept_attributes(place: Place, direction: str) -> Outcome:
    """Modes of directories and of continued files, times of directories, hard links, holes, and extended attributes."""
    with Service(place, "tcp") as service:
        base = service.export if direction == "download" else service.here
        tree = base / "tree"
        for name, mode in (("private", 0o700), ("shared", 0o775), ("locked", 0o555)):
            (tree / name).mkdir(parents=True)
            (tree / name / "small").write_bytes(noise(SMALL))
            os.chmod(tree / name / "small", 0o640)
            os.chmod(tree / name, mode)
        large = tree / "large"
        large.write_bytes(noise(LARGE))
        os.chmod(large, 0o604)
        os.link(large, tree / "second")
        os.link(tree / "shared/small", tree / "shared/third")
        with open(tree / "sparse", "wb") as file:
            file.write(b"front")
            file.seek(1 << 30)
            file.write(b"middle")
            file.truncate(5 << 30)
        with_extended = True
        try:
            for name in ("large", "shared/small", "sparse"):
                os.setxattr(tree / name, "user.note", b"about " + name.encode())
        except OSError:
            with_extended = False
        for name in ("private", "shared", "locked", ""):
            os.utime(tree / name, ns=(10 ** 18, 10 ** 18 + 123_456_789))
        # A part of an earlier attempt has the bits that it got then.
        copy = (service.here if direction == "download" else service.export) / "copy"
        copy.mkdir()
        (copy / ".large.rfpart").write_bytes(large.read_bytes()[:1_000_000])
        os.chmod(copy / ".large.rfpart", 0o600)
        options = ["-r", "--continue", "--checksum", *(["--xattrs"] if with_extended else [])]
        places = (service.at("tree"), service.here / "copy/") if direction == "download" else (tree, service.at("copy"))
        # In an existing directory the tree keeps its name; its content is expected beside the part.
        (copy / ".large.rfpart").rename(copy.parent / "part")
        copy.rmdir()
        copy.mkdir()
        (copy / "tree").mkdir()
        (copy.parent / "part").rename(copy / "tree/.large.rfpart")
        ended = service.tool("rfcp", *options, *places)
        if not ended.succeeded:
            return failed("rfcp failed", ended.evidence())
        copy = copy / "tree"
        wrong = []
        for name in ("private", "shared", "locked"):
            one, other = os.stat(tree / name), os.stat(copy / name)
            if (one.st_mode, one.st_mtime_ns) != (other.st_mode, other.st_mtime_ns):
                wrong.append(f"{name}: mode {other.st_mode:o}, time {other.st_mtime_ns}")
            if os.stat(copy / name / "small").st_mode & 0o777 != 0o640:
                wrong.append(f"{name}/small")
        if os.stat(copy / "large").st_mode & 0o777 != 0o604:
            wrong.append(f"large: mode {os.stat(copy / 'large').st_mode:o}")
        for one, other in (("large", "second"), ("shared/small", "shared/third")):
            if os.stat(copy / one).st_ino != os.stat(copy / other).st_ino:
                wrong.append(f"{one} and {other} are two files")
        sparse = os.stat(copy / "sparse")
        if sparse.st_size != 5 << 30 or sparse.st_blocks * 512 > 4 << 20:
            wrong.append(f"sparse: {sparse.st_size} bytes, {sparse.st_blocks} blocks")
        with open(copy / "sparse", "rb") as file:
            if file.read(6) != b"front\0" or file.seek(1 << 30) and file.read(7) != b"middle\0":
                wrong.append("sparse: other bytes")
        if with_extended:
            for name in ("large", "shared/small", "sparse"):
                try:
                    if os.getxattr(copy / name, "user.note") != b"about " + name.encode():
                        wrong.append(f"{name}: another attribute")
                except OSError:
                    wrong.append(f"{name}: no extended attribute")
        return failed("; ".join(wrong)) if wrong else passed("with extended attributes" if with_extended else "")


def continued_trees(place: Place, direction: str) -> Outcome:
    """-r --continue moves missing and changed files, and nothing else."""
    with Service(place, "tcp") as service:
        base = service.export if direction == "download" else service.here
        tree = tree_of(base)
        places = (service.at("tree"), service.here / "copy") if direction == "download" else (tree, service.at("copy"))
        copy = (service.here if direction == "download" else service.export) / "copy"
        ended = service.tool("rfcp", "-r", *places)
        if not ended.succeeded:
            return failed("rfcp -r failed", ended.evidence())
        (copy / "a/small 3").unlink()
        (tree / "a/small 4").write_bytes(noise(SMALL, 99))
        # An existing copy is continued by the content of the tree.
        arranged = (service.at("tree/."), copy) if direction == "download" else (f"{tree}/.", service.at("copy"))
        for options, expected in (([], 2 * SMALL), ([], 0), (["--checksum"], 0)):
            ended = service.tool("rfcp", "-r", "--json", "--continue", *options, *arranged)
            if not ended.succeeded or listing(copy) != listing(tree):
                return failed("not continued", ended.evidence())
            moved = json.loads(ended.output.splitlines()[-1])["moved_bytes"]
            if moved != expected:
                return failed(f"{moved} bytes moved, {expected} were missing", ended.evidence())
        # Bytes that differ under the same size and time: only --checksum sees them.
        about = os.stat(copy / "a/small 5")
        (copy / "a/small 5").write_bytes(noise(SMALL, 77))
        os.utime(copy / "a/small 5", ns=(about.st_atime_ns, about.st_mtime_ns))
        ended = service.tool("rfcp", "-r", "--continue", "--checksum", *arranged)
        if not ended.succeeded or listing(copy) != listing(tree):
            return failed("--checksum keeps other bytes", ended.evidence())
        return passed()


def between_services(place: Place) -> Outcome:
    """From one service to another: trees as well, and --checksum is not ignored."""
    with Service(place, "tcp") as one, Service(place, "tcp") as other:
        tree = tree_of(one.export)
        target = f"rfio://127.0.0.1:{other.port}/copy"
        ended = one.tool("rfcp", "-r", "--checksum", "--sync", one.at("tree"), target)
        if not ended.succeeded or listing(other.export / "copy") != listing(tree):
            return failed("a tree does not go from service to service", ended.evidence())
        before = other.metric('rfio_requests_total{operation="Checksum"}')
        ended = one.tool("rfcp", "--checksum", one.at("tree/a/b/large"), f"rfio://127.0.0.1:{other.port}/large")
        asked = other.metric('rfio_requests_total{operation="Checksum"}') - before
        if not ended.succeeded or asked == 0:
            return failed(f"--checksum asked for {asked} checksums", ended.evidence())
        return passed()


def lost_server(place: Place) -> Outcome:
    """A server that goes away in the middle of a tree: a few lines say so, not one a file."""
    with Service(place, "tcp") as service:
        for direction in ("download", "upload"):
            tree = (service.export if direction == "download" else service.here) / f"{direction}-tree"
            tree.mkdir()
            for number in range(4000):
                (tree / f"{number}").write_bytes(noise(2000, number))
            name = tree.name
            places = (service.at(name), service.here / "copy") if direction == "download" else (tree, service.at("copy"))
            arrived = (service.here if direction == "download" else service.export) / "copy"
            copy = service.begin("rfcp", "-r", "-P", 3, "--retry", 0, *places)
            deadline = time.monotonic() + 30
            while copy.running and time.monotonic() < deadline:
                try:
                    if len(os.listdir(arrived)) > 300:
                        break
                except FileNotFoundError:
                    pass
            os.kill(service.daemon.pid, signal.SIGKILL)
            ended = copy.finish(time.monotonic() + 30)
            service.kill()
            lines = ended.output.splitlines()
            if ended.status == 0 and len(os.listdir(arrived)) == 4000:
                return skipped("the copy was faster than the end of the server")
            if ended.status != 2 or len(lines) > 8:
                return failed(f"exit code {ended.status}, {len(lines)} lines", "\n".join(lines[:20]))
            service.start()
        return passed(f"{len(lines)} lines")


def said_path(place: Place, fabric: str) -> Outcome:
    """The last line and --json name the path of the data."""
    with Service(place, fabric) as service:
        (service.export / "f").write_bytes(noise(5_000_000))
        ended = service.tool("rfcp", service.at("f"), "/dev/null")
        wanted = "by verbs" if fabric == "verbs" else "by TCP"
        if wanted not in ended.output.splitlines()[-1]:
            return failed("the last line does not name the path", ended.evidence())
        ended = service.tool("rfcp", "--json", service.at("f"), "/dev/null")
        report = json.loads(ended.output)
        return passed() if report.get("path") == fabric else failed("--json does not name the path", ended.evidence())
