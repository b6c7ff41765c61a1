"""RPM packages: the content and metadata of each, and that they work where rpm has installed them."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Callable

from harness.build_tree import LOGS, ROOT
from harness.outcome import Outcome, failed, passed
from harness.place import Place

OUT = LOGS / "release/rpms"
# Files that each package must have, and the folders that only one may have.
HOLDS = {
    "verbena": {"/usr/bin/verbena", "/usr/bin/rfcp", "/usr/lib/verbena/libibverbs.so.1", "/usr/lib/verbena/libverbena_shim.so",
                "/usr/lib/verbena/libverbena_tracer.so", "/usr/share/man/man1/verbena-run.1.gz", "/usr/share/man/man1/rfcp.1.gz",
                "/usr/share/licenses/verbena/LICENSE-MIT"},
    "rfiod": {"/usr/bin/rfiod", "/usr/lib/systemd/system/rfiod.service", "/etc/rfio/rfiod.conf", "/usr/lib/sysusers.d/rfiod.conf",
              "/usr/lib/tmpfiles.d/rfiod.conf", "/usr/share/man/man8/rfiod.8.gz", "/etc/logrotate.d/rfiod",
              "/usr/share/rfio/rfiod-alerts.yml", "/usr/share/rfio/rfiod-dashboard.json"},
    "librfio": {"/usr/lib64/librfio.so.2", "/usr/lib64/libshift.so.2"},
    "librfio-devel": {"/usr/include/rfio_api.h", "/usr/lib64/librfio.so", "/usr/lib64/libshift.so"},
}
FOREIGN = re.compile(r"/usr/local|/opt|/home|/root|.*\.debug$")


@functools.cache
def packages() -> subprocess.CompletedProcess:
    """Makes the packages of this build, once: to be looked at and thrown away, so fast and not small."""
    return subprocess.run([ROOT / "packaging/rpm/build", "--out", OUT], capture_output=True, text=True, check=False,
                          env={**os.environ, "RPM_PAYLOAD": "w0.gzdio"})


def made(case: Callable[[dict[str, Path], Place], Outcome], place: Place) -> Outcome:
    """The case, with the packages by their names."""
    if (done := packages()).returncode:
        return failed("the packages cannot be made", done.stdout + done.stderr)
    files = {query(Path(line), "--queryformat", "%{NAME}"): Path(line) for line in done.stdout.split()}
    if set(files) != set(HOLDS):
        return failed(f"there are the packages {sorted(files)}")
    return case(files, place)


def query(package: Path, *what: str) -> str:
    return subprocess.run(["rpm", "--query", *what, "--package", package], capture_output=True, text=True, check=True).stdout


def contents(files: dict[str, Path], _place: Place) -> Outcome:
    """Each package has its files, no file is in two, and the version is the workspace's."""
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    owners: dict[str, str] = {}
    for package, file in files.items():
        there = set(query(file, "--list").split("\n")) - {""}
        if lacking := HOLDS[package] - there:
            return failed(f"{package} lacks {sorted(lacking)}")
        if foreign := [name for name in there if FOREIGN.match(name)]:
            return failed(f"{package} has {foreign}")
        if twice := [name for name in there if name in owners]:
            return failed(f"{package} has {twice}, and so has {owners[twice[0]]}")
        owners.update(dict.fromkeys(there, package))
        if (said := query(file, "--queryformat", "%{VERSION}")) != version:
            return failed(f"{package} has version {said}, the workspace {version}")
    return passed(f"{len(owners)} files")


def relations(files: dict[str, Path], _place: Place) -> Outcome:
    """The C library is required, the adapter's libraries are not offered to others, and those of the file service
    are."""
    for package in ("verbena", "rfiod", "librfio"):
        if "libc.so.6(GLIBC_" not in query(files[package], "--requires"):
            return failed(f"{package} does not require the C library", query(files[package], "--requires"))
    if (offered := query(files["verbena"], "--provides")) and "lib" in offered:
        return failed("verbena offers its private libraries", offered)
    if "librfio.so.2()(64bit)" not in query(files["librfio"], "--provides"):
        return failed("librfio.so.2 is not offered", query(files["librfio"], "--provides"))
    if not re.search(r"^librfio = \S+-1$", query(files["librfio-devel"], "--requires"), re.M):
        return failed("librfio-devel does not require its librfio", query(files["librfio-devel"], "--requires"))
    if set(query(files["rfiod"], "--configfiles").split()) != {"/etc/rfio/rfiod.conf", "/etc/logrotate.d/rfiod"}:
        return failed("edited configuration is not kept")
    scripts = query(files["rfiod"], "--scripts")
    if lacking := [tool for tool in ("systemd-sysusers", "systemd-tmpfiles", "disable --now") if tool not in scripts]:
        return failed(f"{', '.join(lacking)} is not called", scripts)
    return passed()


def installed(files: dict[str, Path], place: Place) -> Outcome:
    """In their own root: the programs start, verbena finds the adapter beside itself, and the unit starts an
    installed program."""
    root = place.directory / "root"
    root.mkdir()
    if os.geteuid() == 0:
        # An empty root lacks their dependencies and the programs of their scripts.
        command = ["rpm", "--root", str(root), "--install", "--nodeps", "--noscripts", *map(str, files.values())]
        ended = place.run("install", command, 300)
        if not ended.succeeded:
            return failed("rpm does not install them", ended.evidence())
    else:
        for file in files.values():
            with subprocess.Popen(["rpm2cpio", file], stdout=subprocess.PIPE) as unpacked:
                subprocess.run(["cpio", "--quiet", "-idm"], stdin=unpacked.stdout, cwd=root, check=True)
    ended = place.run("run", [str(root / "usr/bin/verbena"), "run", "--", "env"], 60)
    if f"LD_PRELOAD={root}/usr/lib/verbena/libverbena_shim.so" not in ended.output:
        return failed("the adapter is another", ended.evidence())
    for program in ("rfiod", "rfcp"):
        ended = place.run("version", [str(root / "usr/bin" / program), "--version"], 60)
        if not ended.succeeded:
            return failed(f"{program} does not start", ended.evidence())
    unit = (root / "usr/lib/systemd/system/rfiod.service").read_text()
    return passed() if "\nExecStart=/usr/bin/rfiod " in unit else failed("the unit starts something else", unit)


CASES = {name: partial(made, case) for name, case in (("contents", contents), ("relations", relations), ("installed", installed))}
