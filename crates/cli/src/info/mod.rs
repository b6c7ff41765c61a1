//! Information on the adapter and this user's processes on it.

pub mod description;
pub mod device;
pub mod table;
