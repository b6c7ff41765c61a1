//! Timing models of adapters, buses, links and hosts in virtual time.
#![deny(unsafe_code)]

pub mod adapter;
pub mod audit;
pub mod cluster;
pub mod component;
pub mod congestion;
pub mod kernel;
pub mod mpi;
pub mod profile;
pub mod software;
pub mod stage;
pub mod topology;
