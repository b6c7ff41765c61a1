//! The `verbena` program: runs verbs programs on the software adapter, measures adapters, and
//! predicts them by models.
//!
//! `main` parses the arguments, runs the subcommand, and returns one exit code from the table in
//! [`exit`]. Each subcommand is a file under [`command`] and a variant of [`command::Command`].

// Square brackets in help texts are syntax of the command line.
#![allow(rustdoc::broken_intra_doc_links)]
#![forbid(unsafe_code)]

mod adapter_options;
mod command;
mod command_line;
mod emulation_options;
mod exit;
mod expect;
mod failure;
mod fault_options;
mod host;
mod interrupt;
mod knob_options;
mod measuring;
mod number;
mod profiles;
mod summary;
mod variables;

use std::process::ExitCode;

use clap::{FromArgMatches, Parser};
use verbena_bench::reproduction;
use verbena_terminal::{self as terminal, output, style};

/// InfiniBand in software: run, measure, predict, serve.
#[derive(Debug, Parser)]
#[command(name = "verbena", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: command::Command,
}

impl Arguments {
    fn parse_all() -> Result<Arguments, clap::Error> {
        let mut line = command_line::complete();
        let matches = line.try_get_matches_from_mut(std::env::args_os())?;
        Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut line))
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse_all() {
        Ok(arguments) => arguments,
        Err(message) => return exit::of_arguments(&message),
    };
    let ready = match arguments.command.becomes_program() {
        true => Ok(()),
        false => verbena_run::supervise::keep_children().map_err(failure::Failure::from),
    };
    match ready.and_then(|()| arguments.command.run()) {
        Ok(exit::Exit::Success) if output::is_lost() => exit::Exit::Environment.into(),
        Ok(code) => code.into(),
        Err(failure) => {
            eprintln!("verbena: {}", output::harmless(&failure.to_string()));
            failure.exit().into()
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_argument_table_is_consistent() {
        super::command_line::complete().debug_assert();
    }
}
