//! Path patterns as in rsync(1), "PATTERN MATCHING RULES".

use std::fmt::Write as _;

use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;
use verbena_rfio_protocol::shown;

/// An invalid pattern.
#[derive(Debug, Error)]
#[error("'{pattern}' is not a pattern: {why}")]
pub struct BadPattern {
    pattern: String,
    why: &'static str,
}

/// A path pattern. `*` and `?` do not match slashes, `**` does. A pattern with a leading slash is
/// anchored at the tree's root; any other matches the end of the path. A pattern with a trailing
/// slash matches directories only. A byte is a character, as in rsync.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Matched against the path with a leading slash, and with a trailing one for a directory if
    /// `whole_directory`.
    expression: Regex,
    directories_only: bool,
    /// The pattern ends with `/***`: it matches the directory and everything in it.
    whole_directory: bool,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Returns [`BadPattern`] for an empty or malformed pattern.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self, BadPattern> {
        let text = text.as_ref();
        let bad = |why| BadPattern {
            pattern: shown::bytes(text),
            why,
        };
        let (body, directories_only) = match text.strip_suffix(b"/") {
            Some(body) => (body, true),
            None => (text, false),
        };
        let (body, anchored) = match body.strip_prefix(b"/") {
            Some(body) => (body, true),
            None => (body, false),
        };
        if body.is_empty() {
            return Err(bad("it is empty"));
        }
        let start = match (anchored, body.starts_with(b"**")) {
            (true, _) => "^/",
            (false, true) => "^",
            (false, false) => "/",
        };
        let expression = format!("{start}{}$", expression_of(body).map_err(bad)?);
        Ok(Self {
            expression: RegexBuilder::new(&expression)
                .unicode(false)
                .dot_matches_new_line(true)
                .build()
                .map_err(|_| bad("it has an invalid class, or is too long"))?,
            directories_only,
            whole_directory: body.ends_with(b"/***"),
        })
    }

    /// Returns whether the pattern matches a path, which is relative to the tree's root.
    pub fn fits(&self, path: &[u8], is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let end: &[u8] = if is_directory && self.whole_directory {
            b"/"
        } else {
            b""
        };
        self.expression.is_match(&[b"/", path, end].concat())
    }
}

/// Returns the regular expression equivalent to a pattern.
fn expression_of(pattern: &[u8]) -> Result<String, &'static str> {
    // In a pattern without wildcards, a backslash stands for itself.
    let wild = pattern.iter().any(|byte| b"*?[".contains(byte));
    let mut expression = String::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'*' => {
                let more = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[more..];
                expression += if more > 0 { ".*" } else { "[^/]*" };
            }
            b'?' => expression += "[^/]",
            b'[' => rest = class(rest, &mut expression)?,
            b'\\' if wild => {
                let (&escaped, after) = rest.split_first().ok_or("it ends with a backslash")?;
                rest = after;
                literal(escaped, &mut expression);
            }
            _ => literal(byte, &mut expression),
        }
    }
    Ok(expression)
}

/// The named character classes, as in `[[:alpha:]]`.
const CLASSES: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

/// Parses a character class after its `[`, appends it to the expression, and returns the rest after
/// its `]`. A class never matches a slash.
fn class<'a>(mut rest: &'a [u8], expression: &mut String) -> Result<&'a [u8], &'static str> {
    const OPEN: &str = "a '[' has no ']'; write '\\[' for the character";
    *expression += "[[";
    if let [b'!' | b'^', after @ ..] = rest {
        *expression += "^";
        rest = after;
    }
    // A `]` at the beginning is a member.
    let mut first = true;
    loop {
        let (&byte, after) = rest.split_first().ok_or(OPEN)?;
        rest = after;
        match byte {
            b']' if !first => break,
            b'[' if rest.first() == Some(&b':') => {
                let end = rest.windows(2).position(|pair| pair == b":]").ok_or(OPEN)?;
                let name = str::from_utf8(&rest[1..end.max(1)]).unwrap_or_default();
                if !CLASSES.contains(&name) {
                    return Err("no class has that name");
                }
                write!(expression, "[:{name}:]").expect("writing to a string succeeds");
                rest = &rest[end + 2..];
            }
            // A range, unless it is the last character of the class.
            b'-' if !first && rest.first() != Some(&b']') => *expression += "-",
            b'\\' => {
                let (&escaped, after) = rest.split_first().ok_or(OPEN)?;
                rest = after;
                literal(escaped, expression);
            }
            _ => literal(byte, expression),
        }
        first = false;
    }
    *expression += "]&&[^/]]";
    Ok(rest)
}

/// Appends a byte that stands for itself.
fn literal(byte: u8, expression: &mut String) {
    write!(expression, "\\x{byte:02x}").expect("writing to a string succeeds");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fits(pattern: &str, path: &str, is_directory: bool) -> bool {
        Pattern::new(pattern)
            .unwrap()
            .fits(path.as_bytes(), is_directory)
    }

    #[test]
    fn patterns_fit_as_those_of_rsync() {
        for (pattern, path) in [
            ("*.o", "a.o"),
            ("*.o", "b/a.o"),
            ("/*.o", "a.o"),
            ("b/*.o", "c/b/a.o"),
            ("/b/**/x", "b/c/d/x"),
            ("/b**x", "b/x"),
            ("**/x", "x"),
            ("**x", "b/x"),
            ("[a-c]?", "bz"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]]", "7"),
            ("[!a-c]", "d"),
            ("\\*", "*"),
            ("a\\b", "a\\b"),
            ("{a,b}", "{a,b}"),
            ("a.b", "a.b"),
            ("a?", "a\n"),
            ("a/***", "a/b/c"),
        ] {
            assert!(fits(pattern, path, false), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/*.o", "b/a.o"),
            ("b*", "a/cb"),
            ("b/*.o", "b/c/a.o"),
            ("/b/**/x", "b/x"),
            ("a[!b]c", "a/c"),
            ("\\*", "a"),
            ("a", "aa"),
            ("a.b", "axb"),
            ("a/", "a"),
            ("a/***", "a"),
        ] {
            assert!(!fits(pattern, path, false), "{pattern} {path}");
        }
        assert!(fits("a/", "b/a", true));
        assert!(fits("a/***", "a", true));
    }

    #[test]
    fn names_need_not_be_text() {
        assert!(Pattern::new("*.o").unwrap().fits(b"\xff.o", false));
        assert!(Pattern::new(b"\xff.?").unwrap().fits(b"\xff.o", false));
        assert!(!Pattern::new(b"\xff.?").unwrap().fits(b"\xfe.o", false));
        assert!(
            Pattern::new("\u{e4}?")
                .unwrap()
                .fits(b"\xc3\xa4\xff", false)
        );
    }

    #[test]
    fn invalid_pattern_is_refused() {
        for text in [
            "",
            "/",
            "[a",
            "[c-a]",
            "[[:none:]]",
            "[[:]",
            "[[::]]",
            "*\\",
        ] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in "[\\[\\]*?!^:/a-c\\\\-]{0,12}|\\PC{0,20}", path in any::<Vec<u8>>()) {
            if let Ok(pattern) = Pattern::new(&text) {
                pattern.fits(&path, true);
            }
        }

        #[test]
        fn a_name_behind_backslashes_fits_itself_alone(
            name in "[a-c*?\\[\\]\\\\!{}.+-]{1,8}", other in "[a-c*?.]{1,8}") {
            let escaped: String = name.chars().flat_map(|letter| ['\\', letter]).collect();
            // In a pattern without wildcards, a backslash stands for itself.
            let pattern = Pattern::new(format!("{escaped}[x]")).unwrap();
            let fits = pattern.fits(format!("{name}x").as_bytes(), false);
            prop_assert!(fits);
            prop_assert_eq!(pattern.fits(format!("{other}x").as_bytes(), false), name == other);
        }
    }
}
