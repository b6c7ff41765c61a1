//! Registered memory: keys, regions, windows, device memory, and the arena in which registered pages live.
//!
//! Registering a private anonymous range moves its whole pages into the process's arena, a shared memory file mapped
//! over the same addresses, so that peers reach them by a memory copy. What cannot be moved (pages only partly inside
//! the region, files, stacks, huge pages, read-only memory) stays where it is and is reached through
//! `process_vm_writev` or by the owner itself. A record of both is kept in the desk's key table.

pub mod adopt;
pub mod advice;
pub mod arena;
pub mod device;
pub mod fork;
pub mod key;
pub mod place;
pub mod region;
pub mod transfer;
pub mod window;
