//! An executable specification of the verbs.
//!
//! [`reference`] is the contract as a simple single-threaded machine, [`generate`] writes random
//! programs, [`execute`] runs them on whichever libibverbs is loaded and compares everything that a
//! program can see, and [`shrink`] makes a program that shows a difference small. `verbena-oracle`
//! does it for as long as it is asked to.
//!
//! **Contract.** The reference allows what the InfiniBand specification (volume 1, chapters 9 to
//! 11) and the manual pages allow, as sets where they leave freedom, and no more. It knows nothing
//! of any adapter.

pub mod coverage;
pub mod execute;
pub mod generate;
pub mod program;
pub mod reference;
pub mod shrink;
