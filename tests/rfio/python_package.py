"""rfio_fsspec as users have it: installed by pip, from the wheel of this build, for the interpreter that has the
libraries that the tests use it under."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness import tiers
from harness.build_tree import LOGS, ROOT, TARGET, run
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from wheel.installation import NotInstalled, make, ours

from .service import SECONDS, Service, noise

# The environment that `setup/python` makes, or the interpreter of these tests.
PYTHON = next((path for path in [TARGET / "python/bin/python"] if path.exists()), Path(sys.executable))
SCRIPTS = ROOT / "tests/rfio/scripts"
# Further packages that a library's script needs.
BESIDE = {"pandas": ("pyarrow",), "dask": ("dask.dataframe", "pyarrow"), "uproot": ("awkward",)}
_ONE_AT_A_TIME = threading.Lock()
RESTARTED = """
import os, sys, time
from rfio_fsspec import _native
url, there = sys.argv[1:]
data = open(there, "rb").read()
file = _native.File(url, os.O_RDONLY)
assert file.read_at(7, 1000) == data[7:1007] and _native.examine(url).size == len(data)
print("before", flush=True)
while not os.path.exists(os.path.dirname(there) + "/go"):
    time.sleep(0.01)
assert _native.examine(url).size == len(data)
assert file.read_at(9, 100_000) == data[9:100_009]
print("after")
"""


@functools.cache
def _installed() -> Path:
    directory = LOGS / "rfio-python"
    shutil.rmtree(directory, ignore_errors=True)
    wheel = make(directory / "made")
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
               "--target", str(directory / "installed"), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalled(f"  $ {' '.join(command)}\n{done.stdout}{done.stderr}")
    return directory / "installed"


def installed() -> Path:
    """Returns its directory for PYTHONPATH: made and installed once for all cases."""
    with _ONE_AT_A_TIME:
        return _installed()


def lacks(*modules: str) -> Outcome | None:
    """Returns why a case cannot run, or the failure to make the modules that it needs."""
    if not ours():
        return skipped("another build than this tree's is tested")
    for module in modules:
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            return skipped(f"needs the Python package {module}; `setup/python test` makes an environment with it")
    try:
        installed()
    except NotInstalled as error:
        return failed("the wheel cannot be made and installed", str(error))
    return None


def under(place: Place, fabric: str, needs: str) -> Outcome:
    """The fsspec filesystem by itself and under a library."""
    if problem := lacks(*dict.fromkeys(("fsspec", needs, *BESIDE.get(needs, ())))):
        return problem
    with Service(place, fabric) as service:
        return script(place, service, fabric, SCRIPTS / f"with_{needs}.py", f"rfio://127.0.0.1:{service.port}", service.export,
                      f"http://127.0.0.1:{service.metrics_port}/metrics")


def promise(place: Place, fabric: str, name: str, needs: tuple[str, ...]) -> Outcome:
    """A script on the filesystem's guarantees."""
    if problem := lacks("fsspec", *needs):
        return problem
    with Service(place, fabric) as service:
        return script(place, service, fabric, SCRIPTS / f"{name}.py", f"rfio://127.0.0.1:{service.port}", service.export)


def script(place: Place, service: Service, fabric: str, file: Path, *arguments: object) -> Outcome:
    """A script that says "it all" when it has done everything."""
    plain = [str(PYTHON), str(file), *map(str, arguments)]
    ended = place.run("python", run(*plain) if fabric == "verbs" else plain, 120, RFIO_FABRIC=fabric,
                      PYTHONPATH=str(installed()), **service.environment())
    ok = ended.succeeded and "it all" in ended.output
    return passed() if ok else failed("the script failed", ended.evidence())


def module(place: Place, fabric: str) -> Outcome:
    """The compiled module alone: bytes of many threads, errors, names, signals, and other threads while one waits."""
    if problem := lacks("fsspec"):
        return problem
    with Service(place, fabric) as service:
        (service.export / "f").write_bytes(noise(6_000_000))
        before = service.metric("rfio_sessions_authenticated_total")
        outcome = script(place, service, fabric, SCRIPTS / "compiled_module.py", f"rfio://127.0.0.1:{service.port}", service.export,
                         service.daemon.pid)
        made = service.metric("rfio_sessions_authenticated_total") - before
        if outcome == passed() and made != 1:
            return failed(f"the threads and files of one process took {made} connections")
        return outcome


def restarted(place: Place, fabric: str) -> Outcome:
    """A server that is restarted between two requests: requests that change nothing are repeated, and an open file goes
    on."""
    if problem := lacks("fsspec"):
        return problem
    with Service(place, fabric) as service:
        (service.export / "f").write_bytes(noise(1_000_000))
        plain = [str(PYTHON), "-c", RESTARTED, f"rfio://127.0.0.1:{service.port}/f", str(service.export / "f")]
        process = place.start("python", run(*plain) if fabric == "verbs" else plain, None, RFIO_FABRIC=fabric,
                              PYTHONPATH=str(installed()), **service.environment())
        while "before" not in process.output() and process.running:
            time.sleep(0.01)
        service.stop()
        service.start()
        (service.export / "go").touch()
        ended = process.finish(time.monotonic() + SECONDS)
        return passed() if ended.succeeded and "after" in ended.output else failed("the script failed", ended.evidence())


#: Scripts on the filesystem's guarantees, and the packages that they need.
PROMISES = {"abstract_suite": ("pytest",), "link_policy": ("pyarrow", "zarr"), "processes": (),
            "pyarrow_tests": ("hypothesis", "pyarrow", "pytest"), "replaced_files": (), "whole_files": ("pandas", "pyarrow"),
            "zarr_store_tests": ("pytest_asyncio", "zarr")}
#: Third-party tests, over one of the transports.
SUITES = ("abstract_suite", "pyarrow_tests", "zarr_store_tests")


def asynchronous(place: Place, fabric: str) -> Outcome:
    """The coroutines, locally and with a round-trip time of 40 ms."""
    from .distance import LongWay
    if problem := lacks("fsspec"):
        return problem
    with Service(place, fabric) as service:
        way = LongWay(service.port)
        try:
            return script(place, service, fabric, SCRIPTS / "asynchronous.py", f"rfio://127.0.0.1:{service.port}", service.export,
                          f"rfio://127.0.0.1:{way.port}", service.daemon.pid)
        finally:
            way.close()


def interrupted(place: Place, fabric: str) -> Outcome:
    """A server that is stopped, killed and started as a script asks for it."""
    if problem := lacks("fsspec"):
        return problem
    with Service(place, fabric) as service:
        plain = [str(PYTHON), str(SCRIPTS / "interrupted.py"), f"rfio://127.0.0.1:{service.port}", str(service.export),
                 "5" if tiers.by_night() else "1.5"]
        process = place.start("python", run(*plain) if fabric == "verbs" else plain, None, RFIO_FABRIC=fabric,
                              PYTHONPATH=str(installed()), **service.environment())
        done, deadline = 0, time.monotonic() + 120
        while process.running and time.monotonic() < deadline:
            asked = [line.split()[1:] for line in process.output().splitlines(keepends=True)
                     if line.startswith("please ") and line.endswith("\n")]
            for number, what in asked[done:]:
                getattr(service, what)()
                (service.directory / f"done{number}").touch()
            done = len(asked)
            time.sleep(0.005)
        ended = process.finish(deadline)
        return passed() if ended.succeeded and "it all" in ended.output else failed("the script failed", ended.evidence())


def types(place: Place) -> Outcome:
    """The type stubs: the package is consistent with them, and so is the compiled module."""
    if problem := lacks("fsspec", "mypy"):
        return problem
    for name, words in {
            "mypy": ["mypy", "--strict", "--ignore-missing-imports", "--allow-subclassing-any", "--python-executable", str(PYTHON),
                     "-p", "rfio_fsspec"],
            "a program": ["mypy", "--strict", "--ignore-missing-imports", "--follow-imports=silent", "--python-executable", str(PYTHON),
                          str(SCRIPTS / "typed_program.py")],
            "stubtest": ["mypy.stubtest", "rfio_fsspec._native"]}.items():
        ended = place.run(name, [str(PYTHON), "-m", *words], 300, MYPYPATH=str(installed()), PYTHONPATH=str(installed()))
        if not ended.succeeded:
            return failed(f"{name} finds something", ended.evidence())
    return passed()
