//! Numbers of one to ten bytes with seven bits each, least significant first; signed ones are
//! zigzag-encoded.

/// Result with a description of the problem.
pub(crate) type Result<T> = std::result::Result<T, String>;

pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn number(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for place in 0..10 {
            let Some((&byte, rest)) = self.rest.split_first() else {
                return Err("a number has no end".to_owned());
            };
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    pub fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Parses a number of items or an index.
    pub fn size(&mut self) -> Result<usize> {
        let number = self.number()?;
        match u32::try_from(number) {
            Ok(number) => Ok(number as usize),
            Err(_) => Err(format!("{number} is more than {}", u32::MAX)),
        }
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.rest.len() {
            return Err(format!(
                "{length} bytes should follow, but {} do",
                self.rest.len()
            ));
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// Parses a list preceded by its length. Each item takes at least one byte, so a forged length
    /// cannot request more memory than there are bytes.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.size()?;
        if count > self.rest.len() {
            return Err(format!(
                "{count} items should follow in {} bytes",
                self.rest.len()
            ));
        }
        (0..count).map(|_| item(self)).collect()
    }
}

pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, (number << 1 ^ number >> 63) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn number_encoding_round_trips(number: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            put_signed(&mut bytes, signed);
            let mut reader = Bytes::new(&bytes);
            prop_assert_eq!(reader.number(), Ok(number));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn unterminated_and_overlong_numbers_are_refused() {
        assert!(Bytes::new(&[0x80]).number().is_err());
        assert!(Bytes::new(&[0xff; 11]).number().is_err());
        assert!(Bytes::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]).size().is_err());
        assert!(Bytes::new(&[200]).list(Bytes::number).is_err());
    }
}
