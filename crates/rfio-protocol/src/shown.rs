//! Shows bytes and texts of a peer to users: on one line, and without terminal control.
//!
//! Characters that are invisible, or change the appearance of others (control characters, line
//! ends, directional overrides), are escaped.

/// Returns the bytes of a name as an unambiguous text: a backslash is `\\`, a byte outside UTF-8 is
/// `\xNN`, and an unprintable character is `\n`, `\t`, `\r`, `\0` or `\u{NN}`.
pub fn bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => shown.push_str("\\\\"),
                other => push(&mut shown, other),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Returns a sentence in which only unprintable characters are escaped, so that names that are
/// escaped already do not change.
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        push(&mut shown, character);
    }
    shown
}

fn push(shown: &mut String, character: char) {
    match character {
        // `escape_debug` escapes these as well, for Rust's literals.
        '\'' | '"' | '\\' => shown.push(character),
        ' '..='~' => shown.push(character),
        _ => {
            // After another character, so that combining marks are kept: names may be decomposed.
            let mut pair = [0; 8];
            pair[0] = b'a';
            let length = character.encode_utf8(&mut pair[1..]).len();
            let pair = std::str::from_utf8(&pair[..=length]).unwrap_or_default();
            shown.extend(pair.escape_debug().skip(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_bytes() {
        for (name, expected) in [
            (&b"plain name"[..], "plain name"),
            (b"it's \"so\"", "it's \"so\""),
            ("e\u{301} é 漢".as_bytes(), "e\u{301} é 漢"),
            (b"back\\slash", "back\\\\slash"),
            (b"not\xfftext", "not\\xfftext"),
            (b"\x1b[2J\n", "\\u{1b}[2J\\n"),
            ("\u{202e}gnp.exe".as_bytes(), "\\u{202e}gnp.exe"),
            (b"\xe2\x80", "\\xe2\\x80"),
        ] {
            assert_eq!(bytes(name), expected);
        }
    }

    #[test]
    fn messages_have_no_control_characters() {
        let text = "no\x1b]0;title\x07\r\nrfcp: done\u{2028}\u{2066}\u{9b}x";
        let shown = line(text);
        assert!(shown.chars().all(|c| !c.is_control()), "{shown}");
        assert!(!shown.contains(['\u{2028}', '\u{2066}', '\u{9b}']));
        // Escapes do not change.
        assert_eq!(line("a\\x1b \\\\ 'b'"), "a\\x1b \\\\ 'b'");
        assert_eq!(line(&shown), shown);
    }
}
