"""Exports whose directory is mounted over, unmounted, replaced or removed while they are served: uploads never go to a
hidden or removed directory."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import time
from typing import Callable

from harness import mounts
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .exhaustion import CLOSE, WRITE, WRITING, session
from .service import Service, noise, same
from .wire import OPEN, text

STORE = 44


def hang_up(service: Service, words: str) -> bool:
    """Has the configuration reloaded; returns whether the daemon's message has these words."""
    before = service.daemon.output().count(words)
    os.kill(service.daemon.pid, signal.SIGHUP)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and service.daemon.output().count(words) == before:
        time.sleep(0.01)
    return service.daemon.output().count(words) > before


def upload(service: Service, name: str):
    """Copies a file there."""
    source = service.here / name
    source.write_bytes(noise(100_000, len(name)))
    return service.tool("rfcp", source, service.at(name))


def mount(service: Service) -> None:
    """Another file system over the export."""
    subprocess.run(["mount", "-t", "tmpfs", "none", service.export], check=True)


def unmount(service: Service) -> None:
    """Unmounts it, although the daemon has a directory of it open."""
    subprocess.run(["umount", "-l", service.export], check=True)


class Mounted:
    """Stops a service before its file systems are unmounted."""

    def __init__(self, place: Place, *options: str, mounted: bool = False):
        mounts.unshare()
        self.place, self.options, self.mounted = place, options, mounted

    def __enter__(self) -> Service:
        service = Service.__new__(Service)
        if self.mounted:
            # Mounted before the daemon starts.
            start = service.start

            def mounted_start() -> None:
                if service.daemon is None and not os.path.ismount(service.export):
                    mount(service)
                start()

            service.start = mounted_start
        service.__init__(self.place, "tcp", *self.options)
        self.service = service
        return service

    def __exit__(self, wrong=None, *_: object) -> None:
        while os.path.ismount(self.service.export):
            unmount(self.service)
        self.service.__exit__(wrong)


def mounted_over(place: Place) -> Outcome:
    """An upload after a file system was mounted over the export is in that file system. One that was under way is not
    reported as done."""
    with Mounted(place) as service:
        peer = session(service)
        status, body, _ = peer.ask(OPEN, text(b"/under-way") + WRITING)
        late = session(service)
        status_late, body_late, _ = late.ask(OPEN, text(b"/closed-late") + WRITING)
        assert status == status_late == 0
        assert late.ask(WRITE, body_late[:8] + struct.pack(">QIIB", 0, 4, 0, 0), b"late")[0] == 0
        mount(service)
        status = late.ask(CLOSE, body_late[:8])[0]
        if status != errno.ESTALE:
            return failed(f"a file below the new mount is closed with {status}: its data are lost silently")
        for name in ("file", "another"):
            ended = upload(service, name)
            if not ended.succeeded or not same(service.here / name, service.export / name):
                return failed("an upload went below the new mount", ended.evidence() + service.daemon.output())
        status, _, _ = peer.ask(WRITE, body[:8] + struct.pack(">QIIB", 0, 4, 0, 0), b"lost")
        if status != errno.ESTALE:
            return failed(f"a write below the new mount is answered with {status}")
        names = [line.split()[-1] for line in service.tool("rfdir", service.at("")).output.splitlines()]
        if sorted(names) != ["another", "file"]:
            return failed(f"a listing has {names}")
        return passed()


def unmounted(place: Place) -> Outcome:
    """Without its file system the export is unavailable: nothing is put below its mount point, and it is served when it
    is mounted again. By SIGHUP the administrator confirms that the directory below is meant."""
    with Mounted(place, mounted=True) as service:
        ended = upload(service, "first")
        if not ended.succeeded:
            return failed("not served", ended.evidence())
        unmount(service)
        ended = upload(service, "second")
        if ended.status != 2 or "not available on the server" not in ended.output or list(service.export.iterdir()):
            return failed("an upload went below the mount point", ended.evidence())
        if "no longer a mount point" not in service.daemon.output():
            return failed("the daemon does not report the reason", service.daemon.output())
        mount(service)
        ended = upload(service, "third")
        if not ended.succeeded or not (service.export / "third").exists():
            return failed("not served after it is mounted again", ended.evidence())
        unmount(service)
        if not hang_up(service, "rfiod: reloaded"):
            return failed("SIGHUP does nothing", service.daemon.output())
        ended = upload(service, "fourth")
        if not ended.succeeded or not (service.export / "fourth").exists():
            return failed("the directory below is not served after SIGHUP", ended.evidence())
        return passed()


def must_be_mounted(place: Place) -> Outcome:
    """--require-mount: no start, no reload and no upload without the file system."""
    mounts.unshare()
    try:
        with Service(place, "tcp", "--require-mount"):
            return failed("a directory that is no mount point is served")
    except RuntimeError as error:
        if "--require-mount demands" not in str(error):
            return failed("the daemon does not report the reason", str(error))
    with Mounted(place, "--require-mount", mounted=True) as service:
        unmount(service)
        if not hang_up(service, "reload failed"):
            return failed("SIGHUP accepts a directory that is no mount point", service.daemon.output())
        ended = upload(service, "file")
        if ended.succeeded or list(service.export.iterdir()):
            return failed("an upload went below the mount point", ended.evidence())
        mount(service)
        ended = upload(service, "file")
        return passed() if ended.succeeded else failed("not served after it is mounted again", ended.evidence())


def renamed(place: Place) -> Outcome:
    """Another directory gets the export's name, and none has it for a while."""
    with Service(place, "tcp") as service:
        aside = service.directory / "aside"
        service.export.rename(aside)
        ended = upload(service, "nowhere")
        if ended.status != 2 or "not available on the server" not in ended.output or list(aside.iterdir()):
            return failed("an upload to a removed directory succeeded", ended.evidence())
        service.export.mkdir()
        ended = upload(service, "file")
        if not ended.succeeded or not (service.export / "file").exists() or list(aside.iterdir()):
            return failed("an upload went to the earlier directory", ended.evidence())
        return passed()


def under_fire(place: Place) -> Outcome:
    """Directories take turns at the export's name while small files are stored: each file that was reported as stored
    is in the directory that had the name at some moment of its request, so in one of the two, and never in one that had
    lost the name before."""
    with Service(place, "tcp") as service:
        aside = service.directory / "aside"
        aside.mkdir()
        peer = session(service)
        stored, refused = [], 0
        for number in range(400):
            if number % 20 == 10:
                spare = service.directory / "spare"
                service.export.rename(spare)
                aside.rename(service.export)
                spare.rename(aside)
            body = text(b"/f%d" % number) + struct.pack(">IqII", 0o600, -(1 << 63), 0, 0)
            status = peer.ask(STORE, body)[0]
            if status == 0:
                stored.append(number)
                if not (service.export / f"f{number}").exists():
                    return failed(f"file {number} is reported as stored and is not in the export")
            elif status == errno.ESTALE:
                refused += 1
            else:
                return failed(f"file {number}: status {status}")
        return passed(f"{len(stored)} stored, {refused} refused") if len(stored) > 350 else failed(f"{refused} refused")


CASES: dict[str, Callable[[Place], Outcome]] = {
    "mounted over": mounted_over, "unmounted": unmounted, "must be mounted": must_be_mounted,
    "renamed": renamed, "renamed again and again": under_fire,
}
