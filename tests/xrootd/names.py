"""xrdfs' operations on names, compared with the server's file system."""

from __future__ import annotations

import zlib

from harness.outcome import Outcome, failed, passed
from harness.place import Place
from rfio.service import Service, noise

from .programs import program


def everything(place: Place, fabric: str) -> Outcome:
    """Directories, listings, attributes, moves, lengths, modes, checksums, removal; refusals with their reason."""
    with Service(place, fabric) as service:
        export = service.export

        def xrdfs(*command: str) -> str:
            ended = program(service, "xrdfs", f"root://127.0.0.1:{service.port}", *command)
            if not ended.succeeded:
                raise AssertionError(f"xrdfs {' '.join(command)}: {ended.evidence()}")
            return ended.output

        def refused(words: str, *command: str) -> None:
            ended = program(service, "xrdfs", f"root://127.0.0.1:{service.port}", *command)
            if ended.succeeded or words not in ended.output:
                raise AssertionError(f"xrdfs {' '.join(command)}: {ended.evidence()}")

        try:
            xrdfs("mkdir", "-p", "/a/b/c")
            assert (export / "a/b/c").is_dir()
            refused("File exists", "mkdir", "/a")
            data = noise(123_457)
            (export / "a/f").write_bytes(data)
            (export / "a/link").symlink_to("f")
            (export / "a/dangling").symlink_to("nowhere")
            assert "123457" in xrdfs("stat", "/a/f") and "IsDir" in xrdfs("stat", "/a")
            listed = xrdfs("ls", "-l", "/a").splitlines()
            sizes = {line.split()[-1]: line for line in listed}
            assert set(sizes) == {"/a/b", "/a/f", "/a/link", "/a/dangling"}, listed
            assert "123457" in sizes["/a/f"] and "123457" in sizes["/a/link"] and sizes["/a/b"].startswith("d"), listed
            assert {"/a", "/a/b", "/a/b/c", "/a/f"} <= set(xrdfs("ls", "-R", "/").split())
            xrdfs("mv", "/a/f", "/a/b/g")
            assert (export / "a/b/g").read_bytes() == data and not (export / "a/f").exists()
            assert f"adler32 {zlib.adler32(data):08x}" in xrdfs("query", "checksum", "/a/b/g")
            refused("md5", "query", "checksum", "/a/b/g?cks.type=md5")
            assert "adler32" in xrdfs("query", "config", "chksum")
            xrdfs("truncate", "/a/b/g", "1000")
            assert (export / "a/b/g").read_bytes() == data[:1000]
            xrdfs("chmod", "/a/b/g", "rw-r-----")
            assert (export / "a/b/g").stat().st_mode & 0o777 == 0o640
            assert f"127.0.0.1:{service.port}" in xrdfs("locate", "/a/b/g")
            refused("not empty", "rmdir", "/a/b")
            xrdfs("rm", "/a/b/g")
            xrdfs("rmdir", "/a/b/c")
            assert not (export / "a/b/c").exists() and not (export / "a/b/g").exists()
            refused("No such file", "rm", "/a/b/g")
            refused("No such file", "stat", "/a/b/g")
            refused("No such file", "ls", "/nothing")
        except AssertionError as wrong:
            return failed("xrdfs and the file system do not agree", str(wrong))
        return passed()
