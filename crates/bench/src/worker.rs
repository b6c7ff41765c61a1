//! `verbena __process`: one process of a benchmark. Its launcher passes the plan in the
//! environment; results go to standard output as records.

use std::io::Write;
use std::time::Instant;

use crate::Failure;
use crate::host::Host;
use crate::plan::{LOCAL_JOB, Plan, VARIABLE};
use crate::process::{Standing, open, run_one};
use verbena_fabric::Error;
use verbena_fabric::verbs::{Rendezvous, Secret};
use verbena_report::schema::{End, Line};

/// Runs the benchmark named by the plan.
///
/// # Errors
///
/// Fails if there is no valid plan, or the benchmark fails.
pub fn run(host: &'static dyn Host) -> Result<(), Failure> {
    let text = std::env::var(VARIABLE).map_err(|_| {
        Failure::Input("this command is internal to `bench` and `evaluate`".to_owned())
    })?;
    let plan: Plan =
        serde_json::from_str(&text).map_err(|error| Failure::Input(error.to_string()))?;
    let benchmark = verbena_workloads::find(&plan.benchmark)
        .ok_or_else(|| Failure::Input(format!("no benchmark {:?}", plan.benchmark)))?;
    let started = Instant::now();
    let standing = Standing {
        rank: plan.rank,
        size: plan.size,
        job: LOCAL_JOB,
        rendezvous: &|| {
            Ok(Rendezvous::at(
                &plan.hub,
                &Secret::told(plan.secret.as_str()),
            ))
        },
        page: &plan.page,
    };
    let outcome = open(host, &plan.task, standing).and_then(|fabric| {
        run_one(
            host,
            &fabric,
            &plan.task,
            benchmark.name,
            plan.launch,
            &tell,
        )
    });
    let (word, reason) = match &outcome {
        Ok(()) => ("complete", None),
        Err(Error::Interrupted) => ("interrupted", None),
        Err(error) => ("failed", Some(error.to_string())),
    };
    if plan.rank == 0 {
        let seconds = started.elapsed().as_secs_f64();
        tell(Line::End(End {
            outcome: word.to_owned(),
            seconds,
            reason,
        }));
    }
    match outcome {
        Ok(()) | Err(Error::Interrupted) => Ok(()),
        Err(error) => Err(Failure::Suite(error.to_string())),
    }
}

/// Prints a record. Ignores write errors: if the launcher has ended, the exchange between the
/// processes fails.
fn tell(line: Line) {
    let text = serde_json::to_string(&line).expect("records are plain data");
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
