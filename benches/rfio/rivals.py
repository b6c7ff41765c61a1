"""Other programs that copy files over loopback, each with a separate server: configuration, keys and port belong to the
benchmark, and the machine's own services are not touched."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from harness.pair import free_port, listening

SECONDS = 300
TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The cost of a copy."""

    seconds: float
    client_cpu: float
    server_cpu: float


class Rival:
    """A server and the command that copies from it."""

    name = ""
    programs: tuple[str, ...] = ()
    #: Its address.
    host = "127.0.0.1"

    def __init__(self, export: Path, place: Path):
        self.export, self.place, self.port = export, place, free_port()
        place.mkdir(parents=True, exist_ok=True)

    @classmethod
    def lacks(cls) -> Optional[str]:
        """Returns the first missing program."""
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        return next((name for name in cls.programs if shutil.which(name, path=path) is None), None)

    def server(self) -> list[str]:
        """Returns the command that serves until it is ended."""
        raise NotImplementedError

    def copy(self, name: str, to: Path) -> list[str]:
        """Returns the command that copies a file, or a directory with its contents."""
        raise NotImplementedError

    def upload(self, source: Path, name: str) -> list[str]:
        """Returns the command that copies a directory to the server, under a free name."""
        raise NotImplementedError

    def there(self, command: list[str]) -> list[str]:
        """Returns the command line that runs a command on the server's host."""
        return command

    def here(self, command: list[str]) -> list[str]:
        """Returns the command line that runs a command on the client's host."""
        return command

    def listens(self) -> bool:
        """Returns whether the server is reachable."""
        return listening(self.port)

    @contextmanager
    def serving(self) -> Iterator["Rival"]:
        """Runs the server meanwhile."""
        log = open(self.place / "server.log", "wb")
        self.process = subprocess.Popen(self.there(self.server()), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 20
            while not self.listens():
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} does not serve: {(self.place / 'server.log').read_text()[-500:]}")
                time.sleep(0.02)
            yield self
        finally:
            self.process.terminate()
            self.process.wait(20)
            log.close()

    def measure(self, name: str, to: Path) -> Cost:
        """Copies once from the server."""
        return measure(self.process.pid, self.here(self.copy(name, to)))

    def reading(self, name: str, to: Path) -> tuple[list[str], dict[str, str]]:
        """Returns the command that copies from the server, and its environment."""
        return self.here(self.copy(name, to)), dict(os.environ)

    def store(self, source: Path, name: str) -> Cost:
        """Copies a directory once to the server."""
        return measure(self.process.pid, self.here(self.upload(source, name)))


def measure(server: int, command: list[str], **environment: str) -> Cost:
    """Runs a client; returns its time, and the CPU time of both sides."""
    def mine() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    served, spent, begun = processor_seconds(server), mine(), time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                          env={**os.environ, **environment}, check=False)
    seconds = time.monotonic() - begun
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-500:]}")
    # A server that forks reaps its children a little later.
    time.sleep(0.2)
    return Cost(seconds, mine() - spent, processor_seconds(server) - served)


def processor_seconds(process: int) -> float:
    """Returns the CPU time of a process and its children: of those that it has reaped, and of those that run."""
    about = Path(f"/proc/{process}")
    fields = (about / "stat").read_text().rpartition(")")[2].split()
    spent = sum(map(int, fields[11:15])) / TICK
    for thread in (about / "task").iterdir():
        for child in (thread / "children").read_text().split():
            try:
                spent += processor_seconds(int(child))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
    return spent


class Xrootd(Rival):
    """XRootD, without authentication and without TLS."""

    name = "xrdcp"
    programs = ("xrootd", "xrdcp")

    def server(self) -> list[str]:
        configuration = self.place / "xrootd.cf"
        configuration.write_text(
            f"all.export / r/o\noss.localroot {self.export}\nxrd.port {self.port}\n"
            f"all.adminpath {self.place}\nall.pidpath {self.place}\nxrd.network nodnr\n")
        command = ["xrootd", "-c", str(configuration), "-l", str(self.place / "xrootd.log"), "-n", "bench"]
        if os.geteuid() == 0:
            # It refuses to run as root.
            shutil.chown(self.place, "nobody")
            for directory in (self.export, self.export.parent):
                directory.chmod(0o755)
            command += ["-R", "nobody"]
        return command

    def copy(self, name: str, to: Path) -> list[str]:
        # Without checksums of pages, which version 5 computes in software: its fastest configuration.
        return ["env", "XRD_CPUSEPGWRTRD=0", "xrdcp", "--force", "--nopbar", f"root://127.0.0.1:{self.port}//{name}", str(to)]


class Rsync(Rival):
    """rsync's own protocol, without checksums of existing files, as there are none."""

    name = "rsync"
    programs = ("rsync",)

    def server(self) -> list[str]:
        configuration = self.place / "rsyncd.conf"
        user = "uid = 0\ngid = 0\n" if os.geteuid() == 0 else ""
        configuration.write_text(f"{user}use chroot = no\n[export]\npath = {self.export}\nread only = no\n")
        return ["rsync", "--daemon", "--no-detach", f"--address={self.host}", f"--port={self.port}",
                f"--config={configuration}"]

    def copy(self, name: str, to: Path) -> list[str]:
        # With a slash it copies a directory's contents, not the directory itself.
        slash = "/" if (self.export / name).is_dir() else ""
        return ["rsync", "--recursive", "--whole-file", "--inplace",
                f"rsync://{self.host}:{self.port}/export/{name}{slash}", str(to)]

    def upload(self, source: Path, name: str) -> list[str]:
        return ["rsync", "--recursive", "--whole-file", "--inplace", f"{source}/",
                f"rsync://{self.host}:{self.port}/export/{name}"]


class Scp(Rival):
    """OpenSSH, with its default cipher: the most common copy program. Unlike the others here, it encrypts."""

    name = "scp"
    programs = ("sshd", "scp", "ssh-keygen")

    def server(self) -> list[str]:
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.place / key)],
                           stdin=subprocess.DEVNULL, check=True)
        configuration = self.place / "sshd_config"
        configuration.write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {self.place / 'host'}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.place / 'user.pub'}\nStrictModes no\nPasswordAuthentication no\n"
            "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n")
        if os.geteuid() == 0:
            # An empty directory that it requires.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        return [shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin") or "sshd", "-D", "-e", "-f", str(configuration)]

    def copy(self, name: str, to: Path) -> list[str]:
        return [*self.client(), f"127.0.0.1:{self.export / name}", str(to)]

    def upload(self, source: Path, name: str) -> list[str]:
        return [*self.client(), str(source), f"127.0.0.1:{self.export / name}"]

    def client(self) -> list[str]:
        """Returns the client, which asks for no confirmation."""
        options = ["-q", "-r", "-P", str(self.port), "-i", str(self.place / "user"), "-F", "none"]
        for option in ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"):
            options += ["-o", option]
        return ["scp", *options]


class Curl(Rival):
    """nginx and curl, without TLS and without compression."""

    name = "curl"
    programs = ("nginx", "curl")

    def server(self) -> list[str]:
        configuration = self.place / "nginx.conf"
        user = "user root;\n" if os.geteuid() == 0 else ""
        temporary = "".join(f"{kind}_temp_path {self.place};" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration.write_text(
            f"{user}daemon off;\nworker_processes auto;\npid {self.place / 'nginx.pid'};\n"
            f"error_log {self.place / 'nginx.log'};\nevents {{ worker_connections 256; }}\n"
            f"http {{ {temporary} access_log off; sendfile on; tcp_nopush on;\n"
            f"  server {{ listen {self.host}:{self.port}; root {self.export}; }} }}\n")
        program = shutil.which("nginx", path="/usr/sbin:/sbin:/usr/bin") or "nginx"
        return [program, "-c", str(configuration), "-p", str(self.place), "-e", str(self.place / "nginx.log")]

    def copy(self, name: str, to: Path) -> list[str]:
        return ["curl", "--silent", "--fail", "--output", str(to), f"http://{self.host}:{self.port}/{name}"]


ALL = (Xrootd, Rsync, Scp, Curl)
