//! The server: one process, a few threads, each with an event loop.

pub mod accounting;
pub mod addresses;
pub mod audit;
pub mod budget;
pub mod cache;
pub mod engine;
pub mod export;
pub mod exposition;
pub mod fabric;
pub mod log;
pub mod metrics;
pub mod quota;
pub mod request_times;
pub mod running;
pub mod service;
pub mod session;
pub mod shard;
pub mod storage;
mod sys;
pub mod tickets;
pub mod users;
pub mod workers;
