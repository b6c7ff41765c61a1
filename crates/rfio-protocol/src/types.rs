//! Field types of several messages.

use crate::codec::{Element, Field, Malformed, Reader, Writer};
use crate::message::message;
use crate::shown;

/// Longest path, in bytes: Linux's PATH_MAX without the terminator.
pub const MOST_PATH: usize = 4095;

/// Longest text, in bytes: a user's name, an error message.
pub const MOST_TEXT: usize = 1024;

/// A path in the server's file system: bytes without NUL, not necessarily UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Path(Vec<u8>);

impl Path {
    /// Returns a path, or `None` if it is too long or contains a NUL.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (bytes.len() <= MOST_PATH && !bytes.contains(&0)).then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Shown as by [`shown::bytes`].
impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown::bytes(&self.0))
    }
}

impl Field for Path {
    const SMALLEST: usize = 4;
    fn put(&self, writer: &mut Writer) {
        writer.put_count(self.0.len());
        writer.put(&self.0);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.take_count(MOST_PATH, 1, "path")?;
        let at = reader.position();
        let bytes = reader.take(count, "path")?;
        match bytes.iter().position(|&byte| byte == 0) {
            Some(nul) => Err(Malformed::Undefined {
                what: "byte of a path",
                at: at + nul,
                found: 0,
            }),
            None => Ok(Self(bytes.to_vec())),
        }
    }
}

/// Longest value of an extended attribute, in bytes: Linux's XATTR_SIZE_MAX.
pub const MOST_VALUE: usize = 65_536;

/// Opaque bytes of limited length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Bytes(Vec<u8>);

impl Bytes {
    /// Returns the bytes, or `None` if they are too long.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (bytes.len() <= MOST_VALUE).then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Field for Bytes {
    const SMALLEST: usize = 4;
    fn put(&self, writer: &mut Writer) {
        writer.put_count(self.0.len());
        writer.put(&self.0);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.take_count(MOST_VALUE, 1, "value")?;
        Ok(Self(reader.take(count, "value")?.to_vec()))
    }
}

/// Longest token, in bytes: with its length field it is the largest body before authentication.
pub const MOST_TOKEN: usize = crate::frame::MOST_BODY_UNAUTHENTICATED - 4;

/// A JSON Web Token of limited length. It is a secret: no log and no message shows it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Token(Vec<u8>);

impl Token {
    /// Returns the token, or `None` if it is too long.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (bytes.len() <= MOST_TOKEN).then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "token of {} bytes", self.0.len())
    }
}

impl Field for Token {
    const SMALLEST: usize = 4;
    fn put(&self, writer: &mut Writer) {
        writer.put_count(self.0.len());
        writer.put(&self.0);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.take_count(MOST_TOKEN, 1, "token")?;
        Ok(Self(reader.take(count, "token")?.to_vec()))
    }
}

/// Text for users and user names: UTF-8 of limited length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Text(String);

impl Text {
    /// Returns the text, truncated at a character boundary if it is too long.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        let mut end = text.len().min(MOST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self(text)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for Text {
    const SMALLEST: usize = 4;
    fn put(&self, writer: &mut Writer) {
        writer.put_count(self.0.len());
        writer.put(self.0.as_bytes());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.take_count(MOST_TEXT, 1, "text")?;
        let at = reader.position();
        match std::str::from_utf8(reader.take(count, "text")?) {
            Ok(text) => Ok(Self(text.to_owned())),
            Err(error) => Err(Malformed::Undefined {
                what: "UTF-8 in a text",
                at: at + error.valid_up_to(),
                found: 0,
            }),
        }
    }
}

/// Identifies an open file of a session: 64 bits, never reused within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

impl Field for Handle {
    const SMALLEST: usize = 8;
    fn put(&self, writer: &mut Writer) {
        self.0.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(u64::take(reader)?))
    }
}

message! {
    /// Part of a file.
    Range {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    }
}

impl Range {
    /// Returns the offset after the last byte, or `None` if it exceeds `off_t`.
    pub fn end(&self) -> Option<u64> {
        self.offset
            .checked_add(self.length.into())
            .filter(|&end| end <= i64::MAX as u64)
    }
}

impl Element for Range {
    const MOST: usize = 65_536;
    const LIST: &'static str = "vector of ranges";
}

message! {
    /// Memory of the client that the server may access for one request.
    Window {
        /// Virtual address of the first byte.
        address: u64,
        /// The client's remote key.
        key: u32,
        /// Length of the registered memory, in bytes; the server stays within it.
        length: u32,
    }
}

message! {
    /// A file's attributes.
    Attributes {
        /// Device number on the server; identifies a file together with `inode`.
        device: u64,
        /// Inode.
        inode: u64,
        /// Type and permission bits, as in `st_mode`.
        mode: u32,
        /// Hard links.
        links: u64,
        /// Owner on the server.
        owner: u32,
        /// Group on the server.
        group: u32,
        /// Bytes.
        size: u64,
        /// Allocated blocks of 512 bytes.
        blocks: u64,
        /// Last access, nanoseconds since 1970.
        accessed: i64,
        /// Last modification of the data.
        modified: i64,
        /// Last change of the inode.
        changed: i64,
        /// Changes whenever the data may have changed.
        version: u64,
        /// Whether every further change is visible in the version: false while a write may leave
        /// the file's times unchanged.
        settled: bool,
    }
}

message! {
    /// Part of a file that contains data; the rest are holes.
    Extent {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    }
}

impl Element for Extent {
    const MOST: usize = 65_536;
    const LIST: &'static str = "list of extents";
}

message! {
    /// An extended attribute of the `user.` name space (xattr(7)).
    Extended {
        /// The name, with its name space.
        name: Path,
        /// The value.
        value: Bytes,
    }
}

impl Element for Extended {
    const MOST: usize = 1024;
    const LIST: &'static str = "list of extended attributes";
}

message! {
    /// A name in a directory.
    Entry {
        /// The name, without a slash.
        name: Path,
        /// Its attributes (a symbolic link is not followed).
        attributes: Attributes,
    }
}

impl Element for Entry {
    const MOST: usize = 16_384;
    const LIST: &'static str = "list of directory entries";
}

message! {
    /// One side of a reliable connection, for the peer.
    Endpoint {
        /// Queue pair number, 24 bits.
        queue_pair: u32,
        /// First packet sequence number, 24 bits.
        sequence: u32,
        /// Local identifier; zero on Ethernet.
        lid: u16,
        /// Global identifier.
        gid: [u8; 16],
        /// Path MTU code of the verbs: 1 is 256 bytes, 5 is 4096.
        mtu: u8,
        /// Maximum of incoming RDMA reads in progress.
        reads: u8,
    }
}

/// Generators for the property tests.
#[cfg(test)]
pub mod arbitrary {
    use super::*;
    use proptest::prelude::*;

    /// A type with a generator of test values.
    pub trait Any: Sized + std::fmt::Debug {
        /// Returns the generator.
        fn any() -> BoxedStrategy<Self>;
    }

    macro_rules! plain {
        ($($type:ty),*) => { $(impl Any for $type {
            fn any() -> BoxedStrategy<Self> { proptest::prelude::any::<$type>().boxed() }
        })* };
    }
    plain!(u8, u16, u32, u64, i64, bool, [u8; 16], [u8; 32]);

    impl Any for Path {
        fn any() -> BoxedStrategy<Self> {
            proptest::collection::vec(1u8.., 0..64)
                .prop_map(|bytes| Path::new(bytes).unwrap())
                .boxed()
        }
    }

    impl Any for Bytes {
        fn any() -> BoxedStrategy<Self> {
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)
                .prop_map(|bytes| Bytes::new(bytes).unwrap())
                .boxed()
        }
    }

    impl Any for Token {
        fn any() -> BoxedStrategy<Self> {
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)
                .prop_map(|bytes| Token::new(bytes).unwrap())
                .boxed()
        }
    }

    impl Any for Text {
        fn any() -> BoxedStrategy<Self> {
            ".{0,64}".prop_map(Text::new).boxed()
        }
    }

    impl Any for Handle {
        fn any() -> BoxedStrategy<Self> {
            u64::any().prop_map(Handle).boxed()
        }
    }

    impl<T: Any + Clone + 'static> Any for Option<T> {
        fn any() -> BoxedStrategy<Self> {
            proptest::option::of(T::any()).boxed()
        }
    }

    impl<T: Any + 'static> Any for Vec<T> {
        fn any() -> BoxedStrategy<Self> {
            proptest::collection::vec(T::any(), 0..20).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_nul_is_refused_and_the_byte_is_named() {
        let mut writer = Writer::new();
        writer.put_count(3);
        writer.put(b"a\0b");
        let bytes = writer.into_bytes();
        let error = Path::take(&mut Reader::new(&bytes)).unwrap_err();
        assert_eq!(
            error,
            Malformed::Undefined {
                what: "byte of a path",
                at: 5,
                found: 0
            }
        );
    }

    #[test]
    fn ranges_beyond_the_largest_offset_are_refused() {
        assert_eq!(
            Range {
                offset: u64::MAX,
                length: 2
            }
            .end(),
            None
        );
        assert_eq!(
            Range {
                offset: i64::MAX as u64,
                length: 1
            }
            .end(),
            None
        );
        assert_eq!(
            Range {
                offset: 7,
                length: 1
            }
            .end(),
            Some(8)
        );
    }

    #[test]
    fn long_texts_are_truncated_at_character_boundaries() {
        let text = Text::new("é".repeat(MOST_TEXT));
        assert_eq!(text.as_str().len(), MOST_TEXT);
        assert!(
            Text::new("x".to_owned() + &"é".repeat(MOST_TEXT))
                .as_str()
                .len()
                < MOST_TEXT
        );
    }
}
