//! `verbena faults`: runs a command many times, with other faults in each run.

mod explore;
mod runs;
mod shrink;
mod sweep;

pub(super) use runs::{last_lines, write};
use verbena_coverage::errno;
use verbena_faults::call::{CALLS, Call, Class, matching};
use verbena_faults::cm::CmEvent;
use verbena_faults::rule;
use verbena_faults::site::{Objects, Operation, Site};
use verbena_faults::status::Status;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::outln;

/// What to do with faults.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Run a command once for each of its calls, which then fails
    ///
    /// First the command runs without faults, which must succeed. Then each call that it made
    /// fails, one in each run; with --requests each request, with each status. Prints how the
    /// command ended: reported (an exit code other than 0), went on (exit code 0), crashed, or
    /// hung. The exit code is 1 if a run crashed or hung.
    Sweep(Box<sweep::Sweep>),
    /// Run a command with random faults, once for each seed
    ///
    /// First the command runs without faults, which must succeed. Each further run has one to
    /// three faults: calls and requests that the command made, with other errors, events and
    /// statuses; events of its port; losses, delays and cuts of its link; a failing adapter. Where
    /// a run crashes, hangs or has a wrong exit code, the fewest and earliest faults are searched
    /// for which do the same. The exit code is 1 if there was one.
    Explore(Box<explore::Explore>),
    /// Find the fewest faults of a file with which a command still fails
    ///
    /// The command runs with fewer and fewer faults of the file, and with earlier ones, as long as
    /// it ends the same way: by the same signal, with the same exit code, or not in time. Prints
    /// the last such faults, as a file for --faults of `verbena run`.
    Shrink(Box<shrink::Shrink>),
    /// List the calls that can fail
    Calls,
    /// List the requests that can fail, and with which statuses
    Requests,
}

/// Runs the command with faults, or lists the calls or requests.
///
/// # Errors
/// Fails if the command cannot be run, or fails without faults, or a file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Calls => {
            for call in CALLS {
                let events: Vec<String> =
                    CmEvent::of(call.name).map(|one| one.to_string()).collect();
                match events.is_empty() {
                    true => outln!("{}", call.name),
                    false => outln!("{}  also by event: {}", call.name, events.join(", ")),
                }
            }
            Ok(Exit::Success)
        }
        Action::Requests => {
            for site in request_sites() {
                let statuses: Vec<String> =
                    Status::possible(site).map(|one| one.to_string()).collect();
                outln!("{:16} {}", site.to_string(), statuses.join(", "));
            }
            Ok(Exit::Success)
        }
        Action::Sweep(sweep) => sweep::run(&sweep),
        Action::Explore(explore) => explore::run(&explore),
        Action::Shrink(shrink) => shrink::run(&shrink),
    }
}

fn error_number(word: &str) -> Result<i32, String> {
    errno::number(word).ok_or_else(|| "not the name of an error, as ENOMEM".into())
}

/// Returns the failures of a call: these errors, and the events of the connection manager.
fn call_failures(call: &str, errors: &[i32]) -> Vec<rule::Action> {
    let events = CmEvent::of(call).map(rule::Action::Deliver);
    let errors = errors.iter().copied().map(rule::Action::Refuse);
    errors.chain(events).collect()
}

/// Returns each operation of each queue pair, and its receives.
fn request_sites() -> Vec<Site> {
    let of_each = |(_, operation): &(_, Operation)| Site::Requests(Objects::Each, *operation);
    let operations = Operation::NAMES.iter();
    let operations = operations.filter(|(_, operation)| *operation != Operation::Any);
    let receives = Site::Receives(Objects::Each);
    operations.map(of_each).chain([receives]).collect()
}

/// Returns the calls that match the patterns; without patterns all but those that post requests and
/// wait for events.
fn calls(patterns: &[String]) -> Result<Vec<&'static Call>, Failure> {
    if patterns.is_empty() {
        let is_control = |call: &&Call| call.class == Class::Control;
        return Ok(CALLS.iter().filter(is_control).collect());
    }
    let mut all: Vec<&'static Call> = Vec::new();
    for pattern in patterns {
        let before = all.len();
        let known = all.clone();
        all.extend(matching(pattern).filter(|call| !known.contains(call)));
        if all.len() == before && matching(pattern).next().is_none() {
            return Err(Failure::Input(format!(
                "no call that can fail matches {pattern:?}; `verbena faults calls` lists them"
            )));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_calls_once() {
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|one| (*one).into()).collect();
            calls(&patterns).map(|all| all.iter().map(|call| call.name).collect::<Vec<_>>())
        };
        let found = names(&["ibv_alloc_pd", "ibv_alloc_*"]).unwrap();
        assert_eq!(
            found.iter().filter(|name| **name == "ibv_alloc_pd").count(),
            1
        );
        assert!(found.contains(&"ibv_alloc_mw"));
        assert!(!names(&[]).unwrap().contains(&"ibv_post_send"));
        assert!(names(&["ibv_post_send"]).is_ok());
        assert!(names(&["ibv_dereg_mr"]).is_err());
    }
}
