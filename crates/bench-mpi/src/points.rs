//! Computes results from raw samples, with the statistics of all benchmarks.

use super::catalogue::{Quantity, quantity};
use super::lines::{ByRank, PrintedPoint, Rates};
use super::plan::WORD;
use std::collections::BTreeMap;
use verbena_bench::plan::Task;
use verbena_measure::bound::Bound;
use verbena_measure::result::{Conduct, Metric, PairResult, Parameters, Point, Times, Value};
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;
use verbena_workloads::rates::{Blocks, Rated, evaluate};
use verbena_workloads::{Benchmark, Processes};

/// The properties that all points of a job share.
pub struct Job<'a> {
    pub task: &'a Task,
    pub benchmark: &'a Benchmark,
    pub launch: u32,
    pub processes: usize,
    /// Not every process has an exclusive processor.
    pub unbound: bool,
}

impl Job<'_> {
    /// Returns the parameters, named as in models and imported results.
    pub fn parameters(&self, told: &PrintedPoint) -> Parameters {
        let mut named = BTreeMap::from([("transport".to_owned(), Value::from("mpi"))]);
        let mut put = |name: &str, value: usize| named.insert(name.to_owned(), Value::from(value));
        if self.benchmark.name != "mpi.barrier-latency" {
            put("size", told.size);
        }
        match self.benchmark.processes {
            Processes::Pairs => {
                put("pairs", self.processes / 2);
            }
            Processes::AtLeast(_) => {
                put("processes", self.processes);
            }
            _ => {}
        }
        if let Some([rows, columns]) = told.shape {
            put("tiles", told.size / WORD);
            put("rows", rows);
            put("columns", columns);
        }
        named
    }

    /// Computes the point.
    ///
    /// # Errors
    ///
    /// States why the samples are unusable.
    pub fn point(&self, told: &PrintedPoint) -> Result<Point, String> {
        let mut point = Point {
            benchmark: self.benchmark.name.to_owned(),
            launch: self.launch,
            parameters: self.parameters(told),
            ..Point::default()
        };
        match quantity(self.benchmark.name) {
            Some(Quantity::Stream) => self.stream(told, &mut point)?,
            Some(other) => self.times(other, told, &mut point)?,
            None => {
                return Err(format!(
                    "{} is not a benchmark of this program",
                    self.benchmark.name
                ));
            }
        }
        // A barrier moves no data that could be checked.
        point.conduct.validated = told.size > 0;
        if self.processes > self.task.cores {
            point.warnings.push(Warning::OversubscribedCores {
                processes: self.processes,
                cores: self.task.cores,
            });
        } else if self.unbound {
            point.warnings.push(Warning::Unpinned);
        }
        Ok(point)
    }

    fn times(
        &self,
        quantity: Quantity,
        told: &PrintedPoint,
        point: &mut Point,
    ) -> Result<(), String> {
        let scale = match quantity {
            Quantity::RoundTrip => 0.5,
            _ => 1.0,
        };
        let (singles, batches) = match quantity {
            Quantity::Collective => (mean_over_processes(&told.singles), Vec::new()),
            _ => (together(&told.singles), together(&told.batches)),
        };
        let sample =
            |values: Vec<f64>| Sample::new(values.into_iter().map(|nanos| nanos * scale).collect());
        let singles = sample(singles).ok_or("it printed no samples")?;
        let times = Times {
            singles,
            batches: sample(batches),
        };
        let name = match quantity {
            Quantity::RoundTrip | Quantity::PingPing => "one-way-latency",
            Quantity::Completion => "completion-latency",
            Quantity::Exchange => "exchange-time",
            _ => "average-time",
        };
        point.metrics = vec![Metric::times(name, &times)];
        if quantity == Quantity::Collective {
            let slowest = Sample::new(slowest_process(&told.singles));
            point
                .metrics
                .extend(slowest.map(|sample| Metric::time("slowest-process", &sample)));
        }
        if self.benchmark.processes == Processes::Pairs {
            point.pairs = self.pairs(&told.singles, &told.batches, scale);
        }
        point.warnings.extend(Metric::unconverged(times.level()));
        if told.batch > 1 {
            point.warnings.push(Warning::TimerOverhead {
                fraction: told.clock_share,
                batch: told.batch,
            });
        }
        point.conduct = Conduct {
            warmup: told.warmup,
            first: told.first.map(|first| first * scale),
            batch: told.batch,
            start_skew: (self.processes > 1).then_some(told.skew),
            mode: Some(match quantity {
                Quantity::Collective => "lockstep".to_owned(),
                _ => "free".to_owned(),
            }),
            ..Conduct::default()
        };
        Ok(())
    }

    fn pairs(&self, singles: &ByRank, batches: &ByRank, scale: f64) -> Vec<PairResult> {
        let half = self.processes / 2;
        let of = |pair: usize| {
            let all = Sample::new(singles[pair].clone())?;
            let level = Sample::new(batches[pair].clone());
            Some(PairResult {
                pair,
                ranks: [pair, pair + half],
                value: level.as_ref().unwrap_or(&all).median() * scale,
                min: all.min() * scale,
                max: all.max() * scale,
            })
        };
        match half {
            0 | 1 => Vec::new(),
            _ => (0..half).filter_map(of).collect(),
        }
    }

    fn stream(&self, told: &PrintedPoint, point: &mut Point) -> Result<(), String> {
        let mut in_turn = None;
        for rates in &told.rates {
            let rated = rated(rates, self.processes)?;
            match rates.name.as_str() {
                "in-turn" => {
                    point.metrics = rated.metrics(told.size, self.copies_in_turn());
                    point.conduct = Conduct {
                        footprint: told.footprint,
                        reader: Some("receiver".to_owned()),
                        ..rated.conduct
                    };
                    point.warnings = rated.warnings;
                    in_turn = Some(());
                }
                "cached" => {
                    let all = rated.metrics(told.size, self.copies(told.size));
                    // If buffers in rotation were measured too, only their message rate is
                    // reported.
                    let kept = all
                        .into_iter()
                        .filter(|metric| in_turn.is_none() || metric.name == "bandwidth");
                    point.metrics.extend(kept.map(as_cached));
                    if in_turn.is_none() {
                        point.conduct = Conduct {
                            reader: Some("nobody".to_owned()),
                            ..rated.conduct
                        };
                        point.warnings = rated.warnings;
                    }
                    if self.benchmark.processes == Processes::Pairs {
                        point.pairs = pairs_of(&rated.by_rank, told.size);
                    }
                }
                other => return Err(format!("it printed rates of {other:?}")),
            }
        }
        match point.metrics.is_empty() {
            true => Err("it printed no rates".to_owned()),
            false => Ok(()),
        }
    }

    /// All transports copy through memory of this host.
    fn copies(&self, size: usize) -> Option<Bound> {
        let value = self.task.options(self.task.cores).copy_bandwidth(size)?;
        Some(Bound {
            value,
            reason: "memory copy by one core of this host, as measured".to_owned(),
        })
    }

    fn copies_in_turn(&self) -> Option<Bound> {
        Some(Bound {
            value: self.task.copies_in_turn?,
            reason: "memory copy over buffers in turn by one core of this host, as measured"
                .to_owned(),
        })
    }
}

/// Renames the bandwidth over a single reused buffer, whose data is not read.
fn as_cached(metric: Metric) -> Metric {
    match metric.name.as_str() {
        "bandwidth" => Metric {
            name: "cached-bandwidth".to_owned(),
            ..metric
        },
        _ => metric,
    }
}

fn together(by_rank: &ByRank) -> Vec<f64> {
    by_rank.concat()
}

/// Returns the mean over processes for each operation.
fn mean_over_processes(by_rank: &ByRank) -> Vec<f64> {
    over_processes(by_rank, |values| {
        values.iter().sum::<f64>() / values.len() as f64
    })
}

/// Returns the time of the slowest process for each operation.
fn slowest_process(by_rank: &ByRank) -> Vec<f64> {
    over_processes(by_rank, |values| values.iter().copied().fold(0.0, f64::max))
}

fn over_processes(by_rank: &ByRank, of: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let operations = by_rank.iter().map(Vec::len).min().unwrap_or(0);
    let operation = |at: usize| {
        by_rank
            .iter()
            .map(|values| values[at])
            .collect::<Vec<f64>>()
    };
    (0..operations).map(|at| of(&operation(at))).collect()
}

fn rated(rates: &Rates, processes: usize) -> Result<Rated, String> {
    if rates.blocks.is_empty() || rates.blocks.iter().any(Vec::is_empty) {
        return Err("it printed a block in which no process worked".to_owned());
    }
    let blocks: Blocks = evaluate(&rates.blocks, processes, rates.messages);
    match blocks.is_empty() {
        true => Err("no block took any time".to_owned()),
        false => Ok(blocks.rated(rates.warmup)),
    }
}

fn pairs_of(by_rank: &[Option<f64>], size: usize) -> Vec<PairResult> {
    let half = by_rank.len() / 2;
    let of = |(pair, rate): (usize, &Option<f64>)| {
        let value = (*rate)? * size as f64;
        Some(PairResult {
            pair,
            ranks: [pair, pair + half],
            value,
            min: value,
            max: value,
        })
    };
    match half {
        0 | 1 => Vec::new(),
        _ => by_rank.iter().enumerate().filter_map(of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_times_have_a_mean_and_a_slowest_process() {
        let by_rank = vec![vec![1.0, 5.0, 9.0], vec![3.0, 1.0]];
        assert_eq!(mean_over_processes(&by_rank), [2.0, 3.0]);
        assert_eq!(slowest_process(&by_rank), [3.0, 5.0]);
        assert!(mean_over_processes(&vec![vec![1.0], vec![]]).is_empty());
    }

    #[test]
    fn rates_use_the_union_of_intervals() {
        let rates = Rates {
            name: "cached".to_owned(),
            messages: 10,
            warmup: 2,
            blocks: vec![vec![(0, 0.0, 950.0), (1, 50.0, 1000.0)]],
        };
        let told = rated(&rates, 4).unwrap();
        assert_eq!(told.together.unwrap().median(), 2e7);
        assert!(told.by_rank[0].is_some() && told.by_rank[2].is_none());
        assert!((told.conduct.overlap.unwrap() - 0.9).abs() < 1e-9);
        let nobody = Rates {
            blocks: vec![Vec::new()],
            ..rates
        };
        assert!(rated(&nobody, 4).is_err());
    }
}
