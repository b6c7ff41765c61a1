"""pytest on the software adapter.

    pytest --rdma            runs the session and all programs that its tests start on the adapter

    def test_of_mine(rdma_device):
        subprocess.run(["ibv_rc_pingpong", "-d", rdma_device, ...])

    pytest --rdma --rdma-devices 2 --rdma-link roce

    def test_of_several(rdma_devices):
        first, second = rdma_devices[:2]

Without `--rdma` the fixture returns the name of a hardware adapter, and skips the test if there is none: the same tests run
with and without hardware.

On the adapter, the report of a failing test has a section with the calls that the adapter refused during the test, and the
reasons. Set VERBENA_LOG to change this: `off` omits the section, `info` logs to standard error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Generator

import pytest

from .launch import environment
from .refusals import Refusals

if TYPE_CHECKING:
    import pluggy

# The library that is preloaded into processes on the software adapter.
SHIM = "libverbena_shim.so"
DEVICES = Path("/sys/class/infiniband")
# The heading of refused calls in the report of a test.
SECTION = "refusals of the adapter"
REFUSALS = pytest.StashKey[Refusals]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("verbena")
    group.addoption("--rdma", action="store_true", help="run the tests on Verbena's software adapter")
    group.addoption("--rdma-devices", type=int, metavar="N", help="set the adapter's number of devices (with --rdma)")
    group.addoption("--rdma-link", metavar="LINK", help="set the link of its ports, infiniband or roce (with --rdma)")


def on_the_adapter() -> bool:
    """Returns whether this process runs on the adapter."""
    return SHIM in os.environ.get("LD_PRELOAD", "")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Restarts pytest on the adapter: libraries are preloaded only when a process starts."""
    devices, link = config.option.rdma_devices, config.option.rdma_link
    if not config.option.rdma:
        if devices is not None or link is not None:
            raise pytest.UsageError("--rdma-devices and --rdma-link need --rdma")
        return
    if on_the_adapter():
        return
    try:
        there = environment(devices=devices, link=link)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    # Restore the terminal's streams before another program gets them.
    if capture := config.pluginmanager.getplugin("capturemanager"):
        capture.stop_global_capturing()
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(config.invocation_params.dir)
    # `-m pytest` adds the current directory to the path and the command `pytest` does not, so keep the form of the call.
    through = ["-m", "pytest"] if Path(sys.argv[0]).name == "__main__.py" else [sys.argv[0]]
    os.execve(sys.executable, [sys.executable, *through, *map(str, config.invocation_params.args)], there)


def pytest_report_header(config: pytest.Config) -> str | None:
    return "rdma: Verbena's software adapter" if on_the_adapter() else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collects the refusals of this process and of all programs that its tests start. With pytest-xdist every worker calls
    this too, with its own file; the controller runs no test."""
    if on_the_adapter() and not session.config.pluginmanager.hasplugin("dsession"):
        if refusals := Refusals.collect():
            session.config.stash[REFUSALS] = refusals


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    """Drops refusals from before the test."""
    if refusals := item.config.stash.get(REFUSALS, None):
        refusals.forget()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, "pluggy.Result[pytest.TestReport]", None]:
    """Shows the refusals during a test that failed."""
    outcome = yield
    report = outcome.get_result()
    refusals = item.config.stash.get(REFUSALS, None)
    if report.failed and refusals and (text := refusals.text()):
        report.sections.append((SECTION, text))


def pytest_unconfigure(config: pytest.Config) -> None:
    if refusals := config.stash.get(REFUSALS, None):
        refusals.close()


@pytest.fixture(scope="session")
def rdma_devices() -> list[str]:
    """Returns the names of the RDMA devices that the test can use, such as `verbena0` or `mlx5_0`; at least one."""
    # On the adapter the preloaded library emulates this directory.
    devices = sorted(os.listdir(DEVICES)) if DEVICES.is_dir() else []
    if not devices:
        pytest.skip("this machine has no RDMA device; run 'pytest --rdma' to use the software adapter")
    return devices


@pytest.fixture(scope="session")
def rdma_device(rdma_devices: list[str]) -> str:
    """Returns the name of the first device."""
    return rdma_devices[0]
