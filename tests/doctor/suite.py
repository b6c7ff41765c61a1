"""`verbena doctor` with small, forbidden or missing resources: its report agrees with the result of a ping-pong."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Optional

from harness import c_program
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import free_port
from harness.place import Place
from harness.requirement import COMPILER, Tool

TITLE = "verbena doctor, compared with a ping-pong"
REQUIRES = [COMPILER, Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("unshare", "util-linux")]

TRY = Path(__file__).resolve().parent / "try.sh"
REFUSE = Path(__file__).resolve().parent.parent / "container/refuse.c"
SECONDS = 60


@dataclass(frozen=True)
class Setting:
    """A machine or container, how it is made here, and its known properties."""

    name: str
    expects: dict[str, str]
    # Options of `unshare`, and the commands that run inside before anything else.
    apart: Optional[str] = None
    before: str = ":"
    # The command that then starts the programs.
    through: str = ""
    # System calls that are refused.
    refused: str = ""
    # Whether processes find each other below /dev/shm, as without the harness.
    by_default: bool = False
    # Parts of the ping-pong's message where it cannot run.
    says: str = ""
    variables: dict[str, str] = field(default_factory=dict)


SETTINGS = [
    Setting("nothing", {"programs": "ok", "mapped": "ok", "ring": "ok", "memory files": "ok"}),
    Setting("two devices", {"programs": "ok", "devices": "ok"}, variables={"VERBENA_DEVICES": "2"}),
    Setting("64 MiB of /dev/shm", {"programs": "ok", "runtime directory": "ok", "mapped": "ok"}, apart="-Urm",
            before="mount -t tmpfs -o size=64m none /dev/shm", by_default=True),
    Setting("a full /dev/shm", {"programs": "missing", "runtime directory": "missing", "memory files": "ok"}, apart="-Urm",
            before="mount -t tmpfs -o size=64k none /dev/shm; head -c 65536 /dev/zero > /dev/shm/full || :", by_default=True,
            says="of free space"),
    Setting("a read-only /dev/shm", {"programs": "missing", "runtime directory": "missing"}, apart="-Urm",
            before="mount -t tmpfs -o ro none /dev/shm", by_default=True, says="VERBENA_RUNTIME_DIR"),
    Setting("a read-only root", {"programs": "ok", "runtime directory": "ok"}, apart="-Urm",
            before="mount -t tmpfs none /dev/shm; mount --rbind / /mnt; mount -o remount,bind,ro /mnt",
            through="chroot /mnt", by_default=True),
    Setting("a random user", {"programs": "ok"}, apart="-U --map-user=45678 --map-group=45678"),
    Setting("somebody else's directory", {"programs": "missing", "runtime directory": "missing"},
            variables={"VERBENA_RUNTIME_DIR": "/proc"}, says="VERBENA_RUNTIME_DIR"),
    Setting("no user namespaces", {"programs": "ok", "user namespaces": "missing"}, apart="-Ur",
            before="echo 0 > /proc/sys/user/max_user_namespaces"),
    Setting("Docker's profile", {"programs": "ok", "mapped": "ok", "threads": "limited", "user namespaces": "missing",
                                  "ipoib": "missing", "fabric mount": "missing"}, refused="docker"),
    Setting("no TUN device", {"programs": "ok", "ipoib": "missing"}, apart="-Urm", before="mount -t tmpfs none /dev/net"),
    Setting("process_vm refused", {"programs": "ok", "mapped": "ok", "cma": "missing"}, refused="process_vm"),
    Setting("memfd_create refused", {"programs": "missing", "memory files": "missing", "mapped": "missing", "ring": "missing"},
            refused="memfd"),
]


def cases() -> list[Case]:
    """A setting each."""
    return [Case("doctor", setting.name, partial(agrees, setting)) for setting in SETTINGS]


def command(setting: Setting, port: int) -> list[str]:
    """Returns the command line that runs both in a setting."""
    words = [str(TRY), str(VERBENA), str(port)]
    if setting.refused:
        words = [str(c_program.compile_program(REFUSE, libraries=())), setting.refused, *words]
    if setting.apart:
        words = ["unshare", *setting.apart.split(), "sh", "-ec", f'{setting.before}; exec {setting.through} "$@"', "sh", *words]
    return words


def agrees(setting: Setting, place: Place) -> Outcome:
    """Doctor's answer agrees with the known properties, and programs run exactly where it says so."""
    if setting.apart and (reason := cannot_unshare(setting.apart)):
        return skipped(reason)
    variables = {**({"VERBENA_RUNTIME_DIR": ""} if setting.by_default else {}), **setting.variables}
    ended = place.run("try", command(setting, free_port()), SECONDS, **variables)
    if not ended.output.lstrip().startswith("{") or ended.timed_out:
        return failed(f"the setting cannot be made or does not end: {ended.describe()}", ended.evidence())
    said, end = json.JSONDecoder().raw_decode(ended.output.lstrip())
    told = ended.output.lstrip()[end:]
    statuses = {name: [int(line.split()[1]) for line in told.splitlines() if line.startswith(f"{name} ")]
                for name in ("doctor", "pingpong")}
    runs = statuses["pingpong"] == [0, 0]
    states = {finding["subject"]: finding["state"] for finding in said["findings"]}
    if wrong := {name: states.get(name) for name, state in setting.expects.items() if states.get(name) != state}:
        return failed(f"it reports {wrong}, expected {setting.expects}", ended.evidence())
    if said["runs"] != runs or statuses["doctor"] != [0 if runs else 3]:
        return failed(f"doctor reports that programs run: {said['runs']}, exit {statuses['doctor']}; the ping-pong's statuses: "
                      f"{statuses['pingpong']}", ended.evidence())
    if not runs and not any(finding.get("advice") for finding in said["findings"] if finding["state"] == "missing"
                            and finding["subject"] in setting.expects):
        return failed("it names no remedy", ended.evidence())
    if setting.says not in told:
        return failed(f"the ping-pong does not say {setting.says}", ended.evidence())
    return passed("programs run" if runs else "programs do not run")


def cannot_unshare(options: str) -> str:
    """Why such a namespace cannot be made here, if it cannot."""
    done = subprocess.run(["unshare", *shlex.split(options), "true"], capture_output=True, text=True, check=False)
    return f"no user namespace: {done.stderr.strip()}" if done.returncode else ""
