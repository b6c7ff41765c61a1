//! Parts of lines that several formats share.

/// Returns the quoted text at the beginning and the rest; the text ends at the first quote.
pub(crate) fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('"')?.split_once('"')
}

/// Returns the number in brackets at the beginning and the rest: `[12] rest`.
pub(crate) fn bracketed(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((number.trim().parse().ok()?, rest))
}

/// Returns the text after the parenthesis at the beginning, or all if there is none.
pub(crate) fn past_parenthesis(text: &str) -> &str {
    let text = text.trim_start();
    match text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => rest,
        None => text,
    }
}

/// Returns the words after the last quote: fields behind a description, which may contain any
/// text.
pub(crate) fn behind_description(text: &str) -> &str {
    text.rsplit_once('"').map_or("", |(_, rest)| rest)
}

/// Returns the description in a comment: the text between its first and its last quote.
pub(crate) fn description(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once('"')?;
    behind.rsplit_once('"').map(|(inside, _)| inside)
}

/// Returns the hexadecimal number in parentheses at the beginning, the GUID of a port.
pub(crate) fn guid_in_parentheses(text: &str) -> Option<u64> {
    let (inside, _) = text.trim_start().strip_prefix('(')?.split_once(')')?;
    u64::from_str_radix(inside.trim().trim_start_matches("0x"), 16).ok()
}

/// Returns the number behind the word `lid`.
pub(crate) fn lid(words: &str) -> Option<u32> {
    number_behind("lid", words)?.parse().ok()
}

/// Returns the number behind the word `lmc`; it has three bits.
pub(crate) fn lmc(words: &str) -> Option<u8> {
    let lmc = number_behind("lmc", words)?.parse().ok()?;
    (lmc < 8).then_some(lmc)
}

fn number_behind<'a>(name: &str, words: &'a str) -> Option<&'a str> {
    let mut words = words.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()
}

/// Returns the hexadecimal number at the beginning, after `0x` if that is there.
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let text = text.strip_prefix("0x").unwrap_or(text);
    let end = text.find(|byte: char| !byte.is_ascii_hexdigit());
    u64::from_str_radix(&text[..end.unwrap_or(text.len())], 16).ok()
}
