"""Servers that end in the middle of a copy and are restarted: the copy goes on by itself, within the time of
--retry."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Callable

from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended, Process

from .service import SECONDS, SECRET, USER, Service, noise, same

#: More than is under way at once (16 MiB) and in sockets, so that a loss is noticed before the end.
SIZE = 64 << 20
RATE = "48M"


def length(path: Path) -> int:
    """Bytes of a file that may not be there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def until(copy: Process, holds: Callable[[], bool]) -> None:
    """Waits for something as long as the copy runs."""
    deadline = time.monotonic() + SECONDS
    while copy.running and not holds() and time.monotonic() < deadline:
        time.sleep(0.005)


def restart(service: Service, seconds: float = 0.3) -> None:
    """The service ends by `kill -9`, and is away for a time."""
    service.kill()
    time.sleep(seconds)
    service.start()


def finish(copy: Process) -> Ended:
    """Its end."""
    return copy.finish(time.monotonic() + SECONDS)


def files(place: Place, fabric: str) -> Outcome:
    """One file in each direction, and to a FIFO: two restarts, the same bytes, and only lost data are moved again."""
    figures = []
    with Service(place, fabric) as service:
        original = service.here / "original"
        original.write_bytes(noise(SIZE))
        (service.export / "f").write_bytes(original.read_bytes())
        for direction in ("download", "upload", "two sessions"):
            final = (service.export if direction == "upload" else service.here) / "copy"
            pair = (original, service.at("copy")) if direction == "upload" else (service.at("f"), final)
            options = ["-P", 2] if direction == "two sessions" else []
            copy = service.begin("rfcp", "--json", "--limit-rate", RATE, *options, *pair)
            partial = final.with_name(".copy.rfpart")
            for number, point in enumerate((SIZE // 8, SIZE // 8 * 5), 1):
                until(copy, lambda point=point: length(partial) > point)
                if not copy.running:
                    break
                restart(service)
                until(copy, lambda number=number: copy.output().count("retrying") >= number)
            ended = finish(copy)
            if not ended.succeeded or not same(final, original) or partial.exists():
                return failed(f"{direction}: not the same file", ended.evidence())
            report = json.loads(ended.output.splitlines()[-1])
            if report["tried_again"] < 2 or ended.output.count("retrying") < 2:
                return failed(f"{direction}: {report['tried_again']} restarts are reported", ended.evidence())
            # The data under way each time, and never data on the disk.
            lost = report["moved_bytes"] - SIZE
            if not 0 <= lost < SIZE // 2 or report["bytes"] != report["moved_bytes"] + report["kept_bytes"]:
                return failed(f"{direction}: {report}", ended.evidence())
            figures.append(f"{direction}: {lost >> 10} KiB twice")
            final.unlink()
        fifo = service.here / "fifo"
        os.mkfifo(fifo)
        copy = service.begin("rfcp", "-q", "--limit-rate", RATE, service.at("f"), fifo)
        with open(fifo, "rb") as pipe:
            read = pipe.read(SIZE // 8)
            restart(service)
            read += pipe.read()
        ended = finish(copy)
        if not ended.succeeded or read != original.read_bytes():
            return failed(f"FIFO: {len(read)} bytes", ended.evidence())
        # Another file under the name is not the rest of the first one.
        copy = service.begin("rfcp", "-q", "--limit-rate", RATE, service.at("f"), fifo)
        with open(fifo, "rb") as pipe:
            pipe.read(SIZE // 8)
            service.kill()
            (service.export / "f").write_bytes(noise(SIZE, 2))
            service.start()
            pipe.read()
        ended = finish(copy)
        if ended.status != 2 or "changed" not in ended.output:
            return failed("FIFO: a changed source is continued", ended.evidence())
    return passed("; ".join(figures))


def trees(place: Place, fabric: str) -> Outcome:
    """A tree in each direction, with small and large files, directories and links, and restarts at several points: all
    of it arrives, once, and no other files are left."""
    with Service(place, fabric) as service:
        for direction in ("download", "upload"):
            source, sink = (service.export, service.here) if direction == "download" else (service.here, service.export)
            tree, final = source / f"{direction}-tree", sink / f"{direction}-copy"
            for number in range(40):
                (tree / f"d{number}" / "deep").mkdir(parents=True)
                for name in range(40):
                    (tree / f"d{number}" / f"f{name}").write_bytes(noise(2000 + name, number))
                (tree / f"d{number}/link").symlink_to("f1")
                os.link(tree / f"d{number}/f2", tree / f"d{number}/deep/second")
                os.utime(tree / f"d{number}", ns=(10 ** 18, 10 ** 18 + number))
            (tree / "large").write_bytes(noise(6 << 20))
            places = ((service.at(tree.name), final) if direction == "download" else (tree, service.at(final.name)))
            copy = service.begin("rfcp", "-r", "-P", 2, "--json", "--limit-rate", "4M", *places)
            # At once, with some files there, with more of them, and in the large one.
            points = (lambda: final.exists(), lambda: len(list(final.glob("d*/f*"))) > 300,
                      lambda: len(list(final.glob("d*/f*"))) > 900, lambda: length(final / ".large.rfpart") > 2 << 20)
            restarts = 0
            for point in points:
                until(copy, point)
                if not copy.running:
                    break
                restart(service, 0.3)
                restarts += 1
            ended = finish(copy)
            if not ended.succeeded or restarts < 3:
                return failed(f"{direction}: not copied, {restarts} restarts", ended.evidence())
            different = place.run("diff", ["diff", "-r", "--no-dereference", str(tree), str(final)], 60)
            left = [*final.rglob(".*"), *sink.glob(".*")]
            if not different.succeeded or left:
                return failed(f"{direction}: the trees differ, or {left} are left", different.evidence() + ended.evidence())
            for number in range(40):
                one, other = (os.stat(at / f"d{number}") for at in (tree, final))
                if one.st_mtime_ns != other.st_mtime_ns:
                    return failed(f"{direction}: d{number} has another time")
                if os.stat(final / f"d{number}/f2").st_ino != os.stat(final / f"d{number}/deep/second").st_ino:
                    return failed(f"{direction}: d{number}/f2 has no second name")
            report = json.loads(ended.output.splitlines()[-1])
            if report["exit_code"] or report["tried_again"] < restarts:
                return failed(f"{direction}: {report}", ended.evidence())
        return passed()


def one_failure(place: Place) -> Outcome:
    """A refused client fails once, and the server sees one failure: of each tool, with several places, sessions and
    files."""
    with Service(place, "tcp") as service:
        wrong = service.directory / "wrong"
        wrong.touch(0o600)
        wrong.write_bytes(USER + b":" + SECRET[::-1] + b"\n")
        for root in (service.here, service.export):
            (root / "tree/d").mkdir(parents=True)
            for name in ("a", "b", "tree/f", "tree/d/g"):
                (root / name).write_bytes(noise(1000))
            (root / "tree/large").write_bytes(noise(3 << 20))
        here, at = service.here, service.at
        for program, *arguments in (
                ("rfcp", "-q", "-r", "-P", 4, here / "tree", at("new")), ("rfcp", "-q", "-r", "-P", 4, at("tree"), here / "new"),
                ("rfcp", "-q", "-r", "-P", 4, "--continue", here / "tree", at("tree")),
                ("rfcp", "-q", "-r", "-P", 2, at("tree"), at("b"), here), ("rfcp", "-q", "-P", 4, here / "a", at("a")),
                ("rfcp", "-q", at("a"), here / "new"), ("rfcp", "-q", at("a"), at("b"), here / "tree"), ("rfcp", "-q", at("a"), at("b"), at("tree")),
                ("rfcat", at("a"), at("b")), ("rfdir", at("a"), at("b")), ("rfrm", at("a"), at("b")), ("rfmkdir", at("c"), at("d")),
                ("rfstat", at("a"), at("b")), ("rfchmod", "600", at("a"), at("b")), ("rfrename", at("a"), at("c")),
                ("rfsrr", "--share", f"x:atlas={at('')}", "--share", f"y:atlas={at('tree')}")):
            before = service.metric("rfio_authentication_failures_total")
            ended = service.tool(program, *arguments, RFIO_SECRETS=str(wrong))
            failures = service.metric("rfio_authentication_failures_total") - before
            if ended.status != 2 or failures != 1 or ended.output.count("access denied") != 1 or len(ended.output.splitlines()) != 1:
                return failed(f"{program}: {failures} failures", ended.evidence())
        if (here / "new").exists():
            return failed("a needless directory is made")
        return passed()


def in_vain(place: Place) -> Outcome:
    """Errors that a retry cannot repair end the tool at once: servers that were never reached, refusals, --retry 0; and
    --retry ends."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(noise(SIZE))
        copy = service.here / "copy"

        def timed(*arguments: object, **more: str) -> tuple[Ended, float]:
            begun = time.monotonic()
            ended = service.tool("rfcp", "-q", *arguments, **more)
            return ended, time.monotonic() - begun

        for what, status, arguments, more in (
                ("a server that was never there", 2, ("rfio://127.0.0.1:1/f", copy), {}),
                ("no such file", 2, (service.at("nothing"), copy), {}),
                ("no such directory", 2, (service.at("f"), service.here / "nothing/copy"), {}),
                ("a wrong user", 2, (service.at("f"), copy), {"RFIO_USER": "nobody"})):
            ended, seconds = timed(*arguments, **more)
            if ended.status != status or seconds > 5 or "retrying" in ended.output:
                return failed(f"{what} takes {seconds:.1f} s", ended.evidence())

        def lost(retry: int, meanwhile: Callable[[], None] = lambda: None) -> tuple[Ended, float]:
            (service.here / ".copy.rfpart").unlink(missing_ok=True)
            started = service.begin("rfcp", "-q", "--limit-rate", RATE, "--retry", retry, service.at("f"), copy)
            until(started, lambda: length(service.here / ".copy.rfpart") > SIZE // 4)
            service.kill()
            meanwhile()
            begun = time.monotonic()
            return finish(started), time.monotonic() - begun

        ended, seconds = lost(0)
        if ended.status != 2 or seconds > 2 or "retrying" in ended.output:
            return failed(f"--retry 0 takes {seconds:.1f} s", ended.evidence())
        service.start()
        ended, seconds = lost(2)
        if ended.status != 2 or not 1 < seconds < 8 or ended.output.count("retrying") != 1:
            return failed(f"--retry 2 takes {seconds:.1f} s", ended.evidence())

        def with_other_secrets() -> None:
            service.secrets.write_bytes(USER + b":" + SECRET[::-1] + b"\n")
            service.start()

        service.start()
        ended, seconds = lost(30, with_other_secrets)
        if ended.status != 2 or seconds > 8:
            return failed(f"a refused secret is retried for {seconds:.1f} s", ended.evidence())
        service.secrets.write_bytes(USER + b":" + SECRET + b"\n")
        return passed()
