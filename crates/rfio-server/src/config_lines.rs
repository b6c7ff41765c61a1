//! Configuration files with one entry per line and fields separated by blanks: rights, local users,
//! bans.
//!
//! A field consists of bytes, as file names do. Separators are escaped as in fstab(5): `\040` is a
//! space, `\043` a `#`, `\134` a backslash. A field that begins with `#` begins a comment.

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

/// A field as written in the file, and decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) raw: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

impl Field {
    /// Returns whether the line applies to all users. A user of that name is written `\052`.
    pub(super) fn is_every_user(&self) -> bool {
        self.raw == b"*"
    }

    /// Returns the group that the line applies to, if it is one. A user name that begins with `@`
    /// is written with `\100`.
    pub(super) fn group(&self) -> Option<Result<String, String>> {
        let name = match self.raw.first() {
            Some(b'@') => &self.bytes[1..],
            _ => return None,
        };
        Some(match std::str::from_utf8(name) {
            Ok("") => Err("a group has no name".into()),
            Ok(name) => Ok(name.to_owned()),
            Err(_) => Err(format!("group '{}' is not UTF-8", name.escape_ascii())),
        })
    }

    /// Returns the names between commas. A comma in a name is written `\054`.
    pub(super) fn list(&self) -> Result<Vec<Self>, String> {
        let names = self.raw.split(|&byte| byte == b',');
        names
            .map(|name| match name {
                b"" => Err("a name between two commas is empty".into()),
                name => field(name),
            })
            .collect()
    }

    /// Returns a user's name, which must be UTF-8.
    pub(super) fn user(&self) -> Result<String, String> {
        String::from_utf8(self.bytes.clone())
            .map_err(|_| format!("user '{}' is not UTF-8", self.bytes.escape_ascii()))
    }
}

/// Iterates over the non-empty lines: the line's number and its fields.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Result<(usize, Vec<Field>), BadLine>> {
    text.split(|&byte| byte == b'\n')
        .enumerate()
        .filter_map(|(index, line)| {
            let line_number = index + 1;
            let words = line
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty())
                .take_while(|word| word[0] != b'#');
            let fields: Result<Vec<_>, String> = words.map(field).collect();
            match fields {
                Ok(fields) if fields.is_empty() => None,
                Ok(fields) => Some(Ok((line_number, fields))),
                Err(what) => Some(Err(BadLine {
                    line: line_number,
                    what,
                })),
            }
        })
}

fn field(raw: &[u8]) -> Result<Field, String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let byte = behind.get(..3).and_then(octal).ok_or_else(|| {
            format!(
                "'{}': a backslash takes three octal digits from 001 to 377, as in \\040",
                raw.escape_ascii()
            )
        })?;
        bytes.push(byte);
        rest = &behind[3..];
    }
    Ok(Field {
        raw: raw.to_vec(),
        bytes,
    })
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_octal = digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let byte = u8::from_str_radix(digits, 8).ok()?;
    (is_octal && byte != 0).then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line's number and the bytes of its fields.
    type Read = (usize, Vec<Vec<u8>>);

    fn read(text: &[u8]) -> Result<Vec<Read>, BadLine> {
        lines(text)
            .map(|line| {
                let (number, fields) = line?;
                Ok((
                    number,
                    fields.into_iter().map(|field| field.bytes).collect(),
                ))
            })
            .collect()
    }

    #[test]
    fn blanks_separate_fields_and_octal_escapes_give_bytes() {
        let text = b"# comment\n\n ann\t/a\\040b  # more\r\n\\043x\\134 \xff\n";
        let expected = vec![
            (3, vec![b"ann".to_vec(), b"/a b".to_vec()]),
            (4, vec![b"#x\\".to_vec(), vec![0xff]]),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn invalid_escapes_are_named_with_their_line() {
        for bad in [&b"\\"[..], b"a\\04", b"\\400", b"\\000", b"\\0x1", b"\\+77"] {
            let text = [b"good\n", bad].concat();
            assert_eq!(read(&text).unwrap_err().line, 2, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn an_unescaped_star_matches_every_user() {
        let fields = |text: &'static [u8]| lines(text).next().unwrap().unwrap().1;
        assert!(fields(b"*")[0].is_every_user());
        let named = &fields(b"\\052")[0];
        assert!(!named.is_every_user() && named.user().unwrap() == "*");
    }
}
