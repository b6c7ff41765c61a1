//! How all processes of a job agree, above all on whether a point failed.
//!
//! Every exchange of a benchmark is a *ballot*: data, or "my point failed", or "I was interrupted". The exchange pairs
//! ballots in the order in which each process casts them. A process that fails casts one failing ballot and leaves the
//! point; the others meet that ballot at whatever exchange they come to next, and leave the point too. So each failure
//! costs every process exactly one round, and the next point starts in step.
//!
//! A process that hangs casts nothing: its ballot comes back empty once the exchange gave it up. What the others measured
//! of the point is kept ([`agree_present`]); the launch ends there, for every later point would wait for it again.

use crate::context::{Context, Record};
use std::future::Future;
use verbena_fabric::{Error, Fabric, Group};
use verbena_measure::result::{Failure, Parameters, Value};

const DATA: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;
const INTERRUPTED: u8 = 3;

/// Why a benchmark's point, or all of it, ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// This process failed; the others do not know yet.
    Mine(Error),
    /// The point failed, and everybody knows.
    Known {
        /// Why, with the rank that said so.
        reason: String,
        /// Whether the fabric simply has no such thing.
        unsupported: bool,
    },
    /// The run is over: interrupted, a peer lost, the exchange gone, the others gone on.
    Run(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::PeerLost { .. } | Error::LeftBehind => Stop::Run(error),
            other => Stop::Mine(other),
        }
    }
}

/// Result inside a point.
pub type Outcome<T> = Result<T, Stop>;

/// Casts `data` and gives everybody's, or the failure that somebody cast. The absence of a process ends the run.
pub async fn agree<F: Fabric>(context: &Context<'_, F>, data: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let parts = agree_present(context, data).await?;
    let all: Option<Vec<Vec<u8>>> = parts.iter().cloned().collect();
    all.ok_or_else(|| {
        let rank = parts.iter().position(Option::is_none).unwrap_or_default();
        Stop::Run(hung(rank))
    })
}

/// As [`agree`], with `None` for a process that hangs.
pub async fn agree_present<F: Fabric>(
    context: &Context<'_, F>,
    data: &[u8],
) -> Outcome<Vec<Option<Vec<u8>>>> {
    let mut ballot = vec![DATA];
    ballot.extend_from_slice(data);
    let ballots = cast(context, &ballot).await?;
    let part = |ballot: Vec<u8>| ballot.split_first().map(|(_, data)| data.to_vec());
    Ok(ballots.into_iter().map(part).collect())
}

fn hung(rank: usize) -> Error {
    Error::peer_lost(rank, "it hangs: it did not come to the exchange")
}

async fn cast<F: Fabric>(context: &Context<'_, F>, ballot: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let ballots = context
        .fabric
        .group()
        .all_gather(ballot)
        .await
        .map_err(Stop::Run)?;
    if ballots
        .iter()
        .any(|ballot| ballot.first() == Some(&INTERRUPTED))
    {
        return Err(Stop::Run(Error::Interrupted));
    }
    for (rank, ballot) in ballots.iter().enumerate() {
        let Some((&kind, text)) = ballot.split_first() else {
            continue;
        };
        if kind != DATA {
            let text = String::from_utf8_lossy(text);
            let unsupported = kind == UNSUPPORTED;
            let reason = if unsupported {
                text.into_owned()
            } else {
                format!("process {rank}: {text}")
            };
            return Err(Stop::Known {
                reason,
                unsupported,
            });
        }
    }
    Ok(ballots)
}

/// Numbers for a ballot.
pub fn pack(numbers: &[f64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Numbers from a ballot; an odd tail is dropped.
pub fn unpack(bytes: &[u8]) -> Vec<f64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| f64::from_le_bytes(*chunk))
        .collect()
}

/// Runs a point. When it fails in any process, process 0 emits a failure and all go on with `Ok(None)`; only the end of
/// the run is an error.
pub async fn attempt<F: Fabric, T>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    point: impl Future<Output = Outcome<T>>,
) -> Result<Option<T>, Error> {
    if let Some(reason) = not_asked_for(context, parameters) {
        context.emit(failure(context, parameters, reason, true));
        return Ok(None);
    }
    // An interruption noticed by one process ends the point for all.
    let outcome = match point.await {
        Ok(_) if context.fabric.stopping() => Err(Stop::Mine(Error::Interrupted)),
        Ok(value) => agree(context, &[]).await.map(|_| value),
        Err(stop) => Err(stop),
    };
    let known = match outcome {
        Ok(value) => return Ok(Some(value)),
        Err(Stop::Mine(error)) => {
            let mut ballot = vec![match &error {
                Error::Interrupted => INTERRUPTED,
                Error::Unsupported { .. } => UNSUPPORTED,
                _ => FAILED,
            }];
            ballot.extend(error.to_string().bytes());
            match cast(context, &ballot).await {
                Ok(_) => unreachable!("a failing ballot was cast"),
                Err(stop) => stop,
            }
        }
        Err(stop) => stop,
    };
    match known {
        Stop::Run(error) | Stop::Mine(error) => Err(error),
        Stop::Known {
            reason,
            unsupported,
        } => {
            context.emit(failure(context, parameters, reason, unsupported));
            Ok(None)
        }
    }
}

/// Why a point is none of those that the user wants: most benchmarks go over one transport, whatever is asked for.
fn not_asked_for<F: Fabric>(context: &Context<'_, F>, parameters: &Parameters) -> Option<String> {
    // Footprints are told under other words as well, which nobody can ask for.
    const TRANSPORTS: [&str; 4] = ["rc", "uc", "ud", "xrc"];
    let Some(Value::Word(transport)) = parameters.get("transport") else {
        return None;
    };
    let is_left_out = TRANSPORTS.contains(&&**transport) && !context.wants(transport);
    is_left_out.then(|| format!("it is measured over {transport}, which --transports leaves out"))
}

fn failure<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    reason: String,
    unsupported: bool,
) -> Record {
    Record::Failure(Failure {
        benchmark: context.benchmark.to_owned(),
        launch: context.launch,
        parameters: parameters.clone(),
        reason,
        unsupported,
    })
}
