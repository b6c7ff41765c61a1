//! Runs benchmarks. [`plan`] defines the task, [`target`] the target. Processes are started by
//! [`local`] or a cluster's launcher ([`job`]) and find each other through [`rendezvous`];
//! [`virtual_session`] runs models. [`session`] and [`result_sink`] store the results.

pub mod adapter;
pub mod environment;
mod hostlist;
pub mod job;
mod job_session;
pub mod local;
pub mod measure;
mod model_runner;
pub mod options;
pub mod plan;
mod pmi;
pub mod ports;
pub mod process;
pub mod progress;
pub mod rendezvous;
pub mod result_sink;
pub mod route;
pub mod runtime;
pub mod session;
pub mod table;
pub mod target;
pub mod virtual_session;
