"""Files that are written: the files that they replace, and the state after an exception or a kill."""

import os
import signal
import subprocess
import sys
import threading
import time

import fsspec

base, export = sys.argv[1:3]
fs = fsspec.filesystem("rfio")


def raises(error: type, act) -> None:
    """`act` raises it."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"{error.__name__} was due")


def text(name: str) -> str:
    """Returns a file's content."""
    with open(f"{export}/{name}", encoding="utf-8") as file:
        return file.read()


def names() -> set:
    """Returns the names in the export."""
    return set(os.listdir(export))


# Exclusive: an existing name is refused, a link that leads nowhere as well, and one of many writers wins.
for mode, data in (("xb", b"first"), ("x", "first")):
    with fs.open(f"{base}/only", mode) as file:
        file.write(data)
    assert text("only") == "first"
    raises(FileExistsError, lambda: fs.open(f"{base}/only", mode))
    os.unlink(f"{export}/only")
os.symlink("nowhere", f"{export}/dangling")
raises(FileExistsError, lambda: fs.open(f"{base}/dangling", "xb"))
writers = [fs.open(f"{base}/raced", "xb") for _ in range(5)]
outcomes = []


def close(number: int) -> None:
    """Ends one of the writers."""
    try:
        writers[number].write(b"%d" % number)
        writers[number].close()
        outcomes.append(number)
    except FileExistsError:
        pass


threads = [threading.Thread(target=close, args=(number,)) for number in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(outcomes) == 1 and text("raced") == str(outcomes[0]), outcomes
raises(FileExistsError, lambda: fs.pipe_file(f"{base}/raced", b"", mode="create"))
assert names() == {"dangling", "raced"}, names()

# A replaced file keeps its attributes.
with open(f"{export}/private", "w", encoding="utf-8") as file:
    file.write("old")
os.chmod(f"{export}/private", 0o640)
# Version 2: read and write of the owner, of user 12, of group, mask, of others.
acl = b"\2\0\0\0" + b"".join(tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + who.to_bytes(4, "little")
                             for tag, rights, who in ((1, 6, 2**32 - 1), (2, 4, 12), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1),
                                                      (32, 0, 2**32 - 1)))
has_attributes = True
try:
    os.setxattr(f"{export}/private", "user.origin", b"here")
except OSError:
    has_attributes = False
has_acl = True
try:
    os.setxattr(f"{export}/private", "system.posix_acl_access", acl)
except OSError:
    has_acl = False
print("user attributes", has_attributes, "ACL", has_acl)
before = os.stat(f"{export}/private")
for write in (lambda: fs.pipe_file(f"{base}/private", b"new"), lambda: fs.copy(f"{base}/raced", f"{base}/private"),
              lambda: fs.touch(f"{base}/private")):
    write()
    after = os.stat(f"{export}/private")
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid), oct(after.st_mode)
    assert after.st_ino != before.st_ino
    if has_attributes:
        assert os.getxattr(f"{export}/private", "user.origin") == b"here"
    if has_acl:
        assert os.getxattr(f"{export}/private", "system.posix_acl_access") == acl
with fs.open(f"{base}/private", "wb", block_size=1000) as file:
    file.write(b"x" * 5000)
    assert {os.stat(f"{export}/{name}").st_mode & 0o777 for name in names() if name.endswith(".rfpart")} == {0o600}

# A link stays, and the file that it names is written.
os.mkdir(f"{export}/far")
os.symlink("far/file", f"{export}/link")
os.symlink("link", f"{export}/linked")
for number in range(2):
    fs.pipe_file(f"{base}/linked", b"%d" % number)
    assert text("far/file") == str(number) and os.readlink(f"{export}/linked") == "link" and os.readlink(f"{export}/link") == "far/file"
os.symlink("loop", f"{export}/loop")
os.symlink("/far/file", f"{export}/absolute")
raises(OSError, lambda: fs.pipe_file(f"{base}/loop", b""))
raises(OSError, lambda: fs.pipe_file(f"{base}/absolute", b""))
raises(IsADirectoryError, lambda: fs.pipe_file(f"{base}/far", b""))
os.symlink("../outside", f"{export}/outside")
raises(OSError, lambda: fs.pipe_file(f"{base}/outside", b""))
assert not os.path.exists(f"{export}/../outside")

# An exception discards, even if another object holds the file.
fs.pipe_file(f"{base}/good", b"good")
before_names = names()


class Holder:
    """An object that has a file and closes it, as pandas' handles do."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        """Closes."""
        self.file.close()

    def write(self, data):
        """Writes."""
        self.file.write(data)


for hold, data in ((lambda: fs.open(f"{base}/good", "wb"), b"half"), (lambda: fs.open(f"{base}/good", "w"), "half"),
                   (lambda: fs.open(f"{base}/good", "wb", block_size=2), b"half"),
                   (lambda: fsspec.open(f"{base}/good", "wb"), b"half"), (lambda: fsspec.open(f"{base}/good", "w"), "half"),
                   (lambda: fsspec.open(f"{base}/good", "wb", compression="gzip"), b"half"),
                   (lambda: Holder(fs.open(f"{base}/good", "wb")), b"half")):
    try:
        with hold() as file:
            file.write(data)
            raise KeyError("in the middle")
    except KeyError:
        pass
    assert text("good") == "good" and names() == before_names, names()
file = fs.open(f"{base}/good", "wb")
file.write(b"half")
file.discard()
file.discard()
file.close()
assert text("good") == "good" and file.closed
try:
    with fs.transaction:
        fs.pipe_file(f"{base}/good", b"half")
        raise KeyError("in the middle")
except KeyError:
    assert text("good") == "good" and names() == before_names, names()
# An exception that is being handled is none of the file's.
try:
    raise KeyError("before")
except KeyError:
    with fs.open(f"{base}/good", "wb") as file:
        file.write(b"one")
    assert text("good") == "one"
    with fsspec.open(f"{base}/good", "w") as file:
        file.write("two")
    assert text("good") == "two"
file = fs.open(f"{base}/good", "wb")
try:
    raise KeyError("between")
except KeyError:
    file.write(b"three")
    file.close()
assert text("good") == "three"

# A killed writer's file is removed with the next one of its name, when it is old enough and has no writer.
writer = subprocess.Popen([sys.executable, "-c", "import sys, time, fsspec\n"
                           "file = fsspec.filesystem('rfio').open(sys.argv[1], 'wb', block_size=10)\n"
                           "file.write(b'half' * 100)\nprint('begun', flush=True)\ntime.sleep(100)", f"{base}/killed"],
                          stdout=subprocess.PIPE)
writer.stdout.readline()
partial = f"{export}/.killed.rfpart"
os.utime(partial, (1, 1))
fs.pipe_file(f"{base}/killed", b"whole")
assert text("killed") == "whole" and os.path.exists(partial), "a file with a writer stays"
writer.send_signal(signal.SIGKILL)
writer.wait()
os.utime(partial)
fs.pipe_file(f"{base}/killed", b"again")
assert text("killed") == "again" and os.path.exists(partial), "a file written just now stays"
os.utime(partial, (1, 1))
deadline = time.monotonic() + 30
while os.path.exists(partial) and time.monotonic() < deadline:
    fs.pipe_file(f"{base}/killed", b"last")
assert text("killed") == "last" and not [name for name in names() if "rfpart" in name], names()

# Names are bytes, of which a file may have 255; files move and are touched.
long = "\N{GRINNING FACE}" * 63
fs.pipe_file(f"{base}/{long}", b"long")
assert fs.cat_file(f"{base}/{long}") == b"long"
fs.mv(f"{base}/{long}", f"{base}/short")
assert text("short") == "long"
with fs.open(f"{base}/short", "rb", cache_type="all") as file:
    assert file.read() == b"long"
os.utime(f"{export}/short", (1, 1))
fs.touch(f"{base}/short", truncate=False)
assert text("short") == "long" and abs(os.stat(f"{export}/short").st_mtime - time.time()) < 60
fs.touch(f"{base}/fresh", truncate=False)
assert text("fresh") == ""
fs.chmod(f"{base}/fresh", 0o600)
assert os.stat(f"{export}/fresh").st_mode & 0o777 == 0o600
for name in "abc":
    fs.pipe_file(f"{base}/from/{name}", name.encode())
fs.makedirs(f"{base}/to")
fs.mv(f"{base}/from/a", f"{base}/to")
fs.mv([f"{base}/from/b"], f"{base}/to")
fs.mv(f"{base}/from/c*", f"{base}/new/deep")
assert text("to/a") == "a" and text("to/b") == "b" and text("new/deep/c") == "c" and os.listdir(f"{export}/from") == []
fs.mv(f"{base}/to", f"{base}/new", recursive=True)
assert text("new/to/a") == "a"
fs.mv([f"{base}/new/to/a", f"{base}/new/to/b"], [f"{base}/1", f"{base}/2"])
assert text("1") == "a" and text("2") == "b"
raises(FileNotFoundError, lambda: fs.mv(f"{base}/none", f"{base}/nothing"))
print("did it all")
