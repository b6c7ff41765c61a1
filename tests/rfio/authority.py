"""An authority that signs certificates of clients, and revokes them, by openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

CONFIGURATION = """
[ca]
default_ca = here
[here]
database = {directory}/index
new_certs_dir = {directory}
certificate = {directory}/authority.pem
private_key = {directory}/authority.key
default_md = sha256
default_crl_days = 2
serial = {directory}/serial
crlnumber = {directory}/number
crl_extensions = list
policy = any
unique_subject = no
[any]
[list]
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
[between]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = serverAuth
[named]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = clientAuth
subjectAltName = DNS:worker7.example.org,URI:spiffe://example.org/robot
"""


def openssl(*arguments: object) -> str:
    """Runs openssl; returns its output."""
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {' '.join(map(str, arguments))}:\n{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key."""

    path: Path
    key: Path

    def options(self) -> list[object]:
        """For a tool that shows it."""
        return ["--tls-certificate", self.path, "--tls-key", self.key]

    def fingerprint(self) -> str:
        """As openssl writes it."""
        return openssl("x509", "-in", self.path, "-noout", "-fingerprint", "-sha256").strip().partition("=")[2]

    def subject(self) -> str:
        """As openssl writes it."""
        return openssl("x509", "-in", self.path, "-noout", "-subject", "-nameopt", "RFC2253").strip().partition("=")[2]


class Authority:
    """An authority with its own directory; another authority may sign its certificate."""

    def __init__(self, directory: Path, name: str = "authority", above: Optional["Authority"] = None):
        self.directory = directory / name
        self.directory.mkdir()
        self.certificate, self.key = self.directory / "authority.pem", self.directory / "authority.key"
        self.configuration = self.directory / "configuration"
        self.configuration.write_text(CONFIGURATION.format(directory=self.directory))
        (self.directory / "index").touch()
        for counter in ("serial", "number"):
            (self.directory / counter).write_text("01\n")
        self.issued = 0
        if above:
            signed = above.issue(f"/O=Example/CN={name}", "between")
            shutil.copy(signed.path, self.certificate)
            shutil.copy(signed.key, self.key)
        else:
            self._make(self.certificate, self.key, f"/O=Example/CN={name}", "basicConstraints=critical,CA:TRUE",
                       "keyUsage=critical,keyCertSign,cRLSign")

    @staticmethod
    def _make(certificate: Path, key: Path, subject: str, *extensions: str) -> None:
        added = [word for extension in extensions for word in ("-addext", extension)]
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-utf8", "-keyout", key,
                "-out", certificate, "-days", "2", "-subj", subject, *added)
        certificate.chmod(0o644)

    def issue(self, subject: str, extensions: str = "client", start: str = "", end: str = "20491231235959Z") -> Certificate:
        """Issues a certificate for a subject such as /O=Example/CN=Ann, by default valid from now on."""
        self.issued += 1
        front = self.directory / f"client{self.issued}"
        path, key, request = (front.with_suffix(suffix) for suffix in (".pem", ".key", ".csr"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-utf8", "-keyout", key,
                "-out", request, "-subj", subject)
        from_when = ["-startdate", start] if start else []
        openssl("ca", "-batch", "-config", self.configuration, "-notext", "-preserveDN", "-utf8", "-extensions", extensions,
                *from_when, "-enddate", end, "-in", request, "-out", path)
        return Certificate(path, key)

    def alone(self, subject: str) -> Certificate:
        """A certificate that vouches for itself."""
        path, key = self.directory / "alone.pem", self.directory / "alone.key"
        self._make(path, key, subject, "basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth")
        return Certificate(path, key)

    def revoke(self, certificate: Certificate) -> None:
        """Takes a certificate back."""
        openssl("ca", "-config", self.configuration, "-revoke", certificate.path)

    def list(self, *how: str) -> str:
        """Returns the list of revoked certificates as text."""
        path = self.directory / "revoked.pem"
        openssl("ca", "-config", self.configuration, "-gencrl", *how, "-out", path)
        return path.read_text()
