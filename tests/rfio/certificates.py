"""Certificates of clients: valid ones, and every way of misusing one."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import ssl
import tempfile
import time
from functools import wraps
from pathlib import Path
from typing import Callable, Optional

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended

from . import libraries, wire
from .authority import Authority, Certificate
from .encrypted import certificate as server_certificate
from .service import SECRET, USER, Service, noise
from .wire import Peer

ANN = "/DC=org/DC=example/O=Example, Inc./CN=Ann Example"
ANN_WRITTEN = "CN=Ann Example,O=Example\\, Inc.,DC=example,DC=org"
DATA = noise(300_001)


class Asking(Service):
    """A service that requests certificates, and a client whose only identity is its certificate."""

    # Refusals in the audit log that were looked at.
    refusals = 0

    def __init__(self, place: Place, users: str, *options: object, revoked: Optional[str] = None, **more: object):
        self.own = Path(tempfile.mkdtemp(prefix="asking-", dir=place.directory))
        self.chain, key = server_certificate(place, "server")
        self.authority = Authority(self.own)
        self.users = self.file("users", users)
        asking = ["--tls-certificate", self.chain, "--tls-key", key, "--tls-client-ca", str(self.authority.certificate),
                  "--tls-users", str(self.users)]
        self.revoked = self.own / "revoked"
        if revoked is not None:
            self.file("revoked", revoked or self.authority.list())
            asking += ["--tls-revoked", str(self.revoked)]
        super().__init__(place, "tcp", *asking, *map(str, options), **more)
        (self.export / "f").write_bytes(DATA)

    def file(self, name: str, content: str) -> Path:
        """Writes a file that other users cannot change."""
        path = self.own / name
        path.write_text(content)
        path.chmod(0o644)
        return path

    def shown(self, certificate: Optional[Certificate], program: str, *arguments: object, **more: str) -> Ended:
        """Runs a tool under TLS that shows a certificate, if there is one, and has no secret unless one is given."""
        own = certificate.options() if certificate else []
        return self.tool(program, "--tls-ca", self.chain, *own, *arguments,
                         **{"RFIO_SECRETS": str(self.directory / "none"), **more})

    def peer(self, certificate: Optional[Certificate] = None, session: Optional[ssl.SSLSession] = None,
             context: Optional[ssl.SSLContext] = None) -> Peer:
        """A client under TLS that sends any message."""
        return Peer(self.port, context=context or self.context(certificate), session=session)

    @staticmethod
    def context(certificate: Optional[Certificate]) -> ssl.SSLContext:
        """Returns such a client's TLS context. It accepts every server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(certificate.path, certificate.key)
        return context

    def log(self, event: str) -> list[dict]:
        """Lines of the audit log."""
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def refusal(self) -> str:
        """The reason of the next refusal in the audit log, which may come after the client has its answer; nothing if
        none comes."""
        deadline = time.monotonic() + 20
        while len(found := self.log("authentication refused")) == self.refusals and time.monotonic() < deadline:
            time.sleep(0.01)
        news, self.refusals = found[self.refusals:], len(found)
        return news[-1]["reason"] if news else ""

    def change(self, what: Path, content: str) -> str:
        """Reloads another file; returns the daemon's message."""
        before = len(self.daemon.output())
        what.write_text(content)
        os.kill(self.daemon.pid, signal.SIGHUP)
        deadline = time.monotonic() + 20
        while "\n" not in self.daemon.output()[before:] and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.daemon.output()[before:]


def with_openssl(case: Callable[[Place], Outcome]) -> Callable[[Place], Outcome]:
    """A case that makes certificates."""
    @wraps(case)
    def run(place: Place) -> Outcome:
        if shutil.which("openssl") is None:
            return skipped("needs openssl, to make certificates")
        return case(place)
    return run


@with_openssl
def lets_in(place: Place) -> Outcome:
    """By the subject as openssl writes it, the fingerprint, and the alternative names: copies both ways as the user of
    the line, for any name that the client sends; the audit log has the certificate."""
    with Asking(place, "") as service:
        authority = service.authority
        ann, bob = authority.issue(ANN), authority.issue("/O=Example/CN=Bob")
        robot, cy = authority.issue("/CN=robot", "named"), authority.issue("/O=Example/CN=J\u00f6rg \"Cy\" \\+ Co.")
        if ann.subject() != ANN_WRITTEN:
            return failed(f"openssl writes {ann.subject()}")
        for name in ("DNS:worker7.example.org", "URI:spiffe://example.org/robot"):
            said = service.change(service.users, f"# by all ways\nann:{ann.subject()}\nbob:sha256:{bob.fingerprint()}\n"
                                                 f"robot:{name}\ncy:{cy.subject()}\n")
            if "rfiod: reloaded" not in said:
                return failed(f"the file is not read: {said}")
            for user, certificate in (("ann", ann), ("bob", bob), ("robot", robot), ("cy", cy)):
                back = service.here / "back"
                for source, sink in ((service.at("f"), back), (back, service.at(f"of-{user}"))):
                    ended = service.shown(certificate, "rfcp", "--user", "root", source, sink)
                    if not ended.succeeded:
                        return failed(f"{user} is refused", ended.evidence())
                if (service.export / f"of-{user}").read_bytes() != DATA:
                    return failed("the bytes differ")
                back.unlink()
                last = service.log("session")[-1]
                digits = certificate.fingerprint().replace(":", "").lower()
                if last["user"] != user or last.get("sha256") != digits or "CN=" not in last.get("certificate", ""):
                    return failed(f"the audit log says {last}")
        if not any(line.get("certificate") == ANN_WRITTEN for line in service.log("session")):
            return failed("the audit log does not have the subject")
        return passed()


@with_openssl
def refused(place: Place) -> Outcome:
    """An invalid certificate ends the connection, even where the client has a secret, and both sides get the reason."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n", revoked="") as service:
        authority, other = service.authority, Authority(service.own, "other")
        good, revoked = authority.issue(ANN), authority.issue(ANN)
        authority.revoke(revoked)
        service.change(service.revoked, authority.list())
        certificates = {
            "it has expired": (authority.issue(ANN, start="20200101000000Z", end="20200201000000Z"), "it has expired"),
            "or is not valid yet": (authority.issue(ANN, start="20480101000000Z"), "it is not valid yet"),
            "it has been revoked": (revoked, "it has been revoked"),
            "no authority known to the server": (other.issue(ANN), "no authority known here has signed it"),
            "it is not for clients": (authority.issue(ANN, "server"), "it is not for clients"),
            "signed it": (authority.alone(ANN), "no authority known here has signed it"),
        }
        for _ in range(3):
            # Sent and received data cross in each of many ways.
            for words, (certificate, reason) in certificates.items():
                for secrets in (service.directory / "none", service.secrets):
                    ended = service.shown(certificate, "rfcat", service.at("f"), RFIO_SECRETS=str(secrets))
                    if ended.status != 2 or "the server refused the client's certificate: " not in ended.output or words not in ended.output:
                        return failed(f"where '{words}' is expected", ended.evidence())
                    last = service.log("authentication refused")[-1]
                    if reason not in last["reason"] or last["status"] != errno.EACCES:
                        return failed(f"where '{reason}' is expected the audit log says {last}")
        if service.metric("rfio_authentication_failures_total") < 36 or service.log("session"):
            return failed("refusals are not counted, or a session was accepted")
        ended = service.shown(good, "rfcat", service.at("f"))
        return passed() if ended.succeeded else failed("a good one is refused", ended.evidence())


@with_openssl
def lists(place: Place) -> Outcome:
    """With lists of revoked certificates, an authority whose list is out of date or missing has none of its
    certificates accepted."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n", revoked="") as service:
        certificate, other = service.authority.issue(ANN), Authority(service.own, "other")
        for content, words in (
                (service.authority.list("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200201000000Z"), "out of date"),
                (other.list(), "no revocation list of its authority covers it"), (service.authority.list() + other.list(), "")):
            if "rfiod: reloaded" not in service.change(service.revoked, content):
                return failed("a list is not read", service.daemon.output())
            ended = service.shown(certificate, "rfcat", service.at("f"))
            if words and (ended.status != 2 or "has no current revocation list" not in ended.output):
                return failed(f"with lists '{words}'", ended.evidence())
            if words and words not in service.refusal():
                return failed(f"'{words}' is not in the audit log")
            if not words and not ended.succeeded:
                return failed("with all lists", ended.evidence())
        return passed()


@with_openssl
def between(place: Place) -> Outcome:
    """An authority between that of the file and the certificate: the client sends the intermediate certificate, and
    each has its list."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n") as service:
        below = Authority(service.own, "below", service.authority)
        ann = below.issue(ANN)
        whole = Certificate(service.file("whole", ann.path.read_text() + below.certificate.read_text()), ann.key)
        for certificate, is_taken in ((ann, False), (whole, True)):
            ended = service.shown(certificate, "rfcat", service.at("f"))
            if ended.succeeded != is_taken or not is_taken and "no authority known to the server" not in ended.output:
                return failed(f"with the intermediate certificate: {is_taken}", ended.evidence())
    with Asking(place, f"ann:{ANN_WRITTEN}\n", revoked="") as service:
        below = Authority(service.own, "below", service.authority)
        ann = below.issue(ANN)
        whole = Certificate(service.file("whole", ann.path.read_text() + below.certificate.read_text()), ann.key)
        for lists, is_taken in ((below.list(), False), (service.authority.list() + below.list(), True)):
            if "rfiod: reloaded" not in service.change(service.revoked, lists):
                return failed("a list is not read")
            ended = service.shown(whole, "rfcat", service.at("f"))
            if ended.succeeded != is_taken:
                return failed(f"with all lists: {is_taken}", ended.evidence())
        return passed()


@with_openssl
def anonymous(place: Place) -> Outcome:
    """A valid certificate without a line is anonymous: named in the refusal and the audit log. Its holder gets in by a
    secret, or anonymously where that is allowed, with anonymous rights."""
    with Asking(place, f"ann:{ANN_WRITTEN}\nbob:CN=Ann Example\nroot:CN=Ann Example,O=Example\\, Inc.\n", "--anonymous", "nothing") as service:
        stranger = service.authority.issue(ANN.replace("Ann", "ann"))
        written = ANN_WRITTEN.replace("Ann", "ann")
        for secrets, words in (("none", "access denied: no user is"), ("wrong", "unknown user or wrong secret, and no user is")):
            path = service.directory / secrets
            if secrets == "wrong":
                path.touch(0o600)
                path.write_bytes(USER + b":another secret than the server's\n")
            ended = service.shown(stranger, "rfcat", service.at("f"), RFIO_SECRETS=str(path))
            if ended.status != 2 or f"{words} mapped to the certificate of {written}" not in ended.output:
                return failed("an unknown certificate", ended.evidence())
            last = service.log("authentication refused")[-1]
            if last.get("certificate") != written or written not in last["reason"]:
                return failed(f"the audit log says {last}")
        ended = service.shown(stranger, "rfcat", service.at("f"), RFIO_SECRETS=str(service.secrets))
        last = service.log("session")[-1]
        if not ended.succeeded or last["user"] != USER.decode() or last.get("certificate") != written:
            return failed(f"by a secret; {last}", ended.evidence())
    with Asking(place, "", "--anonymous", "read") as service:
        stranger = service.authority.issue(ANN)
        ended = service.shown(stranger, "rfcp", service.at("f"), service.here / "f")
        if not ended.succeeded or not service.log("session")[-1]["user"].startswith("anonymous@"):
            return failed("anonymously", ended.evidence())
        ended = service.shown(stranger, "rfcp", service.here / "f", service.at("g"))
        return passed() if ended.status == 2 else failed("an anonymous client writes", ended.evidence())


@with_openssl
def without(place: Place) -> Outcome:
    """A client without a certificate gets in by a secret as before, and otherwise not; a server that requests none is
    recognized; and with one that knows the certificate, a wrong secret does no harm."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n") as service:
        ann = service.authority.issue(ANN)
        ended = service.shown(None, "rfcat", service.at("f"), RFIO_SECRETS=str(service.secrets))
        if not ended.succeeded or "certificate" in service.log("session")[-1]:
            return failed("by a secret", ended.evidence())
        ended = service.shown(None, "rfcat", service.at("f"))
        if ended.status != 2 or "accepts none of the client's credentials" not in ended.output:
            return failed("with nothing", ended.evidence())
        ended = service.tool("rfcat", service.at("f"), RFIO_SECRETS=str(service.secrets))
        if not ended.succeeded:
            return failed("without TLS", ended.evidence())
        wrong = service.directory / "wrong"
        wrong.touch(0o600)
        wrong.write_bytes(b"ann:another secret than the server's\n")
        ended = service.shown(ann, "rfcat", "--user", "ann", service.at("f"), RFIO_SECRETS=str(wrong))
        if not ended.succeeded or service.log("session")[-1]["user"] != "ann":
            return failed("with a certificate and a wrong secret", ended.evidence())
        chain, key = server_certificate(place, "silent")
        with Service(place, "tcp", "--tls-certificate", chain, "--tls-key", key) as silent:
            (silent.export / "f").write_bytes(DATA)
            for secrets, status, words in (("none", 2, "requests no certificate"), (silent.secrets, 0, "")):
                ended = silent.tool("rfcat", "--tls-ca", chain, *ann.options(), silent.at("f"), RFIO_SECRETS=str(secrets))
                if ended.status != status or words not in ended.output:
                    return failed("a server that asks for none", ended.evidence())
        return passed()


@with_openssl
def asserted(place: Place) -> Outcome:
    """The method without TLS, without a certificate, or with an anonymous one; a proof before the handshake; another
    user's name."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n") as service:
        ann, stranger = service.authority.issue(ANN), service.authority.issue("/CN=ann")
        for what, connect in {"without TLS": lambda: Peer(service.port), "without a certificate": service.peer,
                              "with a stranger's": lambda: service.peer(stranger)}.items():
            for user in (b"ann", b"root", USER):
                peer = connect()
                if peer.log_in(user, None, wire.CERTIFICATE) != errno.EACCES or not peer.closed():
                    return failed(f"{what}, {user!r} is not refused")
            # The server chooses the secret, and an empty proof is not accepted.
            if connect().log_in(USER, None, wire.CERTIFICATE | wire.SECRET) != errno.EACCES:
                return failed(f"{what}, a proof of zeros is accepted")
        for connect in (lambda: Peer(service.port), lambda: service.peer(ann)):
            peer = connect()
            peer.send(wire.PROVE, bytes(32))
            if not peer.closed():
                return failed("a proof before the hello is answered")
        if service.log("session"):
            return failed("a session was accepted")
        peer = service.peer(ann)
        if peer.log_in(b"root", None, wire.CERTIFICATE):
            return failed("the holder is refused")
        status, _, _ = peer.ask(wire.PING)
        if status or service.log("session")[-1]["user"] != "ann":
            return failed(f"another user is accepted: {service.log('session')}")
        # A client that does not offer the method is not taken for the certificate's user.
        if service.peer(ann).log_in(b"ann", None, wire.SECRET) != errno.EACCES:
            return failed("without the method the certificate is accepted")
        return passed()


@with_openssl
def taken_up_again(place: Place) -> Outcome:
    """No TLS session is resumed: its certificate may have expired or been revoked since."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n") as service:
        ann = service.authority.issue(ANN)
        context = service.context(ann)
        for _ in range(2):
            first = service.peer(context=context)
            if first.log_in(b"ann", None, wire.CERTIFICATE) or first.ask(wire.PING)[0]:
                return failed("the holder is refused")
            second = service.peer(context=context, session=first.socket.session)
            if first.socket.session.has_ticket or second.socket.session_reused:
                return failed("a session is taken up again")
        return passed()


@with_openssl
def rights(place: Place) -> Outcome:
    """A user is the same by a certificate and by a secret: the export's permissions, and the number of sessions."""
    read_only = Path(tempfile.mkdtemp(prefix="rfio-test-", dir="/dev/shm"))
    try:
        (read_only / "export").mkdir()
        (read_only / "export" / "f").write_bytes(DATA)
        # The daemon reads the word as an option of the export; elsewhere it is a name.
        with Asking(place, f"{USER.decode()}:{ANN_WRITTEN}\n", "--sessions-per-user", "1", export=read_only / "export:ro") as service:
            ann = service.authority.issue(ANN)
            ended = service.shown(ann, "rfcp", service.at("f"), service.here / "f")
            if not ended.succeeded:
                return failed("the holder does not read", ended.evidence())
            for program, arguments in (("rfcp", (service.here / "f", service.at("g"))), ("rfrm", (service.at("f"),)),
                                       ("rfmkdir", (service.at("d"),)), ("rfchmod", ("600", service.at("f")))):
                ended = service.shown(ann, program, *arguments)
                if ended.status != 2:
                    return failed("the holder changes a read-only file", ended.evidence())
            if [path.name for path in (read_only / "export").iterdir()] != ["f"]:
                return failed("something was changed")
            by_certificate, by_secret = ["--tls-ca", service.chain, *ann.options()], ["--secrets", service.secrets]
            for kept, secret, method, options in ((service.peer(ann), None, wire.CERTIFICATE, by_secret),
                                                  (Peer(service.port), SECRET, wire.SECRET, by_certificate)):
                if kept.log_in(USER, secret, method):
                    return failed("the first session is refused")
                second = service.begin("rfcat", *options, service.at("f"), RFIO_SECRETS=str(service.directory / "none"))
                # As long as it does something, it makes no space.
                deadline = time.monotonic() + 60
                while second.running and time.monotonic() < deadline:
                    kept.ask(wire.PING)
                    time.sleep(0.05)
                ended = second.finish(time.monotonic())
                if ended.status != 16 or "sessions" not in ended.output:
                    return failed("a user has more sessions by two methods of authentication", ended.evidence())
                kept.close()
        return passed()
    finally:
        shutil.rmtree(read_only)


@with_openssl
def reloaded(place: Place) -> Outcome:
    """SIGHUP: new lines, lists and authorities are in force for new sessions, existing ones go on, and a bad file
    changes nothing and is named."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n", revoked="") as service:
        ann, other = service.authority.issue(ANN), Authority(service.own, "other")
        others = other.issue(ANN)

        def is_let_in(certificate: Certificate) -> str:
            ended = service.shown(certificate, "rfcat", service.at("f"))
            return service.log("session")[-1]["user"] if ended.succeeded else ""

        standing = service.peer(ann)
        if standing.log_in(b"", None, wire.CERTIFICATE) or is_let_in(ann) != "ann" or is_let_in(others):
            return failed("at the start")
        steps = (
            (service.users, f"bob:{ANN_WRITTEN}\n", "rfiod: reloaded", "bob", ""),
            (service.users, f"cy:{ANN_WRITTEN}\n# x\nAnn\n", "users, line 3: expected user:CERTIFICATE", "bob", ""),
            (service.users, f"cy:{ANN_WRITTEN}\nbob:{ANN_WRITTEN}\n", "line 2: line 1 already names this certificate", "bob", ""),
            (service.users, "cy:CN=Ann Example,Inc.\n", "line 1: 'Inc.' is not of the form ATTRIBUTE=VALUE", "bob", ""),
            (service.users, "", "rfiod: reloaded", "", ""),
            (service.users, f"ann:{ANN_WRITTEN}\n", "rfiod: reloaded", "ann", ""),
            (service.revoked, "nothing\n", "revoked: holds no certificate revocation list", "ann", ""),
            (service.authority.certificate, "nothing\n", "holds no certificate", "ann", ""),
            (service.authority.certificate, other.certificate.read_text(), "reload failed", "ann", ""),
            (service.revoked, service.authority.list() + other.list(), "rfiod: reloaded", "", "ann"),
        )
        kept = service.authority.certificate.read_text()
        service.file("kept", kept)
        for number, (path, content, words, first, second) in enumerate(steps):
            if number == 8:
                # A list that cannot be read goes with it, so that neither is in force.
                service.revoked.chmod(0o666)
            if number == 9:
                service.revoked.chmod(0o644)
            said = service.change(path, content)
            is_bad = "rfiod: reloaded" != words
            if words not in said or is_bad != ("reload failed" in said):
                return failed(f"step {number}: '{words}' is not in {said}")
            found = is_let_in(ann), is_let_in(others)
            if found != (first, second):
                return failed(f"step {number}: {found} are accepted, not {(first, second)}")
            if standing.ask(wire.PING)[0]:
                return failed("an existing session has ended")
        service.authority.certificate.write_text(kept)
        service.authority.revoke(ann)
        if "rfiod: reloaded" not in service.change(service.revoked, service.authority.list()) or is_let_in(ann):
            return failed("a newly revoked certificate is accepted")
        return passed()


@with_openssl
def set_up_wrongly(place: Place) -> Outcome:
    """Files that others can change or read, keys of other certificates, and halves: each is refused at the start, and
    named."""
    with Asking(place, f"ann:{ANN_WRITTEN}\n") as service:
        ann, bob = service.authority.issue(ANN), service.authority.issue("/CN=bob")
        chain, key = server_certificate(place, "again")
        exposed = service.file("exposed", "")
        exposed.chmod(0o664)
        whole = {"--tls-certificate": chain, "--tls-key": key, "--tls-client-ca": str(service.authority.certificate),
                 "--tls-users": str(service.users)}
        for change, words in (
                ({"--tls-users": None}, "--tls-users"), ({"--tls-client-ca": None}, "--tls-client-ca"),
                ({"--tls-certificate": None, "--tls-key": None}, "--tls-certificate"),
                ({"--tls-users": str(exposed)}, "exposed has mode 664: others may change it; run chmod go-w /"),
                ({"--tls-client-ca": str(exposed)}, "exposed has mode 664"), ({"--tls-revoked": str(exposed)}, "exposed has mode 664"),
                ({"--tls-users": str(service.own / "missing")}, "missing: No such file"),
                ({"--tls-users": ann.path.as_posix()}, f"{ann.path.name}, line 1: expected user:CERTIFICATE"),
                ({"--tls-revoked": ann.path.as_posix()}, "holds no certificate revocation list"),
                ({"--tls-key": str(ann.key)}, "is not that of the certificate in"),
                ({"--tls-client-ca": str(ann.key)}, "holds no certificate")):
            options = [word for name, value in {**whole, **change}.items() if value for word in (name, value)]
            command = service.command("rfiod", "--export", service.export, "--listen", "127.0.0.1:0", "--fabric", "tcp", *options)
            ended = place.run("rfiod", command, 20, **service.environment())
            if ended.succeeded or ended.timed_out or words not in ended.output:
                return failed(f"with {change}", ended.evidence())
        ann.path.chmod(0o644)
        loose = Certificate(ann.path, service.own / "loose.key")
        shutil.copy(ann.key, loose.key)
        loose.key.chmod(0o640)
        keyless = service.file("keyless", ann.path.read_text())
        keyless.chmod(0o600)
        tls = ["--tls-ca", service.chain]
        for options, words in (
                ([*tls, *loose.options()], "loose.key has mode 640: others may read or change it; run chmod 600 /"),
                ([*tls, "--tls-certificate", ann.path, "--tls-key", bob.key], "is not that of the certificate in"),
                ([*tls, "--tls-certificate", ann.path], "--tls-key"), ([*tls, "--tls-key", ann.key], "--tls-certificate"),
                ([*tls, "--tls-certificate", ann.key, "--tls-key", ann.key], "holds no certificate"),
                ([*tls, "--tls-certificate", ann.path, "--tls-key", keyless], "keyless: holds no private key"),
                (ann.options(), "a client certificate needs TLS; name the trusted authorities with --tls-ca or RFIO_TLS_CA")):
            ended = service.tool("rfcat", *options, service.at("f"), RFIO_SECRETS=str(service.directory / "none"))
            if ended.succeeded or ended.timed_out or words not in ended.output:
                return failed(f"where '{words}' is expected", ended.evidence())
        ended = service.tool("rfcat", *tls, service.at("f"), RFIO_SECRETS=str(service.secrets), RFIO_TLS_CERTIFICATE=str(ann.path))
        if ended.succeeded or "RFIO_TLS_CERTIFICATE and RFIO_TLS_KEY" not in ended.output:
            return failed("half of a pair in the environment", ended.evidence())
        return passed()


@with_openssl
def by_the_environment(place: Place) -> Outcome:
    """The C library, and so every program on it, shows the certificate that the environment names; command-line options
    take precedence."""
    with Asking(place, f"ann:{ANN_WRITTEN}\nbob:CN=bob\n") as service:
        ann, bob = service.authority.issue(ANN), service.authority.issue("/CN=bob")
        environment = {**service.environment(), "RFIO_SECRETS": str(service.directory / "none"), "RFIO_FABRIC": "tcp",
                       "RFIO_TLS_CA": service.chain, "RFIO_TLS_CERTIFICATE": str(ann.path), "RFIO_TLS_KEY": str(ann.key)}
        program, problem = libraries.compiled(place, "rfio", "trfio")
        if problem:
            return problem
        original = service.export / "f"
        original.write_bytes(noise(20 << 20))
        ended = place.run("trfio", [str(program), f"rfio://127.0.0.1:{service.port}", str(original)], 60, **environment)
        users = {line["user"] for line in service.log("session")}
        if not (ended.succeeded and "all of it" in ended.output) or users != {"ann"}:
            return failed(f"by {users}", ended.evidence())
        ended = service.tool("rfcat", *bob.options(), service.at("f"), **environment)
        last = service.log("session")[-1]["user"]
        return passed() if ended.succeeded and last == "bob" else failed(f"by the command line: {last}", ended.evidence())


CASES = {"lets in": lets_in, "refused": refused, "lists of revoked ones": lists, "an authority between": between, "nobody's": anonymous, "without one": without, "asserted": asserted,
         "sessions taken up again": taken_up_again, "rights": rights, "reloaded": reloaded, "set up wrongly": set_up_wrongly,
         "by the environment": by_the_environment}
