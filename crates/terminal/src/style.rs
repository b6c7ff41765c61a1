//! Emphasis in text: marks that [`crate::output`] replaces by colours on terminals that support
//! them, and removes elsewhere. The marks are characters of the private-use area and do not affect
//! wrapping or truncation.

/// Kinds of emphasis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A heading.
    Bold,
    /// A good figure or result.
    Good,
    /// A bad figure or result.
    Bad,
    /// A doubtful figure or result.
    Doubt,
    /// A secondary text.
    Faint,
}

/// Ends an emphasis.
const END: char = '\u{e000}';
const ALL: [(Style, char, &str); 5] = [
    (Style::Bold, '\u{e001}', "\x1b[1m"),
    (Style::Good, '\u{e002}', "\x1b[32m"),
    (Style::Bad, '\u{e003}', "\x1b[31m"),
    (Style::Doubt, '\u{e004}', "\x1b[33m"),
    (Style::Faint, '\u{e005}', "\x1b[2m"),
];

/// Returns the words with marks around them.
pub fn styled(style: Style, words: &str) -> String {
    let mark = ALL.iter().find(|(one, ..)| *one == style);
    let mark = mark.map_or(END, |(_, mark, _)| *mark);
    format!("{mark}{words}{END}")
}

/// Returns whether a character is a mark, which has no width.
pub fn is_mark(letter: char) -> bool {
    letter == END || ALL.iter().any(|(_, mark, _)| *mark == letter)
}

/// Replaces marks by colours, or removes them.
pub fn painted(text: &str, in_colour: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match ALL.iter().find(|(_, mark, _)| *mark == letter) {
            _ if !is_mark(letter) => out.push(letter),
            _ if !in_colour => {}
            Some((.., order)) => out.push_str(order),
            None => out.push_str("\x1b[0m"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_marks_become_colours_or_are_removed() {
        let text = format!("a {} b", styled(Style::Bad, "worse"));
        assert_eq!(painted(&text, false), "a worse b");
        assert_eq!(painted(&text, true), "a \x1b[31mworse\x1b[0m b");
    }
}
