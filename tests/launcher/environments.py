"""Environments that programs and users bring: limits, signals, long and full directories, launchers that drop the
environment, real-time scheduling. The program works, or a message names the cause."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

from harness.build_tree import DEVICE, VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import exchange, free_port
from harness.place import Place

SECONDS = 60
# Each command of verbena that needs a directory for temporary files.
TEMPORARY = {"run --stats": ["run", "--stats"], "trace": ["trace"], "capture": ["capture", "--out", "packets.pcapng"]}


def cases() -> list[Case]:
    """Each environment."""
    return [Case("ignored SIGCHLD", "run --stats", ignored_children),
            *(Case("a long TMPDIR", column, partial(long_directory, words)) for column, words in TEMPORARY.items()),
            Case("TMPDIR is missing", "run --stats", no_directory),
            Case("TMPDIR is full", "run --stats", full_directory),
            Case("12 open files", "", partial(limited, "-n 12", "ulimit -n")),
            Case("60 MB of address space", "", partial(limited, "-v 60000", "ulimit -v")),
            Case("3 GB of address space", "ibv_rc_pingpong", no_room_for_the_peer),
            *(Case("started without the environment", words[0], partial(without_environment, words))
              for words in (["env", "-i"], ["sudo", "-n"], ["su", "-", "root", "-c"])),
            Case("a program with file capabilities", "", capabilities),
            Case("real-time processes that poll on every processor", "ring", real_time)]


def says(place: Place, command: list[object], words: str, status: int | None = 0, **environment: str) -> Outcome:
    """The command ends with a status, if one is given, and prints words."""
    ended = place.run("run", [str(word) for word in command], SECONDS, **environment)
    if words in ended.output and status in (None, ended.status):
        return passed()
    return failed(f"{ended.describe()}, or {words!r} is not in the output", ended.evidence())


def ignored_children(place: Place) -> Outcome:
    """A program that inherits SIG_IGN for SIGCHLD gets no exit status of its children without further ado."""
    return says(place, ["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", *run("sh", "-c", "ibv_devinfo; exit 7", stats=True)], DEVICE, 7)


def long_directory(words: list[str], place: Place) -> Outcome:
    """The path of a Unix socket has at most 107 bytes."""
    long = place.directory / ("x" * 200)
    long.mkdir()
    words = [str(place.directory / word) if word.endswith(".pcapng") else word for word in words]
    return says(place, [VERBENA, *words, "--", "ibv_devinfo"], DEVICE, TMPDIR=str(long))


def no_directory(place: Place) -> Outcome:
    """The message has the remedy."""
    return says(place, run("true", stats=True), "set TMPDIR", 3, TMPDIR=str(place.directory / "missing"))


def full_directory(place: Place) -> Outcome:
    """Counters for which there is no space are reported as missing."""
    if subprocess.run(["unshare", "--mount", "--map-root-user", "true"], capture_output=True, check=False).returncode != 0:
        return skipped("this machine does not allow a mount namespace")
    script = "mount -t tmpfs -o size=16k none /mnt && head -c 8k /dev/zero > /mnt/other && exec \"$@\""
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", *run("ibv_devinfo", stats=True)]
    return says(place, command, "cannot create a file for counters", TMPDIR="/mnt")


def limited(limit: str, words: str, place: Place) -> Outcome:
    """The program cannot open the device, and the message names the limit."""
    return says(place, ["sh", "-c", f"ulimit {limit}; exec \"$@\"", "sh", *run("ibv_devinfo")], words, None)


def no_room_for_the_peer(place: Place) -> Outcome:
    """The device opens, but the peer's context table does not fit. The first request fails, and its end names the limit."""
    port = free_port()
    command = ["sh", "-c", "ulimit -v 3000000; exec \"$@\"", "sh", *run("ibv_rc_pingpong", "-d", DEVICE, "-p", str(port))]
    done = exchange(place, command, [*command, "127.0.0.1"], port, SECONDS)
    # The peer waits for ever, is killed, and leaves its entry to the next process.
    place.run("sweep", [str(VERBENA), "info"], SECONDS)
    ends = [end for end in (done.server, done.client) if end]
    if any("cannot reach another process" in end.output and "ulimit -v" in end.output for end in ends):
        return passed()
    return failed("neither end names the limit", done.evidence())


def without_environment(words: list[str], place: Place) -> Outcome:
    """The message names the order that works."""
    return says(place, run(*words, "true"), f"{words[0]} ... verbena run -- CMD", None)


def capabilities(place: Place) -> Outcome:
    """Started by an ordinary user, it ignores LD_PRELOAD."""
    program = place.directory / "true"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    if os.geteuid() != 0 or subprocess.run(["setcap", "cap_net_raw+p", program], check=False, capture_output=True).returncode != 0:
        return skipped("needs root and setcap (Debian: libcap2-bin)")
    place.directory.chmod(0o755)
    return says(place, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *run(program)], "file capabilities", None)


def real_time(place: Place) -> Outcome:
    """Each side on a separate processor, at the same priority as its thread would have by inheritance."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return skipped("needs two processors")
    # The adapter's thread takes priority 2.
    if subprocess.run(["chrt", "--fifo", "2", "true"], capture_output=True, check=False).returncode != 0:
        return skipped("needs the right to real-time scheduling with priority 2")
    port = free_port()

    def side(processor: int, *more: str) -> list[object]:
        command = ["taskset", "--cpu-list", str(processor), "chrt", "--fifo", "1", "ibv_rc_pingpong", "-c", "-d", DEVICE]
        return [str(VERBENA), "run", "--path", "ring", "--", *command, "-p", str(port), *more]
    return exchange(place, side(processors[0]), side(processors[1], "127.0.0.1"), port, SECONDS).outcome()
