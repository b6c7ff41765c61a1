//! Running a program on the real library: a conductor, and a process for each of the program's.

mod binds;
mod calls;
pub mod conductor;
pub mod hosts;
mod library;
mod message;
mod modify;
mod objects;
mod observe;
mod post;
mod route;
mod threads;
mod worker;
