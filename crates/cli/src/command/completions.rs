//! `verbena completions SHELL`: prints the completion script of a shell.

use clap_complete::Shell;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::data;

/// For which shell.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Shell to complete in
    shell: Shell,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    let mut command = crate::command_line::complete();
    clap_complete::generate(arguments.shell, &mut command, "verbena", &mut text);
    data!("{}", String::from_utf8_lossy(&text));
    Ok(Exit::Success)
}
