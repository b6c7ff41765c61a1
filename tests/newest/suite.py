"""The newest rdma-core, Debian unstable's, in its own root: its programs and its tests, unchanged, on the
adapter."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from harness import c_program
from harness.build_tree import DEVICE, TARGET, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool
from pyverbs import results
from pyverbs.suite import huge_pages

TITLE = "the newest rdma-core, in a root of Debian unstable"
REQUIRES = [Tool("mmdebstrap", "mmdebstrap"), Tool("unshare", "util-linux"), Tool("ip", "iproute2"), COMPILER, VERBS_HEADERS,
            Tool("/usr/include/rdma/rdma_cma.h", "librdmacm-dev")]

HERE = Path(__file__).resolve().parent
SECONDS = 200
# Options of `verbena run`, and where programs connect to.
LINKS = {"InfiniBand": ("", "127.0.0.1"), "RoCE": ("--link roce --interface wire", "192.0.2.1")}
# How many of rdma-core's tests pass on each, at least, counted with those that need huge pages and skip without.
PASS = {"InfiniBand": 191, "RoCE": 192}

# The client is given the address, too.
PINGPONGS = ("ibv_rc_pingpong", "ibv_rc_pingpong -c -e", "ibv_rc_pingpong -N", "ibv_rc_pingpong -j -N", "ibv_rc_pingpong -t",
             "ibv_rc_pingpong -o", "ibv_uc_pingpong -c", "ibv_ud_pingpong -c", "ibv_srq_pingpong -c", "ibv_xsrq_pingpong")
# Server and client, which connects to `{at}`.
PAIRS = {
    "rping": ("rping -s -a {at} -C 20 -V", "rping -c -a {at} -C 20 -V"),
    "ucmatose": ("ucmatose -b {at}", "ucmatose -s {at}"),
    "ucmatose -m (migrates)": ("ucmatose -m -b {at}", "ucmatose -m -s {at}"),
    "udaddy": ("udaddy -b {at}", "udaddy -s {at}"),
    "rdma_client": ("rdma_server", "rdma_client -s {at}"),
    "rdma_xclient": ("rdma_xserver -c r", "rdma_xclient -c r -s {at}"),
    "cmtime": ("cmtime -L -b {at} -C {at} -c 20", "cmtime -b {at} -C {at} -c 20"),
    "rstream": ("rstream -S 4096 -b {at}", "rstream -S 4096 -s {at}"),
    "riostream": ("riostream -S 4096 -b {at}", "riostream -S 4096 -s {at}"),
    "mckey": ("mckey -m 224.1.2.3 -b {at}", "mckey -m 224.1.2.3 -b {at} -s"),
    "ib_write_bw": ("ib_write_bw -F -n 500", "ib_write_bw -F -n 500 {at}"),
    "ib_send_lat -R": ("ib_send_lat -R -F -n 500", "ib_send_lat -R -F -n 500 {at}"),
}
# Our own programs, against its libraries, and over which links.
PROGRAMS = {
    "rdmacm/newest.c": (("-lrdmacm", "-libverbs", "-pthread"), tuple(LINKS)),
    "rdmacm/descriptors.c": (("-lrdmacm", "-libverbs", "-pthread"), tuple(LINKS)),
    "contract/buffers.c": (("-libverbs",), ("InfiniBand",)),
}


def cases() -> list[Case]:
    """Programs in rows, the port's link in columns."""
    found = []
    for link in LINKS:
        found += [Case(program, link, partial(runs, program, link)) for program in ("ibv_devices", "ibv_devinfo -v")]
        for program in PINGPONGS:
            gid = " -g 1" if link == "RoCE" else ""
            command = program + gid
            found.append(Case(program, link, partial(pair, command, command + " {at}", link)))
        found += [Case(name, link, partial(pair, *commands, link)) for name, commands in PAIRS.items()]
        found += [Case(source, link, partial(ours, source, libraries, link))
                  for source, (libraries, links) in PROGRAMS.items() if link in links]
        found.append(Case("rdma-core's own tests", link, partial(own_tests, link)))
    return found


class Root:
    """The root, made when the first case asks for it, and removed at the end."""

    path: Path | None = None
    version = ""
    missing = ""

    @classmethod
    def made(cls) -> bool:
        """Makes it; false, with the reason in `missing`, where that cannot be."""
        if cls.path is None and not cls.missing:
            scratch = Path(tempfile.mkdtemp(prefix="newest-", dir=TARGET))
            atexit.register(shutil.rmtree, scratch, ignore_errors=True)
            made = subprocess.run([HERE / "make-root", scratch / "root", scratch], capture_output=True, text=True, check=False)
            if made.returncode == 0:
                cls.path, cls.version = scratch / "root", made.stdout.strip()
            else:
                cls.missing = (made.stdout + made.stderr).strip() or f"make-root: status {made.returncode}"
        return cls.path is not None


def inside(place: Place, name: str, link: str, script: str):
    """Runs a shell script there; `$run` begins a command on the adapter."""
    options, _at = LINKS[link]
    setting = f'export DEVICE={DEVICE} NETDEV={"wire" if link == "RoCE" else "lo"}; run="verbena run {options} --"; '
    return place.run(name, [str(HERE / "enter"), str(Root.path), str(VERBENA.parent), str(HERE), setting + script], SECONDS)


def outcome(place: Place, name: str, link: str, script: str) -> Outcome:
    """Whether a script succeeds there."""
    if not Root.made():
        return skipped(Root.missing)
    ended = inside(place, name, link, script)
    return passed(f"rdma-core {Root.version}") if ended.succeeded else failed(ended.describe(), ended.evidence())


def runs(program: str, link: str, place: Place) -> Outcome:
    """A program that names the adapter."""
    return outcome(place, "program", link, f"$run {program} > /tmp/said; cat /tmp/said; grep -q {DEVICE} /tmp/said")


def pair(server: str, client: str, link: str, place: Place) -> Outcome:
    """A server and its client."""
    _options, at = LINKS[link]
    return outcome(place, "pair", link, f"pair $run {server.format(at=at)} + $run {client.format(at=at)}")


def ours(source: str, libraries: tuple[str, ...], link: str, place: Place) -> Outcome:
    """Each test of a program of ours, compiled here."""
    if not Root.made():
        return skipped(Root.missing)
    try:
        program = c_program.compile_program(HERE.parent / source, libraries)
    except c_program.DoesNotCompile as words:
        return failed("does not compile", str(words))
    shutil.copy(program, Root.path / "opt")
    return outcome(place, "test", link, f"""
        for test in $(/opt/{program.name} --list); do
            status=0; $run /opt/{program.name} $test || status=$?
            [ $status = 0 ] || [ $status = {c_program.EXIT_SKIPPED} ] || {{ echo "$test: status $status"; exit 1; }}
        done""")


def own_tests(link: str, place: Place) -> Outcome:
    """pyverbs' tests: no error, no failure, and so many pass."""
    if not Root.made():
        return skipped(Root.missing)
    with huge_pages():
        ended = inside(place, "tests", link, """
            cd /tmp; rm -rf tests; cp -r /usr/share/doc/rdma-core/tests .; gunzip -f tests/*.gz
            export PYTHONPATH=/opt/suite/inside PYTHONDONTWRITEBYTECODE=1
            $run python3 tests/run_tests.py --dev $DEVICE -v""")
    found = results.parse(ended.output)
    good = [name for name, result in found.items() if result.verdict == "ok"]
    wrong = [name for name, result in found.items() if result.verdict not in ("ok", "skipped")]
    lacking = [name for name, result in found.items() if "There are no huge pages" in result.reason]
    words = f"rdma-core {Root.version}: {len(good)} of {len(found)} pass, {len(found) - len(good) - len(wrong)} skip"
    if not ended.succeeded or wrong:
        details = "\n".join(results.details(ended.output, name) for name in wrong)
        return failed(f"{words}, {len(wrong)} fail", details or ended.evidence())
    return passed(words) if len(good) + len(lacking) >= PASS[link] else failed(words)
