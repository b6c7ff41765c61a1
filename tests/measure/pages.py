"""Reports as a browser without a network shows them."""

from __future__ import annotations

import re
from pathlib import Path

from harness.browser import Browser, BrowserError
from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

SECONDS = 900


def browser(place: Place) -> Outcome:
    """A browser without a network opens the report, and every section has its chart and table."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", "latency.", "patterns.all-pairs", "--quick",
                                "--out", str(out)], SECONDS)
    page = out / "report.html"
    if not page.exists():
        return failed("there is no report", ended.evidence())
    if problem := drawn_sections(page, in_browser(place, page), 9):
        return failed(problem)
    return passed("every section has chart and table")


def in_browser(place: Place, page: Path) -> str:
    """The document that a browser without a network makes of the page; it draws it before."""
    picture = place.directory / "report.png"
    with Browser(place.directory) as shown:
        shown.show(page, 1100, 2400)
        shown.picture(picture)
        document = shown.evaluate("document.documentElement.outerHTML")
    if picture.stat().st_size < 30_000:
        raise BrowserError("the page is empty")
    return document


def drawn_sections(page: Path, document: str, least: int) -> str | None:
    """Returns an error in a report, or None: an external address, too large a size, a section without chart or
    table."""
    if outside := re.findall(r"https?://[^\"' <]+|url\(|@import|\ssrc=", page.read_text()):
        return f"the report refers outside: {outside[:3]}"
    if page.stat().st_size > 5_000_000:
        return f"the report has {page.stat().st_size} bytes"
    sections = re.split(r"<h3 id=", document)[1:]
    for section in sections:
        name = section.split('"')[1]
        # Curves of many points are lines alone.
        drawn = r'<circle|<rect|<path class="line[^>]* d="M[^"]*L'
        if "<svg" not in section or not re.search(drawn, section):
            return f"{name} has no chart"
        if "<table" not in section:
            return f"{name} has no table"
    return None if len(sections) >= least else f"only {len(sections)} sections are shown"
