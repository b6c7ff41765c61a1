//! Running benchmarks: what is wanted ([`plan`]), on what ([`target`]), by which processes ([`local`], [`job`]) or on which
//! model ([`virtual_session`]), and where results go ([`session`], [`books`]).

pub mod books;
pub mod environment;
pub mod job;
pub mod local;
pub mod measure;
pub mod options;
pub mod plan;
pub mod process;
pub mod progress;
pub mod session;
pub mod target;
pub mod virtual_session;
