//! `verbena help [COMMAND]`: prints the help of a subcommand, or all environment variables.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::out;
use crate::{command_line, variables};
use verbena_bench::suggestion::did_you_mean;

/// The topic that is not a subcommand.
const ENVIRONMENT: &str = "environment";

/// Arguments of `verbena help`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A command, or `environment` for all environment variables
    #[arg(value_name = "COMMAND")]
    topic: Option<String>,
}

/// Prints the help.
///
/// # Errors
///
/// Fails if there is no such topic.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Some(topic) = arguments.topic else {
        return print(&mut command_line::complete());
    };
    if topic == ENVIRONMENT {
        out!("{}", variables::all());
        return Ok(Exit::Success);
    }
    let mut all = command_line::complete();
    // Gives each subcommand its full name.
    all.build();
    match all.find_subcommand_mut(&topic) {
        Some(command) => print(command),
        None => {
            let names = all
                .get_subcommands()
                .filter(|command| !command.is_hide_set());
            let names = names.map(clap::Command::get_name).chain([ENVIRONMENT]);
            let meant = did_you_mean(&topic, names);
            let text = format!("no help on {topic:?}{meant}; `verbena help` lists the commands");
            Err(Failure::Input(text))
        }
    }
}

/// Ignores write errors: a closed pipe means that the reader has finished.
fn print(command: &mut clap::Command) -> Result<Exit, Failure> {
    let _ = command.print_long_help();
    Ok(Exit::Success)
}
