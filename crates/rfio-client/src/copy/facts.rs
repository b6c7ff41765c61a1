//! The attributes of a file that a copy keeps.

/// Extended attributes: names with their name space, and values.
pub type ExtendedAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// The attributes of a file that a copy needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change, in nanoseconds since 1970.
    pub modified: i64,
    /// Allocated bytes: fewer than the size if there are holes.
    pub allocated: u64,
    /// Extended attributes, if they are copied.
    pub extended: ExtendedAttributes,
}

impl FileFacts {
    /// Returns the attributes of a stream, which is read once and has no length yet. No file counts
    /// as newer than it.
    pub fn of_a_stream(mode: u32) -> Self {
        Self {
            size: 0,
            mode,
            modified: i64::MAX,
            allocated: 0,
            extended: Vec::new(),
        }
    }

    /// Returns whether the file has holes worth keeping.
    pub fn is_sparse(&self) -> bool {
        self.allocated.saturating_add(4096) <= self.size
    }
}
