//! Running benchmarks: what is wanted ([`plan`]), on what ([`target`]), by which processes ([`local`], [`job`], who find each
//! other by [`meeting`]) or on which model ([`virtual_session`]), and where results go ([`session`], [`books`]).

pub mod adapter;
pub mod books;
pub mod environment;
mod hostlist;
pub mod job;
mod job_session;
pub mod local;
pub mod measure;
pub mod meeting;
mod model_runner;
pub mod options;
pub mod plan;
mod pmi;
pub mod ports;
pub mod process;
pub mod progress;
pub mod route;
pub mod runtime;
pub mod session;
pub mod table;
pub mod target;
pub mod virtual_session;
