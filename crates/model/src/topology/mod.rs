//! The wiring of switches as given by a profile (`kind = "topology"`), and the routes of packets.
//!
//! A [`Wiring`] has switches, cables between them and nodes attached to them. The switch that holds
//! a packet, its destination and, if any, its intermediate group ([`Leg`]) determine the links over
//! which it may continue, and its class of virtual lanes there, as with forwarding tables and
//! SL-to-VL tables. Among several links the destination's number chooses (destination modulo k), or
//! the switch does ([`Routing`]). [`deadlock`] checks for possible deadlocks.

pub mod deadlock;
mod described;
mod discovered;
mod dragonfly;
mod fat_tree;
mod routing;
mod shapes;
mod table;
mod torus;
mod wiring;

pub use described::described;
pub use discovered::{Built, BuiltLink, discovered};
pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
pub use routing::{Leg, NextHop, Routing};
pub(crate) use shapes::limit;
pub use table::Table;
pub use torus::Torus;
pub use wiring::{Shape, Wiring};
