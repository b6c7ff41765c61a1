"""Circles of files: files of a crate each of which uses another one of them, directly or over others.

Such files can only be understood together, so a circle is small. A file uses another one if a `use` or a path in its code
begins with `crate`, `super`, `self` or a module below the file, and leads to the other's module. Comments, strings and tests
do not count, and neither do items of the crate's root, `pub(in path)`, or a `pub use` of a module below the file whose item
the file's code does not mention: these are names, not uses.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path

from harness.build_tree import ROOT
from harness.outcome import Outcome, failed, passed
from harness.place import Place

# The most files that a circle may have.
MOST_FILES = 8

Module = tuple[str, ...]
Uses = dict[Path, set[Path]]

# Parts of Rust source in which paths do not count: comments, strings, characters.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|\b[bc]?r(\#*)".*?"\1|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|[^'\\])'""", re.DOTALL)
TEST_ITEM = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*[^;{]*")
INLINE_MODULE = re.compile(r"\bmod\s+(\w+)\s*\{")
VISIBILITY = re.compile(r"\bpub\s*\(\s*in\b[^)]*\)")
USE = re.compile(r"(?:\b(pub)\b(?:\s*\([^)]*\))?\s*)?\buse\s+([^;]+);")
MODULE = re.compile(r"(?:\bpub\b(?:\s*\([^)]*\))?\s*)?\bmod\s+\w+\s*;")
PATH = re.compile(r"(?<!\w)(?<!::)\w+(?:\s*::\s*\w+)+")


def none_large(_place: Place) -> Outcome:
    """No crate has a circle of more than MOST_FILES files."""
    crates = sorted(path.parent for path in ROOT.glob("crates/*/src"))
    graphs = {crate: uses(crate / "src") for crate in crates}
    found = {crate: circles(graph) for crate, graph in graphs.items()}
    wrong = [f"{crate.relative_to(ROOT)}: {len(circle)} files use each other in a circle, at most {MOST_FILES}: {names(circle, crate)}"
             for crate, list_of in found.items() for circle in list_of if len(circle) > MOST_FILES]
    if wrong or not graphs:
        return failed("; ".join(wrong) or "no crate was found")
    largest = max((len(circle) for list_of in found.values() for circle in list_of), default=0)
    return passed(f"{sum(map(len, graphs.values()))} files, {largest} in the largest circle")


def planted_is_found(place: Place) -> Outcome:
    """A circle over every form of `use` is found; one that only comments, strings and tests close is not."""
    circle = {
        "lib.rs": "mod a; mod b; mod c; mod d; mod e; pub use a::A;",
        "a.rs": "use crate::b::B;",
        "b/mod.rs": "use self::inner::{Inner as Other};",
        "b/inner.rs": "use super::super::c;",
        "c.rs": "use std::fmt; pub(crate) use crate::{d::{self, D}, missing::X};",
        "d.rs": "mod within { use super::super::e::*; }",
        "e.rs": "fn f() -> char { let c = '\"'; crate::a::g(); c }",
    }
    below = {
        "lib.rs": "mod a; use a::A; fn f() { a::f() }",
        "a/mod.rs": "mod code; pub mod mentioned; mod named; mod used; pub mod whole; use used::{self, U}; pub use named::{N, named};\n"
                    "pub(crate) use self::mentioned::M as Other; pub use whole::*; pub fn f(_: Other, _: M) { code::g() }",
        "a/code.rs": "use super::f;",
        "a/mentioned.rs": "use super::f;",
        "a/named.rs": "use super::f;",
        "a/used.rs": "use super::f;",
        "a/whole.rs": "use super::f;",
    }
    names = {
        "lib.rs": "mod a;",
        "a/mod.rs": "mod b; mod c; pub use b::*; pub use c::C;",
        "a/b.rs": "use super::C;",
        "a/c.rs": "use super::B;",
    }
    chain = {
        "lib.rs": "mod a; mod b;",
        "a.rs": "use crate::b::B;",
        "b.rs": "pub(in crate::a) fn f() {} // use crate::a::A;\n/* crate::a::f() */ const TEXT: &str = \"crate::a\"; const RAW: &str = r#\"use crate::a::\"A\";\"#;\n"
                "#[cfg(test)] use crate::a::A;\n#[cfg(test)] mod tests { use crate::a::A; fn f() { crate::a::f() } }",
        "b/tests.rs": "use crate::a::A;",
    }
    wrong = []
    for name, files, expected in (
            ("circle", circle, ["a.rs", "b/inner.rs", "b/mod.rs", "c.rs", "d.rs", "e.rs"]),
            ("below", below, ["a/code.rs", "a/mentioned.rs", "a/mod.rs", "a/used.rs", "a/whole.rs"]),
            ("names", names, []),
            ("chain", chain, [])):
        src = place.directory / name
        for path, text in files.items():
            (src / path).parent.mkdir(parents=True, exist_ok=True)
            (src / path).write_text(text)
        found = [str(path.relative_to(src)) for files in circles(uses(src)) for path in sorted(files)]
        if found != expected:
            wrong.append(f"{name}: found {found}, expected {expected}")
    return failed("; ".join(wrong)) if wrong else passed()


def names(circle: list[Path], crate: Path) -> str:
    return ", ".join(str(path.relative_to(crate)) for path in sorted(circle))


def uses(src: Path) -> Uses:
    """Returns, for each file below `src` that is not a test, the files that it uses."""
    files = [path for path in src.rglob("*.rs") if not is_test(path.relative_to(src))]
    modules = {module(path.relative_to(src)): path for path in files}
    graph: Uses = {}
    for path in files:
        used = {found(target, modules) for target in paths(module(path.relative_to(src)), path.read_text(), modules)}
        graph[path] = {other for other in used if other is not None and other != path}
    return graph


def is_test(path: Path) -> bool:
    return "tests" in path.parts[:-1] or path.stem == "tests" or path.stem.endswith("_test") or path.stem.endswith("_tests")


def module(path: Path) -> Module:
    """Returns the path of the module in a file."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def found(path: Module, modules: dict[Module, Path]) -> Path | None:
    """Returns the file of the innermost module on a path, except the crate's root."""
    return next((modules[path[:length]] for length in range(len(path), 0, -1) if path[:length] in modules), None)


def paths(of: Module, text: str, modules: Container[Module]) -> Iterator[Module]:
    """Yields the paths within the crate that the code of module `of` uses, as from the crate's root."""
    text = VISIBILITY.sub("pub", without_tests(NO_CODE.sub('""', text)))
    code = MODULE.sub(blank, USE.sub(blank, text))
    inline = [(match.end(), closing(text, match.end() - 1), match[1]) for match in INLINE_MODULE.finditer(text)]
    for match in (*USE.finditer(text), *PATH.finditer(code)):
        here = (*of, *(name for start, end, name in inline if start <= match.start() < end))
        is_public = match.re is USE and match[1] is not None
        for branch in branches(re.sub(r"\s", "", re.sub(r"\s+as\s+", "@", match[match.re.groups]))):
            path, _, name = branch.partition("@")
            target = absolute(path.split("::"), here, modules)
            if target is None:
                continue
            is_below = len(target) > len(here) and target[:len(here)] == here
            if not (is_public and is_below and not mentions(code, name or target[-1])):
                yield target


def absolute(path: list[str], here: Module, modules: Container[Module]) -> Module | None:
    """Returns a path in the code of module `here` as from the crate's root; none if it leads out of the crate."""
    first, *rest = path
    if first == "crate":
        here, path = (), rest
    elif first not in ("self", "super") and (*here, first) not in modules:
        return None
    for part in path:
        here = here[:-1] if part == "super" else here if part == "self" else (*here, part)
    return here


def mentions(code: str, name: str) -> bool:
    """Says whether code mentions a name; all code may mention one of `*`."""
    return re.search(r"\S" if name == "*" else rf"\b{name}\b", code) is not None


def blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def without_tests(text: str) -> str:
    """Returns the code without the items that are only compiled for tests."""
    while match := TEST_ITEM.search(text):
        end = match.end()
        text = text[:match.start()] + text[closing(text, end) if text[end:end + 1] == "{" and not is_use(match[0]) else after(text, end):]
    return text


def is_use(head: str) -> bool:
    return re.search(r"\buse\s", head) is not None


def after(text: str, start: int) -> int:
    """Returns the position after the next semicolon."""
    at = text.find(";", start)
    return len(text) if at < 0 else at + 1


def closing(text: str, start: int) -> int:
    """Returns the position after the brace that closes the one at `start`."""
    depth = 0
    for match in re.finditer(r"[{}]", text[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return len(text)


def branches(tree: str) -> Iterator[str]:
    """Yields the paths of a use tree without spaces."""
    prefix, brace, rest = tree.partition("{")
    if not brace:
        yield tree
        return
    depth, start = 0, 0
    inner = rest[:rest.rindex("}")]
    for at, letter in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            for branch in branches(inner[start:at]):
                yield prefix + branch
            start = at + 1


def circles(graph: Uses) -> list[list[Path]]:
    """Returns the strongly connected components of more than one file (Tarjan's algorithm)."""
    number: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    waiting: list[Path] = []
    result: list[list[Path]] = []
    for root in sorted(graph):
        if root in number:
            continue
        # Files on the way from the root, each with those that it uses and that are not visited yet.
        way = [(root, iter(sorted(graph[root])))]
        number[root] = lowest[root] = len(number)
        waiting.append(root)
        while way:
            path, rest = way[-1]
            other = next(rest, None)
            if other is None:
                way.pop()
                if way:
                    lowest[way[-1][0]] = min(lowest[way[-1][0]], lowest[path])
                if lowest[path] == number[path]:
                    at = waiting.index(path)
                    if len(waiting) - at > 1:
                        result.append(waiting[at:])
                    del waiting[at:]
            elif other not in number:
                number[other] = lowest[other] = len(number)
                waiting.append(other)
                way.append((other, iter(sorted(graph[other]))))
            elif other in waiting:
                lowest[path] = min(lowest[path], number[other])
    return result
