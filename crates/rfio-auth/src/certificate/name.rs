//! Distinguished names of certificates (RFC 5280, 4.1.2.4) and their text form (RFC 4514).
//!
//! Names are compared by content, not by encoding: values of different string types are equal if
//! their texts are. Comparison is case-sensitive and spaces count, which is stricter than RFC 5280.

use super::attribute_type::AttributeType;
use super::der::{self, Element};

/// A name. Its parts are in the order of the certificate, the most general first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(pub(super) Vec<Rdn>);

/// A relative distinguished name: nearly always one attribute, else sorted ones.
pub(super) type Rdn = Vec<Attribute>;

/// An attribute, for example `CN=Ann`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Attribute {
    pub(super) kind: AttributeType,
    pub(super) value: AttributeValue,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum AttributeValue {
    Text(String),
    /// The whole DER of a value that is not text, or whose kind has no keyword.
    Encoded(Vec<u8>),
}

impl Name {
    /// Decodes the content of a name's element, which is a list of parts.
    pub fn decode(content: &[u8]) -> Option<Self> {
        let parts = der::all(content, der::SET)?.into_iter().map(|set| {
            let attributes = der::all(set.content, der::SEQUENCE)?;
            let attributes = attributes.into_iter().map(|one| attribute(one.content));
            let mut part = attributes.collect::<Option<Rdn>>()?;
            part.sort();
            (!part.is_empty()).then_some(part)
        });
        parts.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Returns whether the name has no parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn attribute(content: &[u8]) -> Option<Attribute> {
    let (kind, rest) = der::first(content)?;
    let (value, rest) = der::first(rest)?;
    if kind.tag != der::OBJECT_IDENTIFIER || !rest.is_empty() {
        return None;
    }
    let kind = AttributeType::of(kind.content)?;
    let value = AttributeValue::of(&kind, value);
    Some(Attribute { kind, value })
}

impl AttributeValue {
    /// Returns the value of an attribute of this kind.
    pub(super) fn of(kind: &AttributeType, element: Element<'_>) -> Self {
        match kind.word().and_then(|_| text(element)) {
            Some(text) => Self::Text(text),
            None => Self::Encoded(element.whole.to_vec()),
        }
    }
}

/// Returns the text of a string element; `None` if it is not a string or cannot be decoded
/// unambiguously.
fn text(element: Element<'_>) -> Option<String> {
    let bytes = element.content;
    let text = match element.tag {
        der::UTF8 => std::str::from_utf8(bytes).ok()?.to_owned(),
        der::NUMERIC | der::PRINTABLE | der::TELETEX | der::IA5 | der::VISIBLE
            if bytes.is_ascii() =>
        {
            std::str::from_utf8(bytes).ok()?.to_owned()
        }
        der::BMP if bytes.len().is_multiple_of(2) => {
            let pairs = bytes.as_chunks().0.iter();
            let units: Vec<_> = pairs.map(|pair| u16::from_be_bytes(*pair)).collect();
            String::from_utf16(&units).ok()?
        }
        _ => return None,
    };
    (!text.contains('\0')).then_some(text)
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, part) in self.0.iter().rev().enumerate() {
            for (beside, Attribute { kind, value }) in part.iter().enumerate() {
                let front = match (place, beside) {
                    (0, 0) => "",
                    (_, 0) => ",",
                    _ => "+",
                };
                write!(f, "{front}{kind}={value}")?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Text(text) => text,
            Self::Encoded(bytes) => {
                f.write_str("#")?;
                return bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
            }
        };
        let last = text.chars().count().saturating_sub(1);
        for (place, letter) in text.chars().enumerate() {
            match letter {
                // No name may begin a new line in a log.
                _ if letter.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in letter.encode_utf8(&mut bytes).bytes() {
                        write!(f, "\\{byte:02x}")?;
                    }
                }
                '"' | '+' | ',' | ';' | '<' | '>' | '\\' => write!(f, "\\{letter}")?,
                '#' if place == 0 => f.write_str("\\#")?,
                ' ' if place == 0 || place == last => f.write_str("\\ ")?,
                _ => write!(f, "{letter}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns an element in DER.
    pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = match content.len() {
            short @ 0..0x80 => vec![short as u8],
            long @ 0x80..0x100 => vec![0x81, long as u8],
            long => vec![0x82, (long >> 8) as u8, long as u8],
        };
        [&[tag], &length[..], content].concat()
    }

    fn attribute(kind: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        let inner = [element(der::OBJECT_IDENTIFIER, kind), element(tag, value)].concat();
        element(der::SEQUENCE, &inner)
    }

    const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    const ORGANIZATION: &[u8] = &[0x55, 4, 10];

    fn name(parts: &[&[Vec<u8>]]) -> Option<Name> {
        let sets: Vec<_> = parts
            .iter()
            .map(|part| element(der::SET, &part.concat()))
            .collect();
        Name::decode(&sets.concat())
    }

    #[test]
    fn the_most_general_rdn_is_written_last() {
        let ann = name(&[
            &[attribute(ORGANIZATION, der::UTF8, b"Example")],
            &[attribute(COMMON_NAME, der::PRINTABLE, b"Ann Example")],
        ]);
        assert_eq!(ann.unwrap().to_string(), "CN=Ann Example,O=Example");
    }

    #[test]
    fn separators_in_values_are_escaped() {
        for (value, written) in [
            ("Ann,O=Example", "CN=Ann\\,O=Example"),
            ("a+b", "CN=a\\+b"),
            (" a ", "CN=\\ a\\ "),
            ("#1", "CN=\\#1"),
            ("a\nb", "CN=a\\0ab"),
            ("é\\", "CN=é\\\\"),
            ("", "CN="),
        ] {
            let name = name(&[&[attribute(COMMON_NAME, der::UTF8, value.as_bytes())]]);
            assert_eq!(name.unwrap().to_string(), written);
        }
    }

    #[test]
    fn the_string_encoding_makes_no_difference() {
        let one = |tag, value: &[u8]| name(&[&[attribute(COMMON_NAME, tag, value)]]).unwrap();
        assert_eq!(one(der::UTF8, b"ab"), one(der::PRINTABLE, b"ab"));
        assert_eq!(one(der::UTF8, b"ab"), one(der::BMP, b"\0a\0b"));
        assert_ne!(one(der::UTF8, b"ab"), one(der::UTF8, b"aB"));
        // A value that is not text, or contains a NUL at which C code would end it, is shown in
        // encoded form.
        for (tag, value) in [
            (der::UTF8, &b"ann\0"[..]),
            (der::UTF8, b"\xff"),
            (der::TELETEX, b"\xe9"),
            (3, b"ann"),
        ] {
            let written = one(tag, value).to_string();
            assert!(written.starts_with("CN=#"), "{written}");
        }
    }

    #[test]
    fn attributes_in_an_rdn_are_unordered_and_rdns_are_ordered() {
        let (ann, example) = (
            attribute(COMMON_NAME, der::UTF8, b"Ann"),
            attribute(ORGANIZATION, der::UTF8, b"Example"),
        );
        let together = name(&[&[ann.clone(), example.clone()]]).unwrap();
        assert_eq!(together, name(&[&[example.clone(), ann.clone()]]).unwrap());
        assert_eq!(together.to_string(), "CN=Ann+O=Example");
        let apart = name(&[std::slice::from_ref(&example), std::slice::from_ref(&ann)]).unwrap();
        assert_ne!(apart, together);
        assert_ne!(apart, name(&[&[ann], &[example]]).unwrap());
    }

    #[test]
    fn malformed_names_are_refused() {
        for bytes in [
            &[0x31, 0][..],
            &[0x30, 0],
            &[0x31, 2, 0x30, 0],
            &[0x31, 5, 0x30, 3, 6, 1, 0x80],
            &[0x31],
        ] {
            assert_eq!(Name::decode(bytes), None, "{bytes:x?}");
        }
        assert!(Name::decode(&[]).unwrap().is_empty());
    }

    /// Generates names of varying parts, kinds and values.
    pub(crate) fn any_name() -> impl Strategy<Value = Name> {
        let kind = prop_oneof![
            Just(COMMON_NAME.to_vec()),
            Just(ORGANIZATION.to_vec()),
            Just(vec![0x2b, 6, 1, 4, 1, 0x83, 0x2a]),
        ];
        let value = prop_oneof![
            "[ -~]{0,12}".prop_map(String::into_bytes),
            "\\PC{0,6}".prop_map(String::into_bytes),
            "[ ,+#=\\\\\"\n\u{85}]{0,6}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        let one = (kind, prop_oneof![Just(der::UTF8), Just(der::IA5)], value)
            .prop_map(|(kind, tag, value)| attribute(&kind, tag, &value));
        let part = proptest::collection::vec(one, 1..3);
        proptest::collection::vec(part, 1..4).prop_map(|parts| {
            let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
            name(&parts).expect("it follows the form of certificates")
        })
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_or_are_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(name) = Name::decode(&bytes) {
                prop_assert!(!name.to_string().contains(char::is_control));
            }
        }
    }
}
