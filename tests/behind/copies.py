"""rfiod behind Debian's xrootd: xrootd authorizes and redirects, rfiod moves the bytes, and its counters prove it."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from rfio.service import noise, same

from .server import USER, Bytes, Xrootd, client, configure, issuing

SIZE = (9 << 20) + 7


def both_ways(place: Place, fabric: str) -> Outcome:
    """xrdcp up and down, with checksums that XRootD computes and compares: the bytes are rfiod's, xrootd makes the
    file."""
    with Bytes(place, fabric) as service, Xrootd(place, "one", service.export, issuing(service, service.directory)) as server:
        original, back = service.here / "original", service.here / "back"
        original.write_bytes(noise(SIZE))
        for source, sink, kind in ((original, server.url("d/f"), "adler32"), (server.url("d/f"), back, "crc32c")):
            ended = client(service, [server], "xrdcp", "--nopbar", "--path", "--cksum", kind, source, sink)
            if not ended.succeeded or "moves the bytes" not in ended.output:
                return failed("xrdcp failed, or no ticket was redeemed", ended.evidence() + server.daemon.output()[-2000:])
        if not same(original, service.export / "d/f") or not same(original, back):
            return failed("the bytes differ")
        if USER and (service.export / "d/f").owner() != USER:
            return failed("the file is not xrootd's")
        sent, received = service.moved()
        if min(sent, received) < SIZE:
            return failed(f"only {sent} and {received} of {SIZE} bytes went by rfiod")
        if fabric == "verbs" and service.metric("rfio_fabric_sent_bytes_total") < SIZE // 2:
            return failed("the bytes did not go by RDMA")
        ended = client(service, [server], "xrdfs", f"root://127.0.0.1:{server.port}", "stat", "/d/f")
        if f"Size:   {SIZE}" not in ended.output:
            return failed("names are not xrootd's", ended.evidence())
        # Two opens, two tickets.
        tickets = service.metric("rfio_tickets_redeemed_total")
        return passed() if tickets == 2 else failed(f"{tickets} tickets for two copies")


def changed_in_place(place: Place, fabric: str) -> Outcome:
    """XRootD's Python by tickets: reads and vectors of a file that is open for writing, its new length, and its cut."""
    with Bytes(place, fabric) as service, Xrootd(place, "one", service.export, issuing(service, service.directory)) as server:
        original = service.here / "original"
        original.write_bytes(noise(1_000_003))
        ended = client(service, [server], "/usr/bin/python3", "-c", SCRIPT, server.url("f"), original)
        if "No module named 'XRootD'" in ended.output:
            return skipped("needs python3-xrootd")
        if not ended.succeeded:
            return failed("the program failed", ended.evidence())
        sent, received = service.moved()
        if sent != 11 + 1011 + 123 or received < 1_000_003:
            return failed(f"{sent} and {received} bytes went by rfiod")
        return passed()


SCRIPT = """
import sys
from XRootD import client
from XRootD.client.flags import OpenFlags
url, original = sys.argv[1], open(sys.argv[2], "rb").read()

def good(answer):
    status, response = answer
    assert status.ok, status.message
    return response

with client.File() as file:
    good(file.open(url, OpenFlags.NEW))
    assert good(file.stat()).size == 0
    for at in range(0, len(original), 100_003):
        good(file.write(original[at:at + 100_003], at))
    assert good(file.stat()).size == len(original)
    assert good(file.read(7, 11)) == original[7:18]
    vector = good(file.vector_read([(0, 10), (500_000, 1000), (99, 1)]))
    assert [chunk.buffer for chunk in vector.chunks] == [original[:10], original[500_000:501_000], original[99:100]]
    good(file.truncate(123))
    good(file.sync())
    assert good(file.stat()).size == 123
with client.File() as file:
    good(file.open(url, OpenFlags.READ))
    assert good(file.read()) == original[:123]
    assert not file.write(b"evil", 0)[0].ok
"""


def redirected(place: Place) -> Outcome:
    """A redirector sends the client to one of two servers, each with its own rfiod: that rfiod moves the
    bytes."""
    with Bytes(place, "tcp") as service:
        second = Bytes(Place("behind", "redirected-second"), "tcp")
        try:
            with Xrootd(place, "a", service.export, issuing(service, service.directory)) as one, \
                    Xrootd(place, "b", second.export, issuing(second, second.directory)) as two:
                for server, where, path in ((one, service, "a/f"), (two, second, "b/f")):
                    (where.export / path).parent.mkdir()
                    (where.export / path).write_bytes(noise(SIZE, seed=ord(path[0])))
                lines = [f"xrootd.redirect 127.0.0.1:{server.port} /{name}" for server, name in ((one, "a"), (two, "b"))]
                with Xrootd(place, "front", service.export, *lines) as front:
                    for where, path in ((service, "a/f"), (second, "b/f")):
                        back = service.here / path[0]
                        ended = client(service, [front], "xrdcp", "--nopbar", front.url(path), back)
                        if not ended.succeeded or not same(back, where.export / path):
                            return failed(f"{path} is not copied", ended.evidence())
                        if where.moved()[0] < SIZE:
                            return failed(f"{path} was not copied by its rfiod", ended.evidence())
            return passed()
        finally:
            second.__exit__()
            second.place.close()


def third_party(place: Place) -> Outcome:
    """A third-party copy: the server that is copied to reads from the other one's rfiod."""
    with Bytes(place, "tcp") as service:
        # The program that the server starts is a client of the other one.
        directory = service.directory / "plugins-of-server"
        with Xrootd(place, "source", service.export, issuing(service, service.directory), "ofs.tpc ttl 20 20 pgm /usr/bin/xrdcp --server") as source:
            # The server's URL has the scheme xroot and an address instead of a name, because no name service has an
            # entry here.
            configure(directory, f"xroot://[::ffff:127.0.0.1]:{source.port}")
            destination_export = service.directory / "destination"
            destination_export.mkdir()
            destination_export.chmod(0o777)
            with Xrootd(place, "sink", destination_export, "ofs.tpc ttl 20 20 pgm /usr/bin/xrdcp --server",
                        XRD_PLUGINCONFDIR=str(directory)) as sink:
                (service.export / "f").write_bytes(noise(SIZE))
                ended = client(service, [source], "xrdcp", "--nopbar", "--tpc", "only", source.url("f"), sink.url("g"))
                if not ended.succeeded or not same(service.export / "f", destination_export / "g"):
                    return failed("no third-party copy", ended.evidence() + sink.daemon.output()[-3000:])
                sent, tickets = service.moved()[0], service.metric("rfio_tickets_redeemed_total")
                if sent < SIZE or tickets != 1:
                    return failed(f"{sent} bytes by rfiod, with {tickets} tickets", sink.daemon.output()[-3000:])
                return passed()


def without_tickets(place: Place) -> Outcome:
    """A server that issues no tickets, a missing rfiod, one that does not know the issuer: XRootD moves the bytes, and
    the log says why."""
    with Bytes(place, "tcp") as service:
        (service.export / "f").write_bytes(noise(SIZE))
        attempts = {"gives no ticket": [], "refused": [issuing(service, service.directory, port=1)],
                    "issuer is unknown": [issuing(service, service.directory)]}
        for words, lines in attempts.items():
            if words.startswith("issuer"):
                service.stop()
                service.shared.write_text("somebody:else's secret, long enough\n")
                service.start()
            with Xrootd(place, words.split()[0], service.export, *lines) as server:
                back = service.here / "back"
                ended = client(service, [server], "xrdcp", "--nopbar", "--force", server.url("f"), back)
                if not ended.succeeded or not same(service.export / "f", back):
                    return failed(f"no copy without tickets ({words})", ended.evidence())
                if words not in ended.output or service.moved()[0]:
                    return failed(f"'{words}' is not printed, or rfiod has moved bytes", ended.evidence())
        bad = service.directory / "nothing"
        try:
            with Xrootd(place, "bad", service.export, issuing(service, service.directory).replace("issuer-secret", bad.name)):
                return failed("xrootd starts with a missing secret")
        except RuntimeError as refused:
            if "tickets cannot be issued" not in str(refused):
                return failed("xrootd's message lacks the reason", str(refused))
        return passed()


def by_token(place: Place) -> Outcome:
    """SciTokens: rfiod reads and writes within the token's scopes; xrootd refuses the rest before it issues a
    ticket."""
    if not Path("/usr/lib/x86_64-linux-gnu/libXrdAccSciTokens-5.so").exists():
        return skipped("needs xrootd-scitokens-plugins")
    with Bytes(place, "tcp") as service:
        authority = Authority(service.directory)
        with Xrootd(place, "one", service.export, issuing(service, service.directory), *authority.lines(),
                    XDG_CACHE_HOME=str(authority.cache)) as server:
            (service.export / "data").mkdir()
            (service.export / "data").chmod(0o777)
            (service.export / "data/f").write_bytes(noise(SIZE))
            (service.export / "other").write_bytes(noise(100))
            new = service.here / "new"
            new.write_bytes(noise(SIZE, 2))
            back = service.here / "back"
            reading, writing = authority.token("read:/"), authority.token("read:/ write:/")

            def copy(source: object, sink: object) -> tuple[bool, str]:
                ended = client(service, [server], "xrdcp", "--nopbar", "--force", source, sink)
                return ended.succeeded, ended.evidence()

            def at(path: str, token: str) -> str:
                return server.url(path) + (f"?authz=Bearer%20{token}" if token else "")

            allowed = {"reading": (at("data/f", reading), back), "writing": (new, at("data/new", writing))}
            for what, (source, sink) in allowed.items():
                succeeded, evidence = copy(source, sink)
                if not succeeded:
                    return failed(f"{what} is refused", evidence + server.daemon.output()[-3000:])
            if not same(back, service.export / "data/f") or not same(new, service.export / "data/new"):
                return failed("the bytes differ")
            if min(service.moved()) < SIZE or service.metric("rfio_tickets_redeemed_total") != 2:
                return failed(f"{service.moved()} bytes went by rfiod")
            expired = authority.token("read:/", lifetime=-100)
            forged = reading[:-8] + ("AAAAAAAA" if reading[-8:] != "AAAAAAAA" else "BBBBBBBB")
            refused = {"no token": (at("data/f", ""), back), "another directory": (at("other", reading), back),
                       "writing with a token for reading": (new, at("data/f", reading)), "an expired token": (at("data/f", expired), back),
                       "a forged token": (at("data/f", forged), back)}
            for what, (source, sink) in refused.items():
                succeeded, evidence = copy(source, sink)
                if succeeded:
                    return failed(f"{what} is allowed", evidence)
            if service.metric("rfio_tickets_redeemed_total") != 2:
                return failed("there was a ticket for what xrootd refused")
            records = [json.loads(line) for line in service.audit.read_text().splitlines()]
            users = [record["user"] for record in records if record["event"] == "session"]
            return passed() if users == ["ann@xrootd"] * 2 else failed(f"the users of the sessions are {users}")


class Authority:
    """An issuer of tokens, whose public key xrootd's library has in its cache as if it had fetched it."""

    NAME = "https://tokens.example.org"

    def __init__(self, directory: Path):
        self.directory = directory / "authority"
        self.directory.mkdir()
        self.key = self.directory / "key.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key], check=True)
        public = subprocess.run(["openssl", "ec", "-in", self.key, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout
        point = public[-64:]
        keys = {"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "one",
                          "x": unpadded(point[:32]), "y": unpadded(point[32:])}]}
        self.cache = self.directory / "cache"
        (self.cache / "scitokens").mkdir(parents=True)
        database = self.cache / "scitokens/scitokens_cpp.sqllite"
        later = int(time.time()) + 3600
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL,keys text NOT NULL)")
            connection.execute("INSERT INTO keycache VALUES (?, ?)",
                               (self.NAME, json.dumps({"jwks": keys, "expires": later, "next_update": later})))
        for path in (self.cache, database.parent, database):
            if USER:
                shutil.chown(path, USER)

    def lines(self) -> list[str]:
        """xrootd's configuration: this issuer has /data."""
        configuration = self.directory / "scitokens.cfg"
        configuration.write_text(f"[Global]\naudience = test\n\n[Issuer test]\nissuer = {self.NAME}\nbase_path = /data\n"
                                 "map_subject = False\n")
        return ["ofs.authorize 1", f"ofs.authlib libXrdAccSciTokens.so config={configuration}"]

    def token(self, scope: str, lifetime: int = 600) -> str:
        """A token of this issuer (RFC 7519, ES256)."""
        now = int(time.time())
        head = {"alg": "ES256", "typ": "JWT", "kid": "one"}
        body = {"iss": self.NAME, "sub": "ann", "aud": "test", "scope": scope, "ver": "scitoken:2.0", "iat": now - 200, "nbf": now - 200,
                "exp": now + lifetime, "jti": str(now)}
        signed = ".".join(unpadded(json.dumps(part).encode()) for part in (head, body))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=signed.encode(), check=True,
                                   capture_output=True).stdout
        return f"{signed}.{unpadded(plain_signature(signature))}"


def unpadded(data: bytes) -> str:
    """Base64 for URLs, as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def plain_signature(encoded: bytes) -> bytes:
    """Two numbers of 32 bytes from a DER sequence of two integers."""
    assert encoded[0] == 0x30
    at, numbers = 2, []
    for _ in range(2):
        length = encoded[at + 1]
        numbers.append(int.from_bytes(encoded[at + 2:at + 2 + length], "big").to_bytes(32, "big"))
        at += 2 + length
    return b"".join(numbers)
