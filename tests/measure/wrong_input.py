"""Wrong input: one clear line and exit code 2."""

from __future__ import annotations

import json

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

WRONG_INPUT = 2


WRONG = [
    ("unknown benchmark", ["bench", "latency.wrote"], "verbena list"),
    ("a slip in a benchmark", ["bench", "latency.wrote"], 'did you mean "latency.write"'),
    ("a slip in a model", ["bench", "latency.write", "--on", "model:conectx-ddr"], 'did you mean "connectx-ddr"'),
    ("a slip in an option", ["bench", "latency.write", "--lanches", "2"], "--launches"),
    ("absent device", ["bench", "latency.write", "--on", "hardware:no_such_0"], "no_such_0"),
    ("unknown target", ["bench", "latency.write", "--on", "hardwear"], "hardwear"),
    ("unknown model", ["bench", "latency.write", "--on", "model:connectx-xdr"], "connectx-ddr"),
    ("model without a name", ["bench", "latency.write", "--on", "model"], "verbena list"),
    ("a value that no profile has", ["list", "--set", "connectx.send.colour=1"], "connectx.send.colour"),
    ("a size of zero", ["bench", "latency.write", "--sizes", "0"], "between"),
    ("a size of no size", ["explain", "latency.write", "--on", "model:connectx-ddr", "--sizes", "4x"], "such as 8, 4K or 1M"),
    ("an inline size of no size", ["bench", "latency.write", "--inline", "many"], "such as 8, 4K or 1M"),
    ("a number of no number", ["explain", "latency.write", "--on", "model:connectx-ddr", "--pairs", "two"],
     "whole number from 1 to 512"),
    ("more threads than there may be", ["reproduce", "--threads", "4K"], "whole number from 1 to 1024"),
    ("an anchor of no model", ["reproduce", "--anchor", "latency.write:8=1us"], "use --on model:PROFILE"),
    ("a model without an anchor", ["reproduce", "--on", "model:connectx-qdr"], "add --anchor"),
    ("claims on an adapter", ["reproduce", "--on", "software"], "use --on model:PROFILE"),
    ("claims of messages", ["reproduce", "--on", "model:connectx-qdr:message", "--anchor", "latency.write:8=1us"], "by packets"),
    ("anchored residuals", ["reproduce", "--residuals", "r.toml", "--on", "machine:m"], "cannot be used with"),
    ("a class without packets", ["bench", "latency.write", "--traffic-class", "104"], "VERBENA_LINK=roce"),
    ("a level without levels", ["bench", "latency.write", "--service-level", "3"], "no levels"),
    ("an absent partition", ["bench", "latency.write", "--pkey", "0x8001"], "its P_Keys are 0xffff"),
    ("a partition of no number", ["bench", "latency.write", "--pkey", "0x8000"], "P_Key is a number"),
    ("a class on a model", ["bench", "latency.write", "--traffic-class", "104", "--on", "model:connectx-ddr"], "for adapters"),
    ("a label of nothing", ["bench", "latency.write", "--label", " "], "--label"),
    ("an absent port", ["bench", "latency.write", "--ports", "9"], "verbena0 port 9"),
    ("a port of an absent adapter", ["bench", "latency.write", "--ports", "mlx5_7:1"], "no verbs device mlx5_7"),
    ("a port twice", ["bench", "latency.write", "--ports", "1,verbena0:1"], "given twice"),
    ("a port of no number", ["bench", "latency.write", "--ports", "mlx5_0:0"], "is not a port; write"),
    ("ports of a model", ["bench", "latency.write", "--ports", "1", "--on", "model:connectx-ddr"], "the profile sets"),
    ("absent identifier", ["bench", "latency.write", "--gid-index", "200"], "--gid-index 200"),
    ("the same target twice", ["bench", "latency.write", "--on", "software", "--on", "software"],
     "twice"),
    ("a second target that is not there", ["bench", "latency.write", "--on", "software", "--on",
                                           "model:connectx-xdr"], "connectx-ddr"),
    ("options without an effect", ["bench", "latency.write", "--set", "connectx.send.blueflame=1"],
     "for models"),
    ("nothing left to measure", ["bench", "latency.write", "--transports", "xrc", "--on",
                                 "model:connectx-ddr", "--sizes", "8"], "exclude every point"),
    ("a threshold of nan", ["compare", "--thresholds", "{nan}", "{empty}", "{empty}"], "nan"),
    ("too few runs", ["history", "/no/a", "/no/b"], "at least 6 runs"),
    ("unwritable directory", ["bench", "baseline.memcpy", "--quick", "--out", "/proc/none"], "/proc/none"),
    ("no run there", ["report", "/no/such/run.jsonl"], "/no/such/run.jsonl"),
    ("another schema version", ["report", "{other}"], "schema version 7"),
    ("truncated JSON", ["report", "{cut}"], "cut.jsonl:2"),
    ("something else", ["compare", "{else}", "{else}"], "perftest"),
    ("no study there", ["sweep", "/no/such/study.toml"], "/no/such/study.toml"),
    ("a study with an unknown key", ["sweep", "{study}"], "study.toml:3: colour:"),
    ("a share beyond the last", ["sweep", "{study}", "--part", "4/4"], "NUMBER/TASKS"),
    ("calibration of no model", ["calibrate", "{cut}", "--on", "hardware"], "model:PROFILE"),
    ("calibration without measurements", ["calibrate", "--on", "model:connectx-ddr"], "no measurements given"),
    ("a fit over nothing", ["calibrate", "{empty}", "--on", "software"], "0 figures"),
    ("a fit of no such value", ["calibrate", "{empty}", "--on", "software", "--fit", "software.cores.colour"],
     "cannot be fitted"),
    ("calibration to nothing", ["calibrate", "{empty}", "--on", "model:connectx-ddr"], "none of the 0 points"),
]


def wrong(arguments: list[str], words: str, place: Place) -> Outcome:
    """One clear line and exit code 2."""
    first = json.dumps({"record": "run", "schema": 1, "label": "", "fabric": "", "device": "",
                        "command": "", "started": 0, "seed": 0, "effort": "", "launcher": "",
                        "launches": 0, "clock": {}, "environment": {}})
    files = {"other": place.directory / "other.jsonl", "cut": place.directory / "cut.jsonl",
             "else": place.directory / "else.txt", "study": place.directory / "study.toml",
             "empty": place.directory / "empty.jsonl", "nan": place.directory / "nan.toml"}
    files["other"].write_text('{"record":"run","schema":7}\n')
    files["cut"].write_text(first + '\n{"record":"point","bench')
    files["else"].write_text("nothing that anybody knows\n")
    files["study"].write_text('benchmark = "halo"\nsystem = "connectx-ddr"\ncolour = 3\n')
    files["empty"].write_text(first + "\n")
    files["nan"].write_text("default = nan\n")
    command = [str(VERBENA), *(a.format(**files) for a in arguments)]
    ended = place.run("wrong", command, 30)
    if ended.status != WRONG_INPUT or words not in ended.output:
        return failed(f"{ended.describe()}, expected exit 2 and {words!r}", ended.evidence())
    lines = [line for line in ended.output.splitlines() if line.startswith(("verbena:", "error:"))]
    return passed() if len(lines) == 1 else failed("not one clear line", ended.evidence())
