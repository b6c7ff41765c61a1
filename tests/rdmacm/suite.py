"""The connection manager: the distribution's librdmacm and programs on it, unchanged."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Callable, Optional

from harness import c_program
from harness.build_tree import DEVICE, PATHS, VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, finish, free_port, listening
from harness.place import Place
from harness.process import Process, wait_for_any
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

from .late import starting_late

TITLE = "librdmacm, rsockets, perftest -R and libfabric over the connection manager"
REQUIRES = [Tool("rping", "rdmacm-utils"), Tool("ib_write_bw", "perftest"),
            Tool("fi_pingpong", "libfabric-bin"), COMPILER, VERBS_HEADERS,
            Tool("/usr/include/rdma/rdma_cma.h", "librdmacm-dev")]

SECONDS = 60
HERE = "127.0.0.1"
GROUP = "224.1.2.3"
# udpong's default port.
UDPONG_PORT = 7174
# udpong sends its datagrams without waiting. More than rsockets post receives for (384) are dropped when
# the server is not scheduled meanwhile, and then rpoll(3) times out, after which it may wait for ever
# (it counts itself as polling and never takes that back).
UDPONG_BURST = 300

# The directory of programs that hosts use, too.
ROCE = Path(__file__).resolve().parents[1] / "roce"

# Server and client of each example program.
EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "rping": (["rping", "-s", "-a", HERE, "-C", "20", "-v", "-V"],
              ["rping", "-c", "-a", HERE, "-C", "20", "-v", "-V"]),
    "rdma_client": (["rdma_server"], ["rdma_client", "-s", HERE]),
    "ucmatose": (["ucmatose"], ["ucmatose", "-s", HERE]),
    "ucmatose -c 50": (["ucmatose", "-c", "50"], ["ucmatose", "-c", "50", "-s", HERE]),
    "ucmatose -m (migrates)": (["ucmatose", "-m"], ["ucmatose", "-m", "-s", HERE]),
    "udaddy": (["udaddy"], ["udaddy", "-s", HERE]),
    "rdma_xclient -c r": (["rdma_xserver", "-c", "r"], ["rdma_xclient", "-c", "r", "-s", HERE]),
    "rdma_xclient -c x": (["rdma_xserver", "-c", "x"], ["rdma_xclient", "-c", "x", "-s", HERE]),
    "rdma_create_ep": (["message", "rc", "serve", HERE], ["message", "rc", "ask", HERE]),
    "rdma_create_ep (UC)": (["message", "uc", "serve", HERE], ["message", "uc", "ask", HERE]),
    "rstream": (["rstream", "-S", "4096"], ["rstream", "-S", "4096", "-s", HERE]),
    "rstream -T b": (["rstream", "-S", "65536", "-T", "b"],
                     ["rstream", "-S", "65536", "-T", "b", "-s", HERE]),
    "riostream": (["riostream", "-S", "4096"], ["riostream", "-S", "4096", "-s", HERE]),
    "fi_pingpong -p verbs": (["fi_pingpong", "-p", "verbs", "-e", "msg", "-c"],
                             ["fi_pingpong", "-p", "verbs", "-e", "msg", "-c", HERE]),
}
PERFTEST = [["ib_write_bw"], ["ib_read_bw"], ["ib_send_bw"], ["ib_write_lat"], ["ib_read_lat"],
            ["ib_send_lat"], ["ib_send_bw", "-c", "UD"], ["ib_send_lat", "-c", "UD"],
            ["ib_write_bw", "-q", "4"]]


def cases() -> list[Case]:
    """Each program on each path, then the errors."""
    found = []
    for path in PATHS:
        for name, (server, client) in EXAMPLES.items():
            found.append(Case(name, path, partial(example, server, client, path)))
        for options in PERFTEST:
            name = " ".join([options[0], "-R", *options[1:]])
            found.append(Case(name, path, partial(perftest, options, path)))
        found.append(Case("mckey", path, partial(multicast, path)))
        found.append(Case("cmtime", path, partial(endless, ["cmtime", "-b", HERE],
                                                  ["cmtime", "-c", "20", "-s", HERE], path)))
        found.append(Case("udpong", path, partial(endless, ["udpong", "-b", HERE],
                                                  ["udpong", "-S", "64", "-C", str(UDPONG_BURST), "-s", HERE],
                                                  path)))
    # Only the connection manager is involved: the path of data does not matter.
    for source in ("timewait.c", "closing.c", "descriptors.c", "families.c", "newest.c"):
        found += c_program.table(Path(__file__).resolve().parent / source, [""], SECONDS,
                                 libraries=("-lrdmacm", "-libverbs", "-pthread"))
    return [*found, Case("nobody listens", "", no_listener), Case("the port is taken", "", taken),
            Case("perftest -R -q 4, whose listeners start late", "", late), Case("the server is killed", "", killed), Case("an idle client is killed", "", idle_killed)]


def listens(place: Place) -> bool:
    """Whether a process of this case listens for connections."""
    return any(place.runtime.glob("cm-*.socket"))


def start_server(place: Place, command: list[str], ready: Callable[[Process], bool],
                 path: Optional[str] = None) -> tuple[Process, bool]:
    """Starts a server and waits until it is ready."""
    serving = place.start("server", command, path)
    deadline = time.monotonic() + SECONDS
    while serving.running and not ready(serving) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    return serving, serving.running and ready(serving)


def converse(place: Place, server: list[str], client: list[str],
             ready: Callable[[Process], bool], path: str) -> Exchange:
    """Runs both sides to their end."""
    serving, is_ready = start_server(place, server, ready, path)
    if not is_ready:
        return Exchange(serving.finish(time.monotonic()), None)
    asking = place.start("client", client, path)
    return finish(serving, asking, time.monotonic() + SECONDS)


def example(server: list[str], client: list[str], path: str, place: Place) -> Outcome:
    """Server and client return 0."""
    if server[0] == "message":
        try:
            tool = c_program.compile_program(ROCE / "message.c", ("-lrdmacm", "-l:libibverbs.so"))
        except c_program.DoesNotCompile as words:
            return failed("does not compile", str(words))
        server, client = ([tool, *command[1:]] for command in (server, client))
    if server[0] == "fi_pingpong":
        # Listens on TCP first and connects its endpoint later. Another test's server may have its default port.
        port = free_port()
        server, client = [*server, "-B", str(port)], [*client[:-1], "-P", str(port), client[-1]]
        ready = lambda _process: listening(port)  # noqa: E731
    else:
        ready = lambda _process: listens(place)  # noqa: E731
    return converse(place, run(*server), run(*client), ready, path).outcome()


def perftest(options: list[str], path: str, place: Place) -> Outcome:
    """perftest, its connection made by the connection manager."""
    command = run(*options, "-R", "-F", "-d", DEVICE, "-n", "500")
    ready = lambda _process: listens(place)  # noqa: E731
    return converse(place, command, [*command, HERE], ready, path).outcome()


def late(place: Place) -> Outcome:
    """A server that tells its client to connect before it listens again, and is slow."""
    command = ["ib_write_bw", "-q", "4", "-R", "-F", "-d", DEVICE, "-n", "500"]
    server = run(*map(str, starting_late(command)))
    return converse(place, server, run(*command, HERE), lambda _process: listens(place), PATHS[0]).outcome()


def multicast(path: str, place: Place) -> Outcome:
    """A member of an IP group receives another's messages."""
    receiver = run("stdbuf", "-o0", "mckey", "-m", GROUP, "-b", HERE)
    sender = run("mckey", "-m", GROUP, "-b", HERE, "-s")
    ready = lambda process: "receiving data transfers" in process.output()  # noqa: E731
    return converse(place, receiver, sender, ready, path).outcome()


def endless(server: list[str], client: list[str], path: str, place: Place) -> Outcome:
    """The client returns 0; this program's server never ends."""
    ready = lambda _process: listens(place) or holds_datagram_port(UDPONG_PORT)  # noqa: E731
    serving, is_ready = start_server(place, run(*server), ready, path)
    if not is_ready:
        return failed("the server never listened", serving.finish(time.monotonic()).evidence())
    asked = place.run("client", run(*client), SECONDS, path)
    ended = serving.finish(time.monotonic())
    sweep(place)
    if asked.succeeded:
        return passed()
    return failed(asked.describe(), "\n".join([asked.evidence(), ended.evidence()]))


def holds_datagram_port(port: int) -> bool:
    """Whether a process has a UDP port."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return any(int(line.split()[1].rpartition(":")[2], 16) == port for line in lines)


def sweep(place: Place) -> None:
    """Removes the remains of a killed process, as the next process on the host would."""
    place.run("sweep", [str(VERBENA), "info"], SECONDS)


def no_listener(place: Place) -> Outcome:
    """A connection to a port without a listener is rejected at once."""
    started = time.monotonic()
    ended = place.run("client", run("rping", "-c", "-a", HERE, "-C", "1"), SECONDS)
    if ended.succeeded or time.monotonic() - started > SECONDS / 2:
        return failed("was not rejected", ended.evidence())
    if "RDMA_CM_EVENT_REJECTED" not in ended.output:
        return failed("does not say that it was rejected", ended.evidence())
    return passed()


def taken(place: Place) -> Outcome:
    """Two servers cannot have one port. Of a loopback address the kernel says EADDRNOTAVAIL (`cma_check_port`)."""
    serving, is_ready = start_server(place, run("rping", "-s", "-a", HERE, "-C", "1"),
                                     lambda _process: listens(place))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    second = place.run("second", run("rping", "-s", "-a", HERE, "-C", "1"), SECONDS)
    client = place.run("client", run("rping", "-c", "-a", HERE, "-C", "1"), SECONDS)
    first = serving.finish(time.monotonic() + SECONDS)
    if second.succeeded or "Cannot assign requested address" not in second.output:
        return failed("the second server got the port, too", second.evidence())
    if not (client.succeeded and first.succeeded):
        return failed("the first server was disturbed", first.evidence())
    return passed()


def killed(place: Place) -> Outcome:
    """The client notices that its server was killed in the midst of the work."""
    serving, is_ready = start_server(place, run("rping", "-s", "-a", HERE),
                                     lambda _process: listens(place))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    asking = place.start("client", run("rping", "-c", "-v", "-a", HERE))
    deadline = time.monotonic() + SECONDS
    while "ping data" not in asking.output() and asking.running and time.monotonic() < deadline:
        wait_for_any([asking], time.monotonic() + 0.005)
    if not asking.running:
        return failed("ended early", asking.finish(time.monotonic()).evidence())
    os.kill(serving.pid, signal.SIGKILL)
    ended = asking.finish(time.monotonic() + SECONDS)
    serving.finish(time.monotonic())
    sweep(place)
    if ended.status is None:
        return failed("waits for a killed server", ended.evidence())
    # By the connection manager or by the request in flight, whichever is first: rping ends at either.
    if not any(word in ended.output for word in ("DISCONNECT", "cq completion failed status 12")):
        return failed("got no event of the end", ended.evidence())
    return passed()


def idle_killed(place: Place) -> Outcome:
    """A server without traffic from its client gets an event when the client is killed."""
    try:
        tool = c_program.compile_program(ROCE / "idle.c", ("-lrdmacm",))
    except c_program.DoesNotCompile as words:
        return failed("does not compile", str(words))
    serving, is_ready = start_server(place, run(tool, "serve", HERE), lambda _process: listens(place))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())
    asking = place.start("client", run(tool, "wait", HERE))
    deadline = time.monotonic() + SECONDS
    while "ESTABLISHED" not in serving.output() and serving.running and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    asking.finish(time.monotonic())
    ended = serving.finish(deadline)
    sweep(place)
    return passed() if ended.succeeded else failed("got no event", ended.evidence())
