//! Parses names in their text form (RFC 4514), as printed by `openssl x509 -nameopt RFC2253`.
//!
//! Spaces around separators are allowed. Syntax of older standards, quotation marks and semicolons,
//! is rejected rather than guessed at.

use std::str::FromStr;

use super::attribute_type::AttributeType;
use super::der;
use super::name::{Attribute, AttributeValue, Name, Rdn};

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// It is empty, or nothing is between two separators.
    #[error("expected a name such as CN=Ann Example,O=Example")]
    Nothing,
    /// Text without `=`.
    #[error("'{0}' is not of the form ATTRIBUTE=VALUE; write \\, for a comma in a value")]
    NoValue(String),
    /// It is neither a keyword nor an object identifier.
    #[error(
        "'{0}' is not an attribute; write unnamed attributes as an object identifier (digits \
             and dots)"
    )]
    AttributeType(String),
    /// A character that must be escaped with `\`.
    #[error("write \\{0} for a {0} in a value")]
    Unescaped(char),
    /// A `\` that is not followed by an escape.
    #[error("\\ must be followed by a special character or two hexadecimal digits")]
    Escape,
    /// Escaped bytes are not UTF-8.
    #[error("the bytes of '{0}' are not UTF-8")]
    Bytes(String),
    /// The digits after `#` are not one element.
    #[error("'{0}' is not # followed by the hexadecimal DER encoding of a value")]
    Encoded(String),
    /// A value as text for an attribute that requires the encoded form.
    #[error("write the value of {0} as # followed by its DER encoding in hexadecimal")]
    NeedsEncoding(String),
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let parts = split(text, ',').into_iter().map(|part| {
            let attributes = split(part, '+').into_iter().map(attribute);
            let mut part = attributes.collect::<Result<Rdn, _>>()?;
            part.sort();
            Ok(part)
        });
        let mut parts = parts.collect::<Result<Vec<_>, BadName>>()?;
        parts.reverse();
        Ok(Self(parts))
    }
}

/// Splits at separators that are not escaped.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut pieces, mut from, mut is_escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if letter == separator => {
                pieces.push(&text[from..at]);
                from = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}

fn attribute(text: &str) -> Result<Attribute, BadName> {
    let text = text.trim_start_matches(' ');
    if text.is_empty() {
        return Err(BadName::Nothing);
    }
    let (kind, value) = text
        .split_once('=')
        .ok_or_else(|| BadName::NoValue(text.trim_end().to_owned()))?;
    let kind = kind.trim_end_matches(' ');
    let kind = AttributeType::parse(kind).ok_or_else(|| BadName::AttributeType(kind.to_owned()))?;
    let value = value.trim_start_matches(' ');
    let value = match value.strip_prefix('#') {
        Some(digits) => encoded(&kind, digits.trim_end_matches(' '))?,
        None => AttributeValue::Text(unescaped(value)?),
    };
    match (&value, kind.word()) {
        (AttributeValue::Text(_), None) => Err(BadName::NeedsEncoding(kind.to_string())),
        _ => Ok(Attribute { kind, value }),
    }
}

fn encoded(kind: &AttributeType, digits: &str) -> Result<AttributeValue, BadName> {
    let bytes = bytes_of(digits);
    let element = bytes.as_deref().and_then(der::first);
    match element {
        Some((element, [])) => Ok(AttributeValue::of(kind, element)),
        _ => Err(BadName::Encoded(format!("#{digits}"))),
    }
}

/// Decodes pairs of hexadecimal digits of either case.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let value = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some((value(high)? << 4 | value(low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

/// Returns a value with escapes resolved and without insignificant trailing spaces.
fn unescaped(text: &str) -> Result<String, BadName> {
    let mut bytes = Vec::new();
    // Length that is kept in any case.
    let mut kept = 0;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let escaped = letters.next().ok_or(BadName::Escape)?;
                match escaped {
                    ' ' | '"' | '#' | '+' | ',' | ';' | '<' | '=' | '>' | '\\' => {
                        bytes.push(escaped as u8);
                    }
                    _ => {
                        let high = escaped.to_digit(16).ok_or(BadName::Escape)?;
                        let low = letters.next().and_then(|low| low.to_digit(16));
                        bytes.push((high << 4 | low.ok_or(BadName::Escape)?) as u8);
                    }
                }
                kept = bytes.len();
            }
            '"' | ';' | '<' | '>' => return Err(BadName::Unescaped(letter)),
            _ => {
                let mut buffer = [0; 4];
                bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
                if letter != ' ' {
                    kept = bytes.len();
                }
            }
        }
    }
    bytes.truncate(kept);
    String::from_utf8(bytes).map_err(|_| BadName::Bytes(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::name::tests::any_name;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equivalent_names_are_equal() {
        let ann: Name = "CN=Ann Example,O=Example\\, Inc.".parse().unwrap();
        for same in [
            "cn = Ann Example , o=Example\\2C Inc.",
            "2.5.4.3=Ann Example,O=Example\\, Inc\\."
                .replace("\\.", ".")
                .as_str(),
            "CN=#0c0b416e6e204578616d706c65,O=Example\\, Inc.",
            " CN=Ann Example  ,  O=Example\\,\\ Inc. ",
        ] {
            assert_eq!(same.parse(), Ok(ann.clone()), "{same}");
        }
        for other in [
            "O=Example\\, Inc.,CN=Ann Example",
            "CN=Ann Example",
            "CN=ann example,O=Example\\, Inc.",
            "CN=Ann Example\\ ,O=Example\\, Inc.",
            "CN=Ann Example+O=Example\\, Inc.",
        ] {
            assert_ne!(other.parse(), Ok(ann.clone()), "{other}");
        }
    }

    #[test]
    fn openssls_non_ascii_escapes_are_read() {
        let one: Name = "CN=J\\C3\\B6rg".parse().unwrap();
        assert_eq!(one.to_string(), "CN=Jörg");
    }

    #[test]
    fn invalid_names_give_a_reason() {
        for (text, why) in [
            ("", BadName::Nothing),
            ("CN=a,", BadName::Nothing),
            ("CN=a,Inc.", BadName::NoValue("Inc.".into())),
            ("XY=a", BadName::AttributeType("XY".into())),
            ("O=\"a, b\"", BadName::Unescaped('"')),
            ("CN=a;O=b", BadName::Unescaped(';')),
            ("CN=a\\", BadName::Escape),
            ("CN=a\\x", BadName::Escape),
            ("CN=a\\c", BadName::Escape),
            ("CN=a\\ff", BadName::Bytes("a\\ff".into())),
            ("CN=#0c", BadName::Encoded("#0c".into())),
            (
                "1.3.6.1.4.1.5=a",
                BadName::NeedsEncoding("1.3.6.1.4.1.5".into()),
            ),
        ] {
            // A quotation that contains a separator is split there first.
            let error = text.parse::<Name>().unwrap_err();
            assert_eq!(error, why, "{text}");
        }
    }

    proptest! {
        /// A formatted name parses as itself: no two different names look alike, for arbitrary
        /// values.
        #[test]
        fn formatted_names_round_trip(name in any_name()) {
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn arbitrary_text_parses_or_is_refused(text in "[A-Za-z=,+#\\\\ 0-9é\"]{0,40}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
