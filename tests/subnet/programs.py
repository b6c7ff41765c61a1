"""Programs of other packages: ibutils, ibacm, srp_daemon; commands of exporters; subscriptions to events."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .fabric import lacks, up

HERE = Path(__file__).resolve().parent
# Nodes of the small fabric: GUIDs of ports, and the LIDs that its manager and OpenSM give them.
SWITCH, HOST, OTHER = "0002000000000100", "0002000000000201", "0002000000000301"
PREFIX = "fe80000000000000"
MANAGERS = {"builtin": SWITCH, "opensm": HOST}
FOLDERS = ("/usr/sbin/", "/usr/bin/")
# In a separate mount namespace, no other program uses a program's /run.
PRIVATE, NONE = "mount -t tmpfs none /run || exit 1", "no namespaces"
MAY_UNSHARE = f"unshare -rm mount -t tmpfs none /run 2> /dev/null || exec echo {NONE}"


def until(text: str) -> str:
    """A command that waits until the log has a text, or the daemon has ended."""
    return f"until grep -q '{text}' log || ! kill -0 $daemon; do sleep 0.05; done"


def cases() -> list[Case]:
    """Each package, the commands of exporters, reports of events."""
    return [
        Case("ibutils", "", utilities),
        Case("ibacm", "", resolved),
        *(Case("srp_daemon", manager, partial(storage, manager)) for manager in MANAGERS),
        *(Case("reports of events", manager, partial(reported, manager)) for manager in MANAGERS),
        Case("commands of exporters", "", exported),
    ]


def programs(package: str) -> set[str]:
    """The programs of an installed Debian package; none if dpkg does not know it, or is not there."""
    if shutil.which("dpkg") is None:
        return set()
    listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout.splitlines()
    return {Path(line).name for line in listed if line.startswith(FOLDERS)}


def utilities(place: Place) -> Outcome:
    """ibdiagnet finds every node and nothing wrong, ibdiagpath follows a directed route."""
    if shutil.which("ibdiagnet") is None:
        return skipped("ibutils is not installed")
    script = "ibdiagnet -o . | tr '\\r' '\\n'; ibdiagpath -d 1,2 -o . 2> errors; cat ibdiagnet.lst"
    # ibdiagpath -l takes each entry of a forwarding table for that of the next LID, on any fabric.
    wanted = [r"3 nodes \(1 Switches & 2 CA-s\) discovered", r"No bad Guids", r"No bad link", r"From: lid=0x0001 guid=0x" + SWITCH,
              r"To: +lid=0x0003 guid=0x" + OTHER, r"LID:0003"]
    ended = up(place, script)
    if failure := lacks(ended, wanted):
        return failure
    stages = re.findall(r"^ +(\S.*?(?:Check|Report)) +(\d+) +\d+ *$", ended.output, re.MULTILINE)
    if len(stages) < 6 or any(int(errors) for _, errors in stages):
        return failed(f"stages {stages}", ended.evidence())
    return passed(f"{len(stages)} stages")


def resolved(place: Place) -> Outcome:
    """Two services resolve each other's names by multicast, and routes by subnet administration, which confirms them."""
    if shutil.which("ibacm") is None and not Path("/usr/sbin/ibacm").exists():
        return skipped("ibacm is not installed")
    # Each has /run to itself, for its sockets.
    settings = "; ".join([
        "ib_acme -O -D . > /dev/null",
        *(f"mkdir {name}; {{ grep -Ev '^(#|log_|lock_|timeout)' ibacm_opts.cfg; echo timeout 200; echo log_file stdout; echo log_level 1; "
          f"echo lock_file $PWD/{name}/pid; }} > {name}/options; echo {name} verbena0 1 default > {name}/addresses" for name in ("alpha", "beta"))])
    service = "ibacm -P -A addresses -O options > log 2>&1"
    joined = "until grep -q 'join successful' log; do sleep 0.05; done"
    queries = "ib_acme -f n -s alpha -d beta -v; ib_acme -f l -s 2 -d 3 -v; ib_acme -f n -s alpha -d gamma > none; grep -c 'dgid: fe80' none; ib_acme -P"
    first = f"{PRIVATE}; cd alpha; {service} & one=$!; {joined}; until grep -q 'join successful' ../beta/log; do sleep 0.05; done; {queries}; kill $one; wait $one"
    second = f'{PRIVATE}; cd beta; exec "$VERBENA" fabric exec --node host2 {service}'
    script = (f"{MAY_UNSHARE}; {settings}; unshare -rm sh -c {shlex.quote(second)} & other=$!; "
              f"until [ -e beta/log ]; do sleep 0.05; done; unshare -rm sh -c {shlex.quote(first)}; kill $other; wait $other; "
              # The services end by a signal, after which no process removes their shared files.
              'rm -rf "${VERBENA_RUNTIME_DIR:?}"/*')
    ended = up(place, script)
    if NONE in ended.output:
        return skipped(f"{NONE} are possible here")
    wanted = {r"dgid: fe80::2:0:0:301$": 2, r"sgid: fe80::2:0:0:201$": 2, r"dlid: 3$": 2, r"SA verification: success": 2, r"^0$": 1}
    return lacks(ended, wanted) or passed("a name, a LID")


def storage(manager: str, place: Place) -> Outcome:
    """srp_daemon subscribes by a queue pair of its own, learns of a port that comes into service, and unsubscribes."""
    if not Path("/usr/sbin/srp_daemon").exists():
        return skipped("srptools is not installed")
    # It has a lock in /run.
    daemon = f"{PRIVATE}; exec stdbuf -oL srp_daemon -V -c -i verbena0 -p 1 -R 1000 -f /dev/null > log 2>&1"
    script = (f"{MAY_UNSHARE}; unshare -rm sh -c {shlex.quote(daemon)} & daemon=$!; {until('performing a')}; "
              # OpenSM reports a port that it has missed in a sweep.
              '"$VERBENA" fabric fault host2:1 down; until [ $(saquery | grep -c NodeDescription) = 2 ]; do sleep 0.05; done; '
              '"$VERBENA" fabric fault host2:1 up; '
              f"{until('enter handle_port')}; saquery IIR; kill $daemon; wait $daemon; echo daemon $?; cat log; "
              "echo ====; saquery IIR; ibsrpdm -v 2>&1; echo targets $?")
    ended = up(place, script, "--sm", manager)
    if NONE in ended.output:
        return skipped(f"{NONE} are possible here")
    wanted = [r"^daemon 0$", r"Registering to trap:64", r"Registering to trap:144", r"Advanced SM", r"lid is 0x3$", r"Deregistering from trap:64",
              r"^targets 0$"]
    if failure := lacks(ended, wanted):
        return failure
    during, after = ended.output.split("====")
    subscribed = re.findall(r"trap_num\.+(\d+)", during)
    if sorted(subscribed) != ["144", "64"] or "trap_num" in after:
        return failed(f"subscriptions of {subscribed}, or some are left", ended.evidence())
    return passed("2 subscriptions, a report")


def reported(manager: str, place: Place) -> Outcome:
    """Each event reaches a subscriber once, with its port or group and its issuer; the subscription is shown, and ends."""
    member = c_program.compile_program(HERE / "member.c", libraries=())
    group = "ff15:a01b:fe80::7"
    join = f'"$VERBENA" fabric exec --node host2 {member} {group} 1'
    until = "until grep -q '^report {}' reports; do sleep 0.05; done"
    script = "; ".join([
        f"mkfifo end; python3 {HERE / 'subscriber.py'} ready < end > reports & exec 3> end; until [ -e ready ]; do sleep 0.05; done",
        '"$VERBENA" fabric fault host2:1 down', until.format(65), '"$VERBENA" fabric fault host2:1 up', until.format(64),
        'until "$VERBENA" fabric exec --node host2 ibstat | grep -q Active; do sleep 0.05; done',
        join, until.format(66), f"{join} leave", until.format(67), "saquery IIR; exec 3>&-; wait; cat reports; sminfo"])
    ended = up(place, script, "--sm", manager)
    if failure := lacks(ended, [r"^subscribed 0$", r"^unsubscribed 0 again 512$", r"subscribe\.+0x1$", r"SubscriberGID\.+fe80::2:0:0:201$",
                                r"SMINFO_MASTER"]):
        return failure
    found = re.findall(r"^report (\d+) issuer \d+ subject (\w+) from (\w+)$", ended.output, re.MULTILINE)
    issuer, port = PREFIX + MANAGERS[manager], PREFIX + OTHER
    mgid = "".join(part.zfill(4) for part in group.replace("::", ":0:0:0:0:").split(":"))
    expected = [("65", port, issuer), ("64", port, issuer), ("66", mgid, issuer), ("67", mgid, issuer)]
    # OpenSM may train the link again, so that there are more changes of its state.
    changes = [report for report in found if report[0] == "128"]
    if [report for report in found if report[0] != "128"] != expected or len(changes) < 2 or {report[2] for report in changes} != {PREFIX + SWITCH}:
        return failed(f"reports {found}", ended.evidence())
    return passed(f"{len(found)} reports")


def exported(place: Place) -> Outcome:
    """The commands that public exporters run print each counter of each port as the fabric has it, for a name map too."""
    names = place.directory / "names"
    names.write_text(f'0x{SWITCH} "the leaf"\n')
    fault = '"$VERBENA" fabric fault'
    script = "; ".join([
        f"{fault} host2:1 port_rcv_errors 5", f"{fault} switch1:2 symbol_error 70000", f"{fault} switch1:1 link_error_recovery 3",
        # guilbaults/infiniband-exporter.
        f"ibqueryerrors --verbose --details --data --report-port --switch --ca --node-name-map {names} > errors 2> warnings; cat errors; "
        "test -s warnings && cat warnings", "echo ====",
        # treydock/infiniband_exporter.
        f"ibnetdiscover --ports --node-name-map {names}", "echo ====", f"perfquery -l -x -G 0x{SWITCH} 1,2", "echo ====",
        f"perfquery -E -G 0x{OTHER} 1", "echo ====",
        # infinimap.
        "ibqueryerrors", "ibqueryerrors --counters", "for record in NodeRecord LinkRecord PortInfoRecord SMInfoRecord; do saquery $record; done",
        "echo ====", f"perfquery -R -G 0x{OTHER} 1; perfquery -R -E -G 0x{OTHER} 1; perfquery -G 0x{OTHER} 1; perfquery -E -G 0x{OTHER} 1; true"])
    ended = up(place, script)
    if failure := lacks(ended, []):
        return failure
    details, ports, extended, causes, plain, cleared = ended.output.split("====")
    if "ibwarn" in ended.output:
        return failed("a query is refused", ended.evidence())
    for text, wanted in ((details, [r'^Errors for .*"the leaf"', rf"GUID 0x{SWITCH.lstrip('0')} port 2: .*SymbolErrorCounter == 70000 ",
                                    # Its names of the causes of received and of sent packets are exchanged.
                                    r"PortRcvErrors == 5 \(5\.000\)\] \[\w+ == 5\]", r"LinkErrorRecoveryCounter == 3 ",
                                    r"Link info: +1 +2\[ +\] ==\( 4X +53\.125 Gbps Active/  LinkUp\)==>"]),
                         (ports, [r"^SW +1 +1 0x" + SWITCH + r" 4x HDR - CA +2 +1 0x" + HOST + r" \( 'the leaf' - 'host1 mlx5_0' \)",
                                  r"^CA +3 +1 0x" + OTHER + " 4x HDR - SW"]),
                         (extended, [r"^SymbolErrorCounter:\.+70000$", r"^LinkErrorRecoveryCounter:\.+3$", r"^PortUnicastXmitPkts:\.+[1-9]"]),
                         (causes, [r"^PortLocalPhysicalErrors:\.+5$", r"^PortBufferOverrunErrors:\.+0$"]),
                         (plain, [r"\[PortRcvErrors == 5\b", r"^Data Counters for ", r"^LinkRecord dump:", r"^SMInfoRecord dump:"]),
                         (cleared, [r"^PortRcvErrors:\.+0$", r"^PortLocalPhysicalErrors:\.+0$"])):
        if lost := [pattern for pattern in wanted if not re.search(pattern, text, re.MULTILINE)]:
            return failed(f"{lost} not found", ended.evidence())
    counts = {name: len(re.findall(rf"^{name} dump:", plain, re.MULTILINE)) for name in ("NodeRecord", "LinkRecord", "PortInfoRecord")}
    if counts != {"NodeRecord": 3, "LinkRecord": 4, "PortInfoRecord": 11}:
        return failed(f"records {counts}", ended.evidence())
    return passed("10 commands of 3 exporters")
