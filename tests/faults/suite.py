"""`verbena run --fault` and `verbena faults sweep`: every kind of call and request fails as its rule says, and only then, with all
consequences; others' programs are swept; runs are repeated; wrong rules are refused."""

from __future__ import annotations

import errno
import ipaddress
import json
import re
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

from harness import c_program, tiers
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

from . import limits, links, observed, queues

TITLE = "verbena run --fault and verbena faults sweep"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("rping", "rdmacm-utils"),
            Tool("ib_write_bw", "perftest"), Tool("ib_atomic_bw", "perftest")]

HERE = Path(__file__).resolve().parent
SECONDS = 120
# Named by its file, as it has its own `main`.
LIBRARIES = ("-l:libibverbs.so.1", "-l:librdmacm.so.1")
# The calls of refused.c.
CALLS = ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_comp_channel", "ibv_create_cq",
         "ibv_create_cq_ex", "ibv_create_srq", "ibv_create_qp", "ibv_query_port", "ibv_query_device", "ibv_query_gid",
         "ibv_modify_qp", "ibv_req_notify_cq", "ibv_post_recv", "ibv_post_srq_recv", "ibv_get_cq_event",
         "rdma_create_event_channel", "rdma_listen")
# An error for each of them, which no call gives by itself.
ERRORS = ("EPERM", "EIO", "ENXIO", "EBADF", "EBUSY", "EEXIST", "ENODEV", "ENOSPC", "ESPIPE", "EROFS", "EPIPE", "ERANGE", "ENOSYS",
          "EPROTO", "EOVERFLOW", "ESTALE", "ENOBUFS", "EALREADY", "ETIMEDOUT")
CHANCE = """seed = 11
[[fault]]
name = "some memory"
process = "refused"
at = "ibv_reg_mr p 0.5"
do = "ENOMEM"
[[fault]]
at = "ibv_create_cq p 0.5"
do = "EAGAIN"
"""


def cases() -> list[Case]:
    """All."""
    return [
        Case("each kind of call", "once", partial(once, "")),
        Case("each kind of call", "in a child of fork(2), too", partial(once, "fork")),
        *(Case("each status of a request", f"{way}, {queue} completion queue, {link}", partial(statuses, way, queue, link))
          for way in ("post", "wr") for queue in ("plain", "extended") for link in ("infiniband", "roce")),
        Case("events of ports", "", events),
        Case("an adapter fails", "", fatal),
        Case("an adapter fails", "the peer's requests have no answer", fatal_peer),
        Case("events of connections", "infiniband", partial(connections, "infiniband")),
        Case("events of connections", "roce", partial(connections, "roce")),
        Case("requests with chance are repeated", "", requests_repeated),
        Case("a sweep", "of every request", every_request),
        Case("no rule for the process", "", elsewhere),
        Case("peers", "by command line", peers),
        Case("peers", "by LID, queue pair and process", peer_addresses),
        Case("peers", "by GID", peer_gids),
        Case("a long schedule", "", long),
        Case("runs are repeated", "", repeated),
        Case("a sweep", "of every call", every),
        Case("a sweep", "finds a crash and a hang", found),
        Case("a sweep", "of ibv_rc_pingpong", partial(pair, "ibv_rc_pingpong", "ibv_rc_pingpong localhost", ("ibv_create_*", "ibv_reg_mr"))),
        Case("a sweep", "of rping", partial(pair, "rping -s -C 5", "rping -c -a 127.0.0.1 -C 5", ("rdma_create_*", "rdma_connect", "rdma_accept"))),
        Case("a sweep", "finds objects that are left", leaks),
        Case("exploring", "a program without mistakes", right),
        *(Case("exploring", f"mistake {number}", partial(mistake, number)) for number in range(1, 12) if tiers.by_night() or number not in SLOW),
        Case("exploring", "the same seeds", same_seeds),
        Case("exploring", "faults of a file", chances),
        Case("shrinking", "", shrinking),
        Case("wrong rules", "", wrong),
        Case("a fault that never fires", "", unfired),
        Case("a fault that fires without end", "", often),
        *limits.cases(),
        *links.cases(),
        *queues.cases(),
        *observed.cases(),
    ]


def program() -> Path:
    """refused.c, compiled."""
    return c_program.compile_program(HERE / "refused.c", LIBRARIES)


def run(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "run", *map(str, words)]


def sweep(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "faults", "sweep", *map(str, words)]


def printed(output: str) -> list[str]:
    """The lines of refused.c."""
    return [line for line in output.splitlines() if line.split(" ")[0] in (*CALLS, "bad_wr")]


def once(way: str, place: Place) -> Outcome:
    """Each call fails once with a separate error, returns it as its manual page says, and succeeds when it is repeated."""
    rules = [word for call, name in zip(CALLS, ERRORS) for word in ("--fault", f"{call} 1: {name}")]
    ended = place.run("refused", run(*rules, "--", program(), *([way] if way else [])), SECONDS)
    expected = [f"{call} {getattr(errno, name)}" for call, name in zip(CALLS, ERRORS)] * (2 if way else 1)
    lines = printed(ended.output)
    if not ended.succeeded or lines != expected:
        return failed(f"{lines} is not {expected}", ended.evidence())
    return passed(f"{len(CALLS)} calls")


# Work completion statuses, queue pair states and events of infiniband/verbs.h.
SUCCESS, LENGTH, QP_OPERATION, PROTECTION, FLUSHED, BIND, ACCESS = 0, 1, 2, 4, 5, 6, 8
REMOTE_INVALID, REMOTE_ACCESS, REMOTE_OPERATION, RETRIES, RNR_RETRIES = 9, 10, 11, 12, 13
READY, ERROR = 3, 6
FATAL, REQUEST_ERROR, ACCESS_ERROR = 1, 2, 3
# Operation, rule, status of the request, status of the server's receive, the server's event: none if it stays ready.
REQUESTS = [
    ("send", "send 3: local-length", LENGTH, None, None),
    ("write", "write 3: local-qp-operation", QP_OPERATION, None, None),
    ("read", "read 3: local-protection", PROTECTION, None, None),
    ("write-imm", "any 3: flush", FLUSHED, None, None),
    ("bind", "bind 3: window-bind", BIND, None, None),
    ("read", "any 3: fatal", FLUSHED, None, None),
    ("send", "send 3: retry-exceeded", RETRIES, None, None),
    ("send", "send 3: rnr-retry-exceeded", RNR_RETRIES, None, None),
    ("write", "write 3: remote-access", REMOTE_ACCESS, None, ACCESS_ERROR),
    ("write-imm", "write 3: remote-access", REMOTE_ACCESS, ACCESS, None),
    ("compare-swap", "compare-swap 3: remote-access", REMOTE_ACCESS, None, ACCESS_ERROR),
    ("read", "read 3: remote-invalid-request", REMOTE_INVALID, None, REQUEST_ERROR),
    ("fetch-add", "fetch-add 3: remote-operation", REMOTE_OPERATION, None, FATAL),
    ("send", "send 3: remote-operation", REMOTE_OPERATION, PROTECTION, None),
    ("send", "recv 3: local-length", REMOTE_INVALID, LENGTH, None),
]


def requests() -> Path:
    """requests.c, compiled."""
    return c_program.compile_program(HERE / "requests.c", LIBRARIES)


def statuses(way: str, queue: str, link: str, place: Place) -> Outcome:
    """The third request fails, those before it succeed, those behind it are flushed, and the other side learns of it."""
    for operation, rule, status, receive, event in REQUESTS:
        if operation == "bind" and way == "wr":
            continue
        side = "qp2" if rule.startswith("recv") else "qp1"
        ended = place.run("requests", run("--link", link, "--fault", f"{side}.{rule}", "--", requests(), operation, way, queue), SECONDS)
        ends = [SUCCESS, SUCCESS, status, *[FLUSHED] * 3]
        fails = receive is not None or event is not None
        taken = [SUCCESS, SUCCESS] if operation in ("send", "write-imm") else []
        taken += [] if receive is None else [receive]
        taken += [FLUSHED] * (6 - len(taken)) if fails else []
        wanted = [*(f"client request {number} {end}" for number, end in enumerate(ends, 1)),
                  *(f"server receive {number} {end}" for number, end in enumerate(taken, 1)),
                  f"client state {ERROR}", f"server state {ERROR if fails else READY}",
                  *([f"event {event}"] if event is not None else [f"event {FATAL}"] if "fatal" in rule else [])]
        lines = [line for line in ended.output.splitlines() if line.split(" ")[0] in ("client", "server", "event")]
        fired = f'fault "{side}.{rule}" fired at {side}.'
        if not ended.succeeded or lines != wanted or fired not in ended.output:
            return failed(f"{operation}, {rule}: {ended.describe()}, {lines} is not {wanted}", ended.evidence())
    return passed(f"{len(REQUESTS)} statuses")


# Rule, the client's statuses if not all succeed, the events.
PORT_DOWN, PORT_UP, LID, PKEY, SUBNET_MANAGER, REREGISTER, GID = 10, 9, 11, 12, 13, 17, 18
EVENTS = [
    ("port1 after 3 requests: down for 30 ms", [SUCCESS] * 6, [PORT_DOWN, PORT_UP]),
    ("port1 after 3 requests: down", [*[SUCCESS] * 3, RETRIES, *[FLUSHED] * 2], [PORT_DOWN]),
    ("port1 after 1 requests: lid-change", [SUCCESS] * 6, [LID]),
    ("port1 after 2 requests: pkey-change", [SUCCESS] * 6, [PKEY]),
    ("port1 after 0 ms: sm-change", [SUCCESS] * 6, [SUBNET_MANAGER]),
    ("port1 after 0 s: gid-change", [SUCCESS] * 6, [GID]),
    ("port1 after 5 requests: client-reregister", [SUCCESS] * 6, [REREGISTER]),
]


def events(place: Place) -> Outcome:
    """Events come as their rules say; requests wait for a port, or end by their retries; a run is repeated from its file."""
    fired = place.directory / "fired.toml"
    for rule, ends, raised in EVENTS:
        for words in (("--fault", rule, "--fired", fired), ("--faults", fired)):
            ended = place.run("requests", run(*words, "--", requests(), "write", "post", "plain"), SECONDS)
            lines = [line for line in ended.output.splitlines() if line.startswith(("client request", "event"))]
            wanted = [*(f"client request {number} {end}" for number, end in enumerate(ends, 1)), *(f"event {one}" for one in raised)]
            if not ended.succeeded or lines != wanted:
                return failed(f"{rule}: {ended.describe()}, {lines} is not {wanted}", ended.evidence())
    # An Ethernet port goes down with its interface.
    ended = place.run("requests", run("--link", "roce", "--fault", "port1 after 3 requests: down", "--", requests(), "write", "post", "plain"), SECONDS)
    if ended.status != 1 or "never fired" not in ended.output:
        return failed(f"RoCE: {ended.describe()}", ended.evidence())
    return passed(f"{len(EVENTS)} rules")


FAILED = ["event local catastrophic error", "event RDMA_CM_EVENT_DEVICE_REMOVAL", "completions 0", "post Input/output error 1", "region 1",
          "port Input/output error", "modify Input/output error", "open 1", "destroyed"]


def fatal(place: Place) -> Outcome:
    """The request does not end, verbs and connection manager raise their events, calls are refused, and objects can be destroyed."""
    fired = place.directory / "fired.toml"
    program = c_program.compile_program(HERE / "fatal.c", LIBRARIES)
    for words in (("--fault", "adapter after 2 requests: fatal", "--fired", fired), ("--faults", fired)):
        ended = place.run("fatal", run(*words, "--", program), SECONDS)
        lines = [line for line in ended.output.splitlines() if not line.startswith("verbena")]
        if not ended.succeeded or lines != FAILED:
            return failed(f"{ended.describe()}, {lines} is not {FAILED}", ended.evidence())
    # An Ethernet adapter goes down with its interface.
    ended = place.run("fatal", run("--link", "roce", "--fault", "adapter after 0 ms: fatal", "--", "ibv_devinfo"), SECONDS)
    if ended.status != 1 or "never fired" not in ended.output:
        return failed(f"RoCE: {ended.describe()}", ended.evidence())
    return passed()


def fatal_peer(place: Place) -> Outcome:
    """A client whose adapter fails hangs, as it does not look at events; the writes of its server end without an answer."""
    server = "ib_write_bw -b -s 64 -n 100000 > server 2>&1"
    client = f"timeout 10 {VERBENA} run --fault 'adapter after 1000 requests: fatal' -- ib_write_bw -b -s 64 -n 100000 localhost > client 2>&1"
    ended = place.run("pair", run("--", "sh", "-c", f"{server} & first=$!; sleep 1; {client} & wait $first"), SECONDS)
    words = (place.directory / "server").read_text()
    return passed() if "status 12" in words else failed(f"{ended.describe()}: {words}", ended.evidence())


CONNECTIONS = ["rdma_resolve_addr 1: addr-error", "rdma_resolve_route 2: route-error", "rdma_connect 1: rejected",
               "rdma_connect 2: unreachable", "rdma_join_multicast 1: multicast-error"]


def connections(link: str, place: Place) -> Outcome:
    """Each event comes in place of the call's success, once, and the call can be made again; a run is repeated from its file."""
    fired = place.directory / "fired.toml"
    program = c_program.compile_program(HERE / "connections.c", LIBRARIES)
    groups = link == "infiniband"
    resolved, route = ["RDMA_CM_EVENT_ADDR_RESOLVED 0"], ["RDMA_CM_EVENT_ROUTE_RESOLVED 0"]
    wanted = ["RDMA_CM_EVENT_ADDR_ERROR -110", *resolved, *route, "RDMA_CM_EVENT_REJECTED 8",
              *resolved, "RDMA_CM_EVENT_ROUTE_ERROR -110", *route, "RDMA_CM_EVENT_UNREACHABLE -110",
              *resolved, *route, "RDMA_CM_EVENT_REJECTED 28",
              *([*resolved, "RDMA_CM_EVENT_MULTICAST_ERROR -110", "RDMA_CM_EVENT_MULTICAST_JOIN 0"] if groups else [])]
    rules = [word for rule in (CONNECTIONS if groups else CONNECTIONS[:-1]) for word in ("--fault", rule)]
    for words in ((*rules, "--fired", fired), ("--faults", fired)):
        ended = place.run("connections", run("--link", link, *words, "--", program, *(["group"] if groups else [])), SECONDS)
        lines = [line for line in ended.output.splitlines() if line.startswith("RDMA")]
        if not ended.succeeded or lines != wanted:
            return failed(f"{ended.describe()}, {lines} is not {wanted}", ended.evidence())
    return passed(f"{len(rules) // 2} events")


def requests_repeated(place: Place) -> Outcome:
    """50 runs with chance are each repeated from their files."""
    fired, again = place.directory / "fired.toml", place.directory / "again.toml"
    different = set()
    for seed in range(50):
        rule = "qp*.write p 0.2: remote-access"
        first = place.run("first", run("--fault", rule, "--seed", seed, "--fired", fired, "--allow-unfired", "--",
                                       requests(), "write", "post", "plain"), SECONDS)
        if "[[fault]]" not in fired.read_text():
            continue
        second = place.run("second", run("--faults", fired, "--fired", again, "--", requests(), "write", "post", "plain"), SECONDS)
        lines = [[line for line in ended.output.splitlines() if not line.startswith("verbena")] for ended in (first, second)]
        if lines[0] != lines[1] or not second.succeeded or again.read_text() != fired.read_text():
            return failed(f"seed {seed}: {lines[1]} is not {lines[0]}", first.evidence() + second.evidence())
        different.add(tuple(lines[0]))
    return passed(f"{len(different)} different runs") if len(different) > 2 else failed("chance is always the same")


def every_request(place: Place) -> Outcome:
    """Each request fails with each status that it can have, and the program sees it each time."""
    words = ("--requests", "--most", 2, "--json", place.directory / "sweep.json", "--", requests(), "write-imm", "wr", "plain")
    ended = place.run("sweep", sweep(*words), SECONDS)
    runs = json.loads((place.directory / "sweep.json").read_text())["runs"] if ended.status == 0 else []
    wanted = {"qp1.write"}
    if {one["call"] for one in runs} != wanted or len(runs) != 2 * 10:
        return failed(f"{ended.describe()}, {len(runs)} runs", ended.evidence())
    seen = {one["error"] for one in runs if one["outcome"] == "went on"}
    return passed(f"{len(runs)} runs") if len(seen) == 10 else failed(f"only {sorted(seen)}", ended.evidence())


def elsewhere(place: Place) -> Outcome:
    """A rule for other processes refuses nothing, and a program without rules is as before."""
    schedule = place.directory / "faults.toml"
    schedule.write_text('[[fault]]\nprocess = "another program"\nat = "ibv_alloc_pd"\ndo = "ENOMEM"\n')
    ended = place.run("refused", run("--faults", schedule, "--allow-unfired", "--", program()), SECONDS)
    return passed() if ended.succeeded and not printed(ended.output) else failed(ended.describe(), ended.evidence())


PEER = """
[[fault]]
process = "localhost"
peer = "ibv_rc_pingpong -p 18516"
at = "qp*.send 100"
do = "remote-operation"
"""


def peers(place: Place) -> Outcome:
    """Of two clients the one fails whose server is named."""
    rules = place.directory / "peer.toml"
    rules.write_text(PEER)
    servers = "".join(f"timeout 50 ibv_rc_pingpong -p {port} > /dev/null & " for port in (18515, 18516))
    clients = "; ".join(f"timeout 50 ibv_rc_pingpong -p {port} localhost > /dev/null; echo {port} ends with $?" for port in (18515, 18516))
    ended = place.run("pingpong", run("--faults", rules, "--", "sh", "-c", f"{servers} sleep 1; {clients}; wait"), SECONDS)
    if not ended.succeeded or "18515 ends with 0" not in ended.output or "18516 ends with 1" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed()


def peer_addresses(place: Place) -> Outcome:
    """A rule fires only if the peer has the address that it names. Both queue pairs are in one process, and have the port's LID."""
    lid = place.run("lid", run("--", "ibv_devinfo"), SECONDS)
    own = int(re.search(r"port_lid:\s+(\d+)", lid.output)[1])
    for peer, fires in ((f"lid {own}", True), (f"lid {own + 1}", False), ("send post plain", True), ("write post plain", False),
                        ("qpn 0xfffffe", False), ("pid 1", False), ("gid fe80::1", False)):
        for rule in (f"qp1.send 3 peer {peer}: flush", f"qp1.link.out 3 peer {peer}: loss", f"qp2.recv 3 peer {peer}: local-length"):
            ended = place.run("requests", run("--allow-unfired", "--fault", rule, "--", requests(), "send", "post", "plain"), SECONDS)
            if ended.status not in (0, 1) or (f'fault "{rule}" fired' in ended.output) != fires:
                return failed(f"{rule}: {ended.describe()}", ended.evidence())
    return passed()


def peer_gids(place: Place) -> Outcome:
    """Over RoCE a rule fires for the peer's GID, as devinfo prints it or as an IPv4 address, and for no other one. On InfiniBand, where
    these queue pairs have no global route, it does not fire for the port's GID."""
    for link, fires in (("roce", True), ("infiniband", False)):
        shown = place.run("gids", run("--link", link, "--", "ibv_devinfo", "-v"), SECONDS)
        gid = ipaddress.IPv6Address(re.search(r"GID\[\s*0\]:\s+([0-9a-f:.]+)", shown.output)[1])
        meant = [gid, gid.ipv4_mapped] if gid.ipv4_mapped else [gid]
        for peer, is_meant in [*((one, True) for one in meant), ("fe80::1", False), ("192.0.2.1", False)]:
            for rule in (f"qp1.send 3 peer gid {peer}: flush", f"qp1.link.out 3 peer gid {peer}: loss",
                         f"qp2.recv 3 peer gid {peer}: local-length"):
                command = run("--link", link, "--allow-unfired", "--fault", rule, "--", requests(), "send", "post", "plain")
                ended = place.run("requests", command, SECONDS)
                if ended.status not in (0, 1) or (" fired at " in ended.output) != (fires and is_meant):
                    return failed(f"{link}, {rule}: {ended.describe()}", ended.evidence())
    return passed()


def long(place: Place) -> Outcome:
    """A schedule that is too long for a variable of the environment is followed, also by the tracer."""
    rules, fault = place.directory / "long.toml", '[[fault]]\nat = "{}"\ndo = "{}"\n'
    others = (fault.format(f"qp1.link.out {number}..{number + 1}", "corruption") for number in range(100, 9000))
    faults = {"faults-requests": ("qp1.send 3", "flush"), "faults-refused": ("ibv_alloc_pd 1", "ENOMEM")}
    rules.write_text("".join([*others, *(fault.format(at, do) + f'process = "{process}"\n' for process, (at, do) in faults.items())]))
    for command in ((requests(), "send", "post", "plain"), (program(), )):
        ended = place.run("long", run("--allow-unfired", "--faults", rules, "--", *command), SECONDS)
        at, do = next(fault for name, fault in faults.items() if name in command[0].name)
        if f'fault "{at}: {do}" fired' not in ended.output:
            return failed(ended.describe(), ended.evidence())
    return passed(f"{rules.stat().st_size} bytes")


def repeated(place: Place) -> Outcome:
    """50 runs with chance are each repeated from their files."""
    schedule, fired, again = (place.directory / name for name in ("faults.toml", "fired.toml", "again.toml"))
    schedule.write_text(CHANCE)
    different = set()
    for seed in range(50):
        ended = place.run("first", run("--faults", schedule, "--seed", seed, "--fired", fired, "--allow-unfired", "--", program()), SECONDS)
        lines = printed(ended.output)
        if "[[fault]]" not in fired.read_text():
            if lines:
                return failed("faults are not written", ended.evidence())
            continue
        second = place.run("second", run("--faults", fired, "--fired", again, "--", program()), SECONDS)
        if (printed(second.output), second.status) != (lines, ended.status):
            return failed(f"seed {seed}: {printed(second.output)} is not {lines}", ended.evidence() + second.evidence())
        if again.read_text() != fired.read_text():
            return failed(f"seed {seed}: the failed calls are written differently", again.read_text())
        different.add(tuple(lines))
    # Three failures in a row crash the program. The next run removes the state of a crashed one.
    place.run("last", run("--", program()), SECONDS)
    return passed(f"{len(different)} different runs") if len(different) > 5 else failed("chance is always the same")


def outcomes(place: Place, *words: object) -> tuple[int, list[dict], str]:
    """The exit status and the runs of a sweep; JUnit's file has as many, and as many failures."""
    report, junit = place.directory / "sweep.json", place.directory / "sweep.xml"
    ended = place.run("sweep", sweep("--json", report, "--junit", junit, *words), SECONDS)
    if not report.exists():
        return ended.status, [], ended.evidence()
    runs = json.loads(report.read_text())["runs"]
    suite = ElementTree.parse(junit).getroot()
    bad = sum(one["outcome"] in ("crashed", "hung", "wrong exit") for one in runs)
    assert (int(suite.get("tests", "")), int(suite.get("failures", ""))) == (len(runs), bad), ended.output
    assert len(suite.findall("testcase/failure")) == bad, ended.output
    return ended.status, runs, ended.evidence()


def every(place: Place) -> Outcome:
    """Each call is failed by itself, and none of these failures makes the program crash or hang."""
    status, runs, evidence = outcomes(place, "--calls", "*", "--error", "EPERM", "--", program())
    calls = [one["call"] for one in runs if one["outcome"] in ("went on", "reported")]
    if status != 0 or set(CALLS) - set(calls) or len(calls) != len(runs):
        return failed(f"exit status {status}, {sorted(set(CALLS) - set(calls))} are missing", evidence)
    return passed(f"{len(runs)} runs")


def found(place: Place) -> Outcome:
    """A lasting failure makes one program hang, one crash, and one end with an exit code."""
    for way, outcome, status in (("hang", "hung", 1), ("crash", "crashed", 1), ("", "reported", 0)):
        words = ("--lasting", "--most", 1, "--timeout", 5, "--calls", "ibv_alloc_pd", "--", program(), way)
        ended, runs, evidence = outcomes(place, *words)
        if (ended, [one["outcome"] for one in runs]) != (status, [outcome]):
            return failed(f"{way}: exit status {ended}, {runs}", evidence)
    # The next process removes the remains of killed ones.
    after = place.run("next", run("--", program()), SECONDS)
    return passed() if after.succeeded else failed(after.describe(), after.evidence())


def pair(server: str, client: str, calls: tuple[str, ...], place: Place) -> Outcome:
    """Two programs of others: calls of either fail by themselves, and neither crashes or hangs."""
    script = (f"{server} & server=$!; sleep 0.5; timeout 5 {client}; result=$?; timeout 2 tail --pid=$server -f /dev/null; "
              "kill $server 2>/dev/null; wait $server && exit $result; exit 1")
    words = [word for call in calls for word in ("--calls", call)]
    status, runs, evidence = outcomes(place, "--timeout", 30, "--most", 1, *words, "--", "sh", "-c", script)
    kinds = {one["outcome"] for one in runs}
    processes = {one["process"] for one in runs}
    # The next process removes the remains of killed ones.
    after = place.run("next", run("--", program()), SECONDS)
    if not after.succeeded:
        return failed(after.describe(), after.evidence())
    if len(runs) < 6 or len(processes) < 2 or "reported" not in kinds or kinds - {"reported", "went on"}:
        return failed(f"exit status {status}, {len(runs)} runs: {sorted(kinds)}", evidence)
    return passed(f"{len(runs)} runs")


def mistakes() -> Path:
    """mistakes.c, compiled."""
    return c_program.compile_program(HERE / "mistakes.c", LIBRARIES)


def explore(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "faults", "explore", *map(str, words)]


def leaks(place: Place) -> Outcome:
    """The objects that a program leaves where it fails are named, and only with --leaks."""
    for words, code, line in (((), 0, "2 runs: 2 reported"), (("--leaks", ), 1, "LEAKED 1 cq (exit code 1)")):
        ended = place.run("sweep", sweep(*words, "--calls", "ibv_create_qp", "--", mistakes(), 2), SECONDS)
        if ended.status != code or line not in ended.output:
            return failed(f"{words}: {ended.describe()}, not {code} with {line!r}", ended.evidence())
    return passed()


def right(place: Place) -> Outcome:
    """A program without mistakes survives 200 seeds, and leaves nothing."""
    ended = place.run("explore", explore("--leaks", "--seeds", 200, "--", mistakes()), SECONDS)
    if not ended.succeeded or "200 runs: " not in ended.output or " 0 crashed, 0 hung" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed(ended.output.strip().splitlines()[-1])


# How the runs with each mistake of mistakes.c end.
ENDS = {1: "CRASHED (SIGSEGV)", 2: "LEAKED 1 cq", 3: "HUNG", 4: "HUNG", 5: "CRASHED (SIGABRT)", 6: "HUNG", 7: "HUNG",
        8: "CRASHED (SIGABRT)", 9: "LEAKED ", 10: "CRASHED (SIGABRT)", 11: "HUNG"}
# The program may end before it takes an event, so this is not found in each run with the same faults.
BY_EVENT = 8
# Each run of the search for the fewest faults hangs; by night.
SLOW = (4, 6, 7, 11)


def mistake(number: int, place: Place) -> Outcome:
    """One of 200 seeds finds the mistake, a single fault is enough for it, and its file repeats it."""
    outcome = found_mistake(number, place)
    # The next process removes the remains of killed ones.
    place.run("next", run("--", mistakes()), SECONDS)
    return outcome


def found_mistake(number: int, place: Place) -> Outcome:
    """The same, without the last process."""
    program, out = mistakes(), place.directory / "found"
    ended = place.run("explore", explore("--leaks", "--fail-fast", "--seeds", 200, "--timeout", 5, "--repeats", 2, "--out", out, "--", program, number),
                      SECONDS)
    found = [line for line in ended.output.splitlines() if any(word in line for word in ("CRASHED", "HUNG", "LEAKED"))]
    files = list(out.glob("seed-*.toml"))
    if ended.status != 1 or len(found) != 1 or ENDS[number] not in found[0] or len(files) != 1:
        return failed(f"{ended.describe()}, {found}, not {ENDS[number]}", ended.evidence())
    if number == BY_EVENT:
        return passed(found[0])
    if files[0].read_text().count("[[fault]]") != 1:
        return failed("more than one fault is left", files[0].read_text(), ended.evidence())
    again = place.run("again", run("--faults", files[0], "--", "timeout", "--signal=KILL", 3, program, number), SECONDS)
    codes = {"CRASHED (SIGSEGV)": 139, "CRASHED (SIGABRT)": 134, "HUNG": 137}
    if again.status != codes.get(ENDS[number], 1):
        return failed(f"the faults of {files[0].name} do not repeat it: {again.describe()}", again.evidence())
    return passed(found[0])


def same_seeds(place: Place) -> Outcome:
    """The same seeds draw the same faults, and a later first seed those of the later ones."""
    drawn = []
    for first, seeds in ((1, 30), (1, 30), (21, 10)):
        file = place.directory / "runs.json"
        ended = place.run("explore", explore("--first", first, "--seeds", seeds, "--no-shrink", "--json", file, "--", mistakes()), SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        drawn.append([(one["seed"], one["faults"]) for one in json.loads(file.read_text())["runs"]])
    if len(drawn[0]) != 30 or drawn[0] != drawn[1] or drawn[0][20:] != drawn[2]:
        return failed("seeds draw other faults", json.dumps(drawn))
    return passed()


def chances(place: Place) -> Outcome:
    """The chances of a file are tried with each seed; failures are reduced to those that fired."""
    file = place.directory / "chances.toml"
    file.write_text('[[fault]]\nat = "ibv_reg_mr p 0.3"\ndo = "ENOMEM"\n[[fault]]\nat = "qp1.read p 0.05"\ndo = "remote-access"\n')
    ended = place.run("explore", explore("--faults", file, "--seeds", 40, "--", mistakes(), 1), SECONDS)
    if ended.status != 1 or 'needs "ibv_reg_mr 1: ENOMEM"' not in ended.output or "as with seed" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed()


def shrinking(place: Place) -> Outcome:
    """One fault of sixty is left, as a file that repeats the crash; faults that change nothing are refused."""
    noise = [f'[[fault]]\nat = "qp1.write {number}"\ndo = "flush"\n' for number in range(100, 158)]
    crash = '[[fault]]\nat = "ibv_reg_mr 1..4"\ndo = "ENOMEM"\n[[fault]]\nat = "qp1.send 3"\ndo = "remote-operation"\n'
    file, least = place.directory / "many.toml", place.directory / "least.toml"
    file.write_text("\n".join([*noise[:20], crash, *noise[20:]]))
    command = [str(VERBENA), "faults", "shrink", "--timeout", "20"]
    ended = place.run("shrink", [*command, "--out", str(least), str(file), "--", str(mistakes()), "1"], SECONDS)
    if not ended.succeeded or "SIGSEGV with 60 faults" not in ended.output or "SIGSEGV with 1 fault\n" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    again = place.run("again", run("--faults", least, "--", mistakes(), 1), SECONDS)
    if again.status != 139:
        return failed(f"{again.describe()} with the faults that are left", least.read_text(), again.evidence())
    for text, message in ((noise[0], "the command ends with"), ("", "no [[fault]]"), ("[[fault]]\nat = 3", "at")):
        file.write_text(text)
        ended = place.run("refused", [*command, str(file), "--", str(mistakes()), "1"], SECONDS)
        if ended.status != 2 or message not in ended.output:
            return failed(f"{text!r}: {ended.describe()}, not refused with {message!r}", ended.evidence())
    return passed()


def wrong(place: Place) -> Outcome:
    """Wrong rules and files are refused with exit status 2 and a message that names them."""
    files = {"empty": "", "nokey": '[[fault]]\nat = "ibv_reg_mr"\n', "key": "sede = 1\n", "call": '[[fault]]\nat = "ibv_x"\ndo = "EIO"\n',
             "binary": "\0", "large": "#" * (2 << 20)}
    for name, text in files.items():
        (place.directory / name).write_text(text)
    wanted = [
        (run("--fault", "ibv_reg_mr", "--", "true"), "expected CALL"),
        (run("--fault", "ibv_reg: ENOMEM", "--", "true"), "did you mean ibv_reg_mr"),
        (run("--fault", "ibv_destroy_qp: EBUSY", "--", "true"), "not a call that can fail"),
        (run("--fault", "ibv_reg_mr 0: ENOMEM", "--", "true"), "is not N"),
        (run("--fault", "ibv_reg_mr: NOMEM", "--", "true"), "not the name of an error"),
        (run("--fault", "qp1.writes: flush", "--", "true"), "is not qpN.OPERATION"),
        (run("--fault", "port1 3: down", "--", "true"), "events begin"),
        (run("--fault", "rdma_connect 1: addr-error", "--", "true"), "or an event of rdma_connect: rejected, unreachable"),
        (run("--fault", "port1 after 1 s: up", "--", "true"), "is not an event of a port"),
        (run("--fault", "qp0.write: flush", "--", "true"), "is not qpN.OPERATION"),
        (run("--fault", "qp1.send 2: remote-access", "--", "true"), "cannot end with"),
        (run("--fault", "qp1.recv: retry-exceeded", "--", "true"), "only with local-length, local-protection"),
        (sweep("--requests", "--", program()), "made no requests"),
        (run("--fault", "link.out after 1 s: cut", "--", "true"), "cannot be cut"),
        (run("--fault", "link: lose", "--", "true"), "not a fault of a link"),
        (run("--seed", 1, "--", "true"), "no fault is given"),
        (run("--faults", place.directory / "absent", "--", "true"), "absent"),
        (run("--faults", "/dev/zero", "--", "true"), "larger than 64 MiB"),
        (run("--faults", place.directory, "--", "true"), "cannot use"),
        *((run("--faults", place.directory / name, "--", "true"), str(name)) for name in files),
        (sweep("--calls", "ibv_nothing*", "--", "true"), "ibv_nothing*"),
        (sweep("--", "true"), "made none of these calls"),
        (sweep("--", "false"), "fails without any fault"),
        (sweep("--timeout", 0, "--", "true"), "seconds"),
    ]
    for command, words in wanted:
        ended = place.run("wrong", command, SECONDS)
        if ended.status != 2 or words not in ended.output:
            return failed(f"{command[1:]}: {ended.describe()}, without {words!r}", ended.evidence())
    return passed(f"{len(wanted)} inputs")


def unfired(place: Place) -> Outcome:
    """A fault that never fires makes a run fail, unless that is allowed; a program's own failure comes first."""
    rule = ("--fault", "ibv_alloc_mw: ENOMEM")
    for words, status in (((*rule, "--", program()), 1), ((*rule, "--allow-unfired", "--", program()), 0),
                          ((*rule, "--", "sh", "-c", "exit 7"), 7)):
        ended = place.run("unfired", run(*words), SECONDS)
        if ended.status != status or "never fired" not in ended.output:
            return failed(f"{words}: {ended.describe()}", ended.evidence())
    schedule = place.directory / "other.toml"
    schedule.write_text('[[fault]]\nprocess = "./another"\nat = "ibv_alloc_pd"\ndo = "ENOMEM"\n')
    ended = place.run("unfired", run("--faults", schedule, "--", program()), SECONDS)
    if ended.status != 1 or 'never fired (the rule is for processes with "./another" in their command line)' not in ended.output:
        return failed(f"the rule of another process: {ended.describe()}", ended.evidence())
    return passed()


def often(place: Place) -> Outcome:
    """Of 100,003 failures a process records 1,000, and messages say that there were more."""
    fired = place.directory / "fired.toml"
    ended = place.run("often", run("--fault", "ibv_alloc_pd: ENOMEM", "--fired", fired, "--", program(), "often"), SECONDS)
    written = fired.read_text().count("[[fault]]")
    if ended.status != 2 or written != 1000 or "at least 1000 times" not in ended.output or "only the first 1000" not in ended.output:
        return failed(f"{ended.describe()}, {written} failures are written", ended.evidence())
    return passed()
