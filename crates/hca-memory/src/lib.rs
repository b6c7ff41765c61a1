//! Registered memory: keys, regions, windows, device memory, and the arena that backs registered
//! pages.
//!
//! Registering a private anonymous range moves its whole pages into the process's arena, a shared
//! memory file mapped over the same addresses, so that peers reach them by a memory copy. Pages
//! that cannot be moved (those only partly inside the region, files, stacks, huge pages, read-only
//! memory) stay in place: peers may read them through `process_vm_readv`, and only the owner itself
//! writes them. The keys in the context table record both kinds.
//!
//! | file | contents |
//! |---|---|
//! | [`process_memory`], [`peers`] | the memory part of a process, and its view of peers |
//! | [`domain`], [`region`], [`window`], [`device`], [`dmabuf`], [`advice`] | the verbs' objects |
//! | [`key`], [`resolve`], [`known_range`] | keys, their meaning, their check, repeated checks |
//! | [`adopt`], [`restore`], [`evict`], [`fork`] | page moves: in, out, in the arena, to a child |
//! | [`fence`] | waits for accesses under ended rights |
//! | [`page_policy`] | the rule for when pages may move |
//! | [`pins`], [`extents`], [`interval`], [`quarantine`] | data structures without system calls |
//! | [`quiet`] | keeps other threads from pages that move |
//! | [`peer`], [`transfer`] | paths to a peer's memory, and copies over them |
//! | [`socket_message`] | messages by which processes share memory |
//! | [`limits`], [`quota`], [`tables`] | limits and counts of objects, their tables |

pub mod adopt;
pub mod advice;
#[cfg(test)]
mod allocation_ban;
pub mod arena;
pub mod device;
pub mod dmabuf;
pub mod domain;
pub mod evict;
pub mod explain;
pub mod extents;
pub mod fence;
pub mod fork;
pub mod fork_mutex;
pub mod interval;
pub mod key;
pub mod known_range;
pub mod limits;
pub mod page_policy;
pub mod peer;
pub mod peers;
pub mod pins;
pub mod planted;
pub mod process_memory;
pub mod quarantine;
pub mod quiet;
pub mod quota;
pub mod region;
pub mod resolve;
pub mod restore;
pub mod socket_message;
pub mod tables;
pub mod transfer;
#[cfg(test)]
mod unregistered_equivalence_tests;
pub mod window;
