//! DCQCN, the congestion control of RoCE ports: a switch marks packets behind a long queue, the
//! receiver notifies the sender, and the sender reduces its rate for a while. Source: Zhu et al.,
//! "Congestion control for large-scale RDMA deployments", SIGCOMM 2015.
//!
//! This module has no clock, network or queue: callers pass the time and the events, and it returns
//! the reaction.

mod marking;
mod notification;
mod reaction;

pub use notification::Notification;
pub use reaction::Reaction;

pub(crate) use marking::probability;
