"""Programs that read sysfs without the C library: Prometheus' node_exporter, which is in Go."""

from __future__ import annotations

import re
import shlex
import shutil
from functools import partial
from pathlib import Path

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import free_port
from harness.place import Place

from .fabric import SECONDS, lacks, up
from .verbs import COUNTS, KNOWN, MANAGEMENT_WORDS, pair, snapshot

EXPORTER = "prometheus-node-exporter"
OPTIONS = "--collector.disable-defaults --collector.infiniband --web.listen-address=127.0.0.1"
SCRAPE = Path(__file__).resolve().parent / "scrape.py"
ENVIRONMENT = 3
WRONG_INPUT = 2
# The metrics of each count of perfquery, in its order; data in bytes.
DATA = ("port_data_transmitted_bytes_total", "port_data_received_bytes_total")
PACKETS = ("port_packets_transmitted_total", "port_packets_received_total")
# All that the collector reads from files that Linux has: not port_rcv_discards, nor counters_ext of old kernels.
METRICS = {"info", "state_id", "physical_state_id", "rate_bytes_per_second", "excessive_buffer_overrun_errors_total", "link_downed_total",
           "link_error_recovery_total", "local_link_integrity_errors_total", "multicast_packets_received_total",
           "multicast_packets_transmitted_total", "port_constraint_errors_received_total", "port_constraint_errors_transmitted_total",
           "port_discards_transmitted_total", "port_errors_received_total", "port_receive_remote_physical_errors_total",
           "port_receive_switch_relay_errors_total", "port_transmit_wait_total", "symbol_error_total", "unicast_packets_received_total",
           "unicast_packets_transmitted_total", "vl15_dropped_total", *DATA, *PACKETS}
TRANSFER = "ib_write_bw -n 1000 -s 65536 -m 4096"
# A copy of sysfs, and its end, after which there is no directory.
COPY = ('"$VERBENA" fabric sysfs "$PWD/sys" & copy=$!; until [ -e sys/class ] || ! kill -0 $copy; do sleep 0.02; done; ')
END = "kill $copy; wait $copy; echo copy $?; ls sys 2>&1"


def cases() -> list[Case]:
    """A copy of sysfs, a mount, and where these are refused."""
    return [
        Case("node_exporter", "copy of sysfs", partial(exported, COPY, f"{EXPORTER} --path.sysfs=sys", END)),
        Case("node_exporter", "mount", partial(exported, "", f'"$VERBENA" fabric exec --mount -- {EXPORTER}', "")),
        Case("a copy of sysfs", "", copied),
        Case("a mount", "", mounted),
        Case("a mount is refused", "", refused),
    ]


def metrics(text: str) -> dict[str, float]:
    """The metrics of the collector, by name."""
    found = re.findall(r"^node_infiniband_(\w+){([^}]*)} (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, labels, value in found if 'device="verbena0"' in labels}


def exported(before: str, exporter: str, after: str, place: Place) -> Outcome:
    """Every series is there, follows a known transfer exactly, and has the counts of perfquery."""
    if shutil.which(EXPORTER) is None:
        return skipped(f"{EXPORTER} is not installed")
    (packets, words), _ = KNOWN[TRANSFER]
    port = free_port()
    scrape = f"python3 {shlex.quote(str(SCRAPE))} {port} node_infiniband_{PACKETS[0]}"
    script = (f"{before} {exporter} {OPTIONS}:{port} 2> exporter.log & exporter=$!; {scrape} 0; echo ====; "
              f"{pair(TRANSFER, TRANSFER)}; echo ====; {scrape} {packets}; echo ====; perfquery -x 2 1; "
              f"kill $exporter; wait $exporter; {after or ':'}; true")
    ended = up(place, script)
    if failure := lacks(ended, [r"^client 0", r"^server 0"]):
        return failure
    first, _, later, query = ended.output.split("====")
    old, new, counts = metrics(first), metrics(later), snapshot(query)[0]
    if new.keys() != METRICS:
        return failed(f"series that lack or are too many: {sorted(new.keys() ^ METRICS)}", ended.evidence())
    for name, known in zip((*DATA, *PACKETS), (4 * words, 0, packets, 0)):
        if new[name] - old[name] != known:
            return failed(f"{name} grew by {new[name] - old[name]:.0f}, not {known}", ended.evidence())
    for data, sent, count, frames in zip(DATA, PACKETS, COUNTS[:2], COUNTS[2:]):
        others = counts[frames] - new[sent]
        # perfquery's own datagrams.
        if not 0 <= others <= 8 or 4 * counts[count] - new[data] != 4 * MANAGEMENT_WORDS * others:
            return failed(f"{sent} is {new[sent]:.0f}, perfquery has {counts[frames]}", ended.evidence())
    if (new["state_id"], new["physical_state_id"], new["rate_bytes_per_second"]) != (4, 5, 25e9):
        return failed("state or rate differ", ended.evidence())
    if after and (failure := lacks(ended, [r"^copy 0", "No such file"])):
        return failure
    return passed(f"{len(METRICS)} series, {packets} packets")


def copied(place: Place) -> Outcome:
    """A copy follows links and ends with the fabric or a signal; a directory with other files, or in use, is refused."""
    state = "sys/class/infiniband/verbena0/ports/1/state"
    script = (f'{COPY} cat {state}; ls sys; ls sys/class | head -40; "$VERBENA" fabric sysfs sys; echo second $?; '
              '"$VERBENA" fabric sysfs "$PWD"; echo other $?; '
              f"ibportstate 1 1 disable > /dev/null; until grep DOWN {state}; do sleep 0.02; done; {END}; true")
    wanted = [r"^4: ACTIVE", r"^1: DOWN", r"^devices$", r"another .* keeps the files", rf"^second {WRONG_INPUT}", r"has other files",
              rf"^other {WRONG_INPUT}", r"^copy 0", "No such file"]
    if failure := lacks(up(place, script), wanted):
        return failure
    # A copy that was killed is replaced; one without a fabric ends.
    stale = "sys/class/infiniband/stale"
    script = (f'{COPY} kill -9 $copy; touch {stale}; "$VERBENA" fabric sysfs sys & "$VERBENA" fabric sysfs --node host2 "$PWD/host2" & '
              f"until [ ! -e {stale} ] && [ -e sys/class ] && [ -e host2/class ]; do sleep 0.02; done")
    # In one session, whose processes the harness ends.
    until = '"$VERBENA" fabric up -- sh -c "$0" && until [ ! -e sys ] && [ ! -e host2 ]; do sleep 0.02; done'
    gone = place.run("orphans", ["sh", "-c", until, script], SECONDS, TMPDIR="/tmp", VERBENA=str(VERBENA))
    if not gone.succeeded or gone.output.count("the fabric has ended") != 2:
        return failed("a copy stays behind the fabric", gone.evidence())
    ended = up(place, f'{COPY} mv sys moved; wait $copy; echo removed $?')
    if failure := lacks(ended, [r"were removed", rf"^removed {WRONG_INPUT}"]):
        return failure
    ended = place.run("outside", [str(VERBENA), "fabric", "sysfs", "sys"], SECONDS)
    if ended.status != WRONG_INPUT or "on no fabric" not in ended.output:
        return failed("a copy outside of a fabric is not refused", ended.evidence())
    return passed("follows, is taken over, ends")


def mounted(place: Place) -> Outcome:
    """A program without the shim sees the node, and other classes as before; exit status and signals pass; it ends with its parent."""
    bare = "env -u LD_PRELOAD"
    script = (f'"$VERBENA" fabric exec --mount --node host2 -- {bare} sh -c "cat /sys/class/infiniband/verbena0/ports/1/lid; ls /sys/class"; '
              '"$VERBENA" fabric exec --mount ibstat; "$VERBENA" fabric exec --mount -- sh -c "exit 7"; echo status $?; '
              f'"$VERBENA" fabric exec --mount -- {bare} sh -c "echo \\$\\$ > pid; exec sleep 1000" & parent=$!; '
              "until [ -s pid ]; do sleep 0.02; done; kill -9 $parent; while kill -0 $(cat pid) 2> /dev/null; do sleep 0.02; done; echo ended; "
              "ls /sys/class")
    ended = up(place, script)
    if failure := lacks(ended, [r"^0x3$", r"Base lid: 2", r"^status 7", r"^ended"]):
        return failure
    inside, outside = ended.output.split("Base lid: 2")[0].split(), ended.output.split("ended")[-1].split()
    if lost := {name for name in outside if not name.startswith("infiniband")} - set(inside):
        return failed(f"classes that are not in the mount: {lost}", ended.evidence())
    return passed()


def refused(place: Place) -> Outcome:
    """Where namespaces are forbidden, the message and `verbena doctor` say so, and no command runs."""
    forbid = "echo 0 > /proc/sys/user/max_mnt_namespaces"
    inner = f'"{VERBENA}" fabric up -- "{VERBENA}" fabric exec --mount -- echo runs || echo status $?; "{VERBENA}" doctor'
    ended = place.run("refused", ["unshare", "-Urm", "sh", "-ec", f"{forbid}; {inner}"], SECONDS, TMPDIR="/tmp")
    if "cannot unshare" in ended.output or "unshare failed" in ended.output:
        return skipped("namespaces are forbidden here")
    if f"status {ENVIRONMENT}" not in ended.output or "\nruns" in ended.output:
        return failed("the command is not refused", ended.evidence())
    if ended.output.count("user and mount namespace") != 2:
        return failed("the command or doctor does not say why", ended.evidence())
    return passed()
