//! An executable specification of the verbs.
//!
//! [`mod@reference`] is the contract as a simple single-threaded machine, [`generate`] writes
//! random programs, [`execute`] runs them on the loaded libibverbs and compares everything that a
//! program can observe, and [`shrink`] reduces a program that shows a difference. `verbena-oracle`
//! repeats this for the requested time.
//!
//! **Contract.** The reference allows exactly the behaviour that the InfiniBand specification
//! (volume 1, chapters 9 to 11) and the manual pages allow, as sets where they leave freedom. It
//! does not depend on any adapter.

pub mod coverage;
pub mod execute;
pub mod generate;
pub mod program;
pub mod reference;
pub mod shrink;
