//! `verbena faults sweep -- CMD`: fails each verbs call or request of CMD by itself.

use serde_json::json;
use verbena_faults::firing::MOST;
use verbena_faults::rule::Action;
use verbena_faults::site::Site;
use verbena_faults::status::Status;
use verbena_run::faults::sweep::{self, Case};

use super::runs::{Common, Reports, Runs, add_outcome, line};
use super::{call_failures, calls, error_number, request_sites};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::outln;

#[derive(Debug, clap::Args)]
pub(super) struct Sweep {
    /// Calls to fail, with `*` for any characters
    ///
    /// May be repeated. By default all but those that post requests and wait for events.
    #[arg(long, value_name = "PATTERN")]
    calls: Vec<String>,

    /// Fail requests and receives of queue pairs, in place of calls
    #[arg(long, conflicts_with_all = ["calls", "error", "lasting"])]
    requests: bool,

    /// Status of the requests; may be repeated. By default each that is possible
    #[arg(long, value_name = "STATUS", requires = "requests", value_parser = status)]
    status: Vec<Status>,

    /// Error of the calls; may be repeated
    #[arg(long, value_name = "ERROR", default_value = "ENOMEM", value_parser = error_number)]
    error: Vec<i32>,

    /// Let the calls after the failing one fail, too
    #[arg(long)]
    lasting: bool,

    /// Fail at most the first N of each call of a process, or operation of a queue pair
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = number::between::<u64>(1..=MOST)
    )]
    most: u64,

    #[command(flatten)]
    reports: Reports,

    #[command(flatten)]
    common: Common,
}

fn status(word: &str) -> Result<Status, String> {
    Status::named(word).ok_or_else(|| {
        let names: Vec<&str> = Status::NAMES.iter().map(|(name, _)| *name).collect();
        format!("not one of {}", names.join(", "))
    })
}

/// Runs the sweep.
pub(super) fn run(sweep: &Sweep) -> Result<Exit, Failure> {
    let mut runs = Runs::new("faults sweep", &sweep.common)?;
    let sites = match sweep.requests {
        true => request_sites(),
        false => calls(&sweep.calls)?
            .iter()
            .map(|call| Site::Call(call.name))
            .collect(),
    };
    let Some(survey) = runs.survey(&sites, sweep.most)? else {
        return Ok(Exit::Interrupted);
    };
    let cases = sweep::cases(&sites, &survey, |site| sweep.actions(site), sweep.lasting);
    if cases.is_empty() {
        return Err(Failure::Input(nothing_to_fail(sweep.requests).into()));
    }
    let kind = if sweep.requests {
        "failures"
    } else {
        "calls to fail"
    };
    outln!("{} {kind}, one in each run", cases.len());
    let width = cases.iter().map(|case| case.name().len()).max();
    let width = width.unwrap_or(0).min(60);
    let (mut outcomes, mut values) = (Vec::new(), Vec::new());
    let mut interrupted = false;
    for case in cases {
        let Some(run) = runs.one(&case.rules())? else {
            interrupted = true;
            break;
        };
        let outcome = runs.judge(case.name(), run);
        outln!("{}", line(&outcome, width));
        let mut value = as_json(&case);
        add_outcome(&mut value, &outcome);
        values.push(value);
        outcomes.push(outcome);
    }
    runs.report(&sweep.reports, &outcomes, values)?;
    Ok(match outcomes.iter().any(|one| one.verdict.is_bad()) {
        _ if interrupted => Exit::Interrupted,
        true => Exit::NegativeResult,
        false => Exit::Success,
    })
}

impl Sweep {
    /// Returns the actions that are wanted at a place.
    fn actions(&self, site: Site) -> Vec<Action> {
        match site {
            Site::Call(call) => call_failures(call, &self.error),
            _ => {
                let is_wanted = |one: &Status| self.status.is_empty() || self.status.contains(one);
                let all = Status::possible(site).filter(is_wanted);
                all.map(Action::End).collect()
            }
        }
    }
}

/// Returns the reason why there is nothing to fail.
fn nothing_to_fail(requests: bool) -> &'static str {
    match requests {
        true => {
            "the command made no requests that can end so on Verbena's adapter; programs that are \
             linked statically do not use it"
        }
        false => {
            "the command made none of these calls; programs that are linked statically or set \
             LD_PRELOAD themselves cannot be traced"
        }
    }
}

fn as_json(case: &Case) -> serde_json::Value {
    json!({
        "call": case.rule.site.to_string(),
        "number": case.count,
        "lasting": case.lasting,
        "error": case.rule.action.to_string(),
        "process": case.process,
    })
}
