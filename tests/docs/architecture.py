"""ARCHITECTURE.md: its table of crates against the Cargo manifests, its length, its glossary, and the paths that it names; and the
crates that must not reach each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from harness.build_tree import ROOT
from harness.outcome import Outcome, failed, passed
from harness.place import Place

DOCUMENT = ROOT / "ARCHITECTURE.md"
# About four pages.
MOST_WORDS = 2_000
MOST_TERMS = 25
HEADINGS = {"crates": "| crate | purpose | may use |", "glossary": "| term | meaning |"}
# The measuring engine reaches an adapter through the C ABI alone, so that it cannot do more on the software adapter than on hardware.
ENGINE, ADAPTER, PROGRAM = "bench", "hca", "cli"
# Dependencies that would break this: of the engine itself, of a crate below it, and of one above it.
FAULTS = ((ENGINE, ADAPTER), ("verbs", ADAPTER), ("fabric", "ibverbs"), ("bench-mpi", "rdmacm"), ("rfio-tools", ENGINE, ADAPTER))
DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")


def documented(_place: Place) -> Outcome:
    """The table has every crate and every dependency and no other, above the crates that it uses; length and glossary keep their limits."""
    text = DOCUMENT.read_text()
    manifests = dependencies(ROOT)
    wrong = [*crates(text, manifests), *separation(manifests), *limits(text), *paths(text, ROOT)]
    if wrong or not manifests:
        return failed("; ".join(wrong) or "no crate was found")
    return passed(f"{len(manifests)} crates, {sum(map(len, manifests.values()))} dependencies, {words(text)} words")


def planted(_place: Place) -> Outcome:
    """Each planted dependency between the measuring engine and the adapter is reported."""
    manifests = dependencies(ROOT)
    missed = []
    for crate, *used in FAULTS:
        if not separation({**manifests, crate: manifests.get(crate, set()) | set(used)}):
            missed.append(f"{crate} uses {' and '.join(used)}")
    if not separation({name: used for name, used in manifests.items() if name != ENGINE}):
        missed.append(f"there is no crate {ENGINE}")
    return failed(f"not reported: {'; '.join(missed)}") if missed else passed(f"{len(FAULTS) + 1} faults")


def dependencies(root: Path) -> dict[str, set[str]]:
    """Returns, for the folder name of each crate, the folder names of the crates that its manifest names, for any purpose."""
    manifests = {path.parent.name: tomllib.loads(path.read_text()) for path in sorted(root.glob("crates/*/Cargo.toml"))}
    folders = {manifest["package"]["name"]: folder for folder, manifest in manifests.items()}
    shared = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["dependencies"]
    return {folder: {folders[package] for package in packages(manifest, shared) if package in folders}
            for folder, manifest in manifests.items()}


def packages(manifest: dict, shared: dict) -> set[str]:
    """Returns the names of the packages that a manifest depends on, by their own names if it renames them."""
    found = set()
    for table in (manifest, *manifest.get("target", {}).values()):
        for kind in DEPENDENCIES:
            for name, entry in table.get(kind, {}).items():
                if isinstance(entry, dict) and entry.get("workspace"):
                    entry = shared[name]
                found.add(entry.get("package", name) if isinstance(entry, dict) else name)
    return found


def crates(text: str, manifests: dict[str, set[str]]) -> list[str]:
    """Returns the differences between the table of crates and the manifests."""
    table = rows(text, HEADINGS["crates"])
    names = [row[0].strip("`") for row in table]
    wrong = [f"crate {name} is missing from the table" for name in manifests if name not in names]
    wrong += [f"crate {name} is in the table, but not in crates/" for name in names if name not in manifests]
    wrong += [f"crate {name} is in the table {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1]
    above: set[str] = set()
    for name, row in zip(names, table):
        if len(row) != 3 or not row[1]:
            wrong.append(f"{name}: the row does not have three filled cells")
            continue
        said, real = uses(row[2]), manifests.get(name, set())
        wrong += [f"{name}: the table lacks {used}, which the manifest has" for used in sorted(real - said)]
        wrong += [f"{name}: the table has {used}, which the manifest lacks" for used in sorted(said - real)]
        wrong += [f"{name} uses {used}, which is not above it" for used in sorted(real - above)]
        above.add(name)
    return wrong


def separation(manifests: dict[str, set[str]]) -> list[str]:
    """Returns which crates other than the program reach both the measuring engine and the adapter (`hca` or a part `hca-...` of it)."""
    wrong = [f"there is no crate {name}" for name in (ENGINE, ADAPTER, PROGRAM) if name not in manifests]
    for name in sorted(manifests.keys() - {PROGRAM}):
        reached = reach(name, manifests)
        adapter = sorted(crate for crate in reached if crate == ADAPTER or crate.startswith(f"{ADAPTER}-"))
        if ENGINE in reached and adapter:
            wrong.append(f"{name} reaches {', '.join(adapter)}, but must not" if name == ENGINE else
                         f"{name} reaches {ENGINE} and {', '.join(adapter)}; only {PROGRAM} may")
    return wrong


def reach(crate: str, manifests: dict[str, set[str]]) -> set[str]:
    """Returns a crate and all that it depends on, directly or not."""
    found, left = set(), [crate]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += manifests.get(name, ())
    return found


def uses(cell: str) -> set[str]:
    """Returns the crates that a cell of the last column names."""
    return set() if cell == "none" else {word.strip().strip("`") for word in cell.split(",")}


def limits(text: str) -> list[str]:
    """Returns which limits of length and glossary are exceeded."""
    wrong = []
    if (count := words(text)) > MOST_WORDS:
        wrong.append(f"{count} words, at most {MOST_WORDS}")
    terms = [row[0] for row in rows(text, HEADINGS["glossary"])]
    if not 0 < len(terms) <= MOST_TERMS:
        wrong.append(f"{len(terms)} terms in the glossary, at most {MOST_TERMS}")
    if terms != sorted(set(terms), key=str.lower):
        wrong.append("the terms of the glossary are not unique and in alphabetical order")
    return wrong


def words(text: str) -> int:
    """Returns the number of words, as separated by spaces; words without a letter or digit (table lines, dashes) do not count."""
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def paths(text: str, root: Path) -> list[str]:
    """Returns the paths below folders of the project that the text names as code and that do not exist."""
    named = re.findall(r"`((?:benches|crates|docs|fuzz|packaging|papers|profiles|python|setup|tests|xrootd)/[\w./-]*)`", text)
    return [f"{path} does not exist" for path in sorted(set(named)) if not (root / path).exists()]


def rows(text: str, heading: str) -> list[list[str]]:
    """Returns the cells of each row of the table with this heading."""
    _, found, rest = text.partition(f"\n{heading}\n")
    lines = rest.splitlines()[1:] if found else []
    end = next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]
