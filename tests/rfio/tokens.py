"""Tokens: SciTokens and WLCG tokens, the rights of each, and every way of misusing one. They are made here with
openssl."""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from functools import wraps
from pathlib import Path
from typing import Callable

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended

from .encrypted import certificate as server_certificate
from .operations import wait_for
from .service import Service, noise
from .certificates import Asking
from .wire import HELLO, OPEN, Closed, Peer, text

ISSUER, AUDIENCE = "https://iam.example/", "https://data.example:5001"
PRESENT, TOKEN, MAKE_LINK, CHANGE_MODE_OF = 60, 32, 37, 16
DATA = noise(300_001)


def encoded(value: bytes) -> bytes:
    """RFC 4648, section 5, without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def part(value: dict) -> bytes:
    return encoded(json.dumps(value).encode())


class Key:
    """A key pair of an issuer."""

    def __init__(self, directory: Path, name: str, kind: str):
        self.private, self.public, self.kind = directory / f"{name}.key", directory / f"{name}.pub", kind
        how = ["rsa", "-pkeyopt", "rsa_keygen_bits:2048"] if kind == "RS256" else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        run("genpkey", "-algorithm", *how, "-out", self.private)
        run("pkey", "-in", self.private, "-pubout", "-out", self.public)
        self.public.chmod(0o644)

    def sign(self, message: bytes) -> bytes:
        """A signature as JSON Web Signatures have it."""
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.private], input=message, capture_output=True, check=True).stdout
        return signed if self.kind == "RS256" else fixed(signed)

    def token(self, claims: dict, **header: object) -> bytes:
        """A signed token."""
        message = part({"alg": self.kind, "typ": "JWT", **header}) + b"." + part(claims)
        return message + b"." + encoded(self.sign(message))

    def jwk(self, name: str) -> dict:
        """The public key of an RSA pair as a JSON Web Key."""
        shown = run("pkey", "-pubin", "-in", self.public, "-noout", "-text")
        digits = "".join(shown.split("Modulus:")[1].split("Exponent:")[0].split()).replace(":", "")
        return {"kty": "RSA", "kid": name, "alg": "RS256", "use": "sig", "e": "AQAB", "n": encoded(bytes.fromhex(digits).lstrip(b"\0")).decode()}


def run(*command: object) -> str:
    return subprocess.run(["openssl", *map(str, command)], capture_output=True, text=True, check=True).stdout


def fixed(der: bytes) -> bytes:
    """The two numbers of an ECDSA signature, 32 bytes each."""
    first = der[4:4 + der[3]]
    second = der[4 + der[3] + 2:]
    return b"".join(number.lstrip(b"\0").rjust(32, b"\0") for number in (first, second))


def claims(scope: str = "storage.read:/data", **more: object) -> dict:
    """Returns the claims of a good token."""
    now = int(time.time())
    return {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "nbf": now - 5, "exp": now + 600, "scope": scope, "wlcg.ver": "1.0", **more}


class Trusting(Service):
    """A service under TLS that accepts an issuer's tokens, and a client without other credentials."""

    def __init__(self, place: Place, kind: str = "ES256", *, words: str = "", jwks: bool = False, options: tuple[str, ...] = ()):
        self.own = place.directory / "issuer"
        self.own.mkdir()
        self.key = Key(self.own, "one", kind)
        self.keys = self.key.public
        if jwks:
            self.keys = self.own / "jwks"
            self.write(self.keys, json.dumps({"keys": [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}, self.key.jwk("k1")]}))
        self.issuers = self.own / "issuers"
        self.write(self.issuers, f"# whose tokens\nwlcg {ISSUER} keys={self.keys} audience={AUDIENCE} {words}\n")
        self.chain, key = server_certificate(place, "server")
        super().__init__(place, "tcp", "--tls-certificate", self.chain, "--tls-key", key, "--tokens", str(self.issuers), *options)
        for name in ("data", "data2", "mine"):
            (self.export / name).mkdir()
            (self.export / name / "f").write_bytes(DATA)

    @staticmethod
    def write(path: Path, content: str) -> None:
        path.write_text(content)
        path.chmod(0o644)

    def bearing(self, token: bytes, program: str, *arguments: object, **more: str) -> Ended:
        """Runs a tool under TLS with a token and no other credentials."""
        return self.tool(program, "--tls-ca", self.chain, *arguments,
                         **{"RFIO_SECRETS": str(self.directory / "none"), "BEARER_TOKEN": token.decode("latin-1"), **more})

    def enter(self, token: bytes) -> tuple[Peer, int, str]:
        """A session by a token, or the refusal."""
        peer = Peer(self.port, context=Asking.context(None))
        return peer, *present(peer, token)

    def reload(self) -> str:
        """Sends SIGHUP; returns the daemon's message."""
        before = len(self.daemon.output())
        os.kill(self.daemon.pid, signal.SIGHUP)
        wait_for(lambda: "\n" in self.daemon.output()[before:])
        return self.daemon.output()[before:]


def present(peer: Peer, token: bytes) -> tuple[int, str]:
    """The handshake by a token: returns the status of the first refusal and its message, or 0."""
    hello = struct.pack(">HHI", 2, 4, TOKEN) + text(b"root") + bytes(32)
    status, body, _ = peer.ask(HELLO, hello)
    if status == 0:
        status, body, _ = peer.ask(PRESENT, text(token))
    return status, body[4:].decode() if status else ""


def with_openssl(case: Callable[[Place], Outcome]) -> Callable[[Place], Outcome]:
    """A case that makes tokens."""
    @wraps(case)
    def run_case(place: Place) -> Outcome:
        return case(place) if shutil.which("openssl") else skipped("needs openssl, to sign tokens")
    return run_case


@with_openssl
def lets_in(place: Place) -> Outcome:
    """By RS256 with a key set and by ES256 with PEM: reads within the scope, is refused beside it, the logs have issuer
    and subject."""
    for kind, jwks in (("RS256", True), ("ES256", False)):
        with Trusting(place, kind, jwks=jwks) as service:
            token = service.key.token(claims(), **({"kid": "k1"} if jwks else {}))
            back = service.here / "back"
            ended = service.bearing(token, "rfcp", service.at("data/f"), back)
            if not ended.succeeded or back.read_bytes() != DATA:
                return failed(f"{kind}: the file is not copied", ended.evidence())
            for arguments, words in ((("rfcp", service.at("data2/f"), back), "lacks the scope storage.read"),
                                     (("rfcp", service.at("data/../data2/f"), back), "'..'"),
                                     (("rfcp", back, service.at("data/g")), "may only read"),
                                     (("rfrm", service.at("data/f")), "may only read")):
                ended = service.bearing(token, *arguments)
                if ended.succeeded or words not in ended.output:
                    return failed(f"{kind}: {arguments[0]} {arguments[1]}", ended.evidence())
            lines = [json.loads(line) for line in service.audit.read_text().splitlines()]
            session = next(line for line in lines if line["event"] == "session")
            if session["user"] != "ann@wlcg" or session["token"] != {"issuer": "wlcg", "subject": "ann"}:
                return failed(f"the audit log has {session}")
            if token.decode() in service.audit.read_text() + service.daemon.output():
                return failed("a log has the token")
        shutil.rmtree(place.directory / "issuer")
    return passed()


@with_openssl
def changes(place: Place) -> Outcome:
    """storage.create uploads new files and replaces none, storage.modify replaces and removes, and SciTokens' write as
    well."""
    with Trusting(place) as service:
        source, small = service.here / "source", service.here / "tree"
        source.write_bytes(noise(200_000, 2))
        small.mkdir()
        (small / "x").write_bytes(b"small")
        create = service.key.token(claims("storage.create:/data"))
        ended = service.bearing(create, "rfcp", source, service.at("data/new"))
        if not ended.succeeded or (service.export / "data/new").read_bytes() != source.read_bytes():
            return failed("storage.create makes no file", ended.evidence())
        for name in ("data/f", "data/new"):
            before = (service.export / name).read_bytes()
            ended = service.bearing(create, "rfcp", small / "x", service.at(name))
            if ended.succeeded or (service.export / name).read_bytes() != before:
                return failed(f"storage.create replaces {name}", ended.evidence())
        for command in (("rfrm", "data/f"), ("rfchmod", "600", "data/f"), ("rfcat", "data/f")):
            ended = service.bearing(create, *command[:-1], service.at(command[-1]))
            if ended.succeeded:
                return failed(f"storage.create does {command[0]}", ended.evidence())
        for scope in ("storage.modify:/mine", "write:/mine"):
            modify = service.key.token(claims(scope))
            for arguments in (("rfcp", source, service.at("mine/f")), ("rfcp", "-r", small, service.at("mine/")), ("rfrm", service.at("mine/f"))):
                ended = service.bearing(modify, *arguments)
                if not ended.succeeded:
                    return failed(f"{scope}: {arguments[0]}", ended.evidence())
            if (service.export / "mine/f").exists() or (service.export / "mine/tree/x").read_bytes() != b"small":
                return failed(f"{scope} allowed another operation")
            ended = service.bearing(modify, "rfrm", service.at("data/f"))
            if ended.succeeded:
                return failed(f"{scope} removes of /data")
        return passed()


@with_openssl
def forged(place: Place) -> Outcome:
    """No algorithm, an HMAC with the public key, another key, another issuer, audience and time, cut off, long,
    nonsense: refused, and each refusal is logged and counted. A good one is accepted afterwards."""
    with Trusting(place, "RS256") as service:
        other = Key(service.own, "other", "RS256")
        good = service.key.token(claims())
        public = service.key.public.read_bytes()
        now = int(time.time())
        confused = part({"alg": "HS256"}) + b"." + part(claims("storage.modify:/"))
        nothing = part({"alg": "none"}) + b"." + part(claims("storage.modify:/"))
        wider = good.split(b".")[0] + b"." + part(claims("storage.modify:/")) + b"." + good.split(b".")[2]
        attempts = [nothing + b".", nothing, wider, other.token(claims()), good[:-1], good[:-10], b"", b"...", b"x" * 8000, bytes(range(256)),
                    *(confused + b"." + encoded(hmac.new(secret, confused, hashlib.sha256).digest())
                      for secret in (public, public.strip(), b"".join(public.splitlines()[1:-1]))),
                    *(service.key.token({**claims(), **wrong}) for wrong in (
                        {"aud": "https://other.example"}, {"aud": []}, {"aud": None}, {"iss": "https://evil.example/"}, {"iss": None},
                        {"iss": [ISSUER]}, {"exp": now - 120}, {"exp": "never"}, {"exp": None}, {"nbf": now + 120}, {"nbf": "x"}, {"sub": None},
                        {"sub": ""}, {"scope": "storage.read"}, {"scope": "storage.read:/data/../data2"}, {"scope": "openid"}, {"scope": None}))]
        for token in attempts:
            _, status, words = service.enter(token)
            if status != errno.EACCES or "access denied: invalid token" not in words:
                return failed(f"{token!r} is answered with {status} {words}")
        if service.metric("rfio_tokens_refused_total") != len(attempts):
            return failed("refused tokens are not counted")
        try:
            _, status, _ = service.enter(b"x" * 8189)
            return failed(f"a token that is too long is answered with {status}")
        except Closed:
            pass
        _, status, words = service.enter(good)
        return passed() if status == 0 else failed(f"a good token is refused: {words}")


@with_openssl
def only_encrypted(place: Place) -> Outcome:
    """Without TLS no server asks for a token, and no client sends one."""
    with Trusting(place) as service:
        token = service.key.token(claims())
        status, words = present(Peer(service.port), token)
        if status != errno.EACCES:
            return failed(f"without TLS a token is answered with {status} {words}")
        ended = service.tool("rfcp", service.at("data/f"), service.here / "x", RFIO_SECRETS=str(service.directory / "none"), BEARER_TOKEN=token.decode())
        if ended.succeeded or "accepts none of the client's credentials" not in ended.output:
            return failed("a client without TLS", ended.evidence())
        return passed()


@with_openssl
def beside_the_scope(place: Place) -> Outcome:
    """On the wire, with every spelling of a path beside the scope, by links, and by a handle that is open for
    reading."""
    with Trusting(place) as service:
        (service.export / "data/outside").symlink_to("/etc/passwd")
        peer, status, words = service.enter(service.key.token(claims("storage.read:/data storage.modify:/mine")))
        if status:
            return failed(words)
        for path in (b"/data2/f", b"data2/f", b"/data/../data2/f", b"/data/./../data2/f", b"//data2//f", b"/", b"", b"/data/..", b"/datax", b"/DATA/f",
                     b"/data/outside", b"/data\xff/f"):
            status, _, _ = peer.ask(OPEN, text(path) + struct.pack(">II", 1, 0))
            if status == 0:
                return failed(f"{path!r} opens")
        for target in (b"../data2/f", b"/data2/f", b"a/../../data2/f"):
            if peer.ask(MAKE_LINK, text(target) + text(b"/mine/link"))[0] != errno.EACCES:
                return failed(f"a link to {target!r} is made")
        status, body, _ = peer.ask(OPEN, text(b"//data/./f") + struct.pack(">II", 1, 0))
        if status:
            return failed("its own file does not open")
        if peer.ask(CHANGE_MODE_OF, body[:8] + struct.pack(">I", 0o777))[0] != errno.EACCES:
            return failed("a file that is open for reading has its mode changed")
        if (service.export / "data/f").stat().st_mode & 0o777 == 0o777:
            return failed("the mode is another")
        return passed()


@with_openssl
def base_user_and_expiry(place: Place) -> Outcome:
    """The issuer's paths begin at its base, its users are one if the line says so, and an expired token opens no
    further file."""
    with Trusting(place, words="path=/mine user=atlas skew=0") as service:
        now = int(time.time())
        peer, status, words = service.enter(service.key.token(claims("storage.read:/", exp=now + 3)))
        if status:
            return failed(words)
        opened = [peer.ask(OPEN, text(path) + struct.pack(">II", 1, 0))[0] for path in (b"/mine/f", b"/data/f")]
        if opened != [0, errno.EACCES]:
            return failed(f"below its base and beside it: {opened}")
        if not wait_for(lambda: peer.ask(OPEN, text(b"/mine/f") + struct.pack(">II", 1, 0))[0] == errno.EACCES):
            return failed("an expired token still opens files")
        users = {json.loads(line)["user"] for line in service.audit.read_text().splitlines()}
        return passed() if "atlas" in users else failed(f"the users are {users}")


@with_openssl
def reloaded(place: Place) -> Outcome:
    """SIGHUP: a new key is known and the old one is not; a bad file changes nothing; without a file no token is
    accepted."""
    with Trusting(place) as service:
        old, new = service.key, Key(service.own, "two", "ES256")
        service.write(service.keys, new.public.read_text())
        if "rfiod: reloaded" not in service.reload():
            return failed("the file is not read", service.daemon.output())
        if service.enter(old.token(claims()))[1] == 0 or service.enter(new.token(claims()))[1]:
            return failed("the new key is not known, or the old one is")
        for content in ("no key", "", new.private.read_text(), '{"keys": [{"kty": "oct", "k": "AA"}]}', "{"):
            service.write(service.keys, content)
            if "reload failed" not in service.reload():
                return failed(f"{content!r} is taken", service.daemon.output())
        if service.enter(new.token(claims()))[1]:
            return failed("a bad file has changed something")
        service.keys.chmod(0o666)
        service.keys.write_text(new.public.read_text())
        if "others may change it" not in service.reload():
            return failed("a file that others may change is taken", service.daemon.output())
        return passed()


CASES = {"lets in": lets_in, "what may be changed": changes, "forged": forged, "under TLS only": only_encrypted, "beside the scope": beside_the_scope,
         "base, user and expiry": base_user_and_expiry, "reloaded": reloaded}
