"""TLS: copies inside it, and every attempt to get past it."""

from __future__ import annotations

import shutil
import subprocess

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .elsewhere import HOST
from .service import SECRET, USER, Service, noise
from .wire import Peer


def certificate(place: Place, name: str) -> tuple[str, str]:
    """A certificate for this host that vouches for itself, and its key."""
    chain, key = str(place.directory / f"{name}.pem"), str(place.directory / f"{name}.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", chain, "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:{HOST}",
         "-addext", "basicConstraints=critical,CA:FALSE"], check=True, capture_output=True)
    return chain, key


def tls(place: Place) -> Outcome:
    """Copies in both directions inside TLS; a client with another's certificate, one without TLS, and one with a wrong
    secret are refused."""
    if shutil.which("openssl") is None:
        return skipped("needs openssl, to make certificates")
    chain, key = certificate(place, "ours")
    other, _ = certificate(place, "other")
    with Service(place, "tcp", "--tls-certificate", chain, "--tls-key", key, "--tls-only") as service:
        data = noise(5_000_001)
        (service.here / "f").write_bytes(data)
        for source, sink in ((service.here / "f", service.at("f")), (service.at("f"), service.here / "back")):
            ended = service.tool("rfcp", "--tls-ca", chain, source, sink)
            if not ended.succeeded:
                return failed("no copy inside TLS", ended.evidence())
        if (service.here / "back").read_bytes() != data:
            return failed("the bytes differ")
        ended = service.tool("rfcat", "--tls-ca", other, service.at("f"))
        if ended.status != 2:
            return failed("an untrusted server is used", ended.evidence())
        ended = service.tool("rfcat", service.at("f"))
        if ended.status != 2:
            return failed("a client without TLS is accepted", ended.evidence())
        peer = Peer(service.port)
        try:
            if peer.log_in(USER, SECRET) == 0:
                return failed("a client without TLS is accepted")
        except Exception:  # noqa: BLE001 - the connection ends by any error
            pass
        wrong = place.directory / "wrong"
        wrong.touch(0o600)
        wrong.write_bytes(USER + b":" + b"another secret than the server's\n")
        ended = service.tool("rfcat", "--tls-ca", chain, "--secrets", wrong, service.at("f"))
        if ended.status != 2 or "access denied" not in ended.output:
            return failed("a client is accepted by TLS alone", ended.evidence())
        return passed()
