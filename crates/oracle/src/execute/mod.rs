//! Execution of a program on the real library: a runner, and one process per process of the
//! program.

mod binds;
mod calls;
pub mod hosts;
mod message;
mod modify;
mod objects;
mod observe;
mod post;
mod route;
pub mod runner;
mod threads;
mod worker;
