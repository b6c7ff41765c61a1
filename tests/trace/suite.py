"""`verbena trace` and `verbena coverage`: their reports equal the calls of the programs, and the programs do the same as
without them."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path

from harness import c_program, counters
from harness.build_tree import VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import exchange, free_port
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

from . import coverage

TITLE = "verbena trace and verbena coverage"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("ib_send_bw", "perftest"),
            Tool("ucx_perftest", "ucx-utils"), Tool("rping", "rdmacm-utils")]

HERE = Path(__file__).resolve().parent
SECONDS = 60
ROUNDS = 200
SIZE = 4096
# Named by its file: it has its own `main`, unlike the programs of `tests/common`.
LIBRARY = ("-l:libibverbs.so.1",)
LINE = re.compile(r"\[(\d+)(?:/\d+)?\] (\w+)\((.*?)\)(?: = (.*?))?(?: \((\d+) times\))?")
# The calls of both processes of calls.c.
EXPECTED = [
    r'ibv_get_device_list(&count) = ["verbena0"]',
    'ibv_open_device("verbena0") = ctx1',
    "ibv_alloc_pd(ctx1) = pd1",
    "ibv_reg_mr(pd1, ADDRESS, 8192 B, REMOTE_WRITE) = EINVAL",
    "ibv_reg_mr(pd1, ADDRESS, 8192 B, LOCAL_WRITE|REMOTE_READ) = mr1 {lkey=KEY, rkey=KEY}",
    "ibv_create_cq(ctx1, cqe=16, NULL, vector=0) = cq1",
    "ibv_create_qp(pd1, {RC, send_cq=cq1, recv_cq=cq1, cap={send_wr=4, recv_wr=4, send_sge=1, recv_sge=1, inline=16}}) = qp1"
    " {qp_num=KEY}",
    "ibv_post_send(qp1, [{wr_id=0x7, SEND, 1 buffers}]) = EINVAL (request 0)",
    "ibv_query_port(ctx1, port=1) = 0 {state=ACTIVE, active_mtu=4096, lid=0x1, gid_tbl_len=8}",
    "ibv_query_gid(ctx1, port=1, index=0) = 0 GID",
    "ibv_modify_qp(qp1, {state=INIT, pkey_index=0, port=1, access=0}) = 0",
    "ibv_modify_qp(qp1, {state=RTR, mtu=1024, dest_qp=KEY, rq_psn=0x0, dest_rd_atomic=1, min_rnr_timer=1,"
    " path={port=1, dlid=0x1, sl=0, dgid=GID, sgid_index=0, hop_limit=1, traffic_class=0x0}}) = 0",
    "ibv_modify_qp(qp1, {state=RTS, sq_psn=0x0, rd_atomic=1, timeout=14, retry_cnt=7, rnr_retry=7}) = 0",
    "ibv_post_recv(qp1, [{wr_id=0x5, ADDRESS 4096 B lkey=KEY}]) = 0",
    "ibv_post_send(qp1, [{wr_id=0x7, SEND, ADDRESS 100 B lkey=KEY, SIGNALED}]) = 0",
    "COMPLETIONS",
    "ibv_dealloc_pd(pd1) = EBUSY",
    "ibv_destroy_qp(qp1) = 0",
    "ibv_destroy_cq(cq1) = 0",
    "ibv_dereg_mr(mr1) = 0",
    "ibv_dealloc_pd(pd1) = 0",
    "ibv_close_device(ctx1) = 0",
]


def cases() -> list[Case]:
    """All."""
    return [
        Case("every call, its arguments and its result", "", known),
        Case("a program that is killed", "", killed),
        *(Case("as often as the adapter counts", words, partial(counted, words.split()))
          for words in ("ibv_rc_pingpong", "ibv_rc_pingpong -N", "ibv_rc_pingpong -t -N", "ib_send_bw", "ib_write_bw",
                        "ib_read_bw --use_old_post_send")),
        Case("a library that a plug-in loads", "ucx_perftest", plugged_in),
        Case("the table alone, of the system's library", "", system),
        Case("what cannot be", "", refusals),
        *coverage.cases(),
    ]


def trace(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "trace", *map(str, words)]


def told(file: Path) -> list[re.Match]:
    """The lines of a file; each must be one."""
    lines = [LINE.fullmatch(line) for line in file.read_text().splitlines()]
    if None in lines:
        raise AssertionError(f"line {lines.index(None) + 1} of {file} is malformed")
    return lines


def plain(line: re.Match) -> str:
    """A line without the parts that differ from run to run."""
    text = re.sub(r"(?:[0-9a-f]{4}:){7}[0-9a-f]{4}", "GID", line[0].partition("] ")[2])
    text = re.sub(r"\b(lkey|rkey|qp_num|dest_qp|qp)=0x[0-9a-f]+", r"\1=KEY", text)
    return re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", text)


def known(place: Place) -> Outcome:
    """A program whose calls are known, with a child that does the same."""
    program = c_program.compile_program(HERE / "calls.c", LIBRARY)
    out = place.directory / "calls"
    ended = place.run("calls", trace("--out", out, "--", program), SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    lines = told(out)
    processes = list(dict.fromkeys(line[1] for line in lines))
    if len(processes) != 2:
        return failed(f"calls of {len(processes)} processes", out.read_text())
    for process in processes:
        texts, statuses = [], 0
        for line in (line for line in lines if line[1] == process):
            if line[2] == "ibv_poll_cq":
                statuses += line[4].count("SUCCESS")
                if line[4] == "0" or statuses < 2:
                    continue
                texts.append("COMPLETIONS")
            else:
                # The child counts on: its objects have other numbers than its parent's.
                texts.append(re.sub(r"\b(ctx|pd|mr|cq|qp)2\b", r"\g<1>1", plain(line)))
        wrong = [f"{at}: {text!r}, not {expected!r}"
                 for at, (text, expected) in enumerate(zip(texts, EXPECTED)) if text != expected]
        if wrong or len(texts) != len(EXPECTED):
            return failed(f"{len(texts)} calls, {len(EXPECTED)} expected; {wrong[:3]}", out.read_text())
    return passed(f"{len(lines)} lines")


def killed(place: Place) -> Outcome:
    """A process' calls before it was killed are not lost."""
    program = c_program.compile_program(HERE / "calls.c", LIBRARY)
    out = place.directory / "calls"
    ended = place.run("calls", trace("--out", out, "--", program, "killed"), SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    lines = told(out)
    last = {line[1]: plain(line) for line in lines}
    if sorted(last.values()) != ["ibv_close_device(ctx2) = 0", "ibv_dealloc_pd(pd2) = 0"]:
        return failed(f"the last traced calls are {last}", out.read_text())
    return passed(f"{len(lines)} lines")


def counted(words: list[str], place: Place) -> Outcome:
    """Both ends traced; the posted requests are those that the adapter counts, and each receive was polled."""
    port = free_port()
    many = ["-n", str(ROUNDS), "-s", str(SIZE), "-p", str(port)]
    outs = [place.directory / name for name in ("server.calls", "client.calls")]
    if words[0].startswith("ibv_"):
        many += ["-g", "0"]
    server, client = ([*trace("--out", out, "--"), *words, *many] for out in outs)
    both = exchange(place, server, [*client, "localhost"], port, SECONDS)
    outcome = both.outcome()
    if outcome.reason:
        return outcome
    posted, received, posts = 0, 0, 0
    for line in (line for out in outs for line in told(out)):
        if line[2] in ("ibv_post_send", "ibv_wr_complete"):
            requests = line[3].count("{wr_id=")
            more = re.search(r"\.\.\. (\d+) more", line[3])
            posts += requests + (int(more[1]) if more else 0)
            posted += sum(map(int, re.findall(r" (\d+) B lkey", line[3])))
        if line[2] in ("ibv_poll_cq", "ibv_start_poll", "ibv_next_poll"):
            received += len(re.findall(r"SUCCESS, RECV", line[4]))
    count: Counter = counters.total(place)
    operations = sum(count[f"{name}_operations"] for name in ("send", "write", "read"))
    if posts != operations or posted != posts * SIZE:
        return failed(f"{posts} requests of {posted} bytes traced, {operations} counted", both.evidence())
    if received > count["receive_operations"] or (words[0] == "ibv_rc_pingpong" and received != 2 * ROUNDS):
        return failed(f"{received} receives traced, {count['receive_operations']} counted", both.evidence())
    return passed(f"{posts} requests, {received} receives")


def plugged_in(place: Place) -> Outcome:
    """UCX loads the library by a plug-in, where the tracer's own objects do not see it."""
    port = free_port()
    server, client = (
        trace("--out", place.directory / f"{name}.calls", "--", "ucx_perftest", "-p", port, *more)
        for name, more in (("server", ()), ("client", ("-t", "tag_lat", "-n", 100, "-w", 10, "localhost"))))
    both = exchange(place, server, client, port, SECONDS, UCX_TLS="rc_verbs,ud_verbs:aux",
                    UCX_NET_DEVICES="verbena0:1")
    outcome = both.outcome()
    if outcome.reason:
        return outcome
    names = {line[2] for line in told(place.directory / "client.calls")}
    missing = {"ibv_open_device", "ibv_post_send", "ibv_poll_cq", "ibv_post_srq_recv"} - names
    return failed(f"no {missing}", both.evidence()) if missing else passed(f"{len(names)} different calls")


def system(place: Place) -> Outcome:
    """The system's library has no devices here; the trace says so, too."""
    ended = place.run("devices", trace("--system", "--summary", "--", "ibv_devices"), SECONDS)
    if "ibv_get_device_list" not in ended.output or "[" in ended.output:
        return failed("not the table alone", ended.evidence())
    return passed()


def refusals(place: Place) -> Outcome:
    """Words instead of surprises."""
    program = ["true"]
    for words, status, expected in (
            (trace("--out", place.directory / "absent/file", "--", *program), 2, "cannot write"),
            (trace("--summary", "--times", "--", *program), 2, "--times"),
            (trace("--", "no-such-program"), 127, "no-such-program"),
            (trace("--", *program), 0, "no verbs call was traced"),
            (trace("--", "sh", "-c", "exit 42"), 42, "no verbs call was traced")):
        ended = place.run("trace", words, SECONDS)
        if ended.status != status or expected not in ended.output:
            return failed(f"status {ended.status}, not {status} with {expected!r}", ended.evidence())
    untraced = place.run("run", run("true"), SECONDS)
    return passed() if untraced.succeeded else failed(untraced.describe())
