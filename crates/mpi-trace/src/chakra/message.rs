//! Fields of protobuf messages: tag, wire type, value (protobuf.dev, "Encoding").

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 5.
    Fixed32(u32),
    /// Wire type 2: a string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the bytes of a string or message.
    pub fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err("a number, where a text or message is expected".to_owned()),
        }
    }

    /// Returns the text of a string; invalid UTF-8 is replaced.
    pub fn text(self) -> Result<String, String> {
        self.bytes()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns a varint.
    pub fn varint(self) -> Result<u64, String> {
        match self {
            Value::Varint(number) => Ok(number),
            _ => Err("no varint, where one is expected".to_owned()),
        }
    }

    /// Appends the numbers of a repeated field, packed or not.
    pub fn append_to(self, numbers: &mut Vec<u64>) -> Result<(), String> {
        let mut packed = match self {
            Value::Bytes(bytes) => bytes,
            other => {
                numbers.push(other.varint()?);
                return Ok(());
            }
        };
        while !packed.is_empty() {
            numbers.push(varint(&mut packed)?);
        }
        Ok(())
    }
}

/// Iterates over the fields of a message.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>), String> {
        let tag = varint(&mut self.0)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.0)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.0)?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Value::Bytes(self.split(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("a field has wire type {other}")),
        };
        match tag >> 3 {
            0 => Err("a field has number 0".to_owned()),
            number => Ok((number, value)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.split(N)?;
        Ok(bytes.try_into().expect("it has N bytes"))
    }

    fn split(&mut self, length: usize) -> Result<&'a [u8], String> {
        let Some((bytes, rest)) = self.0.split_at_checked(length) else {
            return Err("a field ends after its message".to_owned());
        };
        self.0 = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Takes a varint of at most 64 bits from the beginning.
fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else {
            return Err("a number ends after its message".to_owned());
        };
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number has more than 64 bits".to_owned())
}
