//! Width of text in a drawing, and names shortened to a width.

/// Width of a letter of a number or a name, in the widest of the usual fonts.
pub const LETTER: f64 = 7.4;
/// Width of a bold letter.
pub const BOLD: f64 = 8.2;

/// Returns the width of the longest of some texts.
pub fn room<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> f64 {
    let letters = texts.into_iter().map(|text| text.as_ref().chars().count());
    letters.max().unwrap_or(0) as f64 * LETTER
}

/// Returns a name of at most `letters` letters. The middle of a longer one is left out, because
/// names of runs often differ at their ends only.
pub fn short(name: &str, letters: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= letters {
        return name.to_owned();
    }
    let kept = letters.saturating_sub(1);
    let (first, last) = (kept.div_ceil(2), kept / 2);
    let start = all[..first].iter();
    let end = all[all.len() - last..].iter();
    start.chain(['\u{2026}'].iter()).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_names_stay_distinct() {
        let names = ["connectx-qdr-firmware (2)", "connectx-qdr-firmware (3)"];
        let [a, b] = names.map(|name| short(name, 14));
        assert_ne!(a, b);
        assert_eq!((a.chars().count(), b.chars().count()), (14, 14));
        assert_eq!(short("software", 8), "software");
    }

    #[test]
    fn the_longest_text_decides_the_width() {
        assert_eq!(room(["1 ns", "100 MB/s"]), 8.0 * LETTER);
        assert_eq!(room::<&str>([]), 0.0);
    }
}
