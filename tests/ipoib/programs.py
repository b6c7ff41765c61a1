"""Programs of others that use sockets, between two ends: ssh, rsync, MPI, HTTP, name service, block devices and tools."""

from __future__ import annotations

import os
import re
import shutil
from functools import partial
from pathlib import Path
from random import Random
from typing import Callable

from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool, absent
from harness.tiers import by_night

from .ends import HERE, WAIT, Ends, counters, lacks, unbalanced

MODES = {"datagram": ("--mode", "datagram"), "connected": ("--mode", "connected")}
DATAGRAM_MTU, MTU = 4092, 65520
# Servers and clients that are not in the PATH of every user.
SBIN = "export PATH=$PATH:/usr/sbin; "
SSH = [Tool("/usr/sbin/sshd", "openssh-server"), Tool("ssh", "openssh-client"), Tool("ssh-keygen", "openssh-client")]
# Waits until the servers are ready.
SERVED = "until [ -e serving ]; do sleep 0.02; done; "
# The Python of the distribution, which has its modules.
PYTHON = "/usr/bin/python3"
URLS = ("10.0.0.1", "[fd00::1]")
ADDRESSES = ("10.0.0.1", "fd00::1")
# The one reason to drop packets that is no fault: a neighbour gets no processor for a while.
TOLERATED = "takes no datagrams"

Run = Callable[[Place, tuple[str, ...]], Outcome]


def cases() -> list[Case]:
    """Each program in both modes and over both versions, as far as it knows them."""
    programs: list[tuple[str, list[Tool], Run]] = [
        ("ssh, scp and sftp", SSH, secure_shell),
        ("rsync", [*SSH, Tool("rsync", "rsync")], synchronized),
        ("HTTP", [Tool("curl", "curl")], http),
        ("NetPIPE", [Tool("NPtcp", "netpipe-tcp")], netpipe),
        ("a network block device", [Tool("nbdkit", "nbdkit"), Tool("nbdcopy", "libnbd-bin")], block_device),
        ("name service", [Tool("/usr/sbin/dnsmasq", "dnsmasq-base"), Tool("dig", "bind9-dnsutils")], name_service),
        ("service discovery", [Tool("/usr/lib/python3/dist-packages/zeroconf", "python3-zeroconf")], discovery),
        ("UCX", [Tool("ucx_perftest", "ucx-utils")], ucx),
        ("libfabric", [Tool("fi_pingpong", "libfabric-bin")], libfabric),
        ("Open MPI", [*SSH, Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev")], open_mpi),
        ("MPICH", [*SSH, Tool("mpiexec.mpich", "mpich"), Tool("mpicc.mpich", "libmpich-dev")], mpich),
    ]
    tools: list[tuple[str, list[Tool], Callable[[Place], Outcome]]] = [
        ("traceroute and tracepath", [Tool("/usr/sbin/traceroute", "traceroute"), Tool("tracepath", "iputils-tracepath")], routes),
        ("tcpdump and tshark", [Tool("tcpdump", "tcpdump"), Tool("tshark", "tshark")], sniffed),
        ("nftables", [Tool("/usr/sbin/nft", "nftables")], firewall),
        ("descriptions of the interface", [Tool("/usr/sbin/ethtool", "ethtool")], described),
    ]
    return [*(Case(name, mode, partial(required, needs, partial(on, run, mode)))
              for name, needs, run in programs for mode in MODES),
            *(Case(name, "", partial(required, needs, run)) for name, needs, run in tools)]


def required(needs: list[Tool], run: Callable[[Place], Outcome], place: Place) -> Outcome:
    """Runs a case if its programs are installed."""
    if missing := absent(needs):
        return skipped("lacks " + ", ".join(sorted({tool.package for tool in missing})))
    return run(place)


def on(run: Run, mode: str, place: Place) -> Outcome:
    """Runs a case whose ends have this mode."""
    return run(place, MODES[mode])


def served(place: Place, mode: tuple[str, ...], server: str, client: str, patterns: list[str], *, least: int = 0) -> Outcome:
    """A client's script succeeds against servers that a script has started in the background at the peer. Its output has the
    patterns; no packet is dropped; the ends exchange at least so many packets."""
    ends = Ends(place)
    # The servers end with their script: nothing of the case outlives it.
    other = ends.start(1, f"{SBIN}trap 'kill $(jobs -p) 2> /dev/null || :' EXIT; {server} touch serving; {WAIT}", *mode)
    ended = ends.run(2, SBIN + SERVED + client, *mode)
    [served_by] = ends.stop(other)
    if failure := lacks(ended, patterns) or unbalanced(served_by):
        return failure
    for output in (ended.output, served_by.output):
        count = counters(output)
        dropped = {name: number for name, number in count.items() if name.startswith("dropped") and TOLERATED not in name}
        if dropped:
            return failed(f"dropped {dropped}", ended.evidence() + served_by.evidence())
    if (sent := counters(ended.output)["packets sent to a neighbour"]) < least:
        return failed(f"only {sent} packets left: the program took another way", ended.evidence())
    return passed()


def listening(port: int, kind: str = "t") -> str:
    """Waits until a server has opened its port."""
    return f"until ss -H{kind}ln | grep -q ':{port} '; do sleep 0.05; done; "


def write_file(place: Place, name: str, length: int) -> None:
    """A file of random bytes in the case's directory."""
    random = Random(length)
    with open(place.directory / name, "wb") as file:
        for start in range(0, length, 1 << 20):
            file.write(random.randbytes(min(1 << 20, length - start)))


def keys(place: Place) -> tuple[str, str]:
    """A server of ssh for the user of the test, as a command in the background, and the options of its clients."""
    at = place.directory
    for name in ("host", "user"):
        made = place.run("keygen", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(at / name)], 20)
        assert made.succeeded, made.output
    shutil.copy(at / "user.pub", at / "authorized")
    if os.getuid() == 0:
        # As the package's service does.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    words = [f"HostKey={at}/host", f"AuthorizedKeysFile={at}/authorized", "StrictModes=no", "UsePAM=no", "PidFile=none", "UseDNS=no",
             "Port=2222", "'Subsystem=sftp internal-sftp'"]
    server = f"/usr/sbin/sshd -D -e -f /dev/null {' '.join(f'-o {word}' for word in words)} & {listening(2222)}"
    options = (f"-F none -i {at}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o LogLevel=ERROR "
               "-o Port=2222")
    return server, options


def secure_shell(place: Place, mode: tuple[str, ...]) -> Outcome:
    """A command of the peer sees its interface; a pipe, scp and sftp copy a file whole, over both versions."""
    server, options = keys(place)
    write_file(place, "file", 10_000_000)
    at = place.directory
    lines = []
    for number, (address, url) in enumerate(zip(ADDRESSES, URLS)):
        (at / f"batch-{number}").write_text(f"put {at}/file {at}/by-sftp-{number}\nget {at}/by-sftp-{number} {at}/back-{number}\n")
        lines += [f"ssh {options} {address} 'ip -o -4 address show ib0'",
                  f"ssh {options} {address} cat < file | cmp - file",
                  f"scp -q {options} file '{url}:{at}/by-scp-{number}'", f"cmp file by-scp-{number}",
                  f"sftp -q {options} -b batch-{number} '{url}:' > /dev/null", f"cmp file back-{number}", f"echo copied {number}"]
    return served(place, mode, server, "; ".join(lines), [r"inet 10\.0\.0\.1/24", "^copied 0$", "^copied 1$"], least=300)


def write_tree(place: Place) -> None:
    """A tree of many files: 20 MB, by night 100 MB."""
    random = Random(1)
    folders = 40 if by_night() else 8
    for folder in range(folders):
        directory = place.directory / "tree" / str(folder)
        directory.mkdir(parents=True)
        for number in range(50):
            (directory / str(number)).write_bytes(random.randbytes(random.randrange(100_000)))
    (place.directory / "tree" / "link").symlink_to("0/1")


def synchronized(place: Place, mode: tuple[str, ...]) -> Outcome:
    """rsync copies a tree over ssh and from its own server; the copies are equal, over both versions."""
    server, options = keys(place)
    write_tree(place)
    at = place.directory
    (at / "daemon.conf").write_text(f"use chroot = no\npid file = {at}/daemon.pid\nport = 8730\nlog file = {at}/daemon.log\n"
                                    f"[tree]\npath = {at}/tree\n")
    server += f"rsync --daemon --no-detach --config=daemon.conf & {listening(8730)}"
    lines = []
    for number, url in enumerate(URLS):
        lines += [f"rsync -a -e 'ssh {options}' tree/ '{url}:{at}/there-{number}/'", f"diff -r tree there-{number}",
                  f"rsync -a 'rsync://{url}:8730/tree/' here-{number}/", f"diff -r tree here-{number}",
                  f"rm -r there-{number} here-{number}", f"echo same {number}"]
    return served(place, mode, server, "; ".join(lines), ["^same 0$", "^same 1$"], least=600)


def http(place: Place, mode: tuple[str, ...]) -> Outcome:
    """curl gets a file of 64 MB, by night 1 GB, from Python's server, over both versions; `ss` shows the connection."""
    write_file(place, "file", 1_000_000_000 if by_night() else 64_000_000)
    server = "".join(f"python3 -m http.server --bind {bind} {port} > server-{port} 2>&1 & {listening(port)}"
                     for bind, port in (("0.0.0.0", 8000), ("::", 8001)))
    lines = [f"curl -gsS --max-time 50 'http://{url}:{port}/file' | cmp - file; echo same {port}" for url, port in zip(URLS, (8000, 8001))]
    # A connection that stays open has the segment size of the interface.
    lines += [f"{PYTHON} -c \"import socket, subprocess; end = socket.create_connection(('10.0.0.1', 8000)); "
              "print(subprocess.run(['ss', '-tin'], capture_output=True, text=True).stdout)\""]
    segment = (MTU if "connected" in mode else DATAGRAM_MTU) - 52
    outcome = served(place, mode, server, "; ".join(lines), ["^same 8000$", "^same 8001$", rf"mss:{segment}\b"])
    (place.directory / "file").unlink()
    return outcome


def netpipe(place: Place, mode: tuple[str, ...]) -> Outcome:
    """NetPIPE passes messages of up to 1 MiB; it has IPv4 alone."""
    server = f"NPtcp -n 20 -u 1048576 > server 2>&1 & {listening(5002)}"
    return served(place, mode, server, "NPtcp -n 20 -u 1048576 -h 10.0.0.1 -o figures 2>&1", [r"1048579 bytes +20 times"])


def block_device(place: Place, mode: tuple[str, ...]) -> Outcome:
    """nbdcopy writes a file to a device of nbdkit and reads it back, by several connections, over both versions."""
    write_file(place, "file", 50_000_000)
    server = "".join(f"nbdkit -f -i {bind} -p {port} memory 50000000 & {listening(port)}" for bind, port in (("0.0.0.0", 10809), ("::", 10810)))
    lines = [f"nbdcopy file 'nbd://{url}:{port}'; nbdcopy 'nbd://{url}:{port}' back; cmp file back; rm back; echo same {port}"
             for url, port in zip(URLS, (10809, 10810))]
    return served(place, mode, server, "; ".join(lines), ["^same 10809$", "^same 10810$"])


def name_service(place: Place, mode: tuple[str, ...]) -> Outcome:
    """dig asks dnsmasq by UDP and TCP; an answer of 4 KB comes by UDP in one datagram. Names are not looked up elsewhere: the lookup of
    an unknown one fails at once."""
    text = ",".join(["x" * 200] * 20)
    server = ("dnsmasq -d -R -h -C /dev/null -p 5353 -A /host.test/10.0.0.1 -A /host.test/fd00::1 "
              f"--txt-record=long.test,{text} --edns-packet-max=4096 2> server & {listening(5353, 'u')}")
    lines = []
    for address in ADDRESSES:
        ask = f"dig -p 5353 @{address} +tries=1"
        lines += [f"{ask} host.test A host.test AAAA +short", f"{ask} long.test TXT +ignore +bufsize=4096 | grep 'MSG SIZE'",
                  f"{ask} long.test TXT +tcp | grep 'MSG SIZE'"]
    lines += ["! timeout 15 getent hosts name.invalid", "getent hosts localhost"]
    return served(place, mode, server, "; ".join(lines), [r"(?s)^10\.0\.0\.1\nfd00::1\n(;; MSG SIZE  rcvd: 40\d\d\n){2}"
                                                          r"10\.0\.0\.1\nfd00::1\n(;; MSG SIZE  rcvd: 40\d\d\n){2}"])


def discovery(place: Place, mode: tuple[str, ...]) -> Outcome:
    """A service that one end announces by multicast DNS is found by the other, over both versions."""
    tool = f"{PYTHON} '{HERE / 'discovery.py'}'"
    server = "".join(f"{tool} announce {address} & until [ -e announced-{address} ]; do sleep 0.05; done; " for address in ADDRESSES)
    client = "; ".join(f"{tool} find {address}" for address in ("10.0.0.2", "fd00::2"))
    return served(place, mode, server, client, [r"^found by 10\.0\.0\.2: one\.local\. 10\.0\.0\.1 99$",
                                                r"^found by fd00::2: six\.local\. fd00::1 99$"])


def ucx(place: Place, mode: tuple[str, ...]) -> Outcome:
    """UCX finds the interface in /sys, and its transport `tcp` passes messages over it."""
    environment = "export UCX_TLS=tcp UCX_NET_DEVICES=ib0; "
    words = "-t tag_bw -s 100000 -n 500 -w 10 -p 13337"
    server = f"{environment} ucx_perftest {words} > server 2>&1 & {listening(13337)}"
    client = f"{environment} ucx_info -d | grep -A 3 'Transport: tcp' ; ucx_perftest {words} 10.0.0.1"
    return served(place, mode, server, client, [r"Device: +ib0", r"^Final: +500 "], least=300)


def libfabric(place: Place, mode: tuple[str, ...]) -> Outcome:
    """libfabric's provider `tcp` passes messages, whose data both sides check."""
    words = "-p tcp -e msg -I 20 -c -S 65536"
    server = f"fi_pingpong {words} > server 2>&1 & {listening(47592)}"
    return served(place, mode, server, f"fi_pingpong {words} 10.0.0.1", [r"^64k +20 "], least=20)


PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    int rank, ranks, right = 1;
    size_t length = 1 << 20;
    char line[64] = "";
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *address = popen("ip -o -4 address show ib0 | sed 's,.*inet ,,; s,/.*,,'", "r");
    if (!address || !fgets(line, sizeof line, address))
        return 1;
    line[strcspn(line, "\n")] = 0;
    char *own = malloc(length), *all = malloc(length * ranks);
    for (int round = 0; round < 10; round++) {
        memset(own, rank * 10 + round, length);
        MPI_Allgather(own, length, MPI_CHAR, all, length, MPI_CHAR, MPI_COMM_WORLD);
        for (size_t at = 0; at < length * ranks; at++)
            right &= all[at] == (char)(at / length * 10 + round);
    }
    printf("rank %d of %d at %s: %s\n", rank, ranks, line, right ? "right" : "wrong");
    return MPI_Finalize();
}
"""


def mpi(place: Place, mode: tuple[str, ...], compiler: str, launch: Callable[[str], list[str]]) -> Outcome:
    """A process at each end gathers data of both, ten times; ssh starts that of the peer. More would compete for two processors."""
    (place.directory / "gather.c").write_text(PROGRAM)
    compiled = place.run("compile", [compiler, "-O2", "gather.c", "-o", "gather"], 60)
    if not compiled.succeeded:
        return failed(compiled.describe(), compiled.evidence())
    server, options = keys(place)
    (place.directory / "remote").write_text(f'#!/bin/sh\nexec ssh {options} "$@"\n')
    (place.directory / "remote").chmod(0o755)
    client = "; ".join(launch(str(place.directory)))
    ranks = [rf"^rank {rank} of 2 at 10\.0\.0\.{2 - rank}: right$" for rank in range(2)]
    return served(place, mode, server, client, ranks, least=150)


def open_mpi(place: Place, mode: tuple[str, ...]) -> Outcome:
    """Open MPI over TCP, by both versions. Its shared memory is off: it takes namespaces of one host name for one host."""
    root = "--allow-run-as-root " if os.getuid() == 0 else ""

    def launch(at: str) -> list[str]:
        words = (f"mpirun.openmpi {root}--oversubscribe --mca plm_rsh_agent {at}/remote --mca oob_tcp_if_include ib0 --mca btl tcp,self "
                 "--mca btl_tcp_if_include ib0 --host 10.0.0.2:1,10.0.0.1:1 -np 2")
        return [f"{words} {more} {at}/gather" for more in ("", "--mca btl_tcp_disable_family 4")]
    return mpi(place, mode, "mpicc.openmpi", launch)


def mpich(place: Place, mode: tuple[str, ...]) -> Outcome:
    """MPICH over UCX's TCP."""
    def launch(at: str) -> list[str]:
        variables = "-genv UCX_TLS tcp,self -genv UCX_NET_DEVICES ib0 -genv MPIR_CVAR_NOLOCAL 1"
        return [f"mpiexec.mpich -launcher ssh -launcher-exec {at}/remote -iface ib0 {variables} -hosts 10.0.0.2:1,10.0.0.1:1 -n 2 {at}/gather"]
    return mpi(place, mode, "mpicc.mpich", launch)


def routes(place: Place) -> Outcome:
    """traceroute reaches the peer by UDP, ICMP and TCP; tracepath finds the MTU towards an end of the other mode."""
    ends = Ends(place)
    other = ends.start(1, WAIT, *MODES["datagram"])
    lines = [f"traceroute -n {words}" for words in ("10.0.0.1", "-I 10.0.0.1", "-T -p 99 10.0.0.1", "fd00::1", "-I fd00::1", "-T -p 99 fd00::1")]
    lines += [f"tracepath -n {address}" for address in ADDRESSES]
    ended = ends.run(2, SBIN + "; ".join(lines), *MODES["connected"])
    [server] = ends.stop(other)
    if failure := lacks(ended, []) or unbalanced(server):
        return failure
    reached = len(re.findall(r"^ 1  (?:10\.0\.0\.1|fd00::1)  .* ms", ended.output, re.MULTILINE))
    found = len(re.findall(rf"Resume: pmtu {DATAGRAM_MTU} hops 1 back 1", ended.output))
    return passed() if (reached, found) == (6, 2) else failed(f"{reached} of 6 routes, {found} of 2 MTUs", ended.evidence())


def sniffed(place: Place) -> Outcome:
    """tcpdump and tshark show packets of the interface itself."""
    ends = Ends(place)
    other = ends.start(1, WAIT)
    script = ("tcpdump -i ib0 -n -l -c 2 icmp6 and host fd00::1 > dumped 2> messages & "
              "tshark -i ib0 -l -c 2 -f 'icmp and host 10.0.0.1' > shown 2>> messages & "
              "until [ -s dumped ] && [ -s shown ]; do ping -c 1 -W 1 10.0.0.1; ping -c 1 -W 1 fd00::1; done > /dev/null; wait; cat dumped shown")
    ended = ends.run(2, SBIN + script)
    ends.stop(other)
    return lacks(ended, [r"IP6 fd00::2 > fd00::1: ICMP6, echo request", r"10\.0\.0\.2 \S+ 10\.0\.0\.1 +ICMP"]) or passed()


def firewall(place: Place) -> Outcome:
    """Rules of nftables in a namespace drop one port and redirect another, and count."""
    rules = """table inet rules {
        chain input { type filter hook input priority 0; ip saddr 10.0.0.2 tcp dport 4444 counter drop; }
        chain nat { type nat hook prerouting priority -100; tcp dport 80 redirect to :8080; }
    }"""
    (place.directory / "rules").write_text(rules)
    server = f"nft -f rules; python3 -m http.server 8080 > server 2>&1 & {listening(8080)}"
    # A machine whose kernel has no such modules.
    tried = Ends(place).run(1, f"{SBIN}nft -f rules || echo none")
    if "none" in tried.output:
        return skipped("the kernel has no nftables for NAT")
    ends = Ends(place)
    other = ends.start(1, f"{SBIN}trap 'kill $(jobs -p) || :' EXIT; {server} touch serving; {WAIT}; nft list ruleset")
    ended = ends.run(2, SERVED + "curl -sS --max-time 20 http://10.0.0.1/rules | cmp - rules; ! curl -sS --connect-timeout 2 http://10.0.0.1:4444/; "
                        "echo filtered")
    [served_by] = ends.stop(other)
    return lacks(ended, ["^filtered$"]) or lacks(served_by, [r"counter packets [1-9]"]) or passed()


def described(place: Place) -> Outcome:
    """/sys, ip, ethtool, sysctl and hostname describe the namespace's interfaces; /sys has the files of IP over InfiniBand."""
    script = ("ls /sys/class/net; cat /sys/class/net/ib0/type /sys/class/net/ib0/mtu; ip -d link show ib0; ethtool -i ib0; "
              "sysctl net.ipv4.conf.ib0.forwarding net.ipv6.conf.ib0.forwarding; hostname -I; ls -d /sys/fs; "
              "cd /sys/class/net/ib0; head mode pkey umcast dev_id dev_port addr_len address broadcast | grep -v '^$'; "
              "for file in mode create_child delete_child; do (echo connected > $file) 2> /dev/null && echo written; done; "
              "echo 2044 > mtu; cat mtu statistics/tx_dropped; cat mode; readlink subsystem")
    ended = Ends(place).run(1, SBIN + script)
    if "written" in ended.output:
        return failed("a file that changes nothing can be written", ended.evidence())
    link = ["==> mode <==\ndatagram\n==> pkey <==\n0xffff\n==> umcast <==\n0\n==> dev_id <==\n0x0\n==> dev_port <==\n0\n"
            "==> addr_len <==\n20\n==> address <==\n00(:[0-9a-f]{2}){3}:fe:80(:00){6}(:[0-9a-f]{2}){8}\n"
            "==> broadcast <==\n00:ff:ff:ff:ff:12:40:1b:ff:ff(:00){6}(:ff){4}\n", r"^2044\n0\ndatagram\n\.\./\.\./\.\./\.\./class/net$"]
    return lacks(ended, [*link, r"^ib0\nlo\n32\n4092\n", r"link/infiniband", r"^driver: tun$", r"^net\.ipv6\.conf\.ib0\.forwarding = 0$",
                         r"^10\.0\.0\.1 fd00::1 $", r"^/sys/fs$"]) or passed()
