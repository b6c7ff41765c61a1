"""The state of processes that are still running at the deadline of their case, for its log: commands, threads, kernel
stacks, sockets with data, adapters, and stacks of the programs if gdb is installed.

Every part is best effort: a process may end meanwhile, and an ordinary user may not read everything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Optional, Sequence

from .build_tree import VERBENA

# Time limits for each program that reports a state, which may hang itself.
INFO_SECONDS, STACKS_SECONDS = 20, 60
# Time limit for all of them together.
ALL_SECONDS = 90
# Processes whose stacks gdb prints.
MOST_STACKS = 16
# Time over which processor time is counted.
SPELL = 1.0
SOCKETS = ("tcp", "tcp6", "udp", "udp6")
FRAMES = 30


def _read(path: Path) -> str:
    """The text of a file; none if it cannot be read."""
    with suppress(OSError):
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _environment(pid: int) -> dict[str, str]:
    """The environment with which a process began."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)
    return {}


def _link(pid: int, name: str) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/{name}")
    return ""


def of_runtime(directory: Path) -> list[int]:
    """The processes whose runtime directory is this one or below it. Launchers of MPI may start them in other sessions."""
    runtimes = {int(name): _environment(int(name)).get("VERBENA_RUNTIME_DIR", "")
                for name in os.listdir("/proc") if name.isdigit()}
    return [pid for pid, runtime in runtimes.items() if runtime and Path(runtime).is_relative_to(directory)]


def _ticks(pid: int) -> int:
    """Processor time of a process, in ticks of the system's clock."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def _threads(pid: int) -> Iterator[str]:
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        state = _read(task / "stat").rpartition(")")[2].split()[:1]
        yield (f"  thread {task.name} {_read(task / 'comm')}: {''.join(state)}, wchan {_read(task / 'wchan')}, "
               f"syscall {_read(task / 'syscall')}")
        yield from (f"      {line}" for line in _read(task / "stack").splitlines())


def _processes(pids: Sequence[int], _deadline: float) -> Iterator[str]:
    before = {pid: _ticks(pid) for pid in pids}
    time.sleep(SPELL)
    hertz = os.sysconf("SC_CLK_TCK")
    for pid in pids:
        busy = (_ticks(pid) - before[pid]) / hertz / SPELL
        yield f"process {pid}, {busy:.0%} of a processor: {_read(Path(f'/proc/{pid}/cmdline'))}"
        yield from _threads(pid)


def _sockets(pids: Sequence[int], _deadline: float) -> Iterator[str]:
    """Sockets with data in a queue, or drops, of each network namespace."""
    for namespace, pid in {_link(pid, "ns/net"): pid for pid in pids}.items():
        yield f"sockets with data of {namespace}:"
        for table in SOCKETS:
            for line in _read(Path(f"/proc/{pid}/net/{table}")).splitlines()[1:]:
                fields = line.split()
                dropped = fields[-1] if table.startswith("udp") else "0"
                if len(fields) > 4 and (fields[4] != "00000000:00000000" or dropped != "0"):
                    yield f"  {table} {fields[1]} {fields[2]} state {fields[3]} queues {fields[4]} dropped {dropped}"
        yield from (f"  {line}" for line in _read(Path(f"/proc/{pid}/net/snmp")).splitlines() if line.startswith("Udp:"))


def _inside(pid: int) -> list[str]:
    """The words that run a command in the namespaces of a process."""
    spaces = [option for option, name in (("-U", "ns/user"), ("-n", "ns/net"))
              if _link(pid, name) != os.readlink(f"/proc/self/{name}")]
    if not spaces:
        return []
    return ["nsenter", "-t", str(pid), *spaces, *(["--preserve-credentials"] if "-U" in spaces else []), "--"]


def _output(command: Sequence[str], seconds: float, deadline: float, environment: Optional[dict[str, str]] = None) -> str:
    seconds = min(seconds, deadline - time.monotonic())
    if seconds <= 0:
        return f"left out: {ALL_SECONDS} s are over"
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.decode(errors="replace")


def _adapters(pids: Sequence[int], deadline: float) -> Iterator[str]:
    """`verbena info` of each runtime directory."""
    runtimes = {_environment(pid).get("VERBENA_RUNTIME_DIR", ""): pid for pid in pids}
    for runtime, pid in runtimes.items():
        if runtime:
            words = {name: value for name, value in _environment(pid).items()
                     if name.startswith("VERBENA_") and name != "VERBENA_STATS_DIR"}
            said = _output([*_inside(pid), str(VERBENA), "info"], INFO_SECONDS, deadline, {**os.environ, **words})
            yield f"verbena info, {runtime}:"
            yield from (f"  {line}" for line in said.splitlines())


def _stacks(pids: Sequence[int], deadline: float) -> Iterator[str]:
    """The stacks of all threads of the programs that use the adapter."""
    if not shutil.which("gdb"):
        return
    users = [pid for pid in pids if "libibverbs" in _read(Path(f"/proc/{pid}/maps"))]
    for pid in users[:MOST_STACKS]:
        said = _output(["gdb", "-nx", "-batch", "-p", str(pid), "-ex", f"thread apply all bt {FRAMES}"], STACKS_SECONDS, deadline)
        yield f"stacks of process {pid}:"
        yield from (f"  {line}" for line in said.splitlines() if line.startswith(("#", "Thread", "left out")))


def write_state(pids: Sequence[int], file: Path) -> None:
    """Writes the state of processes to a file, within ALL_SECONDS; gdb last, because it stops processes."""
    deadline = time.monotonic() + ALL_SECONDS
    with file.open("w", encoding="utf-8") as out:
        for part in (_processes, _sockets, _adapters, _stacks):
            for line in part(pids, deadline):
                print(line, file=out, flush=True)
