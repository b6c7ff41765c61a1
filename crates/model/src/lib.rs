//! Timing models of adapters, buses, links and hosts in virtual time.
//!
//! | module | subject |
//! |---|---|
//! | [`profile`] | parameters with unit, source and tag, read from files |
//! | [`kernel`] | the discrete-event simulation: calendar, tasks, random numbers |
//! | [`component`] | buses, links, switches and their servers |
//! | [`topology`] | how switches are joined, and routes |
//! | [`congestion`] | congestion control of RoCE ports |
//! | [`adapter`] | channel adapters and their queue pairs |
//! | [`software`] | the software adapter |
//! | [`cluster`] | nodes with adapters on a network |
//! | [`mpi`] | MPI libraries: protocols, matching, collectives |
//! | [`correction`] | corrections of a system by measurements |
//! | [`stage`], [`audit`] | stages of an operation; conservation laws |
//! | [`traffic`] | the traffic of links and buses, and the bottleneck |
#![deny(unsafe_code)]

pub mod adapter;
pub mod audit;
pub mod cluster;
pub mod component;
pub mod congestion;
pub mod correction;
pub mod kernel;
pub mod mpi;
pub mod profile;
pub mod software;
pub mod stage;
pub mod threads;
pub mod topology;
pub mod traffic;
