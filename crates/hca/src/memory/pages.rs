//! When registered pages may change their home: the rule that `VERBENA_PAGES` chooses.
//!
//! **The rule.** After ibv_reg_mr(3) the program, the kernel, devices and peers see the same bytes,
//! as on hardware, where
//! registered pages stay what they are. A page that something holds beside the page tables (see
//! [`crate::sys::pinning`])
//! must therefore stay where it is: a private one is not adopted, and peers reach it by `cma` or
//! `ring`; one in the
//! arena is not given back, and stays shared with the arena until a later registration ends and
//! nothing may hold it.

use crate::errno::{Errno, Result};

/// What is done with the pages of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// They move unless something may hold them.
    Auto,
    /// They never move.
    InPlace,
    /// They move whatever holds them: for programs of which the user knows that nothing does.
    Shared,
}

impl Pages {
    /// What the environment says.
    ///
    /// # Errors
    /// EINVAL, after a line on standard error, for another word.
    pub fn from_environment() -> Result<Pages> {
        match std::env::var("VERBENA_PAGES").as_deref() {
            Err(_) | Ok("" | "auto") => Ok(Pages::Auto),
            Ok("in-place") => Ok(Pages::InPlace),
            Ok("shared") => Ok(Pages::Shared),
            Ok(other) => {
                eprintln!("verbena: VERBENA_PAGES is `{other}`; use auto, in-place or shared");
                Err(Errno::EINVAL)
            }
        }
    }
}
