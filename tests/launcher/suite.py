"""`verbena run`: the arguments and signals that it passes on, its exit status, and the programs that it supports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from harness.build_tree import DEVICE, ROOT, VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Process
from harness.requirement import Tool

from . import ends, environments, info, libraries

TITLE = "verbena run and verbena info"
REQUIRES = [Tool("ibv_devices", "ibverbs-utils"), Tool("ib_write_bw", "perftest")]

SECONDS = 20
WRONG_INPUT, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127
UNPRIVILEGED = 65534
# Loads the library by name at run time and takes a symbol at its version node, as NCCL does.
BY_DLVSYM = f"""
import ctypes
library = ctypes.CDLL("libibverbs.so.1", mode=ctypes.RTLD_GLOBAL)
libc = ctypes.CDLL(None)
libc.dlvsym.restype = ctypes.c_void_p
libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
take = lambda name, node: libc.dlvsym(library._handle, name, node)
assert take(b"ibv_get_device_list", b"IBVERBS_1.1"), "no ibv_get_device_list at IBVERBS_1.1"
count = ctypes.c_int()
devices = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int))(
    take(b"ibv_get_device_list", b"IBVERBS_1.1"))(ctypes.byref(count))
name = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(
    take(b"ibv_get_device_name", b"IBVERBS_1.1"))(devices[0])
assert name == {DEVICE.encode()!r}, name
"""


def cases() -> list[Case]:
    """Each with and without `--stats`, where the two differ in mechanism."""
    found = []
    for column, stats in (("run", False), ("run --stats", True)):
        found += [
            Case("exit code 0", column, partial(returns, ["true"], 0, stats)),
            Case("exit code 1", column, partial(returns, ["false"], 1, stats)),
            Case("exit code 255", column, partial(returns, ["sh", "-c", "exit 255"], 255, stats)),
            Case("ended by a signal", column, partial(signalled, stats)),
            Case("command not found", column,
                 partial(returns, ["verbena-no-such-command"], NOT_FOUND, stats)),
            Case("command not executable", column,
                 partial(returns, ["/etc/passwd"], NOT_EXECUTABLE, stats)),
            Case("arguments unchanged", column, partial(arguments_unchanged, stats)),
            Case("SIGTERM passed on", column, partial(passed_on, signal.SIGTERM, stats)),
            Case("SIGINT passed on", column, partial(passed_on, signal.SIGINT, stats)),
            Case("SIGUSR1 passed on", column, partial(passed_on, signal.SIGUSR1, stats)),
            Case("finds the device", column, partial(finds_device, ["ibv_devices"], stats)),
            Case("a grandchild finds the device", column,
                 partial(finds_device, ["sh", "-c", "sh -c 'ibv_devices; :'; :"], stats)),
            Case("inside another verbena run", column,
                 partial(finds_device, run("ibv_devices"), stats)),
            Case("dlopen and dlvsym", column,
                 partial(returns, [sys.executable, "-c", BY_DLVSYM], 0, stats)),
        ]
    found += [
        Case("no command", "", partial(wrong, [], "Usage")),
        Case("unknown option", "", partial(wrong, ["--no-such-option", "true"], "--help")),
        Case("unknown path", "", partial(wrong, ["--path", "udp", "--", "true"], "mapped")),
        Case("an interface for a subnet of this host", "",
             partial(wrong, ["--link", "infiniband", "--interface", "lo", "--", "true"], "are for `--link roce`")),
        Case("an ordinary user", "", ordinary_user),
        Case("another user cannot enter", "", another_user),
        Case("a container without /dev/infiniband", "", without_device_nodes),
        Case("installed elsewhere", "", installed),
        Case("info on an idle host", "", info.idle),
        Case("info on live processes", "", info.live),
    ]
    return found + libraries.cases() + ends.cases() + environments.cases()


def returns(command: list[str], code: int, stats: bool, place: Place) -> Outcome:
    """The exit code is the command's."""
    ended = place.run("run", run(*command, stats=stats), SECONDS)
    if ended.status == code:
        return passed()
    return failed(f"{ended.describe()}, expected exit {code}", ended.evidence())


def signalled(stats: bool, place: Place) -> Outcome:
    """A shell sees 128 + signal in both cases: verbena becomes the command, or returns its exit code."""
    shell = ["sh", "-c", '"$@"; exit $?', "sh", *run("sh", "-c", "kill -ABRT $$", stats=stats)]
    ended = place.run("run", shell, SECONDS)
    if ended.status == 128 + signal.SIGABRT:
        return passed()
    return failed(f"{ended.describe()}, expected 134", ended.evidence())


def arguments_unchanged(stats: bool, place: Place) -> Outcome:
    """Spaces, empty words, dashes and our own options reach the command as they are."""
    words = ["a b", "", "--stats", "--", "-x", "$HOME", "é"]
    script = "import sys; print(sys.argv[1:])"
    ended = place.run("run", run(sys.executable, "-c", script, *words, stats=stats), SECONDS)
    if ended.succeeded and str(words) in ended.output:
        return passed()
    return failed("the arguments are not those of the command line", ended.evidence())


def passed_on(number: signal.Signals, stats: bool, place: Place) -> Outcome:
    """A signal sent to `verbena` alone reaches the command, which ends with its own exit code."""
    script = f'trap "exit 42" {int(number)}; echo ready; while :; do sleep 0.05; done'
    process = place.start("run", run("sh", "-c", script, stats=stats))
    deadline = time.monotonic() + SECONDS
    while "ready" not in process.output() and process.running and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, number)
    ended = process.finish(deadline)
    if ended.status == 42:
        return passed()
    return failed(f"{ended.describe()}, expected exit 42", ended.evidence())


def finds_device(command: list[str], stats: bool, place: Place) -> Outcome:
    """The command's `libibverbs` is ours."""
    ended = place.run("run", run(*command, stats=stats), SECONDS)
    if ended.succeeded and DEVICE in ended.output:
        return passed()
    return failed(f"{DEVICE} is not listed", ended.evidence())


def wrong(arguments: list[str], words: str, place: Place) -> Outcome:
    """Wrong input is exit code 2 and a message that helps."""
    ended = place.run("run", [str(VERBENA), "run", *arguments], SECONDS)
    if ended.status == WRONG_INPUT and words in ended.output:
        return passed()
    return failed(f"{ended.describe()}, expected exit 2 and {words!r}", ended.evidence())


def reachable_by_others(path: Path) -> bool:
    """Whether an ordinary user may read the build tree."""
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def unprivileged(place: Place, command: list[str], runtime: Path) -> Process:
    """Starts a command without any privilege."""
    place.directory.chmod(0o777)
    environment = place.environment()
    environment.update(VERBENA_RUNTIME_DIR=str(runtime), HOME="/")
    del environment["VERBENA_STATS_DIR"]
    drop = ["setpriv", f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups", "--no-new-privs"]
    return Process([*drop, *command], environment, place.log("nobody"), Path("/"))


def ordinary_user(place: Place) -> Outcome:
    """An ordinary user needs no more than root does."""
    if os.geteuid() != 0:
        return passed("every case of this run is of an ordinary user")
    if not reachable_by_others(VERBENA):
        return skipped(f"{VERBENA} is not reachable by other users")
    runtime = place.runtime / "nobody"
    place.runtime.chmod(0o711)
    runtime.mkdir(mode=0o700)
    os.chown(runtime, UNPRIVILEGED, UNPRIVILEGED)
    ended = unprivileged(place, run("ibv_devinfo", "-v"), runtime).finish(time.monotonic() + SECONDS)
    if ended.succeeded and DEVICE in ended.output:
        return passed()
    return failed("ibv_devinfo does not work without privileges", ended.evidence())


def another_user(place: Place) -> Outcome:
    """A process of another user is refused at the door of the registry."""
    if os.geteuid() != 0:
        return skipped("needs root, to become another user")
    if not reachable_by_others(VERBENA):
        return skipped(f"{VERBENA} is not reachable by other users")
    holder = place.start("holder", run(sys.executable, "-c", HOLD_OPEN))
    deadline = time.monotonic() + SECONDS
    while "open" not in holder.output() and holder.running and time.monotonic() < deadline:
        time.sleep(0.01)
    script = f"ls -A {place.runtime}; cat {place.runtime}/*; :"
    attacker = unprivileged(place, ["sh", "-c", script], place.runtime)
    seen = attacker.finish(deadline)
    held = holder.finish(time.monotonic())
    if "open" not in held.output:
        return failed("no program could open the device", held.evidence())
    lines = [line for line in seen.output.splitlines() if "Permission denied" not in line]
    if lines:
        return failed("another user can look into the registry", seen.evidence())
    mode = place.runtime.stat().st_mode & 0o777
    return passed() if mode == 0o700 else failed(f"the registry has mode {mode:o}, not 700")


# Opens the device and waits to be ended.
HOLD_OPEN = """
import ctypes, time
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
print("open" if verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0]) else "refused", flush=True)
time.sleep(60)
"""


def installed(place: Place) -> Outcome:
    """`make install` puts everything where the installed program looks for it."""
    prefix = place.directory / "prefix"
    made = place.run("install", ["make", "-C", str(ROOT), "install", f"PREFIX={prefix}"], 600)
    if not made.succeeded:
        return failed("make install fails", made.evidence())
    ended = place.run("run", [str(prefix / "bin" / "verbena"), "run", "--", "ibv_devices"], SECONDS)
    if ended.succeeded and DEVICE in ended.output:
        return passed()
    return failed(f"the installed program does not show {DEVICE}", ended.evidence())


def without_device_nodes(place: Place) -> Outcome:
    """A mount namespace with an empty /dev, as a container has it."""
    probe = ["unshare", "--mount", "--map-root-user", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        return skipped("this machine does not allow a mount namespace")
    # /dev/shm stays, as in every container.
    script = ("mount -t tmpfs none /mnt && mkdir /mnt/shm && mount --bind /dev/shm /mnt/shm && "
              "mount --rbind /mnt /dev && test ! -e /dev/infiniband && exec \"$@\"")
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh",
               *run("ibv_devinfo")]
    ended = place.run("contained", command, SECONDS)
    if ended.succeeded and DEVICE in ended.output:
        return passed()
    return failed("ibv_devinfo does not work with an empty /dev", ended.evidence())

