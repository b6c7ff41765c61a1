"""Whole copies: both directions, every size, pipes, trees, and the tools' messages and exit codes."""

from __future__ import annotations

import json
import os

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import Service, noise, same

SIZES = {"0": 0, "1": 1, "4095": 4095, "4 KiB": 4096, "1 MiB + 1": (1 << 20) + 1,
         "1 GiB + 1": (1 << 30) + 1}


def both_ways(place: Place, fabric: str, size: int) -> Outcome:
    """To the server and back: the same bytes, and no other files."""
    with Service(place, fabric) as service:
        original, back = service.here / "original", service.here / "back"
        # A gibibyte of noise takes long to make; half of it, twice, does as well.
        with open(original, "wb") as file:
            part = noise(min(size, 64 << 20))
            written = 0
            while written < size:
                written += file.write(part[:size - written])
        for source, sink in ((original, service.at("f")), (service.at("f"), back)):
            ended = service.tool("rfcp", "--checksum", source, sink)
            if not ended.succeeded:
                return failed("rfcp failed", ended.evidence())
        if not same(original, service.export / "f") or not same(original, back):
            return failed("the bytes differ")
        left = [*os.listdir(service.export), *os.listdir(service.here)]
        if sorted(left) != ["back", "f", "original"]:
            return failed(f"files are left behind: {left}")
        if service.fabric == "verbs" and size > 1 << 20:
            moved = service.metric("rfio_fabric_sent_bytes_total")
            came = service.metric("rfio_fabric_received_bytes_total")
            # The request or the reply may carry data of less than 16 KiB.
            if min(moved, came) < size - (16 << 10):
                return failed(f"only {moved} and {came} of {size} bytes were moved by RDMA")
        for kind, operations in {"session": ("Hello", "Prove", "Connect", "Ping"), "open": ("Open", "Close"),
                                 "read": ("Read",), "write": ("Write",)}.items():
            timed = service.metric(f'rfio_request_seconds_count{{kind="{kind}"}}')
            counted = sum(service.metric(f'rfio_requests_total{{operation="{name}"}}') for name in operations)
            # Handshakes and queue pairs are the session's; the count of requests leaves them out.
            if timed < max(counted, 1 if size else 0):
                return failed(f"{counted} requests of kind {kind}, and {timed} were timed")
        return passed()


def pipes(place: Place, fabric: str) -> Outcome:
    """`-` on either side, rfcat, and -s."""
    with Service(place, fabric) as service:
        data = noise(3_000_001)
        original = service.here / "original"
        original.write_bytes(data)
        # A process of this suite has no standard input, so a pipe is a FIFO here.
        fifo = service.here / "fifo"
        os.mkfifo(fifo)
        copy = service.begin("rfcp", fifo, service.at("piped"))
        with open(fifo, "wb") as pipe:
            pipe.write(data)
        ended = copy.finish(copy.started + 60)
        if not ended.succeeded or (service.export / "piped").read_bytes() != data:
            return failed("a pipe did not arrive", ended.evidence())
        cat = service.begin("rfcat", service.at("piped"))
        ended = cat.finish(cat.started + 60)
        if not ended.succeeded or cat.log.read_bytes() != data:
            return failed("rfcat failed or wrote something else", ended.command)
        ended = service.tool("rfcp", "-s", 1000, service.at("piped"), service.here / "front")
        if not ended.succeeded or (service.here / "front").read_bytes() != data[:1000]:
            return failed("-s did not copy the front", ended.evidence())
        large = noise(40 << 20)
        (service.export / "large").write_bytes(large)
        copy = service.begin("rfcp", "-q", "-P", 4, service.at("large"), "-")
        ended = copy.finish(copy.started + 60)
        if not ended.succeeded or copy.log.read_bytes() != large:
            return failed("parallel sessions did not write in order to a pipe", ended.command)
        return passed()


def trees(place: Place, fabric: str) -> Outcome:
    """-r in both directions: files small and large, links, empty directories, names that are not text."""
    with Service(place, fabric) as service:
        tree = service.here / "tree"
        (tree / "a" / "empty").mkdir(parents=True)
        for number in range(300):
            (tree / "a" / f"file {number}").write_bytes(noise(number * 37, number))
        (tree / "large").write_bytes(noise(2_500_000))
        (tree / "link").symlink_to("a/file 7")
        with open(os.fsencode(tree) + b"/not\xfftext", "wb") as file:
            file.write(b"x")
        for arguments in (("-r", tree, service.at("")), ("-r", "-P", 3, service.at("tree"), service.here / "back")):
            ended = service.tool("rfcp", *arguments)
            if not ended.succeeded:
                return failed("rfcp -r failed", ended.evidence())
        different = service.place.run("diff", ["diff", "-r", "--no-dereference", str(tree),
                                               str(service.here / "back")], 60)
        if not different.succeeded:
            return failed("the trees differ", different.evidence())
        ended = service.tool("rfrm", "-r", service.at("tree"))
        if not ended.succeeded or os.listdir(service.export):
            return failed("rfrm -r did not remove the tree", ended.evidence())
        return passed()


def names(place: Place, fabric: str) -> Outcome:
    """The tools that act on names, and every exit code that is possible without breaking anything."""
    with Service(place, fabric) as service:
        steps = [
            (0, "rfmkdir", "-p", "-m", "750", service.at("d/e/f")),
            (2, "rfmkdir", service.at("d")),
            (0, "rfcp", "/etc/hostname", service.at("d/e/")),
            (0, "rfrename", service.at("d/e/hostname"), service.at("d/name")),
            (0, "rfchmod", "600", service.at("d/name")),
            (0, "rfstat", service.at("d/name")),
            (0, "rfdir", "-R", service.at("")),
            (2, "rfcat", service.at("nothing")),
            (1, "rfrm", service.at("d")),
            (1, "rfcp", service.at("d/name")),
            (1, "rfchmod", "999", service.at("d/name")),
            (1, "rfrename", service.at("d/name"), "rfio://localhost:1/x"),
            (2, "rfcp", "rfio://127.0.0.1:1/f", service.here / "f"),
            (0, "rfrm", "-r", service.at("d")),
        ]
        for expected, program, *arguments in steps:
            ended = service.tool(program, *arguments)
            if ended.status != expected:
                return failed(f"exit code {ended.status}, not {expected}", ended.evidence())
        return passed()


def summary(place: Place, fabric: str) -> Outcome:
    """--json: one object, with the bytes moved and the processor time."""
    with Service(place, fabric) as service:
        (service.export / "f").write_bytes(noise(5_000_000))
        ended = service.tool("rfcp", "--json", service.at("f"), "/dev/null")
        report = json.loads(ended.output)
        wanted = {"files": 1, "bytes": 5_000_000, "moved_bytes": 5_000_000, "exit_code": 0}
        if any(report[key] != value for key, value in wanted.items()) or report["cpu_seconds"] <= 0:
            return failed("the summary is wrong", ended.evidence())
        return passed()
