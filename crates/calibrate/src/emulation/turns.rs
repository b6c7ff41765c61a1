//! The turns of an adapter that processes one request at a time, from streams and ping-pongs of
//! several pairs.

use super::{BySize, Error, PAIRS, Runs, values_by_size};
use verbena_emulation::operation::{Operation, Placement};
use verbena_emulation::serial::{ACTIVE, Serial, Turn};
use verbena_model::profile::System;

impl Runs<'_> {
    /// Returns the turns of a serial adapter.
    pub(super) fn turns(&self, system: &System) -> Result<Serial, Error> {
        let change = system.adapter.engines.change.unwrap_or_default();
        let mut serial = Serial::new(change.0 as f64 / 1e3);
        let by_reference = Placement::Reference;
        let mut streams = Vec::new();
        for pairs in ACTIVE {
            streams.push(self.rates("multi-pair.write-bandwidth", by_reference, Some(pairs))?);
        }
        for placement in Placement::ALL {
            let latency = self.of_all("multi-pair.write-latency", placement, "one-way-latency")?;
            for (bytes, latency) in latency {
                let Some(streams) = at_each(&streams, bytes) else {
                    continue;
                };
                // In a round trip each of the pairs sends once from each node, whose turns follow
                // each other without a gap.
                let resumed = (2.0 * latency / PAIRS as f64).min(streams[3]);
                let turn = Turn { streams, resumed };
                serial.add(Operation::Write, placement, bytes, turn);
            }
        }
        // The turn of a read has no payload: it is as long for each size. Responses to one queue
        // pair follow each other, so its reads are no faster than those of one pair.
        let together = self.reads_on_link()?;
        let alone = self.rates("bandwidth.read", by_reference, None)?;
        if let (Some((bytes, resumed)), Some(alone)) =
            (together.first_key_value(), alone.values().next())
        {
            let resumed = *resumed;
            let streams = ACTIVE.map(|pairs| (alone / pairs as f64).max(resumed));
            let turn = Turn { streams, resumed };
            serial.add(Operation::Read, by_reference, *bytes, turn);
        }
        Ok(serial)
    }

    /// Returns the nanoseconds for each read of all pairs together.
    pub(super) fn reads_on_link(&self) -> Result<BySize, Error> {
        let (benchmark, metric) = ("multi-pair.read-latency", "completion-latency");
        let times = self.of_all(benchmark, Placement::Reference, metric)?;
        let each = |(bytes, time)| (bytes, time / PAIRS as f64);
        Ok(times.into_iter().map(each).collect())
    }

    /// Returns a benchmark's mean times with all pairs: those make up the rate.
    fn of_all(
        &self,
        benchmark: &'static str,
        placement: Placement,
        metric: &str,
    ) -> Result<BySize, Error> {
        let points = self.points(benchmark, placement, Some(PAIRS))?;
        Ok(values_by_size(points.iter(), &[metric], |metric| {
            let summary = metric.summary.as_ref();
            summary.map_or(metric.value, |summary| summary.mean)
        }))
    }
}

/// Returns the figures of a size; none if one of them is missing.
fn at_each(figures: &[BySize], bytes: u64) -> Option<[f64; 4]> {
    let values: Option<Vec<f64>> = figures.iter().map(|one| one.get(&bytes).copied()).collect();
    values?.try_into().ok()
}
