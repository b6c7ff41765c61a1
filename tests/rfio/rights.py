"""Rights by user and path, requests under local user IDs, and attempts to get round the rights."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Callable

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .replaced import hang_up
from .service import SECRET, Service, noise
from .wire import OPEN, READ, Peer, text

STATUS, LINK_STATUS, ACCESS, MAKE_DIRECTORY, REMOVE_DIRECTORY, UNLINK, RENAME, MAKE_LINK = 30, 31, 32, 33, 34, 35, 36, 37
READ_LINK, CHANGE_MODE, LIST, FETCH, STORE, HARD_LINK, EXTENDED, REPLACE = 38, 39, 42, 43, 44, 47, 48, 50
DENIED, OK = errno.EACCES, 0
READING, WRITING, MAKING = struct.pack(">II", 1, 0), struct.pack(">II", 2, 0), struct.pack(">II", 2 | 4, 0o600)
EMPTY = struct.pack(">IqII", 0o600, -(1 << 63), 0, 0)


class Restricted(Service):
    """A service with files of rights or of local users, and several users."""

    def __init__(self, place: Place, users: tuple[bytes, ...], files: dict[str, bytes]):
        options = []
        for name, content in files.items():
            self.file(place, name).write_bytes(content)
            options += [f"--{name}", str(self.file(place, name))]
        super().__init__(place, "tcp", *options)
        self.secrets.write_bytes(b"".join(user + b":" + SECRET + b"\n" for user in users))
        assert hang_up(self, "rfiod: reloaded"), self.daemon.output()

    @staticmethod
    def file(place: Place, name: str) -> Path:
        """Returns the path of an option's file."""
        return place.directory / name

    def change(self, name: str, content: bytes, words: str = "rfiod: reloaded") -> bool:
        """Writes such a file and has it reloaded; returns whether the daemon's message has these words."""
        self.file(self.place, name).write_bytes(content)
        return hang_up(self, words)

    def enter(self, user: bytes) -> Peer:
        """A session of a user."""
        peer = Peer(self.port)
        status = peer.log_in(user, SECRET)
        assert status == 0, (user, status)
        return peer


def on(operation: int, path: bytes, more: bytes = b"") -> tuple[int, bytes]:
    """A request about one path."""
    return operation, text(path) + more


def wrong(peer: Peer, expected: list[tuple[tuple[int, bytes], int]]) -> list[str]:
    """The requests that are not answered with the expected status."""
    found = []
    for (operation, body), status in expected:
        answer = peer.ask(operation, body)[0]
        if answer != status:
            found.append(f"operation {operation} {body!r}: {answer}, not {status}")
    return found


RIGHTS = b"""\
# Home directories, a place for all to read, and one for nobody.
ann all /ann
bob all /bob
* read,list /pub
* list /drop
ann list,write /drop
ann none /ann/sealed
"""


def populate(service: Service) -> None:
    """Directories and files for the rights above."""
    for name in ("ann", "bob", "pub", "drop", "private", "ann/sealed", "ann/d"):
        (service.export / name).mkdir(exist_ok=True)
    for name in ("ann/f", "bob/secret", "pub/f", "private/f", "ann/sealed/f", "ann/d/f", "drop/f"):
        (service.export / name).write_text(name)


def by_path(place: Place) -> Outcome:
    """Each operation, where a line gives the right and where none does. A refused one changes nothing and reveals
    nothing."""
    with Restricted(place, (b"ann", b"bob"), {"rights": RIGHTS}) as service:
        populate(service)
        ann = service.enter(b"ann")
        bad = wrong(ann, [
            (on(OPEN, b"/ann/f", READING), OK), (on(OPEN, b"/ann/new", MAKING), OK), (on(STORE, b"/ann/stored", EMPTY), OK),
            (on(OPEN, b"/bob/secret", READING), DENIED), (on(OPEN, b"/bob/new", MAKING), DENIED),
            (on(OPEN, b"/bob/missing", READING), DENIED), (on(OPEN, b"/ann/missing", READING), errno.ENOENT),
            (on(FETCH, b"/bob/secret", struct.pack(">I", 100)), DENIED), (on(FETCH, b"/pub/f", struct.pack(">I", 100)), OK),
            (on(STORE, b"/pub/new", EMPTY), DENIED), (on(OPEN, b"/pub/f", WRITING), DENIED),
            (on(STATUS, b"/"), OK), (on(LIST, b"/", struct.pack(">QI", 0, 10)), DENIED), (on(STATUS, b"/private"), DENIED),
            (on(LIST, b"/pub", struct.pack(">QI", 0, 10)), OK), (on(LIST, b"/private", struct.pack(">QI", 0, 10)), DENIED),
            (on(STATUS, b"/private/f"), DENIED), (on(STATUS, b"/pub/f"), OK), (on(EXTENDED, b"/bob/secret"), DENIED),
            (on(UNLINK, b"/pub/f"), DENIED), (on(UNLINK, b"/drop/f"), DENIED), (on(CHANGE_MODE, b"/pub/f", struct.pack(">I", 0)), DENIED),
            (on(STORE, b"/drop/new", EMPTY), OK), (on(OPEN, b"/drop/new", READING), DENIED),
            (on(OPEN, b"/ann/sealed/f", READING), DENIED), (on(MAKE_DIRECTORY, b"/new", struct.pack(">I", 0o700)), DENIED),
            (on(MAKE_DIRECTORY, b"/ann", struct.pack(">I", 0o700)), errno.EEXIST),
            (on(MAKE_DIRECTORY, b"/ann/x", struct.pack(">I", 0o700)), OK), (on(REMOVE_DIRECTORY, b"/ann/x"), OK),
            (on(REMOVE_DIRECTORY, b"/private"), DENIED),
            (on(ACCESS, b"/pub/f", struct.pack(">I", 2)), DENIED), (on(ACCESS, b"/pub/f", struct.pack(">I", 4)), OK),
            (on(UNLINK, b"/ann/stored"), OK),
        ])
        made = [name for name in ("pub/new", "bob/new", "new") if (service.export / name).exists()]
        if bad or made or not (service.export / "pub/f").exists():
            return failed("\n".join(bad) + f"; made: {made}")
        return passed()


def way_round(place: Place) -> Outcome:
    """Links of both kinds, `..`, renames, and moved directories lead to no other rights."""
    with Restricted(place, (b"ann", b"bob"), {"rights": RIGHTS}) as service:
        populate(service)
        for link, target in (("to-secret", "../bob/secret"), ("to-bob", "../bob"), ("to-pub", "../pub/f")):
            os.symlink(target, service.export / "ann" / link)
        ann = service.enter(b"ann")
        bad = wrong(ann, [
            (on(OPEN, b"/ann/to-secret", READING), DENIED), (on(OPEN, b"/ann/to-bob/secret", READING), DENIED),
            (on(OPEN, b"/ann/to-bob/new", MAKING), DENIED), (on(STORE, b"/ann/to-bob/new", EMPTY), DENIED),
            (on(UNLINK, b"/ann/to-bob/secret"), DENIED), (on(FETCH, b"/ann/to-secret", struct.pack(">I", 100)), DENIED),
            (on(LIST, b"/ann/to-bob", struct.pack(">QI", 0, 10)), DENIED), (on(CHANGE_MODE, b"/ann/to-secret", struct.pack(">I", 0)), DENIED),
            (on(OPEN, b"/ann/../bob/secret", READING), DENIED), (on(OPEN, b"/bob/../ann/f", READING), OK),
            (on(OPEN, b"/ann/to-pub", READING), OK), (on(OPEN, b"/ann/to-pub", WRITING), DENIED),
            (on(MAKE_LINK, b"../bob/secret", text(b"/ann/made")), OK), (on(OPEN, b"/ann/made", READING), DENIED),
            (on(READ_LINK, b"/ann/made"), OK), (on(LINK_STATUS, b"/ann/made"), OK),
            (on(HARD_LINK, b"/bob/secret", text(b"/ann/hard")), DENIED), (on(HARD_LINK, b"/pub/f", text(b"/ann/hard")), DENIED),
            (on(HARD_LINK, b"/drop/f", text(b"/ann/hard")), DENIED), (on(HARD_LINK, b"/ann/f", text(b"/ann/hard")), OK),
            (on(RENAME, b"/bob/secret", text(b"/ann/moved")), DENIED), (on(RENAME, b"/drop/f", text(b"/ann/moved")), DENIED),
            (on(RENAME, b"/ann/sealed", text(b"/ann/open")), DENIED), (on(RENAME, b"/ann", text(b"/pub/ann")), DENIED),
            (on(RENAME, b"/ann/d", text(b"/ann/sealed")), DENIED), (on(REPLACE, b"/ann/f", text(b"/bob/secret")), DENIED),
            (on(RENAME, b"/ann/f", text(b"/drop/f")), OK), (on(RENAME, b"/ann/hard", text(b"/ann/f")), OK),
            (on(RENAME, b"/ann/d", text(b"/ann/e")), OK), (on(OPEN, b"/ann/e/f", READING), OK),
        ])
        if bad or (service.export / "bob/new").exists() or (service.export / "bob/secret").read_text() != "bob/secret":
            return failed("\n".join(bad))
        return passed()


GROUPS = b"""\
@readers members ann,bob
@readers read,list /pub
@writers write /pub
@writers members bob
@readers none /pub/sealed
\\100readers all /private
"""


def by_group(place: Place) -> Outcome:
    """Members have the rights of their groups and no other user has, nor one with a group's name; a user that leaves a
    group loses them in the open session. An unknown group is an error."""
    with Restricted(place, (b"ann", b"bob", b"cy", b"@readers", b"readers"), {"rights": GROUPS}) as service:
        populate(service)
        (service.export / "pub/sealed").mkdir()
        (service.export / "pub/sealed/f").touch()
        ann, bob, cy, odd, plain = (service.enter(user) for user in (b"ann", b"bob", b"cy", b"@readers", b"readers"))
        bad = wrong(ann, [(on(OPEN, b"/pub/f", READING), OK), (on(OPEN, b"/pub/f", WRITING), DENIED),
                          (on(OPEN, b"/pub/sealed/f", READING), DENIED), (on(OPEN, b"/private/f", READING), DENIED)])
        bad += wrong(bob, [(on(OPEN, b"/pub/f", READING), OK), (on(OPEN, b"/pub/f", WRITING), OK), (on(UNLINK, b"/pub/f"), DENIED)])
        for other in (cy, odd, plain):
            bad += wrong(other, [(on(OPEN, b"/pub/f", READING), DENIED), (on(STATUS, b"/pub"), DENIED)])
        bad += wrong(odd, [(on(OPEN, b"/private/f", READING), OK)])
        if not service.change("rights", b"@readers members bob\n@readers read,list /pub\n"):
            return failed("a good file is not taken", service.daemon.output())
        bad += wrong(ann, [(on(OPEN, b"/pub/f", READING), DENIED)]) + wrong(bob, [(on(OPEN, b"/pub/f", READING), OK)])
        if not service.change("rights", b"* all /\n@reader read /pub\n", "reload failed") or "line 2: group 'reader'" not in service.daemon.output():
            return failed("a group without members is accepted, or not named", service.daemon.output())
        return failed("\n".join(bad)) if bad else passed()


def reloaded(place: Place) -> Outcome:
    """New rights hold for existing sessions; an invalid file changes nothing; names of any bytes have lines."""
    with Restricted(place, (b"ann", "zoë mü".encode()), {"rights": RIGHTS}) as service:
        populate(service)
        odd = service.export / os.fsdecode(b"a b\xff#")
        odd.mkdir()
        (odd / "f").touch()
        ann, zoe = service.enter(b"ann"), service.enter("zoë mü".encode())
        bad = wrong(ann, [(on(OPEN, b"/ann/f", READING), OK), (on(OPEN, b"/bob/secret", READING), DENIED)])
        if not service.change("rights", b"* all /\nann reed /ann\n", "reload failed") or "line 2" not in service.daemon.output():
            return failed("a bad file is accepted, or not named", service.daemon.output())
        bad += wrong(ann, [(on(OPEN, b"/ann/f", READING), OK), (on(OPEN, b"/bob/secret", READING), DENIED)])
        new = b"ann read /bob\nzo\xc3\xab\\040m\xc3\xbc read /a\\040b\xff\\043\n"
        if not service.change("rights", new):
            return failed("a good file is not taken", service.daemon.output())
        bad += wrong(ann, [(on(OPEN, b"/ann/f", READING), DENIED), (on(OPEN, b"/bob/secret", READING), OK)])
        bad += wrong(zoe, [(on(OPEN, b"/a b\xff#/f", READING), OK), (on(OPEN, b"/bob/secret", READING), DENIED)])
        os.chmod(service.file(place, "rights"), 0o666)
        if not hang_up(service, "reload failed"):
            return failed("a file that others may change is accepted")
        many = b"".join(b"user%d all /home/user%d\n" % (number, number) for number in range(100_000))
        os.chmod(service.file(place, "rights"), 0o644)
        if not service.change("rights", many + new):
            return failed("100,000 lines are refused")
        bad += wrong(ann, [(on(OPEN, b"/ann/f", READING), DENIED), (on(OPEN, b"/bob/secret", READING), OK)])
        return failed("\n".join(bad)) if bad else passed(f"{service.resident_mebibytes():.0f} MiB with 100,000 lines")


#: Users that every Linux has, and their ids.
DAEMON, BIN = ("daemon", 1), ("bin", 2)


def as_local_users(place: Place) -> Outcome:
    """A file of mode 0600 is its owner's alone, for every operation, and also when its blocks are in the cache. New
    files belong to the user that made them."""
    if os.geteuid() != 0:
        return skipped("serving under local user IDs needs root")
    mapping = b"ann daemon\nbob bin\nbin =\n"
    with Restricted(place, (b"ann", b"bob", b"bin", b"cy", b"root"), {"map": mapping}) as service:
        os.chmod(service.export, 0o777)
        (service.export / "f").write_bytes(noise(1 << 20))
        os.chmod(service.export / "f", 0o600)
        os.chown(service.export / "f", DAEMON[1], DAEMON[1])
        (service.export / "closed").mkdir(0o700)
        (service.export / "closed" / "f").write_text("x")
        os.chown(service.export / "closed", DAEMON[1], DAEMON[1])
        ann, bob = service.enter(b"ann"), service.enter(b"bob")
        status, body, _ = ann.ask(OPEN, text(b"/f") + READING)
        whole = struct.pack(">QIBB", 0, 256 << 10, 0, 0)
        if status or any(ann.ask(READ, body[:8] + whole)[2] != noise(1 << 20)[:256 << 10] for _ in range(3)):
            return failed(f"its owner cannot read a file: {status}")
        denied = [
            on(OPEN, b"/f", READING), on(OPEN, b"/f", WRITING), on(FETCH, b"/f", struct.pack(">I", 4 << 20)),
            on(ACCESS, b"/f", struct.pack(">I", 4)), on(LIST, b"/closed", struct.pack(">QI", 0, 10)), on(STATUS, b"/closed/f"),
            on(OPEN, b"/closed/new", MAKING), on(STORE, b"/closed/new", EMPTY), on(UNLINK, b"/closed/f"),
            on(RENAME, b"/closed/f", text(b"/stolen")), on(HARD_LINK, b"/closed/f", text(b"/stolen")),
        ]
        bad = []
        # Twice: a worker's request for another user leaves nothing behind, and event loops look at cached results.
        for _ in range(2):
            bad += wrong(bob, [(request, DENIED) for request in denied])
            bad += wrong(bob, [(on(CHANGE_MODE, b"/f", struct.pack(">I", 0o666)), errno.EPERM), (on(STATUS, b"/f"), OK)])
            bad += wrong(ann, [(request, OK) for request in denied[:6]])
        bad += wrong(bob, [(on(STORE, b"/of-bob", EMPTY), OK), (on(OPEN, b"/also-of-bob", MAKING), OK), (on(MAKE_DIRECTORY, b"/d", struct.pack(">I", 0o700)), OK)])
        bad += wrong(ann, [(on(STORE, b"/of-ann", EMPTY), OK)])
        owners = {name: os.stat(service.export / name).st_uid for name in ("of-bob", "also-of-bob", "d", "of-ann")}
        if owners != {"of-bob": BIN[1], "also-of-bob": BIN[1], "d": BIN[1], "of-ann": DAEMON[1]}:
            bad.append(f"owners are {owners}")
        # A local user of the same name, a user without a line, and root, which is always refused.
        bad += wrong(service.enter(b"bin"), [(on(OPEN, b"/of-bob", READING), OK), (on(OPEN, b"/f", READING), DENIED)])
        bad += wrong(service.enter(b"cy"), [(on(STATUS, b"/f"), DENIED)])
        if not service.change("map", b"* =\n"):
            return failed("a good file is not taken", service.daemon.output())
        bad += wrong(service.enter(b"root"), [(on(STATUS, b"/f"), DENIED)])
        if not service.change("map", b"* root\n", "reload failed"):
            bad.append("users may be mapped to root")
        return failed("\n".join(bad)) if bad else passed()


def quotas_of_the_system(place: Place) -> Outcome:
    """A worker with a user's ID has none of the capabilities that override permissions and disk quotas."""
    if os.geteuid() != 0:
        return skipped("serving under local user IDs needs root")
    with Restricted(place, (b"ann",), {"map": b"ann daemon\n"}) as service:
        os.chmod(service.export, 0o777)
        ann = service.enter(b"ann")
        assert not wrong(ann, [(on(STORE, b"/f", EMPTY), OK)])
        above = sum(1 << number for number in (0, 1, 3, 4, 9, 21, 24, 27))
        seen = 0
        for thread in Path(f"/proc/{service.daemon.pid}/task").iterdir():
            fields = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines() if ":" in line)
            if fields["Uid"].split()[3] == str(DAEMON[1]):
                seen += 1
                if int(fields["CapEff"], 16) & (above | 1 << 2) or int(fields["CapPrm"], 16) & above or fields["Groups"].split() == ["0"]:
                    return failed(f"a worker has capabilities {fields['CapEff']} of {fields['CapPrm']}, groups {fields['Groups']}")
        return passed() if seen else failed("no worker acts as the user")


def root_is_warned_of(place: Place) -> Outcome:
    """A daemon that serves as root without rights or local users prints the consequences."""
    if os.geteuid() != 0:
        return skipped("the warning concerns root alone")
    with Service(place, "tcp") as service:
        if "warning: serving as root" not in service.daemon.output():
            return failed("no warning", service.daemon.output())
    with Restricted(place, (b"ann",), {"rights": RIGHTS}) as service:
        return passed() if "serving as root" not in service.daemon.output() else failed("a warning without a reason")


CASES: dict[str, Callable[[Place], Outcome]] = {
    "by path": by_path, "ways round": way_round, "groups": by_group, "reloaded": reloaded, "local users": as_local_users,
    "capabilities": quotas_of_the_system, "root": root_is_warned_of,
}
