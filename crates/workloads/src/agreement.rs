//! Agreement of all processes of a job, above all on whether a point failed.
//!
//! Every exchange of a benchmark is a *ballot*: data, "point failed", or "interrupted". The
//! exchange matches ballots in the order in which each process casts them. A process that fails
//! casts one failing ballot and leaves the point; the others receive it at their next exchange, and
//! leave the point too. So each failure costs every process exactly one round, and the next point
//! starts in step.
//!
//! A process that hangs casts no ballot: the exchange returns an empty one after its timeout. The
//! others' measurements of the point are kept ([`agree_present`]); the launch ends there, because
//! every later point would wait for that process again.

use crate::context::{Context, Record};
use std::future::Future;
use verbena_fabric::{Error, Fabric, Group};
use verbena_measure::result::{Failure, Parameters, Value};

const DATA: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;
const INTERRUPTED: u8 = 3;

/// Why a benchmark's point, or the whole run, ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// This process failed; the others do not know yet.
    Mine(Error),
    /// The point failed, and all processes know.
    Known {
        /// The reason, with the rank that reported it.
        reason: String,
        /// Whether the fabric does not support the operation.
        unsupported: bool,
    },
    /// The run ends: interrupted, a peer lost, the exchange closed, or the other processes have
    /// continued.
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

/// The result inside a point.
pub type Outcome<T> = Result<T, Stop>;

/// Casts `data` and returns the data of all processes.
///
/// # Errors
///
/// [`Stop::Known`] if a process cast a failure, [`Stop::Run`] if a process is missing or the run
/// ends.
pub async fn agree<F: Fabric>(context: &Context<'_, F>, data: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let parts = agree_present(context, data).await?;
    let all: Option<Vec<Vec<u8>>> = parts.iter().cloned().collect();
    all.ok_or_else(|| {
        let rank = parts.iter().position(Option::is_none).unwrap_or_default();
        Stop::Run(hung(rank))
    })
}

/// Like [`agree`], with `None` for a process that hangs.
///
/// # Errors
///
/// [`Stop::Known`] if a process cast a failure, [`Stop::Run`] if the run ends.
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
    Error::peer_lost(rank, "it does not respond: it did not join the exchange")
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

/// Encodes numbers for a ballot.
pub fn pack(numbers: &[f64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Decodes numbers from a ballot; an incomplete tail is dropped.
pub fn unpack(bytes: &[u8]) -> Vec<f64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| f64::from_le_bytes(*chunk))
        .collect()
}

/// Runs a point. If it fails in any process, process 0 emits a failure and all return `Ok(None)`.
///
/// # Errors
///
/// The run ends.
pub async fn attempt<F: Fabric, T>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    point: impl Future<Output = Outcome<T>>,
) -> Result<Option<T>, Error> {
    if let Some(reason) = not_asked_for(context, parameters) {
        context.emit(failure(context, parameters, reason, true));
        return Ok(None);
    }
    if context.options.lists_points {
        context.emit(failure(context, parameters, String::new(), false));
        return Ok(None);
    }
    // An interruption detected by one process ends the point for all.
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

/// Returns the reason if the user has excluded the point's transport: most benchmarks use one
/// transport only.
fn not_asked_for<F: Fabric>(context: &Context<'_, F>, parameters: &Parameters) -> Option<String> {
    // Footprints have other names as well, which cannot be selected.
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
