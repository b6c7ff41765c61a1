"""pytest on the software adapter.

    pytest --rdma            runs the whole session, and what its tests start, on the adapter

    def test_of_mine(rdma_device):
        subprocess.run(["ibv_rc_pingpong", "-d", rdma_device, ...])

Without `--rdma` the fixture names an adapter of the machine, and skips the test where there is none: the same tests run
on hardware and without it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from .launch import environment

# What a process on the software adapter has preloaded.
SHIM = "libverbena_shim.so"
DEVICES = Path("/sys/class/infiniband")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("verbena").addoption(
        "--rdma", action="store_true", help="run the tests on Verbena's software adapter")


def on_the_adapter() -> bool:
    """Whether this process was started on the adapter."""
    return SHIM in os.environ.get("LD_PRELOAD", "")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Starts over on the adapter: which libraries a process loads is decided when it starts."""
    if not config.option.rdma or on_the_adapter():
        return
    there = environment()
    # The streams are the terminal's again before another program gets them.
    if capture := config.pluginmanager.getplugin("capturemanager"):
        capture.stop_global_capturing()
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(config.invocation_params.dir)
    # `-m pytest` puts the current directory into the path and the command `pytest` does not: as it was called.
    through = ["-m", "pytest"] if Path(sys.argv[0]).name == "__main__.py" else [sys.argv[0]]
    os.execve(sys.executable, [sys.executable, *through, *map(str, config.invocation_params.args)], there)


def pytest_report_header(config: pytest.Config) -> str | None:
    return "rdma: Verbena's software adapter" if on_the_adapter() else None


@pytest.fixture(scope="session")
def rdma_device() -> str:
    """The name of an RDMA device that the test can use, such as `verbena0` or `mlx5_0`."""
    # On the adapter this directory is answered for by what is preloaded.
    devices = sorted(os.listdir(DEVICES)) if DEVICES.is_dir() else []
    if not devices:
        pytest.skip("this machine has no RDMA device; `pytest --rdma` runs on one in software")
    return devices[0]
