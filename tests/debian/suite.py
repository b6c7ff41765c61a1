"""Debian packages: the content and metadata of each, and lintian's verdict."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Callable

from harness.build_tree import ROOT, TARGET, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool

TITLE = "Debian packages"
REQUIRES = [Tool("dpkg-buildpackage", "dpkg-dev"), Tool("dh", "debhelper")]

SECONDS = 300
# Files that each package must have.
HOLDS = {
    "verbena": {"usr/bin/verbena", "usr/bin/rfcp", "usr/lib/verbena/libibverbs.so.1", "usr/lib/verbena/libverbena_shim.so",
                "usr/lib/verbena/libverbena_tracer.so",
                "usr/share/man/man1/verbena-run.1.gz", "usr/share/man/man1/rfcp.1.gz",
                "usr/share/bash-completion/completions/verbena.bash", "usr/share/zsh/vendor-completions/_verbena"},
    "rfiod": {"usr/sbin/rfiod", "lib/systemd/system/rfiod.service", "etc/rfio/rfiod.conf", "usr/lib/sysusers.d/rfiod.conf",
              "usr/lib/tmpfiles.d/rfiod.conf", "usr/share/man/man8/rfiod.8.gz", "etc/logrotate.d/rfiod",
              "usr/share/rfio/rfiod-alerts.yml", "usr/share/rfio/rfiod-dashboard.json"},
    "librfio2": {"usr/lib/MULTIARCH/librfio.so.2", "usr/lib/MULTIARCH/libshift.so.2"},
    "verbena-dev": {"usr/include/rfio_api.h", "usr/lib/MULTIARCH/librfio.so", "usr/lib/MULTIARCH/libshift.so"},
}


def cases() -> list[Case]:
    """Each package, and rules for all."""
    found = [Case(package, "contents", partial(built, partial(contents, package))) for package in HOLDS]
    return [*found,
            Case("each file", "in one package", partial(built, apart)),
            Case("rfiod", "configuration and account", partial(built, service)),
            Case("the programs", "out of the packages", partial(built, used)),
            Case("lintian", "errors and warnings", partial(built, lintian))]


@functools.cache
def packages() -> subprocess.CompletedProcess:
    """The packages of this build, made once."""
    # Built for tests only: fast, not small.
    return subprocess.run([ROOT / "packaging/debian/build"], capture_output=True, text=True, check=False,
                          env={**os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "0"})


def built(case: Callable[[dict[str, Path], Place], Outcome], place: Place) -> Outcome:
    """The case, with the packages by their names."""
    if VERBENA != TARGET / "release" / "verbena" or TARGET != ROOT / "target":
        return skipped("another build than this tree's is tested")
    made = packages()
    if made.returncode:
        return failed("the packages cannot be made", made.stdout + made.stderr)
    files = {Path(line).name.split("_")[0]: Path(line) for line in made.stdout.splitlines() if line.endswith(".deb")}
    if set(files) != set(HOLDS):
        return failed(f"there are the packages {sorted(files)}")
    return case(files, place)


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def names(package: Path) -> set[str]:
    """Returns the package's files without directories."""
    lines = output("dpkg-deb", "--contents", package).splitlines()
    return {line.split()[5].removeprefix("./") for line in lines if not line.startswith("d")}


def contents(package: str, files: dict[str, Path], _place: Place) -> Outcome:
    """The package has its files and declares its dependencies."""
    architecture = output("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    there = names(files[package])
    if lacking := {name.replace("MULTIARCH", architecture) for name in HOLDS[package]} - there:
        return failed(f"{files[package].name} lacks {sorted(lacking)}")
    if foreign := [name for name in there if re.match(r"usr/local|opt|home|.*\.debug", name)]:
        return failed(f"{files[package].name} has {foreign}")
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    if output("dpkg-deb", "--field", files[package], "Version").strip() != version:
        return failed("the version is not the workspace's")
    depends = output("dpkg-deb", "--field", files[package], "Depends")
    needed = f"librfio2 (= {version})" if package == "verbena-dev" else "libc6 (>="
    return passed(depends.strip()) if needed in depends else failed(f"it depends on {depends}, and not on {needed}")


def apart(files: dict[str, Path], _place: Place) -> Outcome:
    """All can be installed together."""
    seen: dict[str, str] = {}
    for package, file in files.items():
        for name in names(file):
            if name in seen:
                return failed(f"{name} is in {package} and in {seen[name]}")
            seen[name] = package
    return passed(f"{len(seen)} files")


def service(files: dict[str, Path], place: Place) -> Outcome:
    """Configuration files survive upgrades, the unit starts the installed program, the account and the directories are
    created on installation, and the unit is neither enabled nor started before it exports anything."""
    root = place.directory / "rfiod"
    subprocess.run(["dpkg-deb", "--raw-extract", files["rfiod"], root], check=True)
    if set((root / "DEBIAN/conffiles").read_text().split()) != {"/etc/rfio/rfiod.conf", "/etc/logrotate.d/rfiod"}:
        return failed("the configuration is no conffile, or something else is")
    unit = (root / "lib/systemd/system/rfiod.service").read_text()
    if "\nExecStart=/usr/sbin/rfiod " not in unit or "\nEnvironmentFile=/etc/rfio/rfiod.conf\n" not in unit:
        return failed("the unit starts something else", unit)
    after = (root / "DEBIAN/postinst").read_text()
    if lacking := [tool for tool in ("systemd-sysusers", "systemd-tmpfiles") if tool not in after]:
        return failed(f"{', '.join(lacking)} is not called after unpacking", after)
    # The code by which debhelper enables a unit only if an administrator had enabled it before.
    if "deb-systemd-helper debian-installed" not in after or "deb-systemd-invoke" in after:
        return failed("the service is enabled or started before it is configured", after)
    account = (root / "usr/lib/sysusers.d/rfiod.conf").read_text().split()[:2]
    return passed() if account == ["u", "rfio"] and "\nUser=rfio\n" in unit else failed(f"the account is {account}")


def used(files: dict[str, Path], place: Place) -> Outcome:
    """Unpacked, and not of the build tree: the program finds the adapter beside itself."""
    root = place.directory / "root"
    for file in files.values():
        subprocess.run(["dpkg-deb", "--extract", file, root], check=True)
    ended = place.run("run", [str(root / "usr/bin/verbena"), "run", "--", "env"], 60)
    if f"LD_PRELOAD={root}/usr/lib/verbena/libverbena_shim.so" not in ended.output:
        return failed("the adapter is another", ended.evidence())
    for program in ("sbin/rfiod", "bin/rfcp"):
        ended = place.run("version", [str(root / "usr" / program), "--version"], 60)
        if not ended.succeeded:
            return failed(f"{program} does not start", ended.evidence())
    return passed()


def lintian(files: dict[str, Path], place: Place) -> Outcome:
    """Neither errors nor warnings."""
    tool = Tool("lintian", "lintian")
    if not tool.present():
        return skipped(f"needs {tool.name} (package {tool.package})")
    ended = place.run("lintian", ["lintian", "--allow-root", "--fail-on", "error,warning", *map(str, files.values())], SECONDS)
    return passed() if ended.succeeded else failed("lintian has something to say", ended.evidence())
