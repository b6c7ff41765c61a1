"""A Slurm cluster of the two hosts: controller and daemons of the distribution, run by an ordinary user in the
namespaces.

Each daemon has the environment of a separate machine: a host name, processes, memory for shared files, and the names
of all hosts in /etc/hosts. Slurm's daemons do not run as root in a user namespace (they drop their groups, which is
forbidden there), so they run as another user of the namespace, which is still the one that runs the test.
"""

from __future__ import annotations

import time

from harness.process import Ended, Process
from roce.hosts import Host, Hosts, SetupFailed

SECONDS = 120
# Known to /etc/passwd of every Debian; Slurm requires nothing else of the user.
USER, UID = "daemon", "1"
NAMES = ("one", "two")

CONFIGURATION = """\
ClusterName=verbena
SlurmctldHost={control}({address})
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/linear
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=/dev/shm/slurm
SlurmdSpoolDir=/dev/shm/slurm
SlurmctldPidFile=/dev/shm/slurm/slurmctld.pid
SlurmdPidFile=/dev/shm/slurm/slurmd.pid
KillWait=5
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP
"""

# The command line for a separate machine, in which the rest runs as the other user.
MACHINE = """\
set -e
hostname "$1"
mount -t tmpfs none /dev/shm
mount --bind "$2" /etc/hosts
mkdir -m 777 /dev/shm/slurm
shift 2
exec unshare -U --map-user={uid} --map-group={uid} -- "$@"
""".format(uid=UID)


class Slurm:
    """The cluster, for the time of a `with`."""

    def __init__(self, hosts: Hosts, processors: int):
        self.hosts = hosts
        self.processors = processors
        self.configuration = hosts.place.directory / "slurm.conf"
        self.names = hosts.place.directory / "hosts"
        self.home = hosts.place.directory / "home"
        self.daemons: list[Process] = []

    def __enter__(self) -> "Slurm":
        self._write()
        try:
            first = self.hosts.members[0]
            self._start(first, "control", "slurmctld", "-D", "-c")
            for host, name in zip(self.hosts.members, NAMES):
                self._start(host, name, "slurmd", "-D", "-N", name)
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in self.daemons:
            daemon.finish(time.monotonic())

    def _write(self) -> None:
        self.home.mkdir(exist_ok=True)
        members = list(zip(self.hosts.members, NAMES))
        nodes = "\n".join(f"NodeName={name} NodeAddr={host.address} CPUs={self.processors} State=UNKNOWN"
                          for host, name in members)
        self.configuration.write_text(CONFIGURATION.format(
            control="control", address=members[0][0].address, user=USER, nodes=nodes, names=",".join(NAMES)))
        lines = ["127.0.0.1 localhost", f"{members[0][0].address} control"]
        self.names.write_text("\n".join(lines + [f"{host.address} {name}" for host, name in members]) + "\n")

    def _start(self, host: Host, name: str, *daemon: str) -> None:
        machine = ["unshare", "-u", "-m", "-p", "--mount-proc", "--kill-child", "sh", "-c", MACHINE, "sh", name,
                   str(self.names)]
        self.daemons.append(self.hosts.place.start(
            f"{daemon[0]}-{name}", host.inside(["env", f"SLURM_CONF={self.configuration}", *machine, *daemon])))

    def _wait(self) -> None:
        """Until both nodes can be used."""
        deadline = time.monotonic() + SECONDS
        while True:
            states = self._as_user("sinfo", ["sinfo", "-h", "-N", "-o", "%T"], SECONDS)
            if states.output.split() == ["idle"] * len(NAMES):
                return
            ended = [daemon for daemon in self.daemons if not daemon.running]
            if ended or time.monotonic() > deadline:
                said = "\n".join(daemon.output() for daemon in ended or self.daemons)
                raise SetupFailed(f"Slurm does not start: {states.output.strip()}\n{said}")
            time.sleep(0.1)

    def _as_user(self, name: str, command: list[str], seconds: float) -> Ended:
        host = self.hosts.members[0]
        user = ["unshare", "-U", f"--map-user={UID}", f"--map-group={UID}", "--"]
        # The directory where processes of a node find each other is the node's own; the home directory is the
        # cluster's.
        clean = ["env", "-u", "VERBENA_RUNTIME_DIR", "-u", "XDG_STATE_HOME", f"HOME={self.home}",
                 f"SLURM_CONF={self.configuration}"]
        return self.hosts.run(host, name, host.inside([*clean, *user, *command]), seconds)

    def submit(self, options: list[str], command: list[str], seconds: float, around: list[str]) -> Ended:
        """Runs a step by `srun`, which the command `around` starts."""
        return self._as_user("srun", [*around, "srun", *options, *command], seconds)
