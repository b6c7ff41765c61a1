//! The results of replays as a page.

use super::super::interval::ASSUMED;
use super::table::{does, judged, limit, means, shown};
use super::{Found, OnEach, Replayed, Told};
use std::collections::BTreeSet;
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
        on: on_each.iter().map(|one| on(&on_each[0], one)).collect(),
        notes: [Told::fabrics(on_each), notes(on_each), differences.to_vec()].concat(),
    }
}

/// Returns the sources of the intervals and the rules of the verdicts, each once.
fn notes(on_each: &OnEach) -> Vec<String> {
    let intervals = on_each.iter().filter_map(|one| one.told.interval.as_ref());
    let origins = intervals.map(|one| format!("Interval {}; {ASSUMED}", one.origin()));
    let others = on_each.iter().skip(1);
    let rules = others.filter_map(|one| judged(&on_each[0], one).map(|judged| judged.rule));
    let notes: BTreeSet<String> = origins.chain(rules).collect();
    notes.into_iter().collect()
}

fn on(first: &Replayed, one: &Replayed) -> OnSystem {
    let Replayed { told, outcome, .. } = one;
    let verdict = match std::ptr::eq(first, one) {
        true => "first".to_owned(),
        false => judged(first, one).map_or("no verdict".to_owned(), |judged| {
            judged.text(&first.told.system)
        }),
    };
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
        interval: told
            .interval
            .as_ref()
            .map_or(String::new(), |one| one.range()),
        verdict,
        limit: limit(told),
    }
}
