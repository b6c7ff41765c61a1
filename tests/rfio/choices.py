"""The files that a copy takes and those that it skips, and its rate."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .service import Service, noise

SEEDS = 12


def existing_files_stay(place: Place, direction: str) -> Outcome:
    """--no-clobber and --update, for one file and for trees: which files are replaced, which are kept, and the report
    of both."""
    with Service(place, "tcp") as service:
        source, sink = (service.here, service.export) if direction == "upload" else (service.export, service.here)
        (source / "tree").mkdir()
        (sink / "tree").mkdir()
        now = int(time.time()) - 1000
        # There already: older, newer, as old and as long, as old and of another length. Missing: new, and its second
        # name.
        states = {"older": (now - 10, b"old"), "newer": (now + 10, b"old"), "same": (now, b"old"), "longer": (now, b"older")}
        for name in (*states, "new"):
            (source / "tree" / name).write_bytes(b"new")
            os.utime(source / "tree" / name, (now, now))
        for name, (changed, data) in states.items():
            (sink / "tree" / name).write_bytes(data)
            os.utime(sink / "tree" / name, (changed, changed))
        # Of two names of one file, one is taken: the other becomes a separate file then, not a link to the kept one.
        for name in ("twice a", "twice b"):
            (source / "tree" / name).unlink(missing_ok=True)
        (source / "tree" / "twice a").write_bytes(b"new")
        os.link(source / "tree" / "twice a", source / "tree" / "twice b")
        (sink / "tree" / "twice a").write_bytes(b"old")
        os.utime(source / "tree" / "twice a", (now, now))
        os.utime(sink / "tree" / "twice a", (now + 10, now + 10))
        (source / "tree" / "link").symlink_to("new")
        (sink / "tree" / "link").symlink_to("old")
        places = {True: lambda name: str(service.here / name), False: service.at}
        at_source, at_sink = places[direction == "upload"], places[direction != "upload"]
        # A link has the time at which it was made; the target's is the later one.
        kept = {"--no-clobber": {"older", "newer", "same", "longer", "twice a"}, "--update": {"newer", "same", "twice a"}}
        for option in ("--no-clobber", "--update"):
            ended = service.tool("rfcp", "-r", option, "--json", f"{at_source('tree')}/.", at_sink("tree"))
            if not ended.succeeded:
                return failed(f"{option} failed", ended.evidence())
            there = {path.name: path.read_bytes() for path in (sink / "tree").iterdir() if not path.is_symlink()}
            wrong = [name for name, data in there.items()
                     if data != (b"new" if name not in kept[option] else states.get(name, (0, b"old"))[1])]
            if wrong or set(there) != {*states, "new", "twice a", "twice b"}:
                return failed(f"{option}: {wrong} of {there}", ended.evidence())
            if os.readlink(sink / "tree" / "link") != "old":
                return failed(f"{option} replaced an existing link", ended.evidence())
            # In the second run the files of the first are there.
            left = len(kept[option]) + 1 + (2 if option == "--update" else 0)
            if (said := json.loads(ended.output)["files_left"]) != left:
                return failed(f"{option} reports {said} kept files, not {left}", ended.evidence())
        for option, name, data in (("--no-clobber", "longer", b"new"), ("--update", "newer", b"old")):
            ended = service.tool("rfcp", option, at_source(f"tree/{name}"), at_sink(f"tree/{name}"))
            if not ended.succeeded or (sink / "tree" / name).read_bytes() != data:
                return failed(f"{option} of one file", ended.evidence())
            if "1 existing file kept" not in ended.output:
                return failed("a kept file is not reported", ended.evidence())
        for arguments in (("--no-clobber", "--update", "a", "b"), ("--exclude", "x", "a", "b"),
                          ("-r", "--exclude", "[a", "a", "b"), ("--limit-rate", "10k", "a", "b")):
            ended = service.tool("rfcp", *arguments)
            if ended.succeeded:
                return failed(f"accepted: {arguments}", ended.evidence())
        return passed()


def a_rate(place: Place, direction: str) -> Outcome:
    """--limit-rate: large files and small, one session or several, never faster than the limit."""
    with Service(place, "tcp") as service:
        source = service.here if direction == "upload" else service.export
        (source / "tree").mkdir()
        for number in range(20):
            (source / "tree" / f"{number}").write_bytes(noise(50 << 10, number))
        (source / "tree" / "large").write_bytes(noise(3 << 20))
        total = (3 << 20) + 20 * (50 << 10)
        places = {True: lambda name: str(service.here / name), False: service.at}
        for sessions in (1, 3):
            ended = service.tool("rfcp", "-r", "--json", "-P", sessions, "--limit-rate", "2M",
                                 places[direction == "upload"]("tree"), places[direction != "upload"](f"copy{sessions}"))
            if not ended.succeeded:
                return failed("rfcp failed", ended.evidence())
            took = json.loads(ended.output)["seconds"]
            # A limit is a limit: no luck of timing makes it faster.
            if took < total / (2 << 20):
                return failed(f"{total} bytes at 2 MiB/s took {took} s", ended.evidence())
        return passed()


def rules(place: Place, direction: str) -> Outcome:
    """Random rules on random trees: the same names as rsync's."""
    if subprocess.run(["sh", "-c", "command -v rsync"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        return skipped("no rsync")
    with Service(place, "tcp") as service:
        source = service.here if direction == "upload" else service.export
        sink = service.export if direction == "upload" else service.here
        places = {True: lambda name: str(service.here / name), False: service.at}
        for seed in range(SEEDS):
            chance = random.Random(f"{direction} {seed}")
            plant(source / f"tree{seed}", chance, depth=3)
            arguments = [part for _ in range(chance.randint(1, 5))
                         for part in (chance.choice(("--include", "--exclude")), pattern(chance))]
            ended = service.tool("rfcp", "-r", *arguments, places[direction == "upload"](f"tree{seed}"),
                                 places[direction != "upload"](f"copy{seed}"))
            if not ended.succeeded:
                return failed(f"rfcp failed, seed {seed}", ended.evidence())
            subprocess.run(["rsync", "-r", *arguments, f"{source}/tree{seed}/", f"{sink}/theirs{seed}/"], check=True)
            ours, theirs = names(sink / f"copy{seed}"), names(sink / f"theirs{seed}")
            if ours != theirs:
                return failed(f"seed {seed}, {arguments}: not as rsync: {sorted(ours ^ theirs)}", ended.evidence())
        return passed()


def plant(at: Path, chance: random.Random, depth: int) -> None:
    """A tree whose names are few, so that patterns fit some of them."""
    at.mkdir()
    for name in chance.sample(("a", "b", "ab", "a.o", "b.o", "a.c", "*", ".a"), chance.randint(2, 6)):
        if depth > 0 and chance.random() < 0.5:
            plant(at / name, chance, depth - 1)
        else:
            (at / name).write_bytes(b"x")


def pattern(chance: random.Random) -> str:
    """Returns a pattern that both programs read alike."""
    known = ("a", "b", "*", "a*", "*.o", "?", "[ab]", "[!a]", "[[:alpha:]]", ".a", "\\*", "*.?", "**", "a**", "**o", "***", "{a,b}")
    parts = [chance.choice(known) for _ in range(chance.randint(1, 3))]
    return chance.choice(("", "/")) + "/".join(parts) + chance.choice(("", "", "/"))


def names(tree: Path) -> set[str]:
    """All names below."""
    return {str(path.relative_to(tree)) for path in tree.rglob("*")}
