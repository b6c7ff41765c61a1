//! Cursors over message bodies: [`Reader`] decodes and [`Writer`] encodes the values of [`Field`].
//!
//! Integers are in network byte order. Texts, paths and lists begin with a 32-bit count, which is
//! compared with the type's limit and with the remaining bytes before anything is allocated.

use thiserror::Error;

/// Why a message could not be decoded, and at which byte of the body.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The body ended inside a field.
    #[error("{what} at byte {at} needs {needed} bytes, but {left} are left")]
    Short {
        /// The field's type.
        what: &'static str,
        /// Offset in the body.
        at: usize,
        /// Bytes the field needs.
        needed: usize,
        /// Bytes that remain.
        left: usize,
    },
    /// The body has bytes after the last field.
    #[error("{left} unexpected bytes after the message, from byte {at}")]
    Trailing {
        /// Offset of the first unexpected byte.
        at: usize,
        /// Number of such bytes.
        left: usize,
    },
    /// A count or length above its limit.
    #[error("{what} at byte {at} counts {found}, more than the limit of {limit}")]
    TooMany {
        /// The field's type.
        what: &'static str,
        /// Offset in the body.
        at: usize,
        /// The count on the wire.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A value outside the field's domain.
    #[error("{what} at byte {at} has the value {found:#x}, which is not defined")]
    Undefined {
        /// The field's type.
        what: &'static str,
        /// Offset in the body.
        at: usize,
        /// The value on the wire.
        found: u64,
    },
}

/// Decodes fields from a body, front to back, and counts the bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of remaining bytes.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the next `needed` bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn take(&mut self, needed: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let left = self.left();
        if needed > left {
            return Err(Malformed::Short {
                what,
                at: self.at,
                needed,
                left,
            });
        }
        let taken = &self.bytes[self.at..self.at + needed];
        self.at += needed;
        Ok(taken)
    }

    /// Returns the next `N` bytes as an array.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn take_array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    /// Returns a 32-bit count.
    ///
    /// # Errors
    /// [`Malformed::TooMany`] above `limit`, or if fewer than `count * smallest` bytes remain.
    pub fn take_count(
        &mut self,
        limit: usize,
        smallest: usize,
        what: &'static str,
    ) -> Result<usize, Malformed> {
        let at = self.at;
        let found = u32::from_be_bytes(self.take_array(what)?);
        let count = found as usize;
        if count > limit {
            return Err(Malformed::TooMany {
                what,
                at,
                found: found.into(),
                limit: limit as u64,
            });
        }
        let needed = count.saturating_mul(smallest);
        if needed > self.left() {
            return Err(Malformed::Short {
                what,
                at,
                needed,
                left: self.left(),
            });
        }
        Ok(count)
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`Malformed::Trailing`] if bytes remain.
    pub fn finish(self) -> Result<(), Malformed> {
        match self.left() {
            0 => Ok(()),
            left => Err(Malformed::Trailing { at: self.at, left }),
        }
    }
}

/// Encodes fields one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Returns an empty body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends raw bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a 32-bit count.
    ///
    /// # Panics
    /// If the count does not fit, which the limits of every list and text exclude.
    pub fn put_count(&mut self, count: usize) {
        let count = u32::try_from(count).expect("every list and text is limited far below 2^32");
        self.put(&count.to_be_bytes());
    }

    /// Returns the finished body.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A value with one encoding.
pub trait Field: Sized {
    /// The size in bytes of the shortest value; limits allocation for lists.
    const SMALLEST: usize;
    /// Encodes the value.
    fn put(&self, writer: &mut Writer);
    /// Decodes a value.
    ///
    /// # Errors
    /// Why the bytes are no value.
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// A field that may be in a list, with the limit of the list's length.
pub trait Element: Field {
    /// The largest count.
    const MOST: usize;
    /// The list's name in errors.
    const LIST: &'static str;
}

macro_rules! integer {
    ($($type:ty),*) => { $(
        impl Field for $type {
            const SMALLEST: usize = size_of::<$type>();
            fn put(&self, writer: &mut Writer) {
                writer.put(&self.to_be_bytes());
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(<$type>::from_be_bytes(reader.take_array(stringify!($type))?))
            }
        }
    )* };
}
integer!(u8, u16, u32, u64, i64);

impl Field for bool {
    const SMALLEST: usize = 1;
    fn put(&self, writer: &mut Writer) {
        writer.put(&[u8::from(*self)]);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let at = reader.position();
        match u8::take(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Malformed::Undefined {
                what: "flag",
                at,
                found: found.into(),
            }),
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    const SMALLEST: usize = N;
    fn put(&self, writer: &mut Writer) {
        writer.put(self);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.take_array("byte array")
    }
}

impl<T: Field> Field for Option<T> {
    const SMALLEST: usize = 1;
    fn put(&self, writer: &mut Writer) {
        self.is_some().put(writer);
        if let Some(value) = self {
            value.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if bool::take(reader)? {
            Ok(Some(T::take(reader)?))
        } else {
            Ok(None)
        }
    }
}

impl<T: Element> Field for Vec<T> {
    const SMALLEST: usize = 4;
    fn put(&self, writer: &mut Writer) {
        writer.put_count(self.len());
        for element in self {
            element.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.take_count(T::MOST, T::SMALLEST, T::LIST)?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(T::take(reader)?);
        }
        Ok(list)
    }
}

impl Element for u32 {
    const MOST: usize = 65_536;
    const LIST: &'static str = "list of 32-bit values";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_integer_names_offset_and_size() {
        let error = u64::take(&mut Reader::new(&[1, 2, 3])).unwrap_err();
        assert_eq!(
            error,
            Malformed::Short {
                what: "u64",
                at: 0,
                needed: 8,
                left: 3
            }
        );
    }

    #[test]
    fn a_count_beyond_the_bytes_is_refused_before_allocation() {
        let bytes = 60_000u32.to_be_bytes();
        let error = Vec::<u32>::take(&mut Reader::new(&bytes)).unwrap_err();
        assert!(
            matches!(
                error,
                Malformed::Short {
                    needed: 240_000,
                    left: 0,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_count_beyond_the_limit_is_refused() {
        let bytes = u32::MAX.to_be_bytes();
        let error = Vec::<u32>::take(&mut Reader::new(&bytes)).unwrap_err();
        assert!(
            matches!(error, Malformed::TooMany { limit: 65_536, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_flag_is_zero_or_one() {
        assert!(bool::take(&mut Reader::new(&[2])).is_err());
    }

    #[test]
    fn trailing_bytes_are_an_error() {
        let mut reader = Reader::new(&[0, 0]);
        u8::take(&mut reader).unwrap();
        assert_eq!(
            reader.finish().unwrap_err(),
            Malformed::Trailing { at: 1, left: 1 }
        );
    }
}
