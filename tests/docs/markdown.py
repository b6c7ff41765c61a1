"""The parts of a Markdown file that are tested: links, anchors, and the commands of its console blocks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Iterator

FENCE = re.compile(r"^\s*```(\w*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PROMPT = re.compile(r"^\w*\$ ")


def prose(text: str) -> str:
    """Returns the text without blocks and words of code, in which brackets are no links."""
    kept, inside = [], False
    for line in text.splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(kept)


def links(path: Path) -> list[str]:
    """Where its links lead, but for those of other sites."""
    return [link for link in LINK.findall(prose(path.read_text())) if not re.match(r"\w+:", link)]


def anchors(path: Path) -> set[str]:
    """Returns the targets of links: the headings, as GitHub and mdBook name them."""
    found, inside = set(), False
    for line in path.read_text().splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside and (heading := re.match(r"#+ (.*)", line)):
            words = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(words.replace(" ", "-"))
    return found


def sections(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the headings of the second level and the text below each; the text before the first has an empty
    heading."""
    heading, *rest = re.split(r"^## (.*)$", path.read_text(), flags=re.MULTILINE)
    yield "", heading
    yield from zip(rest[::2], rest[1::2])


def commands(path: Path) -> Iterator[list[str]]:
    """Yields the words of each command in console and shell blocks and in inline code."""
    outside = re.sub(r"^\s*```.*?^\s*```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`]+)`", outside):
        # Optional words are shown in brackets.
        yield re.sub(r"(?<![^\s])\[|\]|\|", " ", code).split()
    kind = None
    for line in path.read_text().splitlines():
        if fence := FENCE.match(line):
            kind = None if kind is not None else fence[1]
            continue
        if kind in ("console", "text") and PROMPT.match(line):
            line = PROMPT.sub("", line)
        elif kind not in ("sh", "bash", "yaml", "ini"):
            continue
        for part in re.split(r"&&|\|\||[|;]", line):
            try:
                yield shlex.split(part, comments=True)
            except ValueError:
                # A quotation that continues on the next line.
                continue
