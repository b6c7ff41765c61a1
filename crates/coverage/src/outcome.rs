//! One outcome of a call, and its encoding in a cell of the data file.

/// Longest name of a call, in bytes.
pub const LONGEST_NAME: usize = 32;

/// Set in an operation: the message had immediate data.
pub const WITH_IMM: i32 = 1 << 16;
/// Set in an operation: the message invalidated a key.
pub const WITH_INV: i32 = 1 << 17;
/// The operation of a failed completion whose library does not tell it.
pub const UNKNOWN_OPERATION: i32 = -1;

/// An outcome that a program took: it got this completion, result or event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome<'a> {
    /// A completion: its status (`enum ibv_wc_status`), and its operation: an opcode (`enum
    /// ibv_wc_opcode`) with [`WITH_IMM`] and [`WITH_INV`], or [`UNKNOWN_OPERATION`].
    Completion(i32, i32),
    /// The result of a call: its name, at most [`LONGEST_NAME`] bytes, and `errno`, 0 for success.
    Call(&'a str, i32),
    /// A fetched asynchronous event (`enum ibv_event_type`).
    Event(i32),
    /// A fetched event of the connection manager (`enum rdma_cm_event_type`) and its status: 0, a
    /// negative `errno`, or the reason of a reject.
    CmEvent(i32, i32),
}

/// An outcome as numbers and a padded name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The variant: 1 to 4, in the order of [`Outcome`].
    pub kind: u32,
    /// The first number.
    pub first: i32,
    /// The second number, or 0.
    pub second: i32,
    /// The name of a call, padded with zeros; otherwise zeros.
    pub name: [u8; LONGEST_NAME],
}

impl Outcome<'_> {
    /// Returns its encoding. A longer name is cut.
    pub fn key(self) -> Key {
        let mut name = [0; LONGEST_NAME];
        let (kind, first, second) = match self {
            Outcome::Completion(status, operation) => (1, status, operation),
            Outcome::Call(word, errno) => {
                let length = word.len().min(LONGEST_NAME);
                name[..length].copy_from_slice(&word.as_bytes()[..length]);
                (2, errno, 0)
            }
            Outcome::Event(event) => (3, event, 0),
            Outcome::CmEvent(event, status) => (4, event, status),
        };
        Key {
            kind,
            first,
            second,
            name,
        }
    }
}

impl Key {
    /// Returns the outcome, or none if this is no encoding of one.
    pub fn outcome(&self) -> Option<Outcome<'_>> {
        let length = self.name.iter().position(|byte| *byte == 0);
        let (name, padding) = self.name.split_at(length.unwrap_or(LONGEST_NAME));
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if !name.iter().all(is_word) || padding.iter().any(|byte| *byte != 0) {
            return None;
        }
        match (self.kind, name.is_empty()) {
            (1, true) => Some(Outcome::Completion(self.first, self.second)),
            (2, false) if self.second == 0 => {
                Some(Outcome::Call(str::from_utf8(name).ok()?, self.first))
            }
            (3, true) if self.second == 0 => Some(Outcome::Event(self.first)),
            (4, true) => Some(Outcome::CmEvent(self.first, self.second)),
            _ => None,
        }
    }

    /// Returns a hash that is never 0. `stripe` distinguishes the cells in which different threads
    /// count the same outcome.
    pub fn hash(&self, stripe: u32) -> u64 {
        // FNV-1a, by words.
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = 0xcbf2_9ce4_8422_2325;
        let mut mix = |word: u64| {
            hash = (hash ^ word).wrapping_mul(PRIME);
            hash ^= hash >> 29;
        };
        mix(u64::from(self.kind) << 32 | u64::from(stripe));
        mix(u64::from(self.first as u32) << 32 | u64::from(self.second as u32));
        if self.kind == 2 {
            let (words, _) = self.name.as_chunks::<8>();
            words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        }
        hash.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_decoded_from_its_key() {
        for outcome in [
            Outcome::Completion(0, 128 | WITH_IMM),
            Outcome::Completion(12, UNKNOWN_OPERATION),
            Outcome::Call("ibv_reg_mr", libc::ENOMEM),
            Outcome::Call("rdma_a_name_of_thirty_two_bytes_", 0),
            Outcome::Event(9),
            Outcome::CmEvent(8, 28),
            Outcome::CmEvent(1, -libc::ENODEV),
        ] {
            let key = outcome.key();
            assert_eq!(key.outcome(), Some(outcome));
            assert_ne!(key.hash(0), key.hash(1));
            assert_ne!(key.hash(0), Outcome::Event(10).key().hash(0));
        }
    }

    #[test]
    fn other_bytes_are_no_outcome() {
        let good = Outcome::Call("ibv_reg_mr", 0).key();
        let mut bad = good;
        bad.name[3] = 0x1b;
        assert_eq!(bad.outcome(), None);
        bad = good;
        bad.name[31] = b'x';
        assert_eq!(bad.outcome(), None);
        for kind in [0, 1, 3, 4, 5] {
            assert_eq!(Key { kind, ..good }.outcome(), None);
        }
    }
}
