"""Trees under `-r --sync --checksum --continue` with a fault at a random moment, and then a power cut: data that exit 0
promised are on the disk, every name has the bytes of some state of its source, and the same command again copies the
rest."""

from __future__ import annotations

import errno
import os
import random
import time
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree, which
from typing import Callable, Iterator

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended, Process

from .promises import Disk, disk
from .service import SECONDS, Service, noise

#: Points in each case; `make nightly` asks for two hundred of each fault.
POINTS = int(os.environ.get("RFIO_POINTS", "2"))
# A fault ends a copy: the suite `reconnecting` tests that copies go on by themselves.
OPTIONS = ("-q", "-r", "--sync", "--checksum", "--continue", "--retry", "0")
#: The states that a file of the source has had; None: there was none of that name.
History = dict[str, list[bytes | None]]


class Scene:
    """A tree, a disk that it is copied to, and a service on one of the two sides."""

    def __init__(self, service: Service, target: Disk, direction: str, chance: random.Random):
        self.service, self.target, self.direction, self.chance = service, target, direction, chance
        self.is_download = direction == "download"
        self.source = (service.export if self.is_download else service.here) / "tree"
        self.ballast = target.at / "ballast"
        self.histories: History = {}

    @property
    def copy(self) -> Path:
        """The destination of the tree."""
        return self.target.at / ("here" if self.is_download else "export") / "copy"

    def begin_anew(self) -> None:
        """Another tree, and none of it on the disk."""
        rmtree(self.source, ignore_errors=True)
        rmtree(self.copy, ignore_errors=True)
        self.copy.mkdir()
        os.sync()
        (self.source / "a/b").mkdir(parents=True)
        sizes = {f"a/small {number}": self.chance.randrange(20_000) for number in range(12)}
        sizes |= {"a/b/middle": self.chance.randrange(2_000_000), "top": 4, "a/large": 6_000_000 + self.chance.randrange(6_000_000)}
        self.histories = {}
        for name, size in sizes.items():
            self.give(name, noise(size, self.chance.randrange(1 << 30)))

    def give(self, name: str, data: bytes) -> None:
        """A file of the source gets another content, under another inode."""
        fresh = self.source / f"{name}.fresh"
        fresh.write_bytes(data)
        fresh.rename(self.source / name)
        self.histories.setdefault(name, [None]).append(data)

    def begin(self) -> Process:
        """Starts the copy."""
        if self.is_download:
            return self.service.begin("rfcp", *OPTIONS, self.service.at("tree/."), self.copy)
        return self.service.begin("rfcp", *OPTIONS, f"{self.source}/.", self.service.at("copy"))

    def cut(self) -> None:
        """Cuts the disk's power, and with it a running service; restarts both."""
        serves_from_it = not self.is_download
        if serves_from_it:
            self.service.kill()
        self.target.cut()
        if serves_from_it or not self.service.daemon:
            self.service.start()

    def arrived(self) -> dict[str, bytes]:
        """Returns the files under their final names: those under way have a hidden one."""
        return {str(path.relative_to(self.copy)): path.read_bytes() for path in sorted(self.copy.rglob("*"))
                if path.is_file() and not path.name.startswith(".")}

    def left(self) -> list[str]:
        """Returns the hidden names of files that are or were under way."""
        return [str(path.relative_to(self.copy)) for path in self.copy.rglob(".*")]

    def strange(self) -> list[str]:
        """Names on the disk whose bytes their source never had."""
        return [name for name, data in self.arrived().items() if data not in self.histories.get(name, [])]

    def missing(self) -> list[str]:
        """Names that the source has had all the time, and the disk has not."""
        return sorted({name for name, states in self.histories.items() if None not in states[1:]} - set(self.arrived()))

    def different(self) -> list[str]:
        """Names that are not as the source has them now."""
        arrived = self.arrived()
        return [name for name, states in self.histories.items() if states[-1] is not None and arrived.get(name) != states[-1]]


def tool_killed(_: Scene, copy: Process) -> Ended:
    """The tool ends by `kill -9`."""
    return copy.finish(time.monotonic())


def server_lost(scene: Scene, copy: Process) -> Ended:
    """The service ends by `kill -9`."""
    scene.service.kill()
    ended = copy.finish(time.monotonic() + SECONDS)
    scene.service.start()
    return ended


def disk_full(scene: Scene, copy: Process) -> Ended:
    """Another program fills the rest of the disk."""
    size = 64 << 20
    with open(scene.ballast, "wb") as ballast:
        at = 0
        while size >= 4096:
            try:
                os.posix_fallocate(ballast.fileno(), at, size)
                at += size
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    return copy.finish(time.monotonic() + SECONDS)


def source_changed(scene: Scene, copy: Process) -> Ended:
    """Files of the source are replaced, rewritten in place, cut, continued, and removed."""
    for name in scene.chance.sample(sorted(scene.histories), 5):
        path, states = scene.source / name, scene.histories[name]
        match scene.chance.randrange(4):
            case 0:
                scene.give(name, noise(len(states[-1]), scene.chance.randrange(1 << 30)))
            case 1:
                # Recorded before it is true: a reader in between gets the new bytes or part of them, which is no state.
                states.append(noise(5000, scene.chance.randrange(1 << 30)) + states[-1][5000:])
                with open(path, "r+b", buffering=0) as file:
                    file.write(states[-1][:5000])
            case 2:
                states.append(states[-1] + b"more")
                with open(path, "ab") as file:
                    file.write(b"more")
            case 3:
                states.append(None)
                path.unlink()
    return copy.finish(time.monotonic() + SECONDS)


def power_lost(scene: Scene, copy: Process) -> Ended:
    """The disk's power fails under the copy; the machine that it is in goes with it."""
    if scene.is_download:
        ended = copy.finish(time.monotonic())
    scene.cut()
    return ended if scene.is_download else copy.finish(time.monotonic() + SECONDS)


FAULTS: dict[str, Callable[[Scene, Process], Ended]] = {
    "the tool killed": tool_killed, "the server lost": server_lost, "the disk full": disk_full, "the source changed": source_changed,
    "the power lost": power_lost}


def one(scene: Scene, fault: Callable[[Scene, Process], Ended], delay: float) -> str | None:
    """One copy with a fault after `delay` seconds; returns an error in its remains."""
    scene.begin_anew()
    copy = scene.begin()
    time.sleep(delay)
    ended = fault(scene, copy)
    scene.cut()
    if strange := scene.strange():
        return f"{ended.describe()}, and {strange} are of bytes that were nowhere\n{ended.evidence()}"
    if ended.succeeded and (missing := scene.missing()):
        return f"exit 0, and {missing} are not there after the power cut"
    if scene.ballast.exists():
        scene.ballast.unlink()
        os.sync()
    again = scene.begin().finish(time.monotonic() + SECONDS)
    if not again.succeeded:
        return f"not continued: {again.describe()}\n{again.evidence()}"
    scene.cut()
    if different := scene.different():
        return f"continued with exit 0, and {different} differ after the power cut"
    if strange := scene.strange():
        return f"continued, and {strange} are of bytes that were nowhere"
    # Files that the source no longer has are not continued.
    removed = [name for name, states in scene.histories.items() if states[-1] is None]
    if left := [name for name in scene.left() if not any(Path(one).name in name for one in removed)]:
        return f"continued, and {left} are still there"
    return None


def survived(place: Place, fabric: str, direction: str, fault: str) -> Outcome:
    """Copies that meet a fault at points spread over the time that an undisturbed one takes."""
    if os.geteuid() != 0 or which("mkfs.ext4") is None:
        return skipped("needs root and mkfs.ext4, for a disk whose power can be cut")
    chance = random.Random(os.environ.get("RFIO_SEED", f"{fabric} {direction} {fault}"))
    with ExitStack() as stack:
        target = stack.enter_context(disk(place, "disk"))
        for name in ("export", "here"):
            (target.at / name).mkdir()
        os.sync()
        export = None if direction == "download" else target.at / "export"
        service = stack.enter_context(Service(place, fabric, export=export))
        scene = Scene(service, target, direction, chance)
        scene.begin_anew()
        begun = time.monotonic()
        ended = scene.begin().finish(begun + SECONDS)
        takes = time.monotonic() - begun
        if not ended.succeeded or scene.different():
            return failed("an undisturbed copy failed", ended.evidence())
        for point in points(chance, takes):
            if wrong := one(scene, FAULTS[fault], point):
                service.stop()
                return failed(f"{fault} after {point:.3f} s of {takes:.3f}: {wrong}")
        service.stop()
    # No process has run after the last killed ones to clean up.
    place.run("info", [str(VERBENA), "info"], 30)
    return passed(f"{POINTS} points of {takes * 1000:.0f} ms")


def points(chance: random.Random, takes: float) -> Iterator[float]:
    """Moments, one of each equal part of the time and a little more."""
    for number in range(POINTS):
        yield (number + chance.random()) / POINTS * takes * 1.1
