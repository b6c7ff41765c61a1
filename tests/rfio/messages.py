"""Messages for the mistakes of users: what failed, on what, why, and what to do. None has a name of the protocol."""

from __future__ import annotations

import re
import time
from pathlib import Path

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended

from .service import SECONDS, SECRET, USER, Service, noise

# Request names of the protocol, and places that no tool accepts.
INTERNAL = re.compile(r"\b(Open|MakeDirectory|Status|Unlink|List|Fetch|Rename)\b|\.rfpart|\]/|:\d+/")


def complaint(ended: Ended, *wanted: str) -> str:
    """Returns a fault of a message, or nothing."""
    lines = ended.output.splitlines()
    if ended.status in (0, None) or len(lines) != 1:
        return "not one line of a failure"
    missing = [words for words in wanted if words not in lines[0]]
    if missing:
        return f"it does not say {missing}"
    internal = INTERNAL.search(re.sub(r"rfio://[^/]*/", "", lines[0]))
    return f"it says {internal[0]!r}" if internal else ""


def mistakes(place: Place) -> Outcome:
    """Each of them is one line; a failed copy prints no summary, and a place is shown as the tools accept it."""
    with Service(place, "tcp", "--local", str(place.runtime / "s.sock")) as service:
        (service.export / "dir").mkdir()
        (service.export / "f").write_bytes(noise(1000))
        local = service.here / "f"
        local.write_bytes(noise(1000))
        (service.here / "dir").mkdir()
        at, socket = service.at, f"[{place.runtime}/s.sock]:"
        port = f"rfio://127.0.0.1:{service.port}"
        for wanted, *command in (
                ((f"{at('sub/dir/x')}: no directory /sub/dir on the server", f"'rfmkdir -p {at('sub/dir')}'"), "rfcp", local, at("sub/dir/x")),
                ((f"{at('f/x')}: /f on the server is not a directory",), "rfcp", local, at("f/x")),
                ((f"no directory {service.here}/a/b; create it with 'mkdir -p {service.here}/a/b'",), "rfcp", at("f"), service.here / "a/b/c"),
                ((f"{service.here}/f is not a directory",), "rfcp", at("f"), local / "x"),
                ((f"{socket}/sub/x: no directory /sub on the server", f"'rfmkdir -p {socket}/sub'"), "rfcp", local, f"{socket}/sub/x"),
                ((f"{at('sub/dir')}: no directory /sub on the server",), "rfcp", "-r", service.here / "dir", at("sub/dir")),
                ((at("a/b/c"), "no directory /a on the server", "-p"), "rfmkdir", at("a/b/c")),
                ((at("dir/b/c"), "no directory /dir/b on the server", "-p"), "rfmkdir", at("dir/b/c")),
                ((f"{at('dir')}: is a directory", "-r"), "rfcp", at("dir"), service.here),
                ((f"{service.here}/dir: is a directory", "-r"), "rfcp", service.here / "dir", at("")),
                ((f"{at('nothing')}: cannot open /nothing: No such file",), "rfcp", at("nothing"), service.here),
                ((f"{at('nothing')}: cannot open /nothing: No such file",), "rfcat", at("nothing")),
                ((f"{at('nothing')}: cannot read the attributes of /nothing: No such file",), "rfstat", at("nothing")),
                ((f"{at('nothing')}: cannot rename /nothing to /n: No such file",), "rfrename", at("nothing"), at("n"))):
            ended = service.tool(*command)
            if wrong := complaint(ended, *wanted):
                return failed(f"{command[0]}: {wrong}", ended.evidence())
        ended = service.tool("rfcp", f"{port}/nothing", service.here, RFIO_PORT="1")
        if wrong := complaint(ended, f"{port}/nothing: cannot open"):
            return failed(f"another port: {wrong}", ended.evidence())
        ended = service.tool("rfcp", at("nothing"), at("f"), service.here)
        if ended.status != 2 or "1000 bytes in" not in ended.output:
            return failed("one of two copies succeeds, without a summary", ended.evidence())
        return passed()


def credentials(place: Place) -> Outcome:
    """The message to a refused user names the credentials of the client, and the file that it looked for them in."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(noise(1000))
        wrong, others = service.directory / "wrong", service.directory / "others"
        for path, user, secret in ((wrong, USER, SECRET[::-1]), (others, b"somebody", SECRET)):
            path.touch(0o600)
            path.write_bytes(user + b":" + secret + b"\n")
        missing, user = service.directory / "missing", USER.decode()
        none = "the server accepts none of the client's credentials"
        for path, *wanted in ((wrong, "unknown user or wrong secret", f"the secret of user '{user}' in {wrong}"),
                              (others, none, f"no secret of user '{user}' in {others}"),
                              (missing, none, f"no file {missing}")):
            for options, variables in ((["--secrets", path], {}), ([], {"RFIO_SECRETS": str(path)})):
                if path == missing and options:
                    continue
                ended = service.tool("rfcp", *options, service.at("f"), service.here, **variables)
                if bad := complaint(ended, *wanted, "--secrets"):
                    return failed(bad, ended.evidence())
        return passed()


def no_device(place: Place) -> Outcome:
    """RDMA that is required and missing is named with the remedies, and nothing is left at the destination."""
    if any(Path("/sys/class/infiniband").glob("*")):
        return skipped("needs a machine without RDMA devices")
    with Service(place, "verbs") as service:
        (service.export / "f").write_bytes(noise(1000))
        source = service.here / "g"
        source.write_bytes(noise(1000))
        (service.here / "tree").mkdir()
        (service.here / "tree" / "large").write_bytes(noise(3 << 20))
        for options, origin, to in (([], service.at("f"), service.here / "new"), ([], source, service.at("new")),
                                    (["-r"], service.here / "tree", service.at("new"))):
            # Not by `verbena run`.
            command = [str(service.programs / "rfcp"), "--fabric", "verbs", *options, str(origin), str(to)]
            ended = place.start("rfcp", command, **service.environment()).finish(time.monotonic() + SECONDS)
            if wrong := complaint(ended, "RDMA device", "'verbena run --'", "--fabric tcp"):
                return failed(wrong, ended.evidence())
            left = [path.name for path in (*service.here.iterdir(), *service.export.iterdir()) if "new" in path.name]
            if left:
                return failed(f"{left} is left", ended.evidence())
        return passed()
