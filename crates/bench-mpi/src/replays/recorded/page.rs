//! The results of replays as a page.

use super::super::comparison::{against_first, notes};
use super::super::hot_notes;
use super::super::interval::ToldInterval;
use super::table::{compared, does, means, shown, warnings};
use super::{Found, OnEach, PrintedPoint, Replayed};
use std::path::Path;
use verbena_replay::Parts;
use verbena_replay::recorded::Waited;
use verbena_report::html::{Application, Assumptions, OnSystem, Spent, application};

/// Returns the page of replays on the same models; `command` is the command line that computed
/// them, `differences` has those of the systems, `found` the search for assumed values that
/// change a verdict, if there was one.
pub fn page(
    command: &str,
    replayed: &[OnEach],
    assumptions: &[Assumptions],
    differences: &[String],
    found: Option<&Found>,
) -> String {
    let all: Vec<Application> = replayed
        .iter()
        .map(|on_each| one(on_each, differences))
        .collect();
    let changing = found.map(Found::all);
    application(command, &all, assumptions, changing.as_deref())
}

fn one(on_each: &OnEach, differences: &[String]) -> Application {
    let told = &on_each[0].told;
    let path = Path::new(&told.trace);
    let name = path.file_name().unwrap_or(path.as_os_str());
    let all = compared(on_each);
    let verdicts = against_first(&all);
    Application {
        name: format!(
            "{}, {} ranks on {} nodes{}",
            name.display(),
            told.ranks,
            told.nodes,
            told.setup.within()
        ),
        ranks: told.ranks,
        content: does(told),
        on: on_each.iter().zip(verdicts).map(on).collect(),
        notes: [
            PrintedPoint::fabrics(on_each),
            warnings(on_each),
            notes(&all),
            on_each
                .iter()
                .flat_map(|one| hot_notes(&one.told.system, &one.told.hot_ports))
                .collect(),
            differences.to_vec(),
        ]
        .concat(),
    }
}

fn on((one, verdict): (&Replayed, String)) -> OnSystem {
    let Replayed { told, outcome, .. } = one;
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
        mean: Some(means(outcome).spent(told.nanoseconds)),
        ranks: shown(outcome).into_iter().map(of_rank).collect(),
        interval: told
            .interval
            .as_ref()
            .map_or(String::new(), ToldInterval::range),
        verdict,
        limit: told.limit.clone(),
    }
}
