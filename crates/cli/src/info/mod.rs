//! What the adapter is, and what the processes of this user are doing on it.

pub mod description;
pub mod device;
pub mod table;
