//! Recorded programs on one host: a number of processors, possibly more ranks than processors, and
//! a message-passing library with measured message times.
//!
//! Between processes of a host, messages are work of their processors, whichever path they take:
//! both ends share the time of a message from end to end ([`Costs`]). Waiting ranks poll, and yield
//! where ranks share a processor; a rank that waits beside a computing one polls again only after
//! that one's time slice ([`Machine`]). A host is thus described by measurements that do not need
//! the program: message times by size, and the length of time slices.
//!
//! The model is LogGP (Alexandrov et al., SPAA 1995) with the overheads of both ends instead of a
//! latency, because there is no wire, and with processors that ranks share.

mod costs;
mod machine;
mod mail;
mod operation;
mod rank;
mod run;

pub use costs::{Costs, TimeCurve};
pub use machine::Machine;
pub use run::{HostRun, run};
