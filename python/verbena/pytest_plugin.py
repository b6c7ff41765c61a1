"""pytest on the software adapter.

    pytest --rdma            runs the session and all programs that its tests start on the adapter

    def test_of_mine(rdma_device):
        subprocess.run(["ibv_rc_pingpong", "-d", rdma_device, ...])

    pytest --rdma --rdma-devices 2 --rdma-link roce

    def test_of_several(rdma_devices):
        first, second = rdma_devices[:2]

Without `--rdma` the fixture returns the name of a hardware adapter, and skips the test if there is none: the same tests run
with and without hardware.

    pytest --rdma --rdma-coverage --rdma-coverage-require RNR_RETRY_EXC

    def test_a_refused_write(rdma_faults):
        with rdma_faults("qp1.write 3: remote-access") as faults:
            done = subprocess.run(["./client"], env=faults.env)
        assert done.returncode == 1

    @pytest.mark.rdma_sweep(calls=["ibv_reg_mr", "ibv_create_cq"], errno="ENOMEM", most=2)
    def test_setup_reports_failures(rdma_fault):
        assert subprocess.run(["./client"], env=rdma_fault.env).returncode == 1

The second runs once for each of the first `most` calls, and skips those that the program does not make.

`--rdma-coverage` lists the outcomes of verbs calls that the tests have seen, and those that they have never seen, as
`verbena coverage` does.

On the adapter, the report of a failing test has a section with the calls that the adapter refused during the test, and the
reasons. Set VERBENA_LOG to change this: `off` omits the section, `info` logs to standard error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Generator

import pytest

from .faults import Faults, NeverFired
from .launch import environment
from .outcomes import Outcomes
from .refusals import Refusals

if TYPE_CHECKING:
    import pluggy

# The library that is preloaded into processes on the software adapter.
SHIM = "libverbena_shim.so"
DEVICES = Path("/sys/class/infiniband")
# The heading of refused calls in the report of a test.
SECTION = "refusals of the adapter"
REFUSALS = pytest.StashKey[Refusals]()
# Exit code and text of the report of the session's coverage.
COVERAGE = pytest.StashKey["tuple[int, str]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("verbena")
    group.addoption("--rdma", action="store_true", help="run the tests on Verbena's software adapter")
    group.addoption("--rdma-devices", type=int, metavar="N", help="set the adapter's number of devices (with --rdma)")
    group.addoption("--rdma-link", metavar="LINK", help="set the link of its ports, infiniband or roce (with --rdma)")
    group.addoption("--rdma-coverage", action="store_true",
                    help="list the outcomes of verbs calls that the tests have seen and have never seen (with --rdma)")
    group.addoption("--rdma-coverage-data", metavar="FILE", help="keep the counts in this file (verbena coverage)")
    group.addoption("--rdma-coverage-append", action="store_true", help="add to that file instead of replacing it")
    group.addoption("--rdma-coverage-json", metavar="FILE", help="write the coverage as JSON to this file")
    group.addoption("--rdma-coverage-html", metavar="FILE", help="write the coverage as an HTML page to this file")
    group.addoption("--rdma-coverage-require", metavar="NAME", action="append", default=[],
                    help="fail unless this was seen: a status, a call, an event, a group; may be repeated")
    group.addoption("--rdma-coverage-fail-under", metavar="PERCENT", action="append", default=[],
                    help="fail if fewer percent were seen: N or GROUP=N; may be repeated")


def coverage_demands(config: pytest.Config) -> list[str]:
    """Returns the options of `verbena coverage` that may fail the session."""
    return [*(f"--require={name}" for name in config.option.rdma_coverage_require),
            *(f"--fail-under={share}" for share in config.option.rdma_coverage_fail_under)]


def coverage_files(config: pytest.Config) -> list[str]:
    """Returns its options for files to write."""
    files = {"--json": config.option.rdma_coverage_json, "--html": config.option.rdma_coverage_html}
    return [f"{name}={config.invocation_params.dir / file}" for name, file in files.items() if file is not None]


def on_the_adapter() -> bool:
    """Returns whether this process runs on the adapter."""
    return SHIM in os.environ.get("LD_PRELOAD", "")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Restarts pytest on the adapter: libraries are preloaded only when a process starts."""
    option = config.option
    devices, link = option.rdma_devices, option.rdma_link
    if not option.rdma:
        if devices is not None or link is not None:
            raise pytest.UsageError("--rdma-devices and --rdma-link need --rdma")
        if option.rdma_coverage:
            raise pytest.UsageError("--rdma-coverage needs --rdma")
        return
    data, append = option.rdma_coverage_data, option.rdma_coverage_append
    if not option.rdma_coverage and (data is not None or append or coverage_demands(config) or coverage_files(config)):
        raise pytest.UsageError("--rdma-coverage-... need --rdma-coverage")
    if append and data is None:
        raise pytest.UsageError("--rdma-coverage-append needs --rdma-coverage-data")
    if on_the_adapter() and (Outcomes.current() or not option.rdma_coverage):
        return
    outcomes = Outcomes.create(data, append, config.invocation_params.dir) if option.rdma_coverage else None
    try:
        there = environment(devices=devices, link=link, coverage=outcomes.file if outcomes else None)
        if outcomes:
            # Misspelt names end the session before the tests, not after them.
            code, text = outcomes.report(["--quiet", *coverage_demands(config)])
            if code > 1:
                raise ValueError(text)
    except ValueError as error:
        if outcomes:
            outcomes.close()
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


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Reports the coverage of all processes; the workers of pytest-xdist report nothing."""
    config = session.config
    outcomes = Outcomes.current()
    if not config.option.rdma_coverage or outcomes is None or hasattr(config, "workerinput"):
        return
    code, text = outcomes.report([*coverage_files(config), *coverage_demands(config)])
    config.stash[COVERAGE] = code, text
    if code and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    outcomes.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the coverage."""
    code, text = config.stash.get(COVERAGE, (0, ""))
    if text:
        terminalreporter.section("coverage of verbs outcomes")
        # As it is: names of statuses are no markup.
        terminalreporter.write_line(text, red=code != 0)


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


@pytest.fixture
def rdma_faults() -> Callable[..., Faults]:
    """Returns `verbena.Faults`: rules by which verbs calls and requests of programs fail that the test starts."""
    if not on_the_adapter():
        pytest.skip("faults are for the software adapter; run 'pytest --rdma'")
    return Faults


@pytest.fixture
def rdma_fault(request: pytest.FixtureRequest, rdma_faults: Callable[..., Faults]) -> Generator[Faults, None, None]:
    """Returns the faults of one case of `rdma_sweep`; the case is skipped if the programs do not make the call."""
    if not hasattr(request, "param"):
        raise pytest.UsageError("rdma_fault needs the marker rdma_sweep")
    with rdma_faults(request.param, allow_unfired=True) as faults:
        yield faults
    try:
        faults.check()
    except NeverFired as error:
        pytest.skip(str(error))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rdma_sweep(calls, errno='ENOMEM', most=1): run the test once for each of the first calls of "
                                       "these functions, which fails; the fixture rdma_fault has the environment")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for each call of `rdma_sweep`."""
    marker = metafunc.definition.get_closest_marker("rdma_sweep")
    if marker is None:
        return
    wanted = {**dict(zip(("calls", "errno", "most"), marker.args)), **marker.kwargs}
    if "rdma_fault" not in metafunc.fixturenames or not wanted.get("calls") or set(wanted) - {"calls", "errno", "most"}:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: rdma_sweep(calls=[...], errno='ENOMEM', most=1), and the fixture rdma_fault")
    rules = [f"{call} {number}: {wanted.get('errno', 'ENOMEM')}"
             for call in wanted["calls"] for number in range(1, wanted.get("most", 1) + 1)]
    metafunc.parametrize("rdma_fault", rules, ids=rules, indirect=True)
