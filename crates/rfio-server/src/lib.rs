//! The server of the file service: one process, a few threads, each with an event loop.
//!
//! Its [`engine`] carries out requests and knows no network: the same engine answers whether data
//! travel by RDMA or in the control connection. The protocol is the crate `verbena-rfio-protocol`
//! and the document `docs/rfio-protocol.md`. The idea of RFIO with data transfer by RDMA writes is
//! from the paper "InfiniBand - Experiences at Forschungszentrum Karlsruhe".

pub mod accounting;
pub mod addresses;
pub mod admin;
pub mod audit;
pub mod bans;
pub mod budget;
pub mod cache;
pub mod engine;
pub mod export;
pub mod exposition;
pub mod fabric;
pub mod fields;
pub mod local_user;
pub mod log;
pub mod metrics;
pub mod quota;
pub mod request_times;
pub mod rights;
pub mod running;
pub mod service;
pub mod session;
pub mod sessions;
pub mod shard;
pub mod storage;
mod sys;
pub mod tickets;
pub mod user_limits;
pub mod users;
pub mod workers;
