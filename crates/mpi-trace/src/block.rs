//! Blocks of a file. A file is a mark and blocks; each block follows its length and checksum, both
//! little-endian words of 32 bits.

use crate::Fault;

/// Beginning of a file.
pub(crate) const MARK: &[u8; 8] = b"VMPITR1\n";
const HEAD: usize = 8;

/// Returns a block's checksum: CRC-32 as in Ethernet.
pub fn checksum(block: &[u8]) -> u32 {
    crc32fast::hash(block)
}

/// Iterator over the complete blocks of a file with their positions, up to the first unreadable
/// byte.
pub(crate) struct Blocks<'a> {
    file: &'a [u8],
    at: usize,
    /// Position and fault of the first incomplete or damaged block.
    pub broken: Option<Fault>,
}

impl<'a> Blocks<'a> {
    pub fn of(file: &'a [u8]) -> Result<Blocks<'a>, Fault> {
        if !file.starts_with(MARK) {
            return Err(Fault {
                at: 0,
                reason: "not the trace of a rank: it does not begin with VMPITR1".to_owned(),
            });
        }
        Ok(Blocks {
            file,
            at: MARK.len(),
            broken: None,
        })
    }

    fn block(&self) -> Result<&'a [u8], String> {
        let rest = &self.file[self.at..];
        let Some((head, rest)) = rest.split_at_checked(HEAD) else {
            return Err("the file ends within a block's head".to_owned());
        };
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, expected) = (word(0) as usize, word(4));
        let Some(block) = rest.get(..length) else {
            return Err(format!(
                "the file ends within a block: it has {length} bytes, but {} are present",
                rest.len()
            ));
        };
        match checksum(block) == expected {
            true => Ok(block),
            false => Err("the checksum of a block is wrong".to_owned()),
        }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        if self.at == self.file.len() || self.broken.is_some() {
            return None;
        }
        match self.block() {
            Ok(block) => {
                let begin = self.at;
                self.at += HEAD + block.len();
                Some((begin, block))
            }
            Err(reason) => {
                self.broken = Some(Fault {
                    at: self.at,
                    reason,
                });
                None
            }
        }
    }
}

/// Returns a block with its length and checksum.
pub(crate) fn framed(block: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(HEAD + block.len());
    framed.extend((block.len() as u32).to_le_bytes());
    framed.extend(checksum(block).to_le_bytes());
    framed.extend(block);
    framed
}
