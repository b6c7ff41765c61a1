"""A tree's content besides files: special files, bits and times of directories and links, and the tree's own copy."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import Service

LONG_AGO = 10 ** 18 + 123_456_789


def ends(service: Service, direction: str) -> tuple[Path, Path]:
    """Returns the directories of the tree and of its copy."""
    return (service.export, service.here) if direction == "download" else (service.here, service.export)


def copy(service: Service, direction: str, *options: str, source: str = "tree", to: str = "copy"):
    """Copies the tree."""
    here = str(service.here / (to if direction == "download" else source))
    there = service.at(source if direction == "download" else to)
    return service.tool("rfcp", *options, *((there, here) if direction == "download" else (here, there)))


def special_files(place: Place, direction: str) -> Outcome:
    """FIFOs, sockets and devices: each is named, they are counted, and the rest is copied with exit code 0."""
    with Service(place, "tcp") as service:
        base, target = ends(service, direction)
        (base / "tree/d").mkdir(parents=True)
        (base / "tree/f").write_bytes(b"x")
        os.mkfifo(base / "tree/d/fifo")
        os.mkfifo(os.fsencode(base / "tree") + b"/\xff\x1b[2J")
        os.mkfifo(base / "tree/excluded")
        names = {"d/fifo": "a FIFO", "\\xff\\u{1b}[2J": "a FIFO", "d/socket": "a socket"}
        with socket.socket(socket.AF_UNIX) as made:
            directory = os.open(base / "tree/d", os.O_RDONLY)
            # The path of a socket is short.
            made.bind(f"/proc/self/fd/{directory}/socket")
            os.close(directory)
        if os.geteuid() == 0:
            os.mknod(base / "tree/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            names["null"] = "a character device"
        ended = copy(service, direction, "-r", "--json", "--exclude", "/excluded")
        report = json.loads(ended.output.splitlines()[-1])
        if not ended.succeeded or report["special_files"] != len(names) or report["files"] != 1:
            return failed("the count is wrong", ended.evidence())
        told = {name.split("/tree/", 1)[1] for name in report["special_file_names"]}
        if told != set(names):
            return failed(f"--json has {told}", ended.evidence())
        for name, kind in names.items():
            if f"/tree/{name}: left out: {kind} is not copied" not in ended.output:
                return failed(f"{name} is not named", ended.evidence())
        if "excluded" in ended.output or sorted(os.listdir(target / "copy")) != ["d", "f"]:
            return failed(f"copied: {os.listdir(target / 'copy')}", ended.evidence())
        ended = copy(service, direction, "-r", to="again")
        return passed() if "skipped" in ended.output.splitlines()[-1] else failed("the last line has no count", ended.evidence())


def bits_and_times(place: Place, direction: str) -> Outcome:
    """Sticky and set-group-ID bits of directories, also inherited ones, and times of links. Files get neither."""
    with Service(place, "tcp") as service:
        base, target = ends(service, direction)
        tree = base / "tree"
        modes = {"shared": 0o1777, "group": 0o2775, "plain": 0o755}
        for name, mode in modes.items():
            (tree / name).mkdir(parents=True)
            (tree / name / "f").write_bytes(b"x")
            os.chmod(tree / name, mode)
        (tree / "program").write_bytes(b"x")
        os.chmod(tree / "program", 0o6755)
        (tree / "link").symlink_to("program")
        for name in ("link", "plain"):
            os.utime(tree / name, ns=(LONG_AGO, LONG_AGO), follow_symlinks=False)
        for attempt in ("new", "there already"):
            ended = copy(service, direction, "-r", source="tree/.", to="copy")
            if not ended.succeeded:
                return failed(f"{attempt}: rfcp failed", ended.evidence())
            for name, mode in {**modes, "program": 0o755}.items():
                if (got := stat.S_IMODE(os.stat(target / "copy" / name).st_mode)) != mode:
                    return failed(f"{attempt}: {name} has mode {got:o}, not {mode:o}")
            for name in ("link", "plain"):
                if os.lstat(target / "copy" / name).st_mtime_ns != LONG_AGO:
                    return failed(f"{attempt}: {name} has another time")
        above = target / "above"
        above.mkdir()
        os.chmod(above, 0o2775)
        ended = copy(service, direction, "-r", to="above")
        got = stat.S_IMODE(os.stat(above / "tree/plain").st_mode)
        return passed() if ended.succeeded and got == 0o2755 else failed(f"the group is not passed on: {got:o}", ended.evidence())


def into_itself(place: Place) -> Outcome:
    """A tree into itself is refused, under any two names of it, and nothing is left of the attempt where the refusal
    can be decided beforehand."""
    with Service(place, "tcp", "--local", str(place.directory / "s")) as service:
        here, there = service.here, service.export
        for base in (here, there):
            (base / "tree/sub").mkdir(parents=True)
            (base / "tree/sub/f").write_bytes(b"x")
            (base / "link").symlink_to("tree/sub")
            (base / "treetop").mkdir()
        socket_ = f"[{place.directory}/s]:/"
        refused = [(here / "tree", here / "tree/in"), (here / "tree", here / "tree"), (here / "tree", here / "tree/sub/in"),
                   (here / "tree", here / "link/in"), (here / "tree", here / "link"), (f"{here}/tree/.", here / "tree"),
                   (service.at("tree"), service.at("tree/in")), (service.at("tree"), service.at("tree")),
                   (service.at("tree"), service.at("link/in")), (service.at("tree"), service.at("link/")),
                   (service.at("tree"), service.at("tree/sub/../in"))]
        met = [(service.at("tree"), there / "tree/in"), (there / "tree", service.at("link/in")),
               (service.at("tree"), socket_ + "tree/in")]

        def names() -> set[str]:
            return {str(path) for base in (here, there) for path in base.rglob("*")}

        before = names()
        for source, target in refused:
            ended = service.tool("rfcp", "-q", "-r", source, target)
            if ended.status != 1 or "into itself" not in ended.output or names() != before:
                return failed(f"{names() - before} were made", ended.evidence())
        for source, target in met:
            ended = service.tool("rfcp", "-q", "-r", source, target)
            made = names() - before
            if ended.status != 1 or "into itself" not in ended.output or any("in/in" in name or "in/tree" in name for name in made):
                return failed(f"{sorted(made)} were made", ended.evidence())
            for name in sorted(made, reverse=True):
                Path(name).rmdir() if Path(name).is_dir() else Path(name).unlink()
        for source, target in ((here / "tree", here / "treetop"), (service.at("tree"), service.at("treetop/x")),
                               (here / "tree/sub", here / "tree/other")):
            ended = service.tool("rfcp", "-q", "-r", source, target)
            if not ended.succeeded:
                return failed("a copy to another tree is refused", ended.evidence())
        return passed()
