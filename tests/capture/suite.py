"""`verbena capture`: the operations of programs as RoCEv2 packets in a file, in which third-party analysers find no
fault."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Callable, Optional, Sequence

from faults import observed
from harness import c_program
from harness.build_tree import DEVICE, PATHS, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import free_port, listening
from harness.place import Place
from harness.process import Process, wait_for_any
from harness.requirement import COMPILER, VERBS_HEADERS, Tool
from roce.hosts import Hosts
from roce.suite import IPV4, IPV6, on_hosts

from .packets import OPCODES, RC, SYNDROMES, examine

TITLE = "verbena capture"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("tshark", "tshark"), Tool("ibv_rc_pingpong", "ibverbs-utils"),
            Tool("ip", "iproute2"), Tool("nsenter", "util-linux")]

HERE = Path(__file__).resolve().parent
SECONDS = 60
# Bytes of a file that has packets, and not only its headers.
WRITTEN = 1 << 16
WRONG_INPUT, ENVIRONMENT = 2, 3
SEND_ONLY = RC | 0x04

def cases() -> list[Case]:
    """The content of the file, then how a capture begins and ends."""
    found = [Case("every operation", path, partial(operations, path)) for path in PATHS]
    found += [Case("every operation", f"packets, {name}", on_hosts(partial(wire_operations, gid)))
              for name, gid in (("IPv4", IPV4), ("IPv6", IPV6))]
    found += [
        Case("all processes", "that run and that start", everybody),
        Case("all processes", "twice", twice),
        Case("all processes", "after a capturer was killed", after_a_kill),
        Case("a process that is killed", "", killed),
        Case("a capturer that is stopped", "loses packets and says so", stopped),
        Case("a capturer that is killed", "is no matter for the program", abandoned),
        Case("short messages", "take no lane", short_messages),
        Case("exit code", "", exit_code),
        Case("a file that cannot be written", "", unwritable),
        Case("standard output", "", standard_output),
    ]
    return found


def capture(file: object, *command: object, options: Sequence[str] = ()) -> list[str]:
    """The command line that captures a program."""
    return [str(VERBENA), "capture", "--out", str(file), *options, "--", *map(str, command)]


def in_order(found: list[dict[str, str]]) -> Optional[str]:
    """Requests of a queue pair count up, but for those that are sent again, and there is an answer of each kind."""
    syndromes = {int(row["infiniband.aeth.syndrome"], 0) for row in found if row["infiniband.aeth.syndrome"]}
    if not SYNDROMES <= syndromes:
        return f"syndromes {sorted(syndromes)}"
    answers = (0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12)
    expected: dict[str, int] = {}
    again = 0
    for row in found:
        opcode, psn = int(row["infiniband.bth.opcode"]), int(row["infiniband.bth.psn"])
        if opcode & 0x1f in answers:
            continue
        peer = f"{opcode >> 5} {row['infiniband.bth.destqp']}"
        # A READ REQUEST takes as many packet sequence numbers as it has responses.
        gap = psn - expected.get(peer, psn)
        if gap < 0:
            again += 1
        elif gap > 4:
            return f"PSN {psn} after {expected[peer]} to queue pair {peer}"
        expected[peer] = psn + 1
    return None if again else "nothing was sent again"


def operations(path: str, place: Place) -> Outcome:
    """A capture of shared memory shows operations as the packets that they would be on a wire."""
    program = c_program.compile_program(HERE / "operations.c")
    file = place.directory / "capture.pcapng"
    ended = place.run("operations", capture(file, program, "local"), SECONDS, path)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found, wrong = examine(file, OPCODES)
    if wrong:
        return wrong
    if words := in_order(found):
        return failed(words)
    if f"{len(found)} packets of 2 processes" not in ended.output:
        return failed("the summary has other counts", ended.evidence())
    return passed(f"{len(found)} packets")


def wire_operations(gid: int, hosts: Hosts) -> Outcome:
    """A capture on the wire shows the packets, and both hosts record the same."""
    program = c_program.compile_program(HERE / "operations.c")
    first, second = hosts.members
    files = [hosts.place.directory / f"{name}.pcapng" for name in ("answer", "ask")]

    def start(host, name: str, file: Path) -> Process:
        command = capture(file, "env", f"GID_INDEX={gid}", f"PEER={first.address}", program, name,
                          options=["--link", "roce", "--interface", host.interface])
        return hosts.start(host, name, host.inside(command))

    deadline = time.monotonic() + SECONDS
    answering = start(first, "answer", files[0])
    while answering.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([answering], time.monotonic() + 0.005)
    asking = start(second, "ask", files[1])
    ended = [process.finish(deadline) for process in (asking, answering)]
    if wrong := [one for one in ended if not one.succeeded]:
        return failed(wrong[0].describe(), "\n".join(one.evidence() for one in ended))
    both = []
    for file in files:
        found, outcome = examine(file, OPCODES)
        if outcome:
            return outcome
        both.append(found)
    if words := in_order(both[1]):
        return failed(words)
    told = [sorted((row["infiniband.bth.opcode"], row["infiniband.bth.psn"]) for row in found) for found in both]
    if told[0] != told[1]:
        return failed(f"one host captured {len(told[0])} packets, the other {len(told[1])}")
    return passed(f"{len(told[0])} packets")


def begin(place: Place, file: Path) -> Process:
    """A capture of all processes."""
    process = place.start("capture", [str(VERBENA), "capture", "--out", str(file)])
    deadline = time.monotonic() + SECONDS
    while "capturing" not in process.output() and process.running and time.monotonic() < deadline:
        wait_for_any([process], time.monotonic() + 0.005)
    return process


def interrupt(process: Process):
    """Ctrl-C, and the end."""
    os.kill(process.pid, signal.SIGINT)
    return process.finish(time.monotonic() + SECONDS)


def until(holds: Callable[[], bool]) -> None:
    """Waits until the condition holds, at most for a case's time limit; the case itself then reports a missing
    event."""
    deadline = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)


def until_written(file: Path) -> None:
    """Waits for packets in a file."""
    until(lambda: file.exists() and file.stat().st_size > WRITTEN)


def pingpong(place: Place, count: int) -> tuple[Process, Process]:
    """A pair of programs that talk for a while; they have begun."""
    port = free_port()
    command = [str(VERBENA), "run", "--", "ibv_rc_pingpong", "-d", DEVICE, "-n", str(count), "-p", str(port)]
    server = place.start("server", command)
    until(lambda: listening(port) or not server.running)
    client = place.start("client", [*command, "localhost"])
    # The server closes the port when the client has called.
    until(lambda: not listening(port))
    return server, client


def short_messages(place: Place) -> Outcome:
    """A capture has a packet of each message, and no message takes a lane."""
    file = place.directory / "capture.pcapng"
    ended = place.run("short", capture(file, *observed.program()), SECONDS, **observed.ALWAYS)
    count = observed.lane_messages(place)
    if not ended.succeeded or count:
        return failed(f"{ended.describe()}, {count} by lanes", ended.evidence())
    found, wrong = examine(file, {SEND_ONLY})
    sends = sum(int(row["infiniband.bth.opcode"]) == SEND_ONLY for row in found)
    if not wrong and sends != observed.MESSAGES:
        wrong = failed(f"{sends} packets of {observed.MESSAGES} messages")
    return wrong or passed()


def everybody(place: Place) -> Outcome:
    """Two that run already, two that start later."""
    early = pingpong(place, 100_000_000)
    file = place.directory / "capture.pcapng"
    capturing = begin(place, file)
    until_written(file)
    late = pingpong(place, 100)
    ends = [process.finish(time.monotonic() + SECONDS) for process in late]
    for process in early:
        process.finish(time.monotonic())
    ended = interrupt(capturing)
    if wrong := [one for one in [*ends, ended] if not one.succeeded]:
        return failed(wrong[0].describe(), wrong[0].evidence())
    _, outcome = examine(file, {0x04, 0x00, 0x02, 0x11} - {0x04})
    if outcome:
        return outcome
    return passed() if "of 4 processes" in ended.output else failed("not all four were captured", ended.evidence())


def twice(place: Place) -> Outcome:
    """The second is refused, with a reason, and the first goes on."""
    first = begin(place, place.directory / "first.pcapng")
    second = place.run("second", [str(VERBENA), "capture", "--out", str(place.directory / "second.pcapng")], SECONDS)
    running = first.running
    ended = interrupt(first)
    if second.status != ENVIRONMENT or "captures the processes of" not in second.output:
        return failed("the second capture was not refused", second.evidence())
    return passed() if running and ended.succeeded else failed("the first capture ended", ended.evidence())


def after_a_kill(place: Place) -> Outcome:
    """The remains of a killed capture do not prevent the next one."""
    first = begin(place, place.directory / "first.pcapng")
    first.finish(time.monotonic())
    second = begin(place, place.directory / "second.pcapng")
    ended = interrupt(second)
    return passed() if ended.succeeded else failed(ended.describe(), ended.evidence())


def killed(place: Place) -> Outcome:
    """The packets of killed processes are in the file, which is well-formed."""
    file = place.directory / "capture.pcapng"
    capturing = begin(place, file)
    server, client = pingpong(place, 100_000_000)
    until_written(file)
    for process in (client, server):
        process.finish(time.monotonic())
    ended = interrupt(capturing)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found, outcome = examine(file, {0x11})
    return outcome or passed(f"{len(found)} packets")


def stopped(place: Place) -> Outcome:
    """The program goes on meanwhile; afterwards the file says how many packets it lacks."""
    file = place.directory / "capture.pcapng"
    capturing = begin(place, file)
    os.kill(capturing.pid, signal.SIGSTOP)
    ends = [process.finish(time.monotonic() + SECONDS) for process in pingpong(place, 20_000)]
    os.kill(capturing.pid, signal.SIGCONT)
    ended = interrupt(capturing)
    if wrong := [one for one in [*ends, ended] if not one.succeeded]:
        return failed(wrong[0].describe(), wrong[0].evidence())
    report = subprocess.run(["capinfos", "-M", str(file)], capture_output=True, text=True, check=False,
                            timeout=SECONDS).stdout
    if "more were lost" not in ended.output:
        return failed("nothing was lost", ended.evidence())
    return passed() if report else failed("capinfos reads nothing")


def abandoned(place: Place) -> Outcome:
    """The program goes on, and its next capturer captures it."""
    capturing = begin(place, place.directory / "first.pcapng")
    server, client = pingpong(place, 100_000_000)
    until_written(place.directory / "first.pcapng")
    capturing.finish(time.monotonic())
    file = place.directory / "second.pcapng"
    again = begin(place, file)
    until_written(file)
    running = server.running and client.running
    for process in (client, server):
        process.finish(time.monotonic())
    # The last process to end removes the remains of the killed ones.
    ended = interrupt(again)
    if not running or not ended.succeeded:
        return failed("a program ended", ended.evidence())
    found, outcome = examine(file, {0x11})
    return outcome or passed(f"{len(found)} packets")


def exit_code(place: Place) -> Outcome:
    """That of the command; and those of a command that cannot be run."""
    file = place.directory / "capture.pcapng"
    expected = {("sh", "-c", "exit 7"): 7, ("/nonexistent",): 127}
    for command, code in expected.items():
        ended = place.run("command", capture(file, *command), SECONDS)
        if ended.status != code:
            return failed(f"{ended.status} and not {code}", ended.evidence())
    return passed()


def unwritable(place: Place) -> Outcome:
    """Said before the program is run."""
    ended = place.run("capture", capture("/nonexistent/file", "touch", place.directory / "ran"), SECONDS)
    if ended.status != ENVIRONMENT or "/nonexistent/file" not in ended.output:
        return failed(f"{ended.status}", ended.evidence())
    return failed("the program was run") if (place.directory / "ran").exists() else passed()


def standard_output(place: Place) -> Outcome:
    """Into a pipe, as `tshark -i -` takes it."""
    program = c_program.compile_program(HERE / "operations.c")
    file = place.directory / "capture.pcapng"
    words = " ".join(capture("-", program, "local"))
    ended = place.run("pipe", ["sh", "-c", f"{words} > {file}"], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    _, outcome = examine(file, OPCODES)
    return outcome or passed()
