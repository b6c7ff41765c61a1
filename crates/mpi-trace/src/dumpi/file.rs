//! A rank's file: an index at its end, the stream of calls, and records about the whole.

use super::bytes::Bytes;
use crate::Fault;

/// Begins the file and its index.
pub(super) const MAGIC: u64 = 0xffaa_dd44_554d_5049;
/// Begins the footer.
pub(super) const FOOTER: u64 = 0xf007_fee7;
/// Number of functions with a counter in the footer (`DUMPI_ALL_FUNCTIONS`).
pub(super) const FUNCTIONS: usize = 290;
/// Sizes in bytes of the predefined datatypes by number, on 64-bit machines (LP64), for files
/// without sizes: before version 0.6.6 of May 2010.
const SIZES: [i32; 28] = [
    0, 0, 1, 1, 1, 1, 4, 2, 2, 4, 4, 8, 8, 4, 8, 16, 8, 8, 8, 1, 0, 0, 8, 12, 12, 6, 8, 20,
];

/// An opened file.
#[derive(Debug)]
pub(super) struct File<'a> {
    bytes: &'a [u8],
    pub version: [u8; 3],
    /// Position of the stream.
    body: usize,
    /// Sizes of the datatypes by number.
    sizes: Vec<i32>,
    /// Number of calls that the tracer's configuration omits.
    pub omitted: u64,
}

impl<'a> File<'a> {
    /// Parses the index and the records about the whole.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if the file is of another format or incomplete.
    pub fn open(bytes: &'a [u8]) -> Result<File<'a>, Fault> {
        if Bytes::new(bytes, 0).u64() != Ok(MAGIC) {
            return Err(Bytes::new(bytes, 0).fault("it is not a DUMPI file"));
        }
        // Three entries were added to the index, each at its front.
        let lengths = [8, 7, 6, 5];
        let index = lengths.into_iter().find_map(|length| {
            let mut index = Bytes::new(bytes, bytes.len().checked_sub(8 * length)?);
            (index.at > 0 && index.u64() == Ok(MAGIC)).then_some((length, index))
        });
        let Some((length, mut index)) = index else {
            let end = Bytes::new(bytes, bytes.len());
            return Err(end.fault("the file has no index: the program did not end normally"));
        };
        let mut entry = |exists: bool| match exists {
            true => index.u64(),
            false => Ok(0),
        };
        let sizes = entry(length > 7)?;
        let (_addresses, _counters) = (entry(length > 6)?, entry(length > 5)?);
        let (header, body, footer) = (entry(true)?, entry(true)?, entry(true)?);
        let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
        let mut header = Bytes::new(bytes, at(header));
        let version = [header.u8()?, header.u8()?, header.u8()?];
        Ok(File {
            bytes,
            version,
            body: at(body),
            sizes: read_sizes(bytes, at(sizes))?,
            omitted: read_omitted(bytes, at(footer))?,
        })
    }

    /// Returns the position of the stream.
    pub fn stream(&self) -> Bytes<'a> {
        Bytes::new(self.bytes, self.body)
    }

    /// Returns whether the version is at least this one.
    pub fn has(&self, version: [u8; 3]) -> bool {
        self.version >= version
    }

    /// Returns the size of a datatype in bytes.
    ///
    /// # Errors
    ///
    /// Returns the reason if it is unknown.
    pub fn size(&self, datatype: i32) -> Result<u64, String> {
        let number = usize::try_from(datatype).unwrap_or(usize::MAX);
        let size = self.sizes.get(number).or_else(|| SIZES.get(number));
        size.and_then(|&size| u64::try_from(size).ok())
            .ok_or_else(|| format!("the file has no size of datatype {datatype}"))
    }
}

fn read_sizes(bytes: &[u8], at: usize) -> Result<Vec<i32>, Fault> {
    match at {
        0 => Ok(Vec::new()),
        at => Bytes::new(bytes, at).list(),
    }
}

/// Reads the footer's number of omitted calls.
fn read_omitted(bytes: &[u8], at: usize) -> Result<u64, Fault> {
    if at == 0 {
        return Ok(0);
    }
    let mut footer = Bytes::new(bytes, at);
    if footer.u64()? != FOOTER {
        return Err(Bytes::new(bytes, at).fault("the footer has another beginning"));
    }
    footer.take(4 * (FUNCTIONS + 1))?;
    let mut sum = 0;
    for _ in 0..=FUNCTIONS {
        sum += u64::from(footer.u32()?);
    }
    Ok(sum)
}
