//! Recorded programs on one host: as many processors as it has, more ranks than these perhaps, and a message-passing library whose
//! messages take what was measured of them.
//!
//! Between processes of a host, messages are their processors' work whichever way they take: what a message takes from one end to the
//! other ([`Costs`]) is shared by its ends. Ranks that wait poll, and where ranks share a processor those that wait give way; but who
//! waits beside one that computes looks again only when that one's turn is over ([`Machine`]). So a host is described by what can be
//! measured on it without the program: times of messages by size, and how long turns are.
//!
//! LogGP (Alexandrov et al., SPAA 1995) with the overheads of both ends instead of a latency, for there is no wire, and with processors
//! that ranks share.

mod costs;
mod machine;
mod rank;
mod run;

pub use costs::{Costs, Curve};
pub use machine::Machine;
pub use run::{Endless, Outcome, run};
