//! The server: one process, a few threads, each with an event loop.

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
pub mod identity;
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
pub mod workers;
