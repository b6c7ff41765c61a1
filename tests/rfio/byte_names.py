"""Names are bytes: a name that is not UTF-8 works like any other, for every tool and for the C library."""

from __future__ import annotations

import os

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .libraries import LIBRARIES
from .python_package import PYTHON
from .service import Service

#: Not UTF-8, and with a backslash, the mark of an escape.
FILE, DIRECTORY = os.fsdecode(b"f\xff\\xfe"), os.fsdecode(b"d\xe2\x80")
SHOWN_FILE, SHOWN_DIRECTORY = "f\\xff\\\\xfe", "d\\xe2\\x80"
SCRIPT = """
import ctypes, os, sys
rfio = ctypes.CDLL(os.environ["RFIO_LIBRARY"])
path = os.fsencode(sys.argv[1])
assert rfio.rfio_access(path, 4) == 0
descriptor = rfio.rfio_open64(path, os.O_RDONLY, 0)
assert descriptor >= 0 and rfio.rfio_close(descriptor) == 0
rfio.rfio_opendir.restype = ctypes.c_void_p
assert rfio.rfio_opendir(os.path.dirname(path))
"""


def exported(place: Place) -> Outcome:
    """A directory whose name is not UTF-8 is exported, also with ':ro' behind it, and messages show its bytes."""
    outside = place.directory / DIRECTORY
    outside.mkdir()
    (outside / FILE).write_bytes(b"content")
    with Service(place, "tcp", export=outside) as service:
        if f"exporting {place.directory}/{SHOWN_DIRECTORY} (read-write)" not in service.daemon.output():
            return failed("the directory is not shown", service.daemon.output())
        ended = service.tool("rfcat", service.at(FILE))
        if not ended.succeeded or ended.output != "content":
            return failed("nothing is served", ended.evidence())
        service.stop()
        service.export = f"{outside}:ro"
        service.start()
        ended = service.tool("rfrm", service.at(FILE))
        if ended.status != 2 or "Read-only" not in ended.output or not (outside / FILE).exists():
            return failed("':ro' is not understood", ended.evidence())
        service.stop()
        ended = service.tool("rfiod", "--export", f"{outside}/{DIRECTORY}", "--listen", "127.0.0.1:0", "--fabric", "tcp")
        said = f"{SHOWN_DIRECTORY}/{SHOWN_DIRECTORY}: No such file"
        return passed() if ended.status == 2 and said in ended.output else failed("a missing directory", ended.evidence())


def everywhere(place: Place) -> Outcome:
    """All tools with such names, here and there; listings, messages and --json show the bytes."""
    with Service(place, "tcp") as service:
        here = service.here / FILE
        here.write_bytes(b"content")
        at = f"{DIRECTORY}/{FILE}"
        back = service.here / os.fsdecode(b"back\xff")
        steps = [
            (0, "", "rfmkdir", service.at(DIRECTORY)),
            (0, "", "rfmkdir", "-p", service.at(f"{DIRECTORY}/a/{DIRECTORY}")),
            (0, "", "rfcp", "-q", here, service.at(at)),
            (0, "", "rfchmod", "600", service.at(at)),
            (0, f"/{SHOWN_DIRECTORY}/{SHOWN_FILE}", "rfstat", service.at(at)),
            (0, SHOWN_FILE, "rfdir", service.at(DIRECTORY)),
            (0, f"/{SHOWN_DIRECTORY}/a/{SHOWN_DIRECTORY}:", "rfdir", "-R", service.at("")),
            (0, "content", "rfcat", service.at(at)),
            (0, "", "rfrename", service.at(at), service.at(f"{at}2")),
            (2, f"{SHOWN_FILE}: ", "rfcat", service.at(at)),
            (0, "", "rfrename", service.at(f"{at}2"), service.at(at)),
            (0, "", "rfcp", "-q", "-r", service.at(DIRECTORY), back),
            (0, "", "rfcp", "-q", "-r", "--exclude", os.fsdecode(b"f\xff*"), service.at(DIRECTORY), service.here / "without"),
            (2, SHOWN_DIRECTORY, "rfcp", "-q", service.here / f"{DIRECTORY}/nothing", service.at("x")),
            (1, SHOWN_FILE, "rfcp", "-q", "-r", service.at(FILE), service.at(DIRECTORY), service.at(f"not/{FILE}")),
        ]
        for expected, said, program, *arguments in steps:
            ended = service.tool(program, *arguments)
            if ended.status != expected or said not in ended.output:
                return failed(f"exit code {ended.status}, not {expected}, or no '{said}'", ended.evidence())
        if (back / FILE).read_bytes() != b"content" or os.listdir(service.here / "without") != ["a"]:
            return failed(f"copied: {os.listdir(back)}, {os.listdir(service.here / 'without')}")
        script = place.directory / "script.py"
        script.write_text(SCRIPT)
        ended = place.run("python", [str(PYTHON), str(script), service.at(at)], 60,
                          **{**service.environment(), "RFIO_LIBRARY": str(LIBRARIES / "librfio.so.2"), "RFIO_FABRIC": "tcp"})
        if not ended.succeeded:
            return failed("the C library refuses such names", ended.evidence())
        ended = service.tool("rfrm", "-r", service.at(DIRECTORY))
        return passed() if ended.succeeded and not os.listdir(service.export) else failed("not removed", ended.evidence())
