"""Installation from source: from this tree and from an archive of it, by pip and by make, sharing the build that is
there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from harness.build_tree import ROOT, TARGET
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended

from .installation import installation

# Nothing is compiled; it links three libraries, on a machine that may have much else to do.
SECONDS = 600
# A whole build, by night.
LONG = 3 * 3600
PIP = ["--no-index", "--disable-pip-version-check", "--verbose"]
# From before anything was built, so that cargo takes the files of an archive for those that it has compiled.
LONG_AGO = {"SOURCE_DATE_EPOCH": "1577836800"}
OFFLINE = {"CARGO_NET_OFFLINE": "true"}


def compiled(ended: Ended) -> list[str]:
    """Returns the crates that cargo has compiled."""
    return [words[1] for line in ended.output.splitlines() if (words := line.split())[:1] == ["Compiling"]]


def same_wheel(name: str, tree: Path, place: Place) -> Outcome | None:
    """Has pip make a wheel of a tree: nothing is compiled, and it has the bytes of the wheel of the other cases."""
    out = place.directory / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", *PIP, "--no-deps", "--wheel-dir", str(out), str(tree)]
    ended = place.run(name, command, SECONDS, **OFFLINE)
    if not ended.succeeded:
        return failed(f"pip cannot build {tree}", ended.evidence())
    if again := compiled(ended):
        return failed(f"after `make build` pip compiles {', '.join(again)} again", ended.evidence())
    (wheel,) = out.iterdir()
    if wheel.name != installation().wheel.name or wheel.read_bytes() != installation().wheel.read_bytes():
        return failed(f"{wheel.name} differs from packaging/wheel/build's wheel")
    shutil.rmtree(out)
    return None


def clone(place: Place) -> Outcome:
    """`pip install .` after `make build` compiles nothing."""
    return same_wheel("pip", ROOT, place) or passed("nothing is compiled again")


def archived(place: Place, **variables: str) -> Path:
    """Makes the source distribution."""
    command = [sys.executable, str(ROOT / "packaging/wheel/source"), "--out", str(place.directory / "archive")]
    ended = place.run("source", command, SECONDS, **variables)
    if not ended.succeeded:
        raise RuntimeError(ended.evidence())
    return Path(ended.output.splitlines()[-1])


def unpacked(archive: Path, directory: Path) -> Path:
    """Unpacks an archive, and returns its one directory."""
    with tarfile.open(archive) as file:
        file.extractall(directory)
    (tree,) = directory.iterdir()
    return tree


def archive(place: Place) -> Outcome:
    """The source distribution has every compiled file, and the same bytes each time, also when it is made of itself.
    Without a repository pip and make build from it; its build directory is this tree's, by hard links."""
    made = archived(place, **LONG_AGO)
    tree = unpacked(made, place.directory / "tree")
    names = {str(file.relative_to(tree)).split("/")[0] for file in tree.rglob("*") if file.is_file()}
    if foreign := names & {"tests", "benches", "fuzz", "shared", "target", ".git", ".ci"}:
        return failed(f"it has {', '.join(sorted(foreign))}")
    command = [sys.executable, str(tree / "packaging/wheel/source"), "--out", str(place.directory / "again")]
    again = place.run("again", command, SECONDS)
    if not again.succeeded or Path(again.output.splitlines()[-1]).read_bytes() != made.read_bytes():
        return failed("a source distribution of itself differs", again.evidence())
    (tree / "target").mkdir()
    subprocess.run(["cp", "-al", TARGET / "release", tree / "target/release"], check=True)
    if wrong := same_wheel("pip", tree, place):
        return wrong
    prefix = place.directory / "prefix"
    ended = place.run("make", ["make", "-C", str(tree), "install", f"PREFIX={prefix}"], SECONDS, SETUP="no", **OFFLINE)
    if not ended.succeeded:
        return failed("make install fails", ended.evidence())
    if again := compiled(ended):
        return failed(f"make install compiles {', '.join(again)} again", ended.evidence())
    shutil.rmtree(tree)
    size = made.stat().st_size
    return beside(prefix, place) or passed(f"{size >> 10} KiB")


def beside(prefix: Path, place: Place) -> Outcome | None:
    """The wheel's programs and those of `make install` are in one path: each uses its own libraries."""
    libraries = {str(prefix / "bin"): prefix / "lib/verbena"}
    (package,) = installation().commands.parent.glob("lib/python*/site-packages/verbena")
    libraries[str(installation().commands)] = package / "lib/verbena"
    for path in (list(libraries), list(libraries)[::-1]):
        ended = place.run("both", ["verbena", "run", "--", "env"], 60, PATH=":".join([*path, os.environ["PATH"]]))
        if f"LD_PRELOAD={libraries[path[0]]}/libverbena_shim.so" not in ended.output.splitlines():
            return failed(f"with {path[0]} first in the path the adapter is another", ended.evidence())
    return None


def tool(place: Place, name: str, text: str) -> str:
    """Writes a program of that name, and returns the path with it in front."""
    directory = place.directory / name
    directory.mkdir()
    (directory / name).write_text(text)
    (directory / name).chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def refusals(place: Place) -> Outcome:
    """A missing or unsupported prerequisite is reported in one line, and nothing is installed."""
    oldest = tool(place, "cargo", "#!/bin/sh\necho cargo 1.63.0\n")
    build = [str(ROOT / "packaging/products/build")]
    pip = [sys.executable, "-m", "pip", "wheel", *PIP, "--no-deps", "--wheel-dir", str(place.directory / "wheels")]
    editable = [str(installation().python), "-m", "pip", "install", *PIP, "--dry-run", "--editable"]
    tries = {
        "cargo is missing: install Rust": (build, {"CARGO": "/nowhere/cargo"}),
        "Rust 1.63.0 is too old": (build, {"PATH": oldest, "CARGO": "cargo"}),
        "no C compiler works as '/nowhere/cc'": (build, {"CC": "/nowhere/cc"}),
        "CARGO_BUILD_TARGET is set": (build, {"CARGO_BUILD_TARGET": "aarch64-unknown-linux-gnu"}),
        "editable installs are not supported": ([*editable, str(ROOT)], {}),
        "no such setting: colour": ([*pip, "--config-settings", "colour=blue", str(ROOT)], {}),
    }
    for words, (command, variables) in tries.items():
        ended = place.run("refused", command, 60, **variables, **OFFLINE)
        said = [line for line in ended.output.splitlines() if words in line]
        if ended.succeeded or ended.timed_out or len(said) != 1:
            return failed(f"it does not say {words!r}", ended.evidence())
        if "Traceback" in ended.output.split(words)[0]:
            return failed("a traceback precedes the reason", ended.evidence())
    return passed(f"{len(tries)} reasons")


def cold(place: Place) -> Outcome:
    """The source distribution by pip, then `git archive` by make, without a previous build; by night, as each
    compiles."""
    environment = place.directory / "environment"
    target = {"CARGO_TARGET_DIR": str(place.directory / "target")}
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    ended = place.run("pip", [str(environment / "bin/pip"), "install", *PIP, str(archived(place))], LONG, **target)
    if not ended.succeeded or "verbena" not in compiled(ended):
        return failed("pip cannot install the source distribution", ended.evidence())
    tree, prefix = place.directory / "tree", place.directory / "prefix"
    tree.mkdir()
    with subprocess.Popen(["git", "-C", ROOT, "archive", "HEAD"], stdout=subprocess.PIPE) as process:
        subprocess.run(["tar", "-x", "-C", tree], stdin=process.stdout, check=True)
    ended = place.run("make", ["make", "-C", str(tree), "install", f"PREFIX={prefix}"], LONG, **target)
    if not ended.succeeded:
        return failed("make cannot install an archive", ended.evidence())
    for program in (environment / "bin/verbena", prefix / "bin/verbena"):
        ended = place.run("doctor", [str(program), "doctor"], 60)
        if not ended.succeeded:
            return failed(f"{program} does not work", ended.evidence())
    for directory in (tree, prefix, environment, target["CARGO_TARGET_DIR"]):
        shutil.rmtree(directory)
    return passed()
