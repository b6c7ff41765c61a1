"""Clients and servers of different versions: today's pair in each older version of the protocol, and, by night, today's
programs with those of an older build."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Callable, Optional

from harness import tiers
from harness.build_tree import ROOT, TARGET, run
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from . import python_package
from .libraries import LIBRARIES, compiled
from .service import SECONDS, SMALL, TOOLS, Service, noise
from .wire import HEADER

#: The versions of the protocol that today's programs support.
OLDEST, NEWEST = 2, 4
#: The commit whose programs are the old ones: the oldest that today's compiler still builds. Its protocol has versions
# 2 and 3.
COMMIT = "c1b8727"
#: More than one request and one checksum carry.
SIZE = 5_000_001

# Replacing a file keeps its mode, whether the server does it (version 4) or the client; ranges of many requests under
# way.
PYTHON_SCRIPT = """
import os, sys
import fsspec
url, export = sys.argv[1:]
fs = fsspec.filesystem("rfio")
data = open(export + "/f", "rb").read()
assert fs.cat_file(url + "/f") == data
assert fs.cat_ranges([url + "/f"] * 50, list(range(50)), list(range(1000, 1050))) == [data[at:at + 1000] for at in range(50)]
fs.pipe_file(url + "/p", b"one")
os.chmod(export + "/p", 0o640)
fs.pipe_file(url + "/p", b"two")
assert open(export + "/p", "rb").read() == b"two" and os.stat(export + "/p").st_mode & 0o777 == 0o640
fs.copy(url + "/p", url + "/q")
assert open(export + "/q", "rb").read() == b"two"
fs.rm(url + "/p")
fs.rm(url + "/q")
print("it all")
"""


class Older:
    """A relay that changes the versions in a client's `Hello`, so that both ends take each other for older or newer
    programs. The handshake of an anonymous client has no proof, so neither end notices."""

    def __init__(self, port: int, lowest: int, highest: int):
        self.to, self.lowest, self.highest = port, lowest, highest
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        #: Versions that the server chose.
        self.chosen: set[int] = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self) -> "Older":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def accept(self) -> None:
        """Until the socket is closed."""
        while True:
            try:
                near, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(near,), daemon=True).start()

    def relay(self, near: socket.socket) -> None:
        """One connection: the hello and its reply are read, all else is passed on."""
        far = socket.create_connection(("127.0.0.1", self.to))
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            front, body = frame(near)
            far.sendall(front + struct.pack(">HH", self.lowest, self.highest) + body[4:])
            front, body = frame(far)
            if struct.unpack_from(">I", body)[0] == 0:
                self.chosen.add(struct.unpack_from(">H", body, 4)[0])
            near.sendall(front + body)
        except OSError:
            near.close()
            far.close()
            return
        back = threading.Thread(target=pass_on, args=(far, near), daemon=True)
        back.start()
        pass_on(near, far)
        back.join()
        near.close()
        far.close()


def frame(stream: socket.socket) -> tuple[bytes, bytes]:
    """The header of a frame without payload or tag, and its body."""
    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            if not (more := stream.recv(count - len(data))):
                raise ConnectionError
            data += more
        return data
    front = exactly(HEADER.size)
    return front, exactly(HEADER.unpack(front)[2])


def pass_on(one: socket.socket, other: socket.socket) -> None:
    """Forwards data, and their end."""
    try:
        while data := one.recv(1 << 20):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def grow(tree: Path) -> None:
    """Small and large files, a directory without any, both kinds of links."""
    (tree / "d/empty").mkdir(parents=True)
    for number in range(40):
        (tree / "d" / f"f{number}").write_bytes(noise(number * 97, number))
    (tree / "large").write_bytes(noise(SIZE, 2))
    (tree / "link").symlink_to("d/f7")
    os.link(tree / "d/f8", tree / "second")


def tools(service: Service, at: Callable[[str], str], **more: str) -> Optional[Outcome]:
    """Whole copies both ways, trees, a part that is continued, listings, checksums, names; returns the failure."""
    here, there = service.here, service.export
    data = noise(SIZE)
    (there / "f").write_bytes(data)
    tree = here / "tree"
    if not tree.exists():
        grow(tree)
    part = data[:2 << 20] + bytes(1000)
    (here / ".part.rfpart").write_bytes(part)
    (there / ".part.rfpart").write_bytes(part)
    steps: list[tuple[str, ...]] = [
        ("rfcp", "--checksum", at("f"), str(here / "back")), ("rfcp", "--checksum", "-P", "2", str(here / "back"), at("g")),
        ("rfcp", "--continue", at("f"), str(here / "part")), ("rfcp", "--continue", str(here / "back"), at("part")),
        ("rfcp", "-r", "-P", "2", str(tree), at("tree")), ("rfcp", "-r", at("tree"), str(here / "copy")),
        ("rfcp", "-r", "--continue", "--checksum", at("tree"), str(here / "copy")), ("rfcp", at("f"), at("between")),
        ("rfmkdir", "-p", at("a/b")), ("rfrename", at("g"), at("a/b/g")), ("rfchmod", "640", at("a/b/g")), ("rfstat", at("a/b/g")),
    ]
    for program, *arguments in steps:
        ended = service.tool(program, *arguments, **more)
        if not ended.succeeded:
            return failed(f"{program} {arguments[0]} fails", ended.evidence())
    for path in (here / "back", here / "part", there / "part", there / "a/b/g", there / "between"):
        if path.read_bytes() != data:
            return failed(f"{path.name} has other bytes")
    different = service.place.run("diff", ["diff", "-r", "--no-dereference", str(tree), str(here / "copy")], 60)
    again = service.place.run("diff", ["diff", "-r", "--no-dereference", str(tree), str(here / "copy/tree")], 60)
    if not different.output.startswith(f"Only in {here / 'copy'}: tree\n") or different.output.count("\n") != 1 or not again.succeeded:
        return failed("the trees differ", different.evidence() + again.evidence())
    if os.stat(there / "tree/d/f8").st_ino != os.stat(there / "tree/second").st_ino:
        return failed("a second name is another file")
    if (there / "a/b/g").stat().st_mode & 0o777 != 0o640:
        return failed("rfchmod did nothing")
    listed = service.tool("rfdir", "-R", at("tree"), **more)
    if not listed.succeeded or any(f"f{number}" not in listed.output for number in range(40)):
        return failed("rfdir", listed.evidence())
    cat = service.begin("rfcat", at("f"), **more)
    ended = cat.finish(cat.started + SECONDS)
    if not ended.succeeded or cat.log.read_bytes() != data:
        return failed("rfcat", ended.command)
    for name, status in (("nothing", 2), ("a", 2)):
        ended = service.tool("rfcat", at(name), **more)
        if ended.status != status or "protocol" in ended.output:
            return failed(f"rfcat of {name}", ended.evidence())
    ended = service.tool("rfrm", "-r", at("a"), at("tree"), at("part"), at("between"), **more)
    left = sorted(os.listdir(there))
    if not ended.succeeded or left != ["f"]:
        return failed(f"rfrm -r leaves {left}", ended.evidence())
    for name in ("back", "part", "copy"):
        shutil.rmtree(here / name) if name == "copy" else (here / name).unlink()
    return None


def c_programs(service: Service, programs: list[Path], port: int, **more: str) -> Optional[Outcome]:
    """Runs the C library's programs; returns the failure."""
    original = service.export / "f"
    original.write_bytes(noise(20 << 20))
    for program in programs:
        plain = [str(program), f"rfio://127.0.0.1:{port}", str(original)]
        ended = service.place.run(program.name, plain if service.fabric == "tcp" else run(*plain), SECONDS,
                                  **{**service.environment(), "RFIO_FABRIC": service.fabric, **more})
        if not (ended.succeeded and "all of it" in ended.output):
            return failed(f"{program.name} fails", ended.evidence())
    return None


def of_protocol(place: Place, fabric: str, version: int) -> Outcome:
    """Today's tools, C library and Python package with today's server, each of which takes the other for an older
    version."""
    programs = []
    # Servers of version 2 cannot copy between their files, which `beyond` does: rfio_copy_range says EXDEV.
    for source in ("trfio", "requests", *(["beyond"] if version > 2 else [])):
        program, problem = compiled(place, "rfio", source)
        if problem:
            return problem
        programs.append(program)
    with Service(place, fabric, "--anonymous", "write") as service, Older(service.port, OLDEST, version) as older:
        anonymous = {"RFIO_SECRETS": str(service.directory / "none")}
        if problem := tools(service, lambda name: f"rfio://127.0.0.1:{older.port}/{name}", **anonymous):
            return problem
        if problem := c_programs(service, programs, older.port, **anonymous):
            return problem
        if not python_package.lacks("fsspec"):
            script = place.directory / "script.py"
            script.write_text(PYTHON_SCRIPT)
            plain = [str(python_package.PYTHON), str(script), f"rfio://127.0.0.1:{older.port}", str(service.export)]
            ended = place.run("python", run(*plain) if fabric == "verbs" else plain, SECONDS, RFIO_FABRIC=fabric,
                              PYTHONPATH=str(python_package.installed()), **{**service.environment(), **anonymous})
            if not ended.succeeded or "it all" not in ended.output:
                return failed("the Python script fails", ended.evidence())
        if older.chosen != {version}:
            return failed(f"versions {older.chosen} were used")
        carried = service.metric("rfio_fabric_sent_bytes_total")
        return passed() if (carried > 0) == (fabric == "verbs") else failed(f"{carried} bytes were moved by RDMA")


def without_a_common_one(place: Place) -> Outcome:
    """A client from before or after all versions of the server gets both ranges, at once; one that knows newer
    versions, too, is served."""
    with Service(place, "tcp", "--anonymous", "write") as service:
        (service.export / "f").write_bytes(noise(1000))
        anonymous = {"RFIO_SECRETS": str(service.directory / "none")}
        for lowest, highest in ((1, 1), (NEWEST + 1, NEWEST + 5)):
            with Older(service.port, lowest, highest) as older:
                for program, *more in (("rfcp", service.here / "f"), ("rfcat",), ("rfdir",)):
                    ended = service.tool(program, f"rfio://127.0.0.1:{older.port}/f", *more, **anonymous)
                    said = f"the client supports versions {lowest} to {highest}, the server {OLDEST} to {NEWEST}"
                    if ended.status != 2 or said not in ended.output or (service.here / "f").exists():
                        return failed(f"{program} of versions {lowest} to {highest}", ended.evidence())
        with Older(service.port, OLDEST, NEWEST + 5) as older:
            ended = service.tool("rfcp", f"rfio://127.0.0.1:{older.port}/f", service.here / "f", **anonymous)
            if not ended.succeeded or older.chosen != {NEWEST}:
                return failed(f"a newer client: {older.chosen}", ended.evidence())
        return passed()


class NotBuilt(Exception):
    """The old programs are not available."""


def old_programs() -> Path:
    """The directory of the old commit's programs, built once and kept in the build directory."""
    home = TARGET / f"rfio-{COMMIT}"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built, source = home / "build/release", home / "source"
        if (home / "whole").exists():
            return built
        if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{COMMIT}^{{commit}}"], capture_output=True, check=False).returncode:
            raise NotBuilt(f"needs a clone with the commit {COMMIT}")
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        archive = subprocess.run(["git", "-C", ROOT, "archive", COMMIT], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        environment = {**os.environ, "CARGO_TARGET_DIR": str(home / "build"), "CARGO_PROFILE_RELEASE_DEBUG": "false"}
        for command in (["cargo", "build", "--release", "--locked", "-p", "verbena-rfio-tools", "-p", "verbena-librfio"],
                        [str(source / "crates/librfio/link.sh"), str(built)]):
            made = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
            if made.returncode:
                raise RuntimeError(f"{' '.join(command)} of commit {COMMIT}:\n{made.stderr}")
        (home / "whole").touch()
        return built


def of_programs(place: Place, fabric: str, old_side: str) -> Outcome:
    """Programs of an older build with today's: the tools and the C library, by a secret; features that the older ones
    lack are a clear error."""
    try:
        old = old_programs()
    except NotBuilt as why:
        return skipped(str(why))
    clients, daemon = (old, TOOLS) if old_side == "clients" else (TOOLS, old)

    class Mixed(Service):
        """A service and tools of two builds."""
        programs, daemons = clients, daemon

    libraries = old / "lib" if old_side == "clients" else LIBRARIES
    programs = []
    for source in ("trfio", "beyond", "requests"):
        # Compiled against today's header; the old library is found at run time, as with a program from before an
        # update.
        program, problem = compiled(place, "rfio", source)
        if problem:
            return problem
        programs.append(program)
    # The option that sets when the cache is allocated was added later.
    limits = SMALL[:SMALL.index("--cache-pages")] if old_side == "server" else SMALL
    with Mixed(place, fabric, limits=limits) as service:
        if problem := tools(service, service.at):
            return problem
        if problem := c_programs(service, programs, service.port, LD_PRELOAD=str(libraries / "librfio.so.2")):
            return problem
        if old_side == "server" and not python_package.lacks("fsspec"):
            script = place.directory / "script.py"
            script.write_text(PYTHON_SCRIPT)
            ended = place.run("python", [str(python_package.PYTHON), str(script), f"rfio://127.0.0.1:{service.port}", str(service.export)],
                              SECONDS, RFIO_FABRIC="tcp", PYTHONPATH=str(python_package.installed()), **service.environment())
            if not ended.succeeded or "it all" not in ended.output:
                return failed("the Python script fails", ended.evidence())
        wrong = place.directory / "wrong"
        wrong.touch(0o600)
        wrong.write_bytes(b"tester:another secret than the server's\n")
        ended = service.tool("rfcat", service.at("f"), RFIO_SECRETS=str(wrong))
        # The older server has other words before these.
        if ended.status != 2 or "unknown user or wrong secret" not in ended.output:
            return failed("a wrong secret", ended.evidence())
        carried = service.metric("rfio_fabric_sent_bytes_total")
        return passed() if (carried > 0) == (fabric == "verbs") else failed(f"{carried} bytes were moved by RDMA")


CASES: dict[tuple[str, str], Callable[[Place], Outcome]] = {
    **{(f"version {version} of the protocol", fabric): partial(of_protocol, fabric=fabric, version=version)
       for version in range(OLDEST, NEWEST) for fabric in ("tcp", "verbs")},
    ("no common version of the protocol", "protocol"): without_a_common_one,
}
if tiers.by_night():
    CASES |= {(f"an older build's {side}", fabric): partial(of_programs, fabric=fabric, old_side=side)
              for side in ("clients", "server") for fabric in ("tcp", "verbs")}
