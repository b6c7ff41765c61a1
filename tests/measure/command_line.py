"""The output of `verbena` to a terminal, to programs and to a shell."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .figures import benchmarks
from .records import records

SECONDS = 900


def bar(place: Place) -> Outcome:
    """One bar with an estimate on a terminal; in a pipe no line but results, and no control character."""
    command = [str(VERBENA), "bench", "latency.write", "latency.read", "--quick", "--sizes", "8", "--launches", "2"]
    piped = subprocess.run(command, env=place.environment(), capture_output=True, text=True, timeout=SECONDS, check=False)
    if piped.returncode != 0 or piped.stderr or "\x1b" in piped.stdout or "\r" in piped.stdout:
        return failed(f"exit {piped.returncode}, on standard error {piped.stderr!r}")
    main, end = pty.openpty()
    # A terminal has a width.
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(command, env=place.environment(TERM="xterm"), stdout=subprocess.DEVNULL, stderr=end) as process:
        os.close(end)
        shown = b""
        try:
            while chunk := os.read(main, 4096):
                shown += chunk
        except OSError:
            pass  # No process has the terminal open any more.
    os.close(main)
    text = shown.decode(errors="replace")
    if "/4 " not in text or "latency.read" not in text or "left" not in text:
        return failed("there is no bar with an estimate", repr(text[:2000]))
    return passed("4 steps")


def as_json(place: Place) -> Outcome:
    """`list` and `bench` answer programs, and say the same as to people."""
    listed = place.run("list", [str(VERBENA), "list", "--json"], 20)
    names = [one["name"] for one in json.loads(listed.output)["benchmarks"]]
    if names[:len(benchmarks())] != benchmarks():
        return failed(f"other benchmarks than in the table: {names}")
    ended = place.run("bench", [str(VERBENA), "bench", "latency.write", "--on", "model:connectx-ddr", "--sizes", "8,64",
                                "--json"], SECONDS)
    (run,) = json.loads(ended.output)["runs"]
    sizes = {point["parameters"]["size"] for point in run["points"]}
    if run["run"]["device"] != "connectx-ddr" or sizes != {8, 64}:
        return failed(f"{run['run']['device']}, sizes {sizes}", ended.evidence())
    figure = run["points"][0]["figures"][0]
    return passed(f"{figure['name']} {figure['value']:.0f} {figure['unit']}")


# Fields of a record of the software adapter beside host and versions.
ADAPTER = {"device": "verbena0 port 1", "link": "memory of this host", "MTU": "4096 B", "path": "cma"}


def labelled(place: Place) -> Outcome:
    """A run has the user's label, and its record names the adapter and the identifier of its port."""
    out = place.directory / "out"
    command = [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8", "--label", "before <the> change",
               "--out", str(out)]
    ended = place.run("bench", command, SECONDS, "cma")
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    run = records(out)[0]
    known = run["environment"]
    if run["label"] != "before <the> change" or "latency.write on before <the> change" not in ended.output:
        return failed(f"it is called {run['label']!r}", ended.evidence())
    if wrong := {name: known.get(name) for name, value in ADAPTER.items() if known.get(name) != value}:
        return failed(f"the record says {wrong}")
    if not re.fullmatch(r"fe80::\S+ \(index 0, InfiniBand\)", known["GID"]) or not known["libibverbs"].startswith("/"):
        return failed(f"GID {known['GID']!r}, library {known['libibverbs']!r}")
    report = (out / "report.html").read_text()
    if missing := [word for word in ("before &lt;the&gt; change", known["GID"]) if word not in report]:
        return failed(f"the report does not say {missing}")
    told = json.loads(place.run("info", [str(VERBENA), "info", "--json"], 20).output)
    (mark,) = [gid for gid in told["devices"][0]["ports"][0]["gids"] if gid["chosen"]]
    if f"{mark['gid']} (index {mark['index']}, {mark['kind']})" != known["GID"]:
        return failed(f"`verbena info` chooses {mark}, the run had {known['GID']}")
    return passed(known["GID"])


def documented(place: Place) -> Outcome:
    """Shells and `man` accept the installed completions and pages."""
    share = place.directory / "share"
    ended = place.run("manual", [str(VERBENA), "__manual", str(share)], 20)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    commands = re.findall(r"^  ([a-z-]+) {2,}", os.popen(f"'{VERBENA}' --help").read(), re.M)
    for command in [name for name in commands if name != "help"]:
        page = share / "man/man1" / f"verbena-{command}.1"
        if not page.exists() or "EXIT STATUS" not in page.read_text():
            return failed(f"{page.name} is no manual page")
    pages = sorted(path.name for path in (share / "man/man1").iterdir())
    if hidden := [name for name in pages if "__" in name]:
        return failed(f"pages of internal commands: {hidden}")
    for name in ("bash-completion/completions/verbena.bash", "zsh/site-functions/_verbena",
                 "fish/vendor_completions.d/verbena.fish"):
        if "evaluate" not in (share / name).read_text():
            return failed(f"{name} does not complete verbena")
    script = place.run("completions", [str(VERBENA), "completions", "bash"], 20)
    completed = subprocess.run(
        ["bash", "-c", 'eval "$1"; COMP_WORDS=(verbena eval); COMP_CWORD=1; _verbena verbena eval verbena; echo "${COMPREPLY[@]}"',
         "bash", script.output], capture_output=True, text=True, timeout=20, check=False)
    if completed.stdout.split() != ["evaluate"]:
        return failed(f"bash completes `verbena eval` to {completed.stdout!r}", completed.stderr)
    return passed(f"{len(pages)} pages, 3 shells")
