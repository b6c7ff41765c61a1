//! Writes the results of replays as a page.

use super::table::{does, means, shown};
use super::{OnEach, Replayed};
use crate::failure::Failure;
use std::path::Path;
use verbena_replay::Parts;
use verbena_replay::recorded::Waited;
use verbena_report::file::replace;
use verbena_report::html::{Application, OnSystem, Spent, application};

/// Writes the page.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(file: &Path, replayed: &[OnEach]) -> Result<(), Failure> {
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let all: Vec<Application> = replayed.iter().map(one).collect();
    replace(file, &application(&command, &all)).map_err(|source| Failure::System {
        doing: "write the page",
        source,
    })
}

fn one(on_each: &OnEach) -> Application {
    let told = &on_each[0].told;
    let path = Path::new(&told.trace);
    let name = path.file_name().unwrap_or(path.as_os_str());
    Application {
        name: format!(
            "{}, {} ranks on {} nodes",
            name.display(),
            told.ranks,
            told.nodes
        ),
        ranks: told.ranks,
        content: does(told),
        on: on_each.iter().map(on).collect(),
    }
}

fn on(Replayed { told, outcome }: &Replayed) -> OnSystem {
    let of_rank = |(rank, parts, waited): (usize, Parts, &Waited)| {
        let spent = Spent {
            computing: parts.computing.nanos(),
            overhead: parts.overhead.nanos(),
            wire: waited.wire.nanos(),
            waiting: parts.waiting.since(waited.wire).nanos(),
            // A rank's bar ends with the rank.
            done: 0.0,
        };
        (rank, spent)
    };
    OnSystem {
        system: told.system.clone(),
        took: told.nanoseconds,
        mean: means(outcome).spent(told.nanoseconds),
        ranks: shown(outcome).into_iter().map(of_rank).collect(),
    }
}
