"""The output of `verbena` on terminals of 80 and 120 columns: lines that fit, whole words, colour, progress."""

from __future__ import annotations

import re
import subprocess

from harness.build_tree import ROOT, VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.terminal import Shown, on_terminal

SECONDS = 240
# A recorded program.
TRACE = ROOT / "papers" / "traces" / "lattice-qcd-8.trace"
WIDTHS = (80, 120)
MODEL = "model:connectx-ddr"
# They say the same every time.
BENCH = ["bench", "latency.write", "bandwidth.write", "internals.registration", "--on", MODEL, "--quick"]
COMMANDS = {
    "bench": BENCH,
    "list": ["list"],
    "explain": ["explain", "latency.send", "--on", MODEL, "--sizes", "8,4K", "--inline", "0"],
}
# A number at the end of a line, whose unit would be on the next one.
SPLIT = re.compile(r"(?:^|\s)[\[(+~-]*\d+(?:\.\d+)?$")


def words(text: str) -> list[str]:
    """The words, without the separators of figures on one line."""
    return [word.rstrip(";") for word in text.split()]


def before_summary(text: str) -> str:
    """The table of `bench`: how much the summary below it says depends on the width."""
    return re.split(r"\n\n(?=.*, computed by a model\n)", text)[0]


def plain(place: Place, command: list[str]) -> str:
    """Returns the output to a pipe."""
    ended = subprocess.run([str(VERBENA), *command], env=place.environment(TERM="xterm"), capture_output=True, text=True,
                           timeout=SECONDS, check=False)
    return ended.stdout


def fits(place: Place) -> Outcome:
    """No line is wider than the terminal, no word is split, no number is separated from its unit."""
    for name, command in COMMANDS.items():
        piped = plain(place, command)
        if "\x1b" in piped:
            return failed(f"{name}: a control character in a pipe")
        bare = {line.split()[-1] for line in piped.splitlines() if SPLIT.search(line)}
        for columns in WIDTHS:
            shown = on_terminal([str(VERBENA), *command], place.environment(), columns, SECONDS, errors=False)
            if len(shown.widest()) > columns:
                return failed(f"{name} on {columns} columns has a line of {len(shown.widest())}", shown.widest())
            if words(before_summary(shown.text)) != words(before_summary(piped)):
                return failed(f"{name} on {columns} columns has other words than in a pipe", shown.text[:4000])
            for line in shown.lines():
                if SPLIT.search(line) and line.split()[-1] not in bare:
                    return failed(f"{name} on {columns} columns splits a number from its unit", line)
    return passed(f"{len(COMMANDS)} commands, {len(WIDTHS)} widths")


def summary(place: Place) -> Outcome:
    """A run ends with a line for each figure, with bar and curve, then the strong, weak and unreliable figures, and the
    report's name."""
    for columns in WIDTHS:
        out = place.directory / f"out-{columns}"
        command = [str(VERBENA), *BENCH, "--out", str(out)]
        shown = on_terminal(["env", "LC_ALL=C.UTF-8", *command], place.environment(), columns, SECONDS, errors=False)
        table, _, ending = shown.text.partition(", computed by a model\n")
        if not ending or "one-way-latency" not in table:
            return failed("there is no summary", shown.text[-2000:])
        figures = [line for line in ending.split("\n\n")[0].splitlines() if "\u2591" in line or "\u2588" in line]
        if len(figures) < 2:
            return failed(f"on {columns} columns not every figure has a bar", ending)
        if not any("\u2581" in line for line in figures):
            return failed(f"on {columns} columns no figure has a curve", ending)
        if missing := [word for word in ("Strong", "Weak", "Distrust") if f"\n  {word} " not in ending]:
            return failed(f"on {columns} columns {missing} are missing", ending)
        if not ending.rstrip().endswith(str(out / "report.html")):
            return failed("it does not end with the report", ending)
        if wide := [line for line in shown.lines() if len(line) > columns and str(out) not in line]:
            return failed(f"a line of {len(wide[0])} on {columns} columns", wide[0])
    piped = plain(place, BENCH)
    if "Distrust" not in piped or "\u2588" in piped:
        return failed("a pipe gets no summary, or one with blocks", piped[-1500:])
    return passed()


def ends(place: Place) -> Outcome:
    """`compare`, `replay` and `reproduce` end with bars and sentences, on terminals and in pipes, and no line is too
    wide."""
    runs = [place.directory / profile for profile in ("connectx-ddr", "connectx-qdr")]
    for run in runs:
        command = [str(VERBENA), "bench", "latency.write", "--on", f"model:{run.name}", "--quick", "--out", str(run)]
        ended = place.run(f"bench-{run.name}", command, SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    models = [f"--on=model:{run.name}" for run in runs]
    begins = {
        "compare": (["compare", *map(str, runs)], ("worse", "better", "undecided", "same")),
        "replay": (["replay", str(TRACE), models[0]], ("computing", "overhead", "wire", "waiting", "done", "Chain", "Adapter")),
        "replays": (["replay", str(TRACE), *models], ("connectx-ddr", "connectx-qdr", "Fastest", "Slowest")),
        "reproduce": (["reproduce", "memfree"], ("memfree", "Claims", "Missed")),
    }
    for name, (arguments, words) in begins.items():
        piped = plain(place, arguments)
        for columns in WIDTHS:
            command = ["env", "LC_ALL=C.UTF-8", str(VERBENA), *arguments]
            shown = on_terminal(command, place.environment(), columns, SECONDS, errors=False)
            if len(shown.widest()) > columns:
                return failed(f"{name} on {columns} columns has a line of {len(shown.widest())}", shown.widest())
            if "\u2588" not in shown.text:
                return failed(f"{name} draws no bar", shown.text)
            for text in (shown.text, piped):
                if missing := [word for word in words if f"\n  {word} " not in text]:
                    return failed(f"{name} does not end with {missing}", text[-2000:])
        if "\u2588" in piped or "#" not in piped:
            return failed(f"{name} draws blocks in a pipe, or no bar", piped[-2000:])
    return passed(f"{len(begins)} commands")


def width_by_variable(place: Place) -> Outcome:
    """COLUMNS is respected, on a terminal and in a pipe; data for programs are never wrapped."""
    command = [str(VERBENA), *BENCH]
    piped = subprocess.run(command, env=place.environment(COLUMNS="60"), capture_output=True, text=True, timeout=SECONDS, check=False)
    if wide := [line for line in piped.stdout.splitlines() if len(line) > 60]:
        return failed("COLUMNS=60 is not respected", wide[0])
    json = subprocess.run([*command, "--json"], env=place.environment(COLUMNS="60"), capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    if max(map(len, json.stdout.splitlines())) <= 60:
        return failed("JSON was wrapped")
    return passed("60 columns")


def coloured(place: Place) -> Outcome:
    """Colour on a terminal; none with NO_COLOR, with TERM=dumb or in a pipe."""
    command = [str(VERBENA), *BENCH]
    seen = on_terminal(command, place.environment(), 100, SECONDS, errors=False)
    if not seen.colours:
        return failed("there is no colour on a terminal", seen.raw[:1000])
    for variable, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        # The harness removes NO_COLOR from the environment, so that this case alone can set it.
        bare = on_terminal(["env", f"{variable}={value}", *command], place.environment(), 100, SECONDS, errors=False)
        if bare.colours or bare.text != seen.text:
            return failed(f"{variable}={value} changes more than the colours", bare.raw[:1000])
    return passed(f"{len(seen.colours)} orders")


def progress(place: Place) -> Outcome:
    """One line with the current benchmark, n of m and the time left, never wider than the terminal; nothing with
    TERM=dumb."""
    command = [str(VERBENA), "reproduce", "memfree", "--out", str(place.directory / "claims")]
    for columns in (80, 44):
        shown = on_terminal(command, place.environment(), columns, SECONDS, output=False)
        if wrong := badly_shown(shown, columns, "published claims", "figures of the papers"):
            return wrong
    dumb = on_terminal(["env", "TERM=dumb", *command], place.environment(), 80, SECONDS, output=False)
    if dumb.raw:
        return failed("progress is shown with TERM=dumb", repr(dumb.raw[:1000]))
    return passed()


def badly_shown(shown: Shown, columns: int, *names: str) -> Outcome | None:
    """Returns the failure if progress is shown wrongly."""
    if len(shown.widest()) > columns:
        return failed(f"a line of {len(shown.widest())} on {columns} columns", shown.widest())
    if missing := [name for name in names if name[:16] not in shown.text]:
        return failed(f"progress does not name {missing}", shown.text[:4000])
    if not re.search(r"\d+/\d+", shown.text) or "left" not in shown.text:
        return failed("progress has no steps or no time left", shown.text[:4000])
    if shown.text.count("\n") > 2:
        return failed("progress is more than one line", repr(shown.text[:2000]))
    return None
