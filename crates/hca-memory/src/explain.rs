//! Explains in words why access to memory is refused: repeats the checks of
//! [`resolve`](super::resolve) and describes the one that fails. Called only when reasons are
//! logged ([`verbena_hca_os::refusal`]).

use crate::resolve::{ACCESS_NULL, ACCESS_OWN_MAPPING, ACCESS_REGION, AccessRequest};
use std::fmt;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use verbena_abi::names::ACCESS_FLAGS;
use verbena_hca_shm::context_table::KeyRecord;

/// Displays access flags by name.
#[derive(Clone, Copy)]
pub struct Access(u32);

/// Returns access flags, to be displayed by name.
pub fn access_names(access: u32) -> Access {
    Access(access)
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = ACCESS_FLAGS
            .words()
            .filter(|(_, bit)| self.0 & bit != 0)
            .map(|(name, _)| format!("IBV_ACCESS_{name}"))
            .collect();
        let nameless = ACCESS_FLAGS
            .words()
            .fold(self.0, |rest, (_, bit)| rest & !bit);
        if nameless != 0 {
            parts.push(format!("{nameless:#x}"));
        }
        match parts.is_empty() {
            true => f.write_str("0 (local reads only)"),
            false => f.write_str(&parts.join("|")),
        }
    }
}

/// Displays a range by its ends and its length.
#[derive(Clone, Copy)]
pub struct Range(u64, u64);

/// Returns a range, to be displayed by its ends and its length.
pub fn range_name(address: u64, length: u64) -> Range {
    Range(address, length)
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range(from, length) = *self;
        write!(
            f,
            "[{from:#x}, {:#x}), {length} bytes",
            from.wrapping_add(length)
        )
    }
}

/// Describes the check that refuses access to `[address, address + length)`, and how to pass it;
/// None if no check refuses it now.
#[cold]
pub fn explain(
    name: &str,
    record: &KeyRecord,
    access_request: AccessRequest,
    address: u64,
    length: u64,
) -> Option<String> {
    let key = access_request.key;
    if key == 0 || record.key.load(SeqCst) != key {
        return Some(format!(
            "{name} {key:#x} is not valid: no region or window has it, or no longer \
             (deregistered, registered again, invalidated, bound again); use the current {name} \
             of the mr or mw"
        ));
    }
    if record.pd.load(Relaxed) != access_request.pd {
        return Some(format!(
            "{name} {key:#x} belongs to another protection domain than the queue pair: create \
             both in one"
        ));
    }
    let bound = record.queue_pair.load(Relaxed);
    if bound != 0 && bound != access_request.queue_pair {
        return Some(format!(
            "{name} {key:#x} belongs to a type 2 window that was bound through queue pair \
             {bound:#x}: only that queue pair can use it, not {:#x}",
            access_request.queue_pair
        ));
    }
    let access = record.access.load(Relaxed);
    let missing = access_request.access & !access;
    if missing & ACCESS_REGION != 0 {
        return Some(format!(
            "{name} {key:#x} is the rkey of a memory window: give the lkey of a region"
        ));
    }
    let access = access & !(ACCESS_REGION | ACCESS_NULL | ACCESS_OWN_MAPPING);
    if missing != 0 {
        let (access, missing) = (access_names(access), access_names(missing));
        return Some(format!(
            "{name} {key:#x} allows {access}, and {missing} is needed: \
             register or bind the memory with it"
        ));
    }
    let (start, whole) = (record.iova.load(Relaxed), record.length.load(Relaxed));
    let from = address.checked_sub(start);
    let to = from.and_then(|from| from.checked_add(length));
    to.is_none_or(|to| to > whole).then(|| {
        format!(
            "{name} {key:#x} covers {}, but {} are requested: stay inside",
            range_name(start, whole),
            range_name(address, length)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ};

    #[test]
    fn known_flags_are_named_and_unknown_ones_numbered() {
        let flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | 1 << 15;
        let names = "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ|0x8000";
        assert_eq!(access_names(flags).to_string(), names);
        assert!(access_names(0).to_string().starts_with("0 "));
    }
}
