//! The kind of an attribute of a name: its object identifier, and its keyword.

/// An object identifier, as encoded in DER.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributeType(Vec<u8>);

/// The keywords of RFC 4514, section 3, and further ones that OpenSSL prints.
const WORDS: [(&str, &[u8]); 25] = [
    ("CN", &[0x55, 4, 3]),
    ("L", &[0x55, 4, 7]),
    ("ST", &[0x55, 4, 8]),
    ("O", &[0x55, 4, 10]),
    ("OU", &[0x55, 4, 11]),
    ("C", &[0x55, 4, 6]),
    ("street", &[0x55, 4, 9]),
    (
        "DC",
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
    ),
    (
        "UID",
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
    ),
    ("SN", &[0x55, 4, 4]),
    ("serialNumber", &[0x55, 4, 5]),
    ("title", &[0x55, 4, 12]),
    ("description", &[0x55, 4, 13]),
    ("businessCategory", &[0x55, 4, 15]),
    ("postalCode", &[0x55, 4, 17]),
    ("name", &[0x55, 4, 41]),
    ("GN", &[0x55, 4, 42]),
    ("initials", &[0x55, 4, 43]),
    ("generationQualifier", &[0x55, 4, 44]),
    ("dnQualifier", &[0x55, 4, 46]),
    ("pseudonym", &[0x55, 4, 65]),
    ("organizationIdentifier", &[0x55, 4, 97]),
    (
        "emailAddress",
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
    ),
    (
        "unstructuredName",
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 2],
    ),
    (
        "unstructuredAddress",
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 8],
    ),
];

impl AttributeType {
    /// Returns the identifier with this element content.
    pub(super) fn of(content: &[u8]) -> Option<Self> {
        let kind = Self(content.to_vec());
        // An invalid one cannot be written as digits.
        kind.arcs().map(|_| kind)
    }

    /// Parses a keyword, or digits with dots.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let word = WORDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text));
        match word {
            Some((_, content)) => Some(Self(content.to_vec())),
            None => Self::from_digits(text),
        }
    }

    /// Returns its keyword, if any.
    pub(super) fn word(&self) -> Option<&'static str> {
        let word = WORDS.iter().find(|(_, content)| *content == self.0);
        word.map(|&(word, _)| word)
    }

    fn from_digits(text: &str) -> Option<Self> {
        let arcs = text
            .split('.')
            .map(|arc| match arc.as_bytes() {
                [b'0'] => Some(0),
                [b'1'..=b'9', ..] => arc.parse::<u64>().ok(),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()?;
        let (&[first, second], rest) = arcs.split_first_chunk()?;
        if first > 2 || (first < 2 && second >= 40) {
            return None;
        }
        let front = (first * 40).checked_add(second)?;
        let mut content = Vec::new();
        for arc in std::iter::once(front).chain(rest.iter().copied()) {
            let digits = (64 - arc.leading_zeros()).div_ceil(7).max(1);
            for place in (0..digits).rev() {
                let more = if place > 0 { 0x80 } else { 0 };
                content.push((arc >> (7 * place)) as u8 & 0x7f | more);
            }
        }
        Some(Self(content))
    }

    fn arcs(&self) -> Option<Vec<u64>> {
        let mut arcs = Vec::new();
        let mut arc: Option<u64> = None;
        for byte in &self.0 {
            // The shortest form has no leading zero digit.
            if arc.is_none() && *byte == 0x80 {
                return None;
            }
            let before = arc.unwrap_or(0);
            let value = before.checked_mul(128)? | u64::from(byte & 0x7f);
            arc = match byte & 0x80 {
                0 => {
                    arcs.push(value);
                    None
                }
                _ => Some(value),
            };
        }
        if arc.is_some() {
            return None;
        }
        let (front, rest) = arcs.split_first()?;
        let first = (front / 40).min(2);
        Some([&[first, front - first * 40], rest].concat())
    }
}

impl std::fmt::Display for AttributeType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(word) = self.word() {
            return f.write_str(word);
        }
        let arcs = self.arcs().unwrap_or_default();
        let digits: Vec<_> = arcs.iter().map(u64::to_string).collect();
        f.write_str(&digits.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keywords_equal_their_object_identifiers() {
        for (word, digits) in [
            ("CN", "2.5.4.3"),
            ("o", "2.5.4.10"),
            ("DC", "0.9.2342.19200300.100.1.25"),
            ("UID", "0.9.2342.19200300.100.1.1"),
            ("emailAddress", "1.2.840.113549.1.9.1"),
        ] {
            assert_eq!(
                AttributeType::parse(word),
                AttributeType::from_digits(digits),
                "{word}"
            );
        }
        for (word, content) in WORDS {
            assert_eq!(AttributeType::of(content).unwrap().to_string(), word);
        }
        for bad in [
            "",
            "3.1",
            "1.40",
            "2",
            "2.05",
            "1.2.",
            "X",
            "2.5.4.99999999999999999999",
        ] {
            assert_eq!(AttributeType::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn attribute_types_round_trip(content in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Some(kind) = AttributeType::of(&content) {
                prop_assert_eq!(AttributeType::parse(&kind.to_string()), Some(kind));
            }
        }
    }
}
