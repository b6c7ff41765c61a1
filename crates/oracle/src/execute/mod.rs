//! Execution of a program on the real library: a runner, and one process per process of the
//! program.

mod binds;
mod calls;
mod created;
pub mod hosts;
mod message;
mod modify;
mod objects;
mod observe;
mod pairs;
mod post;
mod queues;
mod regions;
mod route;
pub mod runner;
mod threads;
mod worker;
