//! The fabric interface over the loaded libibverbs, for real adapters and the software adapter
//! alike.
//!
//! Every future here spins and is ready at its first poll. Between workload and library there are
//! only a bounds check, the filling of the C structures and a check of the stop flags once in a
//! thousand spins; `overhead` measures the cost (`cargo run --release --example overhead`), which
//! must stay under 20 ns per operation.

mod clocks;
mod exchange;
mod hosts;
mod job;
mod memory;
mod overhead;
mod packet_marks;
mod pinning;
mod process;
mod queues;
mod wait_limit;
mod write_ordering;

pub use exchange::{AT_EXCHANGE, Hub, Rendezvous, Secret, connect_to_hub};
pub use hosts::Hosts;
pub use job::{JobGroup, Placement as JobPlacement};
pub use memory::{VerbsBuffer, VerbsRegion};
pub use overhead::{Overhead, overhead};
pub use packet_marks::Marks;
pub use process::{OpenRequest, Rail, VerbsProcess};
pub use queues::{VerbsAddress, VerbsCompletions, VerbsPair, VerbsSharedReceive};
pub use wait_limit::{StopFlag, WaitLimit};
pub use write_ordering::WriteOrdering;

use crate::error::Error;

impl From<verbena_verbs::Error> for Error {
    fn from(error: verbena_verbs::Error) -> Self {
        use verbena_verbs::Error as V;
        match error {
            V::Unsupported { call, object } => Error::unsupported(call, object),
            V::Invalid { call, reason } => Error::invalid(call, reason),
            other => Error::adapter("verbs", other.to_string()),
        }
    }
}
