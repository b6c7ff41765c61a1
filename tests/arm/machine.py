"""A 64-bit ARM machine: the adapter built for it, Debian's programs of it, and QEMU's user mode, which runs both
here."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from harness.build_tree import ROOT, TARGET

TRIPLE = "aarch64-unknown-linux-gnu"
COMPILER = "aarch64-linux-gnu-gcc"
PACKAGES = "ibverbs-utils,libibverbs-dev,perftest,libgcc-s1"
# Debian's release of the programs.
RELEASE = "bookworm"
CARGO = os.environ.get("CARGO", "cargo").split()
DEBIAN = TARGET / "arm-root"
BUILT = TARGET / TRIPLE / "release"
# QEMU notes the rights of every page of a mapping, one by one: with the address space of a real machine the adapter
# maps so much that its peers give up meanwhile.
ADDRESS_SPACE = 12 << 30


class Absent(Exception):
    """A prerequisite that this machine cannot provide."""


class Unbuilt(Exception):
    """The adapter does not compile for it, which is a failure of the adapter."""


def environment() -> dict[str, str]:
    """For Cargo."""
    name = TRIPLE.upper().replace("-", "_")
    return dict(os.environ, **{f"CARGO_TARGET_{name}_LINKER": COMPILER,
                               f"CARGO_TARGET_{name}_RUNNER": f"qemu-aarch64 -L {DEBIAN}",
                               "CC": f"{COMPILER} -idirafter {DEBIAN}/usr/include"})


@cache
def prepare() -> None:
    """Debian's programs, unpacked and not installed, and our libraries."""
    if subprocess.run(["rustup", "target", "add", TRIPLE], capture_output=True, check=False).returncode != 0:
        raise Absent(f"Rust's library for {TRIPLE} (rustup target add {TRIPLE})")
    if not (DEBIAN / "usr/bin/ib_send_bw").exists():
        call(Absent, ["mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract", f"--include={PACKAGES}", RELEASE, str(DEBIAN)])
    call(Unbuilt, [*CARGO, "build", "--release", "--target", TRIPLE, "-p", "verbena-ibverbs", "-p", "verbena-shim"])
    for library in ("ibverbs", "shim"):
        call(Unbuilt, [str(ROOT / f"crates/{library}/link.sh"), str(BUILT)], CC=COMPILER)


def call(otherwise: type[Exception], command: list[str], **more: str) -> None:
    """Something that must succeed."""
    done = subprocess.run(command, cwd=ROOT, env=environment() | more, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise otherwise(f"{command[0]}: {done.stderr.strip()[-800:]}")


def emulated(program: Path, *words: object) -> list[str]:
    """The command line that runs a program of that machine on the adapter; the launcher cannot, for it would start it
    without QEMU."""
    debian = f"{DEBIAN}/usr/lib/aarch64-linux-gnu:{DEBIAN}/lib/aarch64-linux-gnu"
    return ["prlimit", f"--as={ADDRESS_SPACE}", "qemu-aarch64", "-L", str(DEBIAN),
            "-E", f"LD_LIBRARY_PATH={BUILT / 'lib'}:{debian}", "-E", f"LD_PRELOAD={BUILT / 'lib/libverbena_shim.so'}",
            str(program), *map(str, words)]
