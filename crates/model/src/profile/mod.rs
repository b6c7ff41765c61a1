//! Profiles describe a host, bus, adapter, link, cable, switch or library as data with units and
//! sources.
//!
//! A profile is a TOML file. Every quantity is a table `{ value, unit, tag, source }`, the tag one
//! of `datasheet`, `published`, `assumed` and `fitted`; a fitted value also has the physical bounds
//! `low` and `high`. A library's table of choices has one tag and source for all its numbers.
//! Nothing is ignored: an unknown key, a missing unit or a value outside its bounds is an [`Error`]
//! that names file, line and key.

mod error;
mod inheritance;
mod kind;
mod library;
mod overrides;
mod quantity;
mod reader;
mod recorded;
mod schema;
mod shipped;
mod sources;

pub use error::Error;
pub use inheritance::{Basis, Inherited};
pub use kind::ProfileKind;
pub use library::Library;
pub use overrides::Overrides;
pub use quantity::{Bytes, Count, Ports, Rate, Ratio};
pub use recorded::{Recorded, Tag};
pub use schema::*;
