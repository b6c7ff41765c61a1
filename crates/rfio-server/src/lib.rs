//! The server of the file service: one process, a few threads, each with an event loop.
//!
//! Its `engine` carries out requests; it neither sends nor receives. The same engine answers
//! whether data travel by RDMA or in the control connection. The protocol is the crate
//! `verbena-rfio-protocol` and the document `docs/rfio-protocol.md`. The idea of RFIO with data
//! transfer by RDMA writes is from the paper "InfiniBand - Experiences at Forschungszentrum
//! Karlsruhe".
//!
//! Limits of users: [`caps`] names the capped resources, [`user_limits`] reads caps of single
//! users, `quota` counts the use, `budget` bounds the memory.

pub mod accounting;
pub mod addresses;
pub mod admin;
pub mod audit;
pub mod bans;
mod budget;
mod cache;
pub mod caps;
pub mod config_lines;
mod engine;
pub mod event_loop;
pub mod export;
pub mod exposition;
mod fabric;
pub mod local_user;
mod log;
mod metrics;
mod quota;
mod request_times;
pub mod rights;
pub mod running;
pub mod service;
pub mod session;
mod sessions;
pub mod storage;
mod sys;
pub mod tickets;
pub mod user_counters;
pub mod user_limits;
mod workers;
