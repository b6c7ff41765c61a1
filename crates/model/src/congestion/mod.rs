//! DCQCN, the congestion control of RoCE ports: a switch marks packets before which too much waits, the receiver tells the sender
//! of it, and the sender sends at a lower rate for a while. Source: Zhu et al., "Congestion control for large-scale RDMA
//! deployments", SIGCOMM 2015.
//!
//! What is here has no clock, network or queue of its own: it is told what the time is and what has happened, and says what to do.

mod marking;
mod notification;
mod reaction;

pub use notification::Notification;
pub use reaction::Reaction;

pub(crate) use marking::probability;
