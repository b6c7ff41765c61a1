"""The files that `make install` installs, and that they work there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from harness.build_tree import ROOT, TARGET, VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

PROGRAMS = ("rfiod", "rfcp", "rfdir", "rfcat", "rfrm", "rfmkdir", "rfrename", "rfchmod", "rfstat", "rfsrr")
PROGRAM = """
#include <rfio_api.h>
#include <stdio.h>
int main(void) { puts(rfio_serror() ? "linked" : ""); return 0; }
"""


def symbols_apart(programs: Path, program: str) -> str | None:
    """Returns an error of a program that should be small and have its symbols beside it, where debuggers look, or
    None."""
    shown = subprocess.run(["readelf", "-W", "--sections", programs / program], capture_output=True, text=True, check=True)
    sections = set(re.findall(r"\] (\.\S+)", shown.stdout))
    if sections & {".symtab", ".debug_info"} or ".gnu_debuglink" not in sections:
        return f"{program} is not stripped, or does not say where its symbols are"
    # Behind the name are a checksum's bytes.
    link = subprocess.run(["readelf", "-W", "--string-dump=.gnu_debuglink", programs / program], capture_output=True, text=True,
                          errors="replace", check=True)
    apart = programs / ".debug" / re.search(r"\]  (\S+\.debug)", link.stdout)[1]
    symbols = subprocess.run(["nm", "--demangle", apart], capture_output=True, text=True, check=True)
    return None if re.search(r" [tT] \S*main$", symbols.stdout, re.M) else f"{apart} has no symbols"


def verbena_package(at: Path, place: Place) -> Outcome | None:
    """Returns the failure of `import verbena`, with the installed program in the path, if any."""
    package = at / "lib/verbena/python"
    script = "import verbena; print(verbena.program()); print(verbena.run('true').returncode, verbena.__version__)"
    ended = place.run("verbena", [sys.executable, "-c", script], 20, PYTHONPATH=str(package), PATH=f"{at}/bin:{os.environ['PATH']}")
    if not (package / "verbena/py.typed").is_file() or f"{at}/bin/verbena" not in ended.output or "0 0." not in ended.output:
        return failed("`import verbena` does not find the installed program", ended.evidence())
    return None


def everything(place: Place) -> Outcome:
    """Into an empty DESTDIR: programs, libraries, header, manual pages, completions, unit and Python package, and each
    of them can be used from there."""
    if VERBENA.parent != TARGET / "release" or TARGET != ROOT / "target":
        return skipped("another build than this tree's is tested")
    root, prefix = place.directory / "root", "/opt/verbena"
    # The tested build is installed; installing must not need to build again.
    made = place.run("make", ["make", "-C", str(ROOT), "-o", "build", "install", f"DESTDIR={root}", f"PREFIX={prefix}"], 120)
    if not made.succeeded:
        return failed("make install failed", made.evidence())
    at = Path(f"{root}{prefix}")
    for program in PROGRAMS:
        section = 8 if program == "rfiod" else 1
        page = at / f"share/man/man{section}/{program}.{section}"
        if f".TH {program}" not in page.read_text() or "EXIT STATUS" not in page.read_text():
            return failed(f"{page} is no manual page")
        for completion in (f"bash-completion/completions/{program}.bash", f"zsh/site-functions/_{program}",
                           f"fish/vendor_completions.d/{program}.fish"):
            if program not in (at / "share" / completion).read_text():
                return failed(f"{completion} does not complete {program}")
        ended = place.run(program, [str(at / "bin" / program), "--version"], 20)
        if not ended.succeeded or program not in ended.output:
            return failed(f"{program} does not start", ended.evidence())
    for program in ("verbena", *PROGRAMS):
        if problem := symbols_apart(at / "bin", program):
            return failed(problem)
    for page in ("verbena", "verbena-run", "verbena-evaluate"):
        if ".TH verbena" not in (at / f"share/man/man1/{page}.1").read_text():
            return failed(f"{page} has no manual page")
    unit = (at / "lib/systemd/system/rfiod.service").read_text()
    if not re.search(rf"^ExecStart={prefix}/bin/rfiod ", unit, re.M):
        return failed("the unit starts another rfiod", unit)
    if "ProtectSystem=strict" in unit and "ReadWritePaths" not in unit:
        return failed("the unit makes every export read-only", unit)
    for name in ("rfiod.logrotate", "rfiod-alerts.yml", "rfiod-dashboard.json"):
        if not (at / "share/rfio" / name).is_file():
            return failed(f"share/rfio/{name} is missing")
    python = at / "lib/rfio/python"
    ended = place.run("python", [sys.executable, "-c", "import _native; _native.examine('rfio:///f')"], 20,
                      PYTHONPATH=str(python / "rfio_fsspec"))
    if not (python / "rfio_fsspec/__init__.py").is_file() or "has no host" not in ended.output:
        return failed("the Python package does not load", ended.evidence())
    if problem := verbena_package(at, place):
        return problem
    source = place.directory / "program.c"
    source.write_text(PROGRAM)
    for library in ("rfio", "shift"):
        program = place.directory / library
        built = subprocess.run([os.environ.get("CC", "cc"), str(source), "-o", program, f"-I{at}/include", f"-L{at}/lib",
                                f"-l{library}", f"-Wl,-rpath,{at}/lib"], capture_output=True, text=True, check=False)
        if built.returncode:
            return failed(f"nothing links with lib{library}", built.stderr)
        ended = place.run(library, [str(program)], 20)
        if "linked" not in ended.output:
            return failed(f"lib{library} does not load", ended.evidence())
    ended = place.run("run", [str(at / "bin/verbena"), "run", "--", str(at / "bin/rfstat"), "--version"], 20)
    return passed() if ended.succeeded else failed("the installed verbena finds no libraries", ended.evidence())
