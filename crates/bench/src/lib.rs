//! The measuring engine. An [`Engine`](engine::Engine) runs benchmarks on targets: [`target`] finds
//! a target, and [`plan`] defines the task. Processes are started by [`local`] or a cluster's
//! launcher ([`job`]) and find each other through `rendezvous`; `model_session` runs models.
//! `session` and `result_sink` store the results. [`service`] measures the file service.
//! [`expected`] checks results against models and [`published`] figures;
//! [`reproduction`] has all published claims for a report.
//!
//! An adapter is reached only through the libibverbs that is loaded at run time (`fabric` and
//! `verbs`). The program provides everything else of the software adapter ([`host`]), and
//! benchmarks with another launcher ([`external`]).
#![forbid(unsafe_code)]

pub mod adapter;
pub mod anchors;
pub mod counters;
pub mod demo;
pub mod descendants;
pub mod engine;
mod environment;
pub mod expected;
pub mod external;
pub mod fabric_files;
mod failure;
pub mod forecast;
pub mod host;
pub mod interrupt;
pub mod ip;
pub mod job;
mod job_session;
pub mod local;
pub mod machines;
mod measure;
mod model_runner;
mod model_session;
pub mod model_target;
pub mod options;
pub mod own_profile;
pub mod packet_marks;
pub mod physical;
pub mod plan;
mod pmi;
pub mod ports;
pub mod predicted;
mod process;
pub mod profiles;
pub mod progress;
pub mod progress_line;
pub mod published;
mod rendezvous;
pub mod reproduction;
pub mod resolved;
mod result_sink;
mod runtime;
mod scale;
pub mod service;
mod session;
pub mod suggestion;
pub mod target;
pub mod temporary;
pub mod time_budget;
pub mod worker;

pub use failure::Failure;
