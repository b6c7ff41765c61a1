//! Exports the summary as Markdown tables, for a ticket, a pull request or a wiki page.

use super::Exported;
use crate::expectation::{Check, Checks};
use crate::summary::Tile;
use std::fmt::Write as _;

/// Letters with a meaning in Markdown or HTML within a line.
const MARKS: [char; 13] = [
    '\\', '|', '`', '*', '_', '[', ']', '<', '>', '~', '&', '#', '!',
];

/// Returns a text as a table cell or heading: escaped, in one line.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() => out.push(' '),
            // Some parsers end a line here.
            '\u{2028}' | '\u{2029}' => out.push(' '),
            letter => {
                if MARKS.contains(&letter) {
                    out.push('\\');
                }
                out.push(letter);
            }
        }
    }
    out
}

/// Returns a row of a table.
pub fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| inline(cell)).collect();
    format!("| {} |\n", cells.join(" | "))
}

pub(super) fn text(exported: &[Exported<'_>]) -> String {
    let sections: Vec<String> = exported.iter().map(section).collect();
    sections.join("\n")
}

fn section(exported: &Exported<'_>) -> String {
    let summary = &exported.summary;
    let mut out = format!(
        "## {}\n\n{}\n",
        inline(&summary.label),
        inline(&format!("Where: {}.", summary.kind.text()))
    );
    if summary.tiles.is_empty() {
        out += "\nNone of the figures of the summary was measured.\n";
    } else {
        out += "\n| figure | value | launches | word | of |\n|---|---|---|---|---|\n";
        let line = |tile: &Tile| {
            let word = format!("{}: {}", tile.word().text(), tile.rating.reason);
            row(&[tile.name, &tile.value, &tile.spread(), &word, &tile.of])
        };
        out.extend(summary.tiles.iter().map(line));
    }
    if let Some(checks) = exported.checks {
        out += &expected(checks);
    }
    if !summary.distrust.is_empty() {
        out += "\nDistrust:\n\n";
        for doubt in &summary.distrust {
            let _ = writeln!(out, "- {}", inline(doubt));
        }
    }
    out
}

fn expected(checks: &Checks) -> String {
    let system = format!("{} ({})", checks.system, checks.about);
    let mut out = format!(
        "\n**Expected of {}: {}**\n",
        inline(&system),
        checks.sentence()
    );
    if !checks.figures.is_empty() {
        out += "\n| | figure | value | expected | why |\n|---|---|---|---|---|\n";
        let line = |check: &Check| {
            let why = match check.source.is_empty() {
                true => check.reason.clone(),
                false => format!("{}; {}", check.reason, check.source),
            };
            row(&[
                check.verdict.text(),
                check.name,
                &check.value,
                &check.expected,
                &why,
            ])
        };
        out.extend(checks.figures.iter().map(line));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{self, Format, test::run};
    use proptest::prelude::*;

    fn unescaped(text: &str) -> String {
        let mut out = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => out.extend(letters.next()),
                other => out.push(other),
            }
        }
        out
    }

    #[test]
    fn names_are_escaped_for_markdown() {
        let text = export::text(
            Format::Markdown,
            &[run("a|b\n# <img src=x> [l](u)", "mlx5_0")],
            &[],
        );
        let heading = "## a\\|b \\# \\<img src=x\\> \\[l\\](u)\n";
        assert!(text.starts_with(heading), "{text}");
        assert!(
            text.contains("| Latency | 1.5 us | one launch: no interval |"),
            "{text}"
        );
        let tables = text.lines().filter(|line| line.starts_with('|'));
        for line in tables {
            assert_eq!(
                line.matches('|').count() - line.matches("\\|").count(),
                6,
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn cells_round_trip(text in "(?s).{0,40}") {
            let escaped = inline(&text);
            prop_assert!(!escaped.contains(char::is_control));
            let blank = |letter: char| match letter {
                '\u{2028}' | '\u{2029}' => ' ',
                letter if letter.is_control() => ' ',
                letter => letter,
            };
            prop_assert_eq!(unescaped(&escaped), text.chars().map(blank).collect::<String>());
        }
    }
}
