//! Runs one launch of a file service benchmark: a new server, new clients, every point once.

use std::sync::atomic::{AtomicBool, Ordering};

use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Failure as PointFailure, Metric, PairResult, Point};
use verbena_measure::result::{Parameters, Value};
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;
use verbena_report::schema::Line;

use crate::Failure;
use crate::host::Host;
use crate::local::Ended;
use crate::plan::Task;

use super::catalogue::{self, Subject};
use super::client::{Action, Job, Sessions};
use super::daemon::{Daemon, FILE, HOT, UNFILLED};
use super::team::{Result as Transfer, Team};

/// Size from which memory copies bound a transfer, in bytes: blocks of the cache are at least this
/// large.
const COPIED: usize = 1 << 16;
const GIB: f64 = (1u64 << 30) as f64;

/// Readers in Figure 6.
const MOST_READERS: usize = 24;

/// Runs one launch and passes each record to `take` as it is measured.
///
/// # Errors
///
/// Fails if a process cannot be started, the cache cannot be warmed, or `take` fails. Failed points
/// are records.
pub fn launch(
    host: &dyn Host,
    task: &Task,
    name: &'static str,
    subject: Subject,
    number: u32,
    stop: &AtomicBool,
    mut take: impl FnMut(Line) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let cached = matches!(subject, Subject::Cached | Subject::Readers);
    let daemon = Daemon::start(host, &task.target, cached)?;
    let mut team = Team::new(host);
    let mut bench = Bench {
        task,
        name,
        number,
        subject,
        daemon: &daemon,
    };
    if cached {
        let warmed = bench.warm(&mut team);
        // The signal also ended the client, which is not a failure of the service.
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        warmed?;
    }
    for (count, size) in bench.points() {
        let point = bench.point(&mut team, count, size);
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        take(match point {
            Ok(point) => Line::Point(Box::new(point)),
            Err(Failure::Suite(reason)) => Line::Failure(PointFailure {
                benchmark: name.to_owned(),
                launch: number,
                parameters: bench.parameters(count, size),
                reason,
                unsupported: false,
            }),
            Err(other) => return Err(other),
        })?;
    }
    Ok(Ended::Well)
}

struct Bench<'a> {
    task: &'a Task,
    name: &'static str,
    number: u32,
    subject: Subject,
    daemon: &'a Daemon,
}

impl Bench<'_> {
    /// Returns the points: number of clients, and bytes per transfer.
    fn points(&self) -> Vec<(usize, u64)> {
        let quick = self.task.effort == "quick";
        if self.subject == Subject::Readers {
            let asked = self.task.pairs.as_deref();
            let asked = asked.unwrap_or(catalogue::readers(quick));
            return asked
                .iter()
                .map(|&count| (count.clamp(1, 4 * MOST_READERS), FILE))
                .collect();
        }
        let sizes: &[u64] = match quick {
            true => &[1 << 20, 1 << 25, FILE],
            false => &[
                1 << 16,
                1 << 18,
                1 << 20,
                1 << 22,
                1 << 24,
                1 << 26,
                1 << 28,
                FILE,
            ],
        };
        let asked = self.task.sizes.as_ref();
        let sizes = asked.map_or(sizes.to_vec(), |asked| {
            asked.iter().map(|&size| (size as u64).min(FILE)).collect()
        });
        sizes.into_iter().map(|size| (1, size)).collect()
    }

    fn parameters(&self, count: usize, size: u64) -> Parameters {
        let (name, value) = match self.subject {
            Subject::Readers => ("readers", count as f64),
            _ => ("size", size as f64),
        };
        Parameters::from([(name.to_owned(), Value::from(value))])
    }

    fn job(&self, size: u64) -> Job {
        let (file, action) = match self.subject {
            Subject::Unfilled => (UNFILLED, Action::Read),
            Subject::Cached | Subject::Readers => (HOT, Action::Read),
            Subject::Written => ("written", Action::Write),
        };
        Job {
            place: self.daemon.place(file),
            action,
            size,
            sessions: match self.subject {
                Subject::Readers => Sessions::One,
                _ => Sessions::Each,
            },
            begin: 0,
            end: 0,
        }
    }

    /// Reads the file into the server's cache.
    fn warm(&self, team: &mut Team<'_>) -> Result<(), Failure> {
        team.grow(1, &self.task.target, self.daemon)?;
        loop {
            let worked = team.work(1, self.job(FILE), 2_000_000_000, self.daemon)?;
            if !worked.answers[0].transfers.is_empty() {
                return Ok(());
            }
        }
    }

    fn point(&mut self, team: &mut Team<'_>, count: usize, size: u64) -> Result<Point, Failure> {
        team.grow(count, &self.task.target, self.daemon)?;
        let nanos = match (self.task.effort.as_str(), self.subject) {
            ("quick", _) => 1_000_000_000,
            (_, Subject::Readers) => 4_000_000_000,
            _ => 2_000_000_000,
        };
        let worked = team.work(count, self.job(size), nanos, self.daemon)?;
        let resident = self.daemon.resident_bytes();
        let mut warnings = Vec::new();
        // The server needs a core as well.
        if count + 1 > self.task.cores {
            warnings.push(Warning::OversubscribedCores {
                processes: count + 1,
                cores: self.task.cores,
            });
        }
        let overlap = worked.overlap();
        if overlap < 0.9 {
            warnings.push(Warning::LowOverlap {
                fraction: overlap,
                ends: None,
            });
        }
        if worked
            .answers
            .iter()
            .any(|answer| !answer.fabric && size > 1 << 16)
        {
            return Err(Failure::Suite("data did not travel by RDMA".to_owned()));
        }
        Ok(Point {
            benchmark: self.name.to_owned(),
            launch: self.number,
            parameters: self.parameters(count, size),
            metrics: self.metrics(&worked, size, resident),
            pairs: pairs(&worked),
            conduct: Conduct {
                warmup: 1,
                batch: 1,
                start_skew: Some(worked.skew()),
                overlap: Some(overlap),
                // Every block of every transfer is checked by its CRC32C, within the measured time.
                validated: true,
                ..Conduct::default()
            },
            hot_ports: Vec::new(),
            warnings,
        })
    }

    fn metrics(&self, worked: &Transfer, size: u64, resident: f64) -> Vec<Metric> {
        let (bytes, seconds) = (worked.bytes() as f64, worked.seconds());
        let bound = |value| {
            self.task
                .options(self.task.cores)
                .copy_bandwidth(COPIED)
                .map(|copy| verbena_measure::bound::Bound {
                    value: copy,
                    reason: "one core copies memory so fast".to_owned(),
                })
                .filter(|_| value > 0.0)
        };
        let headline = match self.subject {
            Subject::Readers => {
                let rate = bytes / seconds;
                Metric::figure("aggregate-bandwidth", "bytes/s", Better::Higher, rate)
                    .bounded(bound(rate))
            }
            _ => {
                // Complete transfers, including connection setup. If a large one does not fit into
                // the time, its rate so far counts.
                let whole: Vec<f64> = worked
                    .answers
                    .iter()
                    .flat_map(|answer| &answer.transfers)
                    .map(|&nanos| size as f64 / (nanos as f64 / 1e9))
                    .collect();
                match Sample::new(whole) {
                    Some(sample) => Metric::rate("bandwidth", "bytes/s", &sample),
                    None => Metric::figure("bandwidth", "bytes/s", Better::Higher, bytes / seconds),
                }
            }
        };
        let share = |name, cpu: f64| Metric::figure(name, "", Better::Lower, cpu / seconds);
        let cost =
            |name, cpu: f64| Metric::figure(name, "s/GiB", Better::Lower, cpu / (bytes / GIB));
        let mut metrics = vec![
            headline,
            share("server-cpus", worked.server_cpu),
            share("client-cpus", worked.client_cpu()),
            cost("server-cpu", worked.server_cpu),
            cost("client-cpu", worked.client_cpu()),
            Metric::figure("server-memory", "bytes", Better::Lower, resident),
        ];
        if self.subject == Subject::Readers {
            let count = worked.answers.len() as f64;
            let mean = bytes / seconds / count;
            metrics.insert(
                1,
                Metric::figure("reader-bandwidth", "bytes/s", Better::Higher, mean),
            );
        }
        metrics
    }
}

/// Returns the rate of each reader.
fn pairs(worked: &Transfer) -> Vec<PairResult> {
    let rate = |answer: &super::client::Answer| {
        let nanos = answer.ended.saturating_sub(answer.begun).max(1);
        answer.bytes as f64 / (nanos as f64 / 1e9)
    };
    if worked.answers.len() < 2 {
        return Vec::new();
    }
    worked
        .answers
        .iter()
        .enumerate()
        .map(|(index, answer)| PairResult {
            pair: index,
            ranks: [0, 1 + index],
            value: rate(answer),
            min: rate(answer),
            max: rate(answer),
        })
        .collect()
}
