//! Wraps lines at the terminal's width: between words, and never between a number and its unit.

use crate::style::is_mark;

/// Default additional indentation of continuation lines.
const HANGING: usize = 4;

/// Wraps the lines of a text that are longer than `columns`; other lines are unchanged.
pub fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (words, end) = match line.strip_suffix('\n') {
            Some(words) => (words, "\n"),
            None => (line, ""),
        };
        match width(words) > columns {
            true => fold(words, columns, &mut out),
            false => out.push_str(words),
        }
        out.push_str(end);
    }
    out
}

/// Returns the width of a text whose characters each take one column.
pub fn width(text: &str) -> usize {
    text.chars().filter(|letter| !is_mark(*letter)).count()
}

/// Returns the column of continuation lines: that of the table's second column if there is space,
/// otherwise slightly more than the line's indentation.
fn continuation(line: &str, indent: usize, columns: usize) -> usize {
    let second = line[indent..].find("  ").map(|gap| {
        let gap = indent + gap;
        let spaces = line[gap..].len() - line[gap..].trim_start_matches(' ').len();
        width(&line[..gap + spaces])
    });
    let hanging = second.filter(|column| column * 5 <= columns * 2);
    hanging.unwrap_or((indent + HANGING).min(columns / 2))
}

fn fold(line: &str, columns: usize, out: &mut String) {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let hanging = continuation(line, indent, columns);
    out.push_str(&line[..indent]);
    let mut used = indent;
    let mut is_first = true;
    for (gap, word) in pieces(&line[indent..]) {
        let wide = width(word);
        if !is_first && used + gap + wide > columns {
            out.push('\n');
            out.push_str(&" ".repeat(hanging));
            used = hanging;
        } else {
            out.push_str(&" ".repeat(gap));
            used += gap;
        }
        out.push_str(word);
        used += wide;
        is_first = false;
    }
}

/// Splits a line into units that must not be broken (words, and a number with the following word),
/// each with the number of spaces before it.
fn pieces(line: &str) -> Vec<(usize, &str)> {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let spaces = line[at..].len() - line[at..].trim_start_matches(' ').len();
        let start = at + spaces;
        let end = line[start..]
            .find(' ')
            .map_or(line.len(), |length| start + length);
        match found.last_mut() {
            Some((_, from, to)) if spaces == 1 && is_number(last_word(&line[*from..*to])) => {
                *to = end
            }
            _ if start < end => found.push((spaces, start, end)),
            _ => {}
        }
        at = end;
    }
    let piece = |(gap, from, to): (usize, usize, usize)| (gap, &line[from..to]);
    found.into_iter().map(piece).collect()
}

fn last_word(piece: &str) -> &str {
    piece.rsplit(' ').next().unwrap_or(piece)
}

/// Returns whether a word is a number, so that the next word may be its unit.
fn is_number(word: &str) -> bool {
    let word = word.trim_start_matches(|letter: char| "[(+-~".contains(letter) || is_mark(letter));
    let has_digit = word.starts_with(|letter: char| letter.is_ascii_digit());
    has_digit
        && word
            .chars()
            .all(|letter| letter.is_ascii_digit() || letter == '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{Style, styled};
    use proptest::prelude::*;

    #[test]
    fn a_number_stays_with_its_unit() {
        let line = "  latency 1.23 us [1.1 us to 1.3 us] 30 % of bound";
        let lines = wrapped(line, 25);
        assert_eq!(
            lines,
            "  latency 1.23 us [1.1 us\n      to 1.3 us] 30 % of\n      bound"
        );
    }

    #[test]
    fn a_line_that_fits_is_unchanged() {
        let table = "a    1 ns   b\n  c     d\n";
        assert_eq!(wrapped(table, 13), table);
    }

    #[test]
    fn table_rows_wrap_to_their_second_column() {
        let row = "latency.write  how long one write of some bytes takes";
        let lines = "latency.write  how long one write of\n               some bytes takes";
        assert_eq!(wrapped(row, 38), lines);
    }

    #[test]
    fn style_marks_have_no_width() {
        let line = format!("{} two", styled(Style::Good, "one"));
        assert_eq!(wrapped(&line, 7), line);
    }

    proptest! {
        #[test]
        fn lines_fit_the_width_and_keep_all_words(
            words in proptest::collection::vec("[a-z]{1,12}|[0-9]{1,4} (ns|GB/s|%)", 0..40),
            columns in 30_usize..130,
        ) {
            let text = words.join(" ");
            let lines = wrapped(&text, columns);
            for line in lines.lines() {
                prop_assert!(width(line) <= columns, "{line:?}");
                prop_assert!(!line.trim().is_empty());
                for part in line.split(' ') {
                    prop_assert!(part.is_empty() || text.split(' ').any(|word| word == part));
                }
                let last = line.rsplit(' ').next().unwrap_or_default();
                prop_assert!(last.parse::<u32>().is_err(), "a number without its unit: {line:?}");
            }
            let back: Vec<&str> = lines.split_whitespace().collect();
            prop_assert_eq!(back, text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
