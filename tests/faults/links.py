"""Links that lose, repeat, reorder, delay and end by rules: reliable connections hide it until their retries end, datagrams do not,
perftest measures it, and a run with chance is repeated."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from harness import c_program, counters
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

HERE = Path(__file__).resolve().parent
SECONDS = 60
LIBRARIES = ("-l:libibverbs.so.1", "-l:librdmacm.so.1")
SUCCESS, FLUSHED, RETRIES = 0, 5, 12
READY, ERROR = 3, 6
ALL, THIRD = [SUCCESS] * 6, [SUCCESS, SUCCESS, RETRIES, *[FLUSHED] * 3]
# Operation, rule, statuses of the client's requests, number of messages that the server receives. The queue pairs repeat once.
REQUESTS = [
    ("write", "qp1.link.out 3: loss", ALL, 0),
    ("send", "qp1.link.in 3: loss", ALL, 6),
    ("read", "qp1.link.in 3: loss", ALL, 0),
    ("fetch-add", "qp1.link.out every 3: corruption", ALL, 0),
    ("send", "qp1.link.out 3..4: loss", THIRD, 2),
    ("write", "qp1.link.out 3..4: loss", THIRD, 0),
    ("read", "link1.out 3..4: corruption", THIRD, 0),
    # Executed, but the requester cannot know.
    ("send", "qp1.link.in 3..4: loss", THIRD, 6),
    ("write-imm", "qp1.link.in 3..4: loss", THIRD, 6),
    ("compare-swap", "qp1.link.in 3..4: loss", THIRD, 0),
    ("write", "link: delay 10 ms", ALL, 0),
    ("read", "link.in: jitter 20 ms", ALL, 0),
    ("send", "link.out: rate 100 kb/s", ALL, 6),
    ("write", "link after 3 requests: cut for 30 ms", ALL, 0),
    ("write", "link after 3 requests: cut", [*[SUCCESS] * 3, RETRIES, *[FLUSHED] * 2], 0),
]
# Rule, numbers of the datagrams that arrive.
DATAGRAMS = [
    ("qp1.link.out 3: loss", [1, 2, 4, 5, 6]),
    ("link.out every 2: corruption", [1, 3, 5]),
    ("qp1.link.out 3: duplicate", [1, 2, 3, 3, 4, 5, 6]),
    ("qp1.link.out 3: reorder", [1, 2, 4, 3, 5, 6]),
    ("link.out: delay 5 ms", [1, 2, 3, 4, 5, 6]),
    ("link.out 4..: loss", [1, 2, 3]),
]
TYPICAL = re.compile(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", re.MULTILINE)
AVERAGE = re.compile(r"^ *\d+ +\d+ +[\d.]+ +([\d.]+)\s+[\d.]+ *$", re.MULTILINE)
ANY = 10**6
# Program, rule, pattern of its figure, the least and the most that is right: times are never shorter than the rule says, and
# rates never higher, however busy the machine is. Times are those of one way, for a read of both.
FIGURES = [
    (("ib_write_lat", "-s", "8", "-n", "300"), "link.out: delay 500 us", TYPICAL, 500, ANY),
    (("ib_send_lat", "-s", "8", "-n", "300"), "link: delay 500 us", TYPICAL, 500, ANY),
    (("ib_read_lat", "-s", "8", "-n", "300"), "link: delay 500 us", TYPICAL, 1000, ANY),
    (("ib_write_bw", "-s", "65536", "-n", "300"), "link.out: rate 1 Gb/s", AVERAGE, 1, 120),
    (("ib_read_bw", "-s", "65536", "-n", "300"), "link.in: rate 1 Gb/s", AVERAGE, 1, 120),
    # A stream goes on while its messages are on their way: one at a time would be 31 MB/s.
    (("ib_write_bw", "-s", "65536", "-n", "1000"), "link: delay 1 ms", AVERAGE, 50, ANY),
    (("ib_write_bw", "-s", "4096", "-n", "1000"), "link: loss 1%", AVERAGE, 1, ANY),
    (("ib_send_bw", "-s", "4096", "-n", "1000"), "link: loss 1%", AVERAGE, 1, ANY),
    (("ib_atomic_bw", "-n", "1000"), "link: loss 1%", AVERAGE, 0.01, ANY),
]


def cases() -> list[Case]:
    """All."""
    return [
        *(Case("links", f"reliable connections, {path}", partial(requests, path)) for path in ("mapped", "ring")),
        Case("links", "damaged messages are counted", damaged),
        Case("links", "datagrams", datagrams),
        *(Case("links", f"{program[0]}, {rule}", partial(figure, program, rule, pattern, least, most))
          for program, rule, pattern, least, most in FIGURES),
        Case("links", "a run is repeated", repeated),
        Case("links", "a file", of_file),
    ]


def run(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "run", *map(str, words)]


def program() -> Path:
    """requests.c, compiled."""
    return c_program.compile_program(HERE / "requests.c", LIBRARIES)


def lines_of(output: str) -> list[str]:
    """The lines of requests.c."""
    return [line for line in output.splitlines() if line.split(" ")[0] in ("client", "server", "event")]


def requests(path: str, place: Place) -> Outcome:
    """Requests complete in order as far as the retries last, the server stays ready, and there is no event."""
    for operation, rule, ends, arrived in REQUESTS:
        ended = place.run("requests", run("--path", path, "--fault", rule, "--", program(), operation, "post", "plain"), SECONDS)
        wanted = [*(f"client request {number} {end}" for number, end in enumerate(ends, 1)),
                  *(f"server receive {number} {SUCCESS}" for number in range(1, arrived + 1)),
                  f"client state {READY if ends == ALL else ERROR}", f"server state {READY}"]
        if not ended.succeeded or lines_of(ended.output) != wanted or f'fault "{rule}" fired' not in ended.output:
            return failed(f"{operation}, {rule}: {ended.describe()}, {lines_of(ended.output)} is not {wanted}", ended.evidence())
    return passed(f"{len(REQUESTS)} rules")


def damaged(place: Place) -> Outcome:
    """Each corruption counts one damaged packet."""
    ended = place.run("requests", run("--fault", "qp1.link 2..3: corruption", "--", program(), "read", "post", "plain"), SECONDS)
    count = counters.total(place)["damaged_packets"]
    # Messages 2 and 3 to the responder, and of the answers to it.
    return passed() if ended.succeeded and count == 4 else failed(f"{ended.describe()}, {count} damaged packets", ended.evidence())


def datagrams(place: Place) -> Outcome:
    """Datagrams are lost, repeated and overtaken without any status."""
    sender = c_program.compile_program(HERE / "links.c")
    for rule, numbers in DATAGRAMS:
        ended = place.run("datagrams", run("--fault", rule, "--", sender, "datagrams"), SECONDS)
        wanted = " ".join(["arrived", *map(str, numbers)])
        if not ended.succeeded or wanted not in ended.output.splitlines() or f'fault "{rule}" fired' not in ended.output:
            return failed(f"{rule}: {ended.describe()}, not {wanted!r}", ended.evidence())
    return passed(f"{len(DATAGRAMS)} rules")


def figure(command: tuple[str, ...], rule: str, pattern: re.Pattern[str], least: float, most: float, place: Place) -> Outcome:
    """perftest ends without an error, and measures the link that the rule describes."""
    words = " ".join((*command, "-F"))
    script = f"{words} > server 2>&1 & server=$!; sleep 0.5; {words} localhost; result=$?; wait $server && exit $result; exit 1"
    ended = place.run("pair", run("--seed", 3, "--fault", rule, "--", "sh", "-c", script), SECONDS)
    found = pattern.search(ended.output)
    if not ended.succeeded or not found or not least <= float(found.group(1)) <= most:
        return failed(f"{ended.describe()}, {found and found.group(1)} is not in {least} to {most}", ended.evidence())
    return passed(found.group(1))


def repeated(place: Place) -> Outcome:
    """Runs with chance are each repeated from their files, with the same messages lost."""
    fired, again = place.directory / "fired.toml", place.directory / "again.toml"
    different = set()
    for seed in range(50):
        command = ("--", program(), "write", "post", "plain")
        first = place.run("first", run("--fault", "link: loss 30%", "--seed", seed, "--fired", fired, "--allow-unfired", *command), SECONDS)
        if "[[fault]]" not in fired.read_text():
            continue
        second = place.run("second", run("--faults", fired, "--fired", again, *command), SECONDS)
        lines = [lines_of(ended.output) for ended in (first, second)]
        if lines[0] != lines[1] or not second.succeeded or again.read_text() != fired.read_text():
            return failed(f"seed {seed}: {lines[1]} is not {lines[0]}", first.evidence() + second.evidence())
        different.add(tuple(lines[0]))
    return passed(f"{len(different)} different ends") if len(different) > 2 else failed(f"{len(different)} different ends")


def of_file(place: Place) -> Outcome:
    """[[link]] of a file has a fault for each key; wrong ones are refused."""
    file = place.directory / "links.toml"
    file.write_text('seed = 1\n[[link]]\nprocess = "requests"\ndirection = "out"\nloss = 0.5\ndelay = "100 us"\n')
    ended = place.run("requests", run("--faults", file, "--", program(), "send", "post", "plain"), SECONDS)
    if not all(f'fault "{name}" fired' in ended.output for name in ("link.out p 0.5: loss", "link.out: delay 100 us")):
        return failed(ended.describe(), ended.evidence())
    for text, message in (("[[link]]\nport = 1\n", "none of loss"), ('[[link]]\ndelay = "5"\n', "not a fault of a link"),
                          ("[[link]]\nloss = 7\n", "not a fault of a link"), ("[[link]]\nlosses = 0.1\n", "unknown field")):
        file.write_text(text)
        ended = place.run("wrong", run("--faults", file, "--", "true"), SECONDS)
        if ended.status != 2 or message not in ended.output:
            return failed(f"{text!r}: {ended.describe()}, not refused with {message!r}", ended.evidence())
    return passed()
