//! The `verbena` program: runs unmodified verbs programs on the software adapter.
//!
//! `main` reads as the pipeline: arguments as typed, a plan in which everything is known, the
//! command itself, and one exit code from the table in [`exit`]. A subcommand is one file under
//! [`command`]; adding one means that file and a line in [`command::Command`].

#![forbid(unsafe_code)]

mod app;
mod capture;
mod closed_loop;
mod command;
mod doctor;
mod exit;
mod failure;
mod import;
mod info;
mod launch;
mod mpi;
mod output;
mod own_profile;
mod profiles;
mod published;
mod record;
mod replay;
mod reproduction;
mod service;
mod stats;
mod suggestion;
mod suite;
mod sweep;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// InfiniBand in software: run, measure, predict, serve.
#[derive(Debug, Parser)]
#[command(name = "verbena", version, about, after_help = exit::TABLE)]
struct Arguments {
    #[command(subcommand)]
    command: command::Command,
}

/// The command line, for what describes it.
fn command_line() -> clap::Command {
    Arguments::command()
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return exit::of_arguments(&message),
    };
    match arguments.command.run() {
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
        super::command_line().debug_assert();
    }
}
