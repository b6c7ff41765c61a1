"""The documents agree with themselves and with the programs: links, options, variables, chapters; and the site they
make."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from functools import cache, partial
from pathlib import Path

from guide import suite as guide
from harness.build_tree import ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from roce import guide as two_hosts
from wheel import suite as wheel

from . import architecture, circles, markdown, tiers

TITLE = "links, options and variables in the documents"
REQUIRES: list = []

DOCUMENTS = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
PROGRAMS = ("verbena", "rfiod", "rfcp", "rfdir", "rfcat", "rfrm", "rfmkdir", "rfrename", "rfchmod", "rfstat", "rfsrr")
# Variables that `verbena` sets for its own processes, and that only `verbena help environment` names.
INTERNAL = {"VERBENA_PLANTED", "VERBENA_PROCESS_PLAN"}
# The adapter's board identifier, which looks like a variable.
BOARD = "VERBENA_SOFTWARE"
VARIABLE = re.compile(r"\b(?:VERBENA|RFIO)_[A-Z][A-Z_]*[A-Z]\b")
SITE = ROOT / "packaging" / "site"
VERSIONS = [line for line in (SITE / "versions").read_text().splitlines() if not line.startswith("#")]
RELEASE = VERBENA.parent
HEADER = Path("/usr/include/infiniband/verbs.h")
SECONDS = 120


def cases() -> list[Case]:
    """All."""
    return [*(Case(str(path.relative_to(ROOT)), what, partial(look, path))
              for path in DOCUMENTS for what, look in (("links", links), ("options", options))),
            Case("marks of a merge", "every file", conflicts),
            Case("variables", "", variables),
            Case("variables", "help", variables_of_help),
            Case("chapters", "", chapters),
            Case("commands", "", followed),
            Case("verbs calls", "the page is what would be written", verbs_page),
            Case("verbs calls", "none of the header is missing", verbs_of_header),
            Case("bill of materials", "", bill_of_materials),
            Case("tiers of tests", "CONTRIBUTING.md", tiers.documented),
            Case("tiers of tests", "nightly jobs", tiers.jobs),
            Case("crates, length and glossary", "ARCHITECTURE.md", architecture.documented),
            Case("crates, length and glossary", "planted dependencies", architecture.planted),
            Case("circles of files", "crates", circles.none_large),
            Case("circles of files", "a planted one", circles.planted_is_found),
            *(Case("the site", f"mdBook {version}", partial(site, version)) for version in ("in the path", *VERSIONS))]


def conflicts(_place: Place) -> Outcome:
    """No file has the marks of a merge that was not finished."""
    marks = re.compile(r"^(<{7} |={7}$|>{7} )", re.M)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, timeout=SECONDS)
    if listed.returncode != 0:
        return skipped("this is no clone")
    names = [name for name in map(bytes.decode, listed.stdout.split(b"\0")) if (ROOT / name).is_file()]
    marked = [name for name in names if marks.search((ROOT / name).read_text(errors="replace"))]
    return failed(", ".join(marked)) if marked else passed(f"{len(names)} files")


def links(path: Path, _place: Place) -> Outcome:
    """Every relative link leads somewhere, and every anchor exists."""
    wrong = []
    for link in markdown.links(path):
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists():
            wrong.append(f"{link}: no such file")
        elif anchor and anchor not in markdown.anchors(file):
            wrong.append(f"{link}: no such heading")
    return failed("; ".join(wrong)) if wrong else passed()


@cache
def known(program: str, subcommand: str = "") -> frozenset[str] | None:
    """Returns the options of a program or a command of it (and those of its own commands), long and short; None if the
    command does not exist."""
    words = [str(VERBENA.with_name(program)), *subcommand.split(), "--help"]
    helped = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if helped.returncode != 0:
        return None
    options = re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", helped.stdout)
    commands = helped.stdout.partition("Commands:")[2].partition("\n\n")[0]
    inner = [name for name in re.findall(r"^  ([a-z-]+)", commands, re.M) if name != "help"] if subcommand else []
    return frozenset(options).union(*(known(program, f"{subcommand} {name}") or () for name in inner))


def options(path: Path, _place: Place) -> Outcome:
    """Every option shown for one of our programs exists."""
    wrong, seen = [], 0
    for words in markdown.commands(path):
        # There it is the name of a package.
        if "pip" in words:
            continue
        # Words before the program: variables, a program that starts ours.
        starts = [at for at, word in enumerate(words) if word.rpartition("/")[2] in PROGRAMS]
        for at in starts:
            program = words[at].rpartition("/")[2]
            rest = words[at + 1:at + 1 + (words[at + 1:].index("--") if "--" in words[at + 1:] else len(words))]
            subcommand = ""
            if program == "verbena":
                if not rest or not re.fullmatch(r"[a-z_]+", rest[0]):
                    continue
                subcommand = rest.pop(0)
            taken = known(program, subcommand)
            if taken is None:
                wrong.append(f"{program} {subcommand}: no such command")
                continue
            for word in rest:
                option = word.partition("=")[0]
                if re.fullmatch(r"--?[A-Za-z][\w-]*", option):
                    seen += 1
                    if option not in taken and not short(option, taken):
                        wrong.append(f"{program} {subcommand} {option}: no such option")
    return failed("; ".join(wrong)) if wrong else passed(f"{seen} options")


def short(option: str, taken: frozenset[str]) -> bool:
    """Whether it is several short ones in one word, or one with its value."""
    return not option.startswith("--") and f"-{option[1]}" in taken


def sources() -> list[Path]:
    """The files in which variables are read."""
    return [path for folder in ("crates", "python", "xrootd") for path in (ROOT / folder).rglob("*")
            if path.suffix in (".rs", ".py", ".cc", ".hh", ".c", ".h") and "tests" not in path.parts]


def variables_read() -> set[str]:
    """Those that the code reads."""
    read = set()
    for path in sources():
        for line in path.read_text().splitlines():
            if re.search(r"\b(var|var_os|getenv|environ|get)\b|const \w+: &(?:'static )?(?:str|CStr|OsStr)", line):
                read.update(re.findall(r"[\"'](?:b\")?((?:VERBENA|RFIO)_[A-Z_]*[A-Z])[\"']", line))
    return read - {BOARD}


def variables_of_help(place: Place) -> Outcome:
    """Each variable that the code reads is named by the help of a program that reads it, and no other; and the manual
    page has them too."""
    asked = place.run("help", [str(VERBENA), "help", "environment"], SECONDS)
    share = place.directory / "share"
    made = place.run("manual", [str(VERBENA), "__manual", str(share)], SECONDS)
    if not asked.succeeded or not made.succeeded:
        return failed("no help on the environment, or no manual page", asked.evidence() + made.evidence())
    helped = set(VARIABLE.findall(asked.output))
    paged = set(VARIABLE.findall((share / "man/man1/verbena.1").read_text()))
    read = {name for name in variables_read() if name.startswith("VERBENA_")}
    wrong = [f"{name}: read, and no help names it" for name in sorted(read - helped)]
    wrong += [f"{name}: in the help, and read nowhere" for name in sorted(helped - read)]
    wrong += [f"{name}: not in the manual page" for name in sorted(helped - paged)]
    return failed("; ".join(wrong)) if wrong or not read else passed(f"{len(read)} variables")


def variables(_place: Place) -> Outcome:
    """Each variable that the documents name is read somewhere, and each that is read is documented."""
    documented = {name for path in DOCUMENTS for name in VARIABLE.findall(path.read_text())}
    read = variables_read()
    folders = ("benches", "tests", "packaging")
    everywhere = {name for path in [*sources(), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
                  if path.is_file() and path.suffix in (".rs", ".py", ".cc", ".hh", ".c", ".h", ".sh", ".yml", "")
                  for name in VARIABLE.findall(path.read_text(errors="replace"))}
    unread = documented - everywhere
    unsaid = read - documented - INTERNAL
    wrong = [f"{name}: documented, and read nowhere" for name in sorted(unread)]
    wrong += [f"{name}: read, and not documented" for name in sorted(unsaid)]
    return failed("; ".join(wrong)) if wrong else passed(f"{len(read)} variables")


def chapters(_place: Place) -> Outcome:
    """The guide's table and the site's have every chapter, and each document that a chapter of the site links to."""
    wrong = []
    summary = (SITE / "SUMMARY.md").read_text()
    # The others are made from the programs' help.
    written = [name for name in re.findall(r"\]\(([^)]+\.md)\)", summary) if (ROOT / name).is_file()]
    for name in written:
        for link in markdown.links(ROOT / name):
            target = (ROOT / name).parent / link.partition("#")[0]
            if target.suffix == ".md" and target.is_file():
                linked = target.resolve().relative_to(ROOT.resolve())
                if f"]({linked})" not in summary and str(linked) != "docs/README.md":
                    wrong.append(f"packaging/site/SUMMARY.md lacks {linked}, to which {name} links")
    for path in (ROOT / "docs").glob("*.md"):
        if path.name != "README.md" and f"]({path.name})" not in (ROOT / "docs/README.md").read_text():
            wrong.append(f"docs/README.md lacks {path.name}")
        if path.name != "README.md" and f"](docs/{path.name})" not in (SITE / "SUMMARY.md").read_text():
            wrong.append(f"packaging/site/SUMMARY.md lacks {path.name}")
    return failed("; ".join(wrong)) if wrong else passed()


def followed(_place: Place) -> Outcome:
    """A test runs each block of `console` as it stands; blocks that are only shown are `text`."""
    chapters_of_tests = {f"docs/{name}.md" for name in guide.LEAST} | set(wheel.CHAPTERS) | {"README.md"}
    wrong, seen = [], 0
    for path in DOCUMENTS:
        name = str(path.relative_to(ROOT))
        for heading, text in markdown.sections(path):
            blocks = text.count("```console")
            seen += blocks
            is_followed = name in chapters_of_tests or (path == two_hosts.CHAPTER and heading in two_hosts.LEAST)
            if blocks and not is_followed:
                wrong.append(f"{name}, {heading!r}: {blocks} blocks of console that no test follows")
    return failed("; ".join(wrong)) if wrong or not seen else passed(f"{seen} blocks")


def verbs_page(place: Place) -> Outcome:
    """The reference of verbs calls agrees with the library and the test programs, and has every exported call."""
    ended = place.run("verbs", [str(ROOT / "packaging/reference/verbs"), "--check"], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    listed = set(calls_of_page())
    listing = subprocess.run(["readelf", "--wide", "--dyn-syms", str(RELEASE / "lib" / "libibverbs.so.1")],
                             capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    exported = set(re.findall(r" (\w+)@@IBVERBS_1\.", listing))
    missing = exported - listed
    return failed(f"docs/verbs.md lacks {', '.join(sorted(missing))}") if missing or not exported else passed(f"{len(listed)} calls")


def calls_of_page() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/verbs.md").read_text(), re.MULTILINE)


def verbs_of_header(_place: Place) -> Outcome:
    """Every inline function of the machine's header that goes through a slot is on the page."""
    if not HEADER.exists():
        return skipped("the header of libibverbs is not installed (libibverbs-dev)")
    functions = re.findall(r"^static inline[^(]*?\b(\w+)\(([^{;]*)\)\s*\{(.*?)^\}", HEADER.read_text(), re.MULTILINE | re.DOTALL)
    through_slots = {name for name, _, body in functions
                     if name.startswith("ibv_") and re.search(r"->ops\.|verbs_get_ctx_op|\b(?:qp|cq|dm)->\w+\(", body)}
    missing = through_slots - set(calls_of_page())
    if missing or not through_slots:
        return failed(f"docs/verbs.md lacks {', '.join(sorted(missing))}")
    return passed(f"{len(through_slots)} inline functions")


def bill_of_materials(place: Place) -> Outcome:
    """It lists the packages of the lock file with their checksums, and each is a direct or indirect dependency of the
    product."""
    first, second = (place.directory / name for name in ("first.json", "second.json"))
    for out in (first, second):
        ended = place.run(out.stem, [str(ROOT / "packaging/sbom/build"), "--out", str(out)], SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    if first.read_bytes() != second.read_bytes():
        return failed("two bills of the same state differ")
    bill = json.loads(first.read_text())
    locked = {f"{package['name']}@{package['version']}": package.get("checksum")
              for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    components = {part["bom-ref"]: part for part in bill["components"]}
    wrong = [f"{name} is not locked" for name in components if name not in locked]
    wrong += [f"{name}: another checksum" for name, part in components.items()
              if [found["content"] for found in part.get("hashes", [])] != [sum for sum in [locked.get(name)] if sum]]
    wrong += [f"{name}: no licence" for name, part in components.items() if "licenses" not in part]
    needs = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    reached, waiting = set(), [bill["metadata"]["component"]["bom-ref"]]
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached.add(name)
            waiting += needs.get(name, [])
    wrong += [f"{name}: nothing needs it" for name in components if name not in reached]
    wrong += [f"{name}: needed and not there" for name in reached - set(components) - {bill["metadata"]["component"]["bom-ref"]}]
    return failed("; ".join(wrong)) if wrong else passed(f"{len(components)} components")


def site(version: str, place: Place) -> Outcome:
    """It builds, and none of its links leads nowhere."""
    mdbook = ROOT / f"target/tools/mdbook-{version}/bin/mdbook" if version in VERSIONS else Path("mdbook")
    if version in VERSIONS and not mdbook.is_file():
        return skipped(f"mdBook {version} is not in target/tools (`make nightly` installs it)")
    out = place.directory / "site"
    ended = place.run("site", [str(SITE / "build"), "--out", str(out), "--mdbook", str(mdbook)], SECONDS)
    if ended.status == 3:
        return skipped(ended.output.strip())
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    return passed(ended.output.strip().splitlines()[-1])
