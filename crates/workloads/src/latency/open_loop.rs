//! Latency under load, as an open loop: writes are due at random times drawn in advance, whether or
//! not earlier ones are complete, and each is measured from its due time (rule 13). A closed loop
//! stops posting while the adapter is slow, and so hides its queue.

use crate::agreement::{Outcome, agree, attempt, pack, unpack};
use crate::context::{Context, Mode};
use crate::latency::buffer_offsets;
use crate::parameters;
use crate::test_data::{Checked, checking_pass};
use crate::wiring::{LinkKind, Setup, Wired, wire};
use std::collections::VecDeque;
use std::time::Duration;
use verbena_fabric::*;
use verbena_measure::compare::Better;
use verbena_measure::random::Random;
use verbena_measure::recorder::Recorder;
use verbena_measure::result::{Conduct, Metric, Parameters};
use verbena_measure::sample::Sample;

/// Default payload in bytes.
const SIZE: usize = 64;
/// Maximum number of writes in flight; later ones are posted late, and the delay counts.
const WINDOW: usize = 64;
/// Maximum number of writes of a point; their times are drawn in advance.
const MOST: usize = 1 << 18;
/// Maximum number of values sent to the other processes.
const MOST_SHARED: usize = 1 << 15;

pub async fn under_load<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let sizes = context.options.sizes.as_ref();
    let size = sizes.and_then(|s| s.first().copied()).unwrap_or(SIZE);
    let all = parameters! { "size" => size, "transport" => "rc" };
    let Some(line) = attempt(context, &all, Line::new(context, pair, size)).await? else {
        return Ok(());
    };
    for percent in context.choose(
        &[10usize, 50, 90],
        &[10, 20, 30, 40, 50, 60, 70, 80, 90, 95],
    ) {
        let mut parameters = all.clone();
        parameters.insert("load-percent".to_owned(), percent.into());
        attempt(context, &parameters, line.point(&parameters, percent)).await?;
    }
    Ok(())
}

/// A connection with known capacity.
struct Line<'a, 'c, F: Fabric> {
    context: &'a Context<'c, F>,
    pair: [usize; 2],
    size: usize,
    arrival: usize,
    wired: Wired<F>,
    /// Writes per second in a closed loop.
    capacity: f64,
    warmup: u64,
}

impl<'a, 'c, F: Fabric> Line<'a, 'c, F> {
    async fn new(context: &'a Context<'c, F>, pair: [usize; 2], size: usize) -> Outcome<Self> {
        let rank = context.rank();
        let at = pair.iter().position(|&member| member == rank);
        let peers: Vec<usize> = at.map(|side| pair[1 - side]).into_iter().collect();
        let arrival = buffer_offsets::arrival(size);
        let setup = Setup::new(LinkKind::Rc, 2 * arrival + 64);
        let wired = wire(context, &peers, setup).await?;
        let (link, pass) = (at.map(|_| 0), Placement::Reference);
        checking_pass(context, &wired, link, Checked::Write, size, arrival, pass).await?;
        let mut line = Line {
            context,
            pair,
            size,
            arrival,
            wired,
            capacity: 0.0,
            warmup: 0,
        };
        let found = match rank == pair[0] {
            true => line.saturate().await?,
            false => [0.0; 2],
        };
        let all = agree(context, &pack(&found)).await?;
        let told = unpack(&all[pair[0]]);
        (line.capacity, line.warmup) = (told[0], told[1] as u64);
        Ok(line)
    }

    /// Doubles the number of writes, all due at once, until they take long enough; returns writes
    /// per second and the total number of writes.
    async fn saturate(&self) -> Result<[f64; 2]> {
        let mut count = 64;
        let mut all = 0;
        loop {
            let start = self.context.fabric.now();
            self.send(&vec![0; count], |_| {}).await?;
            let spent = self.context.nanos(self.context.fabric.now().since(start));
            all += count;
            let long = self.context.budget.warmup.max(Duration::from_micros(1));
            if spent >= long.as_nanos() as f64 || count >= MOST {
                return Ok([count as f64 / spent * 1e9, all as f64]);
            }
            count *= 2;
        }
    }

    /// Posts a write at each time in `due` (ticks after now, ascending), and passes the ticks from
    /// then to its completion to `done`.
    async fn send(&self, due: &[u64], mut done: impl FnMut(u64)) -> Result<()> {
        let fabric = self.context.fabric;
        let to = self.wired.remotes[self.pair[1]].at(self.arrival);
        let mut in_flight = VecDeque::with_capacity(WINDOW);
        let mut into = [Completion::default(); 16];
        let (start, mut posted) = (fabric.now(), 0);
        while posted < due.len() || !in_flight.is_empty() {
            let now = fabric.now();
            let comes = due.get(posted).copied();
            let is_due = comes.is_some_and(|comes| comes <= now.since(start));
            if let Some(comes) = comes.filter(|_| is_due && in_flight.len() < WINDOW) {
                let (operation, local) = (Operation::Write { to }, (0, self.size));
                let (signal, placement) = (Signal::Signalled, Placement::Reference);
                self.wired
                    .post(0, operation, local, signal, placement)
                    .await?;
                in_flight.push_back(comes);
                posted += 1;
            }
            // If nothing can be posted, wait for a completion.
            let only = comes.is_none() || in_flight.len() == WINDOW;
            let got = match only {
                true => self.wired.sends.wait(&mut into, Wait::Poll).await?,
                false => self.wired.sends.poll(&mut into).await?,
            };
            let seen = fabric.now();
            for completion in &into[..got] {
                completion.check()?;
                let comes = in_flight.pop_front().unwrap_or_default();
                done(seen.since(start).saturating_sub(comes));
            }
            // Virtual time does not pass while a process only polls.
            if seen == now && got == 0 && !is_due {
                fabric.compute(Duration::from_nanos(20)).await;
            }
        }
        Ok(())
    }

    async fn point(&self, parameters: &Parameters, percent: usize) -> Outcome<()> {
        let context = self.context;
        let rate = self.capacity * percent as f64 / 100.0;
        let seconds = (context.budget.block * context.budget.blocks).as_secs_f64();
        let count = ((rate * seconds) as usize).clamp(10, MOST);
        let mut mine = Vec::new();
        if context.rank() == self.pair[0] {
            let due = self.times(rate, count, percent as u64);
            let mut recorder = Recorder::new(count);
            let start = context.fabric.now();
            self.send(&due, |ticks| recorder.record(ticks)).await?;
            let spent = context.nanos(context.fabric.now().since(start));
            let first = recorder.samples().first().copied().unwrap_or_default();
            mine = vec![count as f64 / spent * 1e9, context.nanos(first)];
            let thin = count.div_ceil(MOST_SHARED);
            let values = recorder.samples().iter().step_by(thin);
            mine.extend(values.map(|&ticks| context.nanos(ticks)));
        }
        let all = agree(context, &pack(&mine)).await?;
        let told = unpack(&all[self.pair[0]]);
        let [achieved, first, values @ ..] = told.as_slice() else {
            return Ok(());
        };
        let Some(sample) = Sample::new(values.to_vec()) else {
            return Ok(());
        };
        let figure = |name: &str, value| Metric::figure(name, "1/s", Better::Higher, value);
        let metrics = vec![
            Metric::time("response-time", &sample),
            figure("offered-rate", rate),
            figure("achieved-rate", *achieved),
        ];
        let conduct = Conduct {
            warmup: self.warmup,
            first: Some(*first),
            batch: 1,
            mode: Some(Mode::Free.word().to_owned()),
            validated: true,
            ..Conduct::default()
        };
        context.point(parameters, metrics, Vec::new(), conduct, Vec::new(), 1);
        Ok(())
    }

    /// Returns the arrivals of a Poisson process: gaps are exponential and independent.
    fn times(&self, rate: f64, count: usize, turn: u64) -> Vec<u64> {
        let tick = self.context.fabric.clock().nanos_per_tick;
        let mean = 1e9 / rate / tick;
        let mut random = Random::new(self.context.options.seed ^ turn << 32);
        let mut at = 0.0;
        let mut next = || {
            at += -(1.0 - random.unit()).ln() * mean;
            at as u64
        };
        (0..count).map(|_| next()).collect()
    }
}
