//! Runs benchmarks. [`plan`] defines the task, [`target`] the target. Processes are started by
//! [`local`] or a cluster's launcher ([`job`]) and find each other through [`meeting`];
//! [`virtual_session`] runs models. [`session`] and [`books`] store the results.

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
