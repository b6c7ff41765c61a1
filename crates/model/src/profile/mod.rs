//! Profiles: what a host, bus, adapter, link, cable, switch or library is, as data with units and sources.
//!
//! A profile is a TOML file. Every quantity is a table `{ value, unit, tag, source }`, the tag one of `datasheet`,
//! `published`, `assumed` and `fitted`; a fitted value also has `low` and `high`, the physical bounds it must keep to. A library's choices
//! have tag and source once for a table. Nothing is
//! ignored: an unknown key, a missing unit or a value outside its bounds is an [`Error`] naming file, line and key.

mod error;
mod library;
mod overrides;
mod quantity;
mod reader;
mod schema;
mod shipped;
mod sources;

pub use error::Error;
pub use library::Library;
pub use overrides::Overrides;
pub use quantity::{Bytes, Count, Ports, Rate, Ratio};
pub use reader::{Recorded, Tag};
pub use schema::*;
