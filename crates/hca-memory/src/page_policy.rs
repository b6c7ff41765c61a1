//! The rule for when registered pages may move, chosen by `VERBENA_PAGES`.
//!
//! After ibv_reg_mr(3) the program, the kernel, devices and peers see the same bytes, as on
//! hardware, where registered pages never change. A page with a holder besides the page tables
//! ([`verbena_hca_os::pinning`]) must therefore stay in place: a private one is not adopted, and
//! peers reach it by `cma` or `ring`; one in the arena is not restored, and stays shared with the
//! arena until a later registration ends and no holder is possible.

use verbena_hca_os::errno::{Errno, Result};

/// The treatment of a region's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// They move unless there may be another holder.
    Auto,
    /// They never move.
    InPlace,
    /// They move in any case: for programs that the user knows to have no other holders.
    Shared,
}

impl Pages {
    /// Returns the choice of the environment.
    ///
    /// # Errors
    /// EINVAL, after a line on standard error, for an unknown word.
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
