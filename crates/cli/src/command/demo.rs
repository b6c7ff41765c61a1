//! `verbena demo`: two processes on the adapter, an explained mistake, and a comparison with
//! hardware, in ten seconds.

use crate::demo;
use crate::exit::Exit;
use crate::failure::Failure;

/// `verbena demo` takes no arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

pub fn run(_arguments: Arguments) -> Result<Exit, Failure> {
    demo::show()
}
