//! Emphasis in texts for people: marks that [`crate::output`] turns into colours where standard
//! output shows them, and removes elsewhere. The marks are characters of the private-use area, so
//! that texts are wrapped and cut as if they had none.

/// How words are emphasised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Bold,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// A figure or result to distrust.
    Doubt,
    /// What matters less.
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

/// Marks words.
pub fn styled(style: Style, words: &str) -> String {
    let mark = ALL.iter().find(|(one, ..)| *one == style);
    let mark = mark.map_or(END, |(_, mark, _)| *mark);
    format!("{mark}{words}{END}")
}

/// Whether a character is a mark, which takes no room.
pub fn is_mark(letter: char) -> bool {
    letter == END || ALL.iter().any(|(_, mark, _)| *mark == letter)
}

/// The text with colours in place of marks, or without either.
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
    fn marks_become_colours_or_nothing() {
        let text = format!("a {} b", styled(Style::Bad, "worse"));
        assert_eq!(painted(&text, false), "a worse b");
        assert_eq!(painted(&text, true), "a \x1b[31mworse\x1b[0m b");
    }
}
