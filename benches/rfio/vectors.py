"""1,024 ranges of 4 KiB: by seeks and reads, by one vector, and from the file itself, with C programs; and XRootD's vector
read of the same ranges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from figures import note
from harness.build_tree import ROOT, run
from rfio.service import TOOLS, Service
from sizes import Sizes

HERE = Path(__file__).parent


def measure(service: Service, over_tcp: Service, tools: dict, sizes: Sizes) -> None:
    """Runs all alternately; each program measures five times."""
    ours = service.directory / "vector"
    compile_it("cc", ours, HERE / "vector.c", f"-I{ROOT / 'crates/librfio/include'}", f"-L{TOOLS / 'lib'}", "-lrfio",
               f"-Wl,-rpath,{TOOLS / 'lib'}")
    theirs = xrootd_program(service.directory) if "xrdcp" in tools else None
    for _ in range(sizes.turns):
        for name, on in (("verbs", service), ("tcp", over_tcp)):
            command = [str(ours), f"rfio://127.0.0.1:{on.port}/hot", str(sizes.large),
                       str(on.export / "hot")]
            ended = on.place.run("vector", run(*command) if name == "verbs" else command, 120,
                                 RFIO_FABRIC=on.fabric, **on.environment())
            assert ended.succeeded, ended.evidence()
            for line in ended.output.splitlines():
                single, vector, local = map(float, line.split())
                note(f"vector.{name}.single_s", single)
                note(f"vector.{name}.vector_s", vector)
                note("vector.local_s", local)
        if theirs:
            done = subprocess.run([theirs, f"root://127.0.0.1:{tools['xrdcp'].port}//hot", str(sizes.large)],
                                  capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, f"XRootD's vector: {done.stderr}"
            for line in done.stdout.splitlines():
                note("vector.xrootd.vector_s", float(line))


def xrootd_program(directory: Path) -> Path | None:
    """Returns the program of XRootD's client; without its library, prints the missing requirement."""
    program = directory / "vector_xrootd"
    try:
        # The client's library finds its dependencies itself.
        compile_it("c++", program, HERE / "vector_xrootd.cc", "-std=c++17", "-I/usr/include/xrootd", "-lXrdCl")
        return program
    except FileNotFoundError as missing:
        why = f"{missing.filename} is missing (Debian: g++, Fedora: gcc-c++)"
    except RuntimeError as failed:
        why = f"XRootD's client library is missing (Debian: libxrootd-client-dev, Fedora: xrootd-client-devel): {failed}"
    print(f"XRootD's vector reads: not measured: {why}", file=sys.stderr)
    return None


def compile_it(compiler: str, program: Path, source: Path, *options: str) -> None:
    """Compiles a program of the benchmark."""
    name = {"cc": "CC", "c++": "CXX"}[compiler]
    done = subprocess.run([os.environ.get(name, compiler), "-O2", "-o", program, source, *options], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{source.name} does not compile: {done.stderr.strip()[-1000:]}")
